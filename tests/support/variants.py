"""Values of VARIANT columns for tests: any, as they are compared, and shredded into columns one by one."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from paimon_pyds.base.variant.encode import encode, encoded_by, metadata_of

_KEYS = st.text("abcé", max_size=3) | st.sampled_from(["a", "b", "age", "x y", "\U0001f600", "\uffee", ""])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-300, 300),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20),
    st.text(max_size=80),
    st.binary(max_size=80),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.times(),
    st.uuids(),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_KEYS, inner, max_size=5), max_leaves=20
)
"""Values other than SQL's NULL: None is JSON's null."""


def same(value: Any) -> Any:
    """A value as it is compared: with its type, objects without order."""
    if isinstance(value, dict):
        return {key: same(item) for key, item in value.items()}
    if isinstance(value, list):
        return [same(item) for item in value]
    if isinstance(value, decimal.Decimal) or (isinstance(value, int) and abs(value) >= 2**63):
        return "decimal", decimal.Decimal(value)
    return type(value).__name__, value


_MISSING = object()
_TYPES = {
    "bigint": (pa.int64(), lambda v: type(v) is int and -(2**63) <= v < 2**63),
    "int": (pa.int32(), lambda v: type(v) is int and -(2**31) <= v < 2**31),
    "string": (pa.string(), lambda v: isinstance(v, str)),
    "double": (pa.float64(), lambda v: isinstance(v, float)),
    "boolean": (pa.bool_(), lambda v: isinstance(v, bool)),
    "bytes": (pa.binary(), lambda v: isinstance(v, bytes)),
    "date": (pa.date32(), lambda v: type(v) is dt.date),
    "instant": (pa.timestamp("us", "UTC"), lambda v: isinstance(v, dt.datetime) and v.tzinfo is not None),
    "clock": (pa.timestamp("us"), lambda v: isinstance(v, dt.datetime) and v.tzinfo is None),
    "uuid": (pa.binary(16), lambda v: isinstance(v, uuid.UUID)),
}
SHAPES = st.recursive(
    st.sampled_from([*_TYPES, "value"]),
    lambda inner: st.dictionaries(_KEYS, inner, min_size=1, max_size=3) | st.lists(inner, min_size=1, max_size=1),
    max_leaves=6,
)
"""How to shred: a dictionary of members, a list with the shape of its items, a type, or "value" for no column."""


def _type(shape: Any) -> pa.DataType:
    value = pa.field("value", pa.binary())
    if shape == "value":
        return pa.struct([value])
    if isinstance(shape, dict):
        typed: pa.DataType = pa.struct([pa.field(k, _type(s), nullable=False) for k, s in shape.items()])
    elif isinstance(shape, list):
        typed = pa.list_(pa.field("element", _type(shape[0])))
    else:
        typed = _TYPES[shape][0]
    return pa.struct([value, pa.field("typed_value", typed)])


def _shred(value: Any, shape: Any, bytes_of: Any) -> Any:
    """One value as the members of its group. Source: apache/parquet-format, VariantShredding.md."""
    if value is _MISSING:
        return {"value": None, "typed_value": None}
    if isinstance(shape, dict) and isinstance(value, dict):
        rest = {k: v for k, v in value.items() if k not in shape}
        typed = {k: _shred(value.get(k, _MISSING), s, bytes_of) for k, s in shape.items()}
        return {"value": bytes_of(rest) if rest else None, "typed_value": typed}
    if isinstance(shape, list) and isinstance(value, list):
        return {"value": None, "typed_value": [_shred(item, shape[0], bytes_of) for item in value]}
    if isinstance(shape, str) and shape != "value" and _TYPES[shape][1](value):
        return {"value": None, "typed_value": value.bytes if isinstance(value, uuid.UUID) else value}
    return {"value": bytes_of(value), "typed_value": None}


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    return [key for item in value for key in _keys(item)] if isinstance(value, list) else []


def shredded(values: list[Any], shape: Any, *, missing: object = _MISSING) -> pa.StructArray:
    """Values as a writer of shredded Parquet would store them; ``missing`` stands for SQL's NULL."""
    rows: list[Any] = []
    for value in values:
        if value is missing:
            rows.append(None)
            continue
        names = tuple(sorted(set(_keys(value)), key=str.encode, reverse=True))  # not in the order of the keys
        numbers = {name: number for number, name in enumerate(names)}
        group = _shred(value, shape, lambda part, numbers=numbers: encoded_by(part, numbers))
        rows.append({"metadata": metadata_of(names), **group})
    type_ = _type(shape)
    members = [pa.field("metadata", pa.binary(), nullable=False), *type_]
    return pa.array(rows, pa.struct(members))


def pair(value: Any) -> dict[str, bytes]:
    """A value as the two members of a column."""
    return dict(zip(("value", "metadata"), encode(value), strict=True))
