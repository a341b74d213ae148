"""Expressions of pyarrow in SQL: the rows of a scan by what is understood are those that pyarrow keeps, or more."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.arrow_conditions import COMPARABLE, Condition, as_condition
from paimon_pyds.base.lazy_polars import comparable

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a": (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "i": (pa.int8(), [-128, 0, 127]),
    "b": (pa.string(), ["", "a", "it's", 'x") and (a == 1', "a\\b", "a\nb", "ä", "\0", "日本"]),
    "c": (pa.float64(), [0.0, -0.0, 1.5, 1e300, -1e-300, float("inf"), float("nan")]),
    "n": (pa.decimal128(38, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal(10**30) + Decimal("0.25")]),
    "d": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]),
    "t": (pa.timestamp("us"), [datetime.datetime(1, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    "z": (
        pa.timestamp("ms", "UTC"),
        [datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.UTC)],
    ),
    "f": (pa.bool_(), [True, False]),
    "we `ird": (pa.int32(), [1, 2]),
    "k": (pa.float32(), [1.5, 0.1]),
}
SCHEMA = pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()])
OPERATORS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")


@st.composite
def leaves(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(list(COLUMNS)))
    type_, values = COLUMNS[name]
    column = pc.field(name)
    match draw(st.sampled_from(["compare", "among", "null", "valid", "nan", "other"])):
        case "compare":
            scalar = pa.scalar(draw(st.sampled_from(values)), type_)
            return getattr(column, draw(st.sampled_from(OPERATORS)))(scalar)
        case "among":
            within = column.isin(pa.array(draw(st.lists(st.sampled_from(values), max_size=30)), type_))
            no = pa.scalar(None, pa.bool_())
            return draw(st.sampled_from([within, pc.if_else(column.is_valid(), within, no)]))
        case "null":
            return column.is_null()
        case "valid":
            return column.is_valid()
        case "nan":
            return pc.field("c").is_null(nan_is_null=True)
    return draw(st.sampled_from([pc.starts_with(pc.field("b"), "a"), ~pc.field("f"), pc.field("a") == pc.field("a")]))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[pp.Scan, pa.Table]:
    count = 20
    rows = pa.table(
        {name: [[*values, None][i % (len(values) + 1)] for i in range(count)] for name, (_, values) in COLUMNS.items()},
        SCHEMA,
    )
    table: pp.Table = pp.Table.create(tmp_path_factory.mktemp("t") / "t", SCHEMA)
    table.append(rows)
    return table.scan(), rows


@given(
    expression=st.recursive(
        leaves(),
        lambda inner: inner | st.builds(lambda a, b: a & b, inner, inner) | st.builds(lambda a, b: a | b, inner, inner),
        max_leaves=6,
    )
)
def test_what_is_understood_keeps_the_same_rows_or_more(world: tuple[pp.Scan, pa.Table], expression: Any) -> None:
    scan, rows = world
    found = as_condition(expression, comparable(scan, COMPARABLE))
    expected = rows.filter(expression)
    if found.sql is None:
        assert not found.is_exact
        return
    kept = scan.where(found.sql).to_arrow()
    if found.is_exact:
        assert str(kept.to_pylist()) == str(expected.to_pylist())
    assert str(kept.filter(expression).to_pylist()) == str(expected.to_pylist())


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        (pc.field("a") == 1, Condition("`a` = 1", True, frozenset("a"))),
        (pc.field("b") == "a\nb", Condition("`b` = 'a\nb'", True, frozenset("b"))),
        (pc.field("a").isin(range(12)), Condition(f"`a` IN ({', '.join(map(str, range(12)))})", True, frozenset("a"))),
        ((pc.field("a") > 1) & (pc.field("zz") == 1), Condition("(`a` > 1)", False, frozenset(("a", "zz")))),
        ((pc.field("a") > 1) | (pc.field("zz") == 1), Condition(None, False, frozenset(("a", "zz")))),
        (pc.field("c") <= 1.5, Condition("`c` <= 1.5D", False, frozenset("c"))),
        (pc.field("s", "q") == 1, Condition(None, False, frozenset("s"))),
        (pc.field("d") < datetime.date(2024, 1, 1), Condition("`d` < DATE '2024-01-01'", True, frozenset("d"))),
        (pc.field("a") == "1", Condition(None, False, frozenset("a"))),
        ("no expression", Condition(None)),
    ],
)
def test_conditions(expression: Any, condition: Condition, world: tuple[pp.Scan, pa.Table]) -> None:
    assert as_condition(expression, comparable(world[0], COMPARABLE)) == condition
