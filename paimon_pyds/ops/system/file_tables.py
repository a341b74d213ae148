"""The system tables ``files`` and ``file_indexes``: every live data file, and every index of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import repeat
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import decode_column, decode_row
from paimon_pyds.base.types import AtomicType, DataField, DataType, RowType, scalar_to_internal
from paimon_pyds.base.types.java_text import partition_text
from paimon_pyds.base.types.kinds import BINARY_KINDS, UNORDERED_KINDS
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.execution.live_files import index_source, live_of, planned_live_files
from paimon_pyds.engine.scan.travel import TableState
from paimon_pyds.index.container import parse_head
from paimon_pyds.keys.merge.files_to_merge import is_clustered
from paimon_pyds.metadata.evolution.casting import can_cast, cast_atomic
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.system.scan import Request, batches_of, matching_entries, slices
from paimon_pyds.storage import FileIO
from paimon_pyds.storage.concurrent import concurrent_map, threads_for

_SOURCES = {0: "APPEND", 1: "COMPACT"}
_HEAD_THREADS = 16
_POSTPONE = -2
"""The option ``bucket`` of tables whose buckets are chosen later, and the number of the bucket that rows wait in."""

FILES = parse_columns("""
    partition STRING, bucket INT NOT NULL, file_path STRING NOT NULL, file_format STRING NOT NULL,
    schema_id BIGINT NOT NULL, level INT NOT NULL, record_count BIGINT NOT NULL, file_size_in_bytes BIGINT NOT NULL,
    min_key STRING, max_key STRING, null_value_counts STRING NOT NULL, min_value_stats STRING NOT NULL,
    max_value_stats STRING NOT NULL, min_sequence_number BIGINT, max_sequence_number BIGINT,
    creation_time TIMESTAMP(3), deleteRowCount BIGINT, file_source STRING, first_row_id BIGINT,
    write_cols ARRAY<STRING>""")
FILE_KEY_RANGES = parse_columns("""
    partition STRING, bucket INT NOT NULL, file_path STRING NOT NULL, file_format STRING NOT NULL,
    schema_id BIGINT NOT NULL, level INT NOT NULL, record_count BIGINT NOT NULL, file_size_in_bytes BIGINT NOT NULL,
    min_key STRING, max_key STRING, first_row_id BIGINT""")
FILE_INDEXES = parse_columns("""
    partition STRING, bucket INT NOT NULL, file_path STRING NOT NULL, file_size_in_bytes BIGINT NOT NULL,
    record_count BIGINT NOT NULL, schema_id BIGINT NOT NULL, column_name STRING NOT NULL, index_type STRING NOT NULL,
    storage_type STRING NOT NULL, index_file_path STRING, index_size_in_bytes BIGINT NOT NULL,
    index_container_size_in_bytes BIGINT NOT NULL, is_empty BOOLEAN NOT NULL""")
_STATISTICS = ("null_value_counts", "min_value_stats", "max_value_stats")


def partition_row_text(fields: Sequence[DataField], partition: bytes) -> str:
    """A partition row (arity + BinaryRow) as Java casts it to text: ``{1, a}``."""
    values = decode_row(partition, [f.type for f in fields])
    texts = [value_text(value, f) for value, f in zip(values, fields, strict=True)]
    return "{" + ", ".join("null" if text is None else text for text in texts) + "}"


def value_text(value: Any, field: DataField) -> str | None:
    """A partition value as text; None for NULL."""
    return None if value is None else partition_text(value, field.type, legacy=False)


def files_in_buckets(
    store: TableStore, snapshot: Snapshot | None, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """The entries of live files, but not of those whose rows wait for a bucket: no read looks at them. As in Java.

    ``columns``: of `ENTRY_SCHEMA`, with ``bucket``; all when None.
    """
    entries = live_of(store, snapshot, columns)
    if TableOptions(store.latest_schema().options).get("bucket") != _POSTPONE:
        return entries
    return entries.filter(pc.greater_equal(entries.column("bucket"), 0))


def _entries(store: TableStore, state: TableState, request: Request) -> Iterator[pa.RecordBatch]:
    """The entries of live files that the filter may keep, by what they say themselves, some at a time."""
    partition_of = cache(partial(partition_row_text, state.schema.partition_fields))
    for entries in slices(files_in_buckets(store, state.snapshot)):
        partitions = entries.column("partition").dictionary_encode()
        texts = array(map(partition_of, partitions.dictionary.to_pylist()), pa.string())
        own = {name: entries.column(of_entry) for name, of_entry in _OF_ENTRIES.items()}
        kept = matching_entries(request, entries, {"partition": texts.take(partitions.indices), **own})
        if kept.num_rows:
            yield kept


_OF_ENTRIES = {
    "bucket": "bucket", "schema_id": "schema_id", "level": "level", "record_count": "row_count",
    "file_size_in_bytes": "file_size",
}  # fmt: skip
"""Columns of `files` by which a filter is evaluated before the costly ones are computed."""


def read_files(store: TableStore, request: Request) -> Iterator[pa.RecordBatch]:
    """Every live data file, with statistics where these are wanted, as Java prints them, under the state's schema."""
    state = request.state(store)
    for entries in _entries(store, state, request):
        yield from batches_of(FILES, request, _file_rows(store, state.schema, entries, request))


def _file_rows(
    store: TableStore, schema: TableSchema, entries: pa.RecordBatch, request: Request
) -> Iterator[tuple[Any, ...]]:
    files = planned_live_files(store, schema, entries)[1]
    none = repeat(("", "", ""))
    statistics = none if request.columns.isdisjoint(_STATISTICS) else _Statistics(store, schema, entries).texts()
    wanted = ("partition", "level", "min_key", "max_key", "min_sequence_number", "max_sequence_number",
              "creation_time", "delete_row_count", "file_source", "first_row_id", "write_cols")  # fmt: skip
    partition_of = cache(partial(partition_row_text, schema.partition_fields))
    keys: dict[int, tuple[DataField, ...]] = {}
    clustered = is_clustered(schema)
    for file, stats, values in zip(
        files, statistics, zip(*(entries.column(n).to_pylist() for n in wanted), strict=True), strict=False
    ):
        partition, level, min_key, max_key, low, high, created, deleted, source, row_id, write_cols = values
        if file.schema_id not in keys:
            own = store.schema(file.schema_id)
            keys[file.schema_id] = tuple(own.field(n) for n in own.trimmed_primary_keys)
        key = () if level and clustered else keys[file.schema_id]
        yield (
            partition_of(partition), file.bucket, file.path, file.path.rpartition(".")[2], file.schema_id, level,
            file.row_count, file.size, _key_text(key, min_key), _key_text(key, max_key), *stats, low, high, created,
            deleted, _SOURCES.get(source), row_id, write_cols,
        )  # fmt: skip


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
        batch = self._entries.take(array(rows, pa.int64()))
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
    if source.type.kind in UNORDERED_KINDS:  # statistics count their NULLs, and know no bounds
        return ["null"] * len(rows)
    decoded = decode_column(rows, types, at, arity=True)
    values = decoded.values
    if (
        isinstance(source.type, AtomicType)
        and isinstance(field.type, AtomicType)
        and source.type.with_nullable(True) != field.type.with_nullable(True)
        and can_cast(source.type, field.type)
    ):
        values = cast_atomic(values, source.type, field.type, default_zone())
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


def read_file_indexes(store: TableStore, request: Request) -> Iterator[pa.RecordBatch]:
    """Every index of every live data file. Reads the first kilobytes of each side file.
    Raises CorruptFileError: a container is damaged; FileNotFoundError: a side file is gone."""
    state = request.state(store)
    partition_of = cache(partial(partition_row_text, state.schema.partition_fields))
    for entries in _entries(store, state, request):
        files = planned_live_files(store, state.schema, entries)[1]
        heads = concurrent_map(partial(_index_head, store.io), files, threads_for(store.io, _HEAD_THREADS))
        rows = (
            (partition_of(file.partition), file.bucket, file.path, file.size, file.row_count, file.schema_id,
             column, index_type, "EMBEDDED" if file.index_path is None else "FILE", file.index_path, size,
             container_size, is_empty)
            for file, (indexes, container_size) in zip(files, heads, strict=True)
            for column, index_type, size, is_empty in indexes
        )  # fmt: skip
        yield from batches_of(FILE_INDEXES, request, rows)


def type_text(type_: DataType) -> str:
    """A type as Java spells it in SQL (``DataType.asSQLString``): names of nested fields are quoted."""
    if not type_.children():
        return str(type_)
    parts = map(_field_text, type_.fields) if isinstance(type_, RowType) else map(type_text, type_.children())
    return f"{type_.kind.value}<{', '.join(parts)}>" + ("" if type_.nullable else " NOT NULL")


def _field_text(field: DataField) -> str:
    name = field.name.replace("`", "``")
    comment = "" if not field.description else " COMMENT '" + field.description.replace("'", "''") + "'"
    default = "" if field.default is None else f" DEFAULT {field.default}"
    return f"`{name}` {type_text(field.type)}{comment}{default}"
