"""Compactions of some runs that look up what the others hold: first-row, deletion vectors, ``force-lookup``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from compact_support import deleted, index_entries, live

import paimon_pyds as pp
from support.values import in_order, lines

SCHEMA = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.int64()), ("s", pa.int32())])
VECTORS = {"deletion-vectors.enabled": "true"}
KEYS = 4000


def _make(path: Path, options: Mapping[str, str]) -> pp.Table:
    """A table with some keys on the highest level, each with v=1 and s=5."""
    table = pp.Table.create(path, SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true", **options})
    _append(table, range(KEYS), 1)
    table.compact(full=True)
    return table


def _append(table: pp.Table, keys: Iterable[int], v: int, s: int = 5, kind: str = "+I") -> None:
    keys = list(keys)
    rows = pa.table([keys, [v] * len(keys), [s] * len(keys)], schema=SCHEMA)
    rows = rows.append_column("kind", pa.array([kind] * len(keys)))
    table.append(rows, options={"rowkind-column": "kind"})


def _values(table: pp.Table) -> dict[int, int]:
    found = table.scan(columns=["k", "v"]).to_arrow().to_pydict()
    assert len(set(found["k"])) == len(found["k"])
    return dict(zip(found["k"], found["v"], strict=True))


def _levels(table: pp.Table) -> list[int]:
    return sorted(live(table)["level"].to_pylist())


@pytest.mark.parametrize("bits", ["false", "true"])
@pytest.mark.parametrize("options", [{}, {"sequence.field": "s"}, {"ignore-delete": "true"}])
def test_vectors_hide_the_versions_that_are_replaced(tmp_path: Path, options: dict[str, str], bits: str) -> None:
    table = _make(tmp_path / "t", {**VECTORS, **options, "deletion-vectors.bitmap64": bits})
    expected = dict.fromkeys(range(KEYS), 1)
    for number, keys in enumerate([range(3, 6), range(5, 8), range(KEYS - 1, KEYS + 2)], 2):
        _append(table, keys, number)
        table.compact()
        assert 0 not in _levels(table)
        expected |= dict.fromkeys(keys, number)
        assert _values(table) == expected
    _append(table, [6], 0, kind="-D")
    table.compact()
    if "ignore-delete" not in options:
        del expected[6]
    assert _values(table) == expected
    assert len(_levels(table)) > 1
    assert deleted(table) >= 6
    assert len(index_entries(table)) == 1


def test_older_sequences_lose_against_rows_that_are_looked_up(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", {**VECTORS, "sequence.field": "s"})
    _append(table, range(10), 2, s=4)
    _append(table, range(10, 20), 2, s=6)
    table.compact()
    assert _levels(table) == [4, 5]
    assert _values(table) == {k: 2 if 10 <= k < 20 else 1 for k in range(KEYS)}


@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
@pytest.mark.parametrize("mode", [VECTORS, {"force-lookup": "true"}])
def test_older_rows_take_part_in_merges(tmp_path: Path, engine: str, mode: dict[str, str]) -> None:
    options = {"merge-engine": engine, "fields.v.aggregate-function": "sum"}
    if engine == "partial-update":
        options["fields.s.sequence-group"] = "v"
    table = pp.Table.create(
        tmp_path / "t", SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true", **options, **mode}
    )
    for number in range(4):
        rows = pa.table(
            [range(KEYS >> 3 * number), [1] * (KEYS >> 3 * number), [5] * (KEYS >> 3 * number)], schema=SCHEMA
        )
        table.append(rows)
        table.compact(full=number == 0)
        assert 0 not in _levels(table)
    assert len(_levels(table)) > 1
    assert _values(table) == {k: sum(k < KEYS >> 3 * number for number in range(4)) for k in range(KEYS)}
    table.compact(full=True)
    assert _values(table) == {k: sum(k < KEYS >> 3 * number for number in range(4)) for k in range(KEYS)}


def test_first_rows_stay_and_later_ones_are_dropped(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", {"merge-engine": "first-row"})
    for number, keys in enumerate([range(KEYS - 10, KEYS + 10), range(KEYS + 5, KEYS + 15), [3, 9999]], 2):
        _append(table, keys, number)
        table.compact()
    expected = dict.fromkeys(range(KEYS), 1) | dict.fromkeys(range(KEYS + 10, KEYS + 15), 3) | {9999: 4}
    assert _values(table) == expected | dict.fromkeys(range(KEYS, KEYS + 10), 2)
    assert len(_levels(table)) > 1
    assert sum(live(table)["row_count"].to_pylist()) == KEYS + 16
    before = in_order(lines(table.scan().to_arrow()))
    table.compact(full=True)
    assert in_order(lines(table.scan().to_arrow())) == before
