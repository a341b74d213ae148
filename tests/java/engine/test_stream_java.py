"""Streams of tables that Java Paimon wrote, and Java's own streaming read: the same rows with the same kinds of
each snapshot; and consumers of both."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import AtomicType, DataField, Kind
from paimon_pyds.errors import PaimonError
from support.effort import sampled
from support.fixtures import fixture_names, table_path
from support.oracle import Oracle, Reply, requires_java_oracle
from support.values import dumps, in_order, json_rows

pytestmark = [pytest.mark.java, requires_java_oracle]

_STARTS: dict[str, dict[str, str]] = {
    "state": {},
    "changes": {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"},
    "compacted": {"scan.mode": "compacted-full"},
}
_REFUSED = ("streaming reading is not supported", "data-evolution")
"""Reasons for which there is no stream of a table here."""
_OLD_COLUMNS = ("evolve_append", "evolve_index", "evolve_pk")
"""Java reads the changes since a snapshot by the columns of that snapshot, here they are the newest at the start."""


def _arguments(options: dict[str, str]) -> list[str]:
    return [part for key, value in options.items() for part in ("--option", f"{key}={value}")]


def _java(reply: Reply) -> dict[int, list[str]]:
    """The rows of each snapshot, sorted."""
    found: dict[int, list[str]] = defaultdict(list)
    rows: list[str] = []
    for value in reply.values:
        if "round" in value:
            rows = found[(value["next_snapshot"] or 1) - 1] if value["rows"] else []
        else:
            rows.append(dumps(value))
    return {number: in_order(rows) for number, rows in found.items() if rows}


def _ours(table: pp.Table, options: dict[str, str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for change in table.follow(until="latest", rowkind_column="_kind", options=options):
        found[change.snapshot] += map(dumps, json_rows(change.batch))
    return {number: in_order(rows) for number, rows in found.items()}


def _streamed(table: pp.Table, start: str) -> dict[int, list[str]] | str:
    """The rows of each snapshot; or why there is no stream."""
    try:
        return _ours(table, _STARTS[start])
    except PaimonError as error:
        return str(error)


def test_streams_of_java_tables_are_those_of_java(oracle: Oracle, tmp_path: Path) -> None:
    ours = {}
    for name in sampled(fixture_names(), 16):
        shutil.copytree(table_path(name), tmp_path / "db.db" / name)
        for start in _STARTS:
            if not (start == "changes" and name in _OLD_COLUMNS):
                ours[name, start] = _streamed(pp.Table.open(tmp_path / "db.db" / name), start)
    refused = {case: why for case, why in ours.items() if isinstance(why, str)}
    assert [why for why in refused.values() if not any(reason in why for reason in _REFUSED)] == []
    assert len(refused) < len(ours) / 4
    with oracle.batch() as batch:
        replies = {
            (name, start): batch.add("stream", tmp_path, f"db.{name}", *_arguments(_STARTS[start]), "--rounds", "60")
            for name, start in ours.keys() - refused.keys()
        }
    for (name, start), reply in replies.items():
        java = _java(reply)
        if start != "changes" and java:  # of a state, Java gives the kind with which each row was written
            first = min(java)
            java[first] = in_order(line.replace('"_kind":"+U"', '"_kind":"+I"') for line in java[first])
        assert ours[name, start] == java, (name, start)


@pytest.mark.parametrize("option", ["streaming-read-overwrite", "streaming-read-append-overwrite"])
def test_overwrites_of_java_are_read_as_java_does(oracle: Oracle, tmp_path: Path, option: str) -> None:
    keys = ["id"] if option == "streaming-read-overwrite" else []
    options = {"bucket": "2" if keys else "-1", option: "true"}
    fields = [DataField(0, "id", AtomicType(Kind.INT, nullable=False)), DataField(1, "v", AtomicType(Kind.INT))]
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields, primary_keys=keys, options=options)
        batch.write(tmp_path, "db.t", [{"id": n, "v": n} for n in range(4)])
        batch.write(tmp_path, "db.t", [{"id": n, "v": 10 * n} for n in range(2, 6)])
        batch.write(tmp_path, "db.t", [{"id": n, "v": -n} for n in range(5, 9)], overwrite=True)
        batch.write(tmp_path, "db.t", [{"id": 1, "v": 1}])
        reply = batch.add("stream", tmp_path, "db.t", *_arguments(_STARTS["changes"]))
    ours = _ours(pp.Table.open(tmp_path / "db.db" / "t"), _STARTS["changes"])
    assert ours == _java(reply)
    assert len(ours) == 4


@pytest.mark.parametrize("start", ["changes", "state"])
def test_rows_that_wait_for_their_bucket_are_read_as_java_does(oracle: Oracle, tmp_path: Path, start: str) -> None:
    fields = [DataField(0, "id", AtomicType(Kind.INT, nullable=False)), DataField(1, "v", AtomicType(Kind.INT))]
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields, primary_keys=["id"], options={"bucket": "-2"})
        batch.write(tmp_path, "db.t", [{"id": n, "v": n} for n in range(4)])
        batch.write(tmp_path, "db.t", [{"id": n, "v": 10 * n} for n in range(4, 6)])
    table = pp.Table.open(tmp_path / "db.db" / "t")
    table.append({"id": [7], "v": [7]}, options={"postpone.batch-write-fixed-bucket": "false"})
    assert table.count() == 0, "no row has a bucket yet"
    with oracle.batch() as batch:
        reply = batch.add("stream", tmp_path, "db.t", *_arguments(_STARTS[start]))
    ours = _ours(table, _STARTS[start])
    assert ours == _java(reply)
    assert sum(map(len, ours.values())) == 7


def test_java_goes_on_where_a_consumer_of_a_follower_was(oracle: Oracle, tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "db.db" / "t", "id INT")
    for number in range(4):
        table.append({"id": [number]})
    assert len(list(table.follow(from_=1, until=2, consumer_id="job"))) == 2
    with oracle.batch() as batch:
        reply = batch.add("stream", tmp_path, "db.t", *_arguments({"consumer-id": "job"}))
    assert _java(reply) == {3: ['{"_kind":"+I","id":2}'], 4: ['{"_kind":"+I","id":3}']}
    stored = json.loads((tmp_path / "db.db/t/consumer/consumer-job").read_text())
    assert stored["nextSnapshot"] == 3


def _ids(table: pp.Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots.list()]


def test_both_keep_what_a_consumer_of_the_other_has_yet_to_read(oracle: Oracle, tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "db.db" / "t", "id INT")
    for number in range(1, 6):
        table.append({"id": [number]})
    oracle.program("MaintenanceOracle", "consume", table.path, "java", 3)  # the first plan finds the start
    assert table.maintenance.consumers() == {"java": 3}
    table.snapshots.expire(retain_max=1, retain_min=1)
    assert _ids(table) == [3, 4, 5]
    ours = table.follow(consumer_id="ours", until="latest")
    with oracle.batch() as batch:
        batch.add("stream", tmp_path, "db.t", *_arguments({"consumer-id": "java"}))
    assert [change.snapshot for change in table.follow(consumer_id="java", until=4)] == [3, 4]
    assert table.maintenance.consumers() == {"java": 5, "java.retained": 4, "ours.retained": 5}
    table.append({"id": [6]})
    table.append({"id": [7]})
    with oracle.batch() as batch:
        goes_on = batch.add("stream", tmp_path, "db.t", *_arguments({"consumer-id": "java"}))
    assert [*_java(goes_on)] == [5, 6, 7]
    table.maintenance.reset_consumer("java", 8)  # it keeps nothing then
    assert _first_after_java_expiry(oracle, table) == 5, "the state that the follower starts with"
    assert next(change for change in ours if change.snapshot != 5).snapshot == 6
    assert [change.snapshot for change in ours] == [7]
    assert _first_after_java_expiry(oracle, table) == 7
    found = sorted(oracle.program("MaintenanceOracle", "consumers", table.path))
    assert found == ["java=8", "ours.retained=7", "ours=8"]


def _first_after_java_expiry(oracle: Oracle, table: pp.Table) -> int:
    warehouse = Path(table.path).parents[1]
    with oracle.batch() as batch:
        batch.expire(warehouse, "db.t", 1)
    return _ids(table)[0]
