"""Rows as an Arrow dataset for DuckDB, which says what a query needs: columns, and a condition.

DuckDB trusts the dataset to apply the condition, an expression of pyarrow: it is applied to the rows that are read.
Where it means the same in SQL it also narrows these. The SQL is made of the expression's text, and used only if the
expression that is made of the same parts is equal, since texts may cut values off. A form that is not known here costs
rows that are read in vain, and nothing else. (Source: DuckDB's documentation, "SQL on Apache Arrow".)
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.arrays import scalar as scalar_of
from paimon_pyds.base.lazy_polars import comparable, narrowed, sql_name, sql_text

_COMPARE = {"==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_VALUE = r'("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?)'
_COMPARISON = re.compile(rf"\((.+?) (==|<=|>=|<|>) {_VALUE}\)", re.DOTALL)
_NULL = re.compile(r"(is_null|is_valid)\((.+?)(?:, \{nan_is_null=false\})?\)", re.DOTALL)
_AMONG = re.compile(
    r"if_else\(is_valid\((?P<name>.+?)\), is_in\((?P=name), \{value_set=\w+:\[\n(?P<values>[^\]]*)\n\], "
    r"null_matching_behavior=MATCH\}\), null\[bool\]\)",
    re.DOTALL,
)


class _Part(NamedTuple):
    """A part of a condition in SQL, and as an expression of pyarrow."""

    sql: str
    expression: Any


@functools.cache
def _dataset_class() -> type[Any]:
    import pyarrow.dataset as ds  # noqa: TID251 - DuckDB says what it needs to nothing else

    class Rows(ds.Dataset):  # type: ignore[misc]
        """DuckDB takes what is a dataset, and calls these members of it alone."""

        def __init__(self, rows: Any) -> None:
            self._rows = rows

        @property
        def schema(self) -> pa.Schema:
            return self._rows.arrow_schema

        def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> Any:
            return _Scanner(self._rows, columns, filter)

    return Rows


def dataset(rows: Any) -> Any:
    """The rows as a `pyarrow.dataset.Dataset` that only DuckDB reads."""
    return _dataset_class()(rows)


class _Scanner:
    def __init__(self, rows: Any, columns: list[str] | None, condition: Any) -> None:
        self._rows, self._condition = rows, condition
        self._columns = rows.arrow_schema.names if columns is None else columns

    def to_reader(self) -> pa.RecordBatchReader:
        schema = self._rows.arrow_schema
        result = pa.schema([schema.field(name) for name in self._columns])
        return pa.RecordBatchReader.from_batches(result, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        text = "" if self._condition is None else str(self._condition)
        # A name that occurs in the text of a value costs a column that is read in vain.
        read = [name for name in schema.names if name in self._columns or name in text]
        sql = as_sql(self._condition, schema, comparable(self._rows)) if text else None
        for batch in narrowed(self._rows, read or None, sql):
            table = pa.Table.from_batches([batch])
            if self._condition is not None:
                table = table.filter(self._condition)
            yield from table.select(self._columns).to_batches()


def as_sql(condition: Any, schema: pa.Schema, fields: Mapping[str, Any]) -> str | None:
    """A condition in SQL that holds wherever an expression of pyarrow does; None where it is not understood."""
    part = _parsed(str(condition), {name: schema.field(name).type for name in fields})
    return part.sql if part is not None and part.expression.equals(condition) else None


def _parsed(text: str, types: Mapping[str, pa.DataType]) -> _Part | None:
    import pyarrow.compute as pc  # noqa: TID251 - makes expressions; DuckDB has loaded it

    text = text.strip()
    if match := _COMPARISON.fullmatch(text):
        name, sign, value = match.groups()
        if name in types:
            literal, scalar = _literal(value, types[name])
            if scalar is None:
                return None
            return _Part(f"{sql_name(name)} {sign} {literal}", _COMPARE[sign](pc.field(name), scalar))
    if match := _NULL.fullmatch(text):
        call, name = match.groups()
        if name in types:
            column = pc.field(name)
            return _Part(
                f"{sql_name(name)} IS {'' if call == 'is_null' else 'NOT '}NULL",
                column.is_null() if call == "is_null" else column.is_valid(),
            )
    if match := _AMONG.fullmatch(text):
        return _among(match["name"], match["values"], types)
    sides = _sides(text)
    if sides is None:
        return None
    left, word, right = sides
    first, second = _parsed(left, types), _parsed(right, types)
    if first is None or second is None:
        return None
    both = first.expression & second.expression if word == "and" else first.expression | second.expression
    return _Part(f"({first.sql}) {word.upper()} ({second.sql})", both)


def _sides(text: str) -> tuple[str, str, str] | None:
    """The sides of ``(a and b)`` or ``(a or b)``, and the word."""
    depth, quoted, at = 0, False, 0
    while at < len(text):
        mark = text[at]
        if quoted:
            at += mark == "\\"
            quoted = mark != '"'
        elif mark == '"':
            quoted = True
        else:
            depth += (mark == "(") - (mark == ")")
            if depth == 1:
                for word in ("and", "or"):
                    if text.startswith(f" {word} ", at):
                        return text[1:at], word, text[at + len(word) + 2 : -1]
        at += 1
    return None


def _among(name: str, values: str, types: Mapping[str, pa.DataType]) -> _Part | None:
    import pyarrow.compute as pc  # noqa: TID251 - as above

    if name not in types:
        return None
    found = [_literal(value.strip(), types[name]) for value in values.split(",\n")]
    if any(scalar is None for _, scalar in found):
        return None
    column = pc.field(name)
    within = pc.is_in(column, value_set=array([scalar.as_py() for _, scalar in found], types[name]))
    expression = pc.if_else(column.is_valid(), within, scalar_of(None, pa.bool_()))
    return _Part(f"{sql_name(name)} IN ({', '.join(literal for literal, _ in found)})", expression)


def _literal(text: str, type_: pa.DataType) -> tuple[str, Any]:
    """A value in SQL and as a scalar; None for one that is not understood."""
    if text.startswith('"') and pa.types.is_string(type_):
        value = re.sub(r"\\(.)", r"\1", text[1:-1])
        if not value.isprintable():  # escapes other than of quotes
            return "", None
        return sql_text(value), scalar_of(value, type_)
    if _NUMBER.fullmatch(text) and not pa.types.is_string(type_):
        try:
            return text, scalar_of(float(text) if pa.types.is_floating(type_) else int(text), type_)
        except (ValueError, OverflowError, pa.ArrowInvalid):
            return "", None
    return "", None
