"""Columns without a value get their defaults, whatever text a default may be: missing columns, and NULLs as in Java."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import SchemaError

DEFAULTS = [
    ("BOOLEAN", "yes", True),
    ("BOOLEAN", "'true'", True),
    ("INT", "5.0", 5),
    ("INT", "'5'", 5),
    ("DOUBLE", "1d", 1.0),
    ("DECIMAL(5, 2)", "1.555", Decimal("1.56")),
    ("DECIMAL(5, 2)", "'1.5'", Decimal("1.50")),
    ("STRING", "", ""),
    ("STRING", "''", ""),
    ("STRING", "'other'", "other"),
    ("STRING", "'it''s'", "it''s"),
    ("STRING", "'half", "'half"),
    ("STRING", '"double"', '"double"'),
    ("VARCHAR(2)", "ab", "ab"),
    ("VARCHAR(2)", "'ab'", "ab"),
    ("CHAR(4)", "'ab'", "ab  "),
    ("BYTES", "ab", b"ab"),
    ("BINARY(2)", "'ab'", b"ab"),
    ("DATE", "2024-1-3", dt.date(2024, 1, 3)),
    ("DATE", "'2026-01-01'", dt.date(2026, 1, 1)),
    ("TIME(3)", "12:30:00.5", dt.time(12, 30, 0, 500_000)),
    ("TIMESTAMP(3)", "2024-01-01T12:00:00.123456", dt.datetime(2024, 1, 1, 12, 0, 0, 123_000)),
    ("TIMESTAMP(6)", "'2026-01-01 12:30:00'", dt.datetime(2026, 1, 1, 12, 30)),
    (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "2024-01-01 12:00:00",
        dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC),
    ),
]


def _fields() -> list[DataField]:
    named = [DataField(i, f"c{i}", parse_type(t), None, text) for i, (t, text, _) in enumerate(DEFAULTS, 1)]
    return [DataField(0, "id", parse_type("INT")), *named]


@pytest.mark.parametrize("explicit", [False, True], ids=["missing", "null"])
def test_every_default_that_a_table_may_have_is_written(tmp_path: Path, explicit: bool) -> None:
    table = pp.Table.create(tmp_path / "t", _fields())
    data = pa.table({"id": pa.array([1, 2], pa.int32())})
    if explicit:
        nulls = [pa.nulls(2, field.type) for field in table.arrow_schema][1:]
        data = pa.Table.from_arrays([data["id"], *nulls], schema=table.arrow_schema)
    table.append(data)
    for row in table.scan().to_arrow().to_pylist():
        assert list(row.values())[1:] == [value for _, _, value in DEFAULTS]


@pytest.mark.parametrize(
    ("type_", "text"),
    [("VARCHAR(2)", "abc"), ("CHAR(1)", "'ab'"), ("BINARY(3)", "ab"), ("STRING", "'"), ("DATE", "DATE '2026-01-01'")],
)
def test_defaults_that_do_not_fit(tmp_path: Path, type_: str, text: Any) -> None:
    with pytest.raises(SchemaError, match="is no default for"):
        pp.Table.create(tmp_path / "t", [DataField(0, "a", parse_type(type_), None, text)])


def _table(path: Path, rows: list[dict[str, Any]], **options: str) -> pp.Table:
    """A table of ids, partitions and values whose defaults were set after the first rows."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int32()), ("s", pa.string())])
    table = pp.Table.create(path, schema, partition_by=["p"], options=options)
    table.append(pa.Table.from_pylist(rows, schema))
    table.alter(column_defaults={"p": "'none'", "v": "7", "s": "'other'"})
    return table


def _rows(table: pp.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


OLD = [{"id": 1, "p": "a", "v": None, "s": None}, {"id": 2, "p": "a", "v": 5, "s": "x"}]


def test_statistics_partitions_and_indexes_are_of_the_defaults(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", OLD, **{"file-index.bitmap.columns": "v,s"})
    table.append(
        pa.table({"id": pa.array([3, 4], pa.int64()), "p": pa.nulls(2, pa.string()), "v": pa.array([None, 8])})
    )
    assert table.scan("p = 'none' AND v = 7 AND s = 'other'").to_arrow()["id"].to_pylist() == [3]
    assert table.count("s IS NULL") == 1
    assert table.scan("v = 7").answer.count().files_read == 0
    assert table.max("s") == "x"


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_updates_and_merges_store_defaults_where_they_set_null(tmp_path: Path, vectors: str) -> None:
    """And nowhere else: rows that are moved to other files keep their NULLs."""
    table = _table(tmp_path / "t", OLD, **{"deletion-vectors.enabled": vectors})
    table.update({"v": "NULL"}, "id = 2")
    assert _rows(table) == [(1, "a", None, None), (2, "a", 7, "x")]
    source = pa.table({"id": pa.array([1, 9], pa.int64()), "s": pa.nulls(2, pa.string())})
    table.merge(
        source,
        ["id"],
        when_matched=["UPDATE SET s = source.s"],
        when_not_matched=["INSERT (id, s) VALUES (source.id, source.s)"],
    )
    assert _rows(table) == [(1, "a", None, "other"), (2, "a", 7, "x"), (9, "none", 7, "other")]


@pytest.mark.parametrize("change", ["delete", "compact"])
def test_rows_that_are_only_moved_keep_their_nulls(tmp_path: Path, change: str) -> None:
    table = _table(tmp_path / "t", OLD)
    table.append(pa.table({"id": pa.array([3], pa.int64()), "p": ["a"]}))
    if change == "delete":
        table.delete("id = 2")
    else:
        table.compact(full=True)
    assert (1, "a", None, None) in _rows(table)


def test_null_is_refused_where_a_column_is_not_null(tmp_path: Path) -> None:
    """As Java does, whatever the default; a column that is missing gets it."""
    fields = [DataField(0, "id", parse_type("INT")), DataField(1, "v", parse_type("INT NOT NULL"), None, "5")]
    table = pp.Table.create(tmp_path / "t", fields)
    with pytest.raises(SchemaError, match="'v' is NOT NULL"):
        table.append(pa.table({"id": pa.array([1], pa.int32()), "v": pa.nulls(1, pa.int32())}))
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    assert _rows(table) == [(1, 5)]
