"""Columns of Python's own values, converted by the types of a table's columns rather than by what Arrow takes them for.

Where Arrow's inference gives the right kind of type it is taken, as that is fast; else values are looked at one by one,
which also finds the one that an error names. Texts are no dates, and no numbers, unless ``strict`` is False.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import partial
from itertools import accumulate, chain
from numbers import Integral, Real
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.options.option import is_utf8
from paimon_pyds.base.python_values import as_mapping, check_lossless, none_of
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    arrow_type,
    fields_named,
)
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, Kind
from paimon_pyds.base.types.unfit_values import described, how_to_give
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.write.conform import PANDAS, conform_column
from paimon_pyds.errors import GROWS, SchemaError, suggest

_Rows = Sequence[int]
_LOOSE = "strict=False takes texts and numbers for it; else "
_COUNT = AtomicType(Kind.INT, nullable=False)
_NO_ARROWS = (ValueError, TypeError, NotImplementedError, OverflowError)


class _Refused(Exception):
    """A value that does not fit its type. Its text: why, where the type does not say it."""


@dataclass(frozen=True, slots=True)
class PythonRows:
    """Converts columns of Python's values for a table; called with a column's name and values.

    Attributes:
        fields: the table's columns.
        strict: texts are texts only, and floats no decimals and no integers.
        grows: what does not fit, or is no field of a ROW, has the type that Arrow finds: the table may get it.
    """

    fields: Sequence[DataField]
    strict: bool = True
    grows: bool = False
    of_pandas: bool = False

    def __call__(self, name: str, values: Any, of_pandas: bool = False) -> pa.Array | None:
        """The values as the column of that name takes them; None where the table has none. ``of_pandas``: integers may
        have become floats, with NaN for NULL.
        Raises SchemaError: a value that does not fit; ``row`` is its position."""
        found = fields_named(name, self.fields)
        if len(found) != 1:
            return None
        try:
            how = replace(self, of_pandas=True) if of_pandas else self
            return how._column(values, found[0].type, name, range(len(values)))
        except SchemaError:
            if self.grows:
                return None
            raise

    def _column(self, values: Any, type_: DataType, path: str, rows: _Rows) -> pa.Array:
        """``rows``: of the data, to which the values belong."""
        if type_.kind is Kind.VARIANT:
            return _variants(values, path, rows)
        if isinstance(type_, AtomicType):
            return self._leaves(values, type_, path, rows)
        plain = [none_of(value) for value in values]
        if all(value is None for value in plain):
            return pa.nulls(len(plain))
        if isinstance(type_, RowType):
            return self._structs(plain, type_, path, rows)
        if isinstance(type_, ArrayType | VectorType):
            parts = [None if v is None else _elements(v, type_, path, row) for v, row in zip(plain, rows, strict=True)]
            offsets, own = _offsets(parts, rows)
            elements = self._column(
                list(chain.from_iterable(filter(None, parts))), type_.element, f"{path}.element", own
            )
            return pa.ListArray.from_arrays(offsets, elements)
        assert isinstance(type_, MapType | MultisetType)
        pairs = [None if v is None else _pairs(v, type_, path, row) for v, row in zip(plain, rows, strict=True)]
        offsets, own = _offsets(pairs, rows)
        flat = list(chain.from_iterable(filter(None, pairs)))
        of_keys, of_values = (type_.key, type_.value) if isinstance(type_, MapType) else (type_.element, _COUNT)
        keys = self._column([key for key, _ in flat], of_keys, f"{path}.key", own)
        items = self._column([item for _, item in flat], of_values, f"{path}.value", own)
        if keys.null_count:
            raise _misfit(None, of_keys.with_nullable(False), f"{path}.key", own[keys.is_null().index(True).as_py()])
        return pa.MapArray.from_arrays(offsets, keys, items)

    def _structs(self, values: Sequence[Any], type_: RowType, path: str, rows: _Rows) -> pa.Array:
        """Structs of those members that some value has, as Arrow's inference gives them."""
        found = [None if value is None else as_mapping(value) for value in values]
        for value, members, row in zip(values, found, rows, strict=True):
            if members is None and value is not None:
                hint = "give a dictionary, a dataclass, a named tuple or a model of pydantic"
                raise _misfit(value, type_, path, row, hint)
        names = dict.fromkeys(chain.from_iterable(filter(None, found)))
        lacking = [] if self.grows else [name for name in names if not fields_named(str(name), type_.fields)]
        if lacking:
            fields_text = f"field{'s' if len(lacking) > 1 else ''} {', '.join(map(repr, lacking))}"
            hint = f"{suggest(str(lacking[0]), [f.name for f in type_.fields], 'it has')}; {GROWS}"
            error = SchemaError(f"column {path} of the table has no {fields_text}", hint=hint)
            error.row = rows[next(i for i, members in enumerate(found) if members and lacking[0] in members)]
            raise error
        children, spelled = [], []
        for name in names:
            fields = fields_named(str(name), type_.fields)
            own = [None if members is None else members.get(name) for members in found]
            if not fields:
                children.append(_inferred(own))
                spelled.append(str(name))
                continue
            children.append(self._column(own, fields[0].type, f"{path}.{fields[0].name}", rows))
            spelled.append(fields[0].name)
        if not names:
            return array([None if members is None else {} for members in found], pa.struct([]))
        mask = array([members is None for members in found], pa.bool_())
        return pa.StructArray.from_arrays(children, names=spelled, mask=mask)

    def _leaves(self, values: Any, type_: AtomicType, path: str, rows: _Rows) -> pa.Array:
        natural, floats = _LEAVES[type_.kind][0], self.of_pandas and type_.kind in INTEGER_KINDS
        try:
            found = _inferred(values)
            if pa.types.is_null(found.type) or natural(found.type) or (floats and pa.types.is_floating(found.type)):
                return _conformed(found, type_, path, rows, PANDAS if floats else "")
        except SchemaError as error:
            if error.row is not None and not self.grows:
                raise
        except _NO_ARROWS:
            pass  # of several types, or of one that Arrow does not know
        try:
            return self._converted(values, type_, path, rows)
        except SchemaError:
            if not self.grows:
                raise
        try:
            return _inferred(values)
        except _NO_ARROWS as error:
            raise SchemaError(f"column {path!r}: {error}") from error

    def _converted(self, values: Any, type_: AtomicType, path: str, rows: _Rows) -> pa.Array:
        """Values looked at one by one."""
        made, convert = [], _LEAVES[type_.kind][1]
        for value, row in zip(values, rows, strict=True):
            plain = none_of(value.value if isinstance(value, Enum) else value)
            try:
                made.append(None if plain is None else convert(plain, self.strict))
            except _Refused as why:
                raise _misfit(value, type_, path, row, str(why)) from None
            except (ValueError, TypeError, OverflowError, InvalidOperation, KeyError):
                raise _misfit(value, type_, path, row) from None
        try:
            found = array(made, _TYPES.get(type_.kind))
        except UnicodeEncodeError:
            at = next(i for i, value in enumerate(made) if isinstance(value, str) and not is_utf8(value))
            raise _misfit(made[at], type_, path, rows[at], "give a text without half of a surrogate pair") from None
        return _conformed(found, type_, path, rows)


def _conformed(values: pa.Array, type_: AtomicType, path: str, rows: _Rows, origin: str = "") -> pa.Array:
    try:
        return conform_column(values, DataField(0, path, type_.with_nullable(True)), None, origin=origin)
    except SchemaError as error:
        error.row = None if error.row is None else rows[error.row]
        raise


def _inferred(values: Any) -> pa.Array:
    found = array(values)
    check_lossless(values, found.type)
    return found


def _variants(values: Any, path: str, rows: _Rows) -> pa.Array:
    from paimon_pyds.base.variant.encode import variant_array  # few tables have such columns

    try:
        return variant_array([none_of(value) for value in values])
    except SchemaError as error:
        error.message = f"column {path!r}: {error.message}"
        error.row = None if error.row is None else rows[error.row]
        raise


def _misfit(value: Any, type_: DataType, path: str, row: int, hint: str = "") -> SchemaError:
    if hint in ("", _LOOSE):
        hint += how_to_give(arrow_type(type_), path)
    error = SchemaError(f"{value!r:.60} does not fit column {path!r}, which is {described(type_)}", hint=hint)
    error.row = row
    return error


def _offsets(parts: Sequence[Any], rows: _Rows) -> tuple[pa.Array, list[int]]:
    """Where lists begin and end, NULL for one that is NULL, and the row of each element."""
    sizes = [0 if part is None else len(part) for part in parts]
    ends = [*accumulate(sizes, initial=0)]
    starts = [None if part is None else at for part, at in zip(parts, ends, strict=False)]
    return array([*starts, ends[-1]], pa.int32()), np.repeat(np.array(rows, np.int64), sizes).tolist()


def _elements(value: Any, type_: DataType, path: str, row: int) -> Sequence[Any]:
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return value
    if isinstance(value, np.ndarray | pa.Array) and getattr(value, "ndim", 1) == 1:
        return value.tolist()  # type: ignore[no-any-return]
    raise _misfit(value, type_, path, row, "give a list")


def _pairs(value: Any, type_: DataType, path: str, row: int) -> Sequence[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        return value
    raise _misfit(value, type_, path, row, "give a dictionary, or a list of pairs")


# ---------------------------------------------------------------------------- single values: `none_of` has been applied


def _is(value: Any, *kinds: type) -> bool:
    """Whether a value is a number of these kinds, and no truth value."""
    return isinstance(value, kinds) and not isinstance(value, bool | np.bool_)


def _boolean(value: Any, strict: bool) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return {"true": True, "false": False, "1": True, "0": False}[_loose(value, strict, str, int).lower()]


def _integer(value: Any, strict: bool) -> int:
    if not _is(value, Integral, Decimal):
        value = Decimal(_loose(value, strict, str, float))
    found = int(value)
    if found != value or not -(2**63) <= found < 2**63:
        raise _Refused
    return found


def _float(value: Any, strict: bool) -> float:
    if _is(value, Real, Decimal):
        found = float(value)
        if _is(value, Integral) and found != value:
            raise _Refused("a float has 53 bits")
        return found
    return float(_loose(value, strict, str))


def _decimal(value: Any, strict: bool) -> Decimal:
    if _is(value, Integral):
        return Decimal(int(value))
    found = value if isinstance(value, Decimal) else Decimal(_loose(value, strict, str, float))
    if not found.is_finite():
        raise _Refused
    return found


def _date(value: Any, strict: bool) -> dt.date:
    if isinstance(value, np.datetime64):
        value = _of_numpy(value)
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None or value.time() != dt.time() or getattr(value, "nanosecond", None):
            raise _Refused("it has a time of day: give value.date()")
        return value.date()
    return value if isinstance(value, dt.date) else dt.date.fromisoformat(_loose(value, strict, str))


def _time(value: Any, strict: bool) -> dt.time:
    found = value if isinstance(value, dt.time) else dt.time.fromisoformat(_loose(value, strict, str))
    if found.tzinfo is not None:
        raise _Refused("leave the time zone out")
    return found


def _moment(aware: bool, value: Any, strict: bool) -> dt.datetime:
    if isinstance(value, np.datetime64):
        value = _of_numpy(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime) and not aware:
        value = dt.datetime.combine(value, dt.time())
    found = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(_loose(value, strict, str))
    if getattr(found, "nanosecond", None):
        raise _Refused("its nanoseconds would be lost: give the whole column as an array or a pandas Series")
    if (found.tzinfo is not None) is aware:
        return found
    if strict:
        raise _Refused("give it a time zone: tzinfo=datetime.timezone.utc" if aware else "leave the time zone out")
    zone = ZoneInfo(default_zone())
    return found.replace(tzinfo=zone) if aware else found.astimezone(zone).replace(tzinfo=None)


def _of_numpy(value: np.datetime64) -> Any:
    found = value.astype("datetime64[us]")
    if found != value:
        raise _Refused("its nanoseconds would be lost: give the whole column as an array")
    return found.item()


def _text(value: Any, strict: bool) -> str:
    if not isinstance(value, str):
        raise _Refused
    return value


def _bytes(value: Any, strict: bool) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _Refused
    return bytes(value)


def _loose(value: Any, strict: bool, *kinds: type) -> str:
    """The text of a value of another kind. Raises _Refused."""
    if strict or not isinstance(value, kinds) or (isinstance(value, bool) and int in kinds):
        raise _Refused(_LOOSE if isinstance(value, kinds) else "")
    return str(value).strip()


_Natural = Callable[[pa.DataType], bool]
_Convert = Callable[[Any, bool], Any]


def _one_of(*tests: _Natural) -> _Natural:
    return lambda type_: any(test(type_) for test in tests)


def _leaves_of(kinds: Iterable[Kind], natural: _Natural, convert: _Convert) -> dict[Kind, tuple[_Natural, _Convert]]:
    return dict.fromkeys(kinds, (natural, convert))


_t = pa.types
_NUMBERS = (_t.is_integer, _t.is_decimal)
_LEAVES: Mapping[Kind, tuple[_Natural, _Convert]] = {
    **_leaves_of([Kind.BOOLEAN], _t.is_boolean, _boolean),
    **_leaves_of(INTEGER_KINDS, _one_of(*_NUMBERS), _integer),
    **_leaves_of(FLOAT_KINDS, _one_of(*_NUMBERS, _t.is_floating), _float),
    **_leaves_of([Kind.DECIMAL], _one_of(*_NUMBERS), _decimal),
    **_leaves_of(STRING_KINDS, _t.is_string, _text),
    **_leaves_of([*BINARY_KINDS, Kind.BLOB], _t.is_binary, _bytes),
    **_leaves_of([Kind.DATE], _t.is_date, _date),
    **_leaves_of([Kind.TIME], _t.is_time, _time),
    **_leaves_of([Kind.TIMESTAMP], lambda t: _t.is_timestamp(t) and t.tz is None, partial(_moment, False)),
    **_leaves_of([Kind.TIMESTAMP_LTZ], lambda t: _t.is_timestamp(t) and t.tz is not None, partial(_moment, True)),
}
_TYPES = {
    **dict.fromkeys(FLOAT_KINDS, pa.float64()),
    **dict.fromkeys(INTEGER_KINDS, pa.int64()),
    Kind.TIMESTAMP: pa.timestamp("us"), Kind.TIMESTAMP_LTZ: pa.timestamp("us", "UTC"), Kind.TIME: pa.time64("us"),
}  # fmt: skip
"""Arrow's types of values that were converted one by one, where inference would not find the same."""
