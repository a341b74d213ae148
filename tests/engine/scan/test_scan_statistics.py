"""Statistics of manifests, where their form is not that of the values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.row import encode_row
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.metadata.manifest_reader import RowStatistics, unpadded
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.prune import may_match


@pytest.mark.parametrize(
    ("text", "kept"), [("c = 'h'", True), ("c < 'h  '", True), ("c = 'g'", False), ("c > 'x'", False)]
)
def test_char_bounds_padded_by_java_keep_the_values(text: str, kept: bool) -> None:
    field = DataField(0, "c", parse_type("CHAR(4)"))
    stats = RowStatistics(
        names=["c"],
        types=[field.type],
        minimum=pa.array([encode_row(["h   "], [field.type])]),
        maximum=pa.array([encode_row(["x"], [field.type])]),
        null_counts=pa.array([[0]]),
        row_counts=pa.array([5]),
    )
    predicate = bind(parse_filter(text), [field])
    assert may_match(predicate, stats.row_counts, stats.of).tolist() == [kept]


def test_char_bounds_are_cut_below_a_blank() -> None:
    stored = ["h\x01  ", "h   ", None, "a\nb "]
    assert unpadded(pa.array(stored)).to_pylist() == ["h", "h", None, "a"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=6))
def test_char_bounds_hold_for_every_value(values: list[str]) -> None:
    padded = min(value.ljust(12) for value in values)
    assert unpadded(pa.array([padded]))[0].as_py() <= min(value.rstrip(" ") for value in values)
