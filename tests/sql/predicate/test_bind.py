"""Binding: what literals become for each type of column, which comparisons are folded, and what is refused."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, Kind, parse_type
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf, MapKey, Op, Predicate
from paimon_pyds.sql.text.tree import Literal


def fields(**types: Any) -> list[DataField]:
    return [DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate(types.items())]


TABLE = fields(
    ty="TINYINT", i="INT", b="BIGINT", f="FLOAT", d="DOUBLE", de="DECIMAL(5, 2)", big="DECIMAL(38, 0)", s="STRING",
    c="CHAR(4)", bo="BOOLEAN", bi="BYTES", da="DATE", ti="TIME(3)", t0="TIMESTAMP(0)", nt="TIMESTAMP(3)",
    n6="TIMESTAMP(6)", ns="TIMESTAMP(9)", tz="TIMESTAMP(6) WITH LOCAL TIME ZONE",
    r={"type": "ROW", "fields": [{"id": 90, "name": "x", "type": "INT"}, {"id": 91, "name": "Y", "type": "STRING"}]},
    m={"type": "MAP", "key": "STRING", "value": {"type": "ROW", "fields": [{"id": 92, "name": "z", "type": "DATE"}]}},
    by={"type": "MAP", "key": "DATE", "value": "INT"}, a={"type": "ARRAY", "element": "INT"},
    v="VARIANT",
)  # fmt: skip


def bound(text: str, **options: Any) -> Predicate:
    return bind(parse_filter(text, timezone=options.get("timezone", "UTC")), TABLE, **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 1.5", "FALSE"),
        ("i <> 1.5", "i IS NOT NULL"),
        ("i < 1.5", "i <= 1"),
        ("i <= 1.5", "i <= 1"),
        ("i > 1.5", "i >= 2"),
        ("i >= -1.5", "i >= -1"),
        ("i = 1.0", "i = 1"),
        ("i < 1", "i < 1"),
        ("i > 1", "i > 1"),
        ("i < 2147483648", "i IS NOT NULL"),
        ("i >= 2147483648", "FALSE"),
        ("i <> 2147483648", "i IS NOT NULL"),
        ("i >= -2147483648", "i IS NOT NULL"),
        ("i > -2147483649", "i IS NOT NULL"),
        ("i < -2147483648", "FALSE"),
        ("i <= 2147483647", "i IS NOT NULL"),
        ("i = 1e0", "i = 1"),
        ("i < double('NaN')", "i IS NOT NULL"),
        ("i >= double('NaN')", "FALSE"),
        ("i <= CAST('Infinity' AS DOUBLE)", "i IS NOT NULL"),
        ("i = '5'", "i = 5"),
        ("i IN (1, 2.5, 3, NULL, 1)", "i IN (1, 3)"),
        ("i IN (2.5, 1)", "i = 1"),
        ("i IN (2.5)", "FALSE"),
        ("i NOT IN (1, 2.5)", "i <> 1"),
        ("i NOT IN (2.5)", "i IS NOT NULL"),
        ("i NOT IN (1, NULL)", "CAST(NULL AS BOOLEAN)"),
        ("i IN (NULL)", "CAST(NULL AS BOOLEAN)"),
        ("i IN (3, 1, 2)", "i IN (1, 2, 3)"),
        ("ty IN (1, 300)", "ty = 1"),
        ("b = 9007199254740993D", "b >= 9007199254740992 AND b <= 9007199254740993"),
        ("b <> 9007199254740992D", "b <= 9007199254740991 OR b >= 9007199254740994"),
        ("b < 9007199254740994D", "b < 9007199254740994"),
        ("b < 9007199254740992D", "b <= 9007199254740991"),
        ("b > 9007199254740992D", "b >= 9007199254740994"),
        ("b >= 9.3e18D", "FALSE"),
        ("b >= 9223372036854775807D", "b >= 9223372036854775296"),
        ("b IN (9007199254740992D, 1)", "b = 1 OR (b >= 9007199254740992 AND b <= 9007199254740993)"),
        ("b IN (9007199254740993, 1.5D)", "b >= 9007199254740992 AND b <= 9007199254740993"),
        ("b NOT IN (9007199254740992D, 1)", "b <> 1 AND (b <= 9007199254740991 OR b >= 9007199254740994)"),
        ("f = 0.1", "FALSE"),
        ("f = 0.1F", "f = 0.1F"),
        ("f <> 0.1", "f IS NOT NULL"),
        ("f < 0.1", "f <= 0.099999994F"),
        ("f > 0.1", "f >= 0.1F"),
        ("f > 1e300", "f >= CAST('Infinity' AS DOUBLE)"),
        ("f < -1e300", "f <= CAST('-Infinity' AS DOUBLE)"),
        ("f < 1e300", "f <= 3.4028235e+38F"),
        ("f > 1e-300", "f >= 1.4013e-45F"),
        ("f = -0.0", "f = 0F"),
        ("d = -0.0D", "d = 0.0D"),
        ("d IN (0.0D, -0.0D)", "d = 0.0D"),
        ("d IN (double('NaN'), 1D, double('NaN'))", "d IN (1.0D, CAST('NaN' AS DOUBLE))"),
        ("d IN (-0.0, 2, 9007199254740993)", "d IN (0.0D, 2.0D, 9007199254740992.0D)"),
        ("f IN (0.1, 1e300, -0.0, 0.1F, 2)", "f IN (0F, 0.1F, 2F)"),
        ("f NOT IN (0.1, 1e300)", "f IS NOT NULL"),
        ("d = 9007199254740993", "d = 9007199254740992.0D"),
        ("de = 1.5", "de = 1.50"),
        ("de = 1.505", "FALSE"),
        ("de < 1.505", "de <= 1.50"),
        ("de > 1.505", "de >= 1.51"),
        ("de > 1000", "FALSE"),
        ("de < 1000", "de IS NOT NULL"),
        ("de = 0.1D", "de = 0.10"),
        ("de = 0.1F", "FALSE"),
        ("de = '0.10'", "de = 0.10"),
        ("big = 99999999999999999999999999999999999999", "big = 99999999999999999999999999999999999999BD"),
        ("big >= 1e38D", "big >= 99999999999999988304076857716743602177BD"),
        ("big >= 1.1e38D", "FALSE"),
        ("c = 'ab'", "c IN ('ab', 'ab ', 'ab  ')"),
        ("s = X'6162'", "s = 'ab'"),
        ("bi = 'ab'", "bi = X'6162'"),
        ("bi < X''", "bi < X''"),
        ("bo", "bo = TRUE"),
        ("bo <> TRUE", "bo = FALSE"),
        ("bo > false", "bo = TRUE"),
        ("bo >= false", "bo IS NOT NULL"),
        ("bo < false", "FALSE"),
        ("bo = 'yes'", "bo = TRUE"),
        ("bo IN (true, false)", "bo IN (FALSE, TRUE)"),
        ("bo NOT IN (true)", "bo = FALSE"),
        ("da = '2020-01-02'", "da = DATE '2020-01-02'"),
        ("da = TIMESTAMP '2020-01-02 00:00:00'", "da = DATE '2020-01-02'"),
        ("da = TIMESTAMP_NTZ '2020-01-02 00:00:01'", "FALSE"),
        ("da <= TIMESTAMP_NTZ '2020-01-02 00:00:01'", "da <= DATE '2020-01-02'"),
        ("da > TIMESTAMP '2020-01-02 00:00:01'", "da >= DATE '2020-01-03'"),
        ("ti = '10:00'", "ti = TIME '10:00:00'"),
        ("ti < TIME '10:00:00.0005'", "ti <= TIME '10:00:00'"),
        ("ti = TIME '10:00:00.0005'", "FALSE"),
        ("t0 = TIMESTAMP_NTZ '2020-01-01 00:00:00.5'", "t0 = TIMESTAMP_NTZ '2020-01-01 00:00:00.5'"),
        ("nt = TIMESTAMP_NTZ '2020-01-01 00:00:00.0005'", "FALSE"),
        ("nt < TIMESTAMP_NTZ '2020-01-01 00:00:00.0005'", "nt <= TIMESTAMP_NTZ '2020-01-01 00:00:00'"),
        ("nt > TIMESTAMP_NTZ '1969-12-31 23:59:59.9995'", "nt >= TIMESTAMP_NTZ '1970-01-01 00:00:00'"),
        ("nt = DATE '2020-01-01'", "nt = TIMESTAMP_NTZ '2020-01-01 00:00:00'"),
        ("n6 = TIMESTAMP_NTZ '2020-01-01 00:00:00.123456789'", "n6 = TIMESTAMP_NTZ '2020-01-01 00:00:00.123456'"),
        ("ns = TIMESTAMP_NTZ '2020-01-01 00:00:00.123456789'", "ns = TIMESTAMP_NTZ '2020-01-01 00:00:00.123456789'"),
        ("ns = '2020-01-01 00:00:00.123456789'", "ns = TIMESTAMP_NTZ '2020-01-01 00:00:00.123456789'"),
        ("ns < TIMESTAMP_NTZ '9999-01-01'", "ns IS NOT NULL"),
        ("tz = '2020-01-01 00:00:00+01:00'", "tz = TIMESTAMP '2019-12-31 23:00:00Z'"),
        ("s LIKE 'abc'", "s = 'abc'"),
        ("s LIKE 'a\\%c'", "s = 'a%c'"),
        ("s LIKE 'a#%c' ESCAPE '#'", "s = 'a%c'"),
        ("s LIKE 'abc%'", "startswith(s, 'abc')"),
        ("s LIKE '%abc'", "endswith(s, 'abc')"),
        ("s LIKE '%abc%%'", "contains(s, 'abc')"),
        ("s NOT LIKE 'abc%'", "NOT startswith(s, 'abc')"),
        ("s LIKE '%'", "s IS NOT NULL"),
        ("s NOT LIKE '%%'", "FALSE"),
        ("s LIKE ''", "s = ''"),
        ("s LIKE 'a_c'", "s LIKE 'a_c'"),
        ("s LIKE 'a#_%c' ESCAPE '#'", "s LIKE 'a\\\\_%c'"),
        ("startswith(s, '')", "s IS NOT NULL"),
        ("NOT contains(s, '')", "FALSE"),
        ("s LIKE NULL", "CAST(NULL AS BOOLEAN)"),
        ("r.X = 1", "r.x = 1"),
        ("R.y = 'a'", "r.Y = 'a'"),
        ("r['x'] = 1", "r.x = 1"),
        ("m['k'].z = '2020-01-01'", "m['k'].z = DATE '2020-01-01'"),
        ("m.k.Z IS NULL", "m['k'].z IS NULL"),
        ("by[DATE '1970-01-02'] = 1", "by[DATE '1970-01-02'] = 1"),
        ("by['1970-01-02'] = 1", "by[DATE '1970-01-02'] = 1"),
        ("a IS NULL", "a IS NULL"),
        ("r IS NOT NULL", "r IS NOT NULL"),
        ("i = 1 AND b = NULL", "CAST(NULL AS BOOLEAN)"),
        ("i = 1 OR b = NULL", "i = 1"),
        ("i = 1 AND 1 = 1", "i = 1"),
        ("i = 1 OR i >= -2147483648", "i = 1 OR i IS NOT NULL"),
    ],
)
def test_bound_form(text: str, expected: str) -> None:
    predicate = bound(text)
    assert to_sql(predicate) == expected
    assert bound(expected) == predicate
    assert bind(predicate, TABLE) == predicate


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing = 1", "no column 'nothing' in the table"),
        ("s = 1", "column s: STRING can't be compared with the INT literal 1 — put it in quotes: '1'"),
        ("s = 1.5D", "put the text in quotes"),
        ("s = DATE '2020-01-01'", "put the text in quotes"),
        ("c IN ('a', 5)", "put it in quotes: '5'"),
        ("i = 'x'", "column i: 'x' is not an integer"),
        ("i = '1.5'", "'1.5' is not an integer"),
        ("i = '9999999999999999999'", "does not fit BIGINT"),
        ("i = true", "column i: INT can't be compared with the BOOLEAN literal true"),
        ("i", "INT can't be compared with the BOOLEAN literal true"),
        ("d = 'x'", "column d: 'x' is not a number"),
        ("d = DATE '2020-01-01'", "DOUBLE can't be compared with the DATE literal 2020-01-01"),
        (
            "d = TIMESTAMP '2020-01-01 01:02:03'",
            "the TIMESTAMP_LTZ literal 2020-01-01 01:02:03Z",
        ),
        ("bo = 1", "BOOLEAN can't be compared with the INT literal 1"),
        ("bo = 'maybe'", "'maybe' is not a boolean"),
        ("da = 20200101", "DATE can't be compared with the INT literal"),
        ("da = '2020-13-01'", "column da: '2020-13-01' is not a date"),
        ("ti = DATE '2020-01-01'", "TIME(3) can't be compared with the DATE literal"),
        ("tz = '2020-01-01 25:00:00'", "is not a timestamp"),
        ("tz = 1", "can't be compared with the INT literal"),
        ("bi = 1", "BYTES can't be compared with the INT literal 1"),
        ("s = X'ff'", "not UTF-8 text"),
        ("i LIKE '1%'", "column i: LIKE compares texts"),
        ("startswith(bi, 'a')", "STARTSWITH compares texts"),
        ("r = 1", "column r is of type ROW; only IS NULL and IS NOT NULL apply to it"),
        ("m = 1", "name a field of it (a.b) or a key (m['k'])"),
        ("a = 1", "column a is of type ARRAY"),
        ("a[0] = 1", "a is an ARRAY; its elements can't be filtered here"),
        ("r.q = 1", "no column 'q' in r — it has: Y, x"),
        ("r[1] = 1", "its fields have names"),
        ("m['k'].q = 1", "in m['k']"),
        ("i.x = 1", "i is of type INT; it has no part 'x'"),
        ("by['x'] = 1", "keys of by: 'x' is not a date"),
        ("by[TIMESTAMP '2020-01-01 00:00:01'] = 1", "can't be a key of by"),
        ("v = 1", "column v is of type VARIANT; only IS NULL and IS NOT NULL apply to it"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(PredicateError) as caught:
        bound(text)
    assert message in str(caught.value)


def test_every_name_is_checked_even_where_the_answer_is_known() -> None:
    for text in ("nothing = NULL", "nothing = 1 AND false", "nothing = 1 OR true", "i = 1 OR s = 5 OR true"):
        with pytest.raises(PredicateError):
            bound(text)


def test_names() -> None:
    table = fields(Id="INT", ID="INT", name="STRING", Preis="INT")
    assert bind(parse_filter("ID = 1"), table) == Leaf(Op.EQ, ColumnRef("ID", (), table[1].type, 1), (1,))
    assert to_sql(bind(parse_filter("NAME = 'x'"), table)) == "name = 'x'"
    with pytest.raises(
        PredicateError, match="no column 'id' in the table — names are case-sensitive here; there are Id, ID"
    ):
        bind(parse_filter("id = 1"), table)
    with pytest.raises(PredicateError, match=r"did you mean Preis\?"):
        bind(parse_filter("pries = 1"), table)
    spelled = bind(parse_filter("preis = 1"), table)
    assert isinstance(spelled, Leaf)
    assert (spelled.column.name, spelled.column.field_id) == ("Preis", 3)
    found = bound("m['k'].z IS NULL")
    assert isinstance(found, Leaf)
    assert found.column.path == (MapKey("k"), "z")
    assert found.column.type is not None
    assert found.column.type.kind is Kind.DATE


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("i", 5, 5),
        ("i", 5.0, 5),
        ("i", "5", 5),
        ("b", 2**62, 2**62),
        ("d", 1, 1.0),
        ("f", 0.10000000149011612, 0.10000000149011612),
        ("de", Decimal("1.5"), Decimal("1.50")),
        ("s", "x", "x"),
        ("bi", b"x", b"x"),
        ("bi", bytearray(b"x"), b"x"),
        ("bo", True, True),
        ("da", dt.date(1970, 1, 2), 1),
        ("da", "1970-01-02", 1),
        ("ti", dt.time(0, 0, 1, 5000), 1005),
        ("nt", dt.datetime(1970, 1, 1, 0, 0, 1), 1000),
        ("nt", dt.datetime(1970, 1, 1, 1, 0, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 1000),
        ("ns", dt.datetime(1970, 1, 1, 0, 0, 1), 10**9),
        ("tz", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), 10**6),
        ("tz", dt.date(1970, 1, 2), 86_400_000_000),
    ],
)
def test_plain_python_values(column: str, value: Any, expected: Any) -> None:
    for literal in (Literal(value, None), value):
        found = bind(Leaf(Op.EQ, ColumnRef(column), (literal,)), TABLE)
        assert isinstance(found, Leaf)
        assert (found.literals, type(found.literals[0])) == ((expected,), type(expected))
    assert bind(Leaf(Op.EQ, ColumnRef(column), (Literal(None, None),)), TABLE) is Const.UNKNOWN


def test_nanoseconds_of_pandas_count() -> None:
    pandas = pytest.importorskip("pandas")
    for text in ("1970-01-01 00:00:01.000000007", "1969-12-31 23:59:59.999999999", "2024-02-29 12:00:00.123456"):
        moment = pandas.Timestamp(text)
        found = bind(Leaf(Op.EQ, ColumnRef("ns"), (Literal(moment, None),)), TABLE)
        assert isinstance(found, Leaf)
        assert found.literals == (moment.value,)


def test_values_of_other_classes_are_refused() -> None:
    for value in (object(), [1], dt.timedelta(1), 1j, Decimal("NaN")):
        with pytest.raises(PredicateError):
            bind(Leaf(Op.EQ, ColumnRef("i"), (Literal(value, None),)), TABLE)
    with pytest.raises(PredicateError, match="needs a literal"):
        bind(Leaf(Op.IN, ColumnRef("i")), TABLE)


def test_binding_again_folds_to_other_types() -> None:
    """A predicate on today's columns, asked of a file whose columns were narrower."""
    wide = fields(x="BIGINT", y="DOUBLE", z="DECIMAL(10, 4)")
    narrow = fields(x="INT", y="FLOAT", z="DECIMAL(6, 2)")
    for text, expected in {
        "x = 5000000000": "FALSE",
        "x < 5000000000": "x IS NOT NULL",
        "x = 5": "x = 5",
        "y = 0.1": "FALSE",
        "z = 1.2345": "FALSE",
        "z <= 1.2345": "z <= 1.23",
    }.items():
        assert to_sql(bind(bind(parse_filter(text), wide), narrow)) == expected


def test_predicates_pickle() -> None:
    predicate = bound("i IN (1, 2) AND m['k'].z > '2020-01-01' OR d = double('NaN')")
    again = pickle.loads(pickle.dumps(predicate))
    assert to_sql(again) == to_sql(predicate)


def test_unknown_zone() -> None:
    with pytest.raises(PredicateError, match="'Mars' is not a time zone"):
        bind(parse_filter("i = 1"), TABLE, timezone="Mars")


OPS = {"=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
       ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}  # fmt: skip


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.one_of(st.floats(), st.integers(-(2**64), 2**64).map(float)),
    st.sampled_from(sorted(OPS)),
    st.integers(-3, 3),
)
def test_bigint_against_double_is_decided_by_javas_cast(value: int, literal: float, op: str, nudge: int) -> None:
    """Near the literal, where casts round, as well as anywhere."""
    near = value if math.isnan(literal) or math.isinf(literal) else int(literal) + nudge
    values = [v for v in (value, near) if -(2**63) <= v < 2**63]
    table = fields(x="BIGINT")
    predicate = bind(Leaf(_OP[op], ColumnRef("x"), (Literal(literal, None),)), table)
    found = matches(predicate, pa.record_batch({"x": pa.array(values, pa.int64())})).to_pylist()
    expected = [
        {"=": False, "<>": True, "<": True, "<=": True, ">": False, ">=": False}[op]
        if math.isnan(literal)
        else OPS[op](float(v), literal)
        for v in values
    ]
    assert found == expected


_OP = {op.value: op for op in Op}


@given(
    st.decimals(-(10**9), 10**9, places=4),
    st.one_of(st.floats(-1e10, 1e10), st.decimals(-(10**10), 10**10, places=6)),
    st.sampled_from(sorted(OPS)),
)
def test_decimal_against_numbers(value: Decimal, literal: float | Decimal, op: str) -> None:
    table = fields(x="DECIMAL(14, 4)")
    predicate = bind(Leaf(_OP[op], ColumnRef("x"), (Literal(literal, None),)), table)
    values = [value, Decimal(str(literal)).quantize(Decimal("0.0001")) if abs(literal) < 10**9 else value]
    found = matches(predicate, pa.record_batch({"x": pa.array(values, pa.decimal128(14, 4))})).to_pylist()
    as_double = isinstance(literal, float)
    assert found == [OPS[op](float(v) if as_double else v, literal) for v in values]


@given(st.floats(width=32, allow_nan=False), st.floats(allow_nan=False), st.sampled_from(sorted(OPS)))
def test_float_against_double(value: float, literal: float, op: str) -> None:
    predicate = bind(Leaf(_OP[op], ColumnRef("x"), (Literal(literal, None),)), fields(x="FLOAT"))
    near = pa.scalar(literal, pa.float64()).cast(pa.float32(), safe=False).as_py()
    found = matches(predicate, pa.record_batch({"x": pa.array([value, near], pa.float32())})).to_pylist()
    assert found == [OPS[op](v, literal) for v in (value, near)]


def test_clock_changes_by_brute_force() -> None:
    """TIMESTAMP columns against instants, each minute around two clock changes, cast as java.time does."""
    import zoneinfo

    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    epoch = dt.datetime(1970, 1, 1)
    table = fields(x="TIMESTAMP(3)")
    for turn in (dt.datetime(2021, 3, 28, 1), dt.datetime(2021, 10, 31, 1)):
        local = [turn + dt.timedelta(minutes=10 * k) for k in range(-20, 40)]
        instants = [(v - v.replace(tzinfo=berlin).utcoffset() - epoch) // dt.timedelta(milliseconds=1) for v in local]
        stored = [(v - epoch) // dt.timedelta(milliseconds=1) for v in local]
        batch = pa.record_batch({"x": pa.array(stored, pa.timestamp("ms"))})
        for minutes, (name, test) in itertools.product(range(-60, 100, 5), OPS.items()):
            instant = turn + dt.timedelta(minutes=minutes)
            given_ = (instant - epoch) // dt.timedelta(milliseconds=1)
            predicate = bind(parse_filter(f"x {name} TIMESTAMP '{instant}Z'"), table, timezone="Europe/Berlin")
            assert matches(predicate, batch).to_pylist() == [test(v, given_) for v in instants], (instant, name)


_NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value!r}D"),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda value: f"{value!r}D"),
    st.decimals(-(10**6), 10**6, places=2).map("{:f}BD".format),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.just("NULL"),
)


@given(st.sampled_from(["f", "d"]), st.lists(_NUMBERS, min_size=2, max_size=8))
def test_a_list_of_numbers_has_the_values_of_its_comparisons(column: str, numbers: list[str]) -> None:
    alone = [bound(f"{column} = {number}") for number in numbers]
    wanted = sorted({part.literals[0] for part in alone if isinstance(part, Leaf)})
    found = bound(f"{column} IN ({', '.join(numbers)})")
    assert (list(found.literals) if isinstance(found, Leaf) else []) == wanted
