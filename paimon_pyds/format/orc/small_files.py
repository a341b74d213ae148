"""Small ORC files with checksums, decoded whole, many by one call: all bytes are compared before pyarrow sees them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.arrays import empty_table, one_array, one_batch
from paimon_pyds.base.checksums import block_checksums, checksum
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.errors import PaimonError
from paimon_pyds.format.batches import groups_of_size
from paimon_pyds.format.orc.conversion import check_type, from_orc
from paimon_pyds.format.orc.one_file import one_file
from paimon_pyds.format.orc.tail import OrcTail, OrcType, parse_tail
from paimon_pyds.format.orc.zones import Clocks
from paimon_pyds.format.shared_maps import is_shared
from paimon_pyds.format.small_rows import cut, strung_together, whole_of

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FileRows

_MOST_BYTES = 1 << 20
"""Bytes of files whose rows are decoded by one call."""
_OF_WRITER = Clocks()
"""Of this package's writer, which alone makes checksums."""


class SmallFiles:
    """Decodes the wanted columns of files that are read whole. ``fields`` carry the names and types that files have.
    Used by one thread."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)
        self._schema = arrow_schema(fields)
        # pyarrow takes a dot for a step into a struct
        self._is_readable = not any("." in name for name in self._schema.names)
        self._seen: tuple[OrcType, list[OrcType]] | None = None

    def decode(self, data: bytes, rows: int, path: str) -> pa.Table | None:
        """All rows of a file; None where the format's reader has to read it: another writer's, or a damaged one.

        ``data``: the whole file. ``rows``: how many the manifest says it has.
        """
        tail = self._tail(data, rows, path)
        return None if tail is None else self._decoded(data, tail, path)

    def decode_all(self, data: Sequence[bytes], rows: Sequence[int], paths: Sequence[str]) -> Sequence[FileRows | None]:
        """What `decode` gives of each file; stripes of files with the same types are decoded together."""
        if not self._fields:
            return list(map(self.decode, data, rows, paths))
        found: list[FileRows | None] = [None] * len(data)
        alike: dict[tuple[object, ...], list[tuple[int, OrcTail]]] = {}
        for number, tail in enumerate(map(self._tail, data, rows, paths)):
            if tail is not None:
                kind = id(tail.root), tail.codec, tail.block_size
                alike.setdefault(kind, []).append((number, tail))
        for files in alike.values():
            for some in groups_of_size(files, lambda file: len(data[file[0]]), _MOST_BYTES):
                first = some[0][0]
                whole = data[first] if len(some) == 1 else one_file([(data[number], tail) for number, tail in some])
                table = self._decoded(whole, some[0][1], paths[first])
                counts = [rows[number] for number, _ in some]
                if table is not None and table.num_rows == sum(counts):
                    for (number, _), each in zip(some, cut(one_batch(table), counts), strict=True):
                        found[number] = each
        return found

    def joined(self, tables: Sequence[Any], path: str) -> pa.RecordBatch:
        """The rows of several files as one batch of the wanted columns."""
        parts = list[pa.RecordBatch]()
        for whole, some in groupby(tables, whole_of):
            these = list(some)
            parts += [one_batch(pa.concat_tables(these))] if whole is None else strung_together(these)
        return parts[0] if len(parts) == 1 else one_batch(pa.Table.from_batches(parts, self._schema))

    def _tail(self, data: bytes, rows: int, path: str) -> OrcTail | None:
        """The tail of a file; None where the format's reader has to read it."""
        if not self._is_readable:
            return None
        try:
            tail = parse_tail(lambda offset, length: data[offset : offset + length], len(data), path)
            self._types(tail, path)
            return tail if tail.row_count == rows and _is_whole(data, tail) else None
        except (PaimonError, KeyError):
            return None

    def _types(self, tail: OrcTail, path: str) -> list[OrcType]:
        """The file's types of the wanted columns. Errors as `_type`."""
        if self._seen is None or self._seen[0] is not tail.root or tail.timestamps:
            self._seen = tail.root, [self._type(tail, field, path) for field in self._fields]
        return self._seen[1]

    def _decoded(self, data: bytes, tail: OrcTail, path: str) -> pa.Table | None:
        """All rows of a file that has the types of this tail, and checksums that were compared."""
        import pyarrow.orc as orc

        try:
            types = self._types(tail, path)
            if not types:
                return empty_table(self._schema)
            read = orc.ORCFile(pa.BufferReader(data)).read(columns=self._schema.names)
            columns = [
                from_orc(one_array(read.column(field.name)), field.type, type_, _OF_WRITER, path)
                for field, type_ in zip(self._fields, types, strict=True)
            ]
            return pa.Table.from_arrays(columns, schema=self._schema)
        except (pa.ArrowException, PaimonError, OSError, ValueError, KeyError):
            return None

    def _type(self, tail: OrcTail, field: DataField, path: str) -> OrcType:
        """The file's type of a column. Raises KeyError: it has none, or one that the reader makes of others;
        PaimonError: it is another one."""
        type_ = tail.root.child(field.name)
        if type_ is None or is_shared(type_.names) or not all(map(tail.fits_nanoseconds, type_.walk())):
            raise KeyError(field.name)
        check_type(field.type, type_, field.name, path)
        return type_


def _is_whole(data: bytes, tail: OrcTail) -> bool:
    """Whether the file has checksums, and all of its bytes have theirs."""
    if tail.checksums is None:
        return False
    content, length = tail.metadata
    return (
        checksum(data[content : content + length]) == tail.checksums.statistics
        and tuple(block_checksums(memoryview(data)[:content], tail.checksums.block_size)) == tail.checksums.blocks
    )
