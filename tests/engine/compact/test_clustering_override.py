"""Compaction of tables with ``pk-clustering-override``: which files are rewritten, and what they are like."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.row import decode_rows
from paimon_pyds.base.types import parse_type
from paimon_pyds.engine.compact import key_task
from paimon_pyds.engine.compact.clustered_plan import clustered_steps
from paimon_pyds.engine.compact.universal import LevelFile, UniversalRules
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import CorruptFileError, OptionError
from support.effort import LONG
from support.peers import Pypaimon, Rust
from support.v2_fixtures import v2_table

OPTIONS = {
    "bucket": "1", "pk-clustering-override": "true", "clustering.columns": "c,v", "deletion-vectors.enabled": "true",
}  # fmt: skip
_COLUMNS = "k INT NOT NULL, c STRING, v INT"


def _table(path: Path, **more: str) -> pp.Table:
    return pp.Table.create(path, _COLUMNS, primary_key="k", options={**OPTIONS, **more})


def _rows(table: pp.Table) -> dict[int, Any]:
    found = table.to_arrow().to_pylist()
    rows = {row["k"]: (row["c"], row["v"]) for row in found}
    assert len(rows) == len(found)
    return rows


def _files(table: pp.Table) -> list[dict[str, Any]]:
    return live_of(table._store, table.snapshots.latest()).to_pylist()


def _starts(files: list[dict[str, Any]]) -> list[int]:
    return [0, *accumulate(file["row_count"] for file in files)][:-1]


def test_files_are_sorted_by_the_clustering_columns_whose_ends_the_manifest_has(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"target-file-size": "1 b", "file-index.bitmap.columns": "v"})
    random = Random(3)
    rows = {k: (random.choice(["a", "b", None]), random.randrange(5)) for k in range(10)}
    table.append([{"k": k, "c": c, "v": v} for k, (c, v) in rows.items()])
    assert _rows(table) == rows
    files = _files(table)
    assert len(files) > 2
    assert {file["level"] for file in files} == {1}
    types = [parse_type("STRING"), parse_type("INT")]
    ends = pa.array([file[end] for file in files for end in ("min_key", "max_key")], pa.binary())
    columns = [column.to_pylist() for column in decode_rows(ends, types, arity=True)]
    listed = list(zip(*columns, strict=True))
    order = sorted(rows.values(), key=lambda row: (row[0] is not None, row[0] or "", row[1]))
    ends_of = [(order[at], order[at + file["row_count"] - 1]) for at, file in zip(_starts(files), files, strict=True)]
    assert listed == [end for both in ends_of for end in both]
    for v in range(5):
        assert table.scan(f"v = {v}").count() == sum(row[1] == v for row in rows.values())
    assert len(table.scan("c = 'b'").plan().files) < len(files)
    assert not table.maintenance.verify(deep=True).findings


def test_a_full_compaction_leaves_one_run_and_then_has_nothing_to_do(tmp_path: Path) -> None:
    table, rows = _table(tmp_path / "t", **{"target-file-row-num": "3"}), dict[int, Any]()
    for number in range(4):
        new = {k: ("ab"[k % 2], number) for k in range(number, 20, number + 1)}
        table.append([{"k": k, "c": c, "v": v} for k, (c, v) in new.items()])
        rows |= new
    table.delete("k IN (1, 8)")
    rows = {k: row for k, row in rows.items() if k not in (1, 8)}
    assert _rows(table) == rows
    table.compact(full=True)
    assert _rows(table) == rows
    assert sum(file["row_count"] for file in _files(table)) == len(rows)
    assert not table.compact(full=True).groups


def test_many_keys_are_looked_up_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_task, "LOOKED_UP_BYTES", 1)
    table = _table(tmp_path / "t", **{"write-only": "true"})
    for number in range(3):
        table.append([{"k": k, "c": f"{k * 7 % 11}", "v": number} for k in range(0, 30, number + 1)])
    table.compact()
    table.append([{"k": k, "c": None, "v": 9} for k in range(5, 15)])
    table.compact()
    assert _rows(table) == {
        k: (None, 9) if 5 <= k < 15 else (f"{k * 7 % 11}", max(n for n in range(3) if k % (n + 1) == 0))
        for k in range(30)
    }


def test_the_table_of_the_spark_connector_is_written_on(tmp_path: Path) -> None:
    shutil.copytree(v2_table("pk_clustering"), tmp_path / "t")
    table = pp.Table.open(tmp_path / "t")
    before = {row["id"]: row for row in table.to_arrow().to_pylist()}
    key = min(before)
    changed = {**before[key], "city": "new"}
    table.append([changed, {**changed, "id": 1000}])
    table.delete(f"id = {max(before)}")
    del before[max(before)]
    expected = sorted((before | {key: changed, 1000: {**changed, "id": 1000}}).values(), key=lambda row: row["id"])
    assert table.to_arrow().sort_by("id").to_pylist() == expected
    table.compact(full=True)
    assert table.to_arrow().sort_by("id").to_pylist() == expected
    assert len(_files(table)) == 1
    assert not table.maintenance.verify(deep=True).findings


@pytest.mark.parametrize("peer", [Rust, Pypaimon])
def test_other_writers_read_it(tmp_path: Path, peer: type[Rust | Pypaimon]) -> None:
    other = peer(tmp_path)
    table = _table(tmp_path / "db.db" / "t", bucket="2")
    for number in range(4):
        table.append([{"k": k, "c": "abc"[k * number % 3], "v": number} for k in range(number, 30, number + 1)])
    table.delete("k < 5")
    found = other.read("t").to_pylist()
    assert {row["k"]: (row["c"], row["v"]) for row in found} == _rows(table)
    assert len(found) == 25


def test_the_clustering_columns_stay(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.append([{"k": 1, "c": "a", "v": 1}])
    for change in ({"clustering.columns": "v"}, {"pk-clustering-override": "false"}):
        with pytest.raises(OptionError, match="can't be changed"):
            table.alter(change)


def test_a_damaged_vector_is_an_error_and_no_version_comes_back(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.append([{"k": k, "c": "a", "v": k} for k in range(10)])
    table.append([{"k": 2, "c": "a", "v": 0}])
    for vectors in (tmp_path / "t" / "index").iterdir():
        vectors.write_bytes(bytes(vectors.stat().st_size))
    with pytest.raises(CorruptFileError):
        table.to_arrow()
    with pytest.raises(CorruptFileError):
        table.compact(full=True)


_KEYS = st.lists(st.integers(0, 12), min_size=1, max_size=8)
_OPERATIONS = st.lists(st.tuples(st.sampled_from(["+I", "-D", "+I", "compact", "full"]), _KEYS), max_size=7)
_FILTERS: dict[str, Callable[[int, str | None, int], bool]] = {
    "k < 5": lambda k, c, v: k < 5, "v = 2": lambda k, c, v: v == 2, "c = 'b'": lambda k, c, v: c == "b",
    "v > 3 AND k > 2": lambda k, c, v: v > 3 and k > 2, "c IS NULL OR v < 3": lambda k, c, v: c is None or v < 3,
}  # fmt: skip


@settings(max_examples=300 if LONG else 4)
@given(_OPERATIONS, st.sampled_from([*_FILTERS]), st.data())
def test_rows_that_wait_are_merged_and_compared_as_the_model_says(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, list[int]]], where: str, data: st.DataObject
) -> None:
    more = {"write-only": "true", "num-sorted-run.compaction-trigger": "2", "file-index.bitmap.columns": "c"}
    more["file.format"] = data.draw(st.sampled_from(["parquet", "orc", "avro"]))
    table = _table(tmp_path_factory.mktemp("t") / "t", **more)
    shown, current, states = dict[int, Any](), dict[int, Any](), [dict[int, Any]()]
    for number, (what, keys) in enumerate(operations):
        if what in ("compact", "full"):
            table.compact(full=what == "full")
            shown = dict(current)
        else:
            new = {k: (data.draw(st.sampled_from(["a", "b", "c", None])), number) for k in keys}
            rows = [{"op": what, "k": k, "c": c, "v": v} for k, (c, v) in new.items()]
            table.append(rows, rowkind_column="op")
            current = {k: row for k, row in (current | new).items() if what == "+I" or k not in new}
        latest = table.snapshots.latest()
        states += [dict(shown)] * (latest is not None and latest.id == len(states))
    merged = {"deletion-vectors.merge-on-read": "true"}
    for rows_of, options in ((shown, {}), (current, merged)):
        kept = {k: row for k, row in rows_of.items() if _FILTERS[where](k, *row)}
        found = table.scan(where, options=options).to_arrow().to_pylist()
        assert sorted(found, key=lambda row: row["k"]) == [
            {"k": k, "c": kept[k][0], "v": kept[k][1]} for k in sorted(kept)
        ]
        assert table.scan(where, options=options).count() == len(kept)
        assert table.scan(options=options).count() == len(rows_of)
    if len(states) > 1:
        first, last = sorted((data.draw(st.integers(1, len(states) - 1)), data.draw(st.integers(1, len(states) - 1))))
        changes = table.snapshots.diff(first, last).to_arrow().to_pylist()
        before, after = states[first], states[last]
        assert {row["k"] for row in changes} == {k for k in before | after if before.get(k) != after.get(k)}
    assert not table.maintenance.verify(deep=True).findings


# ---------------------------------------------------------------------------------------------------------- the choice


def _file(at: int, size: int, level: int = 1, span: tuple[int, int] = (0, 9), **more: Any) -> LevelFile:
    return LevelFile(at=at, size=size, level=level, key_range=span, rows=10, **more)


_RULES = UniversalRules(small_size=5, trigger=3)


def _chosen(files: list[LevelFile], *, full: bool = False, rules: UniversalRules = _RULES) -> list[int] | None:
    steps = clustered_steps(files, rules, full=full, deleted_share=0.2)
    if steps is None:
        return None
    assert sorted(f.at for f in (*steps.files, *steps.older)) == sorted(f.at for f in files)
    assert all(file.level for file in steps.older)
    return sorted(file.at for file in steps.files)


def test_files_of_level_0_are_taken_in_with_the_smallest_runs() -> None:
    fresh = _file(0, 8, 0)
    assert _chosen([]) is None
    assert _chosen([fresh]) == [0]
    assert _chosen([fresh, _file(1, 100), _file(2, 50)]) == [0]
    assert _chosen([fresh, _file(1, 100), _file(2, 50), _file(3, 70)]) == [0, 2]
    assert _chosen([fresh, _file(1, 100), _file(2, 8), _file(3, 15)]) == [0, 2, 3]  # not much larger than all before
    apart = [_file(n, 100, 1, (n, n + 1)) for n in range(1, 7)]
    assert _chosen([fresh, *apart]) == [0]  # they are one run
    small = [_file(n, 4, 1, (n, n + 1)) for n in range(1, 7)]
    assert _chosen([fresh, *small]) == [0, 1, 2, 3, 4, 5, 6]
    assert _chosen(small[:3]) is None
    assert _chosen([fresh, _file(1, 900, deleted=3), _file(2, 500, deleted=2)]) == [0, 1]


def test_a_full_compaction_takes_all_but_a_run_that_needs_none() -> None:
    apart = [_file(n, 100, 1, (n, n + 1)) for n in range(3)]
    assert _chosen(apart, full=True) is None
    assert _chosen([*apart, _file(3, 8, 0)], full=True) == [0, 1, 2, 3]
    assert _chosen([*apart, _file(3, 100, 1, (0, 1))], full=True) == [0, 1, 2, 3]
    assert _chosen([*apart[:2], _file(2, 100, 1, (2, 3), loses_rows=True, deleted=1)], full=True) == [2]
    assert _chosen([*apart[:2], _file(2, 100, 1, (2, 3), has_deletes=True)], full=True) == [2]


@settings(max_examples=1000 if LONG else 12)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 200), st.integers(0, 9), st.integers(0, 9))), st.booleans())
def test_no_more_runs_are_left_than_the_options_allow(shapes: list[tuple[int, int, int, int]], full: bool) -> None:
    files = [_file(n, size, level, (low, low + more)) for n, (level, size, low, more) in enumerate(shapes)]
    chosen = set(_chosen(files, full=full) or ())
    assert chosen >= {file.at for file in files if not file.level}
    left = [file for file in files if file.at not in chosen]
    runs = max((sum(a.key_range[0] <= p < a.key_range[1] for a in left if a.size >= 5) for p in range(20)), default=0)
    assert runs + bool(chosen) <= (1 if full else 3)
