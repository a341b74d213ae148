"""Columns that were retyped between instants and what a clock shows: reads take a time zone, as Java's do of their JVM,
and what would store the cast values for good wants one by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.base.zones import session_zone
from paimon_pyds.engine.rowlevel.clauses import Update
from paimon_pyds.errors import UnsupportedError
from support.effort import sampled
from support.fixtures import newer_fixture
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

BERLIN = {"timezone": "Europe/Berlin"}
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata")
LTZ = "TIMESTAMP({}) WITH LOCAL TIME ZONE"
CLOCKS = [
    "2026-01-30 23:30:00.123456", "2026-07-31 10:00:00", "2026-03-29 01:30:00", "2026-03-29 02:30:00",
    "2026-10-25 00:30:00", "2026-10-25 01:30:00", "2026-10-25 02:30:00", "1969-12-31 23:30:00.5",
    "1969-12-31 23:59:59.9", "1950-06-01 00:00:00",
]  # fmt: skip
CASTS = [
    (LTZ.format(6), "STRING"), (LTZ.format(0), "STRING"), (LTZ.format(9), "STRING"), (LTZ.format(6), "DATE"),
    (LTZ.format(6), "TIME"), (LTZ.format(6), "TIMESTAMP(6)"), (LTZ.format(6), "TIMESTAMP(0)"),
    (LTZ.format(3), "TIMESTAMP(9)"), (LTZ.format(6), "BIGINT"), (LTZ.format(6), "INT"), (LTZ.format(6), LTZ.format(3)),
    ("TIMESTAMP(6)", LTZ.format(6)), ("TIMESTAMP(9)", LTZ.format(3)), ("TIMESTAMP(6)", LTZ.format(0)),
    ("STRING", LTZ.format(6)), ("STRING", LTZ.format(0)), ("DATE", LTZ.format(3)), ("TIME", LTZ.format(6)),
    ("BIGINT", LTZ.format(6)), ("INT", LTZ.format(3)),
]  # fmt: skip


def _values(type_: str) -> list[Any]:
    """As the oracle takes them."""
    name, precision = type_.split("(")[0].split()[0], 6 if "(" not in type_ else int(type_.split("(")[1].split(")")[0])
    if name == "TIMESTAMP":
        end = "Z" if type_.endswith("ZONE") else ""
        digits = 9 if precision > 6 else 6
        texts = [clock if "." in clock else f"{clock}.0" for clock in CLOCKS]
        cut = [text[: 20 + min(precision, 6)] if precision else text[:19] + ".0" for text in texts]
        return [text.replace(" ", "T").ljust(20 + digits, "0") + end for text in cut]
    if name == "STRING":
        return CLOCKS
    if name == "DATE":
        return sorted({clock[:10] for clock in CLOCKS})
    if name == "TIME":
        return ["00:00:00", "12:30:00", "23:59:59"]
    return [0, 1774746000, -1, 1785492000, -100000]


def _retyped(path: Path, before: str, after: str, values: list[Any], oracle: Oracle, name: str = "t") -> pp.Table:
    fields = [DataField(0, "k", parse_type("INT")), DataField(1, "c", parse_type(before))]
    with oracle.batch() as batch:
        batch.create(path, f"db.{name}", fields)
        batch.write(path, f"db.{name}", [{"k": k, "c": value} for k, value in enumerate(values)])
    table = pp.Table.open(path / "db.db" / name)
    table.alter(change_types={"c": after})
    return table


@pytest.mark.java
@requires_java_oracle
@pytest.mark.parametrize(("before", "after"), sampled(CASTS, 5), ids=str)
def test_values_are_those_of_java_in_the_same_zone(before: str, after: str, oracle: Oracle, tmp_path: Path) -> None:
    table = _retyped(tmp_path, before, after, _values(before), oracle)
    for zone in sampled(ZONES, 1):
        with oracle.in_zone(zone).batch() as batch:
            expected = batch.read(tmp_path, "db.t")
        scan = table.scan(options={"timezone": zone})
        assert lines(scan.to_arrow()) == expected.lines, zone
        for value in scan.to_arrow()["c"].unique().to_pylist():
            text = f"'{value.isoformat()}'" if hasattr(value, "isoformat") else repr(value)
            where = f"c = {text}"
            wanted = sum(other == value for other in scan.to_arrow()["c"].to_pylist())
            assert table.scan(where, options={"timezone": zone}).to_arrow().num_rows == wanted, (zone, where)


def test_a_table_of_the_connector(tmp_path: Path) -> None:
    source, expected = newer_fixture("retyped-timestamp")
    table = pp.Table.open(shutil.copytree(source, tmp_path / "t"))
    in_berlin = expected["rows by Java in Europe/Berlin"]

    def rows(zone: str | None) -> list[dict[str, Any]]:
        scan = table.scan(options={} if zone is None else {"timezone": zone})
        return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["k"])

    assert rows("Europe/Berlin") == in_berlin != rows(None)
    with session_zone("Europe/Berlin"):
        assert rows(None) == in_berlin
    with pytest.raises(UnsupportedError, match=r"column 'c': it was TIMESTAMP.* and is STRING now.*time zone"):
        table.maintenance.rescale(2)
    table.maintenance.rescale(2, options=BERLIN)
    assert rows("Asia/Tokyo") == rows(None) == in_berlin


# ------------------------------------------------------------------------------------------------------------ rewrites

ROWS = pa.table(
    {"k": [1, 2, 3], "p": [1, 1, 1], "c": [datetime(2026, 1, 30, 23, 30, second, tzinfo=UTC) for second in range(3)]},
    pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("p", pa.int64(), nullable=False),
               ("c", pa.timestamp("us", "UTC"))]),
)  # fmt: skip
AFTER = [f"2026-01-31 00:30:0{second}.000000" for second in range(3)]
KEY = {"primary_key": ["k", "p"], "options": {"bucket": "1", "write-only": "true"}}
PLAIN: dict[str, Any] = {}
VECTORS = {"options": {"deletion-vectors.enabled": "true"}}
POSTPONED = {"primary_key": ["k", "p"], "options": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}}
Rewrite = Callable[[pp.Table, dict[str, str]], Any]
NEW = pa.table({"k": [2], "p": [1], "c": ["new"]})
REWRITES: dict[str, tuple[dict[str, Any], Rewrite]] = {
    "compact": (PLAIN, lambda t, o: t.compact(full=True, options=o)),
    "sort": (PLAIN, lambda t, o: t.compact(order_by="k", options=o)),
    "rescale": ({"options": {"bucket": "1", "bucket-key": "k"}}, lambda t, o: t.maintenance.rescale(2, options=o)),
    "update": (PLAIN, lambda t, o: t.update({"k": "k"}, "k = 2", options=o)),
    "update with vectors": (VECTORS, lambda t, o: t.update({"k": "k"}, "k = 2", options=o)),
    "update by the column": (VECTORS, lambda t, o: t.update({"c": "'x'"}, "c < '2026'", options=o)),
    "delete": (PLAIN, lambda t, o: t.delete("k = 9 OR k = 2", options=o)),
    "delete by the column": (VECTORS, lambda t, o: t.delete("c > '2026-01-31'", options=o)),
    "merge": (PLAIN, lambda t, o: t.merge(NEW, ["k"], when_matched="update", options=o)),
    "compact keys": (KEY, lambda t, o: t.compact(full=True, options=o)),
    "rescale keys": (KEY, lambda t, o: t.maintenance.rescale(2, options=o)),
    "update keys": (KEY, lambda t, o: t.update({"c": "concat(c, '')"}, "k = 2", options=o)),
    "delete keys by the column": (KEY, lambda t, o: t.delete("c > '2026-01-31'", options=o)),
    "merge keys": (KEY, lambda t, o: t.merge(NEW, ["k", "p"], when_matched=Update({"c": "target.c"}), options=o)),
    "take in what was postponed": (POSTPONED, lambda t, o: t.compact(options=o)),
}


def _made(path: Path, settings: dict[str, Any]) -> pp.Table:
    table = pp.Table.create(path, ROWS.schema, **settings)
    table.append(ROWS)
    others = ROWS.set_column(0, ROWS.schema.field(0), pa.array([5, 6, 7]))
    table.append(ROWS.slice(1) if "primary_key" in settings else others)
    table.alter(change_types={"c": "STRING"})
    return table


def _state(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", sampled(REWRITES, 4))
def test_rewrites_want_a_zone(name: str, tmp_path: Path) -> None:
    settings, rewrite = REWRITES[name]
    table = _made(tmp_path / "t", settings)
    before = _state(tmp_path / "t")
    with pytest.raises(UnsupportedError, match=r"column 'c': it was .* options=\{'timezone': 'Europe/Berlin'\}"):
        rewrite(table, {})
    assert _state(tmp_path / "t") == before
    rewrite(table, BERLIN)
    rows = table.scan(options=BERLIN).to_arrow().to_pylist()
    assert all(row["c"] in ("x", "new") or row["c"] == AFTER[(row["k"] - 1) % 4] for row in rows)
    assert bool(rows) is (name not in ("delete by the column", "delete keys by the column"))


def test_what_does_not_read_the_column_needs_no_zone(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", VECTORS)
    table.delete("k = 1")
    table.append(pa.table({"k": [4], "p": [1], "c": ["new"]}))
    table.update({"c": "'newer'"}, "k = 4")
    assert table.count() == 6 and table.count("c = 'newer'") == 1


def test_an_append_is_committed_and_its_compaction_waits_for_a_zone(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", KEY)
    table.alter({"write-only": "false", "full-compaction.delta-commits": "1"})
    row = pa.table({"k": [4], "p": [1], "c": ["new"]})
    with pytest.warns(UserWarning, match=r"the rows are committed.*column 'c': it was TIMESTAMP.*'timezone'"):
        table.append(row)
    assert table.count() == 4
    table.append(row, options=BERLIN)
    assert table.scan(options=BERLIN).to_arrow()["c"].to_pylist() == [*AFTER, "new"]
    assert table.scan(options={"timezone": "Asia/Tokyo"}).to_arrow()["c"].to_pylist() == [*AFTER, "new"]
