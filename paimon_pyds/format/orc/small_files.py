"""Small ORC files with checksums, each decoded whole by one call: all bytes are compared before pyarrow sees them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from paimon_pyds.base.arrays import empty_table, one_array, one_batch
from paimon_pyds.base.checksums import block_checksums, checksum
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.errors import PaimonError
from paimon_pyds.format.orc.conversion import check_type, from_orc
from paimon_pyds.format.orc.tail import OrcTail, OrcType, parse_tail
from paimon_pyds.format.orc.zones import Clocks
from paimon_pyds.format.shared_maps import is_shared

_OF_WRITER = Clocks()
"""Of this package's writer, which alone makes checksums."""


class SmallFiles:
    """Decodes the wanted columns of files that are read whole. ``fields`` carry the names and types that files have."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)
        self._schema = arrow_schema(fields)
        # pyarrow takes a dot for a step into a struct
        self._is_readable = not any("." in name for name in self._schema.names)

    def decode(self, data: bytes, rows: int, path: str) -> pa.Table | None:
        """All rows of a file; None where the format's reader has to read it: another writer's, or a damaged one.

        ``data``: the whole file. ``rows``: how many the manifest says it has.
        """
        if not self._is_readable:
            return None
        import pyarrow.orc as orc

        try:
            tail = parse_tail(lambda offset, length: data[offset : offset + length], len(data), path)
            if tail.row_count != rows or not _is_whole(data, tail):
                return None
            types = [self._type(tail, field, path) for field in self._fields]
            if not types:
                return empty_table(self._schema)
            read = orc.ORCFile(pa.BufferReader(data)).read(columns=self._schema.names)
            columns = [
                from_orc(one_array(read.column(field.name)), field.type, type_, _OF_WRITER, path)
                for field, type_ in zip(self._fields, types, strict=True)
            ]
            found = pa.Table.from_arrays(columns, schema=self._schema)
        except (pa.ArrowException, PaimonError, OSError, ValueError, KeyError):
            return None
        return found if found.num_rows == rows else None

    def decode_all(self, data: Sequence[bytes], rows: Sequence[int], paths: Sequence[str]) -> Sequence[pa.Table | None]:
        """What `decode` gives of each file."""
        return list(map(self.decode, data, rows, paths))

    def joined(self, tables: Sequence[pa.Table], path: str) -> pa.RecordBatch:
        """The rows of several files as one batch of the wanted columns."""
        return one_batch(pa.concat_tables(tables))

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
