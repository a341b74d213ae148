"""Rows of all types that pypaimon writes into files of the format row."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    {
        "id": pa.int32(), "b": pa.bool_(), "t": pa.int8(), "s": pa.int16(), "l": pa.int64(), "f": pa.float32(),
        "d": pa.float64(), "text": pa.string(), "raw": pa.binary(), "day": pa.date32(), "ts": pa.timestamp("us"),
        "ms": pa.timestamp("ms"), "low": pa.decimal128(9, 3), "high": pa.decimal128(38, 5),
        "ints": pa.list_(pa.int32()), "texts": pa.list_(pa.string()), "lists": pa.list_(pa.list_(pa.int64())),
        "map": pa.map_(pa.string(), pa.int32()), "row": pa.struct({"x": pa.int32(), "y": pa.list_(pa.string())}),
    }
)  # fmt: skip


def _value(rng: random.Random, type_: pa.DataType) -> Any:
    if rng.random() < 0.25:
        return None
    t = pa.types
    if t.is_struct(type_):
        return {field.name: _value(rng, field.type) for field in type_}
    if t.is_map(type_):
        return [(f"k{n}", _value(rng, type_.item_type)) for n in range(rng.randint(0, 3))]
    if t.is_list(type_):
        return [_value(rng, type_.value_type) for _ in range(rng.choice([0, 1, 2, 9, 20]))]
    if t.is_integer(type_):
        return rng.randint(-(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1)
    if t.is_decimal(type_):
        most = 10**type_.precision - 1
        return Decimal(f"{rng.randint(-most, most)}e-{type_.scale}")
    if t.is_timestamp(type_):
        # pypaimon makes these values by floats, and is one off for others.
        return datetime(rng.randint(1900, 2100), 1, 2, 3, 4, 5, rng.choice([0, 250_000, 500_000]))
    if t.is_date(type_):
        return date(rng.randint(1900, 2100), 3, 4)
    if t.is_boolean(type_):
        return rng.random() < 0.5
    if t.is_floating(type_):
        return rng.choice([0.5, -2.0, float("inf"), 1e30])
    size = rng.choice([0, 1, 5, 127, 128, 300])
    return rng.randbytes(size) if t.is_binary(type_) else "ä" * size


def random_rows(rng: random.Random, count: int) -> pa.Table:
    """Rows that are numbered by ``id``."""
    rows = [{f.name: _value(rng, f.type) for f in SCHEMA} | {"id": number} for number in range(count)]
    return pa.Table.from_pylist(rows, SCHEMA)
