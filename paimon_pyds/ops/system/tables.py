"""System tables: what the metadata says of a table, as Arrow, with the columns of Java Paimon's ``table$name``.

Source: Paimon documentation, concepts/system-tables, and Java Paimon 2.1, whose tables begin with the columns of 1.4.
Times are what local clocks show, as in Java; secrets among a table's options are blanked. Partitions read ``{1, a}`` in
most tables and ``day=1/color=a`` in ``partitions``, as in Java.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from paimon_pyds.base.arrays import grouped
from paimon_pyds.base.options import TableOptions, check_known
from paimon_pyds.base.options.option import text
from paimon_pyds.base.row import decode_row
from paimon_pyds.base.row_stream import RowStream
from paimon_pyds.base.secrets import shown
from paimon_pyds.base.types import DataField, field_to_json
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.base.zones import local_clock_ms
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.engine.scan.travel import TableState, scan_options
from paimon_pyds.errors import OptionError, suggest
from paimon_pyds.metadata.consumers import consumers
from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.metadata.manifest import GlobalIndex
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import DEFAULT_PARTITION_NAME
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.statistics import parsed_statistics
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.tags import tag_times
from paimon_pyds.ops.system.file_tables import (
    FILE_INDEXES,
    FILE_KEY_RANGES,
    FILES,
    files_in_buckets,
    partition_row_text,
    read_file_indexes,
    read_files,
    type_text,
    value_text,
)
from paimon_pyds.ops.system.row_changes import ROW_CHANGES, row_changes, row_tracking_columns
from paimon_pyds.ops.system.scan import Request, SystemScan, batches_of
from paimon_pyds.sql.predicate.argument import one_condition
from paimon_pyds.typing import Filter, SystemArguments

if TYPE_CHECKING:
    from typing import Unpack

    from paimon_pyds.scan import Scan

_Rows: TypeAlias = Iterator[tuple[Any, ...]]
_SNAPSHOTS_AT_ONCE = 1000
"""Snapshots that are read in one batch."""

_FIELDS = {
    "snapshots": """
        snapshot_id BIGINT NOT NULL, schema_id BIGINT NOT NULL, commit_user STRING NOT NULL,
        commit_identifier BIGINT NOT NULL, commit_kind STRING NOT NULL, commit_time TIMESTAMP(3) NOT NULL,
        base_manifest_list STRING NOT NULL, delta_manifest_list STRING NOT NULL, changelog_manifest_list STRING,
        total_record_count BIGINT, delta_record_count BIGINT, changelog_record_count BIGINT, watermark BIGINT,
        next_row_id BIGINT, operation STRING, writer_version STRING""",
    "schemas": """
        schema_id BIGINT NOT NULL, fields STRING NOT NULL, partition_keys STRING NOT NULL,
        primary_keys STRING NOT NULL, options STRING NOT NULL, comment STRING, update_time TIMESTAMP(3) NOT NULL""",
    "options": "key STRING NOT NULL, value STRING NOT NULL",
    "aggregation_fields": """
        field_name STRING NOT NULL, field_type STRING NOT NULL, function STRING, function_options STRING,
        comment STRING""",
    "manifests": """
        file_name STRING NOT NULL, file_size BIGINT NOT NULL, num_added_files BIGINT NOT NULL,
        num_deleted_files BIGINT NOT NULL, schema_id BIGINT NOT NULL, min_partition_stats STRING,
        max_partition_stats STRING, min_row_id BIGINT, max_row_id BIGINT""",
    "partitions": """
        partition STRING, record_count BIGINT NOT NULL, file_size_in_bytes BIGINT NOT NULL,
        file_count BIGINT NOT NULL, last_update_time TIMESTAMP(3), created_at TIMESTAMP(3), created_by STRING,
        updated_by STRING, options STRING, total_buckets INT NOT NULL, done BOOLEAN NOT NULL,
        deleted_record_count BIGINT""",
    "buckets": """
        partition STRING, bucket INT NOT NULL, record_count BIGINT NOT NULL, file_size_in_bytes BIGINT NOT NULL,
        file_count BIGINT NOT NULL, last_update_time TIMESTAMP(3)""",
    "tags": """
        tag_name STRING NOT NULL, snapshot_id BIGINT NOT NULL, schema_id BIGINT NOT NULL,
        commit_time TIMESTAMP(3) NOT NULL, record_count BIGINT, create_time TIMESTAMP(3), time_retained STRING""",
    "branches": "branch_name STRING NOT NULL, create_time TIMESTAMP(3) NOT NULL",
    "table_indexes": """
        partition STRING, bucket INT NOT NULL, index_type STRING NOT NULL, file_name STRING NOT NULL,
        file_size BIGINT NOT NULL, row_count BIGINT NOT NULL,
        dv_ranges ARRAY<ROW<f0 STRING NOT NULL, f1 INT NOT NULL, f2 INT NOT NULL, _CARDINALITY BIGINT>>,
        row_range_start BIGINT, row_range_end BIGINT, index_field_id INT, index_field_name STRING""",
    "consumers": "consumer_id STRING NOT NULL, next_snapshot_id BIGINT NOT NULL",
    "statistics": """
        snapshot_id BIGINT NOT NULL, schema_id BIGINT NOT NULL, mergedRecordCount BIGINT, mergedRecordSize BIGINT,
        colstat STRING""",
}
"""Columns of the tables whose rows are few; types and NOT NULL as in Java."""


def system_scan(
    store: TableStore,
    open_scan: Callable[..., Scan],
    name: str,
    where: Filter = None,
    **query: Unpack[SystemArguments],
) -> RowStream:
    """A query on a system table, of the state that a scan with these options reads.

    Args:
        store: the table.
        open_scan: makes the scan of the table's own rows, where the system table is made of these.
        name: one of `NAMES`; a ``$`` before it is fine.
        where: a condition on the columns of the system table; `files`, `snapshots` and others read less by it.
        **query: ``columns``, names of those to return, all when None; ``limit``, rows to return at most; ``options``:
            Paimon's scan options; ``incremental-between`` for ``audit_log`` and ``binlog``; ``filter``, another name
            for ``where``.

    Raises:
        OptionError: another name, with similar ones.
        UnknownColumnError: a name of no column.
        CorruptFileError: metadata, or for ``file_indexes`` a container of indexes, is damaged.
    """
    wanted = text("name", name).removeprefix("$").lower()
    if wanted not in NAMES:
        raise OptionError(f"no system table is named {name!r:.60}", hint=suggest(wanted, NAMES, "system tables"))
    where, columns, limit = one_condition(where, query.get("filter")), query.get("columns"), query.get("limit")
    given = scan_options(None, None, None, query.get("options"))
    if wanted in ROW_CHANGES:
        return row_changes(open_scan(store, options=given), wanted).narrowed(where, columns, limit)
    if wanted in ("ro", "row_tracking"):
        given |= {"read-optimized": "true"} if wanted == "ro" else {}
        if wanted == "row_tracking" and columns is None:
            columns = row_tracking_columns(open_scan(store, options=given))
        return open_scan(store, where=where, columns=columns, limit=limit, options=given)
    check_known({k: v for k, v in given.items() if k != "branch"}, ("timezone",), own=False)
    store = store.for_branch(given["branch"]) if "branch" in given else store
    fields, read = SYSTEM_TABLES[wanted]
    return SystemScan(fields, partial(read, store), given).narrowed(where, columns, limit)


def _snapshots(store: TableStore, request: Request) -> _Rows:
    ids = request.kept(_columns("snapshots")[0], store.snapshot_ids())
    names = [f.name for f in _columns("snapshots")[6:]]
    for at in range(0, len(ids), _SNAPSHOTS_AT_ONCE):
        for s in store.snapshots_among(ids[at : at + _SNAPSHOTS_AT_ONCE]):
            yield (s.id, s.schema_id, s.commit_user, s.commit_identifier, s.commit_kind.value,
                   local_clock_ms(s.time_millis), *(getattr(s, name) for name in names))  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _schemas(store: TableStore, request: Request) -> _Rows:
    for id_ in request.kept(_columns("schemas")[0], store.schema_ids()):
        s = store.schema(id_)
        fields, options = [field_to_json(f) for f in s.fields], {k: shown(k, v) for k, v in s.options.items()}
        texts = map(_json, (fields, s.partition_keys, s.primary_keys, options))
        yield s.id, *texts, s.comment, local_clock_ms(s.time_millis)


def _options(store: TableStore, request: Request) -> _Rows:
    return ((key, shown(key, value)) for key, value in store.latest_schema().options.items())


def _aggregation_fields(store: TableStore, request: Request) -> _Rows:
    """Of each column the options ``fields.COLUMN.…``: their values, which Java calls functions, and their keys."""
    schema = store.latest_schema()
    of_column: dict[str, list[tuple[str, str]]] = {}
    for key, value in schema.options.items():
        parts = key.split(".")
        if parts[0] == "fields" and len(parts) > 2:
            of_column.setdefault(parts[1], []).append((key, shown(key, value)))
    for field in schema.fields:
        options = of_column.get(field.name, [])
        values, keys = (", ".join(option[i] for option in options) for i in (1, 0))
        yield field.name, type_text(field.type), f"[{values}]", f"[{keys}]", field.description


def _shown(name: str) -> str:
    """The name of a file, its bytes that are not UTF-8 written out: no column of texts can have them."""
    return name.encode("utf-8", "backslashreplace").decode()


def _tags(store: TableStore, request: Request) -> _Rows:
    for name in request.kept(_columns("tags")[0], store.tag_names()):
        tag, path = store.tag(name), store.paths.tag(name)
        made, seconds = tag_times(store.io.read_bytes(path), path)
        created = None if made is None else int(made.replace(tzinfo=dt.UTC).timestamp() * 1000)
        retained = None if seconds is None else _java_duration(seconds)
        made_ms = local_clock_ms(tag.time_millis)
        yield _shown(name), tag.id, tag.schema_id, made_ms, tag.total_record_count, created, retained


def _java_duration(seconds: float) -> str:
    whole, millis = int(seconds), round((seconds - int(seconds)) * 1000)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    text = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if millis:
        text += f"{rest + millis / 1000:.3f}".rstrip("0") + "S"
    elif rest or not text:
        text += f"{rest}S"
    return f"PT{text}"


def _branches(store: TableStore, request: Request) -> _Rows:
    found = [s for s in store.io.list(store.paths.branches_dir) if s.is_dir and s.name.startswith("branch-")]
    return ((_shown(s.name.removeprefix("branch-")), local_clock_ms(s.modified_ms)) for s in found)


def _manifests(store: TableStore, request: Request) -> _Rows:
    state = request.state(store)
    snapshot, fields = state.snapshot, state.schema.partition_fields
    reader = ManifestReader(store)
    for m in () if snapshot is None else (*reader.manifests(snapshot), *reader.changelog(snapshot)):
        bounds = (m.partition_stats.min_values, m.partition_stats.max_values)
        texts = (partition_row_text(fields, row) for row in bounds)
        yield (m.file_name, m.file_size, m.num_added_files, m.num_deleted_files, m.schema_id, *texts, m.min_row_id,
               m.max_row_id)  # fmt: skip


def summed_files(store: TableStore, snapshot: Snapshot | None, *, by_bucket: bool) -> list[dict[str, Any]]:
    """Rows, bytes, number and newest creation of live files by partition, and buckets; or by partition and bucket.

    As in Java, files whose rows wait for a bucket count where it is by bucket only.
    """
    columns = ("partition", "bucket", "row_count", "file_size", "creation_time", "total_buckets")
    entries = (live_of if by_bucket else files_in_buckets)(store, snapshot, columns)
    keys = ["partition", "bucket"] if by_bucket else ["partition"]
    sums = [("row_count", "sum"), ("file_size", "sum"), ("row_count", "count"), ("creation_time", "max")]
    sums.append(("total_buckets", "max"))
    rows: list[dict[str, Any]] = grouped(pa.Table.from_batches([entries]), keys, sums, use_threads=False).to_pylist()
    return rows


def _sums(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("row_count_sum", "file_size_sum", "row_count_count", "creation_time_max"))


def _buckets(store: TableStore, request: Request) -> _Rows:
    state = request.state(store)
    fields = state.schema.partition_fields
    rows = [
        (partition_row_text(fields, row["partition"]), row["bucket"], *_sums(row))
        for row in summed_files(store, state.snapshot, by_bucket=True)
    ]
    return iter(sorted(rows, key=lambda r: (r[0], r[1])))


def _partitions(store: TableStore, request: Request) -> _Rows:
    """The columns that only a catalog's metastore fills are NULL; none is said to be done."""
    state = request.state(store)
    deleted = _deleted(store, state)
    rows = [
        (_partition_spec(state.schema, r["partition"]), *_sums(r), *[None] * 4, r["total_buckets_max"], False,
         deleted.get(r["partition"], 0))
        for r in summed_files(store, state.snapshot, by_bucket=False)
    ]  # fmt: skip
    return iter(sorted(rows, key=lambda r: r[0]))


def _deleted(store: TableStore, state: TableState) -> dict[bytes, int | None]:
    """Rows that deletion vectors mark, by partition; None where a vector does not say its number."""
    name = None if state.snapshot is None else state.snapshot.index_manifest
    if name is None or not TableOptions(store.latest_schema().options).get("deletion-vectors.enabled"):
        return {}
    counts: dict[bytes, int | None] = {}
    for entry in store.read_index_manifest(name):
        for vector in entry.deletion_ranges or ():
            before = counts.get(entry.partition, 0)
            is_known = before is not None and vector.cardinality is not None
            counts[entry.partition] = (before or 0) + (vector.cardinality or 0) if is_known else None
    return counts


def _partition_spec(schema: TableSchema, partition: bytes) -> str:
    """``day=1/color=a``: as the directory's name, but nothing is escaped."""
    fields = schema.partition_fields
    default = schema.options.get("partition.default-name", DEFAULT_PARTITION_NAME)
    values = decode_row(partition, [f.type for f in fields])
    texts = ((f.name, value_text(value, f) or "") for value, f in zip(values, fields, strict=True))
    return "/".join(f"{name}={text if text.strip() else default}" for name, text in texts)


def _table_indexes(store: TableStore, request: Request) -> _Rows:
    """Files of deletion vectors, with what each has of which data file, and other indexes of the whole table."""
    state = request.state(store)
    name = None if state.snapshot is None else state.snapshot.index_manifest
    fields = state.schema.partition_fields
    for e in () if name is None else store.read_index_manifest(name):
        ranges = None
        if e.deletion_ranges is not None:
            ranges = [(r.data_file, r.offset, r.length, r.cardinality) for r in e.deletion_ranges]
        yield (partition_row_text(fields, e.partition), e.bucket, e.index_type, e.file_name, e.file_size, e.row_count,
               ranges, *_global_index(e.global_index, state.schema))  # fmt: skip


def _global_index(index: GlobalIndex | None, schema: TableSchema) -> tuple[Any, ...]:
    """Which rows and columns an index of the whole table is of: the columns that Java has since 2.1. The name has all
    columns of an index of several; it is NULL where one of them was dropped."""
    if index is None:
        return None, None, None, None
    ids = dict.fromkeys((index.index_field_id, *(index.extra_field_ids or ())))
    names = {field.id: field.name for field in schema.fields}
    name = ",".join(names[id_] for id_ in ids) if ids.keys() <= names.keys() else None
    return index.row_range_start, index.row_range_end, index.index_field_id, name


def _consumers(store: TableStore, request: Request) -> _Rows:
    """The snapshot that each streaming reader reads next."""
    return ((_shown(name), snapshot) for name, snapshot in consumers(store).items())


def _statistics(store: TableStore, request: Request) -> _Rows:
    """What ANALYZE found, where the snapshot has it."""
    found = parsed_statistics(store, request.state(store).snapshot, JsonObject)
    if found is None:
        return
    counts = (found.integer_or_none(name) for name in ("mergedRecordCount", "mergedRecordSize"))
    ids = (found.integer("snapshotId"), found.integer("schemaId"))
    yield (*ids, *counts, to_java_json(found.object_or_none("colStats") or {}))


def _read(
    name: str, rows: Callable[[TableStore, Request], _Rows], store: TableStore, request: Request
) -> Iterator[pa.RecordBatch]:
    return batches_of(_columns(name), request, rows(store, request))


_ROWS: Mapping[str, Callable[[TableStore, Request], _Rows]] = {
    "snapshots": _snapshots, "schemas": _schemas, "options": _options, "aggregation_fields": _aggregation_fields,
    "manifests": _manifests, "partitions": _partitions, "buckets": _buckets, "tags": _tags, "branches": _branches,
    "table_indexes": _table_indexes, "consumers": _consumers, "statistics": _statistics,
}  # fmt: skip

_Read: TypeAlias = Callable[[TableStore, Request], Iterator[pa.RecordBatch]]
SYSTEM_TABLES: Final[Mapping[str, tuple[tuple[DataField, ...], _Read]]] = {
    **{name: (parse_columns(_FIELDS[name]), partial(_read, name, rows)) for name, rows in _ROWS.items()},
    "files": (FILES, read_files),
    "file_indexes": (FILE_INDEXES, read_file_indexes),
    "file_key_ranges": (FILE_KEY_RANGES, read_files),
}
"""The columns of each system table of metadata, and what reads it."""
NAMES: Final = (*SYSTEM_TABLES, *ROW_CHANGES, "ro", "row_tracking")
"""The names of all system tables of a table."""


def _columns(name: str) -> tuple[DataField, ...]:
    return SYSTEM_TABLES[name][0]
