"""Tables to compact, and ways to delete rows of them by deletion vectors."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit import Changes, Increment, commit, vector_places
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.metadata.deletion.vector import DeletionVector, write_vectors
from paimon_pyds.metadata.manifest import DELETION_VECTORS, DeletionRange, IndexEntry
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot

T = TypeVar("T")
R = TypeVar("R")

SCHEMA = pa.schema([("id", pa.int64()), ("color", pa.string()), ("price", pa.float64()), ("day", pa.int32())])
VECTORS = {"deletion-vectors.enabled": "true"}


def rows(first: int, count: int = 10) -> pa.Table:
    """So many rows, ids from ``first`` on."""
    ids = range(first, first + count)
    colors = [None if i % 7 == 0 else ("red", "green", "blue")[i % 3] for i in ids]
    days = [None if i % 5 == 0 else i % 2 for i in ids]
    return pa.table({"id": ids, "color": colors, "price": [(1 + i * 37 % 101) / 4 for i in ids], "day": days}, SCHEMA)


def make(path: Path, files: int = 6, options: Mapping[str, str] | None = None, **create: Any) -> pp.Table:
    """A table of so many appends of ten rows."""
    table = pp.Table.create(path, SCHEMA, options=options, **create)
    for number in range(files):
        table.append(rows(number * 10))
    return table


def live(table: pp.Table) -> pa.RecordBatch:
    """The live entries."""
    return live_of(table._store, table.snapshots.latest())


def names(table: pp.Table) -> list[str]:
    """The names of the live data files."""
    return [str(name) for name in live(table)["file_name"].to_pylist()]


def ids(table: pp.Table) -> list[int]:
    """The ids of the rows, in the order that a read gives them."""
    found: list[int] = table.scan(columns=["id"]).to_arrow()["id"].to_pylist()
    return found


def latest(table: pp.Table) -> Snapshot:
    """The latest snapshot."""
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return snapshot


def deleted(table: pp.Table) -> int:
    """Rows that lie in data files and are deleted."""
    return sum(r.cardinality or 0 for entry in index_entries(table) for r in entry.deletion_ranges or ())


def index_entries(table: pp.Table) -> list[IndexEntry]:
    """The index manifest of the latest snapshot."""
    name = latest(table).index_manifest
    return [] if name is None else list(table._store.read_index_manifest(name))


def delete_positions(table: pp.Table, vectors: Mapping[str, Sequence[int]]) -> None:
    """Delete rows of data files, by their positions, besides those that are deleted already."""
    old = index_entries(table)
    places = vector_places(old)
    named = live(table)
    named = named.filter(pc.is_in(named["file_name"], pa.array(list(vectors))))
    by_place: dict[tuple[bytes, int], list[str]] = {}
    for entry in named.to_pylist():
        by_place.setdefault((entry["partition"], entry["bucket"]), []).append(entry["file_name"])
    made, replaced = [], set()
    for (partition, bucket), files in by_place.items():
        whole = {name: BitMap(vectors[name]) for name in files}
        for entry in old:
            if any(r.data_file in whole for r in entry.deletion_ranges or ()) or (
                bucket and (entry.partition, entry.bucket) == (partition, bucket)
            ):
                replaced.add(entry.file_name)
                for name, positions in _positions(table, entry).items():
                    whole[name] = whole.get(name, BitMap()) | positions
        data, ranges = write_vectors([DeletionVector(v) for v in whole.values()])
        name = f"index-{uuid.uuid4()}-0"
        table._store.io.write_bytes(table._store.paths.index(name), data)
        listed = tuple(DeletionRange(n, r.offset, r.length, r.cardinality) for n, r in zip(whole, ranges, strict=True))
        made.append(
            IndexEntry(
                partition=partition, bucket=bucket, index_type=DELETION_VECTORS, file_name=name,
                file_size=len(data), row_count=len(whole), deletion_ranges=listed,
            )
        )  # fmt: skip
    changes = Increment(
        required=named,
        expected_vectors={name: places.get(name) for name in vectors},
        index_entries=made,
        replaced_index_files=frozenset(replaced),
        kind=CommitKind.OVERWRITE,
    )
    assert commit(table._store, Changes([changes]), TableOptions(table.options)) is not None


def _positions(table: pp.Table, entry: IndexEntry) -> dict[str, BitMap]:
    from paimon_pyds.metadata.deletion.vector import read_vector
    from paimon_pyds.storage.byte_source import FileSource

    source = FileSource(table._store.io, table._store.paths.index(entry.file_name))
    return {
        r.data_file: read_vector(source, r.offset, r.length, r.cardinality, None).positions
        for r in entry.deletion_ranges or ()
    }


def data_files(table: pp.Table) -> set[str]:
    """Every data and index file on disk, whether a snapshot has it or not."""
    return {str(p) for p in Path(table.path).rglob("bucket-*/*")}


class Meanwhile:
    """An executor that lets others work between the tasks and the commit, or before the tasks: once, or each time."""

    def __init__(self, action: Callable[[], object], times: int = 1, *, before: bool = False) -> None:
        self.action = action
        self.left = times
        self.before = before

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        if self.before:
            self.act()
        results = [function(task) for task in tasks]
        if not self.before:
            self.act()
        yield from results

    def act(self) -> None:
        if self.left:
            self.left -= 1
            self.action()
