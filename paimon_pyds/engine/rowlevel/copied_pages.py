"""New column files of row groups of which few rows change: what does not change is copied from the file that has it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.progress import count
from paimon_pyds.engine.commit.publisher import removing_unfinished
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.rolling import RowMetadata, data_file
from paimon_pyds.format.statistics import StatsCollector, encode_stats
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.storage import discard

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import RowReplacer


def replacer_of(context: WriteContext, spec: ReadSpec, file: PlannedFile, changed: Int64s) -> RowReplacer | None:
    """What writes the columns of a context for all rows of a group; None where these are to be written one by one.

    File indexes need all rows, and other things that only some columns have do, too.

    Args:
        context: made by `column_updates.columns_context`.
        spec: reads the table.
        file: the group.
        changed: the positions of the rows that change.

    Raises CorruptFileError, StorageError.
    """
    layout = context.layout
    if context.index_specs or layout.physical != layout.table or context.managed_blobs:
        return None
    wanted = {(field.id, field.name, field.type) for field in layout.table}
    for part in file.parts if file.is_joined else (file,):
        if part.parts or part.schema_id < 0:
            continue
        held = {(field.id, field.name, field.type) for field in spec.fields_of(part)}
        if wanted <= held:
            file_format = formats.by_path(part.path)
            if file_format.name != str(context.options.get("file.format")).lower() or part.row_count != file.row_count:
                return None
            place = part.path, part.size
            return file_format.row_replacer(context.io, place, layout.physical, context.raw_options, changed)
    return None


def write_replaced(
    context: WriteContext, replacer: RowReplacer, bucket: BucketFiles, rows: int, batches: Iterable[pa.RecordBatch]
) -> DataFile:
    """Write a file of ``rows`` rows, of which the batches have those that the replacer takes.

    Raises:
        SchemaError: a value that does not fit its column.
        CorruptFileError, StorageError: a file can't be read, or written.
    """
    conformer, stats = context.conformer(), StatsCollector(context.layout.values, context.stats_modes)
    parts = [conformer.conform(batch) for batch in batches]
    stats.update_known(replacer.unchanged_bounds)
    for part in parts:
        stats.update(part)
    name = f"{context.options.get('data-file.prefix')}{uuid.uuid4()}-0.{context.file_suffix}"
    path = f"{bucket.directory}/{name}"
    with removing_unfinished(lambda: discard(context.io, [path])):
        size = replacer.write(parts, path)
        count(written=size)
        found = encode_stats(stats.finish(), dense=context.options.get("metadata.stats-dense-store"))
        metadata = RowMetadata(min_sequence_number=0, max_sequence_number=rows - 1)
        return data_file(context, path, (size, rows), None, found, metadata)
