"""VARIANT columns that are written shredded: what is in columns, what comes back, what statistics keep."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types import ArrayType, DataField, DataType, RowType, parse_type
from paimon_pyds.base.types.arrow import ARROW_VARIANT
from paimon_pyds.base.variant.infer import Inference, Limits
from paimon_pyds.base.variant.shred import shredded
from paimon_pyds.errors import CorruptFileError, OptionError, PaimonError, UnsupportedError
from paimon_pyds.format.parquet.variants import whole_values
from support.variants import SCALARS, SHAPES, VALUES, pair, same
from support.variants import shredded as shredded_row_by_row

_TYPES = {
    "bytes": "BYTES", "instant": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "clock": "TIMESTAMP(6)", "value": "VARIANT",
    "uuid": "VARIANT",
}  # fmt: skip
_MISSING = object()
_FRACTIONS = [Decimal(v) for v in ("1.5", "-99.99", "3.0", "100.5", "1.555", "2.500", "0E-30", "1E-30")]


def _type(shape: Any) -> DataType:
    if isinstance(shape, dict):
        return RowType(fields=tuple(DataField(i, k, _type(s)) for i, (k, s) in enumerate(shape.items())))
    return ArrayType(element=_type(shape[0])) if isinstance(shape, list) else parse_type(_TYPES.get(shape, shape))


def _without_uuids(shape: Any) -> Any:
    if isinstance(shape, dict):
        return {key: _without_uuids(inner) for key, inner in shape.items()}
    return list(map(_without_uuids, shape)) if isinstance(shape, list) else "value" if shape == "uuid" else shape


def _places(value: Any) -> Any:
    """In which columns a value is; of bytes only whether there are some, as keys may have any number."""
    if isinstance(value, dict):
        return {k: v is not None if k in ("value", "metadata") else _places(v) for k, v in value.items()}
    return list(map(_places, value)) if isinstance(value, list) else value


def _column(values: list[Any]) -> pa.Array:
    """A column of values, of which `_MISSING` is NULL; None is JSON's null."""
    return pa.array([None if value is _MISSING else pair(value) for value in values], ARROW_VARIANT)


@given(st.lists(VALUES | st.just(_MISSING), max_size=8), SHAPES, st.integers(0, 2))
def test_what_is_in_columns_is_what_a_shredder_of_rows_puts_there(values: list[Any], shape: Any, skip: int) -> None:
    shape = _without_uuids(shape)
    column = _column(values).slice(skip)
    found = shredded(column, _type(shape))
    expected = shredded_row_by_row(values[skip:], shape, missing=_MISSING)
    assert _places(found.to_pylist()) == _places(expected.to_pylist())
    if "typed_value" not in [field.name for field in found.type]:
        return
    back = whole_values(found, "v", "file")
    assert back.is_null().to_pylist() == [v is _MISSING for v in values[skip:]]
    assert list(map(same, pp.variant_values(back))) == [same(None if v is _MISSING else v) for v in values[skip:]]


@pytest.mark.parametrize(
    ("type_", "fitting"),
    [
        ("DECIMAL(4, 2)", [Decimal("1.5"), Decimal("-99.99"), Decimal("3.0"), Decimal("2.500"), Decimal("0E-30")]),
        ("DECIMAL(38, 0)", [Decimal("3.0"), Decimal(10**38 - 1), Decimal("0E-30"), Decimal(10**20)]),
        (
            "DECIMAL(38, 30)",
            [Decimal(v) for v in ("1.5", "-99.99", "3.0", "100.5", "1.555", "2.500", "0E-30", "1E-30")],
        ),
        ("TINYINT", [7, -128, 127, 0]),
        ("DOUBLE", [2.0]),
    ],
)
def test_numbers_stay_what_they_are(type_: str, fitting: list[Any]) -> None:
    """A decimal is no integer, and no digit is lost but zeros at the end."""
    values = [
        *_FRACTIONS, 7, -128, 128, 127, 0, 2.0, True, None, Decimal(10**38 - 1), Decimal(10**20),
    ]  # fmt: skip
    found = shredded(_column(values), parse_type(type_))
    typed = found.field("typed_value").to_pylist()
    assert [(type(v), v) for v in typed if v is not None] == [
        (type(v), v) for v in values if any(type(v) is type(f) and v == f for f in fitting)
    ]
    assert found.field("value").is_valid().to_pylist() == [v is None for v in typed]
    assert list(map(same, pp.variant_values(whole_values(found, "v", "file")))) == list(map(same, values))


INFERRED: list[tuple[list[Any], dict[str, Any], str]] = [
    ([{"a": 1, "b": "x"}, {"a": 2**40, "b": None}], {}, "ROW<a BIGINT, b STRING>"),
    ([1, "x"], {}, "VARIANT"),
    ([None], {}, "VARIANT"),
    ([], {}, "VARIANT"),
    ([[1, None], [], [{"a": True}]], {}, "VARIANT"),
    ([[{"a": True}], [], [{"b": 1.5}, None]], {}, "ARRAY<ROW<a BOOLEAN, b DOUBLE>>"),
    ([{"p": Decimal("1.25")}, {"p": Decimal("100.5")}], {}, "ROW<p DECIMAL(18, 2)>"),
    ([{"p": Decimal("1.25")}, {"p": 3}], {}, "ROW<p DECIMAL(38, 2)>"),
    ([Decimal("0." + "1" * 30), Decimal(10**20)], {}, "VARIANT"),
    ([{"a": 1}] * 19 + [{"rare": 1}], {}, "ROW<a BIGINT>"),
    ([{"a": 1}] * 19 + [{"rare": 1}], {"least_ratio": 0.05}, "ROW<a BIGINT, rare BIGINT>"),
    ([{"a": 1}] * 5 + [{"late": 1}] * 5, {"rows": 5}, "ROW<a BIGINT>"),
    ([{"o": {"x": {"y": 1}}, "z": 1}], {"depth": 2}, "ROW<o ROW<x VARIANT>, z BIGINT>"),
    ([{"a": 1, "b": 1, "c": 1}], {"width": 5}, "ROW<a BIGINT, b BIGINT>"),
    ([{"a": 1, "b": 1, "c": 1}], {"width": 2}, "ROW<a VARIANT>"),
    ([{"d": dt.date(2024, 1, 1), "t": dt.time(1), "b": b"x", "": 1}], {}, "ROW<b BYTES, d DATE, t VARIANT>"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "limits", "expected"), INFERRED)
def test_types_are_inferred(values: list[Any], limits: dict[str, Any], expected: str) -> None:
    assert (
        str(Inference(Limits(**limits)).of(_column([*values, _MISSING] if "rows" not in limits else values)))
        == expected
    )


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS | st.lists(SCALARS, max_size=3), max_size=3), max_size=8)
)
def test_what_is_inferred_holds_the_values(values: list[Any]) -> None:
    column = _column(values)
    type_ = Inference(Limits()).of(column)
    if type_.kind.value == "VARIANT":
        return
    found = shredded(column, type_)
    back = pp.variant_values(whole_values(found, "v", "file"))
    assert list(map(same, back)) == list(map(same, values))


def _row(**fields: Any) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"name": name, "type": type_} for name, type_ in fields.items()]}


def _options(**fields: Any) -> dict[str, str]:
    return {"variant.shreddingSchema": json.dumps(_row(**fields))}


SAID_WRONG: list[tuple[str, type[PaimonError], str]] = [
    ("x", OptionError, "no type in JSON"),
    ('"INT"', OptionError, "has to be a ROW"),
    (json.dumps(_row(v={"type": "MAP", "key": "STRING", "value": "INT"})), UnsupportedError, "v is a MAP"),
    (json.dumps(_row(v=_row(t="TIMESTAMP(3)"))), UnsupportedError, r"v\.t is a TIMESTAMP\(3\)"),
    (json.dumps(_row(v=_row())), OptionError, "v is a ROW of nothing"),
    (json.dumps({"type": "ROW", "fields": [{"name": "v", "type": {"type": "ROW", "fields": [
        {"name": "a", "type": "INT"}, {"name": "a", "type": "INT"}]}}]}), OptionError, "two fields of one name"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "error", "message"), SAID_WRONG)
def test_wrong_schemas_are_refused(tmp_path: Path, text: str, error: type[PaimonError], message: str) -> None:
    with pytest.raises(error, match=message):
        pp.Table.create(tmp_path / "t", "id INT, v VARIANT", options={"variant.shreddingSchema": text})
    assert not (tmp_path / "t").exists()


def _files(table: pp.Table) -> list[Path]:
    return [Path(row["file_path"]) for row in table.system.read("files").to_pylist()]


@pytest.mark.parametrize("keyed", [False, True])
def test_every_write_shreds(tmp_path: Path, keyed: bool) -> None:
    """Appends, updates, compactions; of columns inside rows what is inferred, and of new columns what options name."""
    options = _options(v=_row(n="BIGINT", gone="INT"), other="INT") | ({"bucket": "1"} if keyed else {})
    table = pp.Table.create(
        tmp_path / "t", "id BIGINT NOT NULL, v VARIANT", primary_key="id" if keyed else None, options=options
    )
    expected = {i: {"n": i, "s": f"s{i}"} for i in range(100)}
    for start in range(0, 100, 50):
        table.append([{"id": i, "v": expected[i]} for i in range(start, start + 50)])
    table.update({"v": "parse_json('{\"n\": -1}')"}, "v:n::bigint % 10 = 3")
    expected |= {i: {"n": -1} for i in range(3, 100, 10)}
    table.compact(full=True)
    rows = table.scan().to_arrow()
    assert dict(zip(rows["id"].to_pylist(), pp.variant_values(rows["v"]), strict=True)) == expected
    for path in _files(table):
        typed = pq.read_table(path)["v"].combine_chunks().field("typed_value").field("n").field("typed_value")
        assert typed.null_count == 0
    assert table.scan("v:n::bigint = -1").to_arrow().num_rows == 10
    table.alter(unset_options=["variant.shreddingSchema"], set_options={"variant.inferShreddingSchema": "true"})
    table.alter(add_columns={"r": "ROW<v VARIANT, n INT NOT NULL>"})
    inside = pp.variant_array([{"x": 1}])[0].as_py()
    more = [{"id": 200 + i, "v": pair(i), "r": {"v": inside, "n": i} if i % 2 else None} for i in range(10)]
    table.append(pa.Table.from_pylist(more, table.arrow_schema))
    rows = table.scan("id >= 200").to_arrow().sort_by("id")
    assert pp.variant_values(rows["v"]) == list(range(10))
    assert pp.variant_values(pa.compute.struct_field(rows["r"], "v")) == [
        {"x": 1} if i % 2 else None for i in range(10)
    ]
    newest = pq.ParquetFile(max(_files(table), key=lambda path: path.stat().st_mtime_ns)).metadata
    paths = {newest.row_group(0).column(i).path_in_schema for i in range(newest.num_columns)}
    assert {"v.typed_value", "r.v.typed_value.x.typed_value"} <= paths


def test_duplicate_keys_are_refused(tmp_path: Path) -> None:
    twice = {"value": b"\x02\x02\x00\x00\x00\x01\x02\x00\x00", "metadata": b"\x01\x01\x00\x01a"}
    table = pp.Table.create(tmp_path / "t", "v VARIANT", options=_options(v=_row(a="INT")))
    with pytest.raises(PaimonError, match="the key 'a' twice"):
        table.append(pa.table({"v": pa.array([twice], ARROW_VARIANT)}))


def _changed(draw: st.DrawFn, of: pa.Array) -> pa.Array:
    """The bytes of an array with one of them changed, or cut off."""
    values = of.to_pylist()
    at = draw(st.integers(0, len(values) - 1))
    if values[at]:
        place = draw(st.integers(0, len(values[at]) - 1))
        middle = bytes([draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF]))]) if draw(st.booleans()) else b""
        values[at] = values[at][:place] + middle + (values[at][place + 1 :] if middle else b"")
    return pa.array(values, of.type)


@st.composite
def _damaged(draw: st.DrawFn) -> tuple[pa.Array, pa.Array]:
    """A column, whole and shredded, with a byte of either changed."""
    column = _column(draw(st.lists(VALUES, min_size=1, max_size=4)))
    found = shredded(column, _type(_without_uuids(draw(SHAPES))))
    both = []
    for one in (column, found):
        name = draw(st.sampled_from(["metadata", "value"]))
        members = {field.name: one.field(field.name) for field in one.type}
        members[name] = _changed(draw, members[name])
        both.append(pa.StructArray.from_arrays(list(members.values()), fields=list(one.type)))
    return both[0], both[1]


@given(_damaged())
def test_damaged_bytes_are_errors_or_values(damaged: tuple[pa.Array, pa.Array]) -> None:
    """Checksums of pages find damage; here are none, so that some bytes are other values."""
    whole, parts = damaged
    for read in (
        lambda: pp.variant_values(whole_values(parts, "v", "file")),
        lambda: pp.variant_values(whole_values(shredded(whole, Inference(Limits()).of(whole)), "v", "file")),
    ):
        try:
            assert len(read()) == len(whole)
        except (CorruptFileError, UnsupportedError):
            pass
