"""VARIANT columns of Parquet files: those of other writers, and of a shredder that goes row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import CorruptFileError, MissingColumnError
from paimon_pyds.format import ReadCounters, by_name
from paimon_pyds.format.parquet.variants import whole_values
from paimon_pyds.storage.local import LocalFileIO
from support.v2_fixtures import Read, read_id, v2_lines, v2_reads, v2_table
from support.variants import SHAPES, VALUES, same, shredded

NAMES = ("variant_plain", "variant_shredded", "variant_inferred")
_MISSING = object()


@pytest.mark.parametrize("read", v2_reads(*NAMES), ids=read_id)
def test_values_of_other_writers(read: Read) -> None:
    table = pp.Table.open(v2_table(read.fixture))
    assert v2_lines(table.scan(read.filter, columns=read.columns).to_arrow()) == read.rows


@given(st.lists(VALUES, max_size=6), SHAPES, st.integers(0, 2), st.booleans())
def test_any_values_of_any_shape(values: list[Any], shape: Any, skipped: int, nulls: bool) -> None:
    rows = [_MISSING, *values, _MISSING] if nulls else values
    column = shredded(rows, shape, missing=_MISSING).slice(skipped)
    found = whole_values(column, "v", "file")
    assert found.is_null().to_pylist() == [v is _MISSING for v in rows[skipped:]]
    expected = [same(None if v is _MISSING else v) for v in rows[skipped:]]
    assert [same(v) for v in pp.variant_values(found)] == expected


@pytest.mark.parametrize("order", ["value first", "metadata first"])
def test_columns_inside_of_others(tmp_path: Path, order: str) -> None:
    """In rows, arrays and maps, with NULL at each of these levels."""
    values = [{"a": 1, "b": "x"}, None, {"a": "one", "c": [1]}, [1, 2], {"a": 2}, 5]
    inner = shredded(values, {"a": "bigint", "b": "string"})
    if order == "value first":
        names = ["value", "typed_value", "metadata"]
        inner = pa.StructArray.from_arrays([inner.field(n) for n in names], fields=[inner.type.field(n) for n in names])
    row = pa.StructArray.from_arrays([inner], ["y"], mask=pa.array([False, False, True, False, False, False]))
    array = pa.ListArray.from_arrays(pa.array([0, 2, None, 3, 6, 6, 6], pa.int32()), inner)
    keys = pa.array(list("kabcde"))
    map_ = pa.MapArray.from_arrays(pa.array([0, 1, 1, 2, 3, 4, 6], pa.int32()), keys, inner)
    table = pa.table({"r": row, "l": array, "m": map_})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=4)
    types = {
        "r": {"type": "ROW", "fields": [{"id": 5, "name": "y", "type": "VARIANT"}]},
        "l": {"type": "ARRAY", "element": "VARIANT"},
        "m": {"type": "MAP", "key": "STRING", "value": "VARIANT"},
    }
    fields = [DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate(types.items())]
    path = str(tmp_path / "f.parquet")
    reader = by_name("parquet").open_reader(LocalFileIO(), path, Path(path).stat().st_size, ReadCounters())
    found = pa.Table.from_batches(list(reader.read(fields, RowSelection.ALL, 3)))
    rows = found["r"].combine_chunks()
    assert rows.is_null().to_pylist() == [False, False, True, False, False, False]
    assert pp.variant_values(rows.flatten()[0]) == [None if i == 2 else v for i, v in enumerate(values)]
    lists = found["l"].combine_chunks()
    assert lists.is_null().to_pylist() == array.is_null().to_pylist()
    assert pp.variant_values(lists.flatten()) == values
    assert pp.variant_values(found["m"].combine_chunks().items) == values


def _group(**members: Any) -> pa.Array:
    columns = {"metadata": pa.array([b"\x01\x01\x00\x01a"])} | members
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _member(value: bytes | None, typed: int | None) -> pa.Array:
    return pa.array([{"a": {"value": value, "typed_value": typed}}])


CONTRADICTIONS: dict[str, tuple[pa.Array, type[Exception]]] = {
    "both a value and a typed_value": (
        _group(value=pa.array([b"\x00"]), typed_value=pa.array([1])),
        CorruptFileError,
    ),
    "also a value that is no object": (
        _group(value=pa.array([b"\x00"]), typed_value=_member(None, 1)),
        CorruptFileError,
    ),
    "both in a column and in its value": (
        _group(value=pa.array([b"\x02\x01\x00\x00\x01\x00"]), typed_value=_member(None, 1)),
        CorruptFileError,
    ),
    "no key 'b'": (_group(typed_value=pa.array([{"b": {"value": b"\x00"}}])), CorruptFileError),
    "the schema says VARIANT": (_group(other=pa.array([1])), MissingColumnError),
    "has no metadata": (
        pa.StructArray.from_arrays([pa.array([None], pa.binary()), pa.array([b"\x00"])], ["metadata", "value"]),
        CorruptFileError,
    ),
}


@pytest.mark.parametrize("message", CONTRADICTIONS)
def test_contradictions_are_errors(message: str) -> None:
    group, error = CONTRADICTIONS[message]
    with pytest.raises(error, match=message):
        whole_values(group, "v", "file")
