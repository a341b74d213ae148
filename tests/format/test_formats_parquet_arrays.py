"""Columns as other writers store them, read as Paimon's types."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema, arrow_type, parse_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.conversion import all_but, conform, rows_at_once, without_rows
from support.data_files import read_file, write_file

ROW = {"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "INT"}, {"id": 2, "name": "y", "type": "TIMESTAMP(3)"}]}
LIST = {"type": "ARRAY", "element": ROW}
MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": LIST}


def _through_file(array: Any, type_: Any, path: Path, **settings: Any) -> Any:
    pq.write_table(pa.table({"c": array}), path, **settings)
    field = DataField(0, "c", parse_type(type_))
    found = read_file(path, [field], batch_rows=100)
    assert found.schema.equals(arrow_schema([field]), check_metadata=True)
    return found.column(0).to_pylist()


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


def test_nanoseconds_below_rows_that_are_null(tmp_path: Path) -> None:
    """Where a ROW is NULL, a field that is NOT NULL has twelve bytes of nothing, which no nanoseconds can hold."""
    moment = {"type": "ROW", "fields": [{"id": 1, "name": "t", "type": "TIMESTAMP(9) NOT NULL"}]}
    inside = {"type": "ROW NOT NULL", "fields": moment["fields"]}
    outside = {"type": "ROW", "fields": [{"id": 2, "name": "r", "type": inside}]}
    fields = [
        DataField(i, f"c{i}", parse_type(t)) for i, t in enumerate((moment, outside, {**LIST, "element": moment}))
    ]
    row: dict[str, Any] = {"t": -1}
    columns = [[row, None, {"t": 2}], [{"r": row}, None, None], [[row, None], None, []]]
    schema = arrow_schema(fields)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    write_file(tmp_path / "a.parquet", fields, table)
    for selection in (RowSelection.ALL, RowSelection.of([0, 1])):
        found = read_file(tmp_path / "a.parquet", fields, selection)
        assert found.equals(table.slice(0, found.num_rows))


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
    read = read_file(path, fields, RowSelection.of(set(range(rows)) - gone), batch_rows=batch_rows)
    kept = [i for i in range(rows) if i not in gone]
    assert read.to_pydict() == {"i": kept, "s": [texts[i] for i in kept]}


def _rows_of(type_: Any, values: st.SearchStrategy[Any]) -> Any:
    """The Arrow type of a Paimon type, and its values."""
    return arrow_type(parse_type(type_)), values


_INTS = st.integers(-100, 100)
_TEXTS = st.text(max_size=5)
_PAIRS = st.fixed_dictionaries({"x": st.none() | _INTS, "y": st.none()})
_COLUMNS = [
    _rows_of("BOOLEAN", st.booleans()),
    _rows_of("TINYINT", _INTS),
    _rows_of("SMALLINT", _INTS),
    _rows_of("INT", _INTS),
    _rows_of("BIGINT", _INTS),
    _rows_of("FLOAT", _INTS.map(float)),
    _rows_of("DOUBLE", _INTS.map(float)),
    _rows_of("DECIMAL(5, 2)", _INTS.map(Decimal)),
    _rows_of("DECIMAL(38, 2)", _INTS.map(Decimal)),
    _rows_of("DATE", st.dates()),
    _rows_of("TIME(3)", st.times().map(lambda t: t.replace(microsecond=0))),
    _rows_of("TIMESTAMP(6)", _INTS),
    _rows_of("TIMESTAMP(6) WITH LOCAL TIME ZONE", _INTS),
    _rows_of("STRING", _TEXTS),
    _rows_of("BYTES", st.binary(max_size=5)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    _rows_of(ROW, _PAIRS),
    _rows_of(LIST, st.lists(st.none() | _PAIRS, max_size=3)),
    _rows_of(
        MAP, st.dictionaries(_TEXTS, st.none() | st.lists(_PAIRS, max_size=2), max_size=2).map(lambda m: [*m.items()])
    ),
    (pa.dictionary(pa.int32(), pa.string()), _TEXTS),
    (pa.large_string(), _TEXTS),
    (pa.null(), st.none()),
]


@pytest.mark.parametrize(("type_", "values"), _COLUMNS, ids=[str(type_) for type_, _ in _COLUMNS])
@given(data=st.data())
def test_rows_left_out_of_any_column(type_: pa.DataType, values: Any, data: Any) -> None:
    """As taking the other rows one by one leaves them: of slices, too, and beside a bitmap of nulls where none are."""
    rows = data.draw(st.lists(st.none() | values if data.draw(st.booleans()) else values, max_size=40))
    drawn = pa.concat_arrays([pa.array(rows, type_), pa.array([None], type_)])  # the null makes a bitmap
    start = data.draw(st.integers(0, len(rows)))
    column = drawn.slice(start, data.draw(st.integers(0, len(rows) - start)))
    before = data.draw(st.integers(0, 9))
    flags = np.array(data.draw(st.lists(st.booleans(), min_size=before + len(column), max_size=before + len(column))))
    keep = all_but(np.flatnonzero(~flags.astype(np.bool_)), len(flags)).slice(before, len(column))
    batch = pa.RecordBatch.from_arrays([column], names=["c"])
    left = without_rows(batch, keep)
    left.validate(full=True)
    expected = [column[i] for i in range(len(column)) if keep[i].as_py()]
    assert left.schema == batch.schema
    assert list(left.column(0)) == expected
    assert left.column(0).null_count == sum(not value.is_valid for value in expected)


def test_rows_are_left_out_of_several_batches_at_once_within_bounds() -> None:
    assert rows_at_once(1_000, 1_000_000, 35_000_000) == 4_000
    assert rows_at_once(1_000, 1_000_000, 8_000_000_000) == 2_097
    assert rows_at_once(1_000, 1_000_000, 1 << 40) == 1_000
    assert rows_at_once(7, 20, 0) == 28
