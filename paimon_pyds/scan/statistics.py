"""Column statistics of manifest entries, given to the predicate evaluator as columns.

Statistics are rows (BinaryRow) over the columns that ``_VALUE_STATS_COLS`` names, in the schema the file was written
with. Files that agree in both are evaluated together (specification: format of value statistics, dense store).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy, is_true, scalar, to_numpy
from paimon_pyds.evolution.columns import Evolution, plan_evolution
from paimon_pyds.metadata.manifest_reader import RowStatistics
from paimon_pyds.predicate.prune import may_match
from paimon_pyds.predicate.tree import Const, Predicate, root_columns
from paimon_pyds.types import DataField

__all__ = ["StatisticsGroup", "statistics_groups", "statistics_mask"]


def statistics_mask(
    predicate: Predicate,
    fields: Sequence[DataField],
    entries: pa.RecordBatch,
    fields_of: Callable[[int], Sequence[DataField]],
) -> npt.NDArray[np.bool_]:
    """Which entries may hold a matching row, by their value statistics.

    Args:
        predicate: bound to ``fields``.
        fields: the table's columns.
        entries: manifest entries (`ENTRY_SCHEMA`).
        fields_of: the columns of a schema id.
    """
    keep = np.ones(entries.num_rows, dtype=bool)
    named = set(root_columns(predicate))  # others may be of types that are not supported
    for group in statistics_groups([f for f in fields if f.name in named], entries, fields_of):
        devolved = group.evolution.devolve(predicate)
        if devolved is Const.TRUE:
            continue
        if devolved in (Const.FALSE, Const.UNKNOWN):
            keep[group.rows] = False
            continue
        stats = group.read()
        if stats is not None:
            keep[group.rows] = may_match(devolved, stats.row_counts, stats.of)
    return keep


@dataclass(frozen=True, slots=True)
class StatisticsGroup:
    """Entries whose statistics are about the same columns of the same schema: ``rows`` of ``entries``.

    ``evolution`` turns their columns into those of the table.
    """

    entries: pa.RecordBatch
    rows: npt.NDArray[np.int64]
    schema_fields: Sequence[DataField]
    evolution: Evolution

    def read(self) -> RowStatistics | None:
        """The statistics, by the columns' names in the files' schema; None when there are none."""
        first = int(self.rows[0])
        stats_cols = self.entries.column("value_stats_cols")[first].as_py()
        write_cols = self.entries.column("write_cols")[first].as_py()
        by_name = {f.name: f for f in self.schema_fields}
        names = stats_cols if stats_cols is not None else write_cols or list(by_name)
        if any(name not in by_name for name in names):
            return None
        whole = len(self.rows) == self.entries.num_rows
        group = self.entries if whole else self.entries.take(from_numpy(self.rows))
        if int(_arity(group.column("value_stats_min"))[0]) != len(names):
            return None  # a writer that kept no statistics
        return RowStatistics(
            names=names,
            types=[by_name[name].type for name in names],
            minimum=group.column("value_stats_min"),
            maximum=group.column("value_stats_max"),
            null_counts=group.column("value_stats_nulls"),
            row_counts=group.column("row_count"),
            nan_counted=_nan_counted(group),
        )


def _nan_counted(entries: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Where bounds of floats count NaN as the greatest value.

    Java's do, but of ORC files they are ORC's own statistics, which pass over NaN. So do those of pypaimon-rust and of
    pypaimon (seen of 0.4 and 2.1): they give all rows of a file one sequence number, where Java counts the rows. Files
    of tables that track rows have one number by any writer, and are not trusted either. Nothing else in a manifest
    tells; ORC files do themselves, once they are opened (`formats.orc.prune`).
    """
    numbers = (to_numpy(entries.column(name)) for name in ("min_sequence_number", "max_sequence_number"))
    first, last = numbers
    counted = last - first + 1 >= to_numpy(entries.column("row_count"))
    return np.asarray(counted, np.bool_) & ~is_true(pc.ends_with(entries.column("file_name"), pattern=".orc"))


def statistics_groups(
    fields: Sequence[DataField], entries: pa.RecordBatch, fields_of: Callable[[int], Sequence[DataField]]
) -> Iterator[StatisticsGroup]:
    """The entries in groups that are evaluated together; arguments as for `statistics_mask`."""
    for rows in _groups(entries) if entries.num_rows else ():
        first = int(rows[0])
        schema_fields = fields_of(entries.column("schema_id")[first].as_py())
        evolution = plan_evolution(schema_fields, fields, entries.column("write_cols")[first].as_py())
        yield StatisticsGroup(entries, rows, schema_fields, evolution)


def _groups(entries: pa.RecordBatch) -> list[npt.NDArray[np.int64]]:
    """Row numbers of the entries, grouped by schema, statistics columns, written columns and statistics arity."""
    if entries.num_rows == 1:
        return [np.zeros(1, np.int64)]
    key = pc.binary_join_element_wise(
        pc.cast(entries.column("schema_id"), pa.string()),
        _joined(entries.column("value_stats_cols")),
        _joined(entries.column("write_cols")),
        pc.cast(from_numpy(_arity(entries.column("value_stats_min"))), pa.string()),
        scalar("\x01", pa.string()),
    ).dictionary_encode()
    codes = to_numpy(key.indices)
    if len(key.dictionary) == 1:
        return [np.arange(len(codes))]
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _arity(rows: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """The 4-byte big-endian arity in front of each row; 0 for rows shorter than that."""
    offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    data = np.frombuffer(rows.buffers()[2] or b"", np.uint8)
    whole = offsets[1:] - offsets[:-1] >= 4
    arity = np.zeros(len(rows), np.int64)
    starts = offsets[:-1][whole]
    for i in range(4):
        arity[whole] = (arity[whole] << 8) | data[starts + i]
    return arity


def _joined(lists: pa.ListArray) -> pa.StringArray:
    return pc.fill_null(pc.binary_join(lists, scalar("\x00", pa.string())), scalar("\x02", pa.string()))
