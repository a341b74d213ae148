"""The physical columns of the data files that a write makes.

Files of rows that had row ids before (tables with ``row-tracking.enabled``) keep them, in columns of their own:
``_ROW_ID``, and ``_SEQUENCE_NUMBER``, the snapshot that last changed the row, NULL where it changes just now. Rows of
other files get consecutive row ids when they are committed.
(Source: Paimon documentation, append-table/row-tracking, and what Java Paimon's row-level commands write.)
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_pyds.split import METADATA_FIELDS
from paimon_pyds.types import DataField

__all__ = ["ROW_ID_FIELDS", "SEQUENCE_NUMBER", "RowLayout"]

SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
ROW_ID_FIELDS = tuple(METADATA_FIELDS[name] for name in ("_ROW_ID", SEQUENCE_NUMBER))
"""The columns in which rows keep their row ids."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Which columns the data files of a write have, in order: ``leading``, ``table``, ``trailing``.

    Attributes:
        table: the table's columns, as rows are written with them.
        trailing: columns that rows bring along besides; they have no statistics.
        leading: columns that the bucket writer puts before the table's (keys, sequence numbers and row kinds); they
            have no part in the statistics of values.
    """

    table: tuple[DataField, ...]
    trailing: tuple[DataField, ...] = ()
    leading: tuple[DataField, ...] = ()

    @property
    def incoming(self) -> tuple[DataField, ...]:
        """The columns of the rows that a writer is given."""
        return (*self.table, *self.trailing)

    @property
    def physical(self) -> tuple[DataField, ...]:
        """All columns of the files."""
        return (*self.leading, *self.table, *self.trailing)

    @property
    def trailing_names(self) -> tuple[str, ...]:
        """The names of the columns that rows bring along."""
        return tuple(field.name for field in self.trailing)

    @property
    def written_columns(self) -> tuple[str, ...] | None:
        """``_WRITE_COLS`` of the manifest: None where files have the columns of their schema."""
        return tuple(field.name for field in self.incoming) if self.trailing else None
