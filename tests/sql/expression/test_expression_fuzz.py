"""Random texts and random expressions: one kind of error, and values that do not depend on batches."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_expression
from paimon_pyds.sql.text.lexer import SqlText
from paimon_pyds.sql.text.parser import parse

DATA = pa.record_batch(
    {
        "i": pa.array([1, -2, None, 2**31 - 1, 0, 7], pa.int32()),
        "l": pa.array([None, 5, 0, -(2**63), 3, 9], pa.int64()),
        "d": pa.array([0.5, None, float("nan"), -0.0, 1e300, 2.0]),
        "m": pa.array([None, 1, 2, 3, 4, 5], pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2)),
        "s": ["a", "", None, "12", "2026-01-31", "é"],
        "b": [True, None, False, True, False, None],
    }
)
SCOPE = Scope(("t",), from_arrow_schema(DATA.schema))

WORDS = st.sampled_from(
    ["a", "i", "1", "1.5", "'x'", "(", ")", ",", "+", "-", "*", "/", "CASE", "WHEN", "THEN", "END", "ELSE", "AND", "OR",
     "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "CAST", "AS", "INT", "::", "[", "]", ".", "`", "'", "trim", "FROM",
     "||", "<=>", "DATE", "coalesce", "--", "/*"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=20))
def test_any_text_parses_or_gives_the_one_error(text: str) -> None:
    try:
        tree = parse(SqlText(text, "expression"))
    except ExpressionError as error:
        assert "filter" not in error.message.split("\n")[0].replace(text, "")
        return
    assert 0 <= tree.start < tree.stop <= len(text)


LEAVES = st.sampled_from(["i", "l", "d", "m", "s", "b", "t.i", "1", "0", "2.50", "'7'", "NULL", "true", "1e2", "3L"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def call(template: str) -> st.SearchStrategy[str]:
        return st.tuples(inner, inner, inner).map(lambda parts: template.format(*parts))

    templates = [
        "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})", "({0} % {1})", "({0} = {1})", "({0} < {1})",
        "({0} AND {1})", "({0} OR {1})", "(NOT {0})", "({0} IS NULL)", "({0} IN ({1}, {2}))", "coalesce({0}, {1}, {2})",
        "CASE WHEN {0} THEN {1} ELSE {2} END", "if({0}, {1}, {2})", "nullif({0}, {1})", "greatest({0}, {1})",
        "cast({0} AS string)", "cast({0} AS bigint)", "try_cast({0} AS int)", "cast({0} AS decimal(12, 3))",
        "length({0})", "concat({0}, {1})", "({0} <=> {1})", "abs({0})", "round({0}, 1)", "upper({0})", "floor({0})",
        "substring({0}, 1, 2)", "({0} || {1})", "least({0}, {1})", "-{0}", "({0} BETWEEN {1} AND {2})",
    ]  # fmt: skip
    return st.sampled_from(templates).flatmap(call)


def _evaluated(bound: Any, batch: pa.RecordBatch) -> Any:
    """The values as texts (NaN has no equal), or the fact that there is an error."""
    try:
        return [repr(value) for value in bound.evaluate(batch).to_pylist()]
    except ExpressionError:
        return None


@given(st.recursive(LEAVES, _grown, max_leaves=8), st.integers(0, 6))
def test_values_do_not_depend_on_batches(text: str, cut: int) -> None:
    try:
        bound = bind_expression(text, [SCOPE])
    except ExpressionError:
        return
    whole = _evaluated(bound, DATA)
    parts = [_evaluated(pickle.loads(pickle.dumps(bound)), part) for part in (DATA.slice(0, cut), DATA.slice(cut))]
    if whole is not None:
        assert whole == parts[0] + parts[1]
    elif len(DATA) > 0 and bound.columns:
        rows = [_evaluated(bound, DATA.slice(n, 1)) for n in range(DATA.num_rows)]
        assert None in rows, "what fails for a batch fails for one of its rows"


def test_depth_and_length_are_bounded() -> None:
    for text in ("(" * 500 + "1" + ")" * 500, "- " * 500 + "i", "NOT " * 500 + "b", "i" + "::int" * 3000,
                 "(" * 40 + "b" + " BETWEEN b AND b)" * 40):  # fmt: skip
        with pytest.raises(ExpressionError, match="nested"):
            bind_expression(text, [SCOPE])
    assert bind_expression("0" + " + 1" * 140, [SCOPE]).evaluate(DATA).to_pylist() == [140] * 6
    many = " + ".join(["i"] * 80)
    with pytest.raises(ExpressionError, match="outside the range"):
        bind_expression(many, [SCOPE]).evaluate(DATA)
