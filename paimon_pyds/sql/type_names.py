"""Names of types in Spark SQL, as they stand in casts and before literals."""

from __future__ import annotations

from paimon_pyds.sql.cursor import Cursor
from paimon_pyds.types import AtomicType, Kind

__all__ = ["TYPES", "read_type"]

TYPES = {
    "BOOLEAN": Kind.BOOLEAN, "TINYINT": Kind.TINYINT, "BYTE": Kind.TINYINT, "SMALLINT": Kind.SMALLINT,
    "SHORT": Kind.SMALLINT, "INT": Kind.INT, "INTEGER": Kind.INT, "BIGINT": Kind.BIGINT, "LONG": Kind.BIGINT,
    "FLOAT": Kind.FLOAT, "REAL": Kind.FLOAT, "DOUBLE": Kind.DOUBLE, "DECIMAL": Kind.DECIMAL, "DEC": Kind.DECIMAL,
    "NUMERIC": Kind.DECIMAL, "STRING": Kind.VARCHAR, "VARCHAR": Kind.VARCHAR, "CHAR": Kind.CHAR,
    "CHARACTER": Kind.CHAR, "BINARY": Kind.VARBINARY, "DATE": Kind.DATE, "TIME": Kind.TIME,
    "TIMESTAMP": Kind.TIMESTAMP_LTZ, "TIMESTAMP_LTZ": Kind.TIMESTAMP_LTZ, "TIMESTAMP_NTZ": Kind.TIMESTAMP,
}  # fmt: skip
"""Kinds by the names that Spark gives them, in upper case."""


def read_type(cursor: Cursor) -> AtomicType:
    """Read a type: its name and its sizes. Raises PredicateError at the place."""
    token = cursor.next()
    kind = TYPES.get(token.value.upper()) if token.kind == "name" else None
    if kind is None:
        cursor.fail(token, "expected a type", hint="BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p, s), STRING, DATE, …")
    numbers: list[int] = []
    if cursor.accept_op("("):
        while not numbers or cursor.accept_op(","):
            size = cursor.next()
            if size.kind != "number" or not size.value.isdigit() or len(size.value) > 9:
                cursor.fail(size, "expected a size")
            numbers.append(int(size.value))
        cursor.expect_op(")")
    first, second = (*numbers, None, None)[:2]
    if kind is Kind.DECIMAL:
        precision, scale = 10 if first is None else first, second or 0
        if not 1 <= precision <= 38 or scale > precision:
            cursor.fail(token, "a DECIMAL has 1 to 38 digits, of which the scale is a part")
        return AtomicType(kind, precision=precision, scale=scale)
    if kind is Kind.TIME and first is not None and first > 9:
        cursor.fail(token, "a TIME has at most 9 digits of a second")
    return AtomicType(kind, precision=first if kind is Kind.TIME else None)
