"""JSON texts of a change stream as Python values, and what all tools make of them: changes of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import SchemaError
from paimon_pyds.keys.merge.row_kinds import ROW_KINDS

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = ROW_KINDS
Row = Mapping[str, Any]


class Number(str):
    """A JSON number with a fraction or an exponent, as its text: a float would round decimals."""

    __slots__ = ()


DECODER = json.JSONDecoder(parse_float=Number, parse_constant=Number)


@dataclass(frozen=True, slots=True)
class CdcOptions:
    """How the messages of a stream are read. The functions of `paimon_pyds.cdc` explain the options.

    Attributes:
        path: where the table is, for errors.
        keys: the names of its primary key.
        decimals: how texts are read into DECIMAL: ``text`` or ``base64``; None where the message has to say it.
        binary: how bytes are written: ``base64``, ``base64-url-safe``, ``hex`` or ``latin-1``.
        time_unit: of numbers that are a time, for all fields or by their names; None where the message has to say it.
    """

    path: str
    keys: tuple[str, ...]
    source: str | None = None
    before_images: bool = False
    missing_columns: Literal["refuse", "null"] = "refuse"
    unknown_fields: Literal["refuse", "ignore"] = "refuse"
    truncate: Literal["refuse", "ignore"] = "refuse"
    zone: str | None = None
    decimals: str | None = None
    binary: str = "base64"
    time_unit: str | Mapping[str, str] | None = None


@dataclass(slots=True)
class Changes:
    """Changes of rows, in their order.

    Attributes:
        positions: the message of each change, counted from the first of the stream.
        kinds: the kind of each row.
        rows: the fields of each row by their names.
        types: what the messages say of the fields' types, by their names, in the words of the tool.
    """

    types: Mapping[str, Any] = field(default_factory=dict)
    positions: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def add(self, position: int, kind: str, row: Row) -> None:
        """Append one change."""
        self.positions.append(position)
        self.kinds.append(kind)
        self.rows.append(row)

    def add_update(self, position: int, before: Row | None, after: Row, options: CdcOptions) -> None:
        """Append an update. Where it changes the key it is a delete and an insert, as the old key has no row then."""
        if before is not None and any(_value(before, k, after) != _value(after, k) for k in options.keys):
            self.add(position, DELETE, before)
            self.add(position, INSERT, after)
            return
        if options.before_images:
            if before is None:
                raise refused(position, "it is an update without the row before it, which this table needs", options)
            self.add(position, UPDATE_BEFORE, before)
        self.add(position, UPDATE_AFTER, after)


def _value(row: Row, name: str, otherwise: Row | None = None) -> object:
    """The value of a field, its name in any case; that of another row where this one lacks it."""
    if name in row:
        return row[name]
    folded = name.casefold()
    for found in row:
        if found.casefold() == folded:
            return row[found]
    return None if otherwise is None else _value(otherwise, name)


def refused(position: int, why: str, options: CdcOptions, hint: str | None = None) -> SchemaError:
    """The error about one message."""
    return SchemaError(f"message {position}: {why}", path=options.path, hint=hint)


def parsed(text: str, position: int, options: CdcOptions) -> dict[str, Any]:
    """The JSON object of a message. Raises SchemaError."""
    try:
        found = DECODER.decode(text)
    except ValueError as error:
        raise refused(position, f"it is no JSON ({error}): {text[:60]!r}", options) from None
    if not isinstance(found, dict):
        raise refused(position, f"it is no JSON object: {text[:60]!r}", options)
    return found


def row_of(value: object, member: str, position: int, options: CdcOptions) -> Row:
    """The member of a message that has the fields of a row. Raises SchemaError: it has not."""
    if not isinstance(value, dict):
        said = "nothing" if value is None else f"{json_text(value):.60}"
        raise refused(position, f"its member `{member}` is {said}, not the fields of a row", options)
    return value


class SourceTable:
    """Checks that messages are about one table: the one that is named, else that of the first message."""

    def __init__(self, options: CdcOptions) -> None:
        self._options = options
        self._wanted = None if options.source is None else options.source.split(".")
        self._known: dict[tuple[str, ...], bool] = {}

    def takes(self, parts: Sequence[object], position: int) -> bool:
        """Whether a message is about the table. Raises SchemaError: several tables, and none is named.
        ``parts``: database, schema and table of the message, None for those that it lacks."""
        name = tuple(part for part in parts if isinstance(part, str) and part)
        if not name:
            if self._wanted is not None:
                raise refused(position, "it does not say which table it is about", self._options, "leave source out")
            return True
        if name not in self._known:
            self._known[name] = self._is_wanted(name, position)
        return self._known[name]

    def _is_wanted(self, name: tuple[str, ...], position: int) -> bool:
        if self._wanted is not None:
            return list(name[-len(self._wanted) :]) == self._wanted
        if self._known:
            other = ".".join(next(iter(self._known)))
            why = f"it is about the table {'.'.join(name)}, and messages before it are about {other}"
            raise refused(position, why, self._options, f"name one: source={'.'.join(name)!r}")
        return True


def json_text(value: object) -> str:
    """A JSON value as text, numbers as they were written."""
    if isinstance(value, Number):
        return value
    if isinstance(value, dict):
        members = (f"{json.dumps(name, ensure_ascii=False)}:{json_text(member)}" for name, member in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return json.dumps(value, ensure_ascii=False)
