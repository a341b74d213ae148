"""Metadata that contradicts itself or the data: one clear error, or the rows that are there; never another count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import EMPTY_ROW
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.deletion.vector_files import VectorFiles
from paimon_pyds.metadata.manifest import DeletionRange, IndexEntry, ManifestFile
from paimon_pyds.metadata.manifest_codec import decode_manifest, encode_manifest
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.record_codec import (
    decode_index_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest_list,
)
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot, snapshot_to_json

ROWS = 10
VECTORS = {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "c"}


def _table(path: Path, options: dict[str, str] | None = None) -> pp.Table:
    """One file of ten rows."""
    data = pa.table({"id": range(ROWS), "c": [i % 3 for i in range(ROWS)]})
    table = pp.Table.create(path / "t", data.schema, options=options or {})
    table.append(data)
    return table


def _snapshot(table: pp.Table) -> Snapshot:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return snapshot


def _vector_of(table: pp.Table, positions: BitMap) -> None:
    """Commit a deletion vector as a writer would that doesn't know how many rows the file has."""
    options = TableOptions(table.options)
    live = live_of(table._store, table.snapshots.latest())
    files = VectorFiles(table._store, table.schema, options, (), live)
    made = files.write({(EMPTY_ROW, 0): {live["file_name"][0].as_py(): positions}})
    changes = Changes([Increment(index_entries=made.entries, kind=CommitKind.OVERWRITE)])
    assert commit(table._store, changes, options) is not None


READS: dict[str, Callable[[pp.Table], Any]] = {
    "scan": lambda t: t.scan().to_arrow(),
    "filter": lambda t: t.scan("id > 3").to_arrow(),
    "index": lambda t: t.scan("c = 1").to_arrow(),
    "limit": lambda t: t.scan(limit=2).to_arrow(),
    "count where": lambda t: t.count("c = 1"),
    "max": lambda t: t.scan().answer.max("c").value,
    "top n": lambda t: t.scan().answer.top_n("c, 2").value,
    "delete": lambda t: t.delete("id = 5"),
    "update": lambda t: t.update({"c": "7"}, "id = 5"),
    "compact": lambda t: t.compact(full=True),
}


@pytest.mark.parametrize("bits", ["32", "64"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_vector_with_positions_beyond_the_file(tmp_path: Path, read: Callable[[pp.Table], Any], bits: str) -> None:
    table = _table(tmp_path, {**VECTORS, "deletion-vectors.bitmap64": str(bits == "64").lower()})
    _vector_of(table, BitMap([1, 1000]))
    with pytest.raises(CorruptFileError, match=r"1000.*index-"):
        read(table)


def _rewrite_manifest(table: pp.Table, column: str, value: int) -> None:
    """Put a number into the first entry of the newest manifest, and its new size into the list."""
    store, snapshot = table._store, _snapshot(table)
    (manifest,) = ManifestReader(store).delta(snapshot)
    path = Path(store.paths.manifest(manifest.file_name))
    entries = decode_manifest(path.read_bytes(), str(path))
    at = entries.schema.get_field_index(column)
    numbers = pa.array([value, *entries[column].to_pylist()[1:]], entries.schema.field(at).type)
    path.write_bytes(encode_manifest(entries.set_column(at, entries.schema.field(at), numbers), "zstd"))
    _rewrite_list(table, lambda m: replace(m, file_size=path.stat().st_size))


def _rewrite_list(table: pp.Table, change: Callable[[ManifestFile], ManifestFile]) -> None:
    store, snapshot = table._store, _snapshot(table)
    path = Path(store.paths.manifest(snapshot.delta_manifest_list))
    data = encode_manifest_list(map(change, decode_manifest_list(path.read_bytes(), str(path))), "zstd")
    path.write_bytes(data)
    _rewrite_snapshot(table, delta_manifest_list_size=len(data))


def _rewrite_snapshot(table: pp.Table, **changes: Any) -> None:
    snapshot = _snapshot(table)
    Path(table._store.paths.snapshot(snapshot.id)).write_text(snapshot_to_json(replace(snapshot, **changes)))
    METADATA_CACHE.clear()


@pytest.mark.parametrize("column", ["row_count", "file_size", "schema_id", "level", "max_sequence_number"])
def test_negative_numbers_of_a_manifest(tmp_path: Path, column: str) -> None:
    table = _table(tmp_path)
    _rewrite_manifest(table, column, -5)
    for read in (table.count, table.scan().to_arrow, lambda: table.delete("id = 1")):
        with pytest.raises(CorruptFileError, match=f"-5 .*_{column.upper()}.*manifest-"):
            read()


@pytest.mark.filterwarnings("ignore:snapshot 1 counts 10 rows:RuntimeWarning")
def test_another_row_count_than_the_data_file_has(tmp_path: Path) -> None:
    table = _table(tmp_path)
    _rewrite_manifest(table, "row_count", ROWS + 1)
    for read in (table.count, table.scan().to_arrow, lambda: table.count("id >= 0"), table.scan().answer.exists):
        with pytest.raises(CorruptFileError, match=r"10 rows, the manifest says 11.*data-"):
            read()


def test_a_total_that_no_file_explains_is_told_and_rows_are_counted_in_data_files(tmp_path: Path) -> None:
    table = _table(tmp_path)
    _rewrite_snapshot(table, total_record_count=7)
    for read in (table.count, lambda: table.scan().to_arrow().num_rows, lambda: table.count("id >= 0")):
        with pytest.warns(RuntimeWarning, match="snapshot 1 counts 7 rows, the data files in its manifests have 10"):
            assert read() == ROWS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"file_size": 5}, "its metadata says 5"),
        ({"num_added_files": 2}, "1 entries, its manifest list says 2"),
        ({"num_deleted_files": -1}, "it is -1"),
        ({"file_size": -1}, "it is -1"),
    ],
)
def test_a_manifest_list_that_is_wrong_about_its_manifest(
    tmp_path: Path, changes: dict[str, int], message: str
) -> None:
    table = _table(tmp_path)
    _rewrite_list(table, lambda m: replace(m, **changes))
    for read in (table.count, table.scan().to_arrow, lambda: table.delete("id = 1")):
        with pytest.raises(CorruptFileError, match=message):
            read()


def test_a_manifest_list_cut_between_its_blocks(tmp_path: Path) -> None:
    """What is left is a list without manifests; only its size tells."""
    table = _table(tmp_path)
    path = Path(table._store.paths.manifest(_snapshot(table).delta_manifest_list))
    data = path.read_bytes()
    sync = data[-16:]
    path.write_bytes(data[: data.index(sync) + 16])
    METADATA_CACHE.clear()
    assert decode_manifest_list(path.read_bytes(), "list") == []
    with pytest.raises(CorruptFileError, match=r"bytes.*manifest-list"):
        table.scan().to_arrow()


def _rewrite_ranges(table: pp.Table, change: Callable[[DeletionRange], DeletionRange]) -> None:
    name = _snapshot(table).index_manifest
    assert name is not None
    path = Path(table._store.paths.manifest(name))

    def changed(entry: IndexEntry) -> IndexEntry:
        return replace(entry, deletion_ranges=tuple(map(change, entry.deletion_ranges or ())))

    entries = decode_index_manifest(path.read_bytes(), str(path))
    path.write_bytes(encode_index_manifest(map(changed, entries), "zstd"))
    METADATA_CACHE.clear()


@pytest.mark.parametrize("told", [-1, ROWS + 1])
def test_a_cardinality_that_no_file_can_have(tmp_path: Path, told: int) -> None:
    table = _table(tmp_path, VECTORS)
    table.delete("id < 3")
    _rewrite_ranges(table, lambda r: replace(r, cardinality=told))
    for read in (table.count, table.scan().to_arrow, lambda: table.count("c = 1")):
        with pytest.raises(CorruptFileError, match=str(told)):
            read()


def test_a_cardinality_that_is_not_that_of_the_vector(tmp_path: Path) -> None:
    table = _table(tmp_path, VECTORS)
    table.delete("id < 3")
    _rewrite_ranges(table, lambda r: replace(r, cardinality=2))
    for read in (table.scan().to_arrow, lambda: table.count("c = 1"), lambda: table.delete("id = 5")):
        with pytest.raises(CorruptFileError, match="vector of 3 rows, the manifest says 2"):
            read()
