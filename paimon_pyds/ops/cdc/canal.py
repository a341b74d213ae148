"""Messages of Canal (also TiCDC's canal-json): rows as texts in ``data``, what an update changed in ``old``.

Source: Canal's class FlatMessage and its guide to Kafka; TiCDC documentation, "Canal-JSON Protocol".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paimon_pyds.ops.cdc.debezium import truncated
from paimon_pyds.ops.cdc.messages import DELETE, INSERT, CdcOptions, Changes, SourceTable, parsed, refused, row_of

_EMPTYING = ("TRUNCATE", "ERASE")
_OTHERS = (
    "CREATE", "ALTER", "CINDEX", "DINDEX", "RENAME", "QUERY", "DCONTROL", "MHEARTBEAT", "XATOMIC", "GTID",
    "TIDB_WATERMARK",
)  # fmt: skip


class CanalMessages:
    """Finds the changes in the messages of one stream."""

    def __init__(self, options: CdcOptions) -> None:
        self._options = options
        self._table = SourceTable(options)

    def changes(self, texts: Sequence[str | None], first: int) -> Iterator[Changes]:
        """The changes in messages, of which ``first`` is the number of the first one. Those whose columns have the same
        types come together."""
        found = Changes()
        for position, text in enumerate(texts, first):
            if text is None:
                continue
            message = parsed(text, position, self._options)
            if message.get("type") in _OTHERS:
                continue
            if not self._table.takes((message.get("database"), message.get("table")), position):
                continue
            types: Mapping[str, Any] = message.get("mysqlType") or {}
            if found.types != types:
                if found.rows:
                    yield found
                found = Changes(types)
            self._add(found, position, message)
        if found.rows:
            yield found

    def _add(self, found: Changes, position: int, message: dict[str, Any]) -> None:
        options, type_ = self._options, message.get("type")
        if message.get("isDdl") or type_ not in ("INSERT", "UPDATE", "DELETE"):
            if type_ not in _EMPTYING:
                raise refused(position, f"its `type` is {type_!r}, so it is no change of a row", options)
            if options.truncate == "refuse":
                raise truncated(position, options)
            return
        rows, olds = message.get("data"), message.get("old")
        if not isinstance(rows, list) or not isinstance(olds, list | None):
            raise refused(position, "its members `data` and `old` are no lists of rows", options)
        if olds is not None and len(olds) != len(rows):
            raise refused(position, f"`data` has {len(rows)} rows, and `old` {len(olds)}", options)
        for number, given in enumerate(rows):
            row = row_of(given, "data", position, options)
            if type_ == "UPDATE":
                old = None if olds is None else row_of(olds[number], "old", position, options)
                found.add_update(position, None if old is None else {**row, **old}, row, options)
            else:
                found.add(position, INSERT if type_ == "INSERT" else DELETE, row)
