"""Filters of any boolean expression: a scan gives the rows that evaluating it on the whole table gives."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.engine.read import read_split
from paimon_pyds.errors import ExpressionError, PredicateError
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_condition
from support.effort import sampled

SCHEMA = pa.schema(
    [("id", pa.int64()), ("a", pa.int32()), ("b", pa.int32()), ("s", pa.string()), ("d", pa.date32()),
     ("m", pa.float64()), ("p", pa.string()), ("flag", pa.bool_())]
)  # fmt: skip
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "indexes": {"options": {"file-index.bitmap.columns": "a,s", "file-index.range-bitmap.columns": "b",
                            "file-index.in-manifest-threshold": "1 b"}},
    "embedded": {"options": {"file-index.bitmap.columns": "a,s,flag", "file-index.in-manifest-threshold": "1 mb"}},
    "partitions": {"partition_by": ["p"], "options": {"file-index.range-bitmap.columns": "b"}},
    "buckets": {"options": {"bucket": "3", "bucket-key": "a", "file-index.bloom-filter.columns": "s"}},
    "orc": {"options": {"file.format": "orc", "file-index.bitmap.columns": "a"}},
}  # fmt: skip


def rows(start: int, count: int) -> pa.Table:
    texts = ["b", "B", "bb", None, "", "xyz", "12"]
    return pa.table(
        {
            "id": list(range(start, start + count)),
            "a": [None if n % 11 == 0 else n % 9 - 2 for n in range(start, start + count)],
            "b": [None if n % 13 == 0 else n * 7 % 50 for n in range(start, start + count)],
            "s": [texts[n * n % 7] for n in range(start, start + count)],
            "d": [dt.date(2024, 1 + n % 12, 1 + n % 28) for n in range(start, start + count)],
            "m": [[0.5, float("nan"), None, -2.0][n % 4] for n in range(start, start + count)],
            "p": [["2024-01", "2024-02", "2025-01", None][n // 10 % 4] for n in range(start, start + count)],
            "flag": [[True, False, None][n % 3] for n in range(start, start + count)],
        },
        SCHEMA,
    )


@pytest.fixture(scope="module", params=sampled(sorted(WAYS), 2))
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    root = tmp_path_factory.mktemp("expressions") / request.param
    found = pp.Table.create(str(root), SCHEMA, **WAYS[request.param])
    for start in (0, 60, 90):
        found.append(rows(start, 60 if start == 0 else 30))
    return found


def evaluated(text: str, whole: pa.Table) -> list[int]:
    batch = whole.combine_chunks().to_batches()[0]
    mask = bind_condition(text, [Scope((), from_arrow_schema(SCHEMA))]).matches(batch)
    return sorted(batch.filter(mask).column("id").to_pylist())


WHOLE = pa.concat_tables([rows(0, 60), rows(60, 30), rows(90, 30)])

VALUES = st.sampled_from(
    ["a", "b", "a + b", "a * 2", "length(s)", "coalesce(a, b)", "1", "3", "7", "1 + 2", "year(d)", "day(d)", "-a",
     "greatest(a, 4)", "CASE WHEN flag THEN a ELSE b END", "NULL", "nullif(a, 3)", "if(a > 2, b, a)"]
)  # fmt: skip
TEXTS = st.sampled_from(["s", "upper(s)", "p", "substr(s, 1, 1)", "substr(p, 1, 4)", "'b'", "'B'", "'2024'", "s || p"])
COMPARES = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
PATTERNS = st.sampled_from(["'b%'", "'%2%'", "'B'", "p", "lower('B') || '%'"])


def test_of(*parts: st.SearchStrategy[str], form: str) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda given: form.format(*given))


test_of.__test__ = False  # type: ignore[attr-defined]

LEAVES = st.one_of(
    test_of(VALUES, COMPARES, VALUES, form="{} {} {}"),
    test_of(TEXTS, COMPARES, TEXTS, form="{} {} {}"),
    test_of(VALUES, VALUES, VALUES, form="{} BETWEEN {} AND {}"),
    test_of(VALUES, VALUES, VALUES, form="{} IN ({}, {})"),
    test_of(TEXTS, TEXTS, TEXTS, form="{} NOT IN ({}, {})"),
    test_of(TEXTS, PATTERNS, form="{} LIKE {}"),
    test_of(st.one_of(VALUES, TEXTS), form="{} IS NULL"),
    st.sampled_from(
        ["flag", "flag IS NOT TRUE", "isnan(m)", "m > 0", "m = -2",
         "d >= date_sub(DATE '2024-07-01', 30)", "d < '2024-04-02'",
         "isnan(m / 2)", "id % 7 = 3", "p = '2024-02'", "p IS NULL", "NULL", "true", "coalesce(flag, a = b)"]
    ),
)  # fmt: skip


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        test_of(inner, inner, form="({} AND {})"),
        test_of(inner, inner, form="({} OR {})"),
        test_of(inner, form="(NOT {})"),
        test_of(inner, form="(({}) IS NULL)"),
        test_of(inner, form="(({}) IS NOT FALSE)"),
        test_of(inner, inner, form="(({}) = ({}))"),
    )


@settings(
    max_examples=settings.default.max_examples * 3 // 5, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.recursive(LEAVES, grown, max_leaves=6))
@example("NULL")
def test_a_scan_gives_the_rows_that_evaluating_gives(table: pp.Table, text: str) -> None:
    expected = evaluated(text, WHOLE)
    scan = table.scan(text, columns=["id"])
    assert sorted(scan.to_arrow().column("id").to_pylist()) == expected
    assert table.count(text) == len(expected)
    by_splits = [
        batch.column(0).to_pylist()
        for split in pickle.loads(pickle.dumps(scan.plan().splits))
        for batch in read_split(split)
    ]
    assert sorted(n for part in by_splits for n in part) == expected
    assert table.max("id", text) == max(expected, default=None)
    first = table.top_n("id desc, 3", text, columns=["id"])
    assert first.column("id").to_pylist() == expected[::-1][:3]
    assert table.scan(text, columns=["id"], limit=2).to_arrow().num_rows == min(2, len(expected))


@pytest.mark.smoke
def test_what_prunes_and_what_is_evaluated(tmp_path: Path) -> None:
    table = pp.Table.create(str(tmp_path / "t"), SCHEMA, partition_by=["p"])
    table.append(WHOLE)
    files = len(table.scan().plan().files)

    def planned(text: str) -> int:
        return len(table.scan(text).plan().files)

    assert files == 4
    assert planned("upper(s) = 'B'") == 4
    assert planned("upper(s) = 'B' AND p = '2024-01'") == 1
    assert planned("substr(p, 1, 4) = '2024'") == 2
    assert planned("upper(s) = 'B' AND (substr(p, 1, 4) = '2025' AND a = b OR p IS NULL)") == 2
    assert planned("id + 0 > 5 AND id > 1000") == 0
    assert planned("d > date_add(DATE '2024-12-01', 365)") == 0
    shown = str(table.explain("upper(s) = 'B' AND id > 3"))
    assert "evaluated on rows: upper(s) = 'B'" in shown
    assert "evaluated on rows" not in str(table.explain("id > 3"))


def test_deletes_and_scans_take_the_same_conditions(tmp_path: Path) -> None:
    table = pp.Table.create(str(tmp_path / "t"), SCHEMA, options={"deletion-vectors.enabled": "true"})
    table.append(WHOLE)
    text = "upper(s) = 'B' OR a + b > 30"
    kept = table.count() - table.count(text)
    table.delete(text)
    assert (table.count(), table.count(text)) == (kept, 0)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("upper(s) = ", PredicateError, "the condition ends here"),
        ("uppr(s) = 'B'", PredicateError, "did you mean upper"),
        ("a / (b - b) > 1", ExpressionError, "division by zero"),
        ("a IN (SELECT 1)", PredicateError, "subqueries are not supported"),
    ],
)
@pytest.mark.parametrize("ask", ["scan", "count", "explain", "max"])
def test_mistakes(tmp_path: Path, text: str, error: type[Exception], message: str, ask: str) -> None:
    table = pp.Table.create(str(tmp_path / "t"), SCHEMA)
    table.append(WHOLE)
    asked: dict[str, Callable[[], Any]] = {
        "scan": lambda: table.scan(text).to_arrow(),
        "count": lambda: table.count(text),
        "explain": lambda: table.explain(text, analyze=True),
        "max": lambda: table.max("id", text),
    }
    with pytest.raises(error, match=message):
        asked[ask]()
