"""Messages with a compaction beside new files."""

from __future__ import annotations

from dataclasses import replace

import paimon_pyds as pp
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.metadata.commit_message import CommitMessage, CompactIncrement
from support.manifests import entry_at
from support.messages import written


def with_compaction(table: pp.Table, new: list[int], rows: list[int]) -> CommitMessage:
    """New rows, and a compaction of all live files of a table without buckets into one that holds ``rows``."""
    live = live_of(table._store, table.snapshots.latest())
    before = tuple(entry_at(live, i).file for i in range(live.num_rows))
    (bucket,) = written(table, *new).buckets
    after = tuple(file for part in written(table, *rows).buckets for file in part.files)
    return CommitMessage((replace(bucket, compact=CompactIncrement(before, after)),))
