"""A table as ``print`` shows it, by its schema and its newest snapshot alone: no manifest and no data file is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.base.secrets import redact, visible
from paimon_pyds.base.text import names_text, utc_text
from paimon_pyds.engine.scan.known_rows import rows_text
from paimon_pyds.errors import PaimonError

if TYPE_CHECKING:
    from paimon_pyds.metadata.schema import TableSchema
    from paimon_pyds.metadata.snapshot import Snapshot
    from paimon_pyds.metadata.store import TableStore

_MOST_COLUMNS = 40
"""Columns that the text shows."""
_LONGEST = 200
"""Characters of a value that the text shows."""


def table_text(head: str, store: TableStore) -> str:
    """The lines below ``head``: snapshot, rows, keys and columns; what is wrong where they can't be read."""
    try:
        schema, snapshot = store.latest_schema(), store.latest_snapshot()
        lines = [*_facts(schema, snapshot), "columns:", *_columns(schema)]
    except Exception as error:  # noqa: BLE001 - print does not fail
        message = error.message if isinstance(error, PaimonError) else f"{type(error).__name__} while it was read"
        lines = [f"it can't be shown: {message}"]
    return "\n".join([head, *(f"  {_cut(line)}" for line in lines)])


def _facts(schema: TableSchema, snapshot: Snapshot | None) -> Iterator[str]:
    if snapshot is None:
        yield "snapshot: none, the table was never written"
    else:
        yield f"snapshot: {snapshot.id}, {snapshot.commit_kind.value}, {utc_text(snapshot.time_millis)}"
        yield f"rows: {rows_text(schema, snapshot)}"
    for what, value in (
        ("primary key", names_text(schema.primary_keys)),
        ("partitioned by", names_text(schema.partition_keys)),
        ("comment", schema.comment),
    ):
        if value:
            yield f"{what}: {value}"


def _columns(schema: TableSchema) -> Iterator[str]:
    shown: Sequence[tuple[str, str]] = [(visible(f.name), str(f.type)) for f in schema.fields[:_MOST_COLUMNS]]
    width = min(max((len(name) for name, _ in shown), default=0), 40)
    yield from (f"  {name.ljust(width)}  {type_}" for name, type_ in shown)
    if len(schema.fields) > _MOST_COLUMNS:
        yield f"  and {len(schema.fields) - _MOST_COLUMNS:,} more: table.schema.fields has them all"


def _cut(line: str) -> str:
    text = visible(redact(line))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
