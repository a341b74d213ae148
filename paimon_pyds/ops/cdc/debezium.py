"""Messages of Debezium: an envelope with ``op``, ``before`` and ``after``, with or without the part that is a schema;
or the row itself, with ``__op`` or ``__deleted`` among its fields (transform ExtractNewRecordState).

Source: Debezium documentation, "Data change events" and "Data type mappings" of its connectors for MySQL and
PostgreSQL, "New Record State Extraction"; "JsonConverter" of Kafka Connect for the part that is a schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paimon_pyds.ops.cdc.messages import (  # fmt: skip
    DECODER,
    DELETE,
    INSERT,
    CdcOptions,
    Changes,
    Row,
    SourceTable,
    parsed,
    refused,
    row_of,
)

_SCHEMA = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_PAYLOAD = re.compile(r'\s*,\s*"payload"\s*:\s*')
_END = re.compile(r"\s*\}\s*\Z")
_LEFT_OUT = "__debezium_unavailable_value"
"""What Debezium writes for a long value that an update did not change. (Source: its option
unavailable.value.placeholder.)"""
_TABLE_PARTS = ("db", "schema", "table")
_OP, _DELETED = "__op", "__deleted"
_OWN = "__"
"""What the names of the fields begin with that ExtractNewRecordState adds to a row."""


class DebeziumMessages:
    """Finds the changes in the messages of one stream."""

    def __init__(self, options: CdcOptions) -> None:
        self._options = options
        self._table = SourceTable(options)
        self._prefix = ""
        self._types: Mapping[str, Any] = {}
        """What the schema after `_prefix` says of the fields."""

    def changes(self, texts: Sequence[str | None], first: int) -> Iterator[Changes]:
        """The changes in messages, of which ``first`` is the number of the first one. Those whose schema says the same
        come together. A message that is NULL follows a delete, for Kafka, and says nothing."""
        found: Changes | None = None
        for position, text in enumerate(texts, first):
            if text is None:
                continue
            payload, types = self._payload(text, position)
            if payload is None:
                continue
            if found is None or found.types is not types:
                if found is not None and found.rows:
                    yield found
                found = Changes(types)
            self._add(found, position, payload)
        if found is not None and found.rows:
            yield found

    def _payload(self, text: str, position: int) -> tuple[dict[str, Any] | None, Mapping[str, Any]]:
        """The envelope of a message without its schema, and the types of its fields. The schema makes up most of a
        message, and is the same for many: it is parsed when it is another one than that of the message before."""
        if self._prefix and text.startswith(self._prefix):
            try:
                payload, end = DECODER.raw_decode(text, len(self._prefix))
            except ValueError:
                payload, end = None, 0  # parsing the whole says what is wrong
            if _END.match(text, end):
                return payload, self._types
        message = parsed(text, position, self._options)
        if "payload" not in message:
            return message, _known["{}"]
        types = _types_of(message.get("schema"))
        start = _SCHEMA.match(text)
        if start is not None:
            _, end = DECODER.raw_decode(text, start.end())
            rest = _PAYLOAD.match(text, end)
            if rest is not None:
                self._prefix, self._types = text[: rest.end()], types
        return message["payload"], types

    def _add(self, found: Changes, position: int, payload: Any) -> None:
        options = self._options
        if isinstance(payload, dict) and "op" not in payload and (_OP in payload or _DELETED in payload):
            payload = _envelope(payload)
        operation = payload.get("op") if isinstance(payload, dict) else None
        source = payload.get("source") if isinstance(payload, dict) else None
        if operation == "m":  # a message that somebody wrote into the log of PostgreSQL
            return
        if not self._table.takes([source.get(p) for p in _TABLE_PARTS] if isinstance(source, dict) else [], position):
            return
        if operation in ("c", "r"):
            found.add(position, INSERT, row_of(payload.get("after"), "after", position, options))
        elif operation == "u":
            before = payload.get("before")
            before = None if before is None else row_of(before, "before", position, options)
            after = row_of(payload.get("after"), "after", position, options)
            found.add_update(position, before, self._whole(after, before, position), options)
        elif operation == "d":
            found.add(position, DELETE, row_of(payload.get("before"), "before", position, options))
        elif operation != "t":
            said = "no `op`" if operation is None else f"the `op` {operation!r}"
            hint = (
                "c, r, u and d are changes of rows; other topics have changes of schemas, transactions and heartbeats. "
                "ExtractNewRecordState has to add __op (add.fields=op) or __deleted (rewrite deletes)"
            )
            raise refused(position, f"it has {said}, so it is no change of a row", options, hint)
        elif options.truncate == "refuse":
            raise truncated(position, options)

    def _whole(self, after: Row, before: Row | None, position: int) -> Row:
        """A row with the long values that the update did not change, which are in the row before it only."""
        left_out = [name for name, value in after.items() if value == _LEFT_OUT]
        if not left_out:
            return after
        for name in left_out:
            if before is None or before.get(name, _LEFT_OUT) == _LEFT_OUT:
                hint = "ALTER TABLE … REPLICA IDENTITY FULL makes PostgreSQL write it"
                raise refused(
                    position, f"field {name}: it has not the value, which did not change", self._options, hint
                )
        return {**after, **{name: before[name] for name in left_out}}  # type: ignore[index]


def _envelope(row: dict[str, Any]) -> dict[str, Any]:
    """The envelope of a row that has been taken out of it. Without an operation it is an update, as it may be one."""
    fields = {name: value for name, value in row.items() if not name.startswith(_OWN)}
    deleted = str(row.get(_DELETED)).lower() == "true"
    operation = "d" if deleted else row.get(_OP, "u")
    source = {part: row.get(f"{_OWN}{part}", row.get(f"{_OWN}source_{part}")) for part in _TABLE_PARTS}
    return {"op": operation, "before" if operation == "d" else "after": fields, "source": source}


def truncated(position: int, options: CdcOptions) -> Exception:
    """The error about a message that takes all rows away."""
    hint = "do the same, table.truncate(), and go on after it; or go on without: truncate='ignore'"
    return refused(position, "the source table was truncated or dropped, which is no change of a row", options, hint)


def _types_of(schema: Any) -> Mapping[str, Any]:
    """What a schema says of the fields of rows, by their names. Equal ones are the same object."""
    members = schema.get("fields", []) if isinstance(schema, dict) else []
    rows = {member.get("field"): member for member in members}
    row = rows.get("after") or rows.get("before")
    fields = members if row is None else row.get("fields", [])
    return _shared(
        {field["field"]: field for field in fields if row or not str(field.get("field", _OWN)).startswith(_OWN)}
    )


_known: dict[str, Mapping[str, Any]] = {"{}": {}}


def _shared(types: Mapping[str, Any]) -> Mapping[str, Any]:
    if len(_known) > 1000:
        _known.clear()
    return _known.setdefault(json.dumps(types), types)
