"""Commits that touch deletion vectors: what conflicts with what, and which index files stay."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit import Changes, Increment, VectorPlace, commit, vector_places
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import CommitConflictError
from paimon_pyds.metadata.deletion.vector import DeletionVector, write_vectors
from paimon_pyds.metadata.manifest import DELETION_VECTORS, DeletionRange, IndexEntry
from paimon_pyds.metadata.snapshot import CommitKind
from support.races import race

_OPTIONS = {"deletion-vectors.enabled": "true"}


def _table(path: Path, **create: Any) -> pp.Table:
    options = {**_OPTIONS, **create.pop("options", {})}
    return pp.Table.create(path, pa.schema([("id", pa.int64()), ("p", pa.string())]), options=options, **create)


def _append(table: pp.Table, ids: Sequence[int], p: str = "a") -> str:
    """The name of the one file that holds these rows."""
    before = set(_names(table))
    table.append(pa.table({"id": pa.array(ids, pa.int64()), "p": [p] * len(ids)}))
    (name,) = set(_names(table)) - before
    return name


def _live(table: pp.Table) -> pa.RecordBatch:
    return live_of(table._store, table.snapshots.latest())


def _names(table: pp.Table) -> list[str]:
    return list(_live(table)["file_name"].to_pylist())


def _named(table: pp.Table, *names: str) -> pa.RecordBatch:
    live = _live(table)
    return live.filter(pc.is_in(live["file_name"], pa.array(names)))


def _ids(table: pp.Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def _index(table: pp.Table) -> list[IndexEntry]:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    return [] if snapshot.index_manifest is None else list(table._store.read_index_manifest(snapshot.index_manifest))


def _entry(table: pp.Table, vectors: Mapping[str, Sequence[int]]) -> IndexEntry:
    """A new index file with these vectors."""
    data, ranges = write_vectors([DeletionVector(BitMap(v)) for v in vectors.values()])
    name = f"index-{uuid.uuid4()}-0"
    table._store.io.write_bytes(table._store.paths.index(name), data)
    (place,) = {(e["partition"], e["bucket"]) for e in _named(table, *vectors).to_pylist()}
    listed = tuple(
        DeletionRange(file, r.offset, r.length, r.cardinality) for file, r in zip(vectors, ranges, strict=True)
    )
    return IndexEntry(
        partition=place[0], bucket=place[1], index_type=DELETION_VECTORS, file_name=name, file_size=len(data),
        row_count=len(vectors), deletion_ranges=listed,
    )  # fmt: skip


def _commit(table: pp.Table, **changes: Any) -> None:
    options = TableOptions(table.options)
    assert commit(table._store, Changes([Increment(kind=CommitKind.OVERWRITE, **changes)]), options) is not None


def _delete(table: pp.Table, vectors: Mapping[str, Sequence[int]], base: Sequence[IndexEntry]) -> None:
    """Delete rows as if the table were still as at ``base``; a vector is what it is to be, not what is new."""
    places = vector_places(base)
    _commit(
        table,
        required=_named(table, *vectors),
        expected_vectors={name: places.get(name) for name in vectors},
        index_entries=[_entry(table, vectors)],
        replaced_index_files=frozenset(places[name].index_file for name in vectors if name in places),
    )


def test_a_vector_takes_rows_away_and_is_replaced_by_the_next(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    file = _append(table, range(5))
    _delete(table, {file: [0, 2]}, [])
    assert _ids(table) == [1, 3, 4]
    _delete(table, {file: [0, 2, 4]}, _index(table))
    assert _ids(table) == [1, 3]
    assert len(_index(table)) == 1
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.total_record_count, snapshot.delta_record_count) == (
        CommitKind.OVERWRITE,
        5,
        0,
    )


def test_an_append_between_is_no_conflict(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    file = _append(table, range(3))
    base = _index(table)
    _append(table, [10, 11])
    _delete(table, {file: [1]}, base)
    assert _ids(table) == [0, 2, 10, 11]


def test_two_deletes_on_one_file_conflict(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    file = _append(table, range(5))
    base = _index(table)
    _delete(table, {file: [0]}, base)
    with pytest.raises(CommitConflictError, match="deleted by another commit"):
        _delete(table, {file: [1]}, base)
    assert _ids(table) == [1, 2, 3, 4]
    base = _index(table)
    _delete(table, {file: [0, 1]}, base)
    with pytest.raises(CommitConflictError, match="deleted by another commit"):
        _delete(table, {file: [0, 2]}, base)
    assert _ids(table) == [2, 3, 4]


def test_a_vector_for_a_file_that_is_gone_conflicts(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    file = _append(table, range(3))
    required, entry = _named(table, file), _entry(table, {file: [0]})
    table.overwrite(pa.table({"id": pa.array([7], pa.int64()), "p": ["a"]}))
    with pytest.raises(CommitConflictError, match="removed or changed"):
        _commit(table, required=required, expected_vectors={file: None}, index_entries=[entry])
    assert _ids(table) == [7]


def test_taking_a_file_away_that_got_a_vector_conflicts(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    file = _append(table, range(3))
    deleted = _named(table, file)
    _delete(table, {file: [0]}, [])
    with pytest.raises(CommitConflictError, match="deleted by another commit"):
        _commit(table, deleted=deleted, expected_vectors={file: None})
    assert _ids(table) == [1, 2]
    _commit(table, deleted=deleted, expected_vectors={file: vector_places(_index(table))[file]})
    assert _ids(table) == []
    assert _index(table) == []


def test_an_index_file_is_replaced_only_while_it_is_there(tmp_path: Path) -> None:
    """Replacing it would bring back an old vector of a file that the commit is not even about."""
    table = _table(tmp_path / "t")
    a, b = _append(table, range(3)), _append(table, [10, 11, 12])
    _delete(table, {a: [0], b: [0]}, [])
    base = _index(table)
    places = vector_places(base)
    _commit(
        table,
        required=_named(table, b),
        expected_vectors={b: places[b]},
        index_entries=[_entry(table, {a: [0], b: [0, 1]})],
        replaced_index_files=frozenset([places[b].index_file]),
    )
    assert _ids(table) == [1, 2, 12]
    with pytest.raises(CommitConflictError, match="index file"):
        _commit(
            table,
            deleted=_named(table, a),
            index_entries=[_entry(table, {b: [0]})],
            replaced_index_files=frozenset([places[a].index_file]),
        )
    assert _ids(table) == [1, 2, 12]


def test_a_second_vector_never_lies_beside_the_first(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    file = _append(table, range(3))
    _commit(table, index_entries=[_entry(table, {file: [0]})])
    with pytest.raises(CommitConflictError, match="deleted by another commit"):
        _commit(table, index_entries=[_entry(table, {file: [1]})])
    assert _ids(table) == [1, 2]


def test_a_fixed_bucket_keeps_one_index_file(tmp_path: Path) -> None:
    """Java takes the last of several in a bucket: the vectors of the others would be lost."""
    table = _table(tmp_path / "t", options={"bucket": "1", "bucket-key": "id"})
    a, b = _append(table, [0, 1]), _append(table, [10, 11])
    _delete(table, {a: [0]}, [])
    with pytest.raises(CommitConflictError, match="bucket 0"):
        _delete(table, {b: [0]}, [])
    assert _ids(table) == [1, 10, 11]


def test_an_index_file_goes_with_its_last_data_file(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    a, b = _append(table, range(3)), _append(table, [10, 11, 12])
    _delete(table, {a: [0], b: [0]}, [])
    place = vector_places(_index(table))
    _commit(table, deleted=_named(table, a, b), expected_vectors=place)
    assert _index(table) == []


def test_no_index_file_keeps_the_vector_of_a_file_that_goes(tmp_path: Path) -> None:
    """Java Paimon would take it for a conflict in each of its commits."""
    table = _table(tmp_path / "t")
    a, b = _append(table, range(3)), _append(table, [10, 11, 12])
    _delete(table, {a: [0], b: [0]}, [])
    place = vector_places(_index(table))
    with pytest.raises(ValueError, match="would keep the vector"):
        _commit(table, deleted=_named(table, a), expected_vectors={a: place[a]})
    assert _ids(table) == [1, 2, 11, 12]


def test_vectors_of_overwritten_partitions_go(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", partition_by=["p"])
    a, b = _append(table, range(3), "a"), _append(table, [10, 11], "b")
    _delete(table, {a: [0]}, [])
    _delete(table, {b: [0]}, _index(table))
    assert len(_index(table)) == 2
    table.overwrite(pa.table({"id": pa.array([5], pa.int64()), "p": ["a"]}), partition={"p": "a"})
    assert _ids(table) == [5, 11]
    assert vector_places(_index(table)).keys() == {b}


def test_a_race_lost_to_a_delete_is_a_conflict_not_a_lost_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks run again for each try, on the snapshot it would land on."""
    table = _table(tmp_path / "t")
    file = _append(table, range(4))
    race(monkeypatch, lambda: _delete(table, {file: [3]}, []))
    with pytest.raises(CommitConflictError, match="deleted by another commit"):
        _delete(table, {file: [0]}, [])
    assert _ids(table) == [0, 1, 2]


def test_places_are_of_deletion_vectors_alone() -> None:
    ranges = (DeletionRange("f", 1, 10, 2),)
    shared = {"partition": b"", "bucket": 0, "file_size": 1, "row_count": 1, "deletion_ranges": ranges}
    vectors = IndexEntry(index_type=DELETION_VECTORS, file_name="i", **shared)
    hashes = IndexEntry(index_type="HASH", file_name="h", **shared)
    assert vector_places([hashes, vectors]) == {"f": VectorPlace("i", 1)}
