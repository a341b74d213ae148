"""BinaryRow: the byte form of partitions, keys and statistics in manifests, and what buckets are hashed from.

Everything works on columns: `encode_rows` makes one row of each element of some Arrow arrays, `decode_rows`,
`decode_column` and `columns_of` take rows apart, `hash_rows` gives the hash that Java's ``BinaryRow.hashCode`` gives.
`encode_row` and `decode_row` are the forms for a single row of internal values (see `paimon_pyds.base.types`).

A row is a header byte (the row kind, 0), a null bit per field, then 8 bytes per field, then a variable part; all
integers are little-endian. The manifest form puts the number of fields in front, 4 bytes big-endian. (Source of the
format: the rows in manifests that Java Paimon 1.4 writes, and its ``BinaryRow``.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_pyds.base.row.decode import DecodedColumn, arities, columns_of, decode_column, decode_row, decode_rows

if TYPE_CHECKING:
    from paimon_pyds.base.row.encode import EMPTY_ROW, encode_row, encode_rows, hash_row, hash_rows

__all__ = [
    "EMPTY_ROW", "DecodedColumn", "arities", "columns_of", "decode_column", "decode_row", "decode_rows", "encode_row",
    "encode_rows", "hash_row", "hash_rows",
]  # fmt: skip


if not TYPE_CHECKING:  # checkers see the names above

    def __getattr__(name: str) -> Any:
        """What encodes is loaded at its first use: readers have none."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from paimon_pyds.base.row import encode

        globals()[name] = found = getattr(encode, name)
        return found
