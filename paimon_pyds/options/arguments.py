"""Arguments of public calls, checked for their Python types before they go to work.

A text where a number belongs, or a number where a condition belongs, would else fail far from its cause, or not at all.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

from paimon_pyds.errors import ArgumentTypeError, OptionError
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.types import DataField

_LONGEST = 60


def _refused(name: str, wanted: str, value: object) -> ArgumentTypeError:
    shown = repr(value)
    shown = shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
    return ArgumentTypeError(f"{name} takes {wanted}, not {shown} ({type(value).__name__})")


def integer(name: str, value: Any) -> int:
    """The value as an int of 64 bits: an int or one of numpy's, no bool. Raises ArgumentTypeError and OptionError."""
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if -(2**63) <= number < 2**63:
                return number
            raise OptionError(f"{name} is a number of {number.bit_length():,} bits; at most 64 are supported")
    raise _refused(name, "an integer", value)


def text(name: str, value: Any) -> str:
    """The value when it is a str. Raises ArgumentTypeError."""
    if isinstance(value, str):
        return value
    raise _refused(name, "a text", value)


def texts(name: str, value: Any) -> list[str]:
    """The strs in an iterable that is none itself. Raises ArgumentTypeError."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _refused(name, "a list of names", value)
    return [text(f"{name}: each", item) for item in value]


def mapping(name: str, value: Any) -> Mapping[Any, Any]:
    """The value when it is a mapping. Raises ArgumentTypeError; what stands for storage options is not shown."""
    if isinstance(value, Mapping):
        return value
    if name == "storage_options":
        raise ArgumentTypeError(f"{name} takes a dictionary, not a value of type {type(value).__name__}")
    raise _refused(name, "a dictionary", value)


def condition(name: str, value: Any) -> str | Predicate:
    """The value when it is SQL text or a predicate. Raises ArgumentTypeError."""
    if isinstance(value, str | Predicate):
        return value
    raise _refused(name, "a condition as Spark SQL text", value)


def path_like(name: str, value: Any) -> str | os.PathLike[str]:
    """The value when it is a path. Raises ArgumentTypeError."""
    if isinstance(value, str | os.PathLike):
        return value
    raise _refused(name, "a path", value)


def columns(name: str, value: Any) -> tuple[DataField, ...]:
    """The value when it is a list of Paimon's columns. Raises ArgumentTypeError."""
    found = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    if all(isinstance(item, DataField) for item in found):
        return found
    raise _refused(name, "an Arrow schema or a list of DataField", value)


def present(name: str, value: Any, what: str) -> Any:
    """The value when it is not None. Raises ArgumentTypeError."""
    if value is None:
        raise _refused(name, what, value)
    return value
