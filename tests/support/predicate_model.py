"""A second, row-at-a-time implementation of SQL conditions, and random ones: what the vectorised evaluators must equal.

Conditions are tuples, (operator, operands …); a column's value is a plain Python object. The model knows nothing of
`paimon_pyds.sql.predicate`: it compares as the standard says, with Spark's common types for numbers, and with three
values.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, arrow_schema, parse_type

FIELDS = tuple(
    DataField(id_, name, parse_type(type_))
    for id_, name, type_ in [
        (0, "ty", "TINYINT"),
        (1, "i", "INT"),
        (2, "b", "BIGINT"),
        (3, "de", "DECIMAL(5, 2)"),
        (4, "big", "DECIMAL(38, 0)"),
        (5, "f", "FLOAT"),
        (6, "d", "DOUBLE"),
        (7, "s", "STRING"),
        (8, "bo", "BOOLEAN"),
        (9, "da", "DATE"),
        (10, "nt", "TIMESTAMP(3)"),
        (11, "tz", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (12, "ti", "TIME(3)"),
        (13, "bi", "BYTES"),
        (14, "r", {"type": "ROW", "fields": [{"id": 20, "name": "x", "type": "INT"}]}),
        (15, "m", {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}),
        (16, "Odd `name", "INT"),
        (17, "ns", "TIMESTAMP(9)"),
    ]
)
NUMBERS = {"ty", "i", "b", "de", "big", "f", "d", "Odd `name", ("r", "x"), ("m", "k")}
_FLOATS = [0.0, -0.0, 1.0, -1.5, 0.5, math.nan, math.inf, -math.inf]
_SINGLES = [*_FLOATS, 0.10000000149011612, 16777216.0, 3.4028234663852886e38, 1.401298464324817e-45]
_DOUBLES = [*_FLOATS, 0.1, 9007199254740992.0, 1e300, 5e-324]
_TEXTS = ["", "a", "A", "ab", "abc", "b", "a%c", "a_c", "a\nc", "é", "\uffff", "\U0001f600", "\U0010ffff", "a\\c", "'"]
_DAYS = [0, -1, 1, 18262, 18263, -719162, 2932896]
_MILLIS = [0, -1, 1, 18262 * 86_400_000, 18262 * 86_400_000 + 1, -62135596800000, 253402300799999]
_MICROS = [0, -1, 1, 999, 1000, 18262 * 86_400_000_000, 18262 * 86_400_000_000 + 1, 253402300799999999]
_NANOS = [0, -1, 1, 999, 1000, 18262 * 86_400_000_000_000, 18262 * 86_400_000_000_000 + 1]
_TIMES = [0, 1, 43_200_000, 86_399_999]
_BYTES = [b"", b"a", b"\x00", b"\xff\x00", b"\xff", b"ab"]

_POOLS: dict[Any, list[Any]] = {
    "ty": [0, 1, -1, 127, -128, 5],
    "i": [0, 1, 2, -1, 2**31 - 1, -(2**31), 5],
    "b": [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "de": [Decimal(t) for t in ("0.00", "1.00", "-1.50", "0.10", "999.99", "-999.99", "5.25")],
    "big": [Decimal(0), Decimal(1), Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(2**53 + 1)],
    "f": _SINGLES,
    "d": _DOUBLES,
    "s": _TEXTS,
    "bo": [True, False],
    "da": _DAYS,
    "nt": _MILLIS,
    "tz": _MICROS,
    "ns": _NANOS,
    "ti": _TIMES,
    "bi": _BYTES,
    "Odd `name": [0, 1, 2],
}


def rows(low: int = 1, high: int = 12) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows with nulls and extremes in every column."""
    inner = st.one_of(st.none(), st.sampled_from([0, 1, 2, -1]))
    columns: dict[str, st.SearchStrategy[Any]] = {
        name: st.one_of(st.none(), st.sampled_from(pool)) for name, pool in _POOLS.items()
    }
    columns["r"] = st.one_of(st.none(), st.fixed_dictionaries({"x": inner}))
    columns["m"] = st.one_of(st.none(), st.dictionaries(st.sampled_from(["k", "l"]), inner, max_size=2))
    return st.lists(st.fixed_dictionaries(columns), min_size=low, max_size=high)


def to_arrow(found: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as a batch of the columns `FIELDS`."""
    schema = arrow_schema(FIELDS)
    arrays = []
    for field in schema:
        values = [row[field.name] for row in found]
        if field.name == "m":
            values = [None if v is None else list(v.items()) for v in values]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# ------------------------------------------------------------------------------------------------------------ literals
#
# A literal is (kind, value): number kinds int, decimal, float, double; text; bool; date (days); ntz, ltz, time (in
# microseconds); bytes; null.


def _literals(column: Any) -> st.SearchStrategy[tuple[str, Any]]:
    if column in NUMBERS:
        pool = _POOLS.get(column, [0, 1, 2, -1])
        exact = [v for v in pool if isinstance(v, int | Decimal)]
        near = [("int", int(v)) for v in exact] + [
            ("decimal", Decimal(str(v)) + Decimal("0.5")) for v in exact[:4] if abs(v) < 10**20
        ]
        near += [("double", float(v)) for v in pool] + [("decimal", v) for v in exact if isinstance(v, Decimal)]
        other = [
            ("int", 0), ("int", 1), ("int", 2), ("int", 300), ("int", 2**62), ("int", 10**20),
            ("decimal", Decimal("1.5")), ("decimal", Decimal("0.1")), ("decimal", Decimal("1.00")),
            ("double", 1.0), ("double", 0.1),
            ("double", math.nan), ("double", -0.0), ("double", math.inf), ("double", -1e30), ("float", 0.5),
            ("float", 0.10000000149011612),
        ]  # fmt: skip
        fitting = [lit for lit in near if lit[0] != "decimal" or len(lit[1].as_tuple().digits) <= 38]
        return st.sampled_from(fitting + other)
    match column:
        case "s":
            return st.sampled_from([("text", t) for t in _TEXTS])
        case "bo":
            return st.sampled_from([("bool", True), ("bool", False)])
        case "bi":
            return st.sampled_from([("bytes", b) for b in _BYTES] + [("text", "a"), ("text", "ab")])
        case "ti":
            return st.sampled_from([("time", v * 1000) for v in _TIMES] + [("time", 1), ("time", 43_200_000_001)])
    times = [("ntz", v) for v in _MICROS] + [("ltz", v) for v in _MICROS] + [("date", d) for d in _DAYS]
    return st.sampled_from(times)


def _date_text(days: int) -> str:
    return (dt.date(1970, 1, 1) + dt.timedelta(days=days)).isoformat()


def _stamp_text(micros: int) -> str:
    return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)).isoformat(" ", "microseconds")


def _literal_text(literal: tuple[str, Any]) -> str:
    kind, value = literal
    match kind:
        case "null":
            return "NULL"
        case "int":
            return str(value)
        case "decimal":
            return f"{value:f}BD"
        case "double" | "float":
            if math.isnan(value):
                return "double('NaN')"
            if math.isinf(value):
                return f"CAST('{value}' AS DOUBLE)"
            return f"{value!r}{'D' if kind == 'double' else 'F'}"
        case "text":
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case "bool":
            return str(value)
        case "bytes":
            return f"X'{value.hex()}'"
        case "date":
            return f"DATE'{_date_text(value)}'"
        case "ntz":
            return f"TIMESTAMP_NTZ '{_stamp_text(value)}'"
        case "ltz":
            return f"TIMESTAMP '{_stamp_text(value)}'"
    moment = (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)).time()
    return f"TIME '{moment.isoformat('microseconds')}'"


# ---------------------------------------------------------------------------------------------------------- conditions

_COLUMNS: list[Any] = [*_POOLS, ("r", "x"), ("m", "k")]
_LIKES = ["", "%", "a%", "%c", "%b%", "a_c", "a\\_c", "a\\%%", "_", "__", "%_", "a%c", "\\\\", "a\\\\c", "é"]
_LIKES.append("%\U0001f600%")


def _leaf() -> st.SearchStrategy[Any]:
    def for_column(column: Any) -> st.SearchStrategy[Any]:
        literal = st.one_of(_literals(column), _literals(column), _literals(column), st.just(("null", None)))
        at = st.just(column)
        choices = [
            st.tuples(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]), at, literal),
            st.tuples(st.just("flip"), st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]), at, literal),
            st.tuples(st.sampled_from(["is null", "is not null"]), at),
            st.tuples(st.sampled_from(["between", "not between"]), at, literal, literal),
        ]
        if column in NUMBERS:
            # One list, one kind: Spark compares a list in the common type of all its values.
            kinds = st.sampled_from([("int",), ("int", "decimal"), ("double", "float")])
            lists = kinds.flatmap(
                lambda k: st.lists(literal.filter(lambda v: v[0] in (*k, "null")), min_size=1, max_size=4)
            )
        else:
            lists = st.lists(literal, min_size=1, max_size=20)
        choices.append(st.tuples(st.sampled_from(["in", "not in"]), at, lists))
        if column == "s":
            choices.append(st.tuples(st.sampled_from(["like", "not like"]), at, st.sampled_from(_LIKES)))
            functions = st.sampled_from(["startswith", "endswith", "contains"])
            choices.append(st.tuples(functions, at, st.sampled_from(_TEXTS)))
        if column == "bo":
            choices.append(st.tuples(st.just("column"), at))
            choices.append(st.tuples(st.sampled_from(["is true", "is false", "is not true", "is not false"]), at))
        return st.one_of(choices)

    return st.sampled_from(_COLUMNS).flatmap(for_column)


_EXACT = {
    "ty": "TINYINT", "i": "INT", "b": "BIGINT", "de": "DECIMAL(5, 2)", "f": "FLOAT", "d": "DOUBLE", "s": "STRING",
    "bo": "BOOLEAN", "da": "DATE", "nt": "TIMESTAMP_NTZ", "tz": "TIMESTAMP", "bi": "BINARY", ("r", "x"): "INT",
    ("m", "k"): "INT", "ti": "", "ns": "",
}  # fmt: skip
"""Columns in rows of values, and the type that Spark wants these to have; no cast where it is empty."""


def _exact_literal(column: Any, value: Any) -> tuple[str, Any]:
    """A value of a column as a literal."""
    kind = {
        "de": "decimal", "f": "float", "d": "double", "s": "text", "bo": "bool", "da": "date", "nt": "ntz", "tz": "ltz",
        "bi": "bytes", "ti": "time", "ns": "ntz",
    }.get(column, "int")  # fmt: skip
    scale = {"nt": 1000, "ti": 1000}.get(column)
    if column == "ns":
        value //= 1000
    return kind, value * scale if scale else value


def _rows_of_values() -> st.SearchStrategy[Any]:
    """Rows of values of several columns, few ones or all combinations of some."""

    def for_columns(columns: list[Any]) -> st.SearchStrategy[Any]:
        pools = [[_exact_literal(c, v) for v in _POOLS.get(c, [0, 1, 2, -1])] for c in columns]
        few = st.lists(st.tuples(*map(st.sampled_from, pools)), min_size=1, max_size=5)
        many = st.tuples(*map(st.permutations, pools)).map(
            lambda parts: list(itertools.product(*(p[:6] for p in parts)))
        )
        return st.tuples(st.sampled_from(["rows in", "rows not in"]), st.just(tuple(columns)), few | many)

    return st.lists(st.sampled_from(list(_EXACT)), min_size=2, max_size=3, unique=True).flatmap(for_columns)


def conditions(leaves: int = 8) -> st.SearchStrategy[Any]:
    """Random conditions over `FIELDS`, of up to so many leaves, four or so levels deep."""
    leaf = st.one_of(
        _leaf(),
        _leaf(),
        _leaf(),
        _rows_of_values(),
        st.sampled_from([("const", True), ("const", False), ("const", None)]),
    )

    def extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            st.tuples(st.just("and"), several),
            st.tuples(st.just("or"), several),
            st.tuples(st.just("not"), inner),
            st.tuples(st.sampled_from(["is true", "is false", "is not true", "is null", "is not null"]), inner),
        )

    return st.recursive(leaf, extend, max_leaves=leaves)


def _column_text(column: Any) -> str:
    if column == ("r", "x"):
        return "r.x"
    if column == ("m", "k"):
        return "m['k']"
    return "`" + column.replace("`", "``") + "`"


def _exact_text(column: Any, literal: tuple[str, Any]) -> str:
    type_ = _EXACT[column]
    text = _literal_text(literal)
    return f"CAST({text} AS {type_})" if type_ and literal[0] in ("int", "decimal", "float") else text


def to_text(condition: Any) -> str:
    """A condition as Spark SQL."""
    op = condition[0]
    match op:
        case "and" | "or":
            return "(" + f" {op.upper()} ".join(map(to_text, condition[1])) + ")"
        case "not":
            return (
                f"NOT {to_text(condition[1])}" if condition[1][0] in ("and", "or") else f"NOT ({to_text(condition[1])})"
            )
        case "const":
            return {True: "TRUE", False: "false", None: "NULL"}[condition[1]]
        case "column":
            return _column_text(condition[1])
        case "flip":
            return f"{_literal_text(condition[3])} {condition[1]} {_column_text(condition[2])}"
        case "between" | "not between":
            low, high = map(_literal_text, condition[2:])
            return f"{_column_text(condition[1])} {op} {low} AND {high}"
        case "rows in" | "rows not in":
            names = ", ".join(map(_column_text, condition[1]))
            items = (
                ", ".join(_exact_text(column, lit) for column, lit in zip(condition[1], item, strict=True))
                for item in condition[2]
            )
            return f"({names}) {op.removeprefix('rows ').upper()} ({', '.join(f'({item})' for item in items)})"
        case "in" | "not in":
            return f"{_column_text(condition[1])} {op.upper()} ({', '.join(map(_literal_text, condition[2]))})"
        case "like" | "not like":
            return f"{_column_text(condition[1])} {op} {_literal_text(('text', condition[2]))}"
        case "startswith" | "endswith" | "contains":
            return f"{op}({_column_text(condition[1])}, {_literal_text(('text', condition[2]))})"
    if op.startswith("is "):
        inner = condition[1]
        nested = isinstance(inner, tuple) and inner not in (("r", "x"), ("m", "k"))
        return f"{f'({to_text(inner)})' if nested else _column_text(inner)} {op.upper()}"
    return f"{_column_text(condition[1])} {op} {_literal_text(condition[2])}"


# ---------------------------------------------------------------------------------------------------------------- model


def _value(row: Mapping[str, Any], column: Any) -> Any:
    if isinstance(column, tuple):
        outer = row[column[0]]
        return None if outer is None else outer.get(column[1])
    return row[column]


def _order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _pair(column: Any, value: Any, literal: tuple[str, Any]) -> tuple[Any, Any]:
    """Both sides in their common type, comparable by Python."""
    kind, other = literal
    if column in NUMBERS:
        if isinstance(value, float) or kind in ("double", "float"):
            return _order(float(value)), _order(float(other))
        return Fraction(value), Fraction(other)
    if column in ("s", "bi"):
        as_bytes = [v.encode() if isinstance(v, str) else v for v in (value, other)]
        return as_bytes[0], as_bytes[1]
    if column in ("bo", "ti"):
        return (value, other) if column == "bo" else (value * 1000, other)
    nanos = {"da": 86_400_000_000_000, "nt": 1_000_000, "tz": 1000, "ns": 1}[column] * value
    return nanos, other * (86_400_000_000_000 if kind == "date" else 1000)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def _compare(op: str, column: Any, value: Any, literal: tuple[str, Any]) -> bool | None:
    if op == "<=>":
        if value is None or literal[0] == "null":
            return value is None and literal[0] == "null"
        op = "="
    if value is None or literal[0] == "null":
        return None
    return _COMPARE[op](*_pair(column, value, literal))


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _or(values: list[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def _like(text: str, pattern: str) -> bool:
    found, i = "", 0
    while i < len(pattern):
        if pattern[i] == "\\":
            i += 1
            found += re.escape(pattern[i])
        else:
            found += {"%": ".*", "_": "."}.get(pattern[i], re.escape(pattern[i]))
        i += 1
    return re.fullmatch(found, text, re.DOTALL) is not None


def evaluate(condition: Any, row: Mapping[str, Any]) -> bool | None:
    """True, false or unknown."""
    op = condition[0]
    match op:
        case "and":
            return _and([evaluate(c, row) for c in condition[1]])
        case "or":
            return _or([evaluate(c, row) for c in condition[1]])
        case "not":
            return _not(evaluate(condition[1], row))
        case "const":
            return condition[1]
        case "column":
            return _value(row, condition[1])
        case "flip":
            turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(condition[1], condition[1])
            return _compare(turned, condition[2], _value(row, condition[2]), condition[3])
        case "between" | "not between":
            value = _value(row, condition[1])
            low, high = (
                _compare(o, condition[1], value, lit) for o, lit in zip((">=", "<="), condition[2:], strict=True)
            )
            return _and([low, high]) if op == "between" else _not(_and([low, high]))
        case "rows in" | "rows not in":  # NULL is no value of these rows, and nothing is unknown
            values = [_value(row, column) for column in condition[1]]
            found = None not in values and any(
                all(_compare("=", *one) for one in zip(condition[1], values, item, strict=True))
                for item in condition[2]
            )
            return found == (op == "rows in")
        case "in" | "not in":
            value = _value(row, condition[1])
            found = _or([_compare("=", condition[1], value, lit) for lit in condition[2]])
            return found if op == "in" else _not(found)
        case "like" | "not like" | "startswith" | "endswith" | "contains":
            text, given = _value(row, condition[1]), condition[2]
            if text is None:
                return None
            if op in ("like", "not like"):
                return _like(text, given) == (op == "like")
            return {"startswith": text.startswith, "endswith": text.endswith, "contains": text.__contains__}[op](given)
    if op.startswith("is "):
        inner = condition[1]
        nested = isinstance(inner, tuple) and inner not in (("r", "x"), ("m", "k"))
        value = evaluate(inner, row) if nested else _value(row, inner)
        wanted = {"null": None, "true": True, "false": False}[op.split()[-1]]
        same = value is None if wanted is None else value is wanted
        return same != (" not " in op)
    return _compare(op, condition[1], _value(row, condition[1]), condition[2])
