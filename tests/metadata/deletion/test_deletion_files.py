"""Files of deletion vectors: which are replaced, how they are split, and what they hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import EMPTY_ROW
from paimon_pyds.errors import CorruptFileError, SnapshotNotFoundError
from paimon_pyds.metadata.deletion.vector_files import NewVectors, VectorFiles
from paimon_pyds.metadata.manifest import DELETION_VECTORS, DeletionRange, IndexEntry

_BUCKET = (EMPTY_ROW, 0)


def _table(path: Path, options: dict[str, str] | None = None) -> pp.Table:
    return pp.Table.create(path / "t", pa.schema([("id", pa.int64())]), options=options or {})


def _files(table: pp.Table, entries: tuple[IndexEntry, ...] = (), gone: str = "", **row_counts: int) -> VectorFiles:
    """Those of a table whose data files with vectors are all live, but for one that is gone."""
    named = {r.data_file: 10**6 for e in entries for r in e.deletion_ranges or () if r.data_file != gone}
    row_counts = named | row_counts
    live = pa.record_batch(
        {
            "partition": pa.array([EMPTY_ROW] * len(row_counts), pa.binary()),
            "file_name": pa.array(list(row_counts), pa.string()),
            "row_count": pa.array(list(row_counts.values()), pa.int64()),
        }
    )
    return VectorFiles(table._store, table.schema, TableOptions(table.options), entries, live)


def _held(table: pp.Table, entries: tuple[IndexEntry, ...]) -> dict[str, tuple[int, list[int]]]:
    """By data file, the width and positions of its vector."""
    files = _files(table, entries)
    found = {}
    for name in (r.data_file for e in entries for r in e.deletion_ranges or ()):
        vector = files.vector(EMPTY_ROW, name)
        assert vector is not None
        assert files.cardinality(EMPTY_ROW, name) == vector.cardinality
        found[name] = (vector.bits, list(vector.positions))
    return found


def test_new_rows_join_the_old_ones(tmp_path: Path) -> None:
    table = _table(tmp_path)
    first = _files(table).write({_BUCKET: {"a": BitMap([1, 2]), "b": BitMap([7])}})
    assert (len(first.entries), first.replaced, dict(first.deleted)) == (1, frozenset(), {"a": 2, "b": 1})
    (entry,) = first.entries
    assert (entry.index_type, entry.row_count, entry.bucket) == (DELETION_VECTORS, 2, 0)
    assert Path(first.paths[0]).stat().st_size == entry.file_size == first.size
    second = _files(table, first.entries).write({_BUCKET: {"a": BitMap([2, 3]), "c": BitMap([0])}})
    assert second.replaced == {entry.file_name}
    assert dict(second.deleted) == {"a": 1, "c": 1}
    assert _held(table, second.entries) == {"a": (32, [1, 2, 3]), "b": (32, [7]), "c": (32, [0])}


def test_files_without_a_change_stay(tmp_path: Path) -> None:
    table = _table(tmp_path)
    a = _files(table).write({_BUCKET: {"a": BitMap([1])}}).entries
    b = _files(table, a).write({_BUCKET: {"b": BitMap([1])}})
    assert b.replaced == frozenset()
    both = (*a, *b.entries)
    more = _files(table, both).write({_BUCKET: {"b": BitMap([2])}})
    assert more.replaced == {b.entries[0].file_name}
    assert _held(table, more.entries) == {"b": (32, [1, 2])}


def test_vectors_go_with_their_data_files(tmp_path: Path) -> None:
    table = _table(tmp_path)
    old = _files(table).write({_BUCKET: {"a": BitMap([1]), "b": BitMap([2])}}).entries
    gone = _files(table, old).write({_BUCKET: {"a": None}})
    assert gone.replaced == {old[0].file_name}
    assert _held(table, gone.entries) == {"b": (32, [2])}
    rest = _files(table, gone.entries).write({_BUCKET: {"b": None, "never": None}})
    assert (rest.entries, rest.paths) == ((), ())
    assert rest.replaced == {gone.entries[0].file_name}
    assert _files(table).write({_BUCKET: {"a": None, "b": BitMap()}}) == NewVectors(deleted={"b": 0})


def test_vectors_whose_data_files_went_before_them_go_too(tmp_path: Path) -> None:
    """Java 1.4 leaves them when its full compaction rewrites files of the highest level for their vectors only."""
    table = _table(tmp_path)
    old = _files(table).write({_BUCKET: {"a": BitMap([1]), "b": BitMap([2]), "c": BitMap([3])}}).entries
    left = _files(table, old, gone="a").write({_BUCKET: {"b": BitMap([4])}})
    assert left.replaced == {old[0].file_name}
    assert _held(table, left.entries) == {"b": (32, [2, 4]), "c": (32, [3])}


def test_both_widths_in_one_file(tmp_path: Path) -> None:
    table = _table(tmp_path)
    narrow = _files(table).write({_BUCKET: {"a": BitMap([1]), "b": BitMap([2])}}).entries
    table.alter({"deletion-vectors.bitmap64": "true"})
    wide = _files(table, narrow).write({_BUCKET: {"a": BitMap([5])}}).entries
    assert _held(table, wide) == {"a": (64, [1, 5]), "b": (32, [2])}
    table.alter({"deletion-vectors.bitmap64": "false"})
    again = _files(table, wide).write({_BUCKET: {"a": BitMap([6])}}).entries
    assert _held(table, again) == {"a": (32, [1, 5, 6]), "b": (32, [2])}


@pytest.mark.parametrize(("size", "files"), [("1 b", 4), ("60 b", 2), ("1 mb", 1)])
def test_a_file_ends_when_it_has_outgrown_its_target(tmp_path: Path, size: str, files: int) -> None:
    vectors = {name: BitMap([3, 70_000]) for name in "abcd"}
    table = _table(tmp_path, {"deletion-vector.index-file.target-size": size})
    found = _files(table).write({_BUCKET: vectors})
    assert len(found.entries) == files
    assert len({e.file_name for e in found.entries}) == files
    assert _held(table, found.entries) == dict.fromkeys("abcd", (32, [3, 70_000]))


def test_a_fixed_bucket_has_one_file(tmp_path: Path) -> None:
    small = {"deletion-vector.index-file.target-size": "1 b"}
    table = _table(tmp_path, {"bucket": "2", "bucket-key": "id"} | small)
    found = _files(table).write({(EMPTY_ROW, b): {f"a{b}": BitMap([1]), f"b{b}": BitMap([2])} for b in (0, 1)})
    assert [(e.bucket, e.row_count) for e in found.entries] == [(0, 2), (1, 2)]
    more = _files(table, found.entries).write({(EMPTY_ROW, 1): {"c1": BitMap([3])}})
    assert more.replaced == {found.entries[1].file_name}
    assert _held(table, more.entries) == {"a1": (32, [1]), "b1": (32, [2]), "c1": (32, [3])}


def test_what_was_written_before_an_error_is_removed(tmp_path: Path) -> None:
    table = _table(tmp_path)
    old = _files(table).write({_BUCKET: {"a": BitMap([1])}})
    other = b"\0\0\0\1" + EMPTY_ROW[4:] + bytes(8)
    damaged = Path(old.paths[0])
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\xff")
    with pytest.raises(CorruptFileError, match="CRC"):
        _files(table, old.entries).write({_BUCKET: {"b": BitMap([1]), "a": BitMap([2])}})
    assert [p.name for p in damaged.parent.iterdir()] == [damaged.name]
    assert _files(table, old.entries).vector(other, "a") is None


def test_positions_beyond_the_data_file_are_damage(tmp_path: Path) -> None:
    table = _table(tmp_path)
    old = _files(table).write({_BUCKET: {"a": BitMap([9])}}).entries
    assert _files(table, old, a=10).vector(EMPTY_ROW, "a") is not None
    with pytest.raises(CorruptFileError):
        _files(table, old, a=9).vector(EMPTY_ROW, "a")
    with pytest.raises(CorruptFileError):
        _files(table, old, a=9).write({_BUCKET: {"a": BitMap([1])}})


def test_a_vector_without_a_known_cardinality_is_counted(tmp_path: Path) -> None:
    table = _table(tmp_path)
    (entry,) = _files(table).write({_BUCKET: {"a": BitMap([1, 2, 3])}}).entries
    assert entry.deletion_ranges is not None
    (range_,) = entry.deletion_ranges
    silent = IndexEntry(
        partition=entry.partition, bucket=0, index_type=DELETION_VECTORS, file_name=entry.file_name,
        file_size=entry.file_size, row_count=1,
        deletion_ranges=(DeletionRange("a", range_.offset, range_.length, None),),
    )  # fmt: skip
    assert _files(table, (silent,)).cardinality(EMPTY_ROW, "a") == 3
    assert _files(table, (silent,)).cardinality(EMPTY_ROW, "b") == 0


_GONE = "of the table is gone: the snapshot that needs it has expired or was rolled back, or the table was dropped"


def test_files_that_are_gone_are_told_in_the_same_words(tmp_path: Path) -> None:
    """Of every kind: vectors, hash indexes, data files."""
    table = _table(tmp_path)
    old = _files(table).write({_BUCKET: {"a": BitMap([1])}}).entries
    columns = {"id": [1, 2, 3]}
    keyed = pp.Table.create(tmp_path / "h", columns, "id", options={"bucket": "-1"})
    plain = pp.Table.create(tmp_path / "d", columns)
    for path in [*tmp_path.glob("*/index/index-*"), *tmp_path.glob("d/*/data-*")]:
        path.unlink()
    uses: dict[str, Callable[[], object]] = {
        "a deletion vector": lambda: _files(table, old).write({_BUCKET: {"a": BitMap([4])}}),
        "the hash index of a bucket": lambda: keyed.append({"id": [4]}),
        "a file": lambda: plain.scan().to_arrow(),
    }
    for what, use in uses.items():
        with pytest.raises(SnapshotNotFoundError, match=f"{what} {_GONE}"):
            use()
