"""Entries of manifests as objects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA, DataFile, ManifestEntry


def entry_at(batch: pa.RecordBatch | pa.Table, index: int) -> ManifestEntry:
    """The entry in one row of columns that have all of `ENTRY_SCHEMA`."""
    row: dict[str, Any] = {}
    for name in ENTRY_SCHEMA.names:
        value = batch.column(name)[index].as_py()
        row[name] = tuple(value) if isinstance(value, list) else value
    assert row.pop("unknown") is None  # objects have no place for it
    head = {name: row.pop(name) for name in ("kind", "partition", "bucket", "total_buckets")}
    for stats in ("key_stats", "value_stats"):
        row[stats] = SimpleStats(*(row.pop(f"{stats}_{part}") for part in ("min", "max", "nulls")))
    return ManifestEntry(**head, file=DataFile(**row))
