"""The files that a table's metadata names, looked at by tasks of an `Executor`: manifests, data files with their side
and embedded indexes, and the files that index manifests name.

Everything is read from the storage: a cached copy does not show the present state of a file.
(Specification: Paimon documentation, concepts/spec.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import from_numpy, pc, to_numpy
from paimon_pyds.engine.execution.live_files import index_source, planned_live_files
from paimon_pyds.engine.scan.planned_files import index_file_paths
from paimon_pyds.engine.write.rolling import PACKS_SUFFIX
from paimon_pyds.errors import CorruptFileError, PaimonError
from paimon_pyds.format.blob.reader import blob_row_count
from paimon_pyds.index.build import value_type
from paimon_pyds.index.container import checked
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import supports
from paimon_pyds.keys.bucket.hash_index import Hashes, HashIndex
from paimon_pyds.metadata.deletion.vector import read_vector
from paimon_pyds.metadata.manifest import (
    DELETION_VECTORS,
    HASH,
    FileKind,
    IndexEntry,
    ManifestFile,
    file_identities,
    is_blob_file,
)
from paimon_pyds.metadata.manifest_codec import decode_manifest
from paimon_pyds.metadata.manifest_reader import EntryFilter
from paimon_pyds.metadata.paths import file_paths
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.index_tools.verify import column_and_key
from paimon_pyds.ops.maintenance.blob_packs import listed_packs
from paimon_pyds.ops.maintenance.findings import Finding, Findings
from paimon_pyds.ops.maintenance.verify_rows import KeyChecks, verify_rows
from paimon_pyds.storage import FileIO
from paimon_pyds.storage.byte_source import FileSource

Identities = npt.NDArray[np.uint64]

_KEPT = (
    "kind", "partition", "bucket", "total_buckets", "file_name", "row_count", "schema_id", "level", "min_key",
    "max_key", "extra_files", "file_source", "first_row_id",
)  # fmt: skip
_READ_TOGETHER = 1 << 20
"""Bytes of an index that are held against their checksums at a time."""


# ----------------------------------------------------------------------------------------------------------- manifests


@dataclass(frozen=True)
class Manifest:
    """What a manifest holds. ``entries``: some columns of them; None where the file can't be read. ``identities``:
    numbers that identify the files of entries (by `IDENTITY_COLUMNS`)."""

    name: str
    entries: pa.RecordBatch | None
    identities: Identities
    findings: tuple[Finding, ...]

    @property
    def signs(self) -> npt.NDArray[np.int64]:
        """1 for each ADD, -1 for each DELETE."""
        assert self.entries is not None
        return np.where(to_numpy(self.entries.column("kind")) == FileKind.DELETE, -1, 1)

    @property
    def rows(self) -> int:
        """Rows of the files added, less those of the files deleted."""
        assert self.entries is not None
        return int((self.signs * to_numpy(self.entries.column("row_count"))).sum())


@dataclass(frozen=True)
class Manifests:
    """Some manifests to read, as lists name them; ``schema`` is None where no partition can be understood."""

    store: TableStore
    schema: TableSchema | None
    files: Sequence[ManifestFile]


def read_manifests(task: Manifests) -> list[Manifest]:
    """Read some manifests and hold them against what their list says."""
    return [_read_manifest(task.store, task.schema, file) for file in task.files]


def _read_manifest(store: TableStore, schema: TableSchema | None, file: ManifestFile) -> Manifest:
    findings, entries, identities = Findings(), None, np.empty(0, np.uint64)
    path = f"{store.paths.manifest_dir}/{file.file_name}"
    with findings.guard("manifest", path):
        path = store.paths.manifest(file.file_name)
        data = store.io.read_bytes(path)
        if len(data) != file.file_size:
            findings.add("file-size", path, f"the file has {len(data)} bytes, its manifest list says {file.file_size}")
        whole = decode_manifest(data, path)
        identities = np.fromiter(map(xxh3_64_intdigest, file_identities(whole).to_pylist()), np.uint64, whole.num_rows)
        entries = whole.select(list(_KEPT))
        deleted = int((to_numpy(whole.column("kind")) == FileKind.DELETE).sum())
        found, listed = (whole.num_rows - deleted, deleted), (file.num_added_files, file.num_deleted_files)
        if found != listed:
            what = "adds {:,} files and deletes {:,}"
            says = f"it {what.format(*found)}, its manifest list says that it {what.format(*listed)}"
            findings.add("manifest-count", path, says)
        left_out = 0 if schema is None else _left_out(schema, file, entries)
        if left_out:
            what = f"{left_out:,} of its partitions, or their buckets, are outside of the ranges that its list gives"
            findings.add("manifest-range", path, what)
    return Manifest(file.file_name, entries, identities, tuple(findings.found))


def _left_out(schema: TableSchema, file: ManifestFile, entries: pa.RecordBatch) -> int:
    """Of how many partitions a reader would pass over the manifest, by what its list says of it."""
    buckets = [end for end in pc.min_max(entries.column("bucket")).values() if end.is_valid]
    wanted = [
        [EntryFilter(schema, partitions=frozenset({partition}), buckets=frozenset({end.as_py()})) for end in buckets]
        for partition in entries.column("partition").unique().to_pylist()
    ]
    return sum(not all(one.may_hold([file]) for one in filters) for filters in wanted)


# ---------------------------------------------------------------------------------------------------------- data files


@dataclass(frozen=True)
class DataFiles:
    """Some data files, as rows of a manifest, to look at.

    Attributes:
        store: of the branch whose schemas they have.
        schema: the table's newest.
        schemas: the numbers of those that can be read.
        sorted: they are sorted runs where the table has a primary key, and no changelogs.
        hashed: hash index files that must know their keys, of buckets that files of the newest state are in.
        newest: which of the rows are files of the newest state.
    """

    store: TableStore
    schema: TableSchema
    schemas: frozenset[int]
    manifest: str
    rows: npt.NDArray[np.int64]
    deep: bool
    sorted: bool
    hashed: Sequence[IndexEntry]
    newest: npt.NDArray[np.bool_]


def verify_data_files(task: DataFiles) -> list[Finding]:
    """Look at some data files, and the indexes of each; with ``deep`` also at what they hold."""
    findings, store, packs = Findings(), task.store, dict[str, None]()
    path = store.paths.manifest(task.manifest)
    with findings.guard("manifest", path):
        entries = decode_manifest(store.io.read_bytes(path), path).take(from_numpy(task.rows))
        known = np.isin(to_numpy(entries.column("schema_id")), list(task.schemas))
        newest = set(entries.column("file_name").filter(from_numpy(task.newest)).to_pylist())
        for read, file, entry in _planned(task, entries.filter(from_numpy(known)), findings):
            _verify_data_file(read, file, findings)
            beside = entry.column("extra_files")[0].as_py()
            for other in (store.paths.extra_file(file.path, name) for name in beside if not name.endswith(".index")):
                with findings.guard("data-file", other):
                    if other.endswith(PACKS_SUFFIX):
                        options = store.schema(file.schema_id).options
                        outside = file_paths(store, options, outside=True).external_roots
                        packs.update(dict.fromkeys(listed_packs(store, other, outside)))
                    else:
                        store.io.size(other)
            if task.deep and not any(finding.path == file.path for finding in findings.found):
                with findings.guard("data-file", file.path):
                    hashes = _hashes(task, file) if file.name in newest else None
                    checks = KeyChecks(task.schema, task.sorted, hashes)
                    verify_rows(read, file, entry, checks, findings)
    for pack in packs:
        with findings.guard("data-file", pack):
            store.io.size(pack)
    return list(findings.found)


def _hashes(task: DataFiles, file: PlannedFile) -> Hashes | None:
    """The hashes of all keys of a file's bucket; None if it has no hash index, or it can't be read."""
    index, ignored = HashIndex(task.store, task.schema, task.hashed), Findings()
    for entry in task.hashed:
        if (entry.partition, entry.bucket) == file.bucket_id:
            with ignored.guard("hash-index", entry.file_name):  # a finding of its own
                return index.read(entry)
    return None


def _planned(
    task: DataFiles, entries: pa.RecordBatch, findings: Findings
) -> Iterator[tuple[ReadSpec, PlannedFile, pa.RecordBatch]]:
    """The files of entries as plans have them, with the entry of each; one by one where some name is not right."""
    singles = [entries.slice(i, 1) for i in range(entries.num_rows)]
    try:
        read, files = planned_live_files(task.store, task.schema, entries)
        yield from ((read, file, entry) for file, entry in zip(files, singles, strict=True))
    except PaimonError:
        for entry in singles:
            with findings.guard("data-file", entry.column("file_name")[0].as_py()):
                read, files = planned_live_files(task.store, task.schema, entry)
                yield read, files[0], entry


def _verify_data_file(read: ReadSpec, file: PlannedFile, findings: Findings) -> None:
    io, path = read.io, file.path
    with findings.guard("data-file", path):
        size = io.size(path)
        if size != file.size:
            findings.add("file-size", path, f"the file has {size:,} bytes, its manifest says {file.size:,}")
            return
        magic = formats.traits_of(path).magic
        if io.read_range(path, 0, min(len(magic), size)) != magic:
            findings.add("data-file", path, f"the file does not begin with {magic!r}")
        counted = _row_count(read, file)
        if counted != file.row_count:
            findings.add("row-count", path, f"the file has {counted:,} rows, its manifest says {file.row_count:,}")
    where = file.index_path or path
    with findings.guard("file-index", where):
        source = index_source(io, file)
        if source is not None:
            index = FileIndex.open(source)
            bodies = checked(source, index.head)
            start, end = index.head.head_length, index.head.head_length + (index.head.checked_bytes or 0)
            for at in range(start, end, _READ_TOGETHER):
                bodies.read(at, min(_READ_TOGETHER, end - at))
            for column, kinds in index.head.columns.items():
                _verify_index(read, file, index, column, kinds)


def _row_count(read: ReadSpec, file: PlannedFile) -> int:
    """Rows by the file's own footer."""
    if is_blob_file(file.path):
        return blob_row_count(read.io, file.path, file.size)
    opened = formats.by_path(file.path).open_reader(
        read.io, file.path, file.size, formats.ReadCounters(), read.hints(file)
    )
    with closing(opened) as reader:
        return reader.row_count


def _verify_index(
    read: ReadSpec, file: PlannedFile, index: FileIndex, column: str, kinds: Mapping[str, object]
) -> None:
    """Open the indexes of a column of a container. Raises CorruptFileError."""
    found = column_and_key(column, read.fields_of(file))
    if found is None:
        raise CorruptFileError(f"it has an index of {column!r:.60}, which the file has not")
    type_ = value_type(found[0].type, found[1])
    for kind in kinds:
        reader = index.reader(column, kind, type_) if supports(kind, type_) else None
        if reader is not None:
            index.check_rows(reader, column, kind, file.row_count)


# --------------------------------------------------------------------------------------------------------- index files


@dataclass(frozen=True)
class IndexFiles:
    """Some index files of a table to look at; ``row_counts``: of the data files that there are vectors of, by name."""

    store: TableStore
    schema: TableSchema
    entries: Sequence[IndexEntry]
    row_counts: Mapping[str, int]


def verify_index_files(task: IndexFiles) -> list[Finding]:
    """Look at some of the files that index manifests name."""
    findings = Findings()
    for entry in task.entries:
        kind = {DELETION_VECTORS: "deletion-vector", HASH: "hash-index"}.get(entry.index_type, "table-index")
        with findings.guard(kind, entry.file_name):
            path = next(index_file_paths(task.store, task.schema, [entry]))
            with findings.guard(kind, path):
                _verify_index_file(task, entry, path, findings)
    return list(findings.found)


def _verify_index_file(task: IndexFiles, entry: IndexEntry, path: str, findings: Findings) -> None:
    io: FileIO = task.store.io
    size = io.size(path)
    if size != entry.file_size:
        findings.add("file-size", path, f"the file has {size:,} bytes, its index manifest says {entry.file_size:,}")
    if entry.index_type == HASH:
        hashes = HashIndex(task.store, task.schema, [entry]).read(entry)
        twice = len(hashes) - len(np.unique(hashes))
        if twice:
            findings.add("hash-index", path, f"{twice:,} of {len(hashes):,} keys are there twice")
    source = FileSource(io, path, size)
    for range_ in entry.deletion_ranges or ():
        with findings.guard("deletion-vector", path):
            rows = task.row_counts.get(range_.data_file)
            read_vector(source, range_.offset, range_.length, range_.cardinality, rows)


@dataclass(frozen=True)
class HashIndexes:
    """The hash index files of one state, by partition: no key is in two buckets of one."""

    store: TableStore
    schema: TableSchema
    entries: Sequence[IndexEntry]


def verify_hash_indexes(task: HashIndexes) -> list[Finding]:
    """Look for keys that two buckets of a partition have."""
    findings, index = Findings(), HashIndex(task.store, task.schema, task.entries)
    for partition in dict.fromkeys(entry.partition for entry in task.entries):
        files = sorted((e for e in task.entries if e.partition == partition), key=lambda entry: entry.bucket)
        first = next(index_file_paths(task.store, task.schema, files))
        seen = np.empty(0, np.int32)
        ignored = Findings()  # files that can't be read are found one by one
        for entry in files:
            with ignored.guard("hash-index", first):
                hashes = np.unique(index.read(entry))
                both = len(np.intersect1d(seen, hashes, assume_unique=True))
                seen = np.union1d(seen, hashes)
                if both:
                    path = next(index_file_paths(task.store, task.schema, [entry]))
                    what = f"{both:,} keys of bucket {entry.bucket} are also in another bucket"
                    findings.add("hash-index", path, what)
    return list(findings.found)
