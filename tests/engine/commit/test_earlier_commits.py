"""The same files committed twice: they are in the table once, and the second commit says when they landed."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.errors import (
    AlreadyCommittedError,
    CommitConflictError,
    OptionError,
)
from paimon_pyds.metadata.commit_message import CommitMessage
from support.messages import SCHEMA, data, ids_of, table_of_one_row, written


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    return table_of_one_row(tmp_path / "t")


def _forget(table: pp.Table, *snapshots: int) -> None:
    """Snapshots expire; their files stay."""
    for id_ in snapshots:
        os.unlink(table._store.paths.snapshot(id_))


@pytest.mark.parametrize("between", [0, 1, 20])
@pytest.mark.parametrize("overwrite", [False, True])
def test_the_same_messages_again_are_the_snapshot_they_landed_as(
    table: pp.Table, overwrite: bool, between: int
) -> None:
    messages = [written(table, 1, 2), written(table, 3)]
    landed = table.commit(messages, overwrite=overwrite)
    assert landed is not None
    for i in range(between):
        table.append(data(100 + i))
    before = ids_of(table), table._store.snapshot_ids()
    again = [pickle.loads(pickle.dumps(m)) for m in reversed(messages)]
    assert pp.Table.open(table.path).commit(again, overwrite=overwrite) == landed
    assert (ids_of(table), table._store.snapshot_ids()) == before


def test_files_are_not_added_beside_others_or_by_another_kind_of_commit(table: pp.Table) -> None:
    first, second = written(table, 1), written(table, 2)
    table.commit([first])
    for again in (
        lambda: table.commit([first, second]),
        lambda: table.commit([first], overwrite=True),
        lambda: table.abort([second, first]),
        lambda: table.abort([first]),
    ):
        with pytest.raises(AlreadyCommittedError, match=r"by snapshot 2 .*nothing was"):
            again()
    with pytest.raises(OptionError, match="in 2 of the messages"):
        table.commit([second, second])
    table.commit([second])
    with pytest.raises(AlreadyCommittedError, match="1 of 2 data files"):
        table.commit([second, first])
    assert ids_of(table) == [0, 1, 2]


# ----------------------------------------------------------------------------------- snapshots that can't tell any more


def test_files_whose_snapshot_expired_are_found_in_the_table(table: pp.Table) -> None:
    message = written(table, 1)
    table.commit([message])
    table.append(data(2))
    _forget(table, 1, 2)
    for again in (lambda: table.commit([message]), lambda: table.abort([message])):
        with pytest.raises(AlreadyCommittedError, match="a snapshot that has expired"):
            again()
    assert ids_of(table) == [0, 1, 2]


def _compacted(table: pp.Table) -> CommitMessage:
    message = written(table, 1)
    table.commit([message])
    assert table.compact(full=True).snapshot_id == 3
    table.append(data(2))
    return message


def test_files_that_were_compacted_away_are_not_added_again(table: pp.Table) -> None:
    message = _compacted(table)
    landed = table.commit([message])
    assert landed is not None and landed.id == 2
    tag = Path(table._store.paths.tag("kept"))
    tag.parent.mkdir()
    shutil.copy(table._store.paths.snapshot(2), tag)
    _forget(table, 1, 2)
    with pytest.raises(AlreadyCommittedError, match="expired"):  # the compaction tells
        table.commit([message])
    table.alter({"manifest.full-compaction-threshold-size": "1 b"})
    table.overwrite(data(7))
    _forget(table, 3, 4)
    with pytest.raises(AlreadyCommittedError, match="expired"):  # the tag tells
        table.commit([message])
    tag.unlink()
    for path in message.paths():
        os.unlink(path)
    with pytest.raises(CommitConflictError, match=r"data file of this commit is gone.*data-"):
        table.commit([message])
    assert ids_of(table) == [7]


def test_files_that_are_new_are_added_although_snapshots_expired(table: pp.Table) -> None:
    message = written(table, 1)
    for i in range(3):
        table.append(data(2 + i))
    _forget(table, 1, 2, 3)
    assert table.commit([message]).id == 5  # type: ignore[union-attr]
    assert table.commit([message]).id == 5  # type: ignore[union-attr]
    assert ids_of(table) == [0, 1, 2, 3, 4]


def test_after_a_rollback_numbers_are_of_other_snapshots(table: pp.Table) -> None:
    for i in range(3):
        table.append(data(10 + i))
    message = written(table, 1)
    _forget(table, 2, 3, 4)
    landed = table.commit([message])
    assert landed is not None and landed.id == 2
    for i in range(4):
        table.append(data(20 + i))
    with pytest.raises(AlreadyCommittedError, match="expired"):
        table.commit([message])
    assert ids_of(table) == [0, 1, 20, 21, 22, 23]


def test_files_of_unknown_origin_are_not_added_twice(table: pp.Table) -> None:
    bucket = written(table, 1).buckets[0]
    added = [type(bucket)(bucket.partition, 0, -1, bucket.directory, bucket.files)]
    changes = Changes([Increment(added=added)])
    options = TableOptions(table.options)
    assert commit(table._store, changes, options) == commit(table._store, changes, options)
    table.append(data(2))
    _forget(table, 1, 2)
    with pytest.raises(AlreadyCommittedError):
        commit(table._store, changes, options)
    assert ids_of(table) == [0, 1, 2]


def test_a_removed_file_is_not_added(tmp_path: Path) -> None:
    """Not to a table without a snapshot either, and one of many is noticed."""
    table = pp.Table.create(tmp_path / "t", SCHEMA, options={"bucket": "40", "bucket-key": "id"})
    message = written(table, *range(1000))
    assert len(message.buckets) == 40
    os.unlink(list(message.paths())[33])
    with pytest.raises(CommitConflictError, match="is gone"):
        table.commit([message])
    assert table.snapshots.latest() is None
