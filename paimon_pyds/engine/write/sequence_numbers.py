"""Sequence numbers of rows in tables with a primary key: of two versions of a row the one with the greater is newer.

The numbers of a bucket grow from snapshot to snapshot, and no two rows of it have the same one, so that all readers
agree which version is the newest. They are a column of the data files, so rows have to be numbered before it is known
what is committed before them:

- A writer goes on from the greatest number that the bucket has when it opens it, as Java Paimon's do.
- Tasks of one job open a bucket side by side. Each has a range of its own, 2²⁸ numbers by its index: which of them is
  the newer one is not defined, but the same for everybody. The ranges are small enough for 200 tasks to commit a
  hundred million times.
- A commit that finds that others have used its numbers since, or that two of its messages have the same, moves those of
  its files up before it publishes them: the files are written again under their names, which nobody has seen yet. That
  costs time where two jobs write to one bucket at once, and never gives a row the place of another snapshot.

Java's writers can't move theirs: one that runs at the same time as any other job gives numbers that are taken.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import grouped, pc, scalar, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.vectors import stored_fields
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.errors import OptionError
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.manifest import RUN_COLUMNS, DataFile
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import discard, forget

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FormatReader

_TASK_BITS = 28
_MOST_TASKS = 1 << 20
_MOST_READS = 8
"""Reads of the numbers of some partitions; the next one is of all partitions."""
_BATCH_ROWS = 131_072
"""Rows of a batch when numbers are moved."""


class SequenceNumbers:
    """The numbers that a writer gives to the rows of each bucket. ``task``: index of the writer among those of one job;
    None for the only one.
    Raises OptionError: an index that is out of range."""

    def __init__(self, context: WriteContext, task: int | None = None) -> None:
        if task is not None and not 0 <= task < _MOST_TASKS:
            raise OptionError(f"the index of a task is from 0 to {_MOST_TASKS - 1:,}, not {task}")
        self._context = context
        self._task = task
        self._greatest: dict[PartitionBucket, int] = {}
        self._totals: dict[bytes, int] = {}
        self._seen = frozenset[bytes]()
        self._reads = 0
        self._has_all = False

    def first(self, bucket: PartitionBucket) -> int:
        """The number of the first row that is written to a bucket."""
        self.read_ahead([bucket.partition])
        free = self._greatest.get(bucket, -1) + 1
        return free if self._task is None else free + (self._task << _TASK_BITS)

    def total_buckets(self, partition: bytes) -> int | None:
        """How many buckets a partition has; None for none, not counting the one where rows wait for theirs."""
        self.read_ahead([partition])
        return self._totals.get(partition)

    def of_rows(self, first: int, row: int, count: int) -> npt.NDArray[np.int64]:
        """The numbers of ``count`` rows of a bucket: ``row`` were written before, the first one as ``first``."""
        rows = np.arange(row, row + count, dtype=np.int64)
        if self._task is not None and row + count > 1 << _TASK_BITS:  # on to a range that is no other task's
            rows += (rows >> _TASK_BITS) * ((_MOST_TASKS - 1) << _TASK_BITS)
        return rows + first

    def read_ahead(self, partitions: Iterable[bytes]) -> None:
        """Read at once what `first` needs for the buckets of these partitions."""
        fresh = frozenset(partitions) - self._seen
        if self._has_all or not fresh:
            return
        context = self._context
        store = TableStore(context.io, context.root, context.branch)
        self._seen |= fresh
        self._reads += 1
        self._has_all = self._reads > _MOST_READS
        wanted = None if self._has_all else EntryFilter(context.schema, partitions=fresh)
        reader = ManifestReader(store, wanted)
        live = store.read_newest(lambda newest: reader.live_files(newest, RUN_COLUMNS))
        if not live.num_rows:  # the first group_by of a process takes as long to begin as a small write
            return
        found = grouped(
            pa.Table.from_batches([live]),
            ["partition", "bucket"],
            [("max_sequence_number", "max"), ("total_buckets", "max")],
            use_threads=False,
        )
        for row in found.to_pylist():
            self._greatest[PartitionBucket(row["partition"], row["bucket"])] = row["max_sequence_number_max"]
            if row["total_buckets_max"] > 0:
                self._totals[row["partition"]] = row["total_buckets_max"]


@dataclass(frozen=True, slots=True)
class FilesRenumbering:
    """The `Renumbering` of new files of a table with a primary key.

    Args:
        context: of their writers.
        fresh: no earlier commit of the same files has moved their numbers, so they are those that the entries say.
    """

    context: WriteContext
    fresh: bool = False

    def moved(self, bucket: BucketFiles, by: int) -> BucketFiles:
        """New files of a bucket, and those of its changelog, written again unless they have these numbers already.

        Their names stay, so that a commit of unknown outcome can be tried again with the messages of its writers.
        Raises CorruptFileError, StorageError: a file can't be read, or not be written again.
        """
        if self.fresh and not by:
            return bucket
        files, changelog = (
            tuple(_moved(self.context, bucket.directory, file, by) for file in files)
            for files in (bucket.files, bucket.changelog_files)
        )
        return replace(bucket, files=files, changelog_files=changelog)


def _moved(context: WriteContext, directory: str, file: DataFile, by: int) -> DataFile:
    schema = TableStore(context.io, context.root, context.branch).schema(file.schema_id)
    context = replace(context, schema=schema).at_level(0)
    first, last = file.min_sequence_number + by, file.max_sequence_number + by
    path = f"{directory}/{file.file_name}"
    temporary = f"{directory}/.{file.file_name}.{uuid.uuid4()}.tmp"
    found = formats.by_path(path)
    fields = stored_fields(context.layout.physical)
    number = [field.name for field in fields].index(SEQUENCE_NUMBER)
    before = context.io.size(path)  # an earlier commit of the same message may have moved it already
    hints = ReadHints(context.raw_options, columns=tuple(fields))
    reader = found.open_reader(context.io, path, before, ReadCounters(), hints)
    try:
        shift = first - _least_number(reader, fields[number])
        if not shift:
            return replace(file, file_size=before, min_sequence_number=first, max_sequence_number=last)
        writer = found.open_writer(context.io, temporary, fields, context.raw_options)
        try:
            for batch in reader.read(fields, RowSelection.ALL, _BATCH_ROWS):
                moved = pc.add_checked(batch.column(number), scalar(shift, pa.int64()))
                writer.write(batch.set_column(number, batch.schema.field(number), moved))
            size = writer.close()
        except BaseException:
            writer.abort()
            raise
    finally:
        reader.close()
    try:
        context.io.delete([path])
        context.io.rename(temporary, path)
    except BaseException:
        discard(context.io, [temporary])
        raise
    forget(context.io, path)  # what was read of the one before
    return replace(file, file_size=size, min_sequence_number=first, max_sequence_number=last)


def _least_number(reader: FormatReader, number: DataField) -> int:
    batches = reader.read([number], RowSelection.ALL, _BATCH_ROWS)
    return min(int(to_numpy(batch.column(0)).min()) for batch in batches if batch.num_rows)
