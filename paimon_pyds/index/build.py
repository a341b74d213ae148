"""Building all indexes of one data file while it is written.

The work is done by numpy and Arrow outside Python's lock for the most part, so that it can run in a thread beside the
encoder of the data file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import OptionError
from paimon_pyds.index.bitmap.reader import BitmapBuilder
from paimon_pyds.index.bloom.filter import BloomBuilder
from paimon_pyds.index.bsi import BsiBuilder
from paimon_pyds.index.config import BITMAP, BLOOM_FILTER, BSI, INDEX_TYPES, RANGE_BITMAP, IndexSpec
from paimon_pyds.index.container import write_container
from paimon_pyds.index.dictionary import ColumnDictionary
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.range_bitmap.reader import RangeBitmapBuilder
from paimon_pyds.types import DataField, DataType, MapType

__all__ = ["FileIndexBuilder"]


class IndexBuilder(Protocol):
    """Makes one index of one column, from whole Arrow columns."""

    def update(self, values: pa.Array) -> None:
        """Append rows. Not to be called on a builder with a shared dictionary: the dictionary is updated instead."""

    def finish(self, row_count: int) -> bytes:
        """The serialized index of the rows given; ``row_count`` is how many they are."""


class FileIndexBuilder:
    """Collects the columns of one data file and makes its container of indexes.

    Args:
        specs: the indexes to build.
        fields: the file's columns.
    """

    def __init__(self, specs: Sequence[IndexSpec], fields: Sequence[DataField]) -> None:
        positions = {f.name: i for i, f in enumerate(fields)}
        grouped: dict[tuple[str, str | None], list[IndexSpec]] = {}
        for spec in specs:
            grouped.setdefault((spec.column, spec.map_key), []).append(spec)
        self._columns = [
            _IndexedColumn(group, positions[column], fields[positions[column]].type)
            for (column, _), group in grouped.items()
        ]
        self.rows = 0

    def update(self, batch: pa.RecordBatch) -> None:
        """Append rows; the batch has the file's columns in order."""
        for column in self._columns:
            column.update(batch)
        self.rows += batch.num_rows

    def finish(self, *, checksums: bool = False) -> bytes | None:
        """The container, or None when no index was asked for. Nothing may be appended afterwards.

        Args:
            checksums: put checksums into it, as into whatever goes to a table.
        """
        if not self._columns:
            return None
        return write_container({c.name: c.finish(self.rows) for c in self._columns}, checksums=checksums)


class _IndexedColumn:
    """One column, or the values behind one map key, with all its indexes; its dictionary is built once."""

    def __init__(self, specs: Sequence[IndexSpec], position: int, type_: DataType) -> None:
        self.name = specs[0].container_name
        self._position = position
        self._map_key = specs[0].map_key
        value_type = type_.value if self._map_key is not None and isinstance(type_, MapType) else type_
        keep_codes = any(spec.index_type != BLOOM_FILTER for spec in specs)
        self._dictionary = ColumnDictionary(key_codec(value_type), keep_codes=keep_codes)
        self._builders = {spec.index_type: _builder(spec, value_type, self._dictionary) for spec in specs}

    def update(self, batch: pa.RecordBatch) -> None:
        values = batch.column(self._position)
        if self._map_key is not None:
            values = pc.map_lookup(values, pa.scalar(self._map_key, values.type.key_type), "first")
        self._dictionary.update(values)

    def finish(self, rows: int) -> dict[str, bytes | None]:
        return {index_type: builder.finish(rows) for index_type, builder in self._builders.items()}


def _builder(spec: IndexSpec, type_: DataType, dictionary: ColumnDictionary) -> IndexBuilder:
    if spec.index_type == BLOOM_FILTER:
        return BloomBuilder(type_, *spec.bloom(), dictionary=dictionary)
    if spec.index_type == BITMAP:
        return BitmapBuilder(type_, *spec.bitmap(), dictionary=dictionary)
    if spec.index_type == BSI:
        return BsiBuilder(type_, dictionary=dictionary)
    if spec.index_type == RANGE_BITMAP:
        return RangeBitmapBuilder(type_, spec.chunk_size(type_), dictionary=dictionary)
    raise OptionError(f"no index of type {spec.index_type} can be built", hint=f"known: {', '.join(INDEX_TYPES)}")
