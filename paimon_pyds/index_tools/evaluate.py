"""What one index container says of a filter, as Java's readers ask it: bound to the columns of its own data file."""

from __future__ import annotations

from paimon_pyds.errors import CorruptFileError, OptionError
from paimon_pyds.evolution.columns import plan_evolution
from paimon_pyds.execution.live_files import live_of, planned_live_files
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.java_answer import java_answer
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.predicate.bind import bind_as_written
from paimon_pyds.predicate.parse import parse_filter
from paimon_pyds.predicate.tree import root_columns
from paimon_pyds.split import PlannedFile, ReadSpec
from paimon_pyds.storage.base import BytesSource

__all__ = ["index_eval"]


def index_eval(store: TableStore, path: str, data: bytes, filter_: str, rows: int | None = None) -> str | list[int]:
    """``"REMAIN"``, ``"SKIP"``, or the positions that a container leaves, ascending: see `java_answer`.

    Args:
        store: the table whose columns, as they are now, the filter names. A container of one of its live files is asked
            with the columns that this file was written under.
        path: where the container is.
        data: its bytes.
        filter_: Spark SQL text.
        rows: rows of the data file; known where it is one of the table's.

    Raises:
        PredicateError: the filter does not parse, or names no column.
        OptionError: the number of rows is missing or wrong.
        CorruptFileError: the container is damaged.
    """
    schema = store.latest_schema()
    predicate = bind_as_written(parse_filter(filter_), schema.fields)
    read, file = _file_of(store, schema, path) if rows is None or schema.id else (None, None)  # else spares manifests
    if read is not None and file is not None and file.schema_id != schema.id:
        wanted = tuple(f for f in schema.fields if f.name in root_columns(predicate))
        predicate = plan_evolution(read.fields_of(file), wanted).devolve(predicate)
    if rows is None and file is None:
        raise OptionError(
            "the container belongs to no live file of the table", hint="give --rows, the rows of its file"
        )
    row_count = rows if rows is not None else 0 if file is None else file.row_count
    try:
        return java_answer(FileIndex.open(BytesSource(data, path)), predicate, row_count)
    except CorruptFileError as error:
        if error.field != "row count":
            raise
        raise OptionError(f"--rows {row_count} is wrong: {error.message}") from error


def _file_of(store: TableStore, schema: TableSchema, path: str) -> tuple[ReadSpec, PlannedFile | None]:
    """The live file whose container has this name, and how to read it; names are unique in a table."""
    name = path.replace("\\", "/").rpartition("/")[2]
    read, files = planned_live_files(store, schema, live_of(store, store.latest_snapshot()))
    found = (f for f in files if f.index_path is not None and f.index_path.rpartition("/")[2] == name)
    return read, next(found, None)
