"""Names in other case, and units of time: what all rooms look up in one place."""

from __future__ import annotations

from paimon_pyds.base.types import DataField, fields_named, parse_type, positions_named
from paimon_pyds.base.types.kinds import NANOS_PER_UNIT, UNIT_DIGITS, UNITS_PER_SECOND


def test_a_name_is_found_as_it_is_spelled_or_else_in_other_case() -> None:
    names = ["id", "Name", "NAME", "ID2"]
    assert positions_named("Name", names) == [1]
    assert positions_named("name", names) == [1, 2]
    assert positions_named("ID", names) == [0]
    assert positions_named("nam", names) == []
    fields = [DataField(i, name, parse_type("INT")) for i, name in enumerate(names)]
    assert [f.id for f in fields_named("id2", fields)] == [3]


def test_units_fit_each_other() -> None:
    assert list(UNIT_DIGITS) == ["s", "ms", "us", "ns"]
    assert all(UNITS_PER_SECOND[unit] * NANOS_PER_UNIT[unit] == 10**9 for unit in UNIT_DIGITS)
    assert (UNITS_PER_SECOND["ms"], NANOS_PER_UNIT["us"]) == (1_000, 1_000)
