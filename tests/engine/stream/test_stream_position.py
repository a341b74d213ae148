"""Positions of streams: what is stored is read again, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.engine.stream import StreamPosition
from paimon_pyds.errors import OptionError

_POSITION = StreamPosition("0123456789abcdef", 0, "full", 3, 3, 2, 7, "p", "manifest-list-x-1", "", 0)
_STORED = (
    '{"version": 1, "table": "0123456789abcdef", "schema": 0, "first": "full", "start": 3, "next": 3, "splits": 2, '
    '"rows": 7, "plan": "p", "last": "manifest-list-x-1", "tag": "", "created": 0}'
)
"""As version 1 wrote it, once and for all."""


def test_the_stored_text_does_not_change() -> None:
    assert _POSITION.to_json() == _STORED
    assert StreamPosition.from_json(_STORED) == _POSITION


@given(
    st.text(), st.integers(0, 2**63), st.sampled_from(("full", "changes")), st.integers(0, 2**63), st.text(), st.text()
)
def test_a_position_is_read_again(table: str, number: int, first: str, rows: int, plan: str, tag: str) -> None:
    position = StreamPosition(table, number, first, number, number + 1, 0, rows, plan, "", tag, rows)  # type: ignore[arg-type]
    assert StreamPosition.from_json(position.to_json()) == position
    assert StreamPosition.from_json(json.loads(position.to_json())) == position


def test_members_that_a_later_writer_leaves_out_have_defaults() -> None:
    members = {"version": 1, "table": "t", "schema": 0, "first": "changes", "start": 1, "next": 2}
    assert StreamPosition.from_json(members) == StreamPosition("t", 0, "changes", 1, 2)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", "null", "{}", '{"version": 2}', '{"version": "1"}', '{"version": true}',
     _STORED.replace('"next": 3', '"next": -1'), _STORED.replace('"next": 3', '"next": true'),
     _STORED.replace('"next": 3', '"next": "3"'), _STORED.replace('"full"', '"half"'),
     _STORED.replace('"next": 3, ', "")],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(OptionError):
        StreamPosition.from_json(text)


def test_positions_are_ordered() -> None:
    inside = StreamPosition("t", 0, "full", 3, 3)
    places = [inside, inside.inside(0, 5, "p"), inside.inside(1, 0, "p"), inside.inside(1, 2, "p")]
    places.append(StreamPosition("t", 0, "full", 3, 4))
    assert [each.place for each in places] == sorted(each.place for each in places)
    assert [each.reads_state for each in places] == [True, True, True, True, False]
