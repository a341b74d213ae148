"""Copies of data files whose BLOBs are in packs (`engine.write.managed_blobs`): they are written again, as their
descriptors have the paths of packs, which a copy has in other places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import array
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import arrow_schema
from paimon_pyds.base.types.kinds import Kind
from paimon_pyds.base.types.vectors import stored_fields
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.rolling import PACKS_SUFFIX
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format import ReadCounters, ReadHints, has_kind
from paimon_pyds.format.blob.references import (
    MANAGED_SUFFIX,
    decode_descriptor,
    encode_descriptor,
    encode_references,
)
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS, with_key_columns
from paimon_pyds.metadata.paths import file_paths, lies_below, named_file
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.blob_packs import listed_packs
from paimon_pyds.storage import FileIO

_BATCH_ROWS = 65_536
"""Rows that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A data file, and its packs: their paths here, and in the copy.

    Attributes:
        context: the table as the file was written.
        path, size: of the data file.
        packs: by the paths here.
        outside: directories outside of the table that may have packs.
    """

    context: WriteContext
    path: str
    size: int
    packs: Mapping[str, str]
    outside: Sequence[str]

    def write(self, io: FileIO, place: str) -> int:
        """Write the copy; its size in bytes. Raises CorruptFileError, StorageError: it can't be read, or written."""
        context, layout = self.context, self.context.layout
        found, options = formats.by_path(self.path), context.raw_options
        fields = stored_fields(layout.physical)
        schema, keys = arrow_schema(fields), context.schema.trimmed_primary_keys
        reader = found.open_reader(context.io, self.path, self.size, ReadCounters(), ReadHints(options))
        try:
            writer = found.open_writer(io, place, fields, options)
            try:
                values = stored_fields((*KEY_VALUE_FIELDS, *layout.values))  # files may lack the columns of the key
                for batch in reader.read(values, RowSelection.ALL, _BATCH_ROWS):
                    rows = with_key_columns(self._moved(batch), keys)
                    writer.write(
                        pa.RecordBatch.from_arrays([rows.column(name) for name in schema.names], schema=schema)
                    )
                return writer.close()
            except BaseException:
                writer.abort()
                raise
        finally:
            reader.close()

    def write_references(self, io: FileIO, place: str) -> int:
        """Write the file that lists the packs; its size in bytes."""
        data = encode_references(self.packs.values())
        io.write_bytes(place, data)
        return len(data)

    def _moved(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        for field in self.context.managed_blobs:
            at = rows.schema.get_field_index(field.name)
            column = rows.column(at)
            moved = array([None if v is None else self._descriptor(v) for v in column.to_pylist()], column.type)
            rows = rows.set_column(at, rows.schema.field(at), moved)
        return rows

    def _descriptor(self, value: bytes) -> bytes:
        found = decode_descriptor(value)
        if not found.uri.endswith(MANAGED_SUFFIX):
            return value
        pack = self.packs.get(named_file(self.context.root, found.uri, self.outside))
        if pack is None:
            raise CorruptFileError(f"{PACKS_SUFFIX} does not list {found.uri}", path=self.path, field="packs")
        return encode_descriptor(found._replace(uri=pack))


def packed_file(
    store: TableStore, schema: TableSchema, level: int, file: tuple[str, int], place: str, root: str
) -> PackedFile:
    """A data file that has a list of packs.

    Args:
        store: the table.
        schema: of the file.
        level: of the file.
        file: its path and size.
        place: of the copy.
        root: of the copy's table.

    Raises:
        CorruptFileError: its list of packs is damaged.
        SecurityError: a pack is in a directory that is not allowed.
        UnsupportedError: it has BLOBs in arrays or maps.
    """
    path, size = file
    nested = [f.name for f in schema.fields if has_kind(f.type, Kind.BLOB) and f.type.kind is not Kind.BLOB]
    if nested:
        raise UnsupportedError(
            f"column {nested[0]}: a table with a primary key and arrays or maps of BLOBs is not copied",
            path=store.root,
            hint="read it, and write the rows into a table of their own",
            feature="blob",
        )
    own = {"file.format": path.rpartition(".")[2]}
    context = WriteContext(store.io, store.root, store.branch, schema, own, existing_rows=True).at_level(level)
    context = context.with_options(own)  # the level may have another format by now
    outside = file_paths(store, schema.options, outside=True).external_roots
    listed = f"{path}{PACKS_SUFFIX}"
    try:
        found = listed_packs(store, listed, outside)
    except FileNotFoundError as error:
        raise store.missing(listed) from error
    packs = {}
    for pack in found:
        inside = lies_below(pack, [store.root])
        folder = place.rpartition("/")[0]
        packs[pack] = f"{root}{pack[len(store.root) :]}" if inside else f"{folder}/{pack.rpartition('/')[2]}"
    return PackedFile(context, path, size, packs, outside)
