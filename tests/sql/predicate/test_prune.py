"""The law of pruning: statistics keep a superset of what exact evaluation keeps, and what they prove is true."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, Kind, arrow_schema, parse_type
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.prune import ColumnStats, always_true, may_match, text_successor
from paimon_pyds.sql.predicate.relaxation import partition_filter
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Predicate, make_and, root_columns
from support import predicate_model as model
from support.effort import examples

SCHEMA = arrow_schema(model.FIELDS)
KINDS = {f.name: f.type.kind for f in model.FIELDS}
NESTED = {"r", "m"}
MORE = settings(max_examples=examples(18))


def bound(text: str, fields: Any = model.FIELDS) -> Predicate:
    return bind(parse_filter(text), fields)


def java_order(value: Any) -> Any:
    """Double.compare: NaN greatest, -0.0 below 0.0."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value) > 0)
    return value


def cut_short(low: str, high: str, length: int) -> tuple[str | None, str | None]:
    """metadata.stats-mode truncate(n): the minimum cut, the maximum cut and its last character raised."""
    if len(high) > length:
        kept = high[:length].rstrip("\U0010ffff")
        if not kept:
            return None, None
        following = ord(kept[-1]) + 1
        high = kept[:-1] + chr(0xE000 if following == 0xD800 else following)
    return low[:length], high


class Files:
    """Statistics of several files, made from their rows by plain Python."""

    def __init__(
        self,
        files: list[list[dict[str, Any]]],
        exact: bool,
        known: Callable[[int, str], str],
        hides_nan: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.files, self.exact, self.known, self.hides_nan = files, exact, known, hides_nan
        self.row_counts = pa.array([len(rows) for rows in files], pa.int64())

    def of(self, column: ColumnRef) -> ColumnStats | None:
        name = column.name
        if column.path or self.known(-1, name) == "none":
            return None
        lows: list[Any] = []
        highs: list[Any] = []
        nulls: list[int | None] = []
        for number, rows in enumerate(self.files):
            values = sorted((row[name] for row in rows if row[name] is not None), key=java_order)
            low, high = (values[0], values[-1]) if values else (None, None)
            plain = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
            if self.hides_nan(number) and values:
                low, high = (plain[0], plain[-1]) if plain else (math.nan, math.nan)
            if name == "s" and not self.exact and values:
                low, high = cut_short(low, high, 1)
            state = self.known(number, name)
            lows.append(None if state == "counts" else low)
            highs.append(None if state == "counts" else high)
            nulls.append(None if state == "bounds" else len(rows) - len(values))
        if name in NESTED:
            return ColumnStats(
                pa.nulls(len(lows), pa.int32()),
                pa.nulls(len(lows), pa.int32()),
                pa.array(nulls, pa.int64()),
                self.row_counts,
            )
        type_ = SCHEMA.field(name).type
        return ColumnStats(
            pa.array(lows, type_), pa.array(highs, type_), pa.array(nulls, pa.int64()), self.row_counts,
            unknown=np.array([self.known(n, name) == "unknown" for n in range(len(self.files))]), exact=self.exact,
            nan_counted=np.array([not self.hides_nan(n) for n in range(len(self.files))]),
        )  # fmt: skip

    def pruned(self, predicate: Predicate) -> tuple[Any, Any]:
        """The files that may hold a match, and those of which every row is one."""
        return tuple(test(predicate, self.row_counts, self.of) for test in (may_match, always_true))  # type: ignore[return-value]


files = st.lists(model.rows(low=0, high=3), min_size=1, max_size=6)
knowledge = st.sampled_from(["all", "all", "all", "counts", "bounds", "unknown", "none"])


def truth(predicate: Predicate, rows: list[dict[str, Any]]) -> list[bool]:
    return matches(predicate, model.to_arrow(rows)).to_pylist() if rows else []


@MORE
@given(
    model.conditions(leaves=5), files, st.booleans(), st.dictionaries(st.sampled_from(sorted(KINDS)), knowledge),
    st.sets(st.integers(0, 5)),
)  # fmt: skip
def test_pruning_keeps_and_proves_what_exact_evaluation_says(
    condition: Any, found: list[list[dict[str, Any]]], exact: bool, states: dict[str, str], hiding: set[int]
) -> None:
    predicate = bound(model.to_text(condition))
    statistics = Files(found, exact, lambda _, name: states.get(name, "all"), hiding.__contains__)
    keep, sure = statistics.pruned(predicate)
    for number, rows in enumerate(found):
        exactly = truth(predicate, rows)
        assert keep[number] or not any(exactly), (model.to_text(condition), rows)
        assert not sure[number] or all(exactly), (model.to_text(condition), rows)


@MORE
@given(model.conditions(leaves=1), st.lists(model.rows(low=1, high=1), min_size=1, max_size=4))
def test_one_row_with_exact_bounds_is_decided_unless_it_is_text(condition: Any, found: Any) -> None:
    """Statistics that say everything must prune everything that they can: the other half of the law."""
    predicate = bound(model.to_text(condition))
    if isinstance(predicate, Const) or any(KINDS[name] in _UNDECIDED for name in root_columns(predicate)):
        return
    statistics = Files(found, True, lambda *_: "all")
    keep, sure = statistics.pruned(predicate)
    for number, rows in enumerate(found):
        exactly = truth(predicate, rows)
        assert keep[number] == exactly[0], (model.to_text(condition), rows)
        assert sure[number] == exactly[0], (model.to_text(condition), rows)


_UNDECIDED = {Kind.VARCHAR, Kind.ROW, Kind.MAP}


@MORE
@given(model.conditions(leaves=6), model.rows(), st.sets(st.sampled_from(["i", "da", "s", "bo", "d"]), min_size=1))
def test_partition_filter_is_implied_and_leaves_the_rest(
    condition: Any, rows: list[dict[str, Any]], keys: set[str]
) -> None:
    predicate = bound(model.to_text(condition))
    projected, residual = partition_filter(predicate, sorted(keys))
    assert set(root_columns(projected)) <= keys
    whole, part = truth(predicate, rows), truth(projected, rows)
    assert all(p for w, p in zip(whole, part, strict=True) if w)
    assert truth(make_and(projected, residual), rows) == whole


def test_partition_filter_by_example() -> None:
    def split(text: str) -> tuple[Predicate, Predicate]:
        return partition_filter(bound(text), ["da", "i"])

    assert split("i = 1 AND s = 'x'") == (bound("i = 1"), bound("s = 'x'"))
    assert split("i = 1 OR s = 'x'") == (Const.TRUE, bound("i = 1 OR s = 'x'"))
    assert split("(i = 1 AND s = 'x') OR i > 2") == (bound("i = 1 OR i > 2"), bound("(i = 1 AND s = 'x') OR i > 2"))
    assert split("i = 1 AND (i = 2 OR s = 'x')") == (bound("i = 1"), bound("i = 2 OR s = 'x'"))
    assert split("i = 1") == (bound("i = 1"), Const.TRUE)
    assert split("s = 'x'") == (Const.TRUE, bound("s = 'x'"))
    assert split("false") == (Const.FALSE, Const.TRUE)


def one(low: Any, high: Any, nulls: int | None, rows: int, type_: pa.DataType, **more: Any) -> Callable[..., Any]:
    counts = pa.array([rows], pa.int64())
    stats = ColumnStats(pa.array([low], type_), pa.array([high], type_), pa.array([nulls], pa.int64()), counts, **more)
    return lambda text: (
        bool(may_match(bound(text), counts, lambda _: stats)[0]),
        bool(always_true(bound(text), counts, lambda _: stats)[0]),
    )


def test_a_null_minimum_means_all_null_only_when_the_count_says_so() -> None:
    counts_only = one(None, None, 3, 10, pa.int32())
    assert counts_only("i = 5") == (True, False)
    assert counts_only("i IS NULL") == (True, False)
    assert counts_only("i IS NOT NULL") == (True, False)
    all_null = one(None, None, 10, 10, pa.int32())
    assert all_null("i = 5") == (False, False)
    assert all_null("i <> 5") == (False, False)
    assert all_null("i IS NULL") == (True, True)
    assert all_null("i IS NOT NULL") == (False, False)
    nothing = one(None, None, None, 10, pa.int32())
    for text in ("i = 5", "i IS NULL", "i IS NOT NULL", "i NOT IN (1, 2)"):
        assert nothing(text) == (True, False), text
    no_count = one(5, 5, None, 10, pa.int32())
    assert no_count("i = 5") == (True, False)
    assert no_count("i <> 5") == (False, False)
    assert no_count("i = 6") == (False, False)


def test_cut_texts_bound_but_prove_nothing() -> None:
    cut = one("a long partition", "a long partitioo", 0, 10, pa.string())
    assert cut("s = 'a long partition b'") == (True, False)
    assert cut("s > 'a long partitionz'") == (True, False)
    assert cut("s > 'a long partitiop'") == (False, False)
    assert cut("s LIKE 'a long partition%'") == (True, False)
    assert cut("s LIKE 'a shor%'") == (False, False)
    assert cut("s NOT LIKE 'a long%'") == (False, False)
    same = one("abc", "abc", 0, 10, pa.string())
    assert same("s <> 'abc'") == (True, False)
    assert same("s = 'abc'") == (True, False)
    exact = one("abc", "abc", 0, 10, pa.string(), exact=True)
    assert exact("s <> 'abc'") == (False, False)
    assert exact("s = 'abc'") == (True, True)
    assert exact("s NOT IN ('abc', 'x')") == (False, False)


def test_both_zeros_are_one_value() -> None:
    for low, high in ((-0.0, -0.0), (-0.0, 0.0), (0.0, 0.0)):
        zero = one(low, high, 0, 3, pa.float64())
        assert zero("d = 0.0D") == (True, True)
        assert zero("d = -0.0D") == (True, True)
        assert zero("d <> 0.0D") == (False, False)
        assert zero("d > -0.0D") == (False, False)
        assert zero("d IN (0D, 5D)") == (True, True)


def test_nan_is_greatest_and_may_hide_where_it_is_not_counted() -> None:
    java = one(1.0, math.nan, 0, 3, pa.float64())
    assert java("d > 1e300") == (True, False)
    assert java("d = double('NaN')") == (True, False)
    assert java("d < 1.0") == (False, False)
    all_nan = one(math.nan, math.nan, 0, 3, pa.float64())
    assert all_nan("d = double('NaN')") == (True, True)
    assert all_nan("d <> double('NaN')") == (False, False)
    assert all_nan("d < double('NaN')") == (False, False)
    assert all_nan("d > 5") == (True, True)
    none = one(1.0, 2.0, 0, 3, pa.float64())
    assert none("d > 2.0") == (False, False)
    assert none("d = double('NaN')") == (False, False)
    orc = one(math.nan, math.nan, 0, 3, pa.float64(), nan_counted=False)  # NaN first, and compared with the rest
    assert orc("d < 0") == orc("d > 0") == (True, False)
    parquet = one(1.0, 2.0, 0, 3, pa.float64(), nan_counted=False)
    assert parquet("d > 2.0") == (True, False)
    assert parquet("d = double('NaN')") == (True, False)
    assert parquet("d < 1.0") == (False, False)
    assert parquet("d <= 2.0") == (True, False)
    assert parquet("d = 3D") == parquet("d IN (0D, 3D)") == parquet("d = 0D OR d = 3D") == (False, False)
    assert parquet("d BETWEEN 3D AND 9D") == parquet("d >= 3D AND d IN (1D, 4D)") == (False, False)
    assert parquet("d >= 3D AND d <= double('NaN')") == parquet("d > 3D OR d < 0D") == (True, False)


floats = st.lists(st.none() | st.sampled_from([math.nan, -math.inf, -1.5, -0.0, 0.0, 1.0, 2.5, math.inf]), max_size=4)


@MORE
@given(st.data(), st.lists(floats, min_size=1, max_size=6), st.sets(st.integers(0, 5)))
def test_floats_keep_the_law_whoever_counted_nan(
    data: st.DataObject, columns: list[list[float | None]], hiding: set[int]
) -> None:
    literal = st.sampled_from(["double('NaN')", "-1.5D", "0D", "2.5D", "9D", "double('inf')"])
    leaf = st.one_of(
        st.tuples(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), literal).map(lambda t: f"d {t[0]} {t[1]}"),
        st.tuples(literal, literal).map(lambda t: f"d BETWEEN {t[0]} AND {t[1]}"),
        st.lists(literal, min_size=1, max_size=3).map(lambda t: f"d IN ({', '.join(t)})"),
    )
    text = data.draw(
        st.recursive(
            leaf,
            lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
                lambda t: f"({t[0]}) {t[1]} (NOT ({t[2]}))"
            ),
            max_leaves=4,
        )
    )
    found = [[{"d": value} for value in column] for column in columns]
    statistics = Files(found, True, lambda *_: "all", hiding.__contains__)
    predicate = bound(text)
    keep, sure = statistics.pruned(predicate)
    for number, column in enumerate(columns):
        batch = pa.record_batch([pa.array(column, pa.float64())], ["d"])
        exactly = matches(predicate, batch).to_pylist() if column else []
        assert keep[number] or not any(exactly), text
        assert not sure[number] or all(exactly), text


def test_long_in_lists_are_searched_not_compared_one_by_one() -> None:
    count = 1000
    low = np.arange(count, dtype=np.int64) * 100
    rows = pa.array(np.full(count, 10))
    nulls = pa.array(np.zeros(count, np.int64))
    wanted = list(range(50, 100_000, 1_000))
    numbers = ColumnStats(pa.array(low), pa.array(low + 60), nulls, rows)
    keep = may_match(bound(f"b IN ({', '.join(map(str, wanted))})"), rows, lambda _: numbers)
    assert np.flatnonzero(keep).tolist() == [w // 100 for w in wanted]
    keep = may_match(bound(f"b NOT IN ({', '.join(map(str, wanted))})"), rows, lambda _: numbers)
    assert keep.all()
    texts = ColumnStats(
        pa.array([f"{n:08d}" for n in low]), pa.array([f"{n + 60:08d}" for n in low]), nulls, rows, exact=True
    )
    keep = may_match(bound("s IN ({})".format(", ".join(f"'{w:08d}'" for w in wanted))), rows, lambda _: texts)
    assert np.flatnonzero(keep).tolist() == [w // 100 for w in wanted]
    floats = ColumnStats(pa.array(low.astype(float)), pa.array(low + 60.0), nulls, rows)
    listed = ", ".join(f"{w}D" for w in wanted)
    keep = may_match(bound(f"d IN ({listed}, double('NaN'))"), rows, lambda _: floats)
    assert np.flatnonzero(keep).tolist() == [w // 100 for w in wanted]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [("a", "b"), ("az", "a{"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("\ud7ff", "\ue000"), ("", None)],
)
def test_successor_of_a_prefix(prefix: str, expected: str | None) -> None:
    assert text_successor(prefix) == expected


def test_a_hundred_thousand_files_take_milliseconds() -> None:
    count = 100_000
    fields = [DataField(0, "b", parse_type("BIGINT")), DataField(1, "d", parse_type("DOUBLE"))]
    fields.append(DataField(2, "s", parse_type("STRING")))
    low = np.random.default_rng(1).integers(0, 1 << 30, count)
    rows, nulls = pa.array(np.full(count, 1000)), pa.array(np.zeros(count, np.int64))
    stats = {
        "b": ColumnStats(pa.array(low), pa.array(low + 1000), nulls, rows),
        "d": ColumnStats(pa.array(low * 0.5), pa.array(low * 0.5 + 10), nulls, rows),
        "s": ColumnStats(pa.array(low).cast(pa.string()), pa.array(low + 5).cast(pa.string()), nulls, rows),
    }
    predicate = bind(parse_filter("b = 5000000 AND d > 10 AND s > '5'"), fields)
    times = []
    for _ in range(5):
        begin = time.process_time()
        may_match(predicate, rows, lambda column: stats[column.name])
        times.append(time.process_time() - begin)
    assert min(times) < 0.05
