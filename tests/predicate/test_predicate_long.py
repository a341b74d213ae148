"""Filters of very many conditions, as programs write them: the same rows, in bounded time and depth."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_pyds.errors import PredicateError
from paimon_pyds.expression import bind_filter
from paimon_pyds.predicate.bind import bind
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.prune import ColumnStats, always_true, may_match
from paimon_pyds.predicate.tree import And, ColumnRef, Leaf, Literal, Op, Or, Predicate, is_deep
from paimon_pyds.types import DataField, parse_type

FIELDS = [
    DataField(i, name, parse_type(type_))
    for i, (name, type_) in enumerate([("a", "INT"), ("b", "INT"), ("s", "STRING"), ("d", "DOUBLE"), ("c", "CHAR(4)")])
]
DRAW = random.Random(7)
BATCH = pa.record_batch(
    {
        "a": pa.array([None if n % 17 == 0 else n % 3000 for n in range(6000)], pa.int32()),
        "b": pa.array([None if n % 13 == 0 else n % 7 for n in range(6000)], pa.int32()),
        "s": [None if n % 19 == 0 else f"v{n % 900}" for n in range(6000)],
        "d": [[None, float("nan"), -0.0, float(n % 500)][n % 4] for n in range(6000)],
        "c": [f"c{n % 90}" + " " * (n % 2) for n in range(6000)],
    }
)
FORMS = {
    "pairs": lambda n: f"a = {n * 3} AND b = {n % 7}",
    "ranges": lambda n: f"a > {n * 5} AND a <= {n * 5 + DRAW.randrange(9)}",
    "texts": lambda n: f"s = 'v{n}' AND b > {n % 5}",
    "lists": lambda n: f"a IN ({n}, {n + 4}) AND s <> 'v{n}'",
    "floats": lambda n: f"d = {n}.0 AND b <> 2" if n % 9 else "d = CAST('NaN' AS DOUBLE) AND b = 1",
    "chars": lambda n: f"c = 'c{n % 90}' AND a < {n}",
    "computed": lambda n: f"a = {n * 3} AND b + 1 = {n % 7}",
    "mixed": lambda n: [f"a = {n}", f"b = 3 AND a BETWEEN {n} AND {n + 2}", f"s = 'v{n}'", "a IS NULL"][n % 4],
}  # fmt: skip


def one_by_one(parts: list[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found = np.zeros(BATCH.num_rows, np.bool_)
    for part in parts:
        found |= np.asarray(matches(bind_filter(part, FIELDS), BATCH))
    return found


@pytest.mark.parametrize("form", sorted(FORMS))
def test_long_ors_keep_the_rows_of_their_parts(form: str) -> None:
    parts = [FORMS[form](n) for n in range(200)]
    found = bind_filter(" OR ".join(parts), FIELDS)
    expected = one_by_one(parts)
    assert 0 < expected.sum() < len(expected)
    assert (np.asarray(matches(found, BATCH)) == expected).all()
    assert (np.asarray(matches(bind(found, FIELDS), BATCH)) == expected).all()
    opposite = bind_filter(f"({' OR '.join(parts)}) IS NOT TRUE", FIELDS)
    assert (np.asarray(matches(opposite, BATCH)) == ~expected).all()
    files = [BATCH.slice(start, 100) for start in range(0, 6000, 100)]
    kept = np.array([bool(np.asarray(matches(found, file)).any()) for file in files])
    every = np.array([bool(np.asarray(matches(found, file)).all()) for file in files])
    rows = pa.array([100] * len(files), pa.int64())

    def stats_of(column: ColumnRef) -> ColumnStats | None:
        if column.name not in ("a", "b"):
            return None
        columns = [file.column(column.name) for file in files]
        bounds = [[min(c.drop_null().to_pylist()), max(c.drop_null().to_pylist())] for c in columns]
        low, high = (pa.array([b[i] for b in bounds], pa.int32()) for i in (0, 1))
        return ColumnStats(low, high, pa.array([c.null_count for c in columns], pa.int64()), rows)

    assert not (kept & ~may_match(found, rows, stats_of)).any()
    assert not (always_true(found, rows, stats_of) & ~every).any()


def test_ten_thousand_branches_are_a_shallow_tree() -> None:
    found = bind_filter(" OR ".join(f"a > {n} AND a < {n + 3}" for n in range(0, 100_000, 10)), FIELDS)
    assert isinstance(found, Or)
    assert len(found.children) <= 64
    assert not is_deep(found, 10)
    equal = bind_filter(" OR ".join(f"a = {n}" for n in range(10_000)), FIELDS)
    assert isinstance(equal, Leaf)
    assert (equal.op, len(equal.literals)) == (Op.IN, 10_000)


def test_trees_put_together_by_hand_are_bounded_in_depth() -> None:
    deep: Predicate = Leaf(Op.EQ, ColumnRef("a"), (Literal(1, None),))
    for n in range(100_000):
        deep = (And if n % 2 else Or)((deep, Leaf(Op.EQ, ColumnRef("b"), (Literal(n, None),))))
    with pytest.raises(PredicateError, match="nested deeper than"):
        bind(deep, FIELDS)
    while isinstance(deep, And | Or):  # level by level: their end is no deeper recursion either
        deep = deep.children[0]


@pytest.mark.parametrize(("column", "value"), [("a", "{}"), ("s", "'v{}'"), ("a", "{}.0"), ("d", "{}"), ("c", "'c{}'")])
def test_long_lists(column: str, value: str) -> None:
    known = [value.format(n * 3) for n in range(500)]
    found = bind_filter(f"{column} IN ({', '.join(known)}, NULL)", FIELDS)
    few = [v for v in known if matches(bind_filter(f"{column} = {v}", FIELDS), BATCH).true_count]
    expected = one_by_one([f"{column} = {v}" for v in few])
    assert (np.asarray(matches(found, BATCH)) == expected).all()
    assert not matches(bind_filter(f"{column} NOT IN ({', '.join(known)}, NULL)", FIELDS), BATCH).true_count
