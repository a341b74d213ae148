"""The law of pruning, for every index and type: what an index keeps holds what matches, and an answer that claims to be
exact is."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, DataType, Kind, arrow_type, parse_type, scalar_to_internal
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import INDEX_TYPES, supports
from paimon_pyds.sql.predicate.among import among
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Among, And, ColumnRef, Const, Leaf, MapKey, Op, Or, Predicate
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import LONG
from support.file_indexes import positions
from support.strategies import values

TYPES = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4, 2)", "DECIMAL(18, 0)",
    "CHAR(4)", "VARCHAR(20)", "STRING", "BINARY(4)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)",
    "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
]  # fmt: skip
EXTREMES: dict[str, list[Any]] = {
    "TINYINT": [-128, 127, 0, -1], "SMALLINT": [-32768, 32767, 0], "INT": [-(2**31), 2**31 - 1, 0],
    "BIGINT": [-(2**63) + 1, 2**63 - 1, 0, -1], "DECIMAL(18, 0)": [Decimal(10**18 - 1), Decimal(-(10**18) + 1)],
    "DECIMAL(4, 2)": [Decimal("99.99"), Decimal("-99.99"), Decimal("0.00")],
    "FLOAT": [math.nan, 0.0, -0.0, math.inf, -math.inf, 1e-45],
    "DOUBLE": [math.nan, 0.0, -0.0, math.inf, -math.inf, 5e-324],
    "STRING": ["", "a", "ab", "a\x00", "😀", "\uffff", "%", "_", "\\"],
    "CHAR(4)": ["", "a", "ab", "ab ", "ab  ", " ", "a\t", "😀"],
    "VARCHAR(20)": ["", "a%", "ab"], "BYTES": [b"", b"\xff", b"\xff\xff", b"\x00"], "BINARY(4)": [b"\xff\xff\xff\xff"],
    "TIMESTAMP(9)": [0, 1, 999, 1000, 1001, -1, -999, -1000, -1001],
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": [0, 1, 999, 1000, 1001, -1, -999, -1000, -1001],
}  # fmt: skip
COMPARISONS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
TEXT_OPS = (Op.STARTS_WITH, Op.NOT_STARTS_WITH, Op.ENDS_WITH, Op.NOT_ENDS_WITH, Op.CONTAINS, Op.NOT_CONTAINS)
SMALL = {
    "bloom-filter": [{}, {"items": "5", "fpp": "0.5"}, {"items": "100000"}],
    "bitmap": [{}, {"version": "1"}, {"index-block-size": "32 b"}],
    "bsi": [{}],
    "range-bitmap": [{}, {"chunk-size": "0 b"}, {"chunk-size": "24 b"}],
}


def value(text: str) -> st.SearchStrategy[Any]:
    extremes = EXTREMES.get(text)
    plain = values(text)
    if text == "BIGINT":  # BSI can't hold the smallest one
        plain = plain.filter(lambda v: v != -(2**63))
    return st.sampled_from(extremes) | plain if extremes else plain


def internal(literal: Any, type_: DataType) -> Any:
    return scalar_to_internal(pa.scalar(literal, arrow_type(type_)))


@st.composite
def columns(draw: st.DrawFn, text: str) -> tuple[list[Any], list[Any]]:
    """Rows of few distinct values, and values to ask for: those and others."""
    pool = draw(st.lists(value(text), min_size=1, max_size=6))
    rows = draw(st.lists(st.none() | st.sampled_from(pool), max_size=40))
    asked = draw(st.lists(value(text), max_size=2))
    return rows, [*pool, *asked]


@st.composite
def leaves(draw: st.DrawFn, ref: ColumnRef, literals: list[Any]) -> Leaf:
    type_ = ref.type
    assert type_ is not None
    one = st.sampled_from(literals).map(lambda v: internal(v, type_))
    ops: list[Op] = [*COMPARISONS, Op.IN, Op.NOT_IN, Op.IS_NULL, Op.IS_NOT_NULL]
    if type_.kind in (Kind.CHAR, Kind.VARCHAR):
        ops += [*TEXT_OPS, Op.LIKE, Op.NOT_LIKE]
    op = draw(st.sampled_from(ops))
    if op in (Op.IS_NULL, Op.IS_NOT_NULL):
        return Leaf(op, ref)
    if op in (Op.IN, Op.NOT_IN):
        return Leaf(op, ref, tuple(draw(st.lists(one, min_size=1, max_size=4))))
    literal = draw(one)
    if op in (Op.LIKE, Op.NOT_LIKE):
        escaped = literal.replace("\\", "\\\\")
        return Leaf(
            op, ref, (draw(st.sampled_from([escaped, f"{escaped}%", f"%{escaped}", f"{escaped}%a_", "_%"])), "\\")
        )
    if op in TEXT_OPS:
        literal = literal[: draw(st.integers(0, len(literal)))]
    return Leaf(op, ref, (literal,))


def trees(ref: ColumnRef, literals: list[Any]) -> st.SearchStrategy[Predicate]:
    base: st.SearchStrategy[Predicate] = leaves(ref, literals)
    return st.recursive(
        base,
        lambda inner: (
            st.lists(inner, min_size=2, max_size=3)
            .map(tuple)
            .flatmap(lambda children: st.sampled_from([And(children), Or(children)]))
        ),
        max_leaves=5,
    )


@st.composite
def cases(draw: st.DrawFn, text: str) -> tuple[pa.Array, list[IndexSpec], list[Predicate], int]:
    rows, literals = draw(columns(text))
    type_ = parse_type(text)
    kinds = draw(st.lists(st.sampled_from([k for k in INDEX_TYPES if supports(k, type_)]), min_size=1, unique=True))
    specs = [IndexSpec("c", None, kind, draw(st.sampled_from(SMALL[kind]))) for kind in kinds]
    ref = ColumnRef("c", (), type_, 0)
    predicates = draw(st.lists(trees(ref, literals), min_size=1, max_size=6))
    return pa.array(rows, arrow_type(type_)), specs, predicates, draw(st.integers(1, 9))


def check(index: FileIndex, batch: pa.RecordBatch, predicate: Predicate) -> None:
    rows = batch.num_rows
    exact = set(np.flatnonzero(matches(predicate, batch).to_numpy(zero_copy_only=False)).tolist())
    for extended in (True, False):
        result = index.evaluate(predicate, rows, extended=extended)
        kept = positions(result.selection, rows)
        assert exact <= kept
        assert kept <= set(range(rows))
        assert not result.exact or kept == exact


def build(values_: pa.Array, specs: list[IndexSpec], type_: DataType, step: int = 100) -> FileIndex:
    builder = FileIndexBuilder(specs, [DataField(0, "c", type_)])
    for start in range(0, len(values_), step):
        builder.update(pa.record_batch([values_.slice(start, step)], ["c"]))
    container = builder.finish()
    assert container is not None
    return FileIndex.open(BytesSource(container))


@pytest.mark.parametrize("text", TYPES)
@settings(max_examples=500 if LONG else 5, deadline=None)
@given(data=st.data())
def test_pruning_keeps_what_matches(text: str, data: st.DataObject) -> None:
    column, specs, predicates, step = data.draw(cases(text))
    index = build(column, specs, parse_type(text), step)
    batch = pa.record_batch([column], ["c"])
    for predicate in predicates:
        check(index, batch, predicate)


@pytest.mark.parametrize("text", [t for t in TYPES if "(9)" not in t])
@settings(max_examples=100 if LONG else 4, deadline=None)
@given(data=st.data())
def test_one_precise_index_answers_every_leaf_exactly(text: str, data: st.DataObject) -> None:
    """Bitmap, BSI and range bitmap leave nothing open that they can tell: no superset, no REMAIN."""
    type_ = parse_type(text)
    rows, literals = data.draw(columns(text))
    column = pa.array(rows, arrow_type(type_))
    ref = ColumnRef("c", (), type_, 0)
    for kind in ("bitmap", "bsi", "range-bitmap"):
        if not supports(kind, type_):
            continue
        index = build(column, [IndexSpec("c", None, kind, {})], type_)
        for op in COMPARISONS:
            result = index.evaluate(Leaf(op, ref, (internal(literals[0], type_),)), len(rows))
            assert result.exact
        assert index.evaluate(Leaf(Op.IS_NULL, ref), len(rows)).exact


@pytest.mark.parametrize("kind", ["bitmap", "bsi", "range-bitmap"])
@pytest.mark.parametrize("rows", [0, 1, 5, 65535, 65536, 65537, 140_000])
def test_all_null_and_one_value(kind: str, rows: int) -> None:
    type_ = parse_type("INT")
    ref = ColumnRef("c", (), type_, 0)
    for column in (pa.nulls(rows, pa.int32()), pa.array(np.full(rows, 7, np.int32))):
        index = build(column, [IndexSpec("c", None, kind, {})], type_, 50_000)
        batch = pa.record_batch([column], ["c"])
        for predicate in (
            Leaf(Op.IS_NULL, ref), Leaf(Op.IS_NOT_NULL, ref), Leaf(Op.EQ, ref, (7,)), Leaf(Op.NE, ref, (7,)),
            Leaf(Op.LT, ref, (7,)), Leaf(Op.GE, ref, (7,)), Leaf(Op.NOT_IN, ref, (1, 2)),
            Leaf(Op.GT, ref, (2**31 - 1,)),
        ):  # fmt: skip
            result = index.evaluate(predicate, rows)
            exact = np.flatnonzero(matches(predicate, batch).to_numpy(zero_copy_only=False))
            assert result.exact
            assert np.array_equal(result.selection.to_array(rows), exact)


@pytest.mark.parametrize("kind", ["bitmap", "range-bitmap"])
def test_floats_compare_as_in_spark(kind: str) -> None:
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF0000000000001))[0]
    column = pa.array([0.0, -0.0, math.nan, odd_nan, 1.0, -1.0, math.inf, -math.inf, None])
    type_ = parse_type("DOUBLE")
    ref = ColumnRef("c", (), type_, 0)
    index = build(column, [IndexSpec("c", None, kind, {})], type_)

    def rows(op: Op, *literals: float) -> list[int]:
        result = index.evaluate(Leaf(op, ref, literals), len(column))
        assert result.exact
        return list(result.selection.to_array(len(column)))

    assert rows(Op.EQ, 0.0) == rows(Op.EQ, -0.0) == [0, 1]
    assert rows(Op.EQ, math.nan) == [2, 3]
    assert rows(Op.LT, -0.0) == rows(Op.LT, 0.0) == [5, 7]
    assert rows(Op.LE, -0.0) == [0, 1, 5, 7]
    assert rows(Op.GT, math.inf) == [2, 3]
    assert rows(Op.GE, math.nan) == [2, 3]
    assert rows(Op.LT, math.nan) == [0, 1, 4, 5, 6, 7]
    assert rows(Op.NE, 0.0) == [2, 3, 4, 5, 6, 7]
    assert rows(Op.NOT_IN, math.nan, 0.0) == [4, 5, 6, 7]


def test_bloom_filter_asks_for_both_zeros() -> None:
    type_ = parse_type("FLOAT")
    ref = ColumnRef("c", (), type_, 0)
    for zero, other in ((0.0, -0.0), (-0.0, 0.0)):
        index = build(pa.array([zero], pa.float32()), [IndexSpec("c", None, "bloom-filter", {"items": "10"})], type_)
        assert index.evaluate(Leaf(Op.EQ, ref, (other,)), 1).selection.is_all
        assert index.evaluate(Leaf(Op.EQ, ref, (math.nan,)), 1).selection.is_none


@settings(max_examples=500 if LONG else 10, deadline=None)
@given(data=st.data())
def test_map_keys(data: st.DataObject) -> None:
    keys = ["k1", "k2", "ключ"]
    maps = st.none() | st.dictionaries(st.sampled_from([*keys, "other"]), st.none() | st.sampled_from("abc")).map(
        lambda d: list(d.items())
    )
    rows = data.draw(st.lists(maps, max_size=30))
    type_ = parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": "STRING"})
    batch = pa.record_batch([pa.array(rows, arrow_type(type_))], ["m"])
    specs = [IndexSpec("m", key, kind, {}) for key in keys for kind in ("bitmap", "range-bitmap", "bloom-filter")]
    builder = FileIndexBuilder(specs, [DataField(0, "m", type_)])
    for start in range(0, len(rows), 7):
        builder.update(batch.slice(start, 7))
    container = builder.finish()
    assert container is not None
    index = FileIndex.open(BytesSource(container))
    for key in keys:
        ref = ColumnRef("m", (MapKey(key),), parse_type("STRING"))
        for predicate in (
            Leaf(Op.EQ, ref, ("a",)),
            Leaf(Op.NE, ref, ("a",)),
            Leaf(Op.IS_NULL, ref),
            Leaf(Op.LT, ref, ("b",)),
        ):
            check(index, batch, predicate)
            assert index.evaluate(predicate, len(rows)).exact
    other = Leaf(Op.EQ, ColumnRef("m", (MapKey("other"),), parse_type("STRING")), ("a",))
    assert index.evaluate(other, len(rows)).selection.is_all


def test_constants_and_columns_without_index() -> None:
    index = build(pa.array([1, 2], pa.int32()), [IndexSpec("c", None, "bitmap", {})], parse_type("INT"))
    unknown = Leaf(Op.EQ, ColumnRef("d", (), parse_type("INT")), (1,))
    known = Leaf(Op.EQ, ColumnRef("c", (), parse_type("INT")), (1,))
    assert index.evaluate(Const.TRUE, 2).selection.is_all
    assert index.evaluate(Const.FALSE, 2).selection.is_none
    assert index.evaluate(Const.UNKNOWN, 2).selection.is_none
    assert index.evaluate(unknown, 2).selection.is_all
    assert list(index.evaluate(And((unknown, known)), 2).selection.to_array(2)) == [0]
    assert index.evaluate(Or((unknown, known)), 2).selection.is_all
    assert [t.index_type for t in index.evaluate(And((unknown, known)), 2).trace] == [None, "bitmap"]
    assert not index.evaluate(And((unknown, known)), 2).exact


@pytest.mark.parametrize("text", TYPES)
@given(data=st.data(), few=st.booleans())
def test_rows_of_values_keep_the_law(text: str, data: st.DataObject, few: bool) -> None:
    """Of two columns with indexes, and of few rows, which are asked one by one, or many."""
    pool = data.draw(st.lists(value(text), min_size=1, max_size=6))
    pick = random.Random(data.draw(st.integers(0, 1 << 30)))
    type_ = parse_type(text)
    batch = pa.record_batch({
        "c": pa.array([pick.choice([None, *pool]) for _ in range(60)], arrow_type(type_)),
        "e": pa.array([pick.choice([None, *range(70)]) for _ in range(60)], pa.int32()),
    })  # fmt: skip
    fields = [DataField(0, "c", type_), DataField(1, "e", parse_type("INT"))]
    kinds = data.draw(
        st.lists(st.sampled_from([k for k in INDEX_TYPES if supports(k, type_)]), max_size=2, unique=True)
    )
    specs = [IndexSpec("c", None, kind, {}) for kind in kinds]
    builder = FileIndexBuilder([*specs, IndexSpec("e", None, pick.choice(["bitmap", "range-bitmap"]), {})], fields)
    builder.update(batch)
    columns = [ColumnRef(field.name, (), field.type, field.id) for field in fields]
    wanted = [(v, n) for v in pool for n in range(0, 90, 2)]
    chosen = pick.sample(wanted, min(len(wanted), 5)) if few else wanted * 2
    arrays = [pa.array(column, arrow_type(f.type)) for column, f in zip(zip(*chosen, strict=True), fields, strict=True)]
    node = among(columns, arrays)
    assert isinstance(node, Among)
    index = FileIndex.open(BytesSource(builder.finish(), "index"))
    for predicate in (node, Or((node, Leaf(Op.EQ, columns[1], (1,)))), And((node, Leaf(Op.GT, columns[1], (3,))))):
        check(index, batch, predicate)
