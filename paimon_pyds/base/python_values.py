"""Python's values as rows and columns; and those that Arrow changes when it infers the type of a column.

It takes numbers among dates and times for those that store them, and texts among bytes for bytes. It drops the time of
day if the first value is a date, takes a time without a zone as UTC if other values have a zone, and drops zones of
times of day, and nanoseconds of pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, time
from itertools import chain
from numbers import Number
from typing import Any

import pyarrow as pa


def as_mapping(value: Any) -> Mapping[str, Any] | None:
    """The fields of a value that has some, by name: a mapping, a dataclass, a named tuple or a model of pydantic."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple):
        return dict(zip(value._fields, value, strict=True)) if hasattr(value, "_fields") else None
    of_model = getattr(type(value), "model_fields", None)  # pydantic's
    names = [*of_model] if isinstance(of_model, Mapping) else []
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
    return {name: getattr(value, name) for name in names} if names else None


def none_of(value: Any) -> Any:
    """None for what pandas has in the place of missing objects: NaT, NA and, among objects, NaN."""
    return None if type(value).__name__ in ("NaTType", "NAType") else value


class LossyValueError(ValueError):
    """Values would not be the same as those that were given. ``hint``: what to give."""

    def __init__(self, message: str, hint: str = "give values of one type") -> None:
        super().__init__(message)
        self.hint = hint


def check_lossless(values: Iterable[Any], type_: pa.DataType) -> None:
    """Refuse Python values that are not the same as values of the Arrow type that was found for them.
    Raises LossyValueError."""
    t = pa.types
    if not _may_change(type_):
        return
    wrong, named = (str, "a text among bytes") if t.is_binary(type_) else (Number, "a number among dates or times")
    if not t.is_nested(type_) and any(isinstance(value, wrong) for value in values):
        raise LossyValueError(named)
    if t.is_struct(type_):
        rows = [value for value in values if isinstance(value, Mapping)]
        for field in type_:
            check_lossless([row.get(field.name) for row in rows], field.type)
    elif t.is_list(type_):
        check_lossless([*chain.from_iterable(v for v in values if isinstance(v, list | tuple))], type_.value_type)
    elif t.is_binary(type_):
        pass
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


def _may_change(type_: pa.DataType) -> bool:
    t = pa.types
    if t.is_nested(type_):
        return any(_may_change(type_.field(i).type) for i in range(type_.num_fields))
    return bool(t.is_date(type_) or t.is_time(type_) or t.is_timestamp(type_) or t.is_binary(type_))
