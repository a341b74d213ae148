"""Row ids of rows that move to other files, in tables with ``row-tracking.enabled``.

A new file gets consecutive row ids when it is committed. A file of rows that had ids before keeps them, in columns of
its own: ``_ROW_ID``, and ``_SEQUENCE_NUMBER``, the snapshot that last changed the row, NULL where it changes just now.
(Source: Paimon documentation, append-table/row-tracking, and what Java Paimon's row-level commands write.)
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds import formats
from paimon_pyds.commit_message import CommitMessage
from paimon_pyds.formats.base import ReadCounters
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import METADATA_FIELDS
from paimon_pyds.write import WriteContext

__all__ = ["KEPT", "SEQUENCE_NUMBER", "holds_ids", "keeping_ids", "with_ids"]

SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
KEPT = ("_ROW_ID", SEQUENCE_NUMBER)
"""The columns of such files besides the table's."""

_BATCH_ROWS = 65_536


def keeping_ids(context: WriteContext) -> WriteContext:
    """What tasks need to write rows that keep their ids: `KEPT` are the last columns, and have no statistics."""
    fields = (*context.schema.fields, *(METADATA_FIELDS[name] for name in KEPT))
    options = {**context.dynamic_options, **{f"fields.{name}.stats-mode": "none" for name in KEPT}}
    return replace(context, schema=replace(context.schema, fields=fields), dynamic_options=options)


def holds_ids(context: WriteContext) -> bool:
    """Whether files written in this context keep row ids."""
    return any(field.name == SEQUENCE_NUMBER for field in context.fields)


def with_ids(context: WriteContext, message: CommitMessage) -> CommitMessage:
    """The message of such files, as the commit has to know them: their columns, and their sequence numbers so far."""
    buckets = tuple(
        replace(bucket, files=tuple(_told(context, bucket.directory, file) for file in bucket.files))
        for bucket in message.buckets
    )
    return CommitMessage(buckets)


def _told(context: WriteContext, directory: str, file: DataFile) -> DataFile:
    """Of sequence numbers: the least (0 for none), and the greatest (0 when rows have none yet)."""
    path = f"{directory}/{file.file_name}"
    reader = formats.by_path(path).open_reader(context.io, path, file.file_size, ReadCounters())
    try:
        batches = reader.read([METADATA_FIELDS[SEQUENCE_NUMBER]], RowSelection.ALL, _BATCH_ROWS)
        numbers = pa.chunked_array([batch.column(0) for batch in batches], pa.int64())
    finally:
        reader.close()
    bounds = pc.min_max(numbers).as_py()
    return replace(
        file,
        write_cols=tuple(field.name for field in context.fields),
        min_sequence_number=bounds["min"] or 0,
        max_sequence_number=0 if numbers.null_count else bounds["max"] or 0,
    )
