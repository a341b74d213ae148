"""Chain tables: branches with whole partitions and with changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE

_COLUMNS = "g STRING NOT NULL, dt STRING NOT NULL, k INT NOT NULL, s INT, v STRING, w STRING"
_CHAIN = {
    "chain-table.enabled": "true", "scan.fallback-snapshot-branch": "whole", "scan.fallback-delta-branch": "changes",
    "partition.timestamp-pattern": "$dt", "partition.timestamp-formatter": "yyyyMMdd",
    "chain-table.chain-partition-keys": "dt",
}  # fmt: skip
BRANCHES = ("main", "whole", "changes")


def chain_table(path: Path, options: Mapping[str, str], write: Callable[[Mapping[str, pp.Table]], None]) -> pp.Table:
    """A chain table whose branches ``write`` fills: their tables are not written any more once they are a chain."""
    made = pp.Table.create(
        path, _COLUMNS, primary_key="g, dt, k", partition_by="g, dt",
        options={"bucket": "2", "bucket-key": "k", "sequence.field": "s", "write-only": "true", **options},
    )  # fmt: skip
    for name in BRANCHES[1:]:
        made.branches.create(name)
    write({name: pp.Table.open(path, branch=name) for name in BRANCHES})
    for schema in path.rglob("schema-*"):
        members = json.loads(schema.read_text())
        schema.write_text(json.dumps({**members, "options": {**members["options"], **_CHAIN}}))
    METADATA_CACHE.clear()
    return pp.Table.open(path)
