"""Parameters that several functions have are written once, and shown by each of them."""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.compact.options import CompactOptions
from paimon_pyds.options.arguments import keywords_of
from paimon_pyds.rowlevel.clauses import MergeOptions


@dataclass(frozen=True)
class _How:
    """How to do it.

    Attributes:
        speed: in meters a second.
        loud: with noise,
            or without.
    """

    speed: int = 3
    _: KW_ONLY
    loud: bool = False


@keywords_of(_How)
def _go(place: str, *positional: Any, after: int = 0, **named: Any) -> _How:
    """Go there.

    Args:
        place: where to.
        *positional, **named: see `_How`.
        after: seconds to wait.

    Raises:
        ValueError: nowhere.
    """
    return _How(*positional, **named)


def test_a_function_shows_the_fields_as_its_own() -> None:
    assert str(inspect.signature(_go)) == (
        "(place: 'str', speed: 'int' = 3, *, after: 'int' = 0, loud: 'bool' = False) -> '_How'"
    )
    assert inspect.getdoc(_go) == (
        "Go there.\n\nArgs:\n    place: where to.\n    speed: in meters a second.\n    loud: with noise,\n"
        "        or without.\n    after: seconds to wait.\n\nRaises:\n    ValueError: nowhere."
    )
    assert _go("home", 4, loud=True) == _How(4, loud=True)
    with pytest.raises(TypeError, match="slow"):
        _go("home", slow=True)


def test_compact_and_merge_have_the_same_parameters_everywhere() -> None:
    spark = pytest.importorskip("paimon_pyds.spark")
    for options, functions in (
        (CompactOptions, (pp.Table.compact, spark.compact)),
        (MergeOptions, (pp.Table.merge, spark.merge)),
    ):
        wanted = inspect.signature(options).parameters
        for function in functions:
            found = inspect.signature(function).parameters
            assert {name: (p.kind, p.default) for name, p in found.items() if name in wanted} == {
                name: (p.kind, p.default) for name, p in wanted.items()
            }
            assert all(f"    {name}: " in (inspect.getdoc(function) or "") for name in wanted)
