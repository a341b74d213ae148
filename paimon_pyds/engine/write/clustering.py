"""Clustering columns: the order that a table's options name, and writers that bring rows into it.

Without ``clustering.incremental``, or with ``clustering.incremental.optimize-write``, each writer of a table without
buckets orders its rows. (Source: Paimon's options; Java: what PaimonSparkWriter does with them.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.options.option import comma_separated
from paimon_pyds.base.sort.external import KeySample, RowSorter, SortSpec
from paimon_pyds.base.sort.keys import CURVES, STRATEGIES, SortKeys, can_sort
from paimon_pyds.base.sort.spill import SPILL_CODECS, SpillFile
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.commit_message import BucketFiles

if TYPE_CHECKING:
    from paimon_pyds.engine.write.bucket_writer import BucketWriter

COLUMNS, INCREMENTAL = "clustering.columns", "clustering.incremental"
_FEW_COLUMNS = 5
"""Columns below which ``clustering.strategy=auto`` is a z-order."""


def clustering_order(context: WriteContext) -> SortSpec | None:
    """The order that the table's options name; None where they name no column, or those of partitions only.

    Raises:
        OptionError: an unknown strategy, columns whose values have no order, incremental clustering without columns.
        UnknownColumnError: a name of no column.
    """
    options = context.options
    names = comma_separated(str(options.get(COLUMNS) or ""))
    if not names:
        if options.get(INCREMENTAL):
            raise OptionError(f"{INCREMENTAL}=true needs {COLUMNS}", hint=f'set {COLUMNS}, such as "a,b"')
        return None
    strategy = str(options.get("clustering.strategy")).lower()
    if strategy == "auto":
        strategy = "order" if len(names) == 1 else CURVES[len(names) >= _FEW_COLUMNS]
    if strategy not in STRATEGIES:
        raise OptionError(f"clustering.strategy can't be {strategy!r:.40}", hint=f"it is auto, {', '.join(STRATEGIES)}")
    inside = [name for name in names if name not in context.schema.partition_keys]  # the others are constants
    return order_of(context, inside, strategy, COLUMNS) if inside else None


def order_of(context: WriteContext, names: Sequence[str], strategy: str, argument: str) -> SortSpec:
    """An order by these columns.

    ``strategy``: ``order``, ``zorder`` or ``hilbert``. ``argument``: what names the columns, for errors.

    Raises:
        OptionError: columns whose values have no order, or that are named twice; an unknown ``spill-compression``.
        UnknownColumnError: a name of no column.
    """
    fields = tuple(context.schema.field(name) for name in names)
    for field in fields:
        if not can_sort(field):
            raise OptionError(f"rows can't be ordered by {field.name!r}, a column of type {field.type}")
    if len(set(names)) < len(names):
        raise OptionError(f"a column is named twice in {argument}: {', '.join(names)}")
    options = context.options
    codec = str(options.get("spill-compression")).lower()
    if codec not in SPILL_CODECS:
        hint = f"it is one of {', '.join(SPILL_CODECS)}"
        raise OptionError(f"rows can't be spilled with spill-compression={options.get('spill-compression')}", hint=hint)
    return SortSpec(fields, strategy, int(options.get("write-buffer-size")), codec)


class ClusteredBucketWriter:
    """A `BucketWriter` of rows in the order of clustering columns: these wait until `flush`, in memory or on the local
    disk, and ``files`` writes them."""

    def __init__(self, order: SortSpec, files: BucketWriter) -> None:
        self._order = order
        self._files = files
        self._rows: list[pa.RecordBatch] = []
        self._size = 0
        self._spilled: SpillFile[int] = SpillFile(order.compression, "rows to cluster")
        self._sample = KeySample(order)

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.append(batch)
        self._size += batch.nbytes
        self._sample.add(batch)

    @property
    def held_bytes(self) -> int:
        return self._size

    def spill(self) -> bool:
        while self._rows:
            self._spilled.add(0, self._rows.pop(0))
        self._size = 0
        return True

    @property
    def spilled_bytes(self) -> int:
        return self._spilled.size

    def flush(self) -> None:
        sample = self._sample.taken()
        if sample is not None:
            keys = SortKeys.learn(self._order.strategy, [sample.column(f.name) for f in self._order.fields])
            with RowSorter(self._order, keys) as sorter:
                for batch in self._taken():
                    sorter.add(batch)
                for batch in sorter.sorted():
                    self._files.write(batch)
        self._files.flush()

    def _taken(self) -> Iterator[pa.RecordBatch]:
        """All rows as they came; they are removed."""
        yield from self._spilled.take(0)
        self._spilled.close()
        while self._rows:
            yield self._rows.pop(0)
        self._size = 0

    def close(self) -> BucketFiles:
        self.flush()
        return self._files.close()

    def abort(self) -> None:
        self._rows.clear()
        self._spilled.close()
        self._files.abort()
