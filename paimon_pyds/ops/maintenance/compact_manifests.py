"""Manifests written anew, by a COMPACT snapshot that changes no file (source: Java Paimon 1.4, FileStoreCommitImpl)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from paimon_pyds.base.options import check_writable
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted, human_bytes
from paimon_pyds.base.text import Summary, summary_text
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.commit.manifests import manifests_to_rewrite
from paimon_pyds.engine.commit.publisher import Retries, on_newest
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.expire import maintenance_options


@dataclass(frozen=True, slots=True, repr=False)
class ManifestSummary(Summary):
    """Manifests that were, or would be, written anew.

    Attributes:
        manifests: how many the table had.
        manifests_after: how many it has now; as many in a dry run.
        rewritten: how many were read for that.
        bytes: their size.
        snapshot_id: that was published; None where nothing was to be done.
        seconds: time taken.
        dry_run: nothing was written.
    """

    manifests: int
    manifests_after: int
    rewritten: int
    bytes: int
    snapshot_id: int | None
    seconds: float
    dry_run: bool

    def __str__(self) -> str:
        verb = "would be rewritten" if self.dry_run else f"rewritten, {self.manifests_after:,} now"
        what = f"{self.rewritten:,} of {counted(self.manifests, 'manifest')} ({human_bytes(self.bytes)}) {verb}"
        return summary_text(self.snapshot_id, [what], self.seconds)


def compact_manifests(
    store: TableStore, options: Mapping[str, str] | None = None, *, dry_run: bool = False
) -> ManifestSummary:
    """Write the manifests of the latest snapshot anew; see ``table.maintenance.compact_manifests``.
    Raises UnsupportedError: a table that can't be written to; CommitError: not published."""
    started = time.monotonic()
    summary = on_newest(store, partial(_once, store, options, dry_run), options)
    return replace(summary, seconds=time.monotonic() - started)


def _once(
    store: TableStore, options: Mapping[str, str] | None, dry_run: bool, latest: Snapshot | None, _: Retries
) -> ManifestSummary:
    typed, schema = maintenance_options(store, options), store.latest_schema()
    check_writable(schema, options, existing_rows=True, metadata_only=True)
    reader, snapshot = ManifestReader(store), None
    before = after = reader.manifests(latest)
    rewritten = manifests_to_rewrite(store, schema, before, int(typed.get("manifest.target-file-size")))
    if not dry_run and latest is not None:
        increment = Increment(kind=CommitKind.COMPACT, rewrites_manifests=True)
        snapshot = commit(store, Changes((increment,)), typed)
        names = set()
        if snapshot is not None:
            after = reader.manifests(snapshot)
            names = {m.file_name for m in before} - {m.file_name for m in after}
        rewritten = [m for m in before if m.file_name in names]
    return ManifestSummary(
        manifests=len(before),
        manifests_after=len(after),
        rewritten=len(rewritten),
        bytes=sum(m.file_size for m in rewritten),
        snapshot_id=None if snapshot is None else snapshot.id,
        seconds=0.0,
        dry_run=dry_run,
    )
