"""Conditions as callers hand them over."""

from __future__ import annotations

from typing import Any

from paimon_pyds.options.option import refused_argument
from paimon_pyds.predicate.tree import Predicate


def condition(name: str, value: Any) -> str | Predicate:
    """The value when it is SQL text or a predicate. Raises ArgumentTypeError."""
    if isinstance(value, str | Predicate):
        return value
    raise refused_argument(name, "a condition as Spark SQL text", value)
