"""``dataclass`` for records with slots, and ``NamedTuple``, as the standard library has them, but made in a tenth of
the time.

A process makes more than a hundred such classes before its first row. On Python 3.11 the standard decorator takes
0.4 ms for each, as it compiles six methods; ``NamedTuple`` takes as long, as it compiles each annotation. Here only
``__init__`` and ``__new__`` are compiled, when the first record is made: most classes never have one. That a record is
never changed is checked by type checkers, which see the standard ones; nothing checks it at run time.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple

    import pyarrow as pa
else:
    from _collections import _tuplegetter

    def dataclass(cls=None, /, *, frozen=False, slots=False, repr=True, eq=True, **options):
        """``dataclasses.dataclass``; classes with slots are compared, hashed and shown by shared methods."""

        def decorate(cls):
            if not slots or options.keys() - {"kw_only"}:
                return dataclasses.dataclass(cls, frozen=frozen, slots=slots, repr=repr, eq=eq, **options)
            for name, method in _methods(repr, eq, frozen).items():
                if cls.__dict__.get(name) is None:  # a class with __eq__ has a __hash__ of None
                    setattr(cls, name, method)
            cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard decorator writes one, which takes long
            made = _with_slots(cls)
            for name in _STANDARD:
                setattr(made, name, _Standard(name, cls, made, options))
            if "__init__" not in cls.__dict__:
                made.__init__ = _FirstInit(made)
            return made

        return decorate if cls is None else decorate(cls)

    class _NamedTuples(type):
        """Makes the classes that are derived from ``NamedTuple``."""

        def __new__(cls, name, bases, namespace):
            if tuple not in bases and not hasattr(bases[0], "_field_defaults"):
                fields = tuple(namespace.get("__annotations__", ()))
                defaults = {field: namespace.pop(field) for field in fields if field in namespace}
                getters = {field: _tuplegetter(at, None) for at, field in enumerate(fields)}
                own = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, **getters}
                namespace = {**namespace, **own, "__slots__": (), "__new__": _FirstNew()}
            return super().__new__(cls, name, bases, namespace)

    class NamedTuple(tuple, metaclass=_NamedTuples):
        """``typing.NamedTuple``."""

        __slots__ = ()
        _fields = ()

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{len(cls._fields)} values expected, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"no such fields: {', '.join(changes)}")
            return made

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"


class _FirstNew:
    """``__new__`` of a class until its first use, which compiles it."""

    def __get__(self, record: object, owner: Any) -> Any:
        of = next(base for base in owner.__mro__ if "_field_defaults" in base.__dict__)
        values = {"new__": tuple.__new__, "defaults__": of._field_defaults}
        arguments = [f"{name}=defaults__[{name!r}]" if name in of._field_defaults else name for name in of._fields]
        made = f"({''.join(f'{name}, ' for name in of._fields)})"
        exec(f"def __new__({', '.join(['cls__', *arguments])}): return new__(cls__, {made})", values)  # noqa: S102 - as the library
        new = values["__new__"]
        new.__annotations__ = dict(of.__annotations__)
        of.__new__ = staticmethod(new)
        return new


_STANDARD = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
"""What the standard decorator finds out about a class."""


class _Standard:
    """An attribute that the standard decorator makes, until its first use: few classes have one.

    ``plain``: the class without slots. ``of``: the same with slots, whose attribute it is. ``options``: for the
    decorator.
    """

    def __init__(self, name: str, plain: Any, of: Any, options: dict[str, Any]) -> None:
        self._name, self._plain, self._of, self._options = name, plain, of, options

    def __get__(self, record: object, owner: type | None = None) -> Any:
        copy = _again(self._plain, {})  # several threads may ask first, and the decorator changes the class
        made = dataclasses.dataclass(copy, repr=False, eq=False, init=False, **self._options)
        for name in _STANDARD:
            setattr(self._of, name, made.__dict__[name])
        return made.__dict__[self._name]


def _with_slots(cls: Any) -> Any:
    """The same class, with slots for its fields."""
    names = [name for name, type_ in cls.__annotations__.items() if "ClassVar" not in str(type_)]
    inherited = {slot for base in cls.__mro__[1:-1] for slot in base.__dict__.get("__slots__", ())}
    return _again(cls, {"__slots__": tuple(name for name in names if name not in inherited)}, names)


def _again(cls: Any, more: dict[str, Any], but: Collection[str] = ()) -> Any:
    """A class with what another one has, but for some attributes, and with more."""
    own = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__", *but)}
    made = type(cls)(cls.__name__, cls.__bases__, {**own, **more})
    made.__qualname__ = cls.__qualname__
    return made


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
