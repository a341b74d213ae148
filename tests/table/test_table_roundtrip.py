"""read(write(x)) = x, for every type, format and layout."""

from __future__ import annotations

import math
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, Kind
from paimon_pyds.errors import OptionError, UnsupportedError
from support.effort import sampled
from support.strategies import ATOMS, NESTED, tables

_AVRO_ATOMS = [t for t in ATOMS if "(9)" not in t]


def _rows(table: pa.Table) -> list[str]:
    """Rows as text, sorted: NaN equals NaN, -0.0 differs from 0.0."""
    ints = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return sorted(map(repr, zip(*(c.to_pylist() for c in ints), strict=True)))


@given(tables(), st.sampled_from([{}, {"file.compression": "snappy"}, {"target-file-row-num": "7"}]))
def test_parquet(data: tuple[tuple[DataField, ...], pa.Table], options: dict[str, str]) -> None:
    _check(data, options)


@given(tables(types=[t for t in ATOMS if not t.startswith("TIMESTAMP")] + ["TIMESTAMP(3)", *NESTED]))
def test_orc(data: tuple[tuple[DataField, ...], pa.Table]) -> None:
    if any(map(_in_the_last_second_before_1970, data[1].to_pylist())):  # ORC readers would take it for 1970
        with pytest.raises(UnsupportedError, match="last second before 1970"):
            _check(data, {"file.format": "orc"})
    else:
        _check(data, {"file.format": "orc"}, _without_blanks(*data))


def _without_blanks(fields: tuple[DataField, ...], rows: pa.Table) -> pa.Table:
    """ORC holds CHAR values without the blanks at their end."""
    for i, field in enumerate(fields):
        if field.type.kind is Kind.CHAR:
            rows = rows.set_column(i, rows.schema.field(i), pc.utf8_rtrim(rows.column(i), " "))
    return rows


def _in_the_last_second_before_1970(value: Any) -> bool:
    if isinstance(value, datetime):
        return bool(value.microsecond) and value.replace(microsecond=0, tzinfo=None) == datetime(
            1969, 12, 31, 23, 59, 59
        )
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return any(map(_in_the_last_second_before_1970, parts))


@given(tables(types=[*_AVRO_ATOMS, *NESTED]))
def test_avro(data: tuple[tuple[DataField, ...], pa.Table]) -> None:
    _check(data, {"file.format": "avro"})


def _check(
    data: tuple[tuple[DataField, ...], pa.Table], options: dict[str, str], expected: pa.Table | None = None
) -> None:
    fields, rows = data
    expected = rows if expected is None else expected
    with tempfile.TemporaryDirectory() as directory:
        table = pp.Table.create(Path(directory, "t"), fields, options=options)
        half = rows.num_rows // 2
        table.append(rows.slice(0, half))
        table.append(rows.slice(half))
        back = table.scan().to_arrow()
        assert back.schema == table.arrow_schema
        assert _rows(back) == _rows(expected)
        assert table.scan().count() == rows.num_rows
        assert _rows(table.scan(columns=["id"]).to_arrow()) == _rows(rows.select(["id"]))


@pytest.mark.parametrize("type_", sampled(ATOMS, 5))
@settings(max_examples=6)
@given(data=st.data())
def test_partitioned_by_every_type(type_: str, data: st.DataObject) -> None:
    fields, rows = data.draw(tables(types=[type_], max_columns=1, max_rows=12))
    with tempfile.TemporaryDirectory() as directory:
        options = {"partition.legacy-name": "false"} if type_[0:2] in ("BI", "BY") else {}
        table = pp.Table.create(Path(directory, "t"), fields, partition_by=["c1"], options=options)
        table.append(rows)
        assert _rows(table.scan().to_arrow()) == _rows(rows)
        missing = table.scan("c1 IS NULL").to_arrow().num_rows
        assert missing == rows["c1"].null_count


def test_files_roll_at_the_target_size(tmp_path: Path) -> None:
    rows = pa.table({"a": list(range(200_000)), "b": [math.sin(i) for i in range(200_000)]})
    table = pp.Table.create(tmp_path / "t", rows.schema, options={"target-file-size": "400 kb"})
    table.append([rows.slice(start, 10_000) for start in range(0, 200_000, 10_000)])
    sizes = [p.stat().st_size for p in Path(table.path).rglob("data-*.parquet")]
    assert len(sizes) >= 4
    assert max(sizes) < 600_000
    assert table.scan().to_arrow().sort_by("a").equals(rows.cast(table.arrow_schema))


@pytest.mark.parametrize(
    "options", [{"bucket": "4", "bucket-key": "id"}, {"bucket": "1"}, {"row-tracking.enabled": "true"}]
)
def test_options_of_one_write_do_not_shape_the_table(tmp_path: Path, options: dict[str, str]) -> None:
    """Rows in buckets that the table does not have would be lost to those who look for them by its own options."""
    table = pp.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    rows = pa.table({"id": [1, 2, 3]})
    for write in (table.append, table.overwrite):
        with pytest.raises(OptionError, match="in the table"):
            write(rows, options=options)
    table.append(rows, options={"bucket": "-1", "target-file-size": "1 mb"})
    assert table.count() == 3
