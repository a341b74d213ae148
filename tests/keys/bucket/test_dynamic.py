"""Dynamic buckets: a key is in one bucket, however rows are spread over tasks and jobs, and buckets are filled to their
target."""

from __future__ import annotations

import multiprocessing.connection
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import CommitError, CorruptFileError, OptionError
from paimon_pyds.keys.bucket.dynamic import KeyShare, assigner_channels, assigner_of
from paimon_pyds.keys.bucket.key_buckets import KeyBuckets
from paimon_pyds.metadata.commit_message import CommitMessage
from support.dynamic_buckets import bucket_keys
from support.effort import LONG
from support.fixtures import table_path
from support.live_files import table_files
from support.victims import upsert_for_ever, victims

_SCHEMA = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), ("v", pa.int64())])
_TARGET = "dynamic-bucket.target-row-num"


def _table(path: Path, target: int, **options: str) -> pp.Table:
    given = {_TARGET: str(target), **options}
    return pp.Table.create(path, _SCHEMA, primary_key=["p", "k"], partition_by=["p"], options=given)


def _rows(keys: Sequence[int], value: int = 0, partitions: int = 1) -> pa.Table:
    numbers = np.array(keys, np.int64)
    return pa.table([(numbers % partitions).astype(np.int32), numbers, np.full(len(numbers), value)], schema=_SCHEMA)


def _sizes(table: pp.Table) -> list[int]:
    return [len(hashes) for _, hashes in sorted(bucket_keys(table).items())]


def _values(table: pp.Table) -> Mapping[int, int]:
    rows = table.scan().to_arrow()
    found = dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows
    return found


def _written(table: pp.Table, tasks: Sequence[pa.Table], shares: Sequence[KeyShare | None]) -> list[CommitMessage]:
    context = table.write_context()
    messages = []
    for number, (rows, share) in enumerate(zip(tasks, shares, strict=True)):
        with TableWriter(context, number, share) as writer:
            writer.write(rows)
            messages.append(writer.prepare_commit())
    return messages


def _by_assigner(table: pp.Table, rows: pa.Table, channels: int) -> Iterator[pa.Table]:
    assigners = assigner_of(table.schema, TableOptions(table.options), rows.combine_chunks().to_batches()[0], channels)
    for channel in range(channels):
        yield rows.filter(pa.array(assigners == channel))


# ------------------------------------------------------------------------------------------------- where keys are put


def test_hashes_are_those_of_java() -> None:
    table = pp.Table.open(table_path("pk_dynamic_bucket"))
    assert [len(hashes) for hashes in bucket_keys(table).values()] == [50, 50, 50, 30]


def test_buckets_are_filled_one_after_the_other(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 100)
    table.append(_rows(range(250)))
    assert _sizes(table) == [100, 100, 50]
    table.append(_rows(range(200, 320), 1))
    assert _sizes(table) == [100, 100, 100, 20]
    before = table.snapshots.latest()
    table.append(_rows(range(320), 2))
    assert table.snapshots.latest().index_manifest == before.index_manifest
    assert _values(table) == dict.fromkeys(range(320), 2)


def test_keys_that_come_together_share_a_bucket(tmp_path: Path) -> None:
    """So that filters on keys that grow with time find them in few files."""
    table = _table(tmp_path / "t", 100)
    table.append(_rows([*range(450), *range(450)]))
    assert _sizes(table) == [100, 100, 100, 100, 50]
    assert [table.scan(f"k = {key}").plan().files[0].bucket_id.bucket for key in (0, 99, 100, 449)] == [0, 0, 1, 4]


def test_partitions_have_buckets_of_their_own(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 50)
    table.append(_rows(range(200), partitions=3))
    assert _sizes(table) == [50, 17, 50, 17, 50, 16]


def test_options_say_how_many_buckets_there_are(tmp_path: Path) -> None:
    table = _table(tmp_path / "few", 10, **{"dynamic-bucket.max-buckets": "3"})
    table.append(_rows(range(100)))
    assert _sizes(table) == [33, 33, 34]
    table.append(_rows(range(104)))
    assert sum(_sizes(table)) == 104
    table = _table(tmp_path / "initial", 1000, **{"dynamic-bucket.initial-buckets": "4"})
    table.append(_rows(range(400)))
    assert len(_sizes(table)) == 4
    assert min(_sizes(table)) > 50
    table = _table(
        tmp_path / "limited", 10, **{"dynamic-bucket.max-buckets": "2", "dynamic-bucket.initial-buckets": "5"}
    )
    table.append(_rows(range(100)))
    assert len(_sizes(table)) == 2


@pytest.mark.parametrize("option", [_TARGET, "dynamic-bucket.max-buckets"])
def test_options_that_no_table_can_have(tmp_path: Path, option: str) -> None:
    table = _table(tmp_path / "t", 10)
    with pytest.raises(OptionError, match=option):
        table.append(_rows(range(3)), options={option: "0"})
    with pytest.raises(OptionError, match="all that it may have"):
        table.append(_rows(range(40_000)), options={_TARGET: "1"})
    assert not table.snapshots.list()


def test_tasks_that_see_any_key_agree(tmp_path: Path) -> None:
    """Each of three tasks sees all keys."""
    table = _table(tmp_path / "t", 100)
    for last in (50, 400, 420):
        rows = _rows(range(last), last)
        table.commit(_written(table, [rows] * 3, [None] * 3))
        assert _values(table) == dict.fromkeys(range(last), last)
        assert sum(_sizes(table)) == last
    assert _sizes(table) == [400, 20]  # what such a job adds is not known before


def test_tasks_that_see_any_key_fill_all_room(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 1000, **{"dynamic-bucket.initial-buckets": "4"})
    table.append(_rows(range(3200)))
    table.commit(_written(table, [_rows(range(3200, 4000))] * 2, [None] * 2))
    assert len(_sizes(table)) == 4 or min(_sizes(table)) > 100
    assert max(_sizes(table)) < 1050


@pytest.mark.parametrize("initial", [None, "2", "3"])
def test_assigners_have_buckets_of_their_own(tmp_path: Path, initial: str | None) -> None:
    options = {} if initial is None else {"dynamic-bucket.initial-buckets": initial}
    table = _table(tmp_path / "t", 100, **options)
    for last in (1000, 1500):
        tasks = [*_by_assigner(table, _rows(range(last), last, partitions=2), 3)]
        table.commit(_written(table, tasks, [KeyShare(channel, 3) for channel in range(3)]))
        assert _values(table) == dict.fromkeys(range(last), last)
    sizes = _sizes(table)
    assert max(sizes) == 100
    assert sum(size < 100 for size in sizes) <= 2 * int(initial or 3)


def test_a_row_of_another_assigner_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 100)
    with (
        pytest.raises(OptionError, match="another assigner"),
        TableWriter(table.write_context(), 0, KeyShare(0, 2)) as w,
    ):
        w.write(_rows(range(10)))
        w.prepare_commit()
    assert not [*(tmp_path / "t").rglob("*.parquet")]


def test_how_many_assigners_there_are() -> None:
    options = {"dynamic-bucket.assigner-parallelism": "4", "dynamic-bucket.initial-buckets": "2"}
    assert assigner_channels(TableOptions(options), 7) == 4
    assert assigner_channels(TableOptions(), 7) == 7


@st.composite
def _jobs(draw: st.DrawFn) -> list[tuple[str, list[list[int]]]]:
    keys = st.lists(st.integers(0, 60), max_size=40)
    kind = st.sampled_from(["append", "tasks", "assigners", "overwrite", "partition"])
    return draw(st.lists(st.tuples(kind, st.lists(keys, min_size=1, max_size=3)), min_size=1, max_size=5))


@settings(max_examples=settings().max_examples if LONG else 6)
@given(jobs=_jobs(), target=st.sampled_from([3, 10, 1000]), initial=st.sampled_from(["1", "3"]))
def test_a_key_is_in_one_bucket(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[str, list[list[int]]]], target: int, initial: str
) -> None:
    table = _table(tmp_path_factory.mktemp("t") / "t", target, **{"dynamic-bucket.initial-buckets": initial})
    model: dict[int, int] = {}
    for number, (kind, parts) in enumerate(jobs):
        tasks = [_rows(part, number, partitions=2) for part in parts]
        new = {key: number for part in parts for key in part}
        if kind == "append":
            table.append(pa.concat_tables(tasks))
        elif kind == "overwrite":
            table.overwrite(pa.concat_tables(tasks))
            model.clear()
        elif kind == "partition":
            new = {key: value for key, value in new.items() if key % 2}
            table.overwrite(_rows([*new], number, partitions=2), {"p": 1})
            model = {key: value for key, value in model.items() if key % 2 == 0}
        elif kind == "tasks":
            table.commit(_written(table, tasks, [None] * len(tasks)))
        elif new:
            tasks = [*_by_assigner(table, pa.concat_tables(tasks), 2)]
            table.commit(_written(table, tasks, [KeyShare(0, 2), KeyShare(1, 2)]))
        model.update(new)
        assert _values(table) == model
        bucket_keys(table)
    needed = {Path(name) for name in table_files(table._store) if "/index/" in name}
    assert needed == {*Path(table.path, "index").glob("*")}


@given(
    known=st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=50), max_size=4),
    added=st.lists(st.lists(st.integers(-200, 200), max_size=50), max_size=6),
    block=st.sampled_from([2, 16, 1 << 20]),
)
def test_a_map_of_keys_is_a_dict(known: list[list[int]], added: list[list[int]], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paimon_pyds.keys.bucket.key_buckets.BLOCK_KEYS", block)
        patch.setattr("paimon_pyds.keys.bucket.key_buckets.FEW_KEYS", block)
        files = [(300 * bucket, partial(np.array, hashes, np.int32)) for bucket, hashes in enumerate(known)]
        model = {number: 300 * bucket for bucket, hashes in reversed([*enumerate(known)]) for number in hashes}
        keys = KeyBuckets.of(files, sum(map(len, known)))
        for number, hashes in enumerate(added):
            distinct = np.unique(np.array(hashes, np.int32))
            found = keys.find(distinct)
            assert found.tolist() == [model.get(h, -1) for h in distinct.tolist()]
            new = distinct[found < 0]
            keys.add(new, np.full(len(new), number, np.int32))
            model.update(dict.fromkeys(new.tolist(), number))
            assert len(keys) == len(model)
    by_bucket = {bucket: hashes.tolist() for bucket, hashes in keys.by_bucket()}
    assert {h: bucket for bucket, hashes in by_bucket.items() for h in hashes} == model
    assert all(hashes == sorted(set(hashes)) for hashes in by_bucket.values())


# --------------------------------------------------------------------------------------------------- commits, damage


def test_two_jobs_at_once(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 100)
    table.append(_rows(range(50)))
    for keys in (range(50, 60), range(50)):  # old keys, too: they might have been put elsewhere
        messages = _written(table, [_rows(keys, 1)], [KeyShare()])
        table.append(_rows([int(keys[0]) + 1000]))
        table.commit(messages)
    assert _values(table) == {**dict.fromkeys(range(60), 1), 1000: 0, 1050: 0}
    bucket_keys(table)


def test_jobs_in_other_partitions_and_compactions_are_no_conflict(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 100)
    table.append(_rows(range(20), partitions=2))
    messages = _written(table, [_rows(range(0, 40, 2), 1, partitions=2)], [KeyShare()])
    table.append(_rows(range(1, 40, 2), 2, partitions=2))
    table.compact(full=True)
    table.commit(messages)
    assert _values(table) == {key: 1 + key % 2 for key in range(40)}
    assert _sizes(table) == [20, 20]


def test_tasks_that_went_by_different_states(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 100)
    messages = _written(table, [_rows(range(5))], [None])
    table.append(_rows(range(5, 10)))
    messages += _written(table, [_rows(range(3, 8))], [None])
    table.commit(messages)
    assert set(_values(table)) == set(range(10))
    bucket_keys(table)


def test_writers_that_know_nothing_of_one_another_are_no_job(tmp_path: Path) -> None:
    """Each takes itself for the only one."""
    table = _table(tmp_path / "t", 10)
    before = sorted(tmp_path.rglob("*"))
    messages = []
    for part in (range(20), range(15, 40)):
        with TableWriter(table.write_context()) as writer:
            writer.write(_rows(part))
            messages.append(writer.prepare_commit())
    with pytest.raises(CommitError, match=r"two buckets.*numbers of their tasks"):
        table.commit(messages)
    assert {path for path in set(tmp_path.rglob("*")) - {*before} if path.is_file()} == set()


def test_a_commit_that_is_made_again_is_one(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 100)
    for parts, count in ([range(20)], 20), ([range(20), range(10, 30)], 30):
        messages = _written(table, [_rows(part) for part in parts], [None] * len(parts))
        first = table.commit(messages)
        assert table.commit(messages) == first
        assert _sizes(table) == [count]
    names = {
        entry.file_name
        for snapshot in table.snapshots.list()
        for entry in table._store.read_index_manifest(snapshot.index_manifest)
    }
    assert {path.name for path in (tmp_path / "t" / "index").iterdir()} == names


def test_an_overwrite_forgets_keys(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 10)
    table.append(_rows(range(60), partitions=2))
    table.overwrite(_rows(range(1, 6, 2), 1, partitions=2), dynamic=True)
    assert _sizes(table) == [10, 10, 10, 3]
    table.delete("p = 0")
    assert _sizes(table) == [3]
    table.overwrite(_rows([]))
    assert _sizes(table) == []
    messages = _written(table, [_rows(range(5))], [None])
    table.append(_rows(range(5, 10)))
    table.commit(messages, overwrite=True)
    assert set(_values(table)) == {*range(5)}
    assert _sizes(table) == [5]


def test_messages_of_a_write_that_went_by_the_index_may_overwrite(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", 10)
    table.append(_rows(range(20)))
    table.commit(_written(table, [_rows(range(15, 25))], [None]), overwrite=True)
    assert set(_values(table)) == {*range(15, 25)}
    table.append(_rows(range(30), 1))
    assert _values(table) == dict.fromkeys(range(30), 1)
    bucket_keys(table)


def test_rows_without_a_hash_index_are_no_place_for_new_keys(tmp_path: Path) -> None:
    """As of a writer that knows no hash index: a key that is not in it might still be there."""
    table = _table(tmp_path / "t", 10)
    (message,) = _written(table, [_rows(range(5))], [None])
    table.commit([CommitMessage(tuple(replace(bucket, hashes=None) for bucket in message.buckets))])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CorruptFileError, match="bucket 0 has rows, but no hash index"):
        table.append(_rows(range(5)))
    assert sorted(tmp_path.rglob("*")) == before
    table.overwrite(_rows(range(7)))
    assert _sizes(table) == [7]


def test_jobs_that_are_killed_leave_every_key_in_one_bucket(tmp_path: Path) -> None:
    """Two at a time, which conflict."""
    path = tmp_path / "t"
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
    table = pp.Table.create(path, schema, primary_key=["k"], options={_TARGET: "70"})
    random = Random(9)
    for number in range(40 if LONG else 2):
        with victims(upsert_for_ever, [(path, number)] * 2) as heard:
            assert any(multiprocessing.connection.wait(heard, 120))
            time.sleep(random.uniform(0, 0.3))
        assert len(_values(table)) == sum(map(len, bucket_keys(table).values()))
    assert {*map(str, (path / "index").iterdir())} >= {name for name in table_files(table._store) if "/index/" in name}


@pytest.mark.parametrize("damage", [b"", b"123", bytes(44)])
def test_damaged_hash_files_are_refused(tmp_path: Path, damage: bytes) -> None:
    table = _table(tmp_path / "t", 10)
    table.append(_rows(range(10)))
    (file,) = (tmp_path / "t" / "index").iterdir()
    file.write_bytes(damage)
    with pytest.raises(CorruptFileError, match=f"10 keys has {len(damage)} bytes, not 40"):
        table.append(_rows(range(5)))
    table.overwrite(_rows(range(3)))
    assert set(_values(table)) == {0, 1, 2}
