"""The statistics file that ANALYZE writes: ``statistics/stat-…``, named by snapshots.

Source: Java Paimon 1.4, classes Statistics and ColStats, whose names the members of the JSON have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from paimon_pyds.base.checksums import crc32
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted
from paimon_pyds.base.text import names_text, one_line
from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

T = TypeVar("T")
CHECKSUM = "paimon-pyds.statistics-crc32"
"""The property of an ANALYZE snapshot that holds a checksum of the file: JSON has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of a column; None for unknown ones.

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
    """Statistics of a table.

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

    def __repr__(self) -> str:
        rows = "" if self.merged_record_count is None else counted(self.merged_record_count, "row")
        return one_line(self, f"snapshot {self.snapshot_id}", rows, f"columns [{names_text(tuple(self.columns))}]")


_Members: TypeAlias = Mapping[str, tuple[str, Callable[[JsonObject, str], Any]]]
_COLUMN: _Members = {
    "column_id": ("colId", JsonObject.integer), "distinct_count": ("distinctCount", JsonObject.count_or_none),
    "min": ("min", JsonObject.text_or_none), "max": ("max", JsonObject.text_or_none),
    "null_count": ("nullCount", JsonObject.count_or_none), "avg_length": ("avgLen", JsonObject.count_or_none),
    "max_length": ("maxLen", JsonObject.count_or_none),
}  # fmt: skip
_TABLE: _Members = {
    "snapshot_id": ("snapshotId", JsonObject.count), "schema_id": ("schemaId", JsonObject.count),
    "merged_record_count": ("mergedRecordCount", JsonObject.count_or_none),
    "merged_record_size": ("mergedRecordSize", JsonObject.count_or_none),
}  # fmt: skip
"""The members of the file by the names of their attributes, and how they are read."""


def read_statistics(store: TableStore, snapshot: Snapshot | None) -> Statistics | None:
    """The statistics that a snapshot names; None where it names none.

    Raises:
        SnapshotNotFoundError: the file is gone: the snapshot has expired meanwhile.
        CorruptFileError: it is damaged.
    """
    return parsed_statistics(store, snapshot, parse_statistics)


def parsed_statistics(store: TableStore, snapshot: Snapshot | None, parse: Callable[[bytes, str], T]) -> T | None:
    """What ``parse`` makes of the bytes and the path of that file. Raises as `read_statistics`."""
    if snapshot is None or snapshot.statistics is None:
        return None
    path = store.paths.statistics(snapshot.statistics)
    try:
        return store.parse_file(path, parse)
    except FileNotFoundError as error:
        raise store.missing(path) from error


def parse_statistics(data: bytes, path: str) -> Statistics:
    """The statistics in the bytes of a file; unknown members are ignored. Raises CorruptFileError."""
    json = JsonObject(data, path)
    columns = {}
    for name, value in (json.object_or_none("colStats") or {}).items():
        if not isinstance(value, dict):
            raise json.corrupt("an object was expected", f"colStats.{name}")
        columns[name] = ColumnStatistics(**_read(JsonObject(to_java_json(value).encode(), path), _COLUMN))
    return Statistics(**_read(json, _TABLE), columns=columns)


def checksum_text(data: bytes) -> str:
    """The checksum of a statistics file, as the property `CHECKSUM` has it."""
    return f"{crc32(data):08x}"


def _read(json: JsonObject, members: _Members) -> dict[str, Any]:
    return {name: read(json, member) for name, (member, read) in members.items()}


def statistics_to_json(statistics: Statistics) -> str:
    """The text of a statistics file, laid out as Java Paimon does it."""
    columns = {name: _written(column, _COLUMN) for name, column in statistics.columns.items()}
    return to_java_json({**_written(statistics, _TABLE), "colStats": columns})


def _written(value: ColumnStatistics | Statistics, members: _Members) -> dict[str, Any]:
    """The known statistics, by the names of members."""
    found = {member: getattr(value, name) for name, (member, _) in members.items()}
    return {member: known for member, known in found.items() if known is not None}
