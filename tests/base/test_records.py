"""Records are as the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, ClassVar

import pytest

from paimon_pyds.base.records import NamedTuple as RecordsTuple
from paimon_pyds.base.records import dataclass as records_dataclass


class _Base:
    a: int
    b: str = "b"


class _Made:
    values: list[int] = dataclasses.field(default_factory=list, compare=False)
    _values: tuple[int, ...] = ()
    kind: str = dataclasses.field(default="made", init=False)
    own: list[int] = dataclasses.field(default_factory=list, init=False)
    size: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.values))


class _NamedOnly:
    a: int
    b: int | None = dataclasses.field(default=None, kw_only=True)
    c: int = dataclasses.field(kw_only=True)


class _Empty:
    """Nothing in it."""


_CALLS: list[tuple[type, tuple[Any, ...], dict[str, Any]]] = [
    (_Base, (1,), {}), (_Base, (), {"b": "x", "a": 2}), (_Base, (), {}), (_Base, (1, "c", 3), {}),
    (_Base, (1,), {"x": 3}), (_Made, (), {}), (_Made, ([1, 2], (5,)), {}), (_Made, (), {"_values": (3,)}),
    (_NamedOnly, (1,), {"c": 3}), (_NamedOnly, (1, 2), {"c": 3}), (_NamedOnly, (1,), {}), (_Empty, (), {}),
    (_Empty, (1,), {}),
]  # fmt: skip


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize(("plain", "arguments", "named"), _CALLS)
def test_a_record_is_made_as_the_standard_librarys(plain: type, arguments: Any, named: Any, frozen: bool) -> None:
    def result(decorator: Any, later: bool) -> Any:
        members = {k: v for k, v in plain.__dict__.items() if k not in ("__dict__", "__weakref__")}
        cls = decorator(frozen=frozen, slots=True)(type(plain.__name__, (), members))
        signature = None if later else str(inspect.signature(cls))
        try:
            record = cls(*arguments, **named)
        except TypeError as error:
            return str(error)
        assert record == cls(*arguments, **named)
        assert hash(cls) and copy.copy(record) == record == dataclasses.replace(record)
        signature = signature or str(inspect.signature(cls))
        assert (cls.__hash__ is not None) is frozen
        names = [f.name for f in dataclasses.fields(record)]
        factory = "<factory>" if "<factory>" in signature else "<class 'list'>"
        return repr(record), [getattr(record, name) for name in names], signature.replace(factory, "made")

    expected = result(dataclasses.dataclass, False)
    assert result(records_dataclass, False) == expected
    assert result(records_dataclass, True) == expected


@records_dataclass(frozen=True, slots=True)
class _Parent:
    a: int


@records_dataclass(frozen=True, slots=True)
class _Child(_Parent):
    b: int = 2


def test_a_record_inherits_fields_and_pickles() -> None:
    child = _Child(1)
    assert (child.a, child.b, repr(child)) == (1, 2, "_Child(a=1, b=2)")
    assert pickle.loads(pickle.dumps(child)) == child != _Child(1, 3)
    assert repr(_Parent(4)) == "_Parent(a=4)"
    assert not hasattr(child, "__dict__")


def test_what_a_class_is_found_out_to_have_is_found_by_many_threads() -> None:
    def made() -> type:
        @records_dataclass(frozen=True, slots=True)
        class Record(_Parent):
            b: list[int] = dataclasses.field(default_factory=list)
            c: ClassVar[int] = 3

        return Record

    for _ in range(20):
        cls, together = made(), Barrier(4)

        def ask(cls: Any = cls, together: Barrier = together) -> Any:
            together.wait()
            fields = [(f.name, f.type, f.default_factory) for f in dataclasses.fields(cls)]
            return fields, cls.__match_args__, repr(cls(1)), dataclasses.asdict(cls(1, [2])), cls.c

        with ThreadPoolExecutor(4) as threads:
            found = [future.result() for future in [threads.submit(ask) for _ in range(4)]]
        assert found == found[:1] * 4
        assert found[0][1:] == (("a", "b"), f"{cls.__qualname__}(a=1, b=[])", {"a": 1, "b": [2]}, 3)


class _Standard(typing.NamedTuple):
    """A tuple."""

    a: int
    b: str | None = None
    class_: tuple[int, ...] = ()

    @property
    def twice(self) -> int:
        return 2 * self.a

    @staticmethod
    def of(a: int) -> _Standard:
        return _Standard(a)


class _Ours(RecordsTuple):
    """A tuple."""

    a: int
    b: str | None = None
    class_: tuple[int, ...] = ()

    @property
    def twice(self) -> int:
        return 2 * self.a

    @staticmethod
    def of(a: int) -> _Ours:
        return _Ours(a)


class _Derived(_Ours):
    """A class of a tuple's class."""

    note: str = "its own"


def _observed(cls: Any) -> list[object]:
    signature = [(each.name, each.default) for each in inspect.signature(cls).parameters.values()]
    one = cls(1, class_=(2,))
    a, b, class_ = one
    match one:
        case cls(first, _):
            matched = first
    return [
        one, repr(one).partition("(")[2], a, b, class_, one.twice, cls.of(3)[0], one == (1, None, (2,)), hash(one),
        one._replace(b="x"), one._asdict(), cls._make([4, 5, 6]), cls._fields, cls._field_defaults, matched,
        pickle.loads(pickle.dumps(one)), type(pickle.loads(pickle.dumps(one))) is cls, copy.copy(one),
        copy.deepcopy(one).a, isinstance(one, tuple), signature,
        hasattr(one, "__dict__"), cls.__doc__, list(cls.__annotations__), sorted([cls(2), cls(1)]), len(one),
    ]  # fmt: skip


def test_a_tuple_is_as_the_standard_librarys() -> None:
    assert _observed(_Ours) == _observed(_Standard)


@pytest.mark.parametrize("cls", [_Standard, _Ours])
def test_a_tuple_refuses_what_the_standard_one_does(cls: Any) -> None:
    for arguments, named in (((), {}), ((1, 2, 3, 4), {}), ((1,), {"a": 2}), ((1,), {"x": 2})):
        with pytest.raises(TypeError):
            cls(*arguments, **named)
    with pytest.raises(TypeError):
        cls._make([1])
    with pytest.raises((TypeError, ValueError)):
        cls(1)._replace(x=2)
    with pytest.raises(AttributeError):
        cls(1).a = 2


def test_a_class_of_a_tuples_class_keeps_its_members() -> None:
    derived = _Derived(1)
    assert (derived, derived.note, type(derived._replace(a=2))) == ((1, None, ()), "its own", _Derived)
    assert _Ours(5).a == 5
