"""Records are as the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

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
