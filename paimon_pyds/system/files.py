"""The system tables ``files`` and ``file_indexes``: every live data file, and every index of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import pyarrow as pa

from paimon_pyds.evolution.casting import can_cast, cast_atomic
from paimon_pyds.execution.live_files import index_source, live_of, planned_live_files
from paimon_pyds.index.container import parse_head
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.row import decode_column, decode_row
from paimon_pyds.scan.travel import stored_state
from paimon_pyds.split import PlannedFile
from paimon_pyds.storage import FileIO
from paimon_pyds.types import AtomicType, DataField, DataType, RowType, scalar_to_internal
from paimon_pyds.types.java_text import partition_text
from paimon_pyds.types.kinds import BINARY_KINDS, NESTED_KINDS

_TEXT, _LONG, _INT, _TIME = pa.string(), pa.int64(), pa.int32(), pa.timestamp("ms")
_SOURCES = {0: "APPEND", 1: "COMPACT"}
_HEAD_READERS = 16

FILES = {
    "partition": _TEXT, "bucket": _INT, "file_path": _TEXT, "file_format": _TEXT, "schema_id": _LONG, "level": _INT,
    "record_count": _LONG, "file_size_in_bytes": _LONG, "min_key": _TEXT, "max_key": _TEXT,
    "null_value_counts": _TEXT, "min_value_stats": _TEXT, "max_value_stats": _TEXT, "min_sequence_number": _LONG,
    "max_sequence_number": _LONG, "creation_time": _TIME, "deleteRowCount": _LONG, "file_source": _TEXT,
    "first_row_id": _LONG, "write_cols": pa.list_(_TEXT),
}  # fmt: skip
FILE_INDEXES = {
    "partition": _TEXT, "bucket": _INT, "file_path": _TEXT, "file_size_in_bytes": _LONG, "record_count": _LONG,
    "schema_id": _LONG, "column_name": _TEXT, "index_type": _TEXT, "storage_type": _TEXT, "index_file_path": _TEXT,
    "index_size_in_bytes": _LONG, "index_container_size_in_bytes": _LONG, "is_empty": pa.bool_(),
}  # fmt: skip


def table_of(columns: Mapping[str, pa.DataType], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Rows of Python values as an Arrow table."""
    listed = list(rows)
    arrays = [pa.array([row[i] for row in listed], type_) for i, type_ in enumerate(columns.values())]
    return pa.Table.from_arrays(arrays, names=list(columns))


def partition_row_text(fields: Sequence[DataField], partition: bytes) -> str:
    """A partition row (arity + BinaryRow) as Java casts it to text: ``{1, a}``."""
    values = decode_row(partition, [f.type for f in fields])
    texts = [value_text(value, f) for value, f in zip(values, fields, strict=True)]
    return "{" + ", ".join("null" if text is None else text for text in texts) + "}"


def value_text(value: Any, field: DataField) -> str | None:
    """A partition value as text; None for NULL."""
    return None if value is None else partition_text(value, field.type, legacy=False)


def files_table(store: TableStore) -> pa.Table:
    """Every live data file with its statistics, which read as Java prints them, under the schema of the state."""
    state = stored_state(store)
    schema, entries = state.schema, live_of(store, state.snapshot)
    files = planned_live_files(store, schema, entries)[1]
    statistics = _Statistics(store, schema, entries).texts()
    wanted = ("partition", "level", "min_key", "max_key", "min_sequence_number", "max_sequence_number",
              "creation_time", "delete_row_count", "file_source", "first_row_id", "write_cols")  # fmt: skip
    partition_of = cache(partial(partition_row_text, schema.partition_fields))
    keys: dict[int, tuple[DataField, ...]] = {}
    rows = []
    for file, stats, values in zip(
        files, statistics, zip(*(entries.column(n).to_pylist() for n in wanted), strict=True), strict=True
    ):
        partition, level, min_key, max_key, low, high, created, deleted, source, row_id, write_cols = values
        if file.schema_id not in keys:
            own = store.schema(file.schema_id)
            keys[file.schema_id] = tuple(own.field(n) for n in own.trimmed_primary_keys)
        key = keys[file.schema_id]
        rows.append((
            partition_of(partition), file.bucket, file.path, file.path.rpartition(".")[2], file.schema_id, level,
            file.row_count, file.size, _key_text(key, min_key), _key_text(key, max_key), *stats, low, high, created,
            deleted, _SOURCES.get(source), row_id, write_cols,
        ))  # fmt: skip
    return table_of(FILES, rows)


def _key_text(fields: Sequence[DataField], key: bytes) -> str | None:
    """``[1, a]``; None for a file without a key."""
    if not fields or not int.from_bytes(key[:4], "big"):
        return None
    values = decode_row(key, [f.type for f in fields])
    return f"[{', '.join(_value_text(v, f) for v, f in zip(values, fields, strict=True))}]"


def _value_text(value: Any, field: DataField) -> str:
    """A value as Java prints its internal form; bytes, which Java can't print, in hex."""
    if value is None:
        return "null"
    return bytes(value).hex() if field.type.kind in BINARY_KINDS else partition_text(value, field.type, legacy=True)


class _Statistics:
    """Column statistics of all files as texts ``{a=1, b=2}``, columns in the order of their names."""

    def __init__(self, store: TableStore, schema: TableSchema, entries: pa.RecordBatch) -> None:
        self._store = store
        self._fields = sorted(schema.fields, key=lambda f: f.name)
        self._entries = entries

    def texts(self) -> list[tuple[str, str, str]]:
        """Null counts, minima and maxima of each file."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        names = ("schema_id", "value_stats_cols", "write_cols", "value_stats_min")
        for row, (schema_id, stats_cols, write_cols, low) in enumerate(
            zip(*(self._entries.column(n).to_pylist() for n in names), strict=True)
        ):
            key = (schema_id, _key(stats_cols), _key(write_cols), int.from_bytes(low[:4], "big"))
            groups.setdefault(key, []).append(row)
        found: dict[int, tuple[str, str, str]] = {}
        for (schema_id, stats_cols, write_cols, arity), rows in groups.items():
            found.update(zip(rows, self._group(schema_id, stats_cols, write_cols, arity, rows), strict=True))
        return [found[row] for row in range(self._entries.num_rows)]

    def _group(
        self, schema_id: int, stats_cols: Sequence[str] | None, write_cols: Sequence[str] | None, arity: int,
        rows: Sequence[int],
    ) -> Iterable[tuple[str, str, str]]:  # fmt: skip
        """Files that agree in all this are decoded together, column by column."""
        own = self._store.schema(schema_id).fields
        names = stats_cols if stats_cols is not None else write_cols or [f.name for f in own]
        types = {f.name: f.type for f in own}
        known = [types[name] for name in names if name in types]
        batch = self._entries.take(pa.array(rows, pa.int64()))
        counts: list[list[str]] = []
        lows: list[list[str]] = []
        highs: list[list[str]] = []
        for field in self._fields:
            source = next((f for f in own if f.id == field.id), None)
            if source is None:  # added later: every row is NULL
                none: list[str] = ["null"] * len(rows)
                nulls, low, high = [str(n) for n in batch.column("row_count").to_pylist()], none, none
            elif source.name not in names or len(known) != len(names) or arity != len(names):
                nulls = low = high = ["null"] * len(rows)
            else:
                at = list(names).index(source.name)
                nulls = ["null" if c is None or c[at] is None else str(c[at])
                         for c in batch.column("value_stats_nulls").to_pylist()]  # fmt: skip
                low, high = (
                    _bounds(batch.column(side), known, at, source, field)
                    for side in ("value_stats_min", "value_stats_max")
                )
            for texts, column in ((counts, nulls), (lows, low), (highs, high)):
                texts.append([f"{field.name}={text}" for text in column])
        return zip(_braced(counts), _braced(lows), _braced(highs), strict=True)


def _braced(columns: Sequence[Sequence[str]]) -> list[str]:
    return ["{" + ", ".join(row) + "}" for row in zip(*columns, strict=True)]


def _key(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _bounds(rows: pa.Array, types: Sequence[Any], at: int, source: DataField, field: DataField) -> list[str]:
    if source.type.kind in NESTED_KINDS:  # statistics count their NULLs, and know no bounds
        return ["null"] * len(rows)
    decoded = decode_column(rows, types, at, arity=True)
    values = decoded.values
    if (
        isinstance(source.type, AtomicType)
        and isinstance(field.type, AtomicType)
        and source.type.with_nullable(True) != field.type.with_nullable(True)
        and can_cast(source.type, field.type)
    ):
        values = cast_atomic(values, source.type, field.type)
    texts = [_value_text(scalar_to_internal(v), field) for v in values]
    if decoded.unknown is not None:
        texts = ["?" if unknown else text for text, unknown in zip(texts, decoded.unknown, strict=True)]
    return texts


def _index_head(io: FileIO, file: PlannedFile) -> tuple[list[tuple[str, str, int, bool]], int]:
    """The table of contents of a file's container: (column, index type, bytes, EMPTY); and the whole size in bytes."""
    source = index_source(io, file)
    if source is None:
        return [], 0
    columns = parse_head(source).columns
    return [(c, kind, r.length, r.is_empty) for c, kinds in columns.items() for kind, r in kinds.items()], source.size


def file_indexes_table(store: TableStore) -> pa.Table:
    """Every index of every live data file. Reads the first kilobytes of each side file.

    Raises:
        CorruptFileError: a container is damaged.
        FileNotFoundError: a side file is gone.
    """
    state = stored_state(store)
    files = planned_live_files(store, state.schema, live_of(store, state.snapshot))[1]
    partition_of = cache(partial(partition_row_text, state.schema.partition_fields))
    rows = []
    with ThreadPoolExecutor(_HEAD_READERS) as pool:
        for file, (indexes, container_size) in zip(files, pool.map(partial(_index_head, store.io), files), strict=True):
            kind = "EMBEDDED" if file.index_path is None else "FILE"
            for column, index_type, size, is_empty in indexes:
                rows.append((
                    partition_of(file.partition), file.bucket, file.path, file.size, file.row_count, file.schema_id,
                    column, index_type, kind, file.index_path, size, container_size, is_empty,
                ))  # fmt: skip
    return table_of(FILE_INDEXES, rows)


def type_text(type_: DataType) -> str:
    """A type as Java spells it in SQL (``DataType.asSQLString``): names of nested fields are quoted."""
    if isinstance(type_, AtomicType):
        return str(type_)
    parts = map(_field_text, type_.fields) if isinstance(type_, RowType) else map(type_text, type_.children())
    return f"{type_.kind.value}<{', '.join(parts)}>" + ("" if type_.nullable else " NOT NULL")


def _field_text(field: DataField) -> str:
    name = field.name.replace("`", "``")
    comment = "" if not field.description else " COMMENT '" + field.description.replace("'", "''") + "'"
    default = "" if field.default is None else f" DEFAULT {field.default}"
    return f"`{name}` {type_text(field.type)}{comment}{default}"
