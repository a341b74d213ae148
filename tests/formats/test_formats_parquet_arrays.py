"""Columns as other writers store them, read as Paimon's types."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.base import ReadCounters
from paimon_pyds.formats.parquet import ParquetFormat
from paimon_pyds.formats.parquet.arrays import conform
from paimon_pyds.selection import RowSelection
from paimon_pyds.storage import open_file_io
from paimon_pyds.types import DataField, arrow_schema, arrow_type, parse_type

ROW = {"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "INT"}, {"id": 2, "name": "y", "type": "TIMESTAMP(3)"}]}
LIST = {"type": "ARRAY", "element": ROW}
MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": LIST}


def _through_file(array: Any, type_: Any, path: Path, **settings: Any) -> Any:
    pq.write_table(pa.table({"c": array}), path, **settings)
    field = DataField(0, "c", parse_type(type_))
    io, name = open_file_io(str(path))
    reader = ParquetFormat().open_reader(io, name, path.stat().st_size, ReadCounters())
    batches = list(reader.read([field], RowSelection.ALL, 100))
    reader.close()
    assert all(b.schema.equals(arrow_schema([field]), check_metadata=True) for b in batches)
    return pa.Table.from_batches(batches).column(0).to_pylist()


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array(["a", None]).dictionary_encode(), "STRING"),
        (pa.array(["a", None], pa.large_string()), "STRING"),
        (pa.array([b"a", None], pa.large_binary()), "BYTES"),
        (pa.array([b"abcd", None], pa.binary(4)), "BINARY(4)"),
        (pa.array([1, None], pa.int64()), "INT"),
        (pa.array([1, None], pa.uint8()), "SMALLINT"),
        (pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)), "DECIMAL(12, 2)"),
        (pa.array([[1, None], None, []], pa.large_list(pa.int32())), {"type": "ARRAY", "element": "INT"}),
        (
            pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
            {"type": "MULTISET", "element": "STRING NOT NULL"},
        ),
    ],
)
def test_other_forms_of_a_type(array: pa.Array, type_: Any, tmp_path: Path) -> None:
    plain = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
    assert _through_file(array, type_, tmp_path / "a.parquet") == plain.to_pylist()


def test_timestamps_of_another_unit_or_zone(tmp_path: Path) -> None:
    """A finer unit is cut towards the past; the zone is a label."""
    micros = pa.array([1_234_567, -1, None], pa.timestamp("us"))
    found = _through_file(micros, "TIMESTAMP(3)", tmp_path / "a.parquet")
    assert found == pa.array([1234, -1, None], pa.timestamp("ms")).to_pylist()
    zoned = pa.array([1, None], pa.timestamp("ms", "Asia/Tokyo"))
    found = _through_file(zoned, "TIMESTAMP(6) WITH LOCAL TIME ZONE", tmp_path / "a.parquet")
    assert found == pa.array([1000, None], pa.timestamp("us", "UTC")).to_pylist()
    nanos = pa.array([1_999], pa.timestamp("ns"))
    found = _through_file(nanos, "TIMESTAMP(6)", tmp_path / "a.parquet")
    assert found == pa.array([1], pa.timestamp("us")).to_pylist()


def test_nested_columns_are_rebuilt(tmp_path: Path) -> None:
    """Conversion deep inside lists, maps and structs, sliced arrays included."""
    row = pa.struct([("x", pa.int64()), ("y", pa.timestamp("us"))])
    other = pa.map_(pa.string(), pa.list_(pa.field("item", row)))
    value = [("k", [{"x": 1, "y": 1500}, None]), ("l", None)]
    array = pa.array([[], value, None, value, [("m", [])]], other)
    target = arrow_type(parse_type(MAP))
    for part in (array, array.slice(1), array.slice(1, 3), array.slice(3, 1)):
        found = conform(part, target, "c", "p")
        found.validate(full=True)
        assert found.type.equals(target)
        expected = pa.array([[(k, _cut(v)) for k, v in m] if m is not None else None for m in part.to_pylist()], target)
        assert found.equals(expected)
    assert len(_through_file(array, MAP, tmp_path / "a.parquet")) == 5


def _cut(rows: Any) -> Any:
    return rows and [r and {"x": r["x"], "y": r["y"].replace(microsecond=1000)} for r in rows]


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array(["x"]), "INT"),
        (pa.array([2**40]), "INT"),
        (pa.array([1]), ROW),
        (pa.array([{"a": 1, "b": None}]), ROW),
        (pa.array([b"\xff\xfe"]), "STRING"),
        (pa.array([Decimal("1.555")]), "DECIMAL(5, 2)"),
    ],
)
def test_columns_that_do_not_fit(array: pa.Array, type_: Any, tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match=r"column 'c.*a\.parquet"):
        _through_file(array, type_, tmp_path / "a.parquet")


@pytest.mark.parametrize("batch_rows", [7, 999, 4096])
def test_few_rows_left_out_across_batches_and_row_groups(batch_rows: int, tmp_path: Path) -> None:
    """Neither batches nor row groups end at whole bytes of a bitmap."""
    path, rows = tmp_path / "f.parquet", 10_001
    texts = [None if i % 5 == 2 else f"t{i}" for i in range(rows)]
    pq.write_table(pa.table({"i": range(rows), "s": texts}), path, row_group_size=3_331)
    gone = {0, 6, 7, 998, 999, 3_330, 3_331, *range(4_000, 4_100), rows - 1}
    fields = [DataField(0, "i", parse_type("BIGINT")), DataField(1, "s", parse_type("STRING"))]
    io, name = open_file_io(str(path))
    reader = ParquetFormat().open_reader(io, name, path.stat().st_size, ReadCounters())
    read = pa.Table.from_batches(list(reader.read(fields, RowSelection.of(set(range(rows)) - gone), batch_rows)))
    reader.close()
    kept = [i for i in range(rows) if i not in gone]
    assert read.to_pydict() == {"i": kept, "s": [texts[i] for i in kept]}
