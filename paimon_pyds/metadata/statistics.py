"""The statistics file that ANALYZE writes: ``statistics/stat-…``, named by snapshots.

Source: Java Paimon 1.4, classes Statistics and ColStats, whose names the members of the JSON have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """What is known of a column; None for what is not.

    Attributes:
        column_id: of the field in the schema.
        distinct_count: different values, NULL apart; an estimate where there are very many.
        min, max: as text: days for DATE, milliseconds for TIME, ``2001-05-10 21:42:35.694`` for timestamps.
        null_count: NULLs.
        avg_length, max_length: of a value, in characters for texts, else in bytes.
    """

    column_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    avg_length: int | None = None
    max_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What is known of a table.

    Attributes:
        snapshot_id: the snapshot that was looked at.
        schema_id: its schema, whose names the columns have.
        merged_record_count: rows that a reader gets.
        merged_record_size: the share of the data files that these have, in bytes.
        columns: by name.
    """

    snapshot_id: int
    schema_id: int
    merged_record_count: int | None = None
    merged_record_size: int | None = None
    columns: Mapping[str, ColumnStatistics]


def read_statistics(store: TableStore, snapshot: Snapshot | None) -> Statistics | None:
    """The statistics that a snapshot names; None where it names none.

    Raises:
        SnapshotNotFoundError: the file is gone: the snapshot has expired meanwhile.
        CorruptFileError: it is damaged.
    """
    if snapshot is None or snapshot.statistics is None:
        return None
    path = store.paths.statistics(snapshot.statistics)
    try:
        return store.parse_file(path, parse_statistics)
    except FileNotFoundError as error:
        raise store.missing(path) from error


def parse_statistics(data: bytes, path: str) -> Statistics:
    """The statistics in the bytes of a file; unknown members are ignored. Raises CorruptFileError."""
    json = JsonObject(data, path)
    columns = {}
    for name, value in (json.object_or_none("colStats") or {}).items():
        if not isinstance(value, dict):
            raise json.corrupt("an object was expected", f"colStats.{name}")
        column = JsonObject(to_java_json(value).encode(), path)
        columns[name] = ColumnStatistics(
            column_id=column.integer("colId"),
            distinct_count=column.count_or_none("distinctCount"),
            min=column.text_or_none("min"),
            max=column.text_or_none("max"),
            null_count=column.count_or_none("nullCount"),
            avg_length=column.count_or_none("avgLen"),
            max_length=column.count_or_none("maxLen"),
        )
    return Statistics(
        snapshot_id=json.count("snapshotId"),
        schema_id=json.count("schemaId"),
        merged_record_count=json.count_or_none("mergedRecordCount"),
        merged_record_size=json.count_or_none("mergedRecordSize"),
        columns=columns,
    )


def statistics_to_json(statistics: Statistics) -> str:
    """The text of a statistics file, laid out as Java Paimon does it."""
    columns = {
        name: _given(
            {
                "colId": column.column_id,
                "distinctCount": column.distinct_count,
                "min": column.min,
                "max": column.max,
                "nullCount": column.null_count,
                "avgLen": column.avg_length,
                "maxLen": column.max_length,
            }
        )
        for name, column in statistics.columns.items()
    }
    counts = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.merged_record_count,
        "mergedRecordSize": statistics.merged_record_size,
    }
    return to_java_json({**_given(counts), "colStats": columns})


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
