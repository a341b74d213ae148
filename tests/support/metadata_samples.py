"""A snapshot with every member."""

from __future__ import annotations

from typing import Any

from paimon_pyds.metadata.snapshot import BATCH_COMMIT_IDENTIFIER

SNAPSHOT: dict[str, Any] = {
    "version": 3,
    "uuid": "c1f0a1d8",
    "id": 2,
    "schemaId": 0,
    "baseManifestList": "manifest-list-u-0",
    "baseManifestListSize": 1108,
    "deltaManifestList": "manifest-list-u-1",
    "deltaManifestListSize": 1109,
    "changelogManifestList": "manifest-list-u-2",
    "changelogManifestListSize": 7,
    "indexManifest": "index-manifest-u-0",
    "commitUser": "88a1e104",
    "writerVersion": "2.1",
    "commitIdentifier": BATCH_COMMIT_IDENTIFIER,
    "commitKind": "APPEND",
    "timeMillis": 1795221093876,
    "logOffsets": {"0": 12},
    "totalRecordCount": 60,
    "deltaRecordCount": 60,
    "changelogRecordCount": 0,
    "watermark": -9223372036854775808,
    "statistics": "stat-1",
    "properties": {"a": "b"},
    "nextRowId": 0,
    "operation": "MERGE",
}
