"""The snapshot file: ``snapshot/snapshot-N`` (specification: Paimon documentation, concepts/spec/snapshot)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["BATCH_COMMIT_IDENTIFIER", "CommitKind", "Snapshot"]

BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""The commit identifier of every batch commit (Java's Long.MAX_VALUE)."""


class CommitKind(enum.Enum):
    """What a commit did. Do not rely on it alone: a delete by deletion vectors is an OVERWRITE."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One state of the table. Times are milliseconds since the epoch; absent members are None."""

    id: int
    schema_id: int
    base_manifest_list: str
    base_manifest_list_size: int | None = None
    delta_manifest_list: str
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    log_offsets: dict[str, int] | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: dict[str, str] | None = None
    next_row_id: int | None = None
    version: int = 3
