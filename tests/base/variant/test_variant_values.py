"""The encoding of VARIANT: any values, texts of JSON, paths, and bytes that are not what the format says."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import random
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types.arrow import ARROW_VARIANT
from paimon_pyds.base.variant.encode import InvalidJsonError, encode, parse_json
from paimon_pyds.base.variant.json_text import to_json
from paimon_pyds.base.variant.nodes import MAX_DEPTH, Nodes
from paimon_pyds.base.variant.paths import follow, parse_path
from paimon_pyds.base.variant.python import decode
from paimon_pyds.errors import CorruptFileError, SchemaError, UnsupportedError
from support.variants import VALUES, pair, same


def _column(*pairs: tuple[bytes, bytes]) -> pa.Array:
    return pa.array([dict(zip(("value", "metadata"), one, strict=True)) for one in pairs], ARROW_VARIANT)


@given(st.lists(VALUES, max_size=8), st.integers(0, 3))
def test_values_come_back(values: list[Any], skipped: int) -> None:
    column = pp.variant_array([{"first": 1}, *values])
    assert column.type == ARROW_VARIANT
    again = pa.chunked_array([column.slice(1 + skipped), column.slice(0, 0)])
    assert [same(v) for v in pp.variant_values(again)] == [same(v) for v in values[skipped:]]
    assert [v is None for v in values] == column.slice(1).is_null().to_pylist()


def test_large_values_come_back() -> None:
    values = [
        list(range(-150, 150)),
        {f"k{i}": i for i in range(300)},
        {"k" * 70_000: 1},
        ["z" * 70_000] * 300,
        {"a": [{"b": b"x" * 2**17}] * 130},
    ]
    assert pp.variant_values(pp.variant_array(values)) == values


@given(st.lists(VALUES, max_size=8))
def test_json_says_the_same(values: list[Any]) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, bool | str | None):
            return value
        if isinstance(value, int | float | decimal.Decimal):
            return decimal.Decimal(repr(value) if isinstance(value, float) else value)
        return None

    def without_times(value: Any, model: Any) -> Any:
        if isinstance(model, dict):
            return {key: without_times(item, model[key]) for key, item in value.items()}
        if isinstance(model, list):
            return [without_times(a, b) for a, b in zip(value, model, strict=True)]
        return None if isinstance(model, dt.date | dt.time | uuid.UUID) else value

    nodes = Nodes.of(_column(*map(encode, values)))[0]
    found = [
        json.loads(t, parse_float=decimal.Decimal, parse_int=decimal.Decimal)
        for t in to_json(nodes, dt.UTC).to_pylist()
    ]
    assert [without_times(f, v) for f, v in zip(found, values, strict=True)] == [plain(v) for v in values]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, {}, []]}, '{"a":[true,null,{},[]],"b":1}'),
        ('\x01"\\\n/é', '"\\u0001\\"\\\\\\n/é"'),
        (decimal.Decimal("12.3400"), "12.34"),
        (decimal.Decimal("-0.00"), "0"),
        (1e7, "1.0E7"),
        (float("nan"), '"NaN"'),
        (b"\0\1", '"AAE="'),
        (dt.date(1, 2, 3), '"0001-02-03"'),
        (dt.datetime(2020, 1, 2, 3, 4, 5, 120_000), '"2020-01-02 03:04:05.12"'),
        (dt.datetime(1960, 1, 2, 3, 4, 5, tzinfo=dt.UTC), '"1960-01-02 05:34:05+02:30"'),
    ],
)
def test_json_is_spelled_as_by_spark(value: Any, text: str) -> None:
    zone = dt.timezone(dt.timedelta(hours=2, minutes=30))
    assert to_json(Nodes.of(_column(encode(value)))[0], zone).to_pylist() == [text]


JSON: list[tuple[str, Any]] = [
    (
        '{"a": [1, 2.50, 1e2, -0.0], "b": "\\u00e9"}',
        {"a": [1, decimal.Decimal("2.50"), 100.0, decimal.Decimal("-0.0")], "b": "é"},
    ),
    ("123456789012345678901234567890123456789", 1.2345678901234568e38),
    ("9223372036854775808", decimal.Decimal("9223372036854775808")),
    (" null ", None),
]


@pytest.mark.parametrize(("text", "value"), JSON)
def test_json_is_parsed(text: str, value: Any) -> None:
    assert same(decode(Nodes.of(_column(parse_json(text)))[0]).tolist()[0]) == same(value)


@pytest.mark.parametrize("text", ["", "{", '{"a":1,"a":2}', "NaN", "[1,]", "1 2", "'a'", "[" * 5000, '"\\ud800"'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidJsonError):
        parse_json(text)


def test_values_that_there_are_none_of() -> None:
    for value, text in (({1: 2}, "key of type int"), (object(), "object"), (decimal.Decimal(10) ** 40, "38 digits")):
        with pytest.raises(SchemaError, match=text) as error:
            pp.variant_array([None, value])
        assert error.value.row == 1
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    with pytest.raises(SchemaError, match="nested deeper"):
        pp.variant_array([deep])


PATHS = {
    "$": (), "$.a": ("a",), "$.a.b c": ("a", "b c"), "$[0]": (0,), "$['a.b'][2]": ("a.b", 2), '$["x"].y': ("x", "y"),
    "a": None, "$.": None, "$a": None, "$[-1]": None, "$[a]": None, "$..a": None, "$[99999999999]": None, "$['a": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "steps"), PATHS.items())
def test_paths(text: str, steps: tuple[str | int, ...] | None) -> None:
    assert parse_path(text) == steps


@given(st.lists(VALUES, min_size=1, max_size=8), st.lists(st.sampled_from(["a", "b", "", 0, 1, "é"]), max_size=3))
def test_a_path_leads_to_the_part(values: list[Any], path: list[str | int]) -> None:
    def part(value: Any) -> list[Any]:
        for step in path:
            if (isinstance(step, str) and isinstance(value, dict) and step in value) or (
                isinstance(step, int) and isinstance(value, list) and step < len(value)
            ):
                value = value[step]
            else:
                return []
        return [value]

    found, rows = follow(Nodes.of(_column(*map(encode, values)))[0], tuple(path))
    expected = [(row, same(p)) for row, value in enumerate(values) for p in part(value)]
    assert list(zip(rows.tolist(), map(same, decode(found).tolist()), strict=True)) == expected


# -------------------------------------------------------------------------------------------------------- damage


def _read(value: bytes, metadata: bytes) -> None:
    column = _column((value, metadata))
    pp.variant_values(column)
    to_json(Nodes.of(column)[0], dt.UTC)


def test_damaged_bytes_are_errors_and_never_hang() -> None:
    draw = random.Random(5)
    value, metadata = encode({"a": [1, "two", {"b": 2.5}], "c" * 70: decimal.Decimal("1.5"), "d": [[]] * 3})
    refused = 0
    for _ in range(600):
        parts = [bytearray(value), bytearray(metadata)]
        damaged = parts[draw.random() < 0.3]
        for _ in range(draw.randrange(1, 3)):
            damaged[draw.randrange(len(damaged))] = draw.choice([0, 255, draw.randrange(256)])
        if draw.random() < 0.2:
            del damaged[draw.randrange(len(damaged)) :]
        try:
            _read(bytes(parts[0]), bytes(parts[1]))
        except (CorruptFileError, UnsupportedError):
            refused += 1
    assert refused > 200


def test_items_that_share_bytes_do_not_multiply() -> None:
    """Each array has two items, both the next array: 2^60 values in some hundred bytes."""
    value = b"\x00"
    for _ in range(60):
        value = bytes([3, 2, 0, 0, len(value) & 255]) + value
    with pytest.raises(CorruptFileError):
        _read(value, b"\x01\x00\x00")


def test_values_nested_without_end_are_refused() -> None:
    value = b"\x00"
    for _ in range(MAX_DEPTH + 5):
        width = 3
        value = bytes([3 | (width - 1) << 2, 1]) + bytes(width) + len(value).to_bytes(width, "little") + value
    with pytest.raises(CorruptFileError, match="nested deeper"):
        _read(value, b"\x01\x00\x00")


@pytest.mark.parametrize(
    ("value", "metadata", "message"),
    [
        (b"", b"\x01\x00\x00", "without a first byte"),
        (b"\x00", b"\x02\x00\x00", "version 2"),
        (b"\x00", b"\x01", "shorter than its header"),
        (b"\x00", b"\x01\x05\x00", "outside of itself"),
        (b"\x00", b"\x01\x01\x00\x01\xff", "not UTF-8"),
        (b"\xfc", b"\x01\x00\x00", "type 63"),
        (b"\x05\xff", b"\x01\x00\x00", "not UTF-8"),
        (b"\x20\x27\x00\x00\x00\x00", b"\x01\x00\x00", "scale 39"),
        (b"\x02\x01\x00\x00\x01\x00", b"\x01\x00\x00", "key that its metadata does not have"),
        (b"\x13\xff\xff\xff\xff", b"\x01\x00\x00", "longer than"),
    ],
)
def test_what_is_wrong_is_said(value: bytes, metadata: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        _read(value, metadata)


def test_many_metadata_are_read_at_once() -> None:
    values = [{f"k{i}": {"a": i}} for i in range(5000)]
    nodes, _ = Nodes.of(pp.variant_array(values))
    found, rows = follow(nodes, ("k77", "a"))
    assert (rows.tolist(), decode(found).tolist()) == ([77], [77])
    assert decode(nodes.pick(np.array([3, 1]))).tolist() == [values[3], values[1]]
    assert pair(1) == {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}
