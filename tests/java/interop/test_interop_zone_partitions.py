"""Partitions by instants: Java names their directories in its own time zone when partition.legacy-name is false."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import UnsupportedError
from support.effort import LONG
from support.oracle import Oracle
from support.values import arrow_rows, dumps, in_order, lines

ZONES = ["America/New_York", "UTC", "Asia/Kolkata"][: 3 if LONG else 2]
TYPES = {
    "id": "INT", "p": "STRING", "z": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "t": "TIMESTAMP(3)", "d": "DATE",
}  # fmt: skip
FIELDS = tuple(DataField(i, name, parse_type(t)) for i, (name, t) in enumerate(TYPES.items()))
BY = ["p", "z", "t", "d"]
SQL_NAMES = {"bucket": "-1", "partition.legacy-name": "false"}
ROWS: list[dict[str, Any]] = [
    {"id": i, "p": p, "z": None if z is None else z + "Z", "t": "2020-03-08T02:30:00.000000", "d": "1969-12-31"}
    for i, (p, z) in enumerate(
        (p, z)
        for p in ("a=b/c", None)
        for z in (None, "2020-07-01T12:00:00.000000", "2020-07-01T16:00:00.000000", "1899-06-01T23:30:00.500000")
    )
]


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    return in_order(dumps(row) for row in rows)


def test_partitions_of_instants_that_java_named_in_its_zone(oracle: Oracle, tmp_path: Path) -> None:
    """Files are found wherever their writers put them; nothing is written that Java elsewhere would not find."""
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", FIELDS, partition_keys=BY, options=SQL_NAMES)
    for i, zone in enumerate(ZONES):
        with oracle.in_zone(zone).batch() as batch:
            batch.write(tmp_path, "db.t", [row | {"id": row["id"] + 100 * i} for row in ROWS])
    expected = [row | {"id": row["id"] + 100 * i} for i in range(len(ZONES)) for row in ROWS]
    table = pp.Table.open(tmp_path / "db.db" / "t")
    assert lines(table.scan().to_arrow()) == _lines(expected)
    noon = [row for row in expected if row["z"] == "2020-07-01T12:00:00.000000Z"]
    assert lines(table.scan("z = TIMESTAMP '2020-07-01 12:00:00'").to_arrow()) == _lines(noon)
    assert table.count("p IS NULL") == len(expected) // 2
    more = arrow_rows(ROWS, arrow_schema(FIELDS))
    for change in (lambda: table.append(more), lambda: table.delete("id = 1"), table.compact):
        with pytest.raises(UnsupportedError, match=r"partition\.legacy-name"):
            change()


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Auckland"][: 2 if LONG else 1])
def test_partitions_by_time_are_found_from_every_zone(zone: str, oracle: Oracle, tmp_path: Path) -> None:
    tables = {"java": {"bucket": "-1"}, "sql": SQL_NAMES}
    for name, options in tables.items():
        fields, by = (FIELDS, BY) if name == "java" else ([f for f in FIELDS if f.name != "z"], ["p", "t", "d"])
        for there in ("ours", "theirs"):
            pp.Table.create(tmp_path / there / "db.db" / name, arrow_schema(fields), partition_by=by, options=options)
        pp.Table.open(tmp_path / "ours" / "db.db" / name).append(arrow_rows(ROWS, arrow_schema(fields)))
    wanted = {
        name: [r if name == "java" else {k: v for k, v in r.items() if k != "z"} for r in ROWS] for name in tables
    }
    found = {"op": "ge", "field": "id", "literals": [3]}
    with oracle.in_zone(zone).batch() as batch:
        read = {name: batch.read(tmp_path / "ours", f"db.{name}") for name in tables}
        some = {name: batch.read(tmp_path / "ours", f"db.{name}", filter=found) for name in tables}
        for name in tables:
            batch.write(tmp_path / "theirs", f"db.{name}", wanted[name])
    for name, rows in wanted.items():
        assert read[name].lines == _lines(rows)
        assert some[name].lines == _lines([row for row in rows if row["id"] >= 3])
        assert lines(pp.Table.open(tmp_path / "theirs" / "db.db" / name).scan().to_arrow()) == _lines(rows)


def test_tables_with_such_partitions_are_not_made(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"partition\.legacy-name") as caught:
        pp.Table.create(tmp_path / "a", arrow_schema(FIELDS), partition_by=["z"], options=SQL_NAMES)
    assert "leave partition.legacy-name out" in str(caught.value)
    table = pp.Table.create(tmp_path / "b", arrow_schema(FIELDS), partition_by=["z"])
    with pytest.raises(UnsupportedError, match=r"partition\.legacy-name"):
        table.alter(set_options={"partition.legacy-name": "false"})
