"""What one index container says of a filter, as Java's readers ask it: bound to the columns of its own data file."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_pyds.errors import CorruptFileError, OptionError
from paimon_pyds.evolution.columns import plan_evolution
from paimon_pyds.execution.live_files import DataFileRef, live_of, refs_of
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.java_answer import java_answer
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.predicate.bind import bind_as_written
from paimon_pyds.predicate.parse import parse_filter
from paimon_pyds.predicate.tree import Predicate, root_columns
from paimon_pyds.storage.base import BytesSource
from paimon_pyds.types import DataField

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
    file = _file_of(store, schema, path) if rows is None or schema.id else None  # without need, no manifest is read
    if file is not None and file.schema_id != schema.id:
        predicate = _devolved(predicate, schema.fields, file)
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


def _file_of(store: TableStore, schema: TableSchema, path: str) -> DataFileRef | None:
    """The live file whose container has this name; names are unique in a table."""
    name = path.replace("\\", "/").rpartition("/")[2]
    files = refs_of(store, schema, live_of(store, store.latest_snapshot()))
    return next((f for f in files if f.index_path is not None and f.index_path.rpartition("/")[2] == name), None)


def _devolved(predicate: Predicate, fields: Sequence[DataField], file: DataFileRef) -> Predicate:
    names = root_columns(predicate)
    return plan_evolution(file.fields, tuple(f for f in fields if f.name in names)).devolve(predicate)
