"""Aggregate functions of merge engines, one value at a time: few of them, but of every kind of order."""

from __future__ import annotations

from typing import Any

from support.engine_model import RefusedError, rank


class Aggregator:
    """``add`` puts a value behind what was added, ``add_before`` in front of it."""

    def add(self, known: Any, value: Any) -> Any:
        raise NotImplementedError

    def add_before(self, known: Any, value: Any) -> Any:
        return self.add(value, known)

    def retract(self, known: Any, value: Any) -> Any:
        raise RefusedError


class Sum(Aggregator):
    def add(self, known: Any, value: Any) -> Any:
        return value if known is None else known if value is None else known + value

    def retract(self, known: Any, value: Any) -> Any:
        return self.add(known, None if value is None else -value)


class Max(Aggregator):
    def add(self, known: Any, value: Any) -> Any:
        return max(known, value, key=rank)


class LastValue(Aggregator):
    def add(self, known: Any, value: Any) -> Any:
        return value

    def retract(self, known: Any, value: Any) -> Any:
        return None


class LastNonNull(Aggregator):
    def add(self, known: Any, value: Any) -> Any:
        return known if value is None else value

    def retract(self, known: Any, value: Any) -> Any:
        return known if value is None else None


class FirstValue(Aggregator):
    def __init__(self) -> None:
        self.found = False

    def add(self, known: Any, value: Any) -> Any:
        if self.found:
            return known
        self.found = True
        return value


class FirstNonNull(FirstValue):
    def add(self, known: Any, value: Any) -> Any:
        return known if value is None else super().add(known, value)


class IgnoringRetract(Aggregator):
    def __init__(self, inner: Aggregator) -> None:
        self._inner = inner

    def add(self, known: Any, value: Any) -> Any:
        return self._inner.add(known, value)

    def add_before(self, known: Any, value: Any) -> Any:
        return self._inner.add_before(known, value)

    def retract(self, known: Any, value: Any) -> Any:
        return known


_FUNCTIONS = {
    "sum": Sum, "max": Max, "last_value": LastValue, "last_non_null_value": LastNonNull, "first_value": FirstValue,
    "first_non_null_value": FirstNonNull,
}  # fmt: skip
FUNCTIONS = tuple(_FUNCTIONS)


def aggregator(name: str, ignore_retract: bool = False) -> Aggregator:
    """A function that has been given nothing yet."""
    made = _FUNCTIONS[name]()
    return IgnoringRetract(made) if ignore_retract else made
