"""The number of rows of a snapshot, by its own file: it counts stored rows, and a read may return fewer."""

from __future__ import annotations

from dataclasses import replace

from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot

_COUNTED = "table.count() counts them"


def with_row_count(schema: TableSchema, snapshot: Snapshot) -> Snapshot:
    """The snapshot with its number of rows, where that is surely the number of stored ones."""
    return snapshot if _hides(schema, snapshot) else replace(snapshot, row_count=snapshot.total_record_count)


def rows_text(schema: TableSchema, snapshot: Snapshot) -> str:
    """``9``, or ``at most 9`` with the reason."""
    stored = snapshot.total_record_count
    if stored is None:
        return f"unknown, the snapshot does not say: {_COUNTED}"
    reason = _hides(schema, snapshot)
    return f"at most {stored:,}, {reason}" if reason and stored else f"{stored:,}"


def _hides(schema: TableSchema, snapshot: Snapshot) -> str:
    """Why a read may give fewer rows than are stored; empty where it gives them all."""
    if schema.primary_keys:
        return f"as several versions of one key may be stored: {_COUNTED}"
    if schema.options.get("data-evolution.enabled", "").strip().lower() == "true":
        return "as columns of one row may be stored apart"
    return f"as some may be deleted: {_COUNTED}" if snapshot.index_manifest is not None else ""
