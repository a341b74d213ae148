"""Small Avro files, each decoded whole by one call; the columns of many are made together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField
from paimon_pyds.errors import CorruptFileError, PaimonError
from paimon_pyds.format.avro.container import Block, ContainerReader
from paimon_pyds.format.avro.records import RecordDecoder, to_batch
from paimon_pyds.format.avro.types import plain_schema, project

_MOST_DECODED = 64 << 20
"""Bytes that the blocks of a file may become: one of kilobytes may stand for gigabytes of equal texts."""
_VALUE_BYTES = 64
"""Bytes of memory that a value of a record takes, about, besides its own."""


@dataclass(frozen=True, slots=True)
class FileRecords:
    """The rows of a file as records, ``stored`` bytes of the file once decompressed."""

    records: Sequence[dict[str, Any]]
    stored: int
    path: str

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.records)

    def get_total_buffer_size(self) -> int:
        """Bytes of memory that they take, about."""
        return self.stored + _VALUE_BYTES * sum(map(len, self.records))

    def take(self, positions: pa.Array) -> FileRecords:
        """The rows at some positions."""
        return FileRecords([self.records[at] for at in positions.to_pylist()], self.stored, self.path)


class SmallFiles:
    """Decodes the wanted columns of files that are read whole. Used by one thread. ``fields`` carry the names and types
    that the files have."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)
        self._seen: tuple[bytes, RecordDecoder] | None = None

    def decode(self, data: bytes, rows: int, path: str) -> FileRecords | None:
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
            records = [record for block in blocks for record in decoder.records(block)]
        except (PaimonError, ValueError, RecursionError):
            return None
        return FileRecords(records, size, path)

    def decode_all(
        self, data: Sequence[bytes], rows: Sequence[int], paths: Sequence[str]
    ) -> Sequence[FileRecords | None]:
        """What `decode` gives of each file."""
        return list(map(self.decode, data, rows, paths))

    def joined(self, tables: Sequence[FileRecords], path: str) -> pa.RecordBatch:
        """The rows of several files as one batch of the wanted columns. Raises as `to_batch`."""
        try:
            return to_batch(list(chain.from_iterable(each.records for each in tables)), self._fields, path)
        except CorruptFileError:
            for each in tables:
                to_batch(each.records, self._fields, each.path)
            raise

    def _decoder(self, text: bytes, path: str) -> RecordDecoder:
        """A decoder of the wanted columns. ``text``: the schema of the file.
        Raises PaimonError: it is not a schema, or has no such column; ValueError, RecursionError: it is not JSON."""
        if self._seen is None or self._seen[0] != text:
            schema = json.loads(text)
            plain = plain_schema(schema, path)
            self._seen = text, RecordDecoder(plain, project(schema, plain, self._fields, path), path)
        return self._seen[1]
