"""Defaults as Java Paimon reads their texts: what it stores for NULL is what is stored here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import SchemaError
from support.local_zone import in_local_zone
from support.oracle import Oracle

TEXTS = [
    ("STRING", "'other'"),
    ("STRING", "other"),
    ("STRING", "''"),
    ("STRING", "'it''s'"),
    ("STRING", "'half"),
    ("STRING", '"double"'),
    ("STRING", "NULL"),
    ("CHAR(5)", "'ab'"),
    ("CHAR(5)", "ab"),
    ("VARCHAR(3)", "'abcd'"),
    ("BINARY(4)", "'ab'"),
    ("BYTES", "X'6162'"),
    ("DATE", "'2026-01-01'"),
    ("DATE", "2026-01-01"),
    ("TIMESTAMP(6)", "'2026-01-01 12:30:00.123'"),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "'2026-01-01 12:30:00.123'"),
    ("TIME(3)", "'12:30:00'"),
    ("INT", "'5'"),
    ("INT", "5"),
    ("BOOLEAN", "TRUE"),
    ("BOOLEAN", "'false'"),
    ("DOUBLE", "1.5D"),
    ("FLOAT", "'1.5'"),
    ("DECIMAL(5, 2)", "'1.555'"),
]
REFUSED = [("DATE", "DATE '2026-01-01'"), ("DATE", "current_date()"), ("BIGINT", "5L"), ("STRING", "'")]


def test_the_same_value_is_stored_as_by_java(oracle: Oracle, tmp_path: Path) -> None:
    """One table with a column for each text: Java writes NULLs, then we do, and Java reads both."""
    fields = [DataField(0, "id", parse_type("INT"))]
    fields += [DataField(i, f"c{i}", parse_type(type_)) for i, (type_, _) in enumerate(TEXTS, 1)]
    nulls: dict[str, object] = dict.fromkeys((f.name for f in fields), None)
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields, options={"bucket": "-1"})
        changes = [{"op": "default", "name": f"c{i}", "value": text} for i, (_, text) in enumerate(TEXTS, 1)]
        batch.alter(tmp_path, "db.t", *changes)
        batch.write(tmp_path, "db.t", [nulls | {"id": 1}])
    table = pp.Table.open(tmp_path / "db.db" / "t")
    written = pa.Table.from_pylist([nulls | {"id": 2}], table.arrow_schema)
    table.append(written)
    table.append(written.select(["id"]))
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
    java, *ours = [list(row.values())[1:] for row in read.values]
    assert ours == [java, java]


@pytest.mark.parametrize(
    "zone", ["America/New_York", *(pytest.param(z, marks=pytest.mark.long) for z in ("Europe/Berlin", "Asia/Tokyo"))]
)
def test_instants_are_those_of_the_local_zone(
    zone: str, oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_ = parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    fields = [DataField(0, "id", parse_type("INT")), DataField(1, "c", type_)]
    with oracle.in_zone(zone).batch() as batch:
        batch.create(tmp_path, "db.t", fields, options={"bucket": "-1"})
        batch.alter(tmp_path, "db.t", {"op": "default", "name": "c", "value": "'2026-07-01 12:30:00.5'"})
        batch.write(tmp_path, "db.t", [{"id": 1, "c": None}])
    table = pp.Table.open(tmp_path / "db.db" / "t")
    with in_local_zone(zone, monkeypatch):
        table.append(pa.table({"id": pa.array([2], pa.int32())}))
    assert len(set(table.scan().to_arrow()["c"].to_pylist())) == 1


def test_what_java_refuses_as_a_default_is_refused(oracle: Oracle, tmp_path: Path) -> None:
    with oracle.batch() as batch:
        fields = [DataField(i, f"c{i}", parse_type(type_)) for i, (type_, _) in enumerate(REFUSED)]
        batch.create(tmp_path, "db.t", fields)
        replies = [
            batch.alter(tmp_path, "db.t", {"op": "default", "name": f"c{i}", "value": text}, allow_fail=True)
            for i, (_, text) in enumerate(REFUSED)
        ]
    table = pp.Table.open(tmp_path / "db.db" / "t")
    for i, (reply, (_, text)) in enumerate(zip(replies, REFUSED, strict=True)):
        assert not reply.ok, text
        with pytest.raises(SchemaError, match="is no default for"):
            table.alter(column_defaults={f"c{i}": text})
