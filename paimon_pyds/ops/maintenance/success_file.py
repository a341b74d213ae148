"""Files that announce to waiting jobs that a partition or a tag is complete (source: Java Paimon 1.4, class
SuccessFile)."""

from __future__ import annotations

import time
from typing import Any

from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.metadata.store import TableStore

SUCCESS = "_SUCCESS"
"""The end of their names."""


def write_success_file(store: TableStore, path: str) -> None:
    """Write it, or bring it up to date: it keeps the time when it was first made, and members that are not known."""
    now = int(time.time() * 1000)
    try:
        created, others = store.parse_file(path, _parse)
    except FileNotFoundError:
        created, others = now, {}
    store.io.replace(path, to_java_json({"creationTime": created, "modificationTime": now, **others}).encode())


def _parse(data: bytes, path: str) -> tuple[int, dict[str, Any]]:
    json = JsonObject(data, path)
    return json.integer("creationTime"), json.others(("creationTime", "modificationTime"))
