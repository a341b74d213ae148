"""Files in the directory of Iceberg metadata that nothing names: writers that raced, or were killed, leave them."""

from __future__ import annotations

import json
import re

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.iceberg import publishes
from paimon_pyds.errors import PaimonError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.iceberg import manifests as avro
from paimon_pyds.ops.iceberg.folder import IcebergFolder
from paimon_pyds.storage import FileIO

WRITTEN = re.compile(r"snap-\d+-[0-9a-f-]{36}\.avro|[0-9a-f-]{36}-m\d+\.avro", re.ASCII)
"""Names of manifest lists and manifests, as Java Paimon and this package write them."""
_LISTINGS = 5
"""How often metadata is looked for that others replace meanwhile."""


def directories(store: TableStore) -> list[str]:
    """Where Iceberg metadata of a table may be: where its options have it, and next to the table."""
    options = TableOptions(store.latest_schema().options)
    named = [IcebergFolder(store, options).path] if publishes(options) else []
    return list(dict.fromkeys([f"{store.root}/metadata", *named]))


def needed_names(io: FileIO, directory: str) -> set[str]:
    """The names of all manifests and lists there that any metadata names, also that of Iceberg's own writers.

    All that are there where metadata is damaged, compressed, elsewhere, or replaced all the time.
    """
    for _ in range(_LISTINGS):
        names = [status.name for status in io.list(directory) if "metadata.json" in status.name]
        try:
            found = [_named(io, directory, name) for name in names]
        except FileNotFoundError:
            continue  # a later version has taken its place
        except (ValueError, KeyError, TypeError, PaimonError):
            break
        if not found:
            break
        return set[str]().union(*found)
    return {status.name for status in io.list(directory)}


def _named(io: FileIO, directory: str, name: str) -> set[str]:
    if not name.endswith(".metadata.json"):
        raise ValueError(name)
    found = set[str]()
    for snapshot in json.loads(io.read_bytes(f"{directory}/{name}")).get("snapshots", ()):
        path = snapshot["manifest-list"].rpartition("/")[2]
        found.add(path)
        try:
            data = io.read_bytes(f"{directory}/{path}")
        except FileNotFoundError:  # its snapshot has expired since that version
            continue
        found.update(manifest["manifest_path"].rpartition("/")[2] for manifest in avro.decode_list(data, path))
    return found
