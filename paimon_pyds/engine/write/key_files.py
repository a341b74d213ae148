"""Data files of tables with a primary key: sorted runs, which hold the rows of a bucket in the order of their keys.

Source: Paimon documentation, concepts/spec/datafile, "Table with Primary key DataFile"; Java: class
KeyValueDataFileWriter.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, is_true, pc
from paimon_pyds.base.row import encode_rows
from paimon_pyds.base.types import AtomicType, DataField, Kind, arrow_schema
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.rolling import RollingWriter, RowMetadata, WriterThreads
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.format import traits_of
from paimon_pyds.format.statistics import StatsCollector, encode_stats, stats_modes
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER, VALUE_KIND, is_retract, key_column
from paimon_pyds.keys.merge.order_codes import order_codes


class SortedRunWriter(RollingWriter):
    """Writes rows in the order of their keys into files of one sorted run, which roll at ``target-file-size``.

    ``context``: the table as it is written to; of a compaction, with the file source of one. Options of levels act.
    ``level``: of the run; of a changelog, where the rows went. On level 0 each file is a run of its own. ``changelog``:
    write changelog files, with the options of these. ``order``: names of other columns that sort the rows.
    """

    def __init__(
        self,
        context: WriteContext,
        directory: str,
        threads: WriterThreads,
        *,
        level: int = 0,
        changelog: bool = False,
        order: Sequence[str] | None = None,
    ) -> None:
        own = context.of_changelog(level) if changelog else context.at_level(level)
        names = own.schema.trimmed_primary_keys if order is None else order
        sorting = tuple(map(own.schema.field, names))
        super().__init__(own, directory, threads, lambda: _SortedRows(own, level, sorting))
        self._rows = KeyFileRows(own)
        checked = order is None and not changelog and keys_lose_blanks(own)
        self._order = _OrderWithoutBlanks(own) if checked else None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows: ``_SEQUENCE_NUMBER``, ``_VALUE_KIND`` and the table's columns, by name; others are left out.

        Keys are greater than all before, in a changelog at least not less; so are other columns that sort the rows. The
        caller answers for that.

        Raises:
            SchemaError: a sum of decimals has more digits than its column.
            UnsupportedError: keys that the format gives without the blanks at their end are no longer in order.
        """
        if self._order is not None:
            self._order.check(batch)
        super().write(self._rows.of(batch))


class KeyFileRows:
    """Merged rows as files hold them. ``context``: the table as it is written to, with the options of the level."""

    def __init__(self, context: WriteContext) -> None:
        fields = context.layout.physical
        self._schema = arrow_schema(fields)
        keys = {key_column(name): name for name in context.schema.trimmed_primary_keys}
        self._sources = [keys.get(field.name, field.name) for field in fields]
        aggregates = context.options.get("merge-engine") in ("partial-update", "aggregation")
        self._summed = [f for f in context.schema.fields if aggregates and f.type.kind is Kind.DECIMAL]

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of files, from those of `SortedRunWriter.write`. Raises SchemaError: as that does."""
        for field in self._summed:
            _check_precision(batch.column(field.name), field)
        columns = [batch.column(name) for name in self._sources]  # a key has the values of the column it is of
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _check_precision(values: pa.Array, field: DataField) -> None:
    """Raises SchemaError for a value with more digits than its type, as Java, too, makes them of short decimals: no
    file format holds it."""
    limit = Decimal(10) ** (values.type.precision - values.type.scale)
    for value in pc.min_max(values).as_py().values():
        if value is not None and value.copy_abs() >= limit:
            raise SchemaError(
                f"column {field.name}: aggregated to {value}, which {field.type} can't hold",
                hint="alter the column to more digits",
            )


def keys_lose_blanks(context: WriteContext) -> bool:
    """Whether a column of the key is a CHAR, and the file format gives it without the blanks at its end."""
    trims = traits_of(context.file_suffix).trims_char
    return trims and any(field.type.kind is Kind.CHAR for field in context.key_fields)


class _OrderWithoutBlanks:
    """Sees that keys are in order, and no two the same, once blanks at the end of CHAR values are gone.

    What is written here has none where any level's format takes them off; other writers' files, and those from before
    the format was changed, may have some.
    """

    def __init__(self, context: WriteContext) -> None:
        self._fields = context.key_fields
        self._names = context.schema.trimmed_primary_keys
        self._last: list[pa.Array] = []
        self._had_blanks = False

    def check(self, batch: pa.RecordBatch) -> None:
        """Raises UnsupportedError: these rows are not."""
        if not batch.num_rows:
            return
        columns = [
            pc.utf8_rtrim(batch.column(name), " ") if field.type.kind is Kind.CHAR else batch.column(name)
            for name, field in zip(self._names, self._fields, strict=True)
        ]
        self._had_blanks |= any(
            is_true(pc.not_equal(batch.column(name), column)).any()
            for name, column, field in zip(self._names, columns, self._fields, strict=True)
            if field.type.kind is Kind.CHAR
        )
        if self._had_blanks:
            before = self._last or [column.slice(0, 0) for column in columns]
            codes = order_codes([pa.concat_arrays(pair) for pair in zip(before, columns, strict=True)])
            if (codes[1:] <= codes[:-1]).any():
                raise UnsupportedError(
                    "keys that differ by blanks at the end of CHAR values can't be written as ORC, which has none",
                    hint="set file.format, or file.format.per.level, to parquet",
                )
        self._last = [column.slice(len(column) - 1) for column in columns]


class _SortedRows:
    """Makes the metadata of one file: its first and last key, or other values that sort it, statistics of keys,
    sequence numbers, deletes. ``sorting``: the columns that sort it."""

    def __init__(self, context: WriteContext, level: int, sorting: Sequence[DataField]) -> None:
        self._level = level
        self._keys = context.schema.trimmed_primary_keys
        fields = context.key_fields
        self._sorting = [field.name for field in sorting]
        self._types = [field.type for field in sorting]
        self._trims = traits_of(context.file_suffix).trims_char
        modes = stats_modes(fields, context.raw_options)
        self._stats = StatsCollector(fields, modes, str(context.options.get("file.format")))
        self._ends: list[pa.RecordBatch] = []
        self._numbers = (2**63 - 1, -(2**63))
        self._deletes = 0

    def update(self, batch: pa.RecordBatch) -> None:
        self._stats.update(batch.select(self._keys))
        values = batch.select(self._sorting)
        last = values.take(array([batch.num_rows - 1]))
        self._ends = [self._ends[0] if self._ends else values.take(array([0])), last]
        bounds = pc.min_max(batch.column(SEQUENCE_NUMBER)).as_py()
        self._numbers = (min(self._numbers[0], bounds["min"]), max(self._numbers[1], bounds["max"]))
        self._deletes += int(np.count_nonzero(is_retract(batch.column(VALUE_KIND))))

    def finish(self) -> RowMetadata:
        ends = pa.Table.from_batches(self._ends).combine_chunks().to_batches()[0].columns
        if self._trims:
            # As Java writes keys, filled with blanks: by its ranges it would not merge these rows with its own.
            for at, type_ in enumerate(self._types):
                if isinstance(type_, AtomicType) and type_.kind is Kind.CHAR:
                    filled = pc.utf8_rpad(ends[at], width=type_.length or 0, padding=" ")
                    ends[at] = pa.concat_arrays([ends[at][:1], filled[1:]])
        least, greatest = encode_rows(ends, self._types, arity=True).to_pylist()
        return RowMetadata(
            min_sequence_number=self._numbers[0],
            max_sequence_number=self._numbers[1],
            min_key=least,
            max_key=greatest,
            key_stats=encode_stats(self._stats.finish(), dense=False)[0],
            level=self._level,
            delete_row_count=self._deletes,
        )
