"""Values of an object that are worked out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["cached_property"]

_T = TypeVar("_T")


class cached_property(Generic[_T]):
    """`functools.cached_property` without its lock, as it is from Python 3.12 on; before, one lock for all objects of a
    class let all scans of a process plan one after the other, and a child that was forked meanwhile waited for ever.

    Two threads that ask an object at the same time may both work the value out; the later one is kept.
    """

    def __init__(self, function: Callable[[Any], _T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> cached_property[_T] | _T:
        if instance is None:
            return self
        # Not a data descriptor: from now on the instance's own attribute is found first.
        value = instance.__dict__[self._name] = self._function(instance)
        return value
