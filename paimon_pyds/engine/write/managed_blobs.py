"""BLOB values of tables with a primary key: in packs, to which data files refer by descriptors.

A pack is a file of entries that nothing lists: data files that refer to one say so in a file next to them, and Java
never removes packs. Compactions write descriptors again, and no values. (Source: Paimon documentation,
primary-key-table/blob-storage; Java: classes PrimaryKeyBlobExternalizer and ManagedBlobReferenceCollector.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, pc, scalar
from paimon_pyds.base.progress import count
from paimon_pyds.engine.write.blob_files import BlobColumnWriter, values_of
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.format.blob import codec
from paimon_pyds.format.blob.references import (
    MANAGED_SUFFIX,
    BlobDescriptor,
    check_references,
    encode_descriptor,
)
from paimon_pyds.keys.merge.key_values import VALUE_KIND, is_retract
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.storage import discard

if TYPE_CHECKING:
    from paimon_pyds.engine.write.bucket_writer import BucketWriter


class ManagedBlobsWriter:
    """A `BucketWriter` whose rows have values, for one whose rows have descriptors.

    Rows that were in the table before have descriptors already; rows that take others away have no value.
    """

    def __init__(self, context: WriteContext, bucket: BucketFiles, rows: BucketWriter) -> None:
        self._rows = rows
        managed = () if context.existing_rows else context.managed_blobs
        self._packs = {field.name: _PackWriter(context, bucket.directory, field) for field in managed}
        self._names, self._views = sorted(context.layout.references), context.layout.views
        self._stored = {field.name for field in context.managed_blobs}.difference(self._packs)

    def write(self, batch: pa.RecordBatch) -> None:
        """See `BucketWriter`.

        Raises:
            SchemaError: something else than a descriptor, where these are written.
            UnsupportedError: the same, of rows that were in the table before, where packs have the values.
        """
        retract = is_retract(batch.column(VALUE_KIND))
        for name in self._names:
            column = batch.column(name)
            if name in self._packs:
                if retract.any():
                    column = pc.if_else(from_numpy(retract), scalar(None, column.type), column)
                place = batch.schema.get_field_index(name)
                batch = batch.set_column(place, batch.schema.field(place), self._packs[name].descriptors(column))
            else:
                self._check(name, column)
        self._rows.write(batch)

    def _check(self, name: str, column: pa.Array) -> None:
        try:
            check_references(name, column, views=name in self._views)
        except SchemaError as error:
            if name not in self._stored:
                raise
            raise UnsupportedError(
                f"column {name!r}: BLOBs of tables with a primary key get new values by append alone",
                hint="append whole rows: they replace those with the same keys",
                feature="blob",
            ) from error

    @property
    def held_bytes(self) -> int:
        return self._rows.held_bytes

    def spill(self) -> bool:
        return self._rows.spill()

    @property
    def spilled_bytes(self) -> int:
        return self._rows.spilled_bytes

    def flush(self) -> None:
        self._rows.flush()

    def close(self) -> BucketFiles:
        for packs in self._packs.values():
            packs.cut()
        return self._rows.close()

    def abort(self) -> None:
        for packs in self._packs.values():
            packs.abort()
        self._rows.abort()


class _PackWriter(BlobColumnWriter):
    """Writes values of one column of one bucket; a pack ends at ``blob.target-file-size``."""

    suffix = MANAGED_SUFFIX

    def descriptors(self, column: pa.Array) -> pa.Array:
        """The values' descriptors, when all values are written; NULL stays. Raises as `BlobColumnWriter.write`."""
        found: list[bytes | None] = []
        for value in values_of(column, self._field):
            if value is None:
                found.append(None)
                continue
            if self._output is None:
                self._output = self._start()
            path, offset = self._path, self._written + codec.HEAD_BYTES
            self._put(value)
            found.append(encode_descriptor(BlobDescriptor(path, offset, self._lengths[-1] - codec.OVERHEAD_BYTES)))
            if self._written >= self._target:
                self._finish()
        return array(found, column.type)

    def abort(self) -> None:
        if self._output is not None:
            self._output.abort()
            self._output = None
        discard(self._context.io, self._finished)

    def _add(self, size: int) -> None:
        count(written=size)
        self._finished.append(self._path)
