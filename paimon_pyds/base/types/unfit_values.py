"""Which value does not fit a type, and what errors say of it. It is imported when one does not."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.base.types.kinds import (
    BINARY_KINDS,
    INTEGER_KINDS,
    INTEGER_RANGES,
    MAX_LENGTH,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    Kind,
)
from paimon_pyds.base.types.model import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    positions_named,
)
from paimon_pyds.errors import GROWS, SchemaError, suggest

_SHOWN_CHARACTERS = 60
"""Characters of a value that errors show."""


def first_refused(count: int, attempt: Callable[[int], object]) -> int:
    """The position of the first of ``count`` values that is refused; at least one is. ``attempt`` takes a number of
    first values, and raises if one of them is refused."""

    def refuses(values: int) -> bool:
        try:
            attempt(values)
        except (ValueError, TypeError, NotImplementedError, OverflowError):  # Arrow's errors, too
            return True
        return False

    return bisect_left(range(1, count), True, key=refuses)


def shown(values: pa.Array, at: int) -> str:
    """One value as text, not too long."""
    value, t = values[at], pa.types
    if t.is_string(value.type) or t.is_large_string(value.type) or t.is_binary(value.type):
        plain, unit = value.as_py(), "bytes" if t.is_binary(value.type) else "characters"
        return f"{plain[:_SHOWN_CHARACTERS]!r}{f'… ({len(plain):,} {unit})' if len(plain) > _SHOWN_CHARACTERS else ''}"
    try:
        text = str(value.cast(pa.string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def arrow_text(type_: pa.DataType) -> str:
    """A type of incoming values without how Arrow lays them out: texts are ``string`` in every one of its layouts."""
    return re.sub(r"\blarge_(?=string|binary|list)|(?<=string|binary)_view\b", "", str(type_))


def how_to_give(type_: pa.DataType, column: str) -> str:
    """What to do with values that are of another type than their column, as a hint. ``type_``: the column's."""
    t = pa.types
    if t.is_map(type_):
        name = column.partition(".")[0]
        return (
            "give a MAP as a list of pairs, with its type: pa.Table.from_pylist(rows, schema=table.arrow_schema) takes "
            f"{{{name!r}: [('key', 1)]}}"
        )
    moment = "datetime.datetime(2026, 1, 31, 12, 30"
    examples = (
        (t.is_decimal, "decimal.Decimal('1.50')"),
        (t.is_date, "datetime.date(2026, 1, 31)"),
        (t.is_time, "datetime.time(12, 30)"),
        (t.is_timestamp, f"{moment}, tzinfo=datetime.timezone.utc)" if getattr(type_, "tz", None) else f"{moment})"),
        (t.is_binary, "b'bytes'"),
    )
    found = next((example for is_, example in examples if is_(type_)), None)
    return "cast it first" if found is None else f"cast it first (as a Python value: {found})"


def described(type_: object) -> str:
    """A type, and what values it takes where its name leaves that open."""
    if not isinstance(type_, AtomicType):
        return str(type_)
    limits = _limits(type_)
    return f"{type_.with_nullable(True)}{limits and f' ({limits})'}"


def _limits(type_: AtomicType) -> str:
    if type_.kind in INTEGER_KINDS:
        return f"{INTEGER_RANGES[type_.kind][0]} to {INTEGER_RANGES[type_.kind][-1]}"
    if type_.kind is Kind.DECIMAL:
        scale = type_.scale or 0
        return f"{(type_.precision or 0) - scale} digits before the point and {scale} behind it"
    return f"{type_.precision} digits of a second" if type_.kind in TIMESTAMP_KINDS else ""


def misfit(
    values: pa.Array, at: int, column: str, type_: object, *, path: str | None = None, hint: str | None = None
) -> SchemaError:
    """The error about a value that its column does not take.

    Args:
        values: of the column.
        at: the position of the value among them.
        column: its name or path.
        type_: Paimon's type of it.
        path: the table.
        hint: what to do; by default correct it, or change the type.
    """
    error = SchemaError(
        f"{shown(values, at)} does not fit column {column!r}, which is {described(type_)}",
        path=path,
        hint=hint or f"correct it, or change the column's type: table.alter(change_types={{{column!r}: …}})",
    )
    error.row = at
    return error


def grown_infinite(numbers: pa.Array, cast: pa.Array) -> pa.BooleanArray:
    """Which numbers are infinite only since they were cast to a shorter float."""
    return pc.and_(pc.is_finite(numbers), pc.is_inf(cast))


def check_no_more_members(source: pa.DataType, target: pa.DataType, column: str) -> None:
    """Refuse structs with members that those of the target lack: their values would be lost. Raises SchemaError."""
    t = pa.types
    if t.is_dictionary(source):
        check_no_more_members(source.value_type, target, column)
    elif t.is_struct(target) and t.is_struct(source):
        names = [source.field(i).name for i in range(source.num_fields)]
        members = [target.field(i) for i in range(target.num_fields)]
        found = [next(iter(positions_named(member.name, names)), None) for member in members]
        lacking = [name for i, name in enumerate(names) if i not in found]
        if lacking:
            fields = f"field{'s' if len(lacking) > 1 else ''} {', '.join(map(repr, lacking))}"
            hint = f"{suggest(lacking[0], [m.name for m in members], 'it has')}; {GROWS}"
            raise SchemaError(f"column {column} of the table has no {fields}", hint=hint)
        for at, member in zip(found, members, strict=True):
            if at is not None:
                check_no_more_members(source.field(at).type, member.type, f"{column}.{member.name}")
    elif t.is_map(target) and t.is_map(source):
        check_no_more_members(source.key_type, target.key_type, f"{column}.key")
        check_no_more_members(source.item_type, target.item_type, f"{column}.value")
    elif t.is_list(target) and hasattr(source, "value_type"):
        check_no_more_members(source.value_type, target.value_type, f"{column}.element")


def check_bounds(values: pa.Array, type_: DataType, column: str, path: str | None = None) -> None:
    """Refuse texts and bytes that are longer, and decimals that have more digits, than their type allows; those in
    nested values too. Arrow keeps decimals of 39 digits in types of 38, as DuckDB's HUGEINT comes.

    ``values``: of the Arrow type of ``type_``. ``column``: its name or path.
    Raises SchemaError: one does not fit; ``row`` is its position where it is not in a nested value.
    """
    match type_:
        case ArrayType():
            check_bounds(values.flatten(), type_.element, f"{column}.element", path)
        case MultisetType():
            check_bounds(values.keys, type_.element, f"{column}.key", path)
        case MapType():
            check_bounds(values.keys, type_.key, f"{column}.key", path)
            check_bounds(values.items, type_.value, f"{column}.value", path)
        case RowType():
            for field, members in zip(type_.fields, values.flatten(), strict=True):
                check_bounds(members, field.type, f"{column}.{field.name}", path)
        case AtomicType(kind=kind, length=limit) if kind in STRING_KINDS | BINARY_KINDS and limit != MAX_LENGTH:
            lengths = pc.utf8_length(values) if kind in STRING_KINDS else pc.binary_length(values)
            longer = pc.greater(lengths, limit or 1)
            if pc.any(longer).as_py():
                raise misfit(values, pc.index(longer, scalar(True)).as_py(), column, type_, path=path)
        case AtomicType(kind=Kind.DECIMAL):
            end = Decimal(10) ** ((type_.precision or 0) - (type_.scale or 0))
            if any(value is not None and value.copy_abs() >= end for value in pc.min_max(values).as_py().values()):
                fits = [value is None or value.copy_abs() < end for value in values.to_pylist()]
                raise misfit(values, fits.index(False), column, type_, path=path)
