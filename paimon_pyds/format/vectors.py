"""Writers of columns with vectors, which are lists in files of every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.base.types.vectors import as_stored, stored_fields

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FormatWriter, SmallFileEncoder


class _Stored:
    """Makes batches of columns what files hold."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._types = [field.type for field in fields]
        self._schema = arrow_schema(stored_fields(fields))

    def stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [as_stored(column, type_) for column, type_ in zip(batch.columns, self._types, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class VectorEncoder(_Stored):
    """A `SmallFileEncoder` by one of the `stored_fields`."""

    def __init__(self, encoder: SmallFileEncoder, fields: Sequence[DataField]) -> None:
        super().__init__(fields)
        self._encoder = encoder

    def encode(self, batch: pa.RecordBatch, path: str) -> bytes | None:
        return self._encoder.encode(self.stored(batch), path)


class VectorWriter(_Stored):
    """A `FormatWriter` by one of the `stored_fields`."""

    def __init__(self, writer: FormatWriter, fields: Sequence[DataField]) -> None:
        super().__init__(fields)
        self._writer = writer

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(self.stored(batch))

    @property
    def bytes_encoded(self) -> int:
        return self._writer.bytes_encoded

    @property
    def bytes_written(self) -> int:
        return self._writer.bytes_written

    def close(self) -> int:
        return self._writer.close()

    def abort(self) -> None:
        self._writer.abort()
