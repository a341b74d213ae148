"""Columns that are missing from what is written get their defaults, whichever text a default may be."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import SchemaError
from paimon_pyds.types import DataField, parse_type

DEFAULTS = [
    ("BOOLEAN", "yes", True),
    ("INT", "5.0", 5),
    ("DOUBLE", "1d", 1.0),
    ("DECIMAL(5, 2)", "1.555", Decimal("1.56")),
    ("STRING", "", ""),
    ("VARCHAR(2)", "ab", "ab"),
    ("BYTES", "ab", b"ab"),
    ("DATE", "2024-1-3", dt.date(2024, 1, 3)),
    ("TIME(3)", "12:30:00.5", dt.time(12, 30, 0, 500_000)),
    ("TIMESTAMP(3)", "2024-01-01T12:00:00.123456", dt.datetime(2024, 1, 1, 12, 0, 0, 123_000)),
    (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "2024-01-01 12:00:00",
        dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc),
    ),
]


def _fields() -> list[DataField]:
    named = [DataField(i, f"c{i}", parse_type(t), None, text) for i, (t, text, _) in enumerate(DEFAULTS, 1)]
    return [DataField(0, "id", parse_type("INT")), *named]


def test_every_default_that_a_table_may_have_is_written(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _fields())
    table.append(pa.table({"id": pa.array([1, 2], pa.int32())}))
    rows = table.scan().to_arrow().to_pylist()
    for row in rows:
        assert list(row.values())[1:] == [value for _, _, value in DEFAULTS]


@pytest.mark.parametrize(("type_", "text"), [("VARCHAR(2)", "abc"), ("CHAR(1)", "ab"), ("BINARY(3)", "ab")])
def test_defaults_that_do_not_fit(tmp_path: Path, type_: str, text: Any) -> None:
    with pytest.raises(SchemaError, match="is no default for"):
        pp.Table.create(tmp_path / "t", [DataField(0, "a", parse_type(type_), None, text)])
