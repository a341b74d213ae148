"""A table's rows merged: the versions of each key put in order, and made one row by the table's merge engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, one_batch, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.keys.merge.changelog import Changelog
from paimon_pyds.keys.merge.engine_options import merge_engine, sequence_fields
from paimon_pyds.keys.merge.key_values import LEVEL, SEQUENCE_NUMBER, VALUE_KIND, key_column
from paimon_pyds.keys.merge.older_versions import OlderVersions
from paimon_pyds.keys.merge.versions import Versions, sort_versions
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.sql.predicate.tree import Predicate


class RowMerger:
    """Merges rows from files of a table with a primary key.

    Where rows have a column ``_LEVEL``, the version of the lowest level above 0 counts for all on higher ones: it was
    made of them when it was compacted; but the engine first-row goes by age alone. (Java: class LookupMergeFunction.)

    ``schema``: the table's. Its options say which engine merges, and what orders the versions of a key.
    ``within``: columns that distinguish rows before their keys do, where rows of several buckets are merged at once.
    ``keeps_single``: a key with one version keeps it, whatever the engine; compactions that look up older versions
    merge it by itself.

    Raises:
        OptionError: the options contradict one another.
        SchemaError: they name columns that are not there, or a function that does not take the column's type.
        UnsupportedError: they name a function that is not known here.

    Attributes:
        keys: the columns that all versions of a row have the same values in: ``_KEY_…``.
    """

    def __init__(self, schema: TableSchema, *, within: Sequence[str] = (), keeps_single: bool = True) -> None:
        self.keys = (*within, *map(key_column, schema.trimmed_primary_keys))
        self._sequence = sequence_fields(schema)
        self._engine = merge_engine(schema)
        self._by_level = OlderVersions.of(TableOptions(schema.options)).lowest_level_counts
        self._keeps_single = keeps_single

    def required_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns that `merge` needs, to give these."""
        named = (*self.keys, SEQUENCE_NUMBER, VALUE_KIND, *self._sequence.names)
        return tuple(dict.fromkeys((*named, *self._engine.required_columns(columns))))

    def conditions_on_versions(self, predicate: Predicate) -> tuple[Predicate, ...]:
        """Conditions that each must be true for at least one version of a key if its merged row matches a filter; empty
        if single versions decide nothing about the merged row."""
        return self._engine.conditions_on_versions(predicate)

    def merge(self, rows: pa.Table | pa.RecordBatch, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """One row for each key, in the order of keys. It includes deletes (`without_deletes` drops them).

        ``rows``: all versions of each key in it, with `required_columns`. Sorted runs one after the other, older ones
        first, are merged fastest. ``columns``: those of the result, ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` among them
        if they are wanted; all columns when not given.

        Raises:
            UnsupportedError: rows are deleted that the engine, as the table's options have it, can't delete.
            SchemaError: values that an aggregate function fails on.
        """
        batch = one_batch(rows) if isinstance(rows, pa.Table) else rows
        return self._engine.merge(batch, self._versions(batch), batch.schema.names if columns is None else columns)

    def needed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows without which `merge`, of these and any others, could give another result.

        The engines deduplicate and first-row need three versions of a key at most, partial-update without sequence
        groups a few more than there are columns. With sequence groups, and for aggregation, all are needed: what they
        make of some versions depends on those between them.
        """
        needed = self._engine.needed(rows, self._versions(rows))
        return rows if len(needed) == rows.num_rows else rows.take(from_numpy(needed))

    def needed_in_order(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that `needed` gives, key by key in their order, and of each key from the oldest to the newest."""
        versions = self._versions(rows)
        kept = np.zeros(rows.num_rows, np.bool_)
        kept[self._engine.needed(rows, versions)] = True
        return rows.take(from_numpy(versions.order[kept[versions.order]]))

    def merge_and_log(
        self, rows: pa.RecordBatch, columns: Sequence[str], changelog: Changelog
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """`merge`, and the changes that a changelog has of it, with the same columns; those of the table among them.

        ``rows``: as for `merge`, with ``_LEVEL``. ``columns``: of the results. ``changelog``: which changes.
        Raises UnsupportedError, SchemaError: as `merge`.
        """
        versions = self._sorted(rows)
        merged = self._engine.merge(rows, self._counted(rows, versions), columns)
        return merged, changelog.changes(rows, versions, merged)

    def _versions(self, rows: pa.RecordBatch) -> Versions:
        """Those that count."""
        return self._counted(rows, self._sorted(rows))

    def _sorted(self, rows: pa.RecordBatch) -> Versions:
        return replace(sort_versions(rows, self.keys, self._sequence), keeps_single=self._keeps_single)

    def _counted(self, rows: pa.RecordBatch, versions: Versions) -> Versions:
        if not self._by_level or LEVEL not in rows.schema.names or not rows.num_rows:
            return versions
        levels = to_numpy(rows.column(LEVEL))[versions.order]
        return versions.only((levels == 0) | versions.on_lowest_level(levels))
