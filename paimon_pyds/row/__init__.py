"""BinaryRow: the byte form of partitions, keys and statistics in manifests, and what buckets are hashed from.

Everything works on columns: `encode_rows` makes one row of each element of some Arrow arrays, `decode_rows` and
`decode_column` take rows apart, `hash_rows` gives the hash that Java's ``BinaryRow.hashCode`` gives. `encode_row` and
`decode_row` are the forms for a single row of internal values (see `paimon_pyds.types`).

A row is a header byte (the row kind, 0), a null bit per field, then 8 bytes per field, then a variable part; all
integers are little-endian. The manifest form puts the number of fields in front, 4 bytes big-endian. (Source of the
format: the rows in manifests that Java Paimon 1.4 writes, and its ``BinaryRow``.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paimon_pyds.row.decode import DecodedColumn, decode_column, decode_rows
from paimon_pyds.row.encode import encode_rows
from paimon_pyds.row.hashing import hash_rows
from paimon_pyds.types import DataType, scalar_to_internal

__all__ = [
    "EMPTY_ROW",
    "DecodedColumn",
    "decode_column",
    "decode_row",
    "decode_rows",
    "encode_row",
    "encode_rows",
    "hash_rows",
]

EMPTY_ROW = bytes(12)
"""The row without fields, in manifest form: the partition of an unpartitioned table, the keys of an append table."""


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """One row of internal values in manifest form (4-byte big-endian arity in front).

    Raises:
        SchemaError: a value that its type can't hold, or as many values as types are not given.
        UnsupportedError: a nested type.
    """
    import pyarrow as pa

    from paimon_pyds.buffers import array
    from paimon_pyds.errors import SchemaError
    from paimon_pyds.types import arrow_type

    if len(values) != len(types):
        raise SchemaError(f"{len(values)} values for a row of {len(types)} fields")
    if not types:
        return EMPTY_ROW
    columns = []
    for value, type_ in zip(values, types, strict=True):
        try:
            columns.append(array([value], arrow_type(type_)))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise SchemaError(f"{value!r:.100} is not a value of {type_}") from error
    encoded: bytes = encode_rows(columns, types, arity=True)[0].as_py()
    return encoded


def decode_row(row: bytes, types: Sequence[DataType], *, path: object = None) -> tuple[Any, ...]:
    """The internal values of one row in manifest form.

    Raises:
        CorruptFileError: the bytes are not a row of these types.
        UnsupportedError: a nested type, or a timestamp outside the range of its Arrow type.
    """
    import pyarrow as pa

    from paimon_pyds.buffers import array

    columns = decode_rows(array([row], pa.binary()), types, arity=True, path=path)
    return tuple(scalar_to_internal(column[0]) for column in columns)
