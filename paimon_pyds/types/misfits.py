"""Which value does not fit a type, and what errors say of it. It is imported when one does not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import pyarrow as pa

from paimon_pyds.errors import SchemaError
from paimon_pyds.types.kinds import INTEGER_KINDS, INTEGER_RANGES, TIMESTAMP_KINDS, Kind
from paimon_pyds.types.model import AtomicType

_LONGEST = 60


def first_refused(count: int, attempt: Callable[[int], object]) -> int:
    """The position of the first of ``count`` values that is refused; one is. ``attempt`` takes so many of the first
    values, and raises when one of them is refused."""

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
        return f"{plain[:_LONGEST]!r}{f'… ({len(plain):,} {unit})' if len(plain) > _LONGEST else ''}"
    try:
        text = str(value.cast(pa.string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


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
        type_: Paimon's type of it, or Arrow's within nested values.
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
