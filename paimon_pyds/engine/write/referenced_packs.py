"""The packs of BLOBs that a data file of a table with a primary key refers to (`engine.write.managed_blobs`)."""

from __future__ import annotations

import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.format.blob.references import decode_descriptor, encode_references
from paimon_pyds.keys.merge.key_values import VALUE_KIND, is_retract


class ReferencedPacks:
    """The packs that the rows of one data file refer to."""

    def __init__(self, context: WriteContext) -> None:
        self._names = [field.name for field in context.managed_blobs]
        self._uris: set[str] = set()

    def update(self, batch: pa.RecordBatch) -> None:
        """Take rows of the file."""
        live = from_numpy(~is_retract(batch.column(VALUE_KIND)))
        for name in self._names:
            values = batch.column(name).filter(live).drop_null()
            self._uris.update(decode_descriptor(value).uri for value in values.to_pylist())

    def encoded(self) -> bytes:
        """The bytes of the file that lists them."""
        return encode_references(self._uris)
