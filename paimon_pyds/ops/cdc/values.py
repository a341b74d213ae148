"""Values of JSON messages → columns of a table's types.

What the numbers and texts of a field are is said by the schema of Debezium's messages, or follows from the column's
type; where neither says it (a unit of time, decimals as bytes), the caller's options must.
(Source: Debezium documentation, "Data type mappings"; "Logical types" of Kafka Connect.)
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.types import AtomicType, DataField, DataType, arrow_type
from paimon_pyds.base.types.arrow import from_arrow_type
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, MAX_LENGTH, STRING_KINDS, Kind
from paimon_pyds.base.types.model import ArrayType, MapType, RowType
from paimon_pyds.engine.write.conform import conform_column
from paimon_pyds.errors import PaimonError, SchemaError, UnsupportedError
from paimon_pyds.ops.cdc.messages import DECODER, CdcOptions, json_text
from paimon_pyds.sql.expression.cast import cast_array, to_instant, to_local
from paimon_pyds.sql.expression.operands import decimal_array

Values = Sequence[Any]
Meaning = Mapping[str, Any]
"""The schema of a field in a message of Debezium; empty without one."""

_STRING = AtomicType(Kind.VARCHAR, length=MAX_LENGTH)
_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_TIME_UNITS = {
    "io.debezium.time.Time": "ms", "org.apache.kafka.connect.data.Time": "ms",
    "io.debezium.time.MicroTime": "us", "io.debezium.time.NanoTime": "ns",
}  # fmt: skip
_TIMESTAMP_UNITS = {
    "io.debezium.time.Timestamp": "ms", "org.apache.kafka.connect.data.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us", "io.debezium.time.NanoTimestamp": "ns",
}  # fmt: skip
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_ANY_SCALE = "io.debezium.data.VariableScaleDecimal"
_BITS = "io.debezium.data.Bits"
_ISO = tuple(f"io.debezium.time.Iso{what}" for what in ("Date", "Time", "Timestamp"))
_WITH_OFFSET = r"[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)$"
_BINARY: Mapping[str, Callable[[str], bytes]] = {
    "base64": lambda text: base64.b64decode(text, validate=True),
    "base64-url-safe": base64.urlsafe_b64decode,
    "hex": bytes.fromhex,
    "latin-1": lambda text: text.encode("latin-1"),
}
_FAULTS = (PaimonError, ValueError, TypeError, NotImplementedError, OverflowError, ArithmeticError)
"""The errors for values that do not fit: our own, Arrow's (which are among these) and Python's."""


def column(values: Values, field: DataField, meaning: Meaning, options: CdcOptions) -> pa.Array:
    """The values of a field as a column of the table. Raises SchemaError; ``row`` is the position of the value."""
    if isinstance(options.time_unit, Mapping):
        options = replace(options, time_unit=options.time_unit.get(field.name))

    def made(count: int) -> pa.Array:
        some = values if count == len(values) else values[:count]
        return conform_column(_typed(some, field.type, meaning, options), field, None)

    if all(value is None for value in values):
        return pa.nulls(len(values), arrow_type(field.type))
    try:
        return made(len(values))
    except _FAULTS:
        at = _first_refused(len(values), made)
        raise _refused(values, at, field, made) from None


def _refused(values: Values, at: int, field: DataField, made: Callable[[int], object]) -> SchemaError:
    """The error about the first value that is refused."""
    why, hint = f"{json_text(values[at]):.60} does not fit {field.type.with_nullable(True)}", None
    try:
        made(at + 1)
    except _NeedsOption as error:
        why, hint = error.message, error.hint
    except _FAULTS:
        pass
    refused = SchemaError(f"field {field.name}: {why}", hint=hint)
    refused.row = at
    return refused


def _first_refused(size: int, attempt: Callable[[int], object]) -> int:
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) // 2
        try:
            attempt(middle + 1)
            low = middle + 1
        except _FAULTS:
            high = middle
    return low


class _NeedsOption(SchemaError):
    """A value whose meaning only the caller knows."""


def _typed(values: Values, type_: DataType, meaning: Meaning, options: CdcOptions) -> pa.Array:
    """The values in an Arrow type that goes into the column without a loss."""
    made = _by_meaning(values, meaning, options)
    if made is None:
        if not isinstance(type_, AtomicType):
            return _nested(values, type_, meaning, options)
        made = _by_type(values, type_, meaning, options)
    return _fitting(made, type_, options)


def _by_meaning(values: Values, meaning: Meaning, options: CdcOptions) -> pa.Array | None:
    """Values that the message itself gives a type; None where it says no more than JSON does."""
    name, kinds = meaning.get("name"), set(map(type, values)) - {type(None)}
    if kinds == {int}:
        if name in _DAYS:
            return _view(values, pa.int32(), pa.date32())
        if name in _TIME_UNITS:
            return _time(values, _TIME_UNITS[name])
        if name in _TIMESTAMP_UNITS:
            return _view(values, pa.int64(), pa.timestamp(_TIMESTAMP_UNITS[name]))
    if kinds == {str}:
        if name == _DECIMAL:
            return _from_bytes(values, int((meaning.get("parameters") or {}).get("scale", 0)))
        if name == _BITS or meaning.get("type") == "bytes":
            return array([None if v is None else base64.b64decode(v, validate=True) for v in values], pa.binary())
        if name in _ISO:
            return _local([None if v is None else v.removesuffix("Z") for v in values], name)
    if kinds == {dict} and name == _ANY_SCALE:
        return _of_any_scale(values)
    return None


def _local(texts: Values, name: str) -> pa.Array:
    made = array(texts, pa.string())
    if name.endswith("Date"):
        return made.cast(pa.date32())
    return _times_of_day(made) if name.endswith("Time") else made.cast(pa.timestamp("us"))


def _view(values: Values, storage: pa.DataType, type_: pa.DataType) -> pa.Array:
    return array(values, storage).view(type_)


def _time(values: Values, unit: str) -> pa.Array:
    if unit == "ms":
        return _view(values, pa.int32(), pa.time32("ms"))
    return _view(values, pa.int64(), pa.time64(unit))


def _from_bytes(values: Values, scale: int) -> pa.Array:
    """Decimals from their unscaled values, of which base64 writes the bytes of the two's complement."""
    numbers = [0 if v is None else int.from_bytes(base64.b64decode(v, validate=True), signed=True) for v in values]
    return _decimals(numbers, [v is not None for v in values], scale)


def _decimals(unscaled: Sequence[int], valid: Sequence[bool], scale: int) -> pa.Array:
    if any(abs(number) >= 10**38 for number in unscaled):
        raise OverflowError("more than 38 digits")
    return decimal_array(np.array(unscaled, dtype=object), np.array(valid, np.bool_), pa.decimal128(38, scale))


def _of_any_scale(values: Values) -> pa.Array:
    """Decimals that bring a scale each: all of the largest."""
    given = [None if v is None else (v["scale"], base64.b64decode(v["value"], validate=True)) for v in values]
    scale = max(0, *(v[0] for v in given if v is not None))
    numbers = [0 if v is None else int.from_bytes(v[1], signed=True) * 10 ** (scale - v[0]) for v in given]
    return _decimals(numbers, [v is not None for v in given], scale)


def _by_type(values: Values, type_: AtomicType, meaning: Meaning, options: CdcOptions) -> pa.Array:
    kind, kinds = type_.kind, set(map(type, values)) - {type(None)}
    if kind in STRING_KINDS:
        return _texts(values)
    if kind is Kind.BOOLEAN:
        if kinds == {bool}:
            return array(values, pa.bool_())
        return cast_array(_texts(values), _STRING, type_, "UTC")
    if kind in INTEGER_KINDS:
        return _integers(values, kinds)
    if kind in FLOAT_KINDS:
        return _texts(values).cast(pa.float64())
    if kind is Kind.DECIMAL:
        return _by_decimals(values, kinds, type_, meaning, options)
    if kind in BINARY_KINDS:
        decode = _BINARY[options.binary]
        return array([None if v is None else decode(v) for v in values], pa.binary())
    return _temporal(values, kinds, type_, options)


def _texts(values: Values) -> pa.Array:
    return array([v if v is None or isinstance(v, str) else json_text(v) for v in values], pa.string())


def _integers(values: Values, kinds: set[type]) -> pa.Array:
    if kinds <= {int, bool}:
        try:
            return array([None if v is None else int(v) for v in values], pa.int64())
        except OverflowError:
            pass
    texts = _texts(values)
    if pc.any(pc.match_substring_regex(texts, "^0[xX]")).as_py():
        raise ValueError("Arrow would take hexadecimal digits for the bits of an integer")
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return texts.cast(pa.decimal128(38, 0))  # 1.0 and 1e3 are whole, too


def _by_decimals(
    values: Values, kinds: set[type], type_: AtomicType, meaning: Meaning, options: CdcOptions
) -> pa.Array:
    if str in kinds and not meaning:
        if options.decimals is None:
            raise _NeedsOption(
                "decimals are texts, and messages without a schema do not say of what kind",
                hint="decimals='text' where decimal.handling.mode is string, 'base64' where it is precise",
            )
        if options.decimals == "base64":
            return _from_bytes(values, type_.scale or 0)
    return _texts(values).cast(pa.decimal128(38, type_.scale))


def _temporal(values: Values, kinds: set[type], type_: AtomicType, options: CdcOptions) -> pa.Array:
    """Dates, times of day, wall-clock times and instants, from numbers since 1970 (midnight for times) or ISO texts."""
    if kinds == {int}:
        if type_.kind is Kind.DATE:
            return _view(values, pa.int32(), pa.date32())
        unit = options.time_unit
        if not isinstance(unit, str):
            raise _NeedsOption(
                "times are numbers, and messages without a schema do not say of which unit",
                hint="time_unit='ms', 'us' or 'ns'; for some fields: time_unit={'created_at': 'ms'}",
            )
        if type_.kind is Kind.TIME:
            return _time(values, unit)
        return _view(values, pa.int64(), pa.timestamp(unit))
    if kinds != {str}:
        raise TypeError(f"{kinds} for {type_}")
    texts = array(values, pa.string())
    if type_.kind is Kind.TIME:
        return _times_of_day(texts)
    if type_.kind is Kind.DATE:
        try:
            return texts.cast(pa.date32())
        except pa.ArrowInvalid:
            return texts.cast(pa.timestamp("us"))
    unit = "ns" if (type_.precision or 0) > 6 else "us"
    with_offset = pc.match_substring_regex(texts, _WITH_OFFSET)
    return texts.cast(pa.timestamp(unit, "UTC" if pc.all(with_offset).as_py() else None))


def _times_of_day(texts: pa.Array) -> pa.Array:
    moments = pc.binary_join_element_wise("1970-01-01 ", pc.replace_substring_regex(texts, "Z$", ""), "")
    counts = moments.cast(pa.timestamp("us")).view(pa.int64())
    return counts.view(pa.time64("us"))


def _fitting(made: pa.Array, type_: DataType, options: CdcOptions) -> pa.Array:
    """Values that have a type of their own, as one that the column takes."""
    t = pa.types
    if type_.kind in STRING_KINDS and not (t.is_string(made.type) or t.is_binary(made.type)):
        source = from_arrow_type(made.type, count())
        return cast_array(made, source, _STRING, "UTC") if isinstance(source, AtomicType) else made
    if t.is_binary(made.type) and (type_.kind in INTEGER_KINDS or type_.kind is Kind.BOOLEAN):
        numbers = array([None if v is None else int.from_bytes(v, "little") for v in made.to_pylist()], pa.int64())
        return numbers if type_.kind in INTEGER_KINDS else pc.not_equal(numbers, 0)  # bits of MySQL
    if not t.is_timestamp(made.type) or not isinstance(type_, AtomicType):
        return made
    if (made.type.tz is None) == (type_.kind is not Kind.TIMESTAMP_LTZ):
        return made
    if options.zone is None:
        what = "wall-clock times, and the column has instants" if made.type.tz is None else (
            "instants, and the column has wall-clock times"
        )  # fmt: skip
        raise _NeedsOption(f"the times are {what}", hint="say in which time zone: zone='UTC', 'Europe/Berlin', …")
    precision = {"ms": 3, "us": 6, "ns": 9}[made.type.unit]
    if made.type.tz is None:
        return to_instant(made, AtomicType(Kind.TIMESTAMP_LTZ, precision=precision), options.zone)
    return to_local(made, AtomicType(Kind.TIMESTAMP_LTZ, precision=precision), options.zone)


def _nested(values: Values, type_: DataType, meaning: Meaning, options: CdcOptions) -> pa.Array:
    """Lists and objects, or texts of these."""
    given = [DECODER.decode(v) if isinstance(v, str) else v for v in values]
    valid = array([v is not None for v in given], pa.bool_())
    if isinstance(type_, RowType):
        _check_all(given, dict)
        types = {m["field"]: m for m in meaning.get("fields", ())}
        names = {f.name for f in type_.fields}
        unknown = {name for v in given if v is not None for name in v if name not in names}
        if unknown:
            raise ValueError(f"members {unknown} that the column does not have")
        parts = [
            conform_column(
                _typed([None if v is None else v.get(f.name) for v in given], f.type, types.get(f.name, {}), options),
                f,
                None,
            )
            for f in type_.fields
        ]
        return pa.StructArray.from_arrays(parts, fields=list(arrow_type(type_)), mask=pc.invert(valid))
    if isinstance(type_, MapType):
        _check_all(given, dict)
        keys = _child([k for v in given if v for k in v], type_.key, {}, options)
        items = _child([m for v in given if v for m in v.values()], type_.value, meaning.get("values", {}), options)
        return pa.MapArray.from_arrays(_offsets(given), keys, items)
    if isinstance(type_, ArrayType):
        _check_all(given, list)
        items = _child([m for v in given if v for m in v], type_.element, meaning.get("items", {}), options)
        return pa.ListArray.from_arrays(_offsets(given), items)
    raise UnsupportedError(f"no message has values of {type_}")


def _child(values: Values, type_: DataType, meaning: Meaning, options: CdcOptions) -> pa.Array:
    field = DataField(0, "element", type_)
    if all(v is None for v in values):
        return pa.nulls(len(values), arrow_type(type_))
    return conform_column(_typed(values, type_, meaning, options), field, None)


def _check_all(values: Values, kind: type) -> None:
    if any(v is not None and not isinstance(v, kind) for v in values):
        raise TypeError(f"not a {kind.__name__}")


def _offsets(values: Values) -> pa.Array:
    """Where the items of each list begin, NULL for those that are NULL."""
    ends = np.cumsum([0, *(0 if v is None else len(v) for v in values)])
    starts = [None if v is None else int(at) for v, at in zip(values, ends, strict=False)]
    return array([*starts, int(ends[-1])], pa.int32())
