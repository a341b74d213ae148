"""Decoded manifests on this machine's disk, as Arrow IPC, so that the next process need not decode them again."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from paimon_pyds.metadata.manifest import ENTRY_SCHEMA
from paimon_pyds.storage.disk_cache import LocalCache


def cached_entries(
    cache: LocalCache, key: bytes | None, load: Callable[[], pa.RecordBatch], schema: pa.Schema = ENTRY_SCHEMA
) -> pa.RecordBatch:
    """The entries of a manifest: from the cache, else as ``load`` gives them.

    Args:
        cache: stores them.
        key: names the manifest and these columns there; None for a manifest that can't be cached.
        load: reads and decodes the manifest.
        schema: the columns, of `ENTRY_SCHEMA`.
    """
    if key is None:
        return load()
    data = cache.read(key)
    entries = None if data is None else _decode(data, schema)
    if entries is None:
        entries = load()
        cache.write(key, _encode(entries))
    return entries


def _encode(entries: pa.RecordBatch) -> pa.Buffer:
    body = pa.BufferOutputStream()
    with pa.ipc.new_stream(body, entries.schema) as stream:
        stream.write_batch(entries)
    return body.getvalue()


def _decode(data: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch | None:
    try:
        batch = pa.ipc.open_stream(data).read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, StopIteration, OSError):
        return None
    return batch if batch.schema.equals(schema) else None
