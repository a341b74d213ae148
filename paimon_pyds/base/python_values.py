"""Python's dates and times that Arrow changes when it infers the type of a column.

It drops the time of day if the first value is a date, takes a time without a zone as UTC if other values have a zone,
and drops zones of times of day, and nanoseconds of pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, time
from itertools import chain
from typing import Any

import pyarrow as pa


class LossyValueError(ValueError):
    """Values would not be the same as those that were given. ``hint``: what to give."""

    def __init__(self, message: str, hint: str = "give values of one type") -> None:
        super().__init__(message)
        self.hint = hint


def check_lossless(values: Iterable[Any], type_: pa.DataType) -> None:
    """Refuse Python values that are not the same as values of the Arrow type that was found for them.
    Raises LossyValueError."""
    t = pa.types
    if not _has_times(type_):
        return
    if t.is_struct(type_):
        rows = [value for value in values if isinstance(value, Mapping)]
        for field in type_:
            check_lossless([row.get(field.name) for row in rows], field.type)
    elif t.is_list(type_):
        check_lossless([*chain.from_iterable(v for v in values if isinstance(v, list | tuple))], type_.value_type)
    elif t.is_time(type_):
        if any(isinstance(v, time) and v.tzinfo is not None for v in values):
            raise LossyValueError("a time of day with a time zone", "columns have no room for it: leave the zone out")
    else:
        _check_moments([v for v in values if isinstance(v, datetime) and v == v], type_)  # NaT is no equal of itself


def _check_moments(moments: list[Any], type_: pa.DataType) -> None:
    if moments and pa.types.is_date(type_):
        raise LossyValueError("a time of day among dates")
    if len({moment.tzinfo is None for moment in moments}) > 1:
        raise LossyValueError("times with and without a time zone")
    others = [moment for moment in moments if type(moment) is not datetime]
    if getattr(type_, "unit", "") != "ns" and any(getattr(moment, "nanosecond", 0) for moment in others):
        raise LossyValueError(
            "nanoseconds, which would be lost", "give the whole column as an array or a pandas Series"
        )


def _has_times(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_times(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_date(type_) or pa.types.is_time(type_) or pa.types.is_timestamp(type_))
