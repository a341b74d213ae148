"""Small Avro files, each decoded whole by one call: what files of one schema share is made once."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from paimon_pyds.base.arrays import one_batch
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.errors import PaimonError
from paimon_pyds.format.avro.container import Block, ContainerReader
from paimon_pyds.format.avro.records import RecordDecoder, to_batch
from paimon_pyds.format.avro.types import plain_schema, project

_MOST_DECODED = 64 << 20
"""Bytes that the blocks of a file may become: one of kilobytes may stand for gigabytes of equal texts."""


class SmallFiles:
    """Decodes the wanted columns of files that are read whole. Used by one thread. ``fields`` carry the names and types
    that the files have."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)
        self._schema = arrow_schema(fields)
        self._seen: tuple[bytes, RecordDecoder] | None = None

    def decode(self, data: bytes, rows: int, path: str) -> pa.Table | None:
        """All rows of a file; None where the format's reader has to find out what is the matter with it.

        ``data``: the whole file. ``rows``: how many the manifest says it has.
        """
        blocks, size = list[Block](), 0
        try:
            file = ContainerReader(lambda start, length: data[start : start + length], len(data), path, _MOST_DECODED)
            decoder = self._decoder(file.schema, path)
            for block in file.blocks():
                blocks.append(block)
                size += len(block.body or b"")
                if size > _MOST_DECODED:
                    return None
            if sum(block.count for block in blocks) != rows:
                return None
            batches = [to_batch(decoder.records(block), self._fields, path) for block in blocks]
        except (PaimonError, ValueError, RecursionError):
            return None
        return pa.Table.from_batches(batches, self._schema)

    def joined(self, tables: Sequence[pa.Table], path: str) -> pa.RecordBatch:
        """The rows of several files as one batch of the wanted columns."""
        return one_batch(pa.concat_tables(tables))

    def _decoder(self, text: bytes, path: str) -> RecordDecoder:
        """A decoder of the wanted columns. ``text``: the schema of the file.
        Raises PaimonError: it is not a schema, or has no such column; ValueError, RecursionError: it is not JSON."""
        if self._seen is None or self._seen[0] != text:
            schema = json.loads(text)
            plain = plain_schema(schema, path)
            self._seen = text, RecordDecoder(plain, project(schema, plain, self._fields, path), path)
        return self._seen[1]
