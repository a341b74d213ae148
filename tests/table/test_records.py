"""Records behave as those of the standard library's ``dataclass``, but that nothing refuses a change at run time."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from dataclasses import field
from typing import Any

import pytest

from paimon_pyds.base import records
from paimon_pyds.base.types.model import AtomicType, DataField


def _classes(dataclass: Any) -> tuple[type[Any], type[Any], type[Any]]:
    @dataclass(frozen=True, slots=True)
    class Point:
        """A record."""

        x: object
        y: object = 0
        note: str = field(default="", compare=False)
        tags: dict[str, str] = field(default_factory=dict, hash=False)

    @dataclass(frozen=True, slots=True, kw_only=True, repr=False)
    class Single:
        """A record of one value."""

        value: object

    @dataclass(frozen=True, slots=True)
    class Caseless:
        """A record with an equality of its own."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Caseless) and self.name.lower() == other.name.lower()

    return Point, Single, Caseless


@dataclasses.dataclass(frozen=True)
class _Both:
    ours: tuple[type[Any], type[Any], type[Any]] = _classes(records.dataclass)
    standard: tuple[type[Any], type[Any], type[Any]] = _classes(dataclasses.dataclass)


def _observed(classes: tuple[type[Any], type[Any], type[Any]]) -> list[object]:
    Point, Single, Caseless = classes
    nan = float("nan")
    point = Point(1, "a", tags={"k": "v"})
    return [
        point == Point(1, "a", note="not compared", tags={"k": "v"}),
        point == Point(1, "a"),
        point == (1, "a"),
        point != Single(value=1),
        hash(point) == hash(Point(1, "a", tags={"other": "not hashed"})),
        hash(point) == hash((1, "a")),
        repr(point).rpartition(".")[2],
        dataclasses.replace(point, y=3).y,
        dataclasses.asdict(point),
        Single(value=nan) == Single(value=nan) or sys.version_info >= (3, 13),  # one NaN is itself, as in a tuple
        hash(Single(value=3)) == hash((3,)),
        "Single object" in repr(Single(value=1)),
        Caseless("A") == Caseless("a"),
        hasattr(point, "__dict__"),
        Point.__match_args__,
    ]


def test_a_record_is_compared_hashed_and_shown_as_the_standard_one() -> None:
    both = _Both()
    assert _observed(both.ours) == _observed(both.standard)


def test_a_record_without_frozen_is_the_standard_one() -> None:
    @records.dataclass
    class Open:
        x: int

    with pytest.raises(TypeError, match="unhashable"):
        hash(Open(1))


def test_a_record_survives_pickle() -> None:
    field_of = DataField(3, "id", AtomicType("BIGINT", nullable=False))
    assert pickle.loads(pickle.dumps(field_of)) == field_of
