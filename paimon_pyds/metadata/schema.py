"""The schema file: ``schema/schema-N`` (specification: Paimon documentation, concepts/spec/schema)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_pyds.errors import SchemaError
from paimon_pyds.types import DataField

__all__ = ["TableSchema"]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's schema. ``fields`` are the top-level columns in order."""

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    version: int = 3

    def field(self, name: str) -> DataField:
        """The column of that exact name. Raises SchemaError."""
        for f in self.fields:
            if f.name == name:
                return f
        raise SchemaError(f"the table has no column {name!r}")

    @property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns, in partition order."""
        return tuple(self.field(name) for name in self.partition_keys)
