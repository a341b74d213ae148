"""Data files in partitions by instants whose directories have SQL's names (``partition.legacy-name`` = false).

Java names these in the time zone of its process, and metadata does not say which that was: ``2020-07-01 08:00:00.000``
in New York is noon in UTC. So the directories that may be meant are listed, and the file is looked for in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from paimon_pyds.errors import PredicateError
from paimon_pyds.metadata.paths import TablePaths, escape_path_name, partition_path
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.row import decode_row
from paimon_pyds.sql.values import parse_timestamp
from paimon_pyds.storage.base import FileIO
from paimon_pyds.types import NANOS_PER_UNIT, DataField, Kind, timestamp_unit

__all__ = ["ZonedPartitions"]

_FARTHEST = 18 * 3600 * 1_000_000_000
"""No zone is further from UTC, in nanoseconds."""


class ZonedPartitions:
    """Finds files of such a table; each directory is listed once."""

    def __init__(self, io: FileIO, schema: TableSchema, paths: TablePaths) -> None:
        self._io = io
        self._schema = schema
        self._paths = paths
        self._partitions: dict[bytes, list[str]] = {}
        self._listed: dict[str, dict[str, bool]] = {}

    def directory(self, partition: bytes, bucket: int, file_name: str) -> str:
        """The directory of the partition in whose bucket this file lies; that by UTC where it lies in none."""
        if partition not in self._partitions:
            self._partitions[partition] = self._candidates(partition)
        found = self._partitions[partition]
        return next((d for d in found if file_name in self._names(self._paths.bucket_dir(d, bucket))), found[0])

    def _names(self, directory: str) -> dict[str, bool]:
        """What is in a directory, and whether it is one itself."""
        if directory not in self._listed:
            self._listed[directory] = {status.name: status.is_dir for status in self._io.list(directory)}
        return self._listed[directory]

    def _candidates(self, partition: bytes) -> list[str]:
        """The directories that a partition may have, that by UTC first."""
        fields, options = self._schema.partition_fields, self._schema.options
        values = decode_row(partition, [f.type for f in fields])
        found = [""]
        for field, value in zip(fields, values, strict=True):
            own = partition_path([field], [value], options)
            found = [
                f"{outer}/{name}" if outer else name
                for outer in found
                for name in self._spelled(outer, field, value, own)
            ]
        return found

    def _spelled(self, outer: str, field: DataField, value: Any, own: str) -> Iterator[str]:
        """The names that one value may have, of those that are there."""
        yield own
        if field.type.kind is not Kind.TIMESTAMP_LTZ or value is None:
            return
        start = f"{escape_path_name(field.name)}="
        nanos = value * NANOS_PER_UNIT[timestamp_unit(field.type)]
        for name, is_dir in self._names(f"{self._paths.data_root}/{outer}".rstrip("/")).items():
            if is_dir and name != own and name.startswith(start) and _is_near(unquote(name[len(start) :]), nanos):
                yield name


def _is_near(text: str, nanos: int) -> bool:
    try:
        shown, _ = parse_timestamp(text)
    except PredicateError:
        return False
    return abs(shown - nanos) <= _FARTHEST
