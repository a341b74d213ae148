"""Conditions as callers hand them over."""

from __future__ import annotations

from typing import Any, TypeVar

from paimon_pyds.base.options.option import refused_argument
from paimon_pyds.errors import OptionError
from paimon_pyds.sql.predicate.tree import Predicate

_T = TypeVar("_T")
SAME_CONDITION = "where and filter are two names of one condition, and it is given twice"


def one_condition(where: _T, filter_: _T) -> _T:
    """The condition of a call, which takes it as ``where`` or as ``filter``. Raises OptionError where it has both."""
    if filter_ is None:
        return where
    if where is not None:
        raise OptionError(SAME_CONDITION, hint="leave one out, or join them with AND")
    return filter_


def condition(name: str, value: Any) -> str | Predicate:
    """The value when it is SQL text or a predicate. Raises ArgumentTypeError."""
    if isinstance(value, str | Predicate):
        return value
    raise refused_argument(name, "a condition as Spark SQL text", value)
