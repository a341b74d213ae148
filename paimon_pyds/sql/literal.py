"""A literal of SQL: a value with its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paimon_pyds.types import DataType

__all__ = ["Literal"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal as written, with the type that Spark SQL gives it. ``value`` is an internal value; None is NULL.

    TIME literals, too, are in the unit of their precision: microseconds (6) or nanoseconds (9). With ``type`` None the
    value is a plain Python object: str, int, float, bool, bytes, Decimal, date, datetime, time, or None.
    """

    value: Any
    type: DataType | None
