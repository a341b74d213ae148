"""The columns that files of tables with a primary key have in addition to the table's own.

Source: Paimon documentation, concepts/spec/datafile, "Table with Primary key DataFile"; Java: class SpecialFields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, to_numpy
from paimon_pyds.base.types import AtomicType, DataField, Kind

if TYPE_CHECKING:
    from paimon_pyds.metadata.schema import TableSchema

KEY_PREFIX = "_KEY_"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
LEVEL = "_LEVEL"
"""A column of merges with the level of each row, if that matters: files don't have it."""

KEY_VALUE_FIELDS = (
    DataField(2_147_483_646, SEQUENCE_NUMBER, AtomicType(Kind.BIGINT, nullable=False)),
    DataField(2_147_483_645, VALUE_KIND, AtomicType(Kind.TINYINT, nullable=False)),
)
"""The columns that stand between those of the key and the table's own."""
_FIRST_KEY_ID = 1_073_741_823
"""Added to the id of a column for its key column (Java: SpecialFields.KEY_FIELD_ID_START)."""

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
"""Row kinds as ``_VALUE_KIND`` holds them: +I, -U, +U, -D."""
ROW_KINDS = ("+I", "-U", "+U", "-D")
ROWKIND = DataField(2147483642, "rowkind", AtomicType(Kind.VARCHAR, length=2_147_483_647))
"""The column that says so in text, where rows are given with their kinds."""


def key_column(name: str) -> str:
    """The column of the file that holds a column of the primary key."""
    return KEY_PREFIX + name


def with_key_columns(rows: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
    """Rows with the columns of the primary key once more, as the file's columns that hold it: the same memory."""
    columns = [*rows.columns, *(rows.column(name) for name in keys)]
    return pa.RecordBatch.from_arrays(columns, names=[*rows.schema.names, *map(key_column, keys)])


def key_field(field: DataField) -> DataField:
    """The column of the file that holds a column of the primary key, with its type and an id of its own."""
    return DataField(_FIRST_KEY_ID + field.id, key_column(field.name), field.type)


def leading_columns(schema: TableSchema) -> tuple[tuple[DataField, int], ...]:
    """See `ReadSpec.leading`; none in tables without a primary key."""
    keys = [schema.field(name) for name in schema.trimmed_primary_keys]
    found = ((key_field(key), key.id) for key in keys)
    return (*found, *((field, -1) for field in KEY_VALUE_FIELDS)) if schema.primary_keys else ()


def with_key_values(schemas: Mapping[int, tuple[DataField, ...]]) -> dict[int, tuple[DataField, ...]]:
    """The columns of files by their schemas, with `KEY_VALUE_FIELDS`."""
    return {id_: tuple(dict.fromkeys((*fields, *KEY_VALUE_FIELDS))) for id_, fields in schemas.items()}


def is_retract(kinds: pa.Array) -> npt.NDArray[np.bool_]:
    """Which row kinds take a row away: -U and -D."""
    found = to_numpy(kinds)
    return np.asarray((found == UPDATE_BEFORE) | (found == DELETE), np.bool_)


def without_deletes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that a reader sees: those that don't take a row away."""
    retract = is_retract(rows.column(VALUE_KIND))
    return rows.filter(from_numpy(~retract)) if retract.any() else rows
