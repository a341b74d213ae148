"""Literals of Spark SQL, as filters and expressions write them; each function reads from where the cursor stands.

All raise PredicateError at the place of what can't be read.
"""

from __future__ import annotations

from paimon_pyds.sql import casts
from paimon_pyds.sql.cursor import Cursor
from paimon_pyds.sql.literal import Literal
from paimon_pyds.sql.type_names import TYPES
from paimon_pyds.types import AtomicType

__all__ = ["TYPED_LITERALS", "WORD_LITERALS", "read_escape", "read_literal", "read_number", "read_typed_literal"]

WORD_LITERALS = {
    "TRUE": Literal(True, casts.BOOLEAN), "FALSE": Literal(False, casts.BOOLEAN), "NULL": Literal(None, None),
}  # fmt: skip
"""Literals that are words, in upper case."""
TYPED_LITERALS = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
"""Names that may stand before a string: DATE '2026-01-31'."""


def read_literal(cursor: Cursor) -> Literal:
    """Read a number, bytes or a string; strings that follow each other are one."""
    token = cursor.peek()
    if token.kind == "number":
        return read_number(cursor)
    cursor.next()
    if token.kind == "bytes":
        return Literal(bytes.fromhex(token.value), casts.BYTES)
    text = token.value
    while cursor.peek().kind == "string":
        text += cursor.next().value
    return Literal(text, casts.STRING)


def read_number(cursor: Cursor, *, negative: bool = False) -> Literal:
    """Read a number, whose sign has been read before."""
    token = cursor.next()
    return cursor.located(token.start, lambda: casts.number(token.value, token.suffix, negative))


def read_typed_literal(cursor: Cursor, timezone: str) -> Literal:
    """Read one of `TYPED_LITERALS` and its string; ``timezone`` is that of TIMESTAMPs which name none."""
    type_ = AtomicType(TYPES[cursor.next().value.upper()], precision=9)
    start = cursor.peek().start
    text = read_literal(cursor)
    return cursor.located(start, lambda: casts.cast_literal(text, type_, timezone))


def read_escape(cursor: Cursor) -> str | None:
    """Read the ESCAPE clause behind a pattern: its character, None where there is no clause."""
    if not cursor.accept_word("ESCAPE"):
        return None
    token = cursor.peek()
    if token.kind != "string" or len(token.value) != 1:
        cursor.fail(token, "ESCAPE takes a string of one character")
    return cursor.next().value
