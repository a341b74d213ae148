"""Plans of format tables: directories of files, without snapshots and manifests.

Partitions are directories ``k=v`` or, with ``format-table.partition-path-only-value``, ``v``. Names that begin with
``_`` or ``.`` are passed over. A plan opens each file, as nothing else says how many rows it has.
(Source: Java Paimon's FormatTableScan and PartitionPathUtils.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import array
from paimon_pyds.base.row import EMPTY_ROW, encode_rows
from paimon_pyds.base.types import MAX_LENGTH, AtomicType, Kind
from paimon_pyds.base.types.kinds import STRING_KINDS
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.scan.result import ScanPlan
from paimon_pyds.errors import CorruptFileError, SecurityError, UnsupportedError
from paimon_pyds.format import ReadCounters
from paimon_pyds.metadata.directory_store import DirectoryStore
from paimon_pyds.metadata.evolution.casting import cast_atomic
from paimon_pyds.metadata.partition import PartitionBucket, partition_mask
from paimon_pyds.metadata.planned_file import FileBounds, PlannedFile
from paimon_pyds.metadata.split import Files
from paimon_pyds.sql.predicate.relaxation import partition_filter
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage import FileStatus, forget
from paimon_pyds.storage.concurrent import concurrent_map, threads_for

if TYPE_CHECKING:
    from paimon_pyds.engine.scan.plan import Planner

_TEXT = AtomicType(Kind.VARCHAR, length=MAX_LENGTH)
_THREADS = 4
"""Files of a local disk that are opened at a time."""


def directory_plan(planner: Planner) -> ScanPlan:
    """The plan of a request to a format table.

    Raises:
        CorruptFileError, SchemaError: a directory is no partition of the table; a file is damaged.
        SecurityError: a link.
        UnsupportedError: a file of another format; partitions that only the catalog knows.
    """
    options = planner.request.options
    if str(options.get("metastore.partitioned-table")).lower() == "true":
        raise UnsupportedError(
            "a format table whose partitions only its catalog knows (metastore.partitioned-table=true)",
            path=planner.store.root,
            hint="read it with Java Paimon",
            feature="format-tables",
        )
    files = Files(tuple(_Directory(planner).files()))
    total = (len(files), sum(file.row_count for file in files.made), sum(file.size for file in files.made))
    planner.note_totals("table" if planner.partition_predicate is Const.TRUE else "partitions", total)
    return ScanPlan(
        spec=planner.spec(files),
        found=files,
        snapshot_id=None,
        schema_id=planner.schema.id,
        steps=tuple(planner.steps),
        target_split_size=options.get("source.split.target-size"),
        open_file_cost=options.get("source.split.open-file-cost"),
    )


class _Directory:
    """The files of a table that a request has to read."""

    def __init__(self, planner: Planner) -> None:
        self.planner, self.request, self.store, self.schema = planner, planner.request, planner.store, planner.schema
        keys = self.schema.partition_keys
        self._rest = partition_filter(self.request.predicate, keys)[1] if keys else self.request.predicate

    def files(self) -> Iterator[PlannedFile]:
        partitions = list(self._partitions(self.store.root, self.schema.partition_keys))
        rows = self._rows([texts for texts, _ in partitions])
        keep = partition_mask(self.schema, self.planner.partition_predicate, rows) if partitions else ()
        found = [
            self._planned(status, row)
            for (_, directory), row, kept in zip(partitions, rows.to_pylist(), keep, strict=True)
            if kept
            for status in self._files(directory)
        ]
        hints = self.planner.spec(Files(tuple(found))).hints

        def counted(file: PlannedFile) -> PlannedFile:
            format_ = formats.of_directory(file.path)
            with closing(
                format_.open_reader(self.store.io, file.path, file.size, ReadCounters(), hints(file))
            ) as reader:
                return file._replace(row_count=reader.row_count)

        yield from concurrent_map(counted, found, threads_for(self.store.io, _THREADS))

    def _planned(self, status: FileStatus, partition: bytes) -> PlannedFile:
        wanted = str(self.request.options.get("file.format"))
        if formats.of_directory(status.path).name != wanted:
            raise UnsupportedError(
                f"a file of a format table with file.format={wanted} whose name does not end so",
                path=status.path,
                hint="rename it, or move it away",
                feature="format-tables",
            )
        forget(self.store.io, status.path)  # names of these files may come again
        place, bounds = PartitionBucket(partition, 0), FileBounds(self._rest, {})
        return PlannedFile(status.path, status.size, 0, self.schema.id, place, bounds=bounds)

    def _partitions(
        self, directory: str, keys: Sequence[str], texts: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """The texts of the values of partitions, and their directories."""
        if not keys:
            yield texts, directory
            return
        bare = self.request.options.get("format-table.partition-path-only-value")
        default = self.request.options.get("partition.default-name")
        for entry in self._visible(directory, default if bare else ""):
            if not entry.is_dir:
                continue
            name, is_pair, text = ("", True, entry.name) if bare else entry.name.partition("=")
            if not is_pair:
                continue  # as in Java
            if not bare and unquote(name) != keys[0]:
                raise CorruptFileError(f"a partition of {unquote(name)!r:.60}, not of {keys[0]!r}", path=entry.path)
            yield from self._partitions(entry.path, keys[1:], (*texts, unquote(text)))

    def _files(self, directory: str) -> Iterator[FileStatus]:
        """The data files below a directory, by their paths."""
        for entry in sorted(self._visible(directory), key=lambda entry: entry.path):
            if entry.is_dir:
                yield from self._files(entry.path)
            else:
                yield entry

    def _visible(self, directory: str, also: str = "") -> Iterator[FileStatus]:
        for entry in self.store.io.list(directory):
            if entry.name.startswith((".", "_")) and entry.name != also:
                continue
            if entry.name == "schema" and directory == self.store.root and not isinstance(self.store, DirectoryStore):
                continue  # a catalog of directories has the schema there
            if entry.is_link:
                raise SecurityError("a link in the directory of a format table", path=entry.path, hint="move the files")
            yield entry

    def _rows(self, texts: Sequence[tuple[str, ...]]) -> pa.BinaryArray:
        """Partitions as rows. Raises SchemaError: a text is no value of its column."""
        fields, default = self.schema.partition_fields, self.request.options.get("partition.default-name")
        if not fields:
            return array([EMPTY_ROW] * len(texts), pa.binary())
        columns = []
        for number, field in enumerate(fields):
            given = array([None if row[number] == default else row[number] for row in texts], pa.string())
            if field.type.kind not in STRING_KINDS:
                assert isinstance(field.type, AtomicType)
                given = cast_atomic(given, _TEXT, field.type, self.request.zone or default_zone())
            columns.append(given)
        return encode_rows(columns, [field.type for field in fields], arity=True)
