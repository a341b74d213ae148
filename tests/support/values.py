"""Arrow columns ⇄ the JSON value forms of the Java oracle and of the fixtures' expected rows.

BOOLEAN and integers as they are; FLOAT and DOUBLE as Python's repr in a string; DECIMAL plain text; bytes in hex; DATE,
TIME and TIMESTAMP as ISO text with six digits (nine above microseconds), LTZ in UTC with Z; ARRAY a list; MAP a list of
[key, value] sorted by the key's JSON text; ROW an object. The Arrow type alone decides, so a wrong column type shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_pyds.base.types.arrow import is_variant
from paimon_pyds.base.variant.encode import parse_json
from support.fixtures import json_lines

_EPOCH = datetime(1970, 1, 1)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Rows = pa.Table | pa.RecordBatch


dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
"""JSON text as the oracle writes it."""


def in_order(lines: Iterable[str]) -> list[str]:
    """Lines sorted as the oracle sorts them: by code point."""
    return sorted(lines, key=lambda line: line.encode("utf-8", "surrogatepass"))


def json_rows(table: Rows) -> list[dict[str, Any]]:
    """Each row as an object of JSON values, in the table's order."""
    names = table.schema.names
    columns = [json_values(table.column(i)) for i in range(len(names))]
    return (
        [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else [{}] * table.num_rows
    )


def lines(table: Rows) -> list[str]:
    """The rows as the files under expected/ have them: one JSON text each, sorted."""
    return in_order(dumps(row) for row in json_rows(table))


def expected_lines(path: Path) -> list[str]:
    """Rows of a file under expected/, sorted likewise."""
    return in_order(dumps(value) for value in json_lines(path))


def json_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The JSON values of one column."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in json_values(chunk)]
    type_ = column.type
    t = pa.types
    if t.is_struct(type_):
        columns = [json_values(child) for child in column.flatten()]
        names = [type_.field(i).name for i in range(type_.num_fields)]
        valid = column.is_valid().to_pylist()
        return [dict(zip(names, (c[i] for c in columns), strict=True)) if ok else None for i, ok in enumerate(valid)]
    if t.is_map(type_):
        entries = zip(_slices(column, column.keys), _slices(column, column.items), strict=True)
        return [None if k is None else _entries(k, v) for k, v in entries]
    if t.is_fixed_size_list(type_):
        column = column.cast(pa.list_(type_.value_field))
    if t.is_list(column.type) or t.is_large_list(type_):
        return _slices(column, column.values)
    if t.is_timestamp(type_):
        return _each(column.cast(pa.int64()), lambda v: _timestamp_text(v, type_))
    if t.is_time(type_):
        per_second = PER_SECOND[type_.unit]
        wide = column.cast(pa.int32() if t.is_time32(type_) else pa.int64())
        return _each(wide, lambda v: _clock(v // per_second, v % per_second * 10**6 // per_second, 6))
    if t.is_date(type_):
        return _each(column, date.isoformat)
    if t.is_floating(type_):
        return _each(column, repr)
    if t.is_decimal(type_):
        return _each(column, lambda v: format(v, "f"))
    if t.is_binary(type_) or t.is_large_binary(type_) or t.is_fixed_size_binary(type_):
        return _each(column, bytes.hex)
    if t.is_boolean(type_) or t.is_integer(type_) or t.is_string(type_) or t.is_large_string(type_):
        return list(column.to_pylist())
    raise TypeError(f"no JSON form for {type_}")


def _each(column: pa.Array, convert: Callable[[Any], str]) -> list[Any]:
    return [None if value is None else convert(value) for value in column.to_pylist()]


def _slices(column: pa.Array, child: pa.Array) -> list[Any]:
    values = json_values(child)
    offsets = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    return [values[offsets[i] : offsets[i + 1]] if ok else None for i, ok in enumerate(valid)]


def _entries(keys: Sequence[Any], values: Sequence[Any]) -> list[list[Any]]:
    pairs = [[k, v] for k, v in zip(keys, values, strict=True)]
    return sorted(pairs, key=lambda pair: dumps(pair[0]).encode("utf-8"))


def _clock(seconds: int, fraction: int, digits: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:0{digits}d}"


def _timestamp_text(value: int, type_: pa.DataType) -> str:
    per_second = PER_SECOND[type_.unit]
    seconds, fraction = divmod(value, per_second)
    digits = 9 if type_.unit == "ns" else 6
    when = _EPOCH + timedelta(seconds=seconds)
    day = f"{when.year:04d}-{when.month:02d}-{when.day:02d}"
    of_day = when.hour * 3600 + when.minute * 60 + when.second
    text = f"{day}T{_clock(of_day, fraction * 10**digits // per_second, digits)}"
    return text + ("Z" if type_.tz is not None else "")


# ---------------------------------------------------------------------------------------------- JSON values → Arrow


def arrow_rows(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows of JSON values (input/*.jsonl, expected/*.jsonl) as an Arrow table; absent columns are NULL."""
    listed = list(rows)
    columns = [pa.array([arrow_value(row.get(f.name), f.type) for row in listed], f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def arrow_value(value: Any, type_: pa.DataType) -> Any:
    """One JSON value as what `pa.array` takes for this type."""
    if value is None:
        return None
    t = pa.types
    if is_variant(type_) and "json" in value:
        return dict(zip(("value", "metadata"), parse_json(value["json"]), strict=True))
    if t.is_struct(type_):
        return {
            type_.field(i).name: arrow_value(value.get(type_.field(i).name), type_.field(i).type)
            for i in range(type_.num_fields)
        }
    if t.is_map(type_):
        pairs = value.items() if isinstance(value, dict) else value  # inputs of the fixtures may have objects
        return [(arrow_value(k, type_.key_type), arrow_value(v, type_.item_type)) for k, v in pairs]
    if t.is_list(type_) or t.is_large_list(type_):
        return [arrow_value(v, type_.value_type) for v in value]
    if t.is_timestamp(type_):
        return _timestamp_value(value, type_)
    if t.is_time(type_):
        hours, minutes, seconds = value.split(":")
        whole, _, fraction = seconds.partition(".")
        micros = (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 10**6 + int((fraction + "000000")[:6])
        return micros * PER_SECOND[type_.unit] // 10**6
    if t.is_date(type_):
        return date.fromisoformat(value)
    if t.is_floating(type_):
        return float(value)
    if t.is_decimal(type_):
        return Decimal(value)
    if t.is_binary(type_) or t.is_large_binary(type_) or t.is_fixed_size_binary(type_):
        return bytes.fromhex(value)
    return value


def _timestamp_value(text: str, type_: pa.DataType) -> int:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = (datetime.fromisoformat(whole) - _EPOCH) // timedelta(seconds=1)
    per_second = PER_SECOND[type_.unit]
    return seconds * per_second + int((fraction + "000000000")[:9]) * per_second // 10**9
