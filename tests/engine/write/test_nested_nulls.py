"""NOT NULL inside nested columns: held where the parent has a value, filled where it has none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types.nested import with_members
from paimon_pyds.errors import SchemaError

INNER = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])
STRICT = pa.struct([pa.field("deep", INNER, nullable=False)])
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("s", INNER),
        ("deep", STRICT),
        ("l", pa.list_(pa.field("element", INNER))),
        ("m", pa.map_(pa.string(), INNER)),
        ("n", pa.list_(pa.field("element", pa.int32(), nullable=False))),
    ]
)
ROWS = [
    {"id": 1, "s": {"a": 1, "b": "x"}, "deep": {"deep": {"a": 7, "b": None}}, "l": [{"a": 1, "b": "y"}, None],
     "m": [("k", {"a": 2, "b": "z"})], "n": [1, 2]},
    {"id": 2, "s": None, "deep": None, "l": None, "m": None, "n": None},
    {"id": 3, "s": {"a": 3, "b": None}, "deep": {"deep": {"a": 8, "b": "q"}}, "l": [], "m": [("k", None)], "n": []},
]  # fmt: skip


def loose(type_: pa.DataType) -> pa.DataType:
    """The type as data frames give it: everything nullable."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, loose(f.type)) for f in map(type_.field, range(type_.num_fields))])
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, loose(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(loose(type_.value_type))
    return type_


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("sliced", [False, True])
def test_members_of_a_struct_that_is_null_need_no_value(tmp_path, file_format, sliced):
    table = pp.Table.create(tmp_path / "t", SCHEMA, options={"file.format": file_format})
    data = pa.table([pa.array([r[f.name] for r in ROWS], loose(f.type)) for f in SCHEMA], names=SCHEMA.names)
    table.append(data.slice(1) if sliced else data)
    assert table.scan().to_arrow().to_pylist() == ROWS[1 if sliced else 0 :]


@pytest.mark.parametrize(
    ("column", "value", "path"),
    [
        ("s", {"a": None, "b": "x"}, "s.a"),
        ("deep", {"deep": None}, "deep.deep"),
        ("deep", {"deep": {"a": None}}, "deep.deep.a"),
        ("l", [None, {"a": None}], "l.element.a"),
        ("m", [("k", {"a": None})], "m.value.a"),
        ("n", [1, None], "n.element"),
    ],
)
def test_a_missing_member_is_named_and_nothing_is_written(tmp_path, column, value, path):
    table = pp.Table.create(tmp_path / "t", SCHEMA)
    data = pa.table(
        {"id": pa.array([1, 2], pa.int32()), column: pa.array([None, value], loose(SCHEMA.field(column).type))}
    )
    with pytest.raises(SchemaError, match=f"column {path} is NOT NULL"):
        table.append(data)
    assert table.snapshots.latest() is None


def test_members_are_found_by_name_and_keep_their_meaning(tmp_path):
    table = pp.Table.create(tmp_path / "t", SCHEMA)
    swapped = pa.array([{"b": "x", "a": 1}], pa.struct([("b", pa.string()), ("a", pa.int64())]))
    table.append(pa.table({"id": pa.array([1], pa.int32()), "s": swapped}))
    assert table.scan(columns=["s"]).to_arrow().to_pylist() == [{"s": {"a": 1, "b": "x"}}]
    with pytest.raises(SchemaError, match=r"column s\.a is string in the data and INT in the table"):
        table.append(pa.table({"id": pa.array([1], pa.int32()), "s": pa.array([{"a": "1", "b": "x"}])}))
    with pytest.raises(SchemaError, match=r"1099511627776 does not fit column 's\.a', which is INT .*, first in row 1"):
        table.append(pa.table({"id": pa.array([1], pa.int32()), "s": pa.array([{"a": 1 << 40, "b": "x"}])}))


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_maps_whose_values_lack_a_member(tmp_path: Path, format: str) -> None:
    """Keys are NOT NULL in the arrays that pyarrow gets, or it writes past its memory."""
    columns = {"id": "INT", "m": "MAP<STRING, ROW<x INT, y INT>>"}
    table = pp.Table.create(tmp_path / "t", columns, options={"file.format": format, "missing-columns": "null"})
    given = pa.map_(pa.string(), pa.struct({"x": pa.int32()}))
    maps = [None, None, [("k", None), ("l", {"x": 1})]]
    array = with_members(pa.array(maps, given), table.arrow_schema.field("m").type)
    assert not array.values.type.field("key").nullable
    for number in range(20):
        table.append(pa.table({"id": pa.array([number] * 3, pa.int32()), "m": pa.array(maps, given)}))
    assert table.to_arrow()["m"].to_pylist() == [None, None, [("k", None), ("l", {"x": 1, "y": None})]] * 20
