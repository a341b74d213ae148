"""Messages of Maxwell's daemon: a row in ``data``, what an update changed in ``old``.

Source: Maxwell's documentation, "Data Format" and "Bootstrapping".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from paimon_pyds.ops.cdc.debezium import truncated
from paimon_pyds.ops.cdc.messages import DELETE, INSERT, CdcOptions, Changes, SourceTable, parsed, refused, row_of

_OTHERS = (
    "bootstrap-start", "bootstrap-complete", "table-create", "table-alter", "database-create", "database-alter",
    "heartbeat",
)  # fmt: skip
_EMPTYING = ("table-drop", "database-drop")


class MaxwellMessages:
    """Finds the changes in the messages of one stream."""

    def __init__(self, options: CdcOptions) -> None:
        self._options = options
        self._table = SourceTable(options)

    def changes(self, texts: Sequence[str | None], first: int) -> Iterator[Changes]:
        """The changes in messages, of which ``first`` is the number of the first one."""
        found = Changes()
        for position, text in enumerate(texts, first):
            if text is None:
                continue
            message = parsed(text, position, self._options)
            if message.get("type") not in _OTHERS and self._table.takes(
                (message.get("database"), message.get("table")), position
            ):
                self._add(found, position, message)
        if found.rows:
            yield found

    def _add(self, found: Changes, position: int, message: dict[str, Any]) -> None:
        options, type_ = self._options, message.get("type")
        if type_ in ("insert", "bootstrap-insert", "update", "delete"):
            row = row_of(message.get("data"), "data", position, options)
            if type_ == "update":
                old = message.get("old")
                before = None if old is None else {**row, **row_of(old, "old", position, options)}
                found.add_update(position, before, row, options)
            else:
                found.add(position, DELETE if type_ == "delete" else INSERT, row)
        elif type_ not in _EMPTYING:
            raise refused(position, f"its `type` is {type_!r}, so it is no change of a row", options)
        elif options.truncate == "refuse":
            raise truncated(position, options)
