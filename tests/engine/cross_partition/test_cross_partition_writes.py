"""Writes to tables whose keys move between partitions: beside other writers, refused ones, how buckets are filled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.cross_partition import key_places
from paimon_pyds.engine.cross_partition.key_places import KeyPlaces
from paimon_pyds.engine.cross_partition.upsert import check_places
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import CommitError, OptionError, PaimonError, UnsupportedError
from paimon_pyds.metadata.commit_message import CommitMessage
from support.effort import sampled
from support.races import race

_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.int64())])


def _table(path: Path, *, key: Iterable[str] = ("id",), **options: str) -> pp.Table:
    own = {"bucket": "-1", **options}
    return pp.Table.create(path / "t", _SCHEMA, primary_key=list(key), partition_by=["p"], options=own)


def _rows(ids: Iterable[int], p: int, v: int = 0) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "p": p, "v": v} for i in ids], _SCHEMA)


def _found(table: pp.Table) -> dict[int, tuple[int, int]]:
    """Each key with its partition and value."""
    rows = table.scan().to_arrow().to_pylist()
    found = {row["id"]: (row["p"], row["v"]) for row in rows}
    assert len(found) == len(rows)
    return found


# --------------------------------------------------------------------------------------------------------- two writers


_HIDDEN = [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}]
"""Where readers don't see what is not compacted yet."""


@pytest.mark.parametrize("options", _HIDDEN)
def test_keys_that_readers_do_not_see_yet_are_found(tmp_path: Path, options: dict[str, str]) -> None:
    table = _table(tmp_path, **options)
    table.append(_rows([1, 2], 0), options={"write-only": "true"})
    assert table.count() == 0
    table.append(_rows([2, 3], 1, 5))
    table.compact(full=True)
    moved = {} if "merge-engine" in options else {2: (1, 5)}
    assert _found(table) == {1: (0, 0), 2: (0, 0), 3: (1, 5)} | moved


@pytest.mark.parametrize("options", _HIDDEN)
def test_and_are_looked_for_again_beside_another_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    table = _table(tmp_path, **options)
    other = pp.Table.open(table.path)
    race(monkeypatch, lambda: other.append(_rows([5], 1), options={"write-only": "true"}))
    table.append(_rows([5], 2, 7))
    table.compact(full=True)
    assert _found(table) == {5: (1, 0) if "merge-engine" in options else (2, 7)}


@pytest.mark.parametrize("ids", [[5], [1]], ids=["new", "old"])
def test_of_two_writers_of_one_key_the_second_looks_for_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: list[int]
) -> None:
    table = _table(tmp_path)
    table.append(_rows([1, 2], 0))
    other = pp.Table.open(table.path)
    race(monkeypatch, lambda: other.append(_rows(ids, 1)))
    table.append(_rows([*ids, 9], 2))
    assert _found(table) == {1: (0, 0), 2: (0, 0), 9: (2, 0)} | dict.fromkeys(ids, (2, 0))
    live = set(live_of(table._store, table.snapshots.latest())["file_name"].to_pylist())
    written = {path.name for path in Path(table.path).glob("p=2/*/data-*")}
    assert written <= live  # nothing is left of the first try


def test_writers_of_other_keys_and_compactions_are_no_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    table.append(_rows(range(0, 20, 2), 0))
    other = pp.Table.open(table.path)

    def theirs() -> None:
        other.append(_rows(range(1, 20, 4), 1))
        other.compact(full=True)

    race(monkeypatch, theirs)
    table.append(_rows(range(3, 20, 4), 2))
    assert {i: p for i, (p, _) in _found(table).items()} == {i: (0, 1, 0, 2)[i % 4] for i in range(20)}


def test_keys_are_looked_for_again_after_an_overwrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path)
    table.append(_rows(range(4), 0))
    other = pp.Table.open(table.path)
    race(monkeypatch, lambda: other.overwrite(_rows([7], 0)))
    table.append(_rows([1], 1))
    assert _found(table) == {7: (0, 0), 1: (1, 0)}


@pytest.mark.parametrize("format_", ["parquet", "row"])
def test_tasks_that_put_a_key_into_two_places_are_found_out(tmp_path: Path, format_: str) -> None:
    """Spark computes a part of the rows again when an executor is lost, and they may be others then."""
    table = _table(tmp_path, **{"write-buffer-size": "1 b", "file.format": format_})
    kinds = {"rowkind-column": "op"}
    column = pa.field("b", pa.int32())

    def written(task: int, *rows: tuple[str, int, int]) -> CommitMessage:
        with TableWriter(table.write_context(kinds), task, bucket="b") as writer:
            for kind, id_, p in rows:
                given = {"op": [kind], "id": [id_], "p": [p], "v": [task], "b": [task]}
                schema = pa.schema([("op", pa.string()), *_SCHEMA, column])
                writer.write(pa.table(given, schema=schema))
            return writer.prepare_commit()

    places = KeyPlaces.of(table._store, table.write_context(), None)
    moves = written(1, ("+I", 1, 1), ("-D", 1, 1), ("+I", 2, 1), ("+I", 1, 3), ("-D", 1, 3))
    check_places(places, [moves, written(0, ("+I", 1, 2), ("+I", 3, 2))])
    with pytest.raises(CommitError, match=r"a key was put into two buckets.*checkpoint"):
        check_places(places, [moves, written(0, ("+I", 1, 2), ("+I", 2, 2))])
    with pytest.raises(CommitError, match="a key was put into two buckets"):
        check_places(places, [written(0, ("+I", 9, 2)), written(1, ("+I", 8, 2), ("+I", 9, 2))])


def test_they_are_found_out_too_where_the_key_is_a_column_named_place(tmp_path: Path) -> None:
    columns = {"place": "INT NOT NULL", "p": "INT NOT NULL"}
    table = pp.Table.create(
        tmp_path / "t", columns, primary_key=["place"], partition_by=["p"], options={"bucket": "-1"}
    )

    def written(task: int, place: int) -> CommitMessage:
        with TableWriter(table.write_context(), task, bucket="b") as writer:
            writer.write(
                pa.table(
                    {"place": [place], "p": [task], "b": [0]},
                    pa.schema({"place": pa.int32(), "p": pa.int32(), "b": pa.int32()}),
                )
            )
            return writer.prepare_commit()

    places = KeyPlaces.of(table._store, table.write_context(), None)
    check_places(places, [written(0, 1), written(1, 2)])
    with pytest.raises(CommitError, match="a key was put into two buckets"):
        check_places(places, [written(0, 1), written(1, 1)])


# ------------------------------------------------------------------------------------------------------------- buckets


def test_buckets_are_filled_one_after_the_other(tmp_path: Path) -> None:
    table = _table(tmp_path, **{"dynamic-bucket.target-row-num": "100"})
    table.append(_rows(range(250), 0))
    table.append(_rows(range(200, 450), 0, 1))
    table.append(_rows(range(50), 1))
    placed = table.scan(columns=["p", "__paimon_bucket"]).to_arrow().to_pylist()
    counts = Counter((row["p"], row["__paimon_bucket"]) for row in placed)
    assert sum(counts.values()) == 450
    assert counts.pop((1, 0)) == 50
    assert all(count <= 100 for count in counts.values())
    assert len(counts) <= 5
    table.append(_rows([1000], 0))  # the room that keys left
    table.compact(full=True)
    table.append(_rows(range(1001, 1050), 0))
    assert {b for row in table.scan(columns=["p", "__paimon_bucket"]).to_arrow().to_pylist()
            if row["p"] == 0 and (b := row["__paimon_bucket"]) is not None} == set(range(5))  # fmt: skip


def test_versions_of_a_key_in_several_batches_follow_one_another(tmp_path: Path) -> None:
    table = _table(tmp_path, **{"write-only": "true"})
    rows = pa.table({"id": [i % 3 for i in range(300_000)], "p": [i // 3 % 5 for i in range(300_000)],
                     "v": list(range(300_000))}).cast(_SCHEMA)  # fmt: skip
    table.append(rows)
    assert _found(table) == {0: (4, 299_997), 1: (4, 299_998), 2: (4, 299_999)}


# ---------------------------------------------------------------------------------------------------- options, refusals


def test_keys_of_files_older_than_the_ttl_are_not_found(tmp_path: Path) -> None:
    table = _table(tmp_path, **{"write-only": "true"})
    table.append(_rows([1, 2], 0))
    time.sleep(0.02)
    table.append(_rows([1], 1), options={"cross-partition-upsert.index-ttl": "1 h"})
    assert _found(table) == {1: (1, 0), 2: (0, 0)}
    time.sleep(0.02)
    table.append(_rows([2], 1), options={"cross-partition-upsert.index-ttl": "1 ms"})
    assert sorted(table.scan("id = 2").to_arrow()["p"].to_pylist()) == [0, 1]  # as Java's documentation warns
    with pytest.raises(PaimonError, match="the key id = 2 is in two partitions or buckets"):
        table.append(_rows([2], 3))


@pytest.mark.parametrize("few", [0, 1024], ids=["joined", "looked up"])
def test_threads_that_look_for_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    threads = []

    def counted(read: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any, **named: Any) -> Any:
            threads.append(named.get("threads", given[-1]))
            return read(*given, **named)

        return counting

    monkeypatch.setattr(key_places, "FEW_KEYS", few)
    monkeypatch.setattr(key_places.os, "cpu_count", lambda: 64)
    for name in ("read_splits", "rows_with_keys"):
        monkeypatch.setattr(key_places, name, counted(getattr(key_places, name)))
    table = _table(tmp_path)
    table.append(_rows(range(9), 0))
    threads.clear()
    for number in (3, 1, 100):
        table.append(_rows([number], 1), options={"cross-partition-upsert.bootstrap-parallelism": str(number)})
    table.append(_rows([4], 1))
    assert threads == [3, 1, 64, 10]


def test_a_key_can_not_leave_where_deletes_are_left_out(tmp_path: Path) -> None:
    table = _table(tmp_path, **{"ignore-delete": "true"})
    table.append(_rows([1], 0))
    table.append(_rows([1, 2], 0, 5))
    with pytest.raises(UnsupportedError, match="ignore-delete"):
        table.append(_rows([1], 1))
    assert _found(table) == {1: (0, 5), 2: (0, 5)}


def test_sequence_fields_are_refused_as_in_java(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"can not use sequence\.field in cross partition update"):
        _table(tmp_path, **{"sequence.field": "v"})


def test_a_partition_can_be_overwritten_with_keys_of_its_own(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.append(_rows([1, 2], 0))
    table.append(_rows([3], 1))
    table.overwrite(_rows([2, 4], 0, 7), {"p": 0})
    assert _found(table) == {2: (0, 7), 3: (1, 0), 4: (0, 7)}
    with pytest.raises(UnsupportedError, match="the key id = 3 is in a partition that is not overwritten"):
        table.overwrite(_rows([3], 0), {"p": 0})
    with pytest.raises(UnsupportedError, match="dynamic overwrite"):
        table.overwrite(_rows([3], 0), dynamic=True)
    table.overwrite(_rows([3], 0))
    assert _found(table) == {3: (0, 0)}


def test_a_writer_of_its_own_does_not_know_where_keys_are(tmp_path: Path) -> None:
    table = _table(tmp_path)
    with pytest.raises(UnsupportedError, match=r"paimon_pyds\.spark\.write"), TableWriter(table.write_context()) as own:
        own.write(_rows([1], 0))
        own.prepare_commit()


_KEYS = {
    "string": (pa.string(), ["", "a", "ä", "long " * 9]),
    "double": (pa.float64(), [0.0, -1.5, float("inf"), 1e300]),
    "decimal": (pa.decimal128(25, 2), [Decimal("-1.50"), Decimal(0), Decimal("1e20"), Decimal(7)]),
    "date": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(2026, 1, 2), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us"), [datetime(1950, 1, 1), datetime(1970, 1, 1), datetime(2026, 1, 1, 1, 1, 1, 7)]),
    "binary": (pa.binary(), [b"", b"\0", b"\xff\x00", b"x" * 40]),
    "boolean": (pa.bool_(), [False, True]),
}


@pytest.mark.parametrize("few", [0, 1024], ids=["joined", "looked up"])
@pytest.mark.parametrize("kind", sampled(_KEYS, 2))
def test_keys_of_any_type_move(tmp_path: Path, kind: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_places, "FEW_KEYS", few)
    type_, values = _KEYS[kind]
    schema = pa.schema([("k", type_), ("second", pa.int32()), ("p", pa.int32())])
    for key in (["k"], ["k", "second"]):
        path = tmp_path / str(len(key))
        table = pp.Table.create(path, schema, primary_key=key, partition_by=["p"], options={"bucket": "-1"})
        for p in range(3):
            rows = values[p % 2 :] * 2
            second = [i // (len(rows) // 2) % len(key) for i in range(len(rows))]
            table.append(pa.table([rows, second, [p] * len(rows)], schema))
            if p:
                rows = table.scan().to_arrow()
                assert rows.num_rows == len(values) * len(key)
                assert table.count("p = 2") == (len(values) * len(key) if p == 2 else 0)
