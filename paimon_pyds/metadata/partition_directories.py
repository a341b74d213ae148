"""Which directory a partition has, where its values alone don't say it.

Java names directories of instants in the time zone of its process (``partition.legacy-name`` = false): ``2020-07-01
08:00:00.000`` in New York is noon in UTC. And since version 19 it spells some floats in other digits: 1.1E10 as a FLOAT
was 1.10000005E10 before (`is_spelled_alike`). Metadata says neither the zone nor the version. So the directories that
may be meant are listed, each once, and where there are several, a file is looked for in each. Java finds only what is
in the directory that it names, so new files go to the directory that is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.options.table_options import zoned_partitions
from paimon_pyds.base.row import decode_row, decode_rows
from paimon_pyds.base.types import DataField, timestamp_unit
from paimon_pyds.base.types.kinds import FLOAT_KINDS, NANOS_PER_UNIT, Kind
from paimon_pyds.base.types.sql_values import double_from_text, float32_from_text, parse_timestamp
from paimon_pyds.errors import PredicateError, UnsupportedError
from paimon_pyds.metadata.manifest import IndexEntry
from paimon_pyds.metadata.paths import TablePaths, escape_path_name, partition_directories, partition_path
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.storage import FileIO

_FARTHEST_NANOS = 18 * 3600 * 1_000_000_000
"""No zone is further from UTC, in nanoseconds."""
_WITH_EXPONENT = re.compile(r"-?\d\.\d+E-?\d+")
"""How Java spells the floats that its versions spell differently."""


class PartitionDirectories:
    """The directories of a table's partitions. Listings stay in the object, which is for one plan or one write.

    Args:
        io: where the table is.
        schema: has the partition columns, and the options for the names of directories.
        paths: of the table.
    """

    def __init__(self, io: FileIO, schema: TableSchema, paths: TablePaths) -> None:
        self._io = io
        self._schema = schema
        self._paths = paths
        self._zoned = bool(zoned_partitions(schema))
        self._floats = [at for at, field in enumerate(schema.partition_fields) if field.type.kind in FLOAT_KINDS]
        self._found: dict[bytes, list[str]] = {}
        self._listed: dict[str, dict[str, bool]] = {}

    def uncertain(self, partitions: Iterable[bytes]) -> set[bytes]:
        """Those of some partitions whose directories have to be looked for."""
        if self._zoned:
            return set(partitions)
        rows = list(dict.fromkeys(partitions)) if self._floats else []
        if not rows:
            return set()
        fields = self._schema.partition_fields
        columns = decode_rows(array(rows, pa.binary()), [field.type for field in fields], arity=True)
        found = set[bytes]()
        for at in self._floats:
            for row, value in zip(rows, columns[at].to_pylist(), strict=True):
                if _is_spelled_in_two_ways(fields[at], value):
                    found.add(row)
        return found

    def prepare(self, partitions: Iterable[bytes]) -> set[bytes]:
        """Find the directories of many partitions at once, where nothing has to be looked for; gives the others."""
        rows = list(dict.fromkeys(partitions))
        uncertain = self.uncertain(rows)
        known = [row for row in rows if row not in uncertain and row not in self._found]
        for row, directory in zip(known, partition_directories(self._schema, known), strict=True):
            self._found[row] = [directory]
        return uncertain

    def of_file(self, partition: bytes, bucket: int, file_name: str) -> str:
        """The directory of the partition whose bucket has this file. If none has it, that by UTC, or with the digits of
        Java 19 and later."""
        found = self._candidates(partition)
        if len(found) == 1:
            return found[0]
        return next((d for d in found if file_name in self._names(self._paths.bucket_dir(d, bucket))), found[0])

    def of_partition(self, partition: bytes) -> str:
        """The directory of the partition that is there; if several or none are, the first of them."""
        found = self._candidates(partition)
        return found[0] if len(found) == 1 else (self._present(found) or found)[0]

    def names(self, partition: bytes) -> dict[str, str]:
        """The values of the partition as its directory (`of_partition`) has them, but not escaped, by column."""
        parts = (part.partition("=") for part in self.of_partition(partition).split("/") if part)
        return {unquote(name): unquote(text) for name, _, text in parts}

    def to_write(self, partitions: Sequence[bytes]) -> list[str]:
        """The directories for new files of partitions.
        Raises UnsupportedError: a name depends on the Java that looks for it, and none or several are there."""
        uncertain = self.prepare(partitions)
        return [self._only_one(row) if row in uncertain else self._found[row][0] for row in partitions]

    def index_file(self, entry: IndexEntry) -> str:
        """The path of a file of an index manifest. Raises SecurityError as `TablePaths.index_file`."""
        place, directory = (entry.partition, entry.bucket, entry.file_name), ""
        if self._paths.indexes_are_beside_data and entry.external_path is None:
            directory = self.of_file(*place)
        return self._paths.index_file(directory, *place[1:], entry.external_path)

    def _only_one(self, partition: bytes) -> str:
        found = self._candidates(partition)
        present = self._present(found)
        if len(present) != 1:
            values = decode_row(partition, [field.type for field in self._schema.partition_fields])
            check_spelled_alike(self._schema, values, "the table has both" if present else "the table has neither")
        return (present or found)[0]

    def _present(self, directories: Iterable[str]) -> list[str]:
        return [one for one in directories if self._names(f"{self._paths.data_root}/{one}")]

    def _names(self, directory: str) -> dict[str, bool]:
        """The names in a directory, and whether each is a directory itself."""
        if directory not in self._listed:
            self._listed[directory] = {status.name: status.is_dir for status in self._io.list(directory)}
        return self._listed[directory]

    def _candidates(self, partition: bytes) -> list[str]:
        """The directories that a partition may have, one at least; that by UTC, or of Java 19 and later, first."""
        if partition not in self._found:
            fields, options = self._schema.partition_fields, self._schema.options
            values = decode_row(partition, [field.type for field in fields]) if fields else ()
            found = [""]
            for field, value in zip(fields, values, strict=True):
                own = partition_path([field], [value], options)
                found = [
                    f"{outer}/{name}" if outer else name
                    for outer in found
                    for name in self._spelled(outer, field, value, own)
                ]
            self._found[partition] = found or [partition_path(fields, values, options)]
        return self._found[partition]

    def _spelled(self, outer: str, field: DataField, value: Any, own: str) -> Iterator[str]:
        """The names that one value may have in a directory of outer values."""
        in_zones = self._zoned and field.type.kind is Kind.TIMESTAMP_LTZ and value is not None
        in_two_ways = _is_spelled_in_two_ways(field, value)
        if in_zones or not in_two_ways:
            yield own
        if not in_zones and not in_two_ways:
            return
        there = self._names(f"{self._paths.data_root}/{outer}".rstrip("/"))
        if in_two_ways and there.get(own):
            yield own
        start = f"{escape_path_name(field.name)}="
        means = _same_float(field, value) if in_two_ways else _same_instant(field, value)
        for name, is_dir in there.items():
            if is_dir and name != own and name.startswith(start) and means(unquote(name[len(start) :])):
                yield name


def check_spelled_alike(schema: TableSchema, values: Iterable[Any], what: str = "") -> None:
    """See that all versions of Java look for a partition in the same directory. ``values``: internal values of the
    partition columns. ``what``: what is in the table, for the error.
    Raises UnsupportedError: a float whose text depends on the version of Java."""
    for field, value in zip(schema.partition_fields, values, strict=True):
        if _is_spelled_in_two_ways(field, value):
            raise UnsupportedError(
                f"{value!r} in partition column {field.name!r}, which is {field.type}: Java before 19 and later ones "
                f"look for it in directories of different names{what and f', and {what}'}",
                hint="partition by a column of another type, such as DECIMAL or STRING",
                feature="append-tables",
            )


def _is_spelled_in_two_ways(field: DataField, value: Any) -> bool:
    kind = field.type.kind
    if kind not in FLOAT_KINDS or value is None:
        return False
    from paimon_pyds.base.types.java_text import is_spelled_alike  # few tables need it

    return not is_spelled_alike(value, kind is Kind.FLOAT)


def _same_float(field: DataField, value: float) -> Callable[[str], bool]:
    parsed = float32_from_text if field.type.kind is Kind.FLOAT else double_from_text
    return lambda text: _WITH_EXPONENT.fullmatch(text) is not None and parsed(text) == value


def _same_instant(field: DataField, value: int) -> Callable[[str], bool]:
    nanos = value * NANOS_PER_UNIT[timestamp_unit(field.type)]

    def is_shifted(text: str) -> bool:
        try:
            shown, _ = parse_timestamp(text)
        except PredicateError:
            return False
        return abs(shown - nanos) <= _FARTHEST_NANOS

    return is_shifted
