"""A column whose value an index already told: rows found by ``column = literal`` need not have it read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from paimon_pyds.buffers import scalar
from paimon_pyds.predicate.tree import Leaf, Op, Predicate
from paimon_pyds.read.evolution import Evolution
from paimon_pyds.types import AtomicType, DataField, Kind, arrow_schema, arrow_type

__all__ = ["Fixed", "fixed_column"]

_LITERALS: dict[Kind, type] = {
    Kind.BOOLEAN: bool, Kind.TINYINT: int, Kind.SMALLINT: int, Kind.INT: int, Kind.BIGINT: int, Kind.DATE: int,
    Kind.VARCHAR: str,
}  # fmt: skip
"""Kinds of which equal values are the same value, whose keys an index keeps whole, and their internal values."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A column of the file with the value that all wanted rows have in it."""

    field: DataField
    value: pa.Scalar

    def complete(self, batch: pa.RecordBatch, fields: tuple[DataField, ...]) -> pa.RecordBatch:
        """A batch of ``fields`` from one that holds all of them but maybe this one."""
        columns = [self._values(batch) if f.name == self.field.name else batch.column(f.name) for f in fields]
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(fields)) if fields else batch

    def _values(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.repeat(self.value, batch.num_rows)


def fixed_column(predicate: Predicate, filtering: Evolution) -> Fixed | None:
    """The column that the predicate fixes for each row it is true for; None when it fixes none.

    Args:
        predicate: bound to the table's columns, the whole filter.
        filtering: how its columns come from the file; one that is cast, renamed or missing there is not fixed.
    """
    if not isinstance(predicate, Leaf) or predicate.op is not Op.EQ or predicate.column.path:
        return None
    if not filtering.is_identity or len(filtering.file_fields) != 1:
        return None
    field = filtering.file_fields[0]
    if field.name != predicate.column.name or not isinstance(field.type, AtomicType):
        return None
    literal = predicate.literals[0]
    if type(literal) is not _LITERALS.get(field.type.kind):
        return None
    return Fixed(field, scalar(literal, arrow_type(field.type)))
