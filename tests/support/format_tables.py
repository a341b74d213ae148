"""Format tables of a catalog of directories, as Java Paimon's other catalogs have them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE


def format_table(path: Path, columns: str, format_: str, partition_by: Sequence[str] = (), **options: str) -> pp.Table:
    """A format table of a catalog of directories; options with ``_`` for ``-`` and ``__`` for a dot."""
    pp.Table.create(path, columns, partition_by=partition_by)
    file = path / "schema" / "schema-0"
    schema = json.loads(file.read_text())
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema["options"] = {"type": "format-table", "file.format": format_, **named}
    file.write_text(json.dumps(schema))
    METADATA_CACHE.clear()
    return pp.Table.open(path)
