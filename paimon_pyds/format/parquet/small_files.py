"""Small Parquet files, decoded whole: those that are spelled alike together, others each by one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.types import is_map, is_struct

from paimon_pyds.base.arrays import empty_table, one_batch
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.errors import CorruptFileError, PaimonError
from paimon_pyds.format.parquet.conversion import conform_batch
from paimon_pyds.format.parquet.files_at_once import AlikeFiles
from paimon_pyds.format.parquet.footer import MAGIC, Footer, footer_of
from paimon_pyds.format.parquet.source import open_reader
from paimon_pyds.format.parquet.thrift import check_struct
from paimon_pyds.format.small_rows import cut, strung_together, whole_of

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FileRows

_LEAST_TOGETHER = 6
"""Files from which decoding them together takes less time than each by itself."""
_LEAST_SEEN = 96
"""Files from which the time pays that it takes to learn how their footers are spelled."""
_MOST_MODELS = 4
"""Files like which others are decoded: each has another schema, or another writer."""
_MOST_DECODED = 64 << 20
"""Bytes that the rows of one file may become. A page of kilobytes may stand for gigabytes of equal texts."""


class SmallFiles:
    """Decodes the wanted columns of files that are read whole. Used by one thread.

    ``fields`` carry the names and types that the files have.
    """

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._schema = arrow_schema(fields)
        self._seen: Any = None
        self._leaves: list[int] | None = None
        self._known = _known_of(tuple(fields))

    def decode(self, data: bytes, rows: int, path: str) -> pa.Table | None:
        """All rows of a file; None where the format's reader has to find out what is the matter with it.

        ``data``: the whole file. ``rows``: how many the manifest says it has.
        """
        if not _has_footer(data):
            return None
        try:
            reader = open_reader(pa.BufferReader(pa.py_buffer(data)))
            metadata = reader.metadata
            sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
            if metadata.num_rows != rows or sum(sizes) * max(rows, 1) > _MOST_DECODED * max(1, len(self._schema)):
                return None
            leaves = self._leaves_of(metadata.schema)
            if not leaves:
                return None if leaves is None else empty_table(self._schema)
            table = reader.read_all(column_indices=leaves, use_threads=False)
        except (pa.ArrowException, PaimonError, OSError, ValueError, MemoryError, OverflowError):
            return None
        return table if table.num_rows == rows and table.num_columns == len(self._schema) else None

    def decode_all(self, data: Sequence[bytes], rows: Sequence[int], paths: Sequence[str]) -> list[FileRows | None]:
        """What `decode` gives of each file; those that are spelled alike are decoded together."""
        found: list[FileRows | None] = [None] * len(data)
        left = self._together(data, rows, paths, found) if len(data) >= _LEAST_TOGETHER else range(len(data))
        for number in left:
            found[number] = self.decode(data[number], rows[number], paths[number])
        return found

    def _together(
        self, data: Sequence[bytes], rows: Sequence[int], paths: Sequence[str], found: list[FileRows | None]
    ) -> Iterable[int]:
        """Add to ``found`` what files hold that can be decoded together; the numbers of the others."""
        left = [number for number, file in enumerate(data) if _has_footer(file)]
        self._known.seen += len(left)
        known = self._known.models
        for at in range(_MOST_MODELS + 1):
            if len(left) < _LEAST_TOGETHER:
                break
            model = known[at] if at < len(known) else self._model(data[left[0]], paths[left[0]])
            if model is None:
                break
            chunks = {number: model.chunks(data[number], rows[number]) for number in left}
            files = [(data[number], chunk, rows[number]) for number, chunk in chunks.items() if chunk is not None]
            numbers = iter([number for number in left if chunks[number] is not None])
            left = [number for number in left if chunks[number] is None]
            if files:
                self._known.used(model)
            for count, table in model.decode(files):
                some = list(islice(numbers, count))
                batch = None if table is None else self._conformed(table, paths[some[0]])
                if batch is not None:
                    for number, each in zip(some, cut(batch, [rows[number] for number in some]), strict=True):
                        found[number] = each
        return [number for number, rows_of in enumerate(found) if rows_of is None]

    def _model(self, data: bytes, path: str) -> AlikeFiles | None:
        """A decoder of files like this one; None where these are read one by one, or too few to pay."""
        if self._known.seen < _LEAST_SEEN:
            return None
        try:
            footer = bytes(footer_of(memoryview(data)))
            reader = open_reader(pa.BufferReader(pa.py_buffer(data)))
            leaves = self._leaves_of(reader.metadata.schema)
            if self._has_own_keys(reader.schema_arrow):
                return None
            return AlikeFiles(footer, Footer(footer, path, len(data)).leaves, leaves) if leaves else None
        except (pa.ArrowException, PaimonError, OSError, ValueError, IndexError, KeyError):
            return None

    def joined(self, tables: Sequence[Any], path: str) -> pa.RecordBatch:
        """The rows of several files as one batch of the wanted columns. Raises as `conform_batch`."""
        parts = list[pa.RecordBatch]()
        for whole, some in groupby(tables, whole_of):
            these = list(some)
            parts += [self._joined(these, path)] if whole is None else strung_together(these)
        return parts[0] if len(parts) == 1 else one_batch(pa.Table.from_batches(parts, self._schema))

    def _joined(self, tables: Sequence[pa.Table], path: str) -> pa.RecordBatch:
        names = self._schema.names
        try:
            whole = None if self._has_own_keys(tables[0].schema) else pa.concat_tables(tables).select(names)
        except pa.ArrowInvalid:  # their schemas differ
            whole = None
        if whole is None:
            parts = [conform_batch(one_batch(table.select(names)), self._schema, path) for table in tables]
            whole = pa.Table.from_batches(parts, self._schema)
        return conform_batch(one_batch(whole), self._schema, path)

    def _conformed(self, table: pa.Table, path: str) -> pa.RecordBatch | None:
        """The rows as wanted; None where that is to be found out file by file."""
        try:
            return conform_batch(one_batch(table.select(self._schema.names)), self._schema, path)
        except (PaimonError, pa.ArrowException, KeyError):
            return None

    def _has_own_keys(self, schema: pa.Schema) -> bool:
        """Whether each file has its own keys of a MAP: see `SharedKeys`."""
        names = [field.name for field in self._schema if is_map(field.type)]
        return any(is_struct(schema.field(name).type) for name in names)

    def _leaves_of(self, schema: Any) -> list[int] | None:
        """The leaves of the wanted columns, in the order of the file; None where one is missing or of 96 bits."""
        if self._seen is not None and schema.equals(self._seen):
            return self._leaves
        found, wanted = list[int](), set(self._schema.names)
        missing = set(wanted)
        for number in range(len(schema)):
            column = schema.column(number)
            name = column.path.partition(".")[0] if column.path not in wanted else column.path
            if name in wanted:
                missing.discard(name)
                found.append(number)
                if column.physical_type == "INT96":
                    missing.add(name)
        self._seen, self._leaves = schema, None if missing else found
        return self._leaves


class _Known:
    """What a process knows of files with some columns: those like which others are decoded, and how many it has seen.
    Several threads may use it."""

    def __init__(self) -> None:
        self.models: list[AlikeFiles] = []
        self.seen = 0

    def used(self, model: AlikeFiles) -> None:
        """Try this one first from now on."""
        self.models = [model, *(each for each in self.models if each is not model)][:_MOST_MODELS]


@lru_cache(maxsize=16)
def _known_of(_fields: tuple[DataField, ...]) -> _Known:
    return _Known()


def _has_footer(file: bytes) -> bool:
    """Whether a file ends in a footer, which has its checksum, if any."""
    length = int.from_bytes(file[-8:-4], "little")
    if file[-4:] != MAGIC or length > len(file) - 12:
        return False
    try:
        check_struct(file[-8 - length : -8], "FileMetaData")
    except CorruptFileError:
        return False
    return True
