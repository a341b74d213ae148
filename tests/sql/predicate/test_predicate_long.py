"""Filters of very many conditions, as programs write them: the same rows, in bounded time and depth."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_type, from_arrow_schema, parse_type, scalar_to_internal
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.expression.condition import bind_filter
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.disjunction import any_of
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.prune import ColumnStats, always_true, may_match
from paimon_pyds.sql.predicate.relaxation import partition_filter
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import And, ColumnRef, Const, Leaf, Op, Or, Predicate, ends, is_deep
from paimon_pyds.sql.text.tree import Literal
from support.effort import LONG, sampled

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
    "one-sided": lambda n: f"a > {2000 + n}" if n % 2 else f"a < {n}",
    "float ranges": lambda n: f"d > {n * 5}.5 AND d <= {n * 5 + DRAW.randrange(3)}" if n else "d > 499",
    "ranges of two": lambda n: f"a >= {n * 9} AND a < {n * 9 + 3}" if n % 2 else f"b > {n} OR d BETWEEN {n} AND {n}.5",
    "texts": lambda n: f"s = 'v{n}' AND b > {n % 5}",
    "ranges and values": lambda n: f"a BETWEEN {n * 9} AND {n * 9 + n % 4} AND s = 'v{n * 9 % 900}' AND b >= {n % 5}",
    "floats and ranges": lambda n: f"d > {n * 5}.5 AND d <= {n * 6} AND b = {n % 7}" if n else "d > 499 AND b <= 3",
    "empty ranges": lambda n: f"a > {n} AND a < {n + n % 3} AND b = {n % 4} AND d >= -0.0",
    "lists": lambda n: f"a IN ({n}, {n + 4}) AND s <> 'v{n}'",
    "floats": lambda n: f"d = {n}.0 AND b <> 2" if n % 9 else "d = CAST('NaN' AS DOUBLE) AND b = 1",
    "chars": lambda n: f"c = 'c{n % 90}' AND a < {n}",
    "computed": lambda n: f"a = {n * 3} AND b + 1 = {n % 7}",
    "three columns": lambda n: f"s = 'v{n * 3}' AND a = {n * 3} AND b = {n * 3 % 7}",
    "prefixes": lambda n: f"s LIKE 'v{n * 3}%'",
    "parts of texts": lambda n: f"s LIKE '%{n}' OR s LIKE '%v{n}%' OR startswith(s, 'v{n}') OR s LIKE 'v{n}_'",
    "patterns": lambda n: f"s LIKE '%v{n}%5%' OR s LIKE '_{n}' OR a = {n} AND s LIKE 'v_{n}'",
    "ranges of texts": lambda n: f"s > 'v{n * 7}' AND s {'<=' if n % 2 else '<'} 'v{n * 7 + DRAW.randrange(-2, 3)}'",
    "computed lists": lambda n: f"upper(s) = 'V{n}'" if n < 98 else f"{n} = a + b" if n % 2 else f"{n}L = a + b",
    "computed pairs": lambda n: f"upper(s) = 'V{n * 3}' AND b = {n % 7}" if n % 9 else f"{n}L = b AND 'v3' = lower(s)",
    "lengths": lambda n: f"length(s) = {n % 5} AND ('V{n}' = upper(s) AND c = 'c{n % 90}')",
    "computed ranges": lambda n: f"a + b BETWEEN {n * 20} AND {n * 20 + 5}" if n % 3 else f"{n * 20} > a + b - 19",
    "computed texts": lambda n: f"lower(s) LIKE 'v{n * 3}%'" if n % 2 else f"endswith(lower(s), '{n}7')",
    "texts of columns and of none": lambda n: f"trim(s) >= 'v{n * 7}' AND s < 'v{n * 7 + 2}' AND (b = 3 OR d < {n})",
    "lists of computed values": lambda n: f"a % 1000 IN ({n * 3}, {n * 3 + 1}) OR a % 1000 = -{n}",
    "computed pairs that may fail": lambda n: f"900 % (a - 5) = {n} AND a > 5 AND b < {n % 7}",
    "computed values": lambda n: f"a + {n} = b * 70",
    "few of one test": lambda n: f"a = {n * 3} AND b > {n % 5}" if n % 4 else f"b = {n % 3} AND s LIKE '%{n}%'",
    "few of one test beside others": lambda n: f"d >= {n % 5} AND (s = 'v{n}' OR a < {n}) AND c = 'c{n % 3}'",
    "mixed": lambda n: [f"a = {n}", f"b = 3 AND a BETWEEN {n} AND {n + 2}", f"s = 'v{n}'", "a IS NULL"][n % 4],
}  # fmt: skip


def one_by_one(parts: list[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found = np.zeros(BATCH.num_rows, np.bool_)
    for part in parts:
        found |= np.asarray(matches(bind_filter(part, FIELDS), BATCH))
    return found


def check_statistics(found: Predicate) -> None:
    """What statistics say of a predicate is true for the rows of each file."""
    files = [BATCH.slice(start, 100) for start in range(0, 6000, 100)]
    held = np.asarray(matches(found, BATCH)).reshape(-1, 100)
    kept, every = held.any(axis=1), held.all(axis=1)
    rows = pa.array([100] * len(files), pa.int64())

    def stats_of(column: ColumnRef) -> ColumnStats | None:
        if column.name not in ("a", "b", "d"):
            return None
        columns = [file.column(column.name) for file in files]
        ordered = [sorted(c.drop_null().to_pylist(), key=lambda v: (v != v, v)) for c in columns]  # NaN is greatest
        low, high = (pa.array([values[i] for values in ordered], columns[0].type) for i in (0, -1))
        return ColumnStats(low, high, pa.array([c.null_count for c in columns], pa.int64()), rows)

    assert not (kept & ~may_match(found, rows, stats_of)).any()
    assert not (always_true(found, rows, stats_of) & ~every).any()


@pytest.mark.parametrize("form", sampled(sorted(FORMS), 8))
def test_long_ors_keep_the_rows_of_their_parts(form: str) -> None:
    parts = [FORMS[form](n) for n in range(200 if LONG else 100)]
    found = bind_filter(" OR ".join(parts), FIELDS)
    expected = one_by_one(parts)
    assert 0 < expected.sum() < len(expected)
    assert (np.asarray(matches(found, BATCH)) == expected).all()
    assert (np.asarray(matches(bind(found, FIELDS), BATCH)) == expected).all()
    opposite = bind_filter(f"({' OR '.join(parts)}) IS NOT TRUE", FIELDS)
    assert (np.asarray(matches(opposite, BATCH)) == ~expected).all()
    check_statistics(found)


def test_ten_thousand_branches_are_a_shallow_tree() -> None:
    found = bind_filter(" OR ".join(f"a > {n} AND a < {n + 3}" for n in range(0, 100_000, 10)), FIELDS)
    assert isinstance(found, Or)
    assert len(found.children) <= 64
    assert not is_deep(found, 10)
    equal = bind_filter(" OR ".join(f"a = {n}" for n in range(10_000)), FIELDS)
    assert isinstance(equal, Leaf)
    assert (equal.op, len(equal.literals)) == (Op.IN, 10_000)


def test_ten_thousand_ranges_are_one_condition(tmp_path: Path) -> None:
    """For files of any number, too."""
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int64()), ("d", pa.float64())]))
    for start in range(0, 4000, 1000):
        numbers = list(range(start, start + 1000))
        table.append(pa.table({"a": numbers, "d": [n / 2 for n in numbers]}))
    fields = from_arrow_schema(table.arrow_schema)
    for column in ("a", "d"):
        text = " OR ".join(f"{column} >= {n * 3} AND {column} < {n * 3 + 2}" for n in range(10_000))
        found = bind_filter(text, fields)
        assert isinstance(found, Or)
        assert found.ranges is not None
        wanted = [n for n in range(4000) if n % 3 < 2] if column == "a" else [n for n in range(4000) if n / 2 % 3 < 2]
        assert table.scan(text).to_arrow().column("a").to_pylist() == wanted


def test_thousands_of_pairs_give_their_rows(tmp_path: Path) -> None:
    numbers = range(20_000)
    rows = pa.table({"a": numbers, "b": [n % 7 for n in numbers]})
    table = pp.Table.create(tmp_path / "t", rows)
    with pytest.warns(UserWarning, match="4,000 conditions"):
        scan = table.scan(" OR ".join(f"a = {n * 5} AND b > {n % 7}" for n in range(4000)))
    assert scan.to_arrow().num_rows == sum(n * 5 % 7 > n % 7 for n in range(4000))


@pytest.mark.parametrize("form", ["a = {n} AND b = {m}", "s = 'v{n}' AND a = {n} AND b = {m}", "upper(s) = 'V{n}'",
                                  "a + b = {n}", "a + b IN ({n}, {m})"])  # fmt: skip
def test_thousands_of_equalities_are_evaluated_at_once(form: str) -> None:
    found = bind_filter(" OR ".join(form.format(n=n, m=n % 7) for n in range(5000)), FIELDS)
    assert matches(found, BATCH).true_count > 100
    assert len(list(ends(found))) <= 4
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


@pytest.mark.parametrize("form", ["a = {n} AND b > {m}", "s LIKE 'v{n}%'", "a = {n} AND s <> 'v{m}'"])
def test_thousands_of_other_conditions_say_that_keys_are_faster_as_a_table(form: str) -> None:
    text = " OR ".join(form.format(n=n * 10, m=n % 7) for n in range(1100))
    with pytest.warns(UserWarning, match=r"1,100 conditions joined by OR .* scan\(matching=keys\)"):
        found = bind_filter(text, FIELDS)
    assert matches(found, BATCH).true_count > 100
    assert not is_deep(found, 10)


@pytest.mark.parametrize("form", sampled(sorted(FORMS), 8))
def test_not_of_long_ors_keeps_the_rows_for_which_all_parts_are_false(form: str) -> None:
    """NULL makes a part unknown, and a row is kept where NOT of it is true."""
    parts = [FORMS[form](n) for n in range(100)]
    found = bind_filter(f"NOT ({' OR '.join(parts)})", FIELDS)
    expected = np.ones(BATCH.num_rows, np.bool_)
    for part in parts:
        expected &= np.asarray(matches(bind_filter(f"NOT ({part})", FIELDS), BATCH))
    assert (np.asarray(matches(found, BATCH)) == expected).all()
    assert (np.asarray(matches(bind(found, FIELDS), BATCH)) == expected).all()
    check_statistics(found)


TESTS = [
    "{c} <> {v}", "{c} NOT IN ({v}, {w})", "{c} < {v}", "{c} >= {v}", "{c} > {v}", "{c} IS NULL", "{c} <= {v}",
    "NOT ({c} <=> {v})", "{c} = {v}", "s NOT LIKE 'v{n}%'", "s NOT LIKE '%{n}'", "s NOT LIKE 'v_{n}%'", "b IS NOT NULL",
]  # fmt: skip


@pytest.mark.parametrize("trial", range(120 if LONG else 8))
def test_long_ands_keep_the_rows_that_all_parts_keep(trial: int) -> None:
    """Random conditions, each of up to three tests joined by OR, on columns of which any may be NULL."""
    draw = random.Random(f"and {trial}")
    values = {
        "a": lambda n: n % 40, "b": lambda n: n % 7, "s": lambda n: f"'v{n % 50}'", "c": lambda n: f"'c{n % 9}'",
        "d": lambda n: "CAST('NaN' AS DOUBLE)" if n % 9 == 0 else f"{n % 30}.0",
    }  # fmt: skip
    columns = draw.sample(sorted(values), draw.randint(1, 4))
    tests = [*draw.sample(TESTS[:6], 2), TESTS[0]] if trial % 3 else TESTS

    def test() -> str:
        column, n = draw.choice(columns), draw.randrange(1000)
        value = values[column]
        return draw.choice(tests).format(c=column, v=value(n), w=value(n + draw.randrange(3)), n=n)

    fixed = [draw.choice(tests) for _ in range(draw.randint(1, 3))]
    parts = []
    for n in range(90):
        if trial % 2:  # all of one form
            one = [
                t.format(c=c, v=values[c](n), w=values[c](n + 1), n=n) for t, c in zip(fixed, columns * 3, strict=False)
            ]
            parts.append(f"({' OR '.join(one)})")
        else:
            parts.append(f"({' OR '.join(test() for _ in range(draw.choice([1, 2, 2, 3])))})")
    batch = pa.record_batch({
        "a": pa.array([draw.choice([None, n % 60]) if n % 5 == 0 else n % 60 for n in range(3000)], pa.int32()),
        "b": pa.array([draw.choice([None, draw.randrange(9)]) for n in range(3000)], pa.int32()),
        "s": pa.array([draw.choice([None, f"v{n % 70}", f"v{n % 70}"]) for n in range(3000)]),
        "d": pa.array([draw.choice([None, float("nan"), -0.0, float(n % 40), float(n % 40)]) for n in range(3000)]),
        "c": pa.array([draw.choice([None, f"c{n % 12}", f"c{n % 12} "]) for n in range(3000)]),
    })  # fmt: skip
    found = bind_filter(" AND ".join(parts), FIELDS)
    expected = np.ones(batch.num_rows, np.bool_)
    for part in parts:
        expected &= np.asarray(matches(bind_filter(part, FIELDS), batch))
    coded = pa.record_batch({n: batch.column(n).dictionary_encode() if n in "sc" else batch.column(n) for n in "abcsd"})
    for tree in (found, pickle.loads(pickle.dumps(found)), bind(found, FIELDS)):
        assert np.asarray(matches(tree, batch)).tolist() == expected.tolist()
        assert np.asarray(matches(tree, coded)).tolist() == expected.tolist()
    check_statistics(found)


def test_long_ands_of_one_column_are_leaves_that_statistics_answer() -> None:
    unequal = bind_filter(" AND ".join(f"a <> {n}" for n in range(100)), FIELDS)
    assert unequal == Leaf(Op.NOT_IN, bound("a"), tuple(range(100)))
    bits = 63
    for kind, low, high in (("INT", -(2**31), 2**31 - 1), ("BIGINT", -(2**bits), 2**bits - 1)):
        field = DataField(0, "a", parse_type(kind))
        ends = [(low, low + 5), *((n * 10, n * 10 + 5) for n in range(100)), (high - 5, high)]
        gaps = bind_filter(" AND ".join(f"NOT a BETWEEN {x} AND {y}" for x, y in ends), [field])
        batch = pa.record_batch(
            {"a": pa.array([low, low + 6, 5, 6, 9, 10, high - 6, high, None], arrow_type(field.type))}
        )
        assert matches(gaps, batch).to_pylist() == [False, True, False, True, True, False, True, False, False]


@pytest.mark.parametrize(
    "form",
    [
        "day BETWEEN DATE '{d}' AND DATE '{e}' AND cents = {n}.50",
        "at >= TIMESTAMP '{d} 01:00:00' AND at < TIMESTAMP '{e} 02:00:00' AND flag = {f}",
        "place.x = {n} AND day > DATE '{e}'",
        "day <= DATE '{d}' AND id = {n} AND at > TIMESTAMP '2024-01-09 01:00:00'",
    ],
)
def test_ranges_beside_values_of_each_type(form: str, tmp_path: Path) -> None:
    """Also in files of an older schema, of dictionaries, and where no row has a value."""
    days = [dt.date(2024, 1, 1) + dt.timedelta(n % 300) for n in range(1000)]
    rows = pa.table({
        "id": range(1000),
        "day": pa.array(days, pa.date32()),
        "cents": pa.array([Decimal(f"{n % 110}.50") if n % 9 else None for n in range(1000)], pa.decimal128(10, 2)),
        "at": pa.array([dt.datetime.combine(day, dt.time(n % 24)) for n, day in enumerate(days)], pa.timestamp("ms")),
        "flag": [n % 3 == 0 if n % 5 else None for n in range(1000)],
        "place": [{"x": n % 120} if n % 7 else None for n in range(1000)],
    })  # fmt: skip
    table = pp.Table.create(tmp_path / "t", rows)
    table.alter(add_columns={"later": "INT"})
    table.append({"id": range(1000, 1009), "day": days[:9], "later": range(9)})
    parts = []
    for n in range(100):
        first = dt.date(2024, 1, 1) + dt.timedelta(n * 3)
        parts.append(form.format(n=n, d=first, e=first + dt.timedelta(n % 4), f=n % 2 == 0))
    every = table.scan().to_arrow().combine_chunks().to_batches()[0]
    fields = from_arrow_schema(table.arrow_schema)
    matching = np.zeros(every.num_rows, np.bool_)
    for part in parts:
        matching |= np.asarray(matches(bind_filter(part, fields), every))
    expected = every.column("id").to_numpy()[matching].tolist()
    found = table.scan(" OR ".join(parts))
    assert 0 < len(expected) < 1000
    assert sorted(found.to_arrow().column("id").to_pylist()) == sorted(expected)


def test_computed_conditions_are_not_asked_of_rows_that_one_before_them_keeps() -> None:
    parts = ["a + 0 = 5", "9 / (a - 5) > 8", *(f"a + {n} = b * 70" for n in range(100))]
    found = bind_filter(" OR ".join(parts), FIELDS)
    assert matches(found, BATCH).true_count > 100
    with pytest.raises(PredicateError, match="division by zero"):
        matches(bind_filter(" OR ".join(parts[1:]), FIELDS), BATCH)


def test_computed_conditions_are_not_asked_of_rows_that_one_before_them_rejects() -> None:
    parts = ["a + 0 <> 5", "9 / (a - 5) < 8", *(f"a + {n} <> b * 70" for n in range(100))]
    found = bind_filter(" AND ".join(parts), FIELDS)
    expected = np.ones(BATCH.num_rows, np.bool_)
    for part in (*parts[:1], f"a <> 5 AND {parts[1]}", *parts[2:]):
        expected &= np.asarray(matches(bind_filter(part, FIELDS), BATCH))
    assert np.asarray(matches(found, BATCH)).tolist() == expected.tolist()
    with pytest.raises(PredicateError, match="division by zero"):
        matches(bind_filter(" AND ".join(parts[1:]), FIELDS), BATCH)


def test_values_that_fail_are_computed_for_rows_that_ask_for_them() -> None:
    """The division fails where a is 5; rows that other conditions keep, or the rest of one leaves out, never ask."""
    parts = [f"900 % (a - 5) = {n} AND a + b > {n} AND b > {n % 6}" for n in range(100)]
    kept = bind_filter(" OR ".join(["a + b = 5 + b", *parts]), FIELDS)
    left_out = bind_filter(" OR ".join(f"{part} AND a > 5" for part in parts), FIELDS)
    for tree, expected in (
        (left_out, [f"{part} AND a > 5" for part in parts]),
        (kept, ["a = 5 AND b IS NOT NULL", *(f"{part} AND a <> 5" for part in parts)]),
    ):
        assert np.asarray(matches(tree, BATCH)).tolist() == one_by_one(expected).tolist()
    with pytest.raises(PredicateError, match="division by zero"):
        matches(bind_filter(" OR ".join(parts), FIELDS), BATCH)


@pytest.mark.parametrize("form", sampled(sorted(FORMS), 5))
def test_the_text_for_people_is_short(form: str) -> None:
    found = bind_filter(" OR ".join(FORMS[form](n) for n in range(98)), FIELDS)
    assert len(to_sql(found, shorten=True)) < 3000
    few = bind_filter(" OR ".join(FORMS[form](n) for n in range(8)), FIELDS)
    assert to_sql(few, shorten=True) == to_sql(few)


def test_the_text_of_very_many_conditions_has_the_first_and_their_number() -> None:
    ranges = bind_filter(" OR ".join(f"a BETWEEN {n * 5} AND {n * 5 + 2}" for n in range(5000)), FIELDS)
    shown = to_sql(ranges, shorten=True)
    assert shown.startswith("(a >= 0 AND a <= 2) OR (a >= 5 AND a <= 7) OR ") and len(shown) < 1000
    assert shown.endswith(" OR … 5,000 conditions")
    tree = bind_filter(" OR ".join(f"a = {n} AND s <> '{n}'" for n in range(900)) + " OR b = 1", FIELDS)
    assert len(to_sql(tree, shorten=True)) < 3000
    assert parse_filter(to_sql(tree)) is not None


@pytest.mark.parametrize("type_", ["DOUBLE", "FLOAT", "TINYINT", "INT", "BIGINT", "DATE", "TIMESTAMP(3)"])
def test_ranges_and_the_tree_beside_them_say_the_same(type_: str) -> None:
    """Around zeros, infinities and the ends of a type, for strict and other comparisons."""
    field = DataField(0, "x", parse_type(type_))
    arrow = arrow_type(field.type)
    bits = arrow.bit_width
    if pa.types.is_floating(arrow):
        near = [0.0, -0.0, 5e-324, -5e-324, 1e-45, -1e-45, 1.0, 1.0000001192092896, 1.0000000000000002]
        special = [float("inf"), float("-inf"), float("nan"), 3.4028234663852886e38]
        values = pa.array([*near, *special, *(n / 2 for n in range(-300, 300)), None], pa.float64()).cast(arrow)
    else:
        ends = [-(1 << (bits - 1)), (1 << (bits - 1)) - 1]
        numbers = [*ends, ends[0] + 1, ends[1] - 1, *(n for n in range(-300, 300) if ends[0] <= n <= ends[1]), None]
        values = pa.array(numbers, pa.int64()).cast(f"int{bits}").view(arrow)
    batch = pa.record_batch({"x": values})
    column = ColumnRef("x", (), field.type, 0)
    literals = [v for v in dict.fromkeys(scalar_to_internal(v) for v in values) if v is not None and v == v]
    literals.sort()
    for trial in range(12 if LONG else 6):
        draw = random.Random(f"{type_} {trial}")
        parts: list[Predicate] = []
        for n in range(120):
            place = (n * 2 + trial) % (len(literals) - 1)
            low, high = literals[place], literals[place + trial % 2]
            if trial % 3 == 2:
                low, high = draw.choice(literals), draw.choice(literals)
            if trial == 0:
                low, high = literals[len(literals) // 2 - 60 + n], literals[len(literals) // 2 - 59 + n]
            lower = Leaf(
                Op.GT if trial < 2 else draw.choice([Op.GT, Op.GE]),
                column,
                (low + 0.0 if isinstance(low, float) else low,),
            )
            upper = Leaf(
                Op.LT if trial < 2 else draw.choice([Op.LT, Op.LE]),
                column,
                (high + 0.0 if isinstance(high, float) else high,),
            )
            one_sided = n == 0 and trial % 4 == 1
            parts.append(draw.choice([lower, upper]) if one_sided else And((lower, upper)))
        expected = np.zeros(len(values), np.bool_)
        for part in parts:
            expected |= np.asarray(matches(part, batch))
        found = any_of(*parts)
        assert np.asarray(matches(found, batch)).tolist() == expected.tolist()
        if isinstance(found, Or):
            assert np.asarray(matches(Or(found.children), batch)).tolist() == expected.tolist()


def test_ranges_that_meet_are_one() -> None:
    assert bind_filter(" OR ".join(f"a > {n}" for n in range(100, 10, -1)), FIELDS) == Leaf(Op.GE, bound("a"), (12,))
    joined = bind_filter(" OR ".join(f"a BETWEEN {n * 10} AND {n * 10 + 9}" for n in range(100)), FIELDS)
    assert joined == And((Leaf(Op.GE, bound("a"), (0,)), Leaf(Op.LE, bound("a"), (999,))))
    everything = bind_filter(" OR ".join(f"a > {n} OR a <= {n + 3}" for n in range(100)), FIELDS)
    assert everything == Leaf(Op.IS_NOT_NULL, bound("a"))
    floats = " OR ".join(f"d > {n} AND d < {n + 1}" for n in range(100))
    assert matches(bind_filter(floats, FIELDS), BATCH).true_count == 0
    assert matches(bind_filter(f"{floats} OR d >= 100", FIELDS), BATCH).true_count > 1500  # with NaN


def bound(column: str) -> ColumnRef:
    found = bind_filter(f"{column} IS NULL", FIELDS)
    assert isinstance(found, Leaf)
    return found.column


def test_an_or_of_ranges_keeps_them_where_it_is_bound_again_pickled_or_joined() -> None:
    text = " OR ".join(f"a > {n * 5} AND a < {n * 5 + 3}" for n in range(200))
    found = bind_filter(text, FIELDS)
    joined = bind_filter(f"({text}) AND b = 1 OR s = 'v1'", FIELDS)
    assert isinstance(joined, Or)
    assert isinstance(joined.children[0], And)
    for tree in (found, bind(found, FIELDS), pickle.loads(pickle.dumps(found)), joined.children[0].children[0]):
        assert isinstance(tree, Or)
        assert tree == found
        assert tree.ranges is not None
        assert tree.ranges.low.tolist() == [n * 5 + 1 for n in range(200)]
    others = [DataField(0, "a", parse_type("BIGINT"))]
    wide = pa.record_batch({"a": BATCH.column("a").cast(pa.int64())})
    assert matches(bind(found, others), wide) == matches(found, BATCH)
    assert partition_filter(found, ["a"]) == (found, Const.TRUE)
    assert partition_filter(found, ["b"]) == (Const.TRUE, found)


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


def test_not_of_many_partitions_leaves_these_out(tmp_path: Path) -> None:
    """Of pairs of partition keys, one of which may be NULL, and of a partition key and another column."""
    rows = [(p, None if h == 4 else h, n) for p in range(12) for h in range(5) for n in range(3)]
    columns = dict(zip("phn", map(list, zip(*rows, strict=True)), strict=True))
    table = pp.Table.create(tmp_path / "t", pa.table(columns), partition_by=["p", "h"])
    for column, at in (("h", 1), ("n", 2)):
        pairs = {(x % 10, x % 3) for x in range(100)}
        text = " OR ".join(f"p = {x % 10} AND {column} = {x % 3}" for x in range(100))
        kept = table.scan(f"NOT ({text})").to_arrow()
        found = sorted(map(str, zip(*(kept.column(name).to_pylist() for name in "phn"), strict=True)))
        unknown = [row for row in rows if row[at] is None and row[0] < 10]
        wanted = [row for row in rows if (row[0], row[at]) not in pairs and row not in unknown]
        assert found == sorted(map(str, wanted))
        assert table.count(f"NOT ({text})") == len(wanted)


def test_computed_conditions_are_told_apart_when_somebody_compares_them() -> None:
    same, other = (bind_filter("a = b + 1", FIELDS) for _ in range(2)), bind_filter("a = b + 2", FIELDS)
    one, two = same
    assert one == two == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(two) == hash(pickle.loads(pickle.dumps(two)))
    assert repr(one) == repr(two)
    assert one != other
    text = "s = cast(current_timestamp() AS STRING)"
    assert bind_filter(text, FIELDS) != bind_filter(text, FIELDS)  # of the same text, at another time
