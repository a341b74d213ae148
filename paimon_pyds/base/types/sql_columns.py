"""Columns as SQL text: ``id BIGINT NOT NULL, tags ARRAY<STRING> COMMENT 'many'``, with types as Paimon spells them.

Nested types are ``ARRAY<t>``, ``VECTOR<t, n>``, ``MAP<k, v>``, ``MULTISET<t>`` and ``ROW<name t, …>`` (Spark's
``STRUCT<name: t>`` too).
(Source: Paimon documentation, concepts/data-types.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count

from paimon_pyds.base.types.model import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    parse_type,
    vector,
)
from paimon_pyds.errors import SchemaError

_MAX_DEPTH = 64
"""Levels of nested types, as in the type model."""
_STRING = r"'(?:[^']|'')*'"
_COLUMN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\s`'\"<>(),:]+))\s*(?::|\s)\s*(?P<type>.+?)"
    rf"(?:\s+DEFAULT\s+(?P<default>{_STRING}|[^\s']+))?(?:\s+COMMENT\s+(?P<comment>{_STRING}))?\s*",
    re.IGNORECASE | re.DOTALL,
)
_NESTED = re.compile(
    r"\s*(?P<word>ARRAY|VECTOR|MAP|MULTISET|ROW|STRUCT)\s*<(?P<inner>.*)>\s*(?P<null>NOT\s+NULL|NULL)?\s*",
    re.IGNORECASE | re.DOTALL,
)
_SIZED = re.compile(r"(?P<element>[^,]+),\s*(?P<length>[0-9]{1,10})\s*")
"""The type and the number between the brackets of VECTOR."""
_UNSIZED = re.compile(r"\s*(VARCHAR|CHARACTER|CHAR|VARBINARY|BINARY)\s*(?:NOT\s+NULL|NULL)?\s*", re.IGNORECASE)
_PART = re.compile(rf"{_STRING}|`(?:[^`]|``)*`|[<>(),]")


def parse_columns(text: str) -> tuple[DataField, ...]:
    """The columns of a text, numbered from 0 in its order, fields of rows included.
    Raises SchemaError: not a list of columns with types of Paimon."""
    return _fields(text, count(), 0)


def parse_column(name: str, text: str, ids: Iterator[int] | None = None) -> DataField:
    """The column of a name, and of a text such as ``INT NOT NULL COMMENT 'why'``. Errors as `parse_columns`."""
    quoted = name.replace("`", "``")
    if len(_split(text)) != 1:
        raise SchemaError(f"{text.strip()!r:.100} is not one type", hint="give each column its own type")
    return _fields(f"`{quoted}` {text}", ids or count(), 0)[0]


def _fields(text: str, ids: Iterator[int], depth: int) -> tuple[DataField, ...]:
    found = []
    for part in _split(text):
        match = _COLUMN.fullmatch(part)
        if match is None:
            raise SchemaError(f"{part.strip()!r:.100} is no column", hint="write a name and a type, such as id BIGINT")
        id_, name = next(ids), match["name"] or match["quoted"].replace("``", "`")
        type_ = _type(match["type"], ids, depth + 1)
        found.append(DataField(id_, name, type_, _unquoted(match["comment"]), _unquoted(match["default"])))
    return tuple(found)


def _type(text: str, ids: Iterator[int], depth: int) -> DataType:
    match = _NESTED.fullmatch(text)
    if match is None or depth > _MAX_DEPTH:
        check_lengths(text)
        return parse_type(text)
    word, inner = match["word"].upper(), match["inner"]
    nullable = not (match["null"] or "").upper().startswith("NOT")
    if word in ("ROW", "STRUCT"):
        return RowType(fields=_fields(inner, ids, depth), nullable=nullable)
    if word == "VECTOR" and (sized := _SIZED.fullmatch(inner)) is not None:
        return vector(_type(sized["element"], ids, depth + 1), int(sized["length"]), nullable=nullable)
    parts = [_type(part, ids, depth + 1) for part in _split(inner)]
    if len(parts) != (2 if word == "MAP" else 1) or word == "VECTOR":
        raise SchemaError(f"not a Paimon type: {text.strip()!r:.200}")
    if word == "MAP":
        return MapType(key=parts[0], value=parts[1], nullable=nullable)
    return (ArrayType if word == "ARRAY" else MultisetType)(element=parts[0], nullable=nullable)


def check_lengths(type_: object) -> None:
    """Raise SchemaError for a type, as a text or as schema files have it, that needs a length and has none. To Java it
    has the length 1, which nobody means; Spark refuses VARCHAR and CHAR, and its BINARY is BYTES."""
    if isinstance(type_, Mapping):
        fields = [field.get("type") for field in type_.get("fields") or () if isinstance(field, Mapping)]
        for part in (type_.get("element"), type_.get("key"), type_.get("value"), *fields):
            check_lengths(part)
    elif isinstance(type_, str) and (match := _UNSIZED.fullmatch(type_)):
        word = match[1].upper()
        whole = "BYTES" if word.endswith("BINARY") else "STRING"
        raise SchemaError(f"{word} needs a length", hint=f"write {word}(n), or {whole} for values of any length")


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets and no quotes."""
    parts, start, depth = [], 0, 0
    for match in _PART.finditer(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(match[0], 0)
        if match[0] == "," and depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def _unquoted(text: str | None) -> str | None:
    return text[1:-1].replace("''", "'") if text is not None and text.startswith("'") else text
