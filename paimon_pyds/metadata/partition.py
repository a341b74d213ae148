"""Partition rows (``_PARTITION``: arity + BinaryRow) → texts and columns; conditions on them, and which they keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, array, is_true
from paimon_pyds.base.row import decode_row, decode_rows
from paimon_pyds.base.types import DataField, Kind, arrow_schema, positions_named
from paimon_pyds.errors import OptionError, UnknownColumnError
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate, make_and
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.tree import Literal


class PartitionBucket(NamedTuple):
    """Where rows and files of a table are: the row of the partition (arity + BinaryRow), and the bucket in it."""

    partition: bytes
    bucket: int


FileKey: TypeAlias = tuple[PartitionBucket, str]
"""Partition, bucket and name of a data file."""


@lru_cache(maxsize=4096)
def partition_scalars(fields: tuple[DataField, ...], partition: bytes) -> Mapping[str, pa.Scalar]:
    """Each partition column's value. Raises CorruptFileError."""
    columns = decode_rows(array([partition], pa.binary()), [f.type for f in fields], arity=True)
    return {field.name: column[0] for field, column in zip(fields, columns, strict=True)}


def partition_texts(fields: Sequence[DataField], partition: bytes, options: Mapping[str, str]) -> dict[str, str | None]:
    """Each partition column's value as text, in the form of directory names; None for NULL."""
    legacy = options.get("partition.legacy-name", "true").strip().lower() != "false"
    values = decode_row(partition, [f.type for f in fields])
    from paimon_pyds.base.types.java_text import partition_text

    return {
        f.name: None if v is None else partition_text(v, f.type, legacy=legacy)
        for f, v in zip(fields, values, strict=True)
    }


def partition_values(fields: Sequence[DataField], partitions: pa.BinaryArray) -> pa.RecordBatch:
    """Partition rows (arity + BinaryRow) as columns, which are nullable whatever the fields say."""
    columns = decode_rows(partitions, [f.type for f in fields], arity=True)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([f.with_nullable(True) for f in arrow_schema(fields)]))


def partition_mask(schema: TableSchema, predicate: Predicate, partitions: pa.BinaryArray) -> Flags:
    """A mask of the partitions (arity + BinaryRow) that match a bound predicate on partition columns."""
    if not schema.partition_keys:  # no column has the number of rows
        return np.full(len(partitions), predicate is Const.TRUE)
    return is_true(matches(predicate, partition_values(schema.partition_fields, partitions)))


def partition_is(schema: TableSchema, partition: bytes) -> Predicate:
    """The condition that is true for one partition (arity + BinaryRow)."""
    fields = schema.partition_fields
    values = decode_row(partition, [field.type for field in fields])
    columns = [ColumnRef(field.name, (), field.type, field.id) for field in fields]
    return make_and(
        *(
            Leaf(Op.IS_NULL, column) if value is None else Leaf(Op.EQ, column, (value,))
            for column, value in zip(columns, values, strict=True)
        )
    )


def named_partition(schema: TableSchema, partition: Mapping[str, Any]) -> dict[str, Any]:
    """The same values under the table's spelling of the partition columns: exactly, else ignoring case.
    Raises UnknownColumnError: a name of no column; OptionError: a column that is not a partition column, an ambiguous
    name, or two values for one column."""
    keys, found, unknown = schema.partition_keys, dict[str, Any](), list[str]()
    for name, value in partition.items():
        at = positions_named(str(name), keys)  # no type checker looks at what many users give
        if not at:
            unknown.append(name)
        elif len(at) > 1 or keys[at[0]] in found:
            several = len(at) > 1
            what = f"{name!r} could be several partition columns" if several else f"{keys[at[0]]!r} is named twice"
            raise OptionError(what, hint="spell each partition column as the table does, once")
        else:
            found[keys[at[0]]] = value
    if unknown:
        are_columns = all(positions_named(str(name), schema.field_names) for name in unknown)
        raise (OptionError if are_columns else UnknownColumnError)(
            f"{', '.join(map(repr, unknown))} is no partition column",
            hint=f"the table is partitioned by {', '.join(keys) or 'nothing'}",
        )
    return found


def partition_predicate(schema: TableSchema, partition: Mapping[str, Any]) -> Predicate:
    """``{"dt": "2026-01-01"}`` as a bound predicate; None is the NULL partition; texts are cast.

    A CHAR value is the one partition that holds exactly this text, blanks at its end included.
    Raises OptionError: as `named_partition`; PredicateError: a value that does not fit its column.
    """
    from paimon_pyds.sql.predicate.bind import bind  # planning does without

    leaves: list[Predicate] = []
    for name, value in named_partition(schema, partition).items():
        column = ColumnRef(name)
        leaves.append(Leaf(Op.IS_NULL, column) if value is None else Leaf(Op.EQ, column, (Literal(value, None),)))
    fields = schema.partition_fields
    exact = [DataField(f.id, f.name, tree.STRING) if f.type.kind is Kind.CHAR else f for f in fields]
    return bind(make_and(*leaves), exact)


def partitions_meeting(schema: TableSchema, predicate: Predicate) -> Callable[[Sequence[bytes]], set[bytes]]:
    """Which of some partitions (arity + BinaryRow) a condition on their columns is true for."""

    def meeting(rows: Sequence[bytes]) -> set[bytes]:
        mask = partition_mask(schema, predicate, array(rows, pa.binary())) if rows else ()
        return {row for row, matches in zip(rows, mask, strict=True) if matches}

    return meeting
