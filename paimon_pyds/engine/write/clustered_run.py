"""Files above level 0 of a table with ``pk-clustering-override``: the rows of a bucket in the order of its clustering
columns, whose first and last values manifests give in place of keys.

Source: Paimon documentation, primary-key-table/pk-clustering-override; Java: class KeyValueClusteringFileWriter.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from paimon_pyds.base.sort.external import RowSorter, SortSpec
from paimon_pyds.base.sort.keys import SortKeys
from paimon_pyds.base.types import arrow_schema
from paimon_pyds.engine.write.clustering import COLUMNS, order_of
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.key_files import SortedRunWriter
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.keys.merge.files_to_merge import clustering_fields
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS
from paimon_pyds.metadata.manifest import DataFile

LEVEL = 1
"""The level of these files, whatever ``num-levels`` says."""


def run_order(context: WriteContext) -> SortSpec:
    """The order of the rows: by column after column, whatever ``clustering.strategy`` says, as Java reads files so.

    Raises:
        OptionError: columns whose values have no order, or that are named twice.
        UnknownColumnError: a name of no column.
    """
    return order_of(context, [field.name for field in clustering_fields(context.schema)], "order", COLUMNS)


class ClusteredRunWriter:
    """Writes rows into files in the order of the clustering columns: they wait until `roll`, in memory or on the local
    disk. It has the methods of `SortedRunWriter`; here rows come in any order.

    ``context``: the table as a compaction writes to it.
    """

    def __init__(self, context: WriteContext, directory: str, threads: WriterThreads) -> None:
        self._order = run_order(context)
        names = tuple(field.name for field in self._order.fields)
        self._files = SortedRunWriter(context, directory, threads, level=LEVEL, order=names)
        self._schema = arrow_schema((*context.schema.fields, *KEY_VALUE_FIELDS))
        self._sorter: RowSorter | None = None

    @property
    def files(self) -> Sequence[DataFile]:
        """Those that are finished."""
        return self._files.files

    @property
    def held_bytes(self) -> int:
        """Bytes of the rows that wait in memory."""
        return 0 if self._sorter is None else self._sorter.held_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows, as `SortedRunWriter.write` does. Raises StorageError: the local disk is full."""
        if self._sorter is None:
            self._sorter = RowSorter(self._order, SortKeys("order"))
        if batch.num_rows:
            columns = [batch.column(name) for name in self._schema.names]
            self._sorter.add(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def roll(self) -> None:
        """Write the rows that wait; the next ones start another sorted run. Raises as `SortedRunWriter.write`."""
        if self._sorter is None:
            return
        with self._sorter as sorter:
            self._sorter = None
            for batch in sorter.sorted():
                self._files.write(batch)
        self._files.roll()

    def close(self) -> tuple[DataFile, ...]:
        """Write the rows that wait; the files written."""
        self.roll()
        return self._files.close()

    def abort(self) -> None:
        """Remove every file written so far."""
        if self._sorter is not None:
            self._sorter.close()
        self._files.abort()
