"""System tables: what the metadata says of a table, as Arrow, with the columns of Java Paimon's ``table$name``.

Source: Paimon documentation, concepts/system-tables, and Java Paimon 2.1, whose tables begin with the columns of 1.4.
Times are UTC; secrets among a table's options are blanked. Partitions read ``{1, a}`` in most tables and
``day=1/color=a`` in ``partitions``, as in Java.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

import pyarrow as pa

from paimon_pyds.errors import OptionError, suggest
from paimon_pyds.execution.live_files import live_of
from paimon_pyds.maintenance.references import consumers
from paimon_pyds.maintenance.tags import tag_times
from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import DEFAULT_PARTITION_NAME
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.redaction import shown
from paimon_pyds.row import decode_row
from paimon_pyds.scan.travel import TableState, stored_state
from paimon_pyds.system.files import (
    file_indexes_table,
    files_table,
    partition_row_text,
    table_of,
    type_text,
    value_text,
)
from paimon_pyds.system.row_changes import ROW_CHANGES
from paimon_pyds.types import field_to_json

_TEXT, _LONG, _INT, _TIME = pa.string(), pa.int64(), pa.int32(), pa.timestamp("ms")


def system_table(store: TableStore, name: str) -> pa.Table:
    """One system table, of the state that a scan reads: the latest, unless the table's own options name one.

    Args:
        store: the table.
        name: ``snapshots``, ``schemas``, ``options``, ``aggregation_fields``, ``manifests``, ``files``,
            ``file_indexes``, ``file_key_ranges``, ``table_indexes``, ``partitions``, ``buckets``, ``tags``,
            ``branches``, ``consumers`` or ``statistics``; a ``$`` before it is fine. Those of rows are in
            `paimon_pyds.system.row_changes` and `Table.system`.

    Raises:
        OptionError: another name.
        CorruptFileError: metadata, or for ``file_indexes`` a container of indexes, is damaged.
    """
    wanted, names = name.removeprefix("$").lower(), (*SYSTEM_TABLES, *ROW_CHANGES)
    make = SYSTEM_TABLES.get(wanted)
    if make is not None:
        return make(store)
    raise OptionError(f"no system table is named {name!r:.60}", hint=suggest(wanted, names, "system tables"))


def _snapshots(store: TableStore) -> pa.Table:
    columns = {
        "snapshot_id": _LONG, "schema_id": _LONG, "commit_user": _TEXT, "commit_identifier": _LONG,
        "commit_kind": _TEXT, "commit_time": _TIME, "base_manifest_list": _TEXT, "delta_manifest_list": _TEXT,
        "changelog_manifest_list": _TEXT, "total_record_count": _LONG, "delta_record_count": _LONG,
        "changelog_record_count": _LONG, "watermark": _LONG, "next_row_id": _LONG, "operation": _TEXT,
        "writer_version": _TEXT,
    }  # fmt: skip
    return table_of(
        columns,
        (
            (s.id, s.schema_id, s.commit_user, s.commit_identifier, s.commit_kind.value, s.time_millis,
             *(getattr(s, name) for name in list(columns)[6:]))
            for s in store.snapshots()
        ),
    )  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _schemas(store: TableStore) -> pa.Table:
    columns = {
        "schema_id": _LONG, "fields": _TEXT, "partition_keys": _TEXT, "primary_keys": _TEXT, "options": _TEXT,
        "comment": _TEXT, "update_time": _TIME,
    }  # fmt: skip
    return table_of(
        columns,
        (
            (
                s.id,
                _json([field_to_json(f) for f in s.fields]),
                _json(s.partition_keys),
                _json(s.primary_keys),
                _json({key: shown(key, value) for key, value in s.options.items()}),
                s.comment,
                s.time_millis,
            )
            for s in store.schemas()
        ),
    )


def _options(store: TableStore) -> pa.Table:
    options = store.latest_schema().options
    return table_of({"key": _TEXT, "value": _TEXT}, ((key, shown(key, value)) for key, value in options.items()))


def _aggregation_fields(store: TableStore) -> pa.Table:
    """Of each column the options ``fields.COLUMN.…``: their values, which Java calls functions, and their keys."""
    schema = store.latest_schema()
    columns = {"field_name": _TEXT, "field_type": _TEXT, "function": _TEXT, "function_options": _TEXT, "comment": _TEXT}
    of_column: dict[str, list[tuple[str, str]]] = {}
    for key, value in schema.options.items():
        parts = key.split(".")
        if parts[0] == "fields" and len(parts) > 2:
            of_column.setdefault(parts[1], []).append((key, shown(key, value)))
    rows = []
    for field in schema.fields:
        options = of_column.get(field.name, [])
        values, keys = (", ".join(option[i] for option in options) for i in (1, 0))
        rows.append((field.name, type_text(field.type), f"[{values}]", f"[{keys}]", field.description))
    return table_of(columns, rows)


def _tags(store: TableStore) -> pa.Table:
    columns = {
        "tag_name": _TEXT, "snapshot_id": _LONG, "schema_id": _LONG, "commit_time": _TIME, "record_count": _LONG,
        "create_time": _TIME, "time_retained": _TEXT,
    }  # fmt: skip
    rows = []
    for name, tag in store.tags().items():
        path = store.paths.tag(name)
        made, seconds = tag_times(store.io.read_bytes(path), path)
        created = None if made is None else int(made.replace(tzinfo=dt.timezone.utc).timestamp() * 1000)
        retained = None if seconds is None else _java_duration(seconds)
        rows.append((name, tag.id, tag.schema_id, tag.time_millis, tag.total_record_count, created, retained))
    return table_of(columns, rows)


def _java_duration(seconds: float) -> str:
    whole, millis = int(seconds), round((seconds - int(seconds)) * 1000)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    text = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if millis:
        text += f"{rest + millis / 1000:.3f}".rstrip("0") + "S"
    elif rest or not text:
        text += f"{rest}S"
    return f"PT{text}"


def _branches(store: TableStore) -> pa.Table:
    found = [s for s in store.io.list(store.paths.branches_dir) if s.is_dir and s.name.startswith("branch-")]
    rows = [(s.name.removeprefix("branch-"), s.modified_ms or None) for s in found]
    return table_of({"branch_name": _TEXT, "create_time": _TIME}, rows)


def _manifests(store: TableStore) -> pa.Table:
    columns = {
        "file_name": _TEXT, "file_size": _LONG, "num_added_files": _LONG, "num_deleted_files": _LONG,
        "schema_id": _LONG, "min_partition_stats": _TEXT, "max_partition_stats": _TEXT, "min_row_id": _LONG,
        "max_row_id": _LONG,
    }  # fmt: skip
    state = stored_state(store)
    snapshot = state.snapshot
    reader = ManifestReader(store)
    found = [] if snapshot is None else [*reader.manifests(snapshot), *reader.changelog(snapshot)]
    fields = state.schema.partition_fields
    return table_of(
        columns,
        (
            (m.file_name, m.file_size, m.num_added_files, m.num_deleted_files, m.schema_id,
             *(partition_row_text(fields, row) for row in (m.partition_stats.min_values, m.partition_stats.max_values)),
             m.min_row_id, m.max_row_id)
            for m in found
        ),
    )  # fmt: skip


_SUMS = {"record_count": _LONG, "file_size_in_bytes": _LONG, "file_count": _LONG, "last_update_time": _TIME}


def _summed(store: TableStore, snapshot: Snapshot | None, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Rows, bytes, number and newest creation of live files, by these columns of their entries, and buckets."""
    entries = live_of(store, snapshot, (*keys, "row_count", "file_size", "creation_time", "total_buckets"))
    grouped = pa.Table.from_batches([entries]).group_by(list(keys), use_threads=False)
    sums = [("row_count", "sum"), ("file_size", "sum"), ("row_count", "count"), ("creation_time", "max")]
    sums.append(("total_buckets", "max"))
    rows: list[dict[str, Any]] = grouped.aggregate(sums).to_pylist()
    return rows


def _sums(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("row_count_sum", "file_size_sum", "row_count_count", "creation_time_max"))


def _buckets(store: TableStore) -> pa.Table:
    state = stored_state(store)
    fields = state.schema.partition_fields
    rows = [
        (partition_row_text(fields, row["partition"]), row["bucket"], *_sums(row))
        for row in _summed(store, state.snapshot, ["partition", "bucket"])
    ]
    return table_of({"partition": _TEXT, "bucket": _INT, **_SUMS}, sorted(rows, key=lambda r: (r[0], r[1])))


def _partitions(store: TableStore) -> pa.Table:
    """The columns that only a catalog's metastore fills are NULL; none is said to be done."""
    state = stored_state(store)
    deleted = _deleted(store, state)
    rows = [
        (_partition_spec(state.schema, r["partition"]), *_sums(r), *[None] * 4, r["total_buckets_max"], False,
         deleted.get(r["partition"], 0))
        for r in _summed(store, state.snapshot, ["partition"])
    ]  # fmt: skip
    columns = {
        "partition": _TEXT, **_SUMS, "created_at": _TIME, "created_by": _TEXT, "updated_by": _TEXT, "options": _TEXT,
        "total_buckets": _INT, "done": pa.bool_(), "deleted_record_count": _LONG,
    }  # fmt: skip
    return table_of(columns, sorted(rows, key=lambda r: r[0]))


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


def _file_key_ranges(store: TableStore) -> pa.Table:
    columns = (
        "partition", "bucket", "file_path", "file_format", "schema_id", "level", "record_count", "file_size_in_bytes",
        "min_key", "max_key", "first_row_id",
    )  # fmt: skip
    return files_table(store).select(columns)


_DELETION_RANGE = pa.struct(
    [pa.field("f0", _TEXT, False), pa.field("f1", _INT, False), pa.field("f2", _INT, False), ("_CARDINALITY", _LONG)]
)


def _table_indexes(store: TableStore) -> pa.Table:
    """Files of deletion vectors, with what each has of which data file, and other indexes of the whole table."""
    columns = {
        "partition": _TEXT, "bucket": _INT, "index_type": _TEXT, "file_name": _TEXT, "file_size": _LONG,
        "row_count": _LONG, "dv_ranges": pa.list_(_DELETION_RANGE),
    }  # fmt: skip
    state = stored_state(store)
    name = None if state.snapshot is None else state.snapshot.index_manifest
    fields = state.schema.partition_fields
    return table_of(
        columns,
        (
            (partition_row_text(fields, e.partition), e.bucket, e.index_type, e.file_name, e.file_size, e.row_count,
             None if e.deletion_ranges is None else [astuple(r) for r in e.deletion_ranges])
            for e in (() if name is None else store.read_index_manifest(name))
        ),
    )  # fmt: skip


def _consumers(store: TableStore) -> pa.Table:
    """The snapshot that each streaming reader reads next."""
    rows = list(consumers(store).items())
    return table_of({"consumer_id": _TEXT, "next_snapshot_id": _LONG}, rows)


def _statistics(store: TableStore) -> pa.Table:
    """What ANALYZE found, where the snapshot has it."""
    columns = {
        "snapshot_id": _LONG, "schema_id": _LONG, "mergedRecordCount": _LONG, "mergedRecordSize": _LONG,
        "colstat": _TEXT,
    }  # fmt: skip
    snapshot = stored_state(store).snapshot
    if snapshot is None or snapshot.statistics is None:
        return table_of(columns, ())
    path = store.paths.statistics(snapshot.statistics)
    found = JsonObject(store.io.read_bytes(path), path)
    counts = (found.integer_or_none(name) for name in ("mergedRecordCount", "mergedRecordSize"))
    ids = (found.integer("snapshotId"), found.integer("schemaId"))
    return table_of(columns, [(*ids, *counts, to_java_json(found.object_or_none("colStats") or {}))])


SYSTEM_TABLES: Final[Mapping[str, Callable[[TableStore], pa.Table]]] = {
    "snapshots": _snapshots,
    "schemas": _schemas,
    "options": _options,
    "aggregation_fields": _aggregation_fields,
    "manifests": _manifests,
    "files": files_table,
    "file_indexes": file_indexes_table,
    "file_key_ranges": _file_key_ranges,
    "table_indexes": _table_indexes,
    "partitions": _partitions,
    "buckets": _buckets,
    "tags": _tags,
    "branches": _branches,
    "consumers": _consumers,
    "statistics": _statistics,
}
"""Each system table by its name."""
