"""Files that tell waiting jobs that something is complete: a partition, or a tag (source: Java Paimon 1.4, class
SuccessFile)."""

from __future__ import annotations

import time

from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.metadata.store import TableStore

SUCCESS = "_SUCCESS"
"""The end of their names."""


def write_success_file(store: TableStore, path: str) -> None:
    """Write it, or bring it up to date: it keeps the time when it was first made."""
    now = int(time.time() * 1000)
    try:
        created = store.parse_file(path, lambda data, at: JsonObject(data, at).integer("creationTime"))
    except FileNotFoundError:
        created = now
    store.io.replace(path, to_java_json({"creationTime": created, "modificationTime": now}).encode())
