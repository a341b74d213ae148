"""Parquet files of many columns, of which all rows are read: pyarrow decodes their footer, in two microseconds for each
column. `footer` takes ten, and twenty more for each column whose chunk is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from paimon_pyds.base.cache import cached_property
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.conversion import ColumnSize

LEAST_WIDE = 64
"""Columns of a file from which pyarrow's way is faster, although it has to be loaded."""
_SHORTENING = frozenset({"PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_BYTE_ARRAY"})
_INDEX_BYTES = 30
"""Bytes of a page in both page indexes, about."""
_FEW_PAGES = 15
"""Pages of a column up to which `small_pages.has_small_pages` is false."""
_PLAIN_TYPES = frozenset(
    type_.id
    for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32())
)
"""Arrow types of columns that are neither texts nor timestamps, by pyarrow's numbers: the most usual ones."""
_INT96, _BYTE_ARRAY = "INT96", "BYTE_ARRAY"


class WideFile:
    """What pyarrow's ``FileMetaData`` says of a file, as far as reading all rows needs it.

    Raises CorruptFileError: row groups have other rows or columns than the file.
    """

    def __init__(self, metadata: Any) -> None:
        self._groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        self._schema, self._leaves = metadata.schema, metadata.num_columns
        self._others: set[int] = set()  # leaves of columns of other types than _PLAIN_TYPES
        self.rows: list[int] = [group.num_rows for group in self._groups]
        """Of each row group."""
        if sum(self.rows) != metadata.num_rows or min(self.rows, default=0) < 0:
            raise CorruptFileError(f"row groups of {sum(self.rows)} rows in a file of {metadata.num_rows}")
        if any(group.num_columns != self._leaves for group in self._groups):
            raise CorruptFileError(f"a row group that has not the {self._leaves} columns of the schema")

    @cached_property
    def columns(self) -> dict[str, range] | None:
        """The numbers of the leaves under each column; None where pyarrow's schema leaves that open."""
        schema = self._schema.to_arrow_schema()
        found, first = dict[str, range](), 0
        for name, type_ in zip(schema.names, schema.types, strict=True):
            count = _leaves(type_)
            if type_.id not in _PLAIN_TYPES:
                self._others.update(range(first, first + count))
            found[name] = range(first, first + count)
            first += count
        return found if first == self._leaves and len(found) == len(schema.names) else None

    def has_int96(self, leaves: Iterable[int]) -> bool:
        """Whether one of these leaves is a timestamp of twelve bytes. After `columns`."""
        column = self._schema.column
        return any(column(leaf).physical_type == _INT96 for leaf in self._others.intersection(leaves))

    def sizes(self, group: int, leaves: Iterable[int]) -> tuple[int, list[ColumnSize]]:
        """Compressed bytes of these leaves in a row group, and the size of each. After `columns`. Raises
        CorruptFileError."""
        found, compressed = list[ColumnSize](), 0
        for leaf in leaves:
            chunk = self._groups[group].column(leaf)
            size, shortened = chunk.total_compressed_size, False
            if leaf in self._others and chunk.physical_type == _BYTE_ARRAY:
                shortened = not _SHORTENING.isdisjoint(chunk.encodings)
            found.append(ColumnSize(chunk.total_uncompressed_size, chunk.num_values, shortened))
            if min(size, *found[-1]) < 0:
                raise CorruptFileError("a column chunk of less than no bytes or values", field="ColumnMetaData")
            compressed += size
        return compressed, found

    def may_have_small_pages(self, footer_start: int) -> bool:
        """Whether the columns have as many pages that decoding them as `small_pages` does may be faster: by the bytes
        between the last column and the footer, which page indexes take mostly."""
        last = [group.column(self._leaves - 1) for group in self._groups]
        stop = max((chunk.data_page_offset + chunk.total_compressed_size for chunk in last), default=0)
        return bool(footer_start - stop > _INDEX_BYTES * _FEW_PAGES * self._leaves * len(self._groups))


def _leaves(type_: pa.DataType) -> int:
    if not type_.num_fields:
        return 1
    return sum(_leaves(type_.field(i).type) for i in range(type_.num_fields))
