"""Messages that hold more than new files: compactions, changelogs, index files."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import EMPTY_ROW
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import AlreadyCommittedError, CommitConflictError
from paimon_pyds.metadata.commit_message import CommitMessage, IndexIncrement
from paimon_pyds.metadata.deletion.vector_files import VectorFiles
from paimon_pyds.metadata.manifest import FileKind
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from support.increments import with_compaction
from support.messages import SCHEMA, data, ids_of, table_of_one_row, written
from support.oracle import Oracle, requires_java_oracle


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    made = table_of_one_row(tmp_path / "db.db" / "t")
    made.append(data(1, 2))
    return made


def _kinds(table: pp.Table) -> list[tuple[CommitKind, int | None]]:
    return [(s.commit_kind, s.delta_record_count) for s in table.snapshots.list()]


_BEFORE = [(CommitKind.APPEND, 1), (CommitKind.APPEND, 2)]
_BOTH = [*_BEFORE, (CommitKind.APPEND, 2), (CommitKind.COMPACT, 0)]


# ------------------------------------------------------------------------------------------------------ two snapshots


@requires_java_oracle
@pytest.mark.java
def test_a_message_of_new_files_and_a_compaction_makes_two_snapshots(table: pp.Table, oracle: Oracle) -> None:
    message = pickle.loads(pickle.dumps(with_compaction(table, [3, 4], [0, 1, 2])))
    snapshot = table.commit([message])
    assert snapshot is not None and (snapshot.id, snapshot.total_record_count) == (4, 5)
    assert _kinds(table) == _BOTH
    append, compaction = table.snapshots.list()[2:]
    assert (append.commit_user, append.commit_identifier) == (compaction.commit_user, compaction.commit_identifier)
    assert (append.operation, compaction.operation) == ("WRITE", None)
    ours = [sorted(table.scan(snapshot=i).to_arrow()["id"].to_pylist()) for i in (3, 4)]
    assert ours == [[0, 1, 2, 3, 4]] * 2
    assert live_of(table._store, snapshot).num_rows == 2
    warehouse = Path(table.path).parents[1]
    with oracle.batch() as batch:
        java = [batch.read(warehouse, "db.t", snapshot=i) for i in (3, 4)]
        batch.write(warehouse, "db.t", data(5))
        batch.compact(warehouse, "db.t")
        last = batch.read(warehouse, "db.t")
    assert [sorted(row["id"] for row in reply.values) for reply in java] == ours
    assert ids_of(pp.Table.open(table.path)) == sorted(row["id"] for row in last.values) == [0, 1, 2, 3, 4, 5]


def test_a_compaction_may_take_files_of_its_own_message(table: pp.Table) -> None:
    bucket = with_compaction(table, [3], [0, 1, 2, 3]).buckets[0]
    compact = replace(bucket.compact, before=(*bucket.compact.before, *bucket.files))
    table.commit([CommitMessage((replace(bucket, compact=compact),))])
    assert _kinds(table)[2:] == [(CommitKind.APPEND, 1), (CommitKind.COMPACT, 0)]
    assert live_of(table._store, table.snapshots.latest()).num_rows == 1
    assert ids_of(table) == [0, 1, 2, 3]


def test_a_compaction_alone_is_one_snapshot(table: pp.Table) -> None:
    message = with_compaction(table, [3], [0, 1, 2])
    alone = CommitMessage((replace(message.buckets[0], files=()),))
    assert table.commit([alone]) == table.commit([alone])
    assert _kinds(table) == [*_BEFORE, (CommitKind.COMPACT, 0)]
    assert ids_of(table) == [0, 1, 2]
    with pytest.raises(CommitConflictError):  # the same files compacted twice would double their rows
        table.commit([CommitMessage((replace(alone.buckets[0], compact=_other(table, alone)),))])
    assert ids_of(table) == [0, 1, 2]


def _other(table: pp.Table, message: CommitMessage) -> object:
    return replace(message.buckets[0].compact, after=written(table, 0, 1, 2).buckets[0].files)


def test_rows_whose_compaction_conflicts_are_there_once(table: pp.Table, caplog: pytest.LogCaptureFixture) -> None:
    message = with_compaction(table, [3, 4], [0, 1, 2])
    table.compact(full=True)
    for _ in range(2):
        caplog.clear()
        assert table.commit([message]).id == 4  # type: ignore[union-attr]
        assert "snapshot 4 is without its compaction" in caplog.text
        assert "was removed or changed by another commit" in caplog.text
    with pytest.raises(AlreadyCommittedError):
        table.abort([message])
    assert ids_of(table) == [0, 1, 2, 3, 4]


def test_an_abort_removes_all_files_but_those_that_were_there(table: pp.Table) -> None:
    there = set(Path(table.path).rglob("*"))
    bucket = with_compaction(table, [3], [0, 1, 2]).buckets[0]
    upgraded = replace(bucket.compact.before[0], level=5)
    compact = replace(bucket.compact, after=(*bucket.compact.after, upgraded))
    changelog = written(table, 7).buckets[0].files
    message = CommitMessage((replace(bucket, compact=compact, changelog_files=changelog),))
    assert len(set(Path(table.path).rglob("*")) - there) == 3
    table.abort([message])
    assert set(Path(table.path).rglob("*")) == there


def test_a_file_that_moves_to_another_level_stays_one_file(table: pp.Table) -> None:
    bucket = with_compaction(table, [3, 4], []).buckets[0]
    upgraded = tuple(replace(file, level=5) for file in bucket.compact.before)
    message = CommitMessage((replace(bucket, compact=replace(bucket.compact, after=upgraded)),))
    table.commit([message])
    table.commit([message])
    assert _kinds(table) == _BOTH
    assert ids_of(table) == [0, 1, 2, 3, 4]
    assert sorted(live_of(table._store, table.snapshots.latest())["level"].to_pylist()) == [0, 5, 5]


# ----------------------------------------------------------------------------------------------- changelogs and indexes


def test_changelog_files_have_lists_of_their_own(table: pp.Table) -> None:
    message = with_compaction(table, [3], [0, 1, 2])
    bucket = message.buckets[0]
    first, second = (written(table, *ids).buckets[0].files for ids in ([3], [0, 9]))
    compact = replace(bucket.compact, changelog_files=second)
    table.commit([CommitMessage((replace(bucket, changelog_files=first, compact=compact),))])
    append, compaction = table.snapshots.list()[2:]
    for snapshot, files, rows in ((append, first, 1), (compaction, second, 2)):
        assert snapshot.changelog_manifest_list is not None
        assert snapshot.changelog_record_count == rows
        reader = ManifestReader(table._store)
        entries = reader.entries(reader.changelog(snapshot))
        assert entries["file_name"].to_pylist() == [f.file_name for f in files]
        assert entries["kind"].to_pylist() == [FileKind.ADD]
    assert (append.total_record_count, compaction.total_record_count) == (4, 4)
    assert ids_of(table) == [0, 1, 2, 3]
    table.append(data(5))
    assert table.snapshots.list()[-1].changelog_manifest_list is None


def _deleting(table: pp.Table, new: int, name: str, position: int) -> CommitMessage:
    """A new row, and a row that goes from another file by a deletion vector."""
    files = VectorFiles(
        table._store, table.schema, TableOptions(table.options), (), live_of(table._store, table.snapshots.latest())
    )
    made = files.write({(EMPTY_ROW, 0): {name: BitMap([position])}})
    (bucket,) = written(table, new).buckets
    return CommitMessage((replace(bucket, indexes=IndexIncrement(made.entries, made.replaced, made.paths)),))


@pytest.fixture
def vectors(tmp_path: Path) -> pp.Table:
    made = pp.Table.create(tmp_path / "db.db" / "v", SCHEMA, options={"deletion-vectors.enabled": "true"})
    made.append(data(0, 1, 2))
    return made


@requires_java_oracle
@pytest.mark.java
def test_index_files_come_and_go_with_their_increment(vectors: pp.Table, oracle: Oracle) -> None:
    live = live_of(vectors._store, vectors.snapshots.latest())
    message = _deleting(vectors, 3, live["file_name"][0].as_py(), 1)
    (index,) = message.buckets[0].indexes.new_files
    compact = with_compaction(vectors, [9], [0, 2]).buckets[0].compact
    compact = replace(compact, indexes=IndexIncrement(deleted_files=frozenset([index.file_name])))
    snapshot = vectors.commit([CommitMessage((replace(message.buckets[0], compact=compact),))])
    assert snapshot is not None and snapshot.index_manifest is None
    rows, compaction = vectors.snapshots.list()[1:]
    assert (rows.commit_kind, compaction.commit_kind) == (CommitKind.OVERWRITE, CommitKind.COMPACT)
    assert rows.index_manifest is not None
    assert vectors._store.read_index_manifest(rows.index_manifest) == [index]
    warehouse = Path(vectors.path).parents[1]
    with oracle.batch() as batch:
        java = [batch.read(warehouse, "db.v", snapshot=i) for i in (2, 3)]
    for id_, reply in zip((2, 3), java, strict=True):
        ours = sorted(vectors.scan(snapshot=id_).to_arrow()["id"].to_pylist())
        assert ours == sorted(row["id"] for row in reply.values) == [0, 2, 3]


def test_no_file_that_is_gone_gets_a_vector(vectors: pp.Table) -> None:
    """Java Paimon writes no more to such a table."""
    message = _deleting(vectors, 3, live_of(vectors._store, vectors.snapshots.latest())["file_name"][0].as_py(), 1)
    vectors.overwrite(data(7))
    with pytest.raises(CommitConflictError, match="can't get a deletion vector"):
        vectors.commit([message])
    assert not any(Path(path).exists() for path in message.paths())
    assert ids_of(vectors) == [7]


# ---------------------------------------------------------------------------------------------------------- no changes


def test_nothing_to_commit_makes_no_snapshot(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA)
    assert commit(table._store, Changes([Increment(), Increment(kind=CommitKind.COMPACT)]), TableOptions({})) is None


# ------------------------------------------------------------------------------------------------------------ the seam


class _Catalog:
    """Decides which snapshot is the latest, as a catalog does; the first of all is refused as too late."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int | None]] = []

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        self.asked.append((store.branch, snapshot.id, latest.id if latest else None))
        return len(self.asked) > 1 and store.try_create_snapshot(snapshot)

    def latest_snapshot(self, store: TableStore) -> Snapshot | None:
        return store.latest_stored_snapshot()

    def after_publish(self, store: TableStore, snapshot: Snapshot) -> None:
        raise AssertionError("nothing is committed twice")

    def was_replaced(self, store: TableStore, snapshot: Snapshot) -> bool:
        return False


def test_another_publisher_takes_the_place_of_the_file_system(table: pp.Table) -> None:
    catalog = _Catalog()
    store = TableStore(table._store.io, table.path, publisher=catalog)
    own = pp.Table(store)
    own.append(data(3))
    own.delete("id = 1")
    assert catalog.asked == [("main", 3, 2), ("main", 3, 2), ("main", 4, 3)]
    assert ids_of(table) == [0, 2, 3]
    assert isinstance(pickle.loads(pickle.dumps(store)).publisher, _Catalog)
    assert store.for_branch("main").publisher is store.again().publisher is catalog
