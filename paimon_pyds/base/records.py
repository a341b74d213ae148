"""``dataclass`` as the standard library has it, made ten times faster for records with slots.

A process makes more than a hundred record classes before its first row; each
takes the standard decorator 0.4 ms on Python 3.11, as it compiles six methods.
Here only ``__init__`` is compiled, when the first record is made: most classes
never have one. That a record is never changed is checked by type checkers,
which see the standard decorator; nothing checks it at run time.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass

    import pyarrow as pa
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, repr=True, eq=True, **options):
        """``dataclasses.dataclass``; classes with slots are compared, hashed and shown by shared methods."""

        def decorate(cls):
            if not slots:
                return dataclasses.dataclass(cls, frozen=frozen, slots=slots, repr=repr, eq=eq, **options)
            for name, method in _methods(repr, eq, frozen).items():
                if cls.__dict__.get(name) is None:  # a class with __eq__ has a __hash__ of None
                    setattr(cls, name, method)
            cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard decorator writes one, which takes long
            own_init = "__init__" in cls.__dict__
            cls = dataclasses.dataclass(cls, slots=True, repr=False, eq=False, init=False, **options)
            if not own_init:
                cls.__init__ = _FirstInit(cls)
            return cls

        return decorate if cls is None else decorate(cls)


class _FirstInit:
    """``__init__`` of a class until its first use, which compiles it."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __get__(self, record: object, owner: type | None = None) -> Any:
        init = self._of.__init__ = _init(self._of)
        return init if record is None else init.__get__(record)


def _init(cls: Any) -> Any:
    """The method that takes the fields of a record. What makes a default value is its own default."""
    values: dict[str, Any] = {}
    positional, named = ["self"], list[str]()
    lines = []
    for f in dataclasses.fields(cls):
        made = f.default is dataclasses.MISSING and f.default_factory is not dataclasses.MISSING
        default = f"{f.name}__"
        values[default] = f.default_factory if made else f.default
        has_default = values[default] is not dataclasses.MISSING
        if f.init:
            (named if f.kw_only else positional).append(f"{f.name}={default}" if has_default else f.name)
            value = f"{default}() if {f.name} is {default} else {f.name}" if made else f.name
        elif has_default:
            value = f"{default}()" if made else default
        else:
            continue
        lines.append(f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    taken_all = ", ".join([*positional, *(["*", *named] if named else [])])
    exec(f"def __init__({taken_all}):\n  " + "\n  ".join(lines or ["pass"]), values)  # noqa: S102 - as the library
    method = values["__init__"]
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    method.__annotations__ = {**{f.name: f.type for f in dataclasses.fields(cls) if f.init}, "return": None}
    return method


def _methods(repr: bool, eq: bool, hashed: bool) -> dict[str, Callable[..., object] | None]:
    compared = {"__eq__": _eq, "__hash__": _hash if hashed else None}
    return {**({"__repr__": _repr} if repr else {}), **(compared if eq else {})}


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    values = _values(type(self))[0]
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(_values(type(self))[1](self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


_values_of: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}


def _values(cls: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The values of a record that ``==`` compares, and those that ``hash`` takes."""
    if cls not in _values_of:
        compared = [f for f in dataclasses.fields(cls) if f.compare]
        hashed = [f.name for f in compared if f.hash is not False]
        _values_of[cls] = _getter([f.name for f in compared]), _getter(hashed)
    return _values_of[cls]


def _getter(names: list[str]) -> Callable[[Any], Any]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def arrow_struct(record: Any) -> pa.StructType:
    """The Arrow type of records of a class. Its fields are numbers, texts and truth values, each or None, and tuples of
    integers."""
    import pyarrow as pa  # the records of most classes never become columns

    types = {
        "bool": pa.bool_(), "float": pa.float64(), "int": pa.int64(), "str": pa.string(),
        "tuple[int, ...]": pa.list_(pa.int64()),
    }  # fmt: skip
    return pa.struct([(f.name, types[str(f.type).removesuffix(" | None")]) for f in dataclasses.fields(record)])
