"""A table kept in plain Python: columns that change, rows as dicts, snapshots as lists, conditions a row at a time.

It shares no code with the reader or the writer. Values are what `pyarrow.array` takes for a column's Arrow type; a
ROW's value is a dict by the model's own field ids, so that a renamed field keeps its values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from paimon_pyds.base.types import arrow_type, parse_type, scalar_to_internal
from paimon_pyds.sql.predicate.tree import And, ColumnRef, Leaf, MapKey, Op, Or, Predicate, negate
from paimon_pyds.sql.text.tree import Literal

EPOCH = datetime(1970, 1, 1)
PER_SECOND = {"3": 10**3, "6": 10**6, "9": 10**9}


@dataclass(frozen=True)
class Column:
    """A column: ``uid`` stays when the name or the type changes. ``type`` is a Paimon type text or object."""

    uid: int
    name: str
    type: Any

    @property
    def kind(self) -> str:
        """The first word of the type."""
        return kind_of(self.type)


def kind_of(type_: Any) -> str:
    """INT, DECIMAL, ROW, …; TIMESTAMP_LTZ for timestamps with a zone."""
    if isinstance(type_, dict):
        return str(type_["type"]).split()[0]
    name = type_.removesuffix(" NOT NULL").split("(")[0].split()[0]
    return "TIMESTAMP_LTZ" if "LOCAL" in type_ else str(name)


def precision_of(type_: str) -> str:
    """3, 6 or 9 of TIMESTAMP(p)."""
    return type_.split("(")[1][0]


@dataclass(frozen=True)
class Row:
    """Values by column uid, and the types the columns had when they were written."""

    values: Mapping[int, Any]
    types: Mapping[int, Any]

    def get(self, column: Column) -> Any:
        """The value as the column is typed now; None for a column added later."""
        value = self.values.get(column.uid)
        return None if value is None else convert(value, self.types[column.uid], column.type)


@dataclass
class State:
    """A snapshot: what it holds, and which rows it added if it was an append."""

    columns: tuple[Column, ...]
    rows: list[Row]
    added: list[Row] | None


@dataclass
class Model:
    """A table."""

    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def row(self, values: Mapping[int, Any]) -> Row:
        """A row written now."""
        return Row(values, {c.uid: c.type for c in self.columns})

    def append(self, rows: Sequence[Row]) -> None:
        """One APPEND snapshot."""
        self.rows = [*self.rows, *rows]
        self.states.append(State(self.columns, self.rows, list(rows)))

    def replace(self, gone: Callable[[Row], bool], rows: Sequence[Row]) -> None:
        """One OVERWRITE snapshot."""
        self.rows = [*(r for r in self.rows if not gone(r)), *rows]
        self.states.append(State(self.columns, self.rows, None))

    def partition(self, row: Row) -> tuple[Any, ...]:
        """The values of the partition columns."""
        return tuple(row.get(c) for name in self.partition_by for c in self.columns if c.name == name)


# ---------------------------------------------------------------------------------------------------------- evolution


def convert(value: Any, old: Any, new: Any) -> Any:
    """A value of a column's old type as the new one shows it."""
    if isinstance(old, dict) or old == new:
        return value
    a, b = kind_of(old), kind_of(new)
    if b == "STRING":
        if a == "BOOLEAN":
            return "true" if value else "false"
        return value if isinstance(value, str) else str(value)
    if b in ("DOUBLE", "FLOAT"):
        return float(value)
    if b == "DECIMAL":
        scale = int(new.split(",")[1][:-1])
        return Decimal(value).quantize(Decimal(1).scaleb(-scale), context=Context(prec=60))
    if a == "DATE":
        per_day = 86_400 * PER_SECOND[precision_of(new)]
        return (value - EPOCH.date()).days * per_day
    if a in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return value * (PER_SECOND[precision_of(new)] // PER_SECOND[precision_of(old)])
    return int(value) if b in ("TINYINT", "SMALLINT", "INT", "BIGINT") else value


WIDER: dict[str, list[str]] = {
    "BOOLEAN": ["INT", "STRING"],
    "TINYINT": ["SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 10)", "STRING"],
    "SMALLINT": ["INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)"],
    "INT": ["BIGINT", "DOUBLE", "DECIMAL(18, 2)", "STRING"],
    "BIGINT": ["DECIMAL(38, 10)", "STRING"],
    "FLOAT": ["DOUBLE"],
    "DECIMAL(4, 2)": ["DECIMAL(18, 4)", "DECIMAL(38, 10)"],
    "CHAR(4)": ["VARCHAR(20)", "STRING"],
    "VARCHAR(20)": ["STRING"],
    "BINARY(4)": ["BYTES"],
    "DATE": ["TIMESTAMP(3)", "TIMESTAMP(6)"],
    "TIMESTAMP(3)": ["TIMESTAMP(6)", "TIMESTAMP(9)"],
    "TIMESTAMP(6)": ["TIMESTAMP(9)"],
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": ["TIMESTAMP(6) WITH LOCAL TIME ZONE"],
}


# --------------------------------------------------------------------------------------------------------------- Arrow


def to_arrow(rows: Sequence[Row], columns: Sequence[Column]) -> pa.Table:
    """Rows as an Arrow table with these columns."""
    arrays, fields = [], []
    for column in columns:
        type_ = arrow_type(parse_type(column.type))
        values = [_named(row.get(column), column.type) for row in rows]
        arrays.append(pa.array(values, type_))
        fields.append(pa.field(column.name, type_, parse_type(column.type).nullable))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _named(value: Any, type_: Any) -> Any:
    """Struct values by name."""
    if value is None or kind_of(type_) != "ROW":
        return value
    return {f["name"]: value.get(f["id"]) for f in type_["fields"]}


def as_text(table: pa.Table) -> list[str]:
    """Rows as texts, sorted: NaN equals NaN, -0.0 differs from 0.0."""
    plain = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    if not plain:
        return [""] * table.num_rows
    return sorted(map(repr, zip(*(c.to_pylist() for c in plain), strict=True)))


# ---------------------------------------------------------------------------------------------------------- conditions
#
# ("=" | "<>" | "<" | "<=" | ">" | ">=", place, value)      ("in" | "not in", place, values)
# ("is null" | "is not null", place)                        ("like" | "not like", place, pattern)
# ("startswith" | "endswith" | "contains", place, text)     ("and" | "or", conditions)      ("not", condition)


@dataclass(frozen=True)
class Place:
    """A column, or a map's value, or a row's field."""

    column: Column
    type: Any
    key: str | None = None
    field_id: int | None = None

    def get(self, row: Row) -> Any:
        """The value here."""
        outer = row.get(self.column)
        if outer is None:
            return None
        if self.key is not None:
            return dict(outer).get(self.key)
        return outer if self.field_id is None else outer.get(self.field_id)

    def text(self) -> str:
        """As Spark SQL."""
        name = "`" + self.column.name.replace("`", "``") + "`"
        if self.key is not None:
            return f"{name}['{self.key}']"
        return name if self.field_id is None else f"{name}.{self._field()}"

    def _field(self) -> str:
        return str(next(f["name"] for f in self.column.type["fields"] if f["id"] == self.field_id))

    def ref(self) -> ColumnRef:
        """As a tree has it."""
        if self.key is not None:
            return ColumnRef(self.column.name, (MapKey(self.key),))
        return ColumnRef(self.column.name, () if self.field_id is None else (self._field(),))


def evaluate(condition: Any, row: Row) -> bool | None:
    """True, false or unknown."""
    op, *args = condition
    if op in ("and", "or"):
        found = [evaluate(c, row) for c in args[0]]
        decisive = op == "or"
        return decisive if decisive in found else None if None in found else not decisive
    if op == "not":
        inner = evaluate(args[0], row)
        return None if inner is None else not inner
    place: Place = args[0]
    value = place.get(row)
    if op in ("is null", "is not null"):
        return (value is None) == (op == "is null")
    if value is None:
        return None
    if op in ("in", "not in"):
        keys = [None if v is None else compared(v, place.type) for v in args[1]]
        hit = True if compared(value, place.type) in keys else None if None in keys else False
        return hit if op == "in" or hit is None else not hit
    if args[1] is None:
        return None
    if op in ("like", "not like"):
        return like(value, args[1]) == (op == "like")
    if op in ("startswith", "endswith", "contains"):
        return {"startswith": value.startswith, "endswith": value.endswith, "contains": value.__contains__}[op](args[1])
    a, b = compared(value, place.type), compared(args[1], place.type)
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def compared(value: Any, type_: Any) -> Any:
    """A key that compares as conditions do: CHAR values as if filled with blanks."""
    return order(value.ljust(99) if kind_of(type_) == "CHAR" else value, type_)


def order(value: Any, type_: Any) -> Any:
    """A key that Python orders as Spark SQL orders the values."""
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value.encode() if isinstance(value, str) else value


def like(text: str, pattern: str) -> bool:
    """SQL's LIKE, escaped by backslashes."""
    found, characters = "", iter(pattern)
    for c in characters:
        found += re.escape(next(characters)) if c == "\\" else {"%": ".*", "_": "."}.get(c, re.escape(c))
    return re.fullmatch(found, text, re.DOTALL) is not None


_OPS = {
    "=": Op.EQ, "<>": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE, "in": Op.IN, "not in": Op.NOT_IN,
    "is null": Op.IS_NULL, "is not null": Op.IS_NOT_NULL, "like": Op.LIKE, "not like": Op.NOT_LIKE,
    "startswith": Op.STARTS_WITH, "endswith": Op.ENDS_WITH, "contains": Op.CONTAINS,
}  # fmt: skip


def to_tree(condition: Any) -> Predicate:
    """As an unbound tree with typed literals."""
    op, *args = condition
    if op in ("and", "or"):
        return (And if op == "and" else Or)(tuple(map(to_tree, args[0])))
    if op == "not":
        return negate(to_tree(args[0]))
    place: Place = args[0]
    type_ = parse_type(place.type)
    given = [] if len(args) == 1 else args[1] if op in ("in", "not in") else [args[1]]
    literals: tuple[Any, ...] = tuple(
        Literal(scalar_to_internal(pa.scalar(v, arrow_type(type_))), type_.with_nullable(True)) for v in given
    )
    if op in ("like", "not like"):
        literals = (*literals, "\\")
    return Leaf(_OPS[op], place.ref(), literals)


def to_sql(condition: Any) -> str:
    """As Spark SQL."""
    op, *args = condition
    if op in ("and", "or"):
        return "(" + f" {op.upper()} ".join(map(to_sql, args[0])) + ")"
    if op == "not":
        return f"NOT ({to_sql(args[0])})"
    place: Place = args[0]
    if len(args) == 1:
        return f"{place.text()} {op.upper()}"
    if op in ("in", "not in"):
        return f"{place.text()} {op.upper()} ({', '.join(literal(v, place.type) for v in args[1])})"
    if op in ("startswith", "endswith", "contains"):
        return f"{op}({place.text()}, {literal(args[1], 'STRING')})"
    return f"{place.text()} {op.upper()} {literal(args[1], place.type)}"


def literal(value: Any, type_: Any) -> str:
    """A value as a Spark SQL literal of its type."""
    kind = kind_of(type_)
    if value is None:
        return "NULL"
    if kind in ("FLOAT", "DOUBLE"):
        return f"CAST('{value!r}' AS {kind})"
    if kind == "DECIMAL":
        return f"{value:f}BD"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if kind == "TIME":
        return f"TIME '{(EPOCH + timedelta(milliseconds=value)).time().isoformat('microseconds')}'"
    if kind in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        micros = value * 10**6 // PER_SECOND[precision_of(type_)]
        text = (EPOCH + timedelta(microseconds=micros)).isoformat(" ", "microseconds")
        return f"TIMESTAMP_NTZ '{text}'" if kind == "TIMESTAMP" else f"TIMESTAMP '{text}'"
    return str(value)


def renamed(columns: Sequence[Column], old: str, new: str) -> tuple[Column, ...]:
    """The columns with one renamed."""
    return tuple(replace(c, name=new) if c.name == old else c for c in columns)
