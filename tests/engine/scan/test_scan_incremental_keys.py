"""Incremental scans of tables with a primary key: rows that were written, changelogs, and what differs, as in Java.

Java's readers give rows of all kinds, and leave it to who called them to drop those that take a row away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError, PaimonError, UnsupportedError
from paimon_pyds.metadata.snapshot import CommitKind
from support.effort import sampled
from support.fixtures import fixture_names, newer_fixture, requires_shared, table_path
from support.java_quirks import shows_level_0
from support.oracle import Batch, Oracle, Reply, requires_java_oracle
from support.values import dumps, in_order, lines

NAMES = [name for name in fixture_names() if name.startswith(("pk_", "evolve_pk")) or name == "file_layout_options"]
MODES = ["auto", "delta", "changelog", "diff"]
ADDS = {"+I", "+U"}


def _read(batch: Batch, path: Path | str, options: dict[str, str], table: str = "db.t") -> Reply:
    words = [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
    return batch.add("read", Path(path).parent.parent, table, "--show-kind", *words, allow_fail=True)


def _added(reply: Reply) -> list[str]:
    """The rows that add something."""
    kept = [row for row in reply.values if row.pop("_kind") in ADDS]
    return in_order(dumps(row) for row in kept)


def _overwritten(table: pp.Table, options: dict[str, str]) -> bool:
    """Whether states are compared before and after an overwrite: it numbers rows anew, and Java takes new rows whose
    numbers are less than those of the old ones for older versions, and gives neither."""
    start, end = options.get("incremental-between", ",").split(",")
    if options["incremental-between-scan-mode"] != "diff" or not (start + end).isdigit():
        return False
    between = (table._store.snapshot(id_) for id_ in range(int(start) + 1, int(end) + 1))
    return any(snapshot.commit_kind is CommitKind.OVERWRITE for snapshot in between)


def _options(start: int | str, end: int | str, mode: str) -> dict[str, str]:
    return {"incremental-between": f"{start},{end}", "incremental-between-scan-mode": mode}


def _assert_as_java(oracle: Oracle, path: Path | str, reads: list[dict[str, str]]) -> None:
    table = pp.Table.open(path)
    with oracle.batch() as batch:
        replies = [_read(batch, path, shows_level_0(table, options)) for options in reads]
    for options, reply in zip(reads, replies, strict=True):
        if not reply.ok:
            with pytest.raises(PaimonError):
                table.scan(options=options).plan()
            continue
        scan = table.scan(options=options)
        ours, java = in_order(lines(scan.to_arrow())), _added(reply)
        assert scan.count() == len(ours), options
        if _overwritten(table, options):
            assert set(java) <= set(ours) <= set(lines(table.scan(snapshot=scan.snapshot_id).to_arrow())), options
        else:
            assert ours == java, options
    assert any(reply.ok for reply in replies)


@requires_shared
@requires_java_oracle
@pytest.mark.parametrize("name", sampled(NAMES, 2))
def test_between_snapshots(name: str, oracle: Oracle) -> None:
    path = table_path(name)
    last = pp.Table.open(path).scan().snapshot_id
    spans = [(1, last), (last - 1, last)] if last and last > 1 else []
    _assert_as_java(oracle, path, [_options(*span, mode) for span in [(0, last), *spans] for mode in MODES])


def _written(oracle: Oracle, warehouse: Path, options: dict[str, str]) -> Path:
    """A table that Java wrote, compacted, tagged as ``a`` and as ``2`` and wrote to again."""
    schema = pa.schema([pa.field("id", pa.int64(), False), ("g", pa.string()), ("v", pa.int32())])

    def rows(*values: tuple[str, int, str, int]) -> list[dict[str, Any]]:
        return [dict(zip(("_kind", "id", "g", "v"), row, strict=True)) for row in values]

    with oracle.batch() as batch:
        batch.create(warehouse, "db.t", schema, primary_keys=["id"], options={"bucket": "2", **options})
        for written in (
            rows(*(("+I", i, "ab"[i % 2], i) for i in range(8))),
            rows(("+U", 1, "c", 10), ("-D", 2, "a", 2), ("+I", 8, "b", 80)),
            rows(("-U", 3, "b", 3), ("+U", 3, "b", 30), ("+I", 2, "b", 20), ("-D", 4, "a", 4)),
            rows(("+U", 1, "b", 1), ("-D", 9, "b", 9), ("+I", 5, "b", 5)),
        ):
            _write(batch, warehouse, written)
        batch.tag(warehouse, "db.t", "a", snapshot=2)
        batch.tag(warehouse, "db.t", "1", snapshot=3)
        batch.compact(warehouse, "db.t")
        _write(batch, warehouse, rows(("+U", 0, "b", 50), ("-D", 7, "b", 7)))
        batch.tag(warehouse, "db.t", "3")
        batch.write(warehouse, "db.t", rows(("+I", 3, "b", 33), ("+I", 6, "a", 66)), overwrite=True)
        _write(batch, warehouse, rows(("+U", 3, "b", 34), ("+I", 11, "b", 11)))
    return warehouse / "db.db" / "t"


def _write(batch: Batch, warehouse: Path, rows: list[dict[str, Any]]) -> None:
    path = batch.oracle.scratch_file(".jsonl")
    path.write_text("".join(dumps(row) + "\n" for row in rows))
    batch.add("write", warehouse, "db.t", path, "--row-kind-field", "_kind")


TABLES = [
    {},
    {"changelog-producer": "input"},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
    {"deletion-vectors.enabled": "true"},
    {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    {"deletion-vectors.enabled": "true", "changelog-producer": "input"},
    {"merge-engine": "first-row", "ignore-delete": "true"},
    {"merge-engine": "first-row", "ignore-delete": "true", "changelog-producer": "lookup"},
    {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "changelog-producer": "full-compaction"},
    {"sequence.field": "v", "changelog-producer": "lookup"},
]


@pytest.mark.parametrize(
    ("own", "mode"),
    [
        ({"deletion-vectors.enabled": "true"}, "auto"),
        ({"deletion-vectors.enabled": "true", "changelog-producer": "input"}, "auto"),
        ({"deletion-vectors.enabled": "true", "changelog-producer": "input"}, "delta"),
        ({"merge-engine": "first-row"}, "delta"),
    ],
)
def test_what_was_added_is_read_where_a_state_hides_it_until_it_is_compacted(
    own: dict[str, str], mode: str, tmp_path: Path
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int32())])
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["id"], options={"bucket": "1", **own})
    rows = pa.table([[1, 2], [10, 20]], schema=schema)
    table.append(rows)
    added = table.scan(options=_options(0, 1, mode))
    assert added.to_arrow().to_pylist() == rows.to_pylist()
    assert added.count() == 2
    assert table.scan("v > 10", options=_options(0, 1, mode)).to_arrow().to_pydict() == {"id": [2], "v": [20]}
    logged = table.system.audit_log(options=_options(0, 1, mode)).to_arrow()
    assert logged.to_pydict() == {"rowkind": ["+I", "+I"], **rows.to_pydict()}
    assert table.scan(snapshot=1).count() == 0


@requires_java_oracle
@pytest.mark.parametrize("options", sampled(TABLES, 2), ids=lambda options: "-".join(options.values()) or "plain")
def test_of_tables_that_java_writes(options: dict[str, str], tmp_path: Path, oracle: Oracle) -> None:
    path = _written(oracle, tmp_path, options)
    last = pp.Table.open(path).scan(options={}).snapshot_id
    assert last is not None
    spans: list[tuple[int | str, int | str]] = [("a", "1"), ("a", "3"), ("1", "3"), (1, last)]
    spans += [(end - 1, end) for end in range(2, last + 1)]
    reads = [_options(*span, mode) for span in spans for mode in MODES]
    _assert_as_java(oracle, path, sampled(reads, 8))


@pytest.mark.parametrize("mode", ["delta", "changelog", "diff"])
@pytest.mark.parametrize(
    "name", sampled(["pk_changelog_input", "pk_dedup_levels", "pk_index", "pk_partitioned", "pk_dv32"], 2)
)
def test_filters_orders_and_answers_are_those_of_the_rows(name: str, mode: str) -> None:
    """Indexes, statistics and merging leave the rows that the filter keeps of all of them, and no other."""
    table = pp.Table.open(table_path(name))
    last = table.scan().snapshot_id
    assert last is not None
    options = _options(1, last, mode)
    whole = table.scan(options=options).to_arrow()
    key = pp.Table.open(table_path(name)).schema.primary_keys[-1]
    for column in (key, "v"):
        middle = int(np.median(whole[column].drop_null())) if whole.num_rows else 0
        found = {
            f"{column} IS NULL": pc.is_null(whole[column]),
            f"{column} >= {middle}": pc.greater_equal(whole[column], middle),
            f"{column} = {middle}": pc.equal(whole[column], middle),
        }
        for filter_, kept in found.items():
            scan, expected = table.scan(filter_, options=options), whole.filter(kept)
            assert in_order(lines(scan.to_arrow())) == in_order(lines(expected)), filter_
            assert scan.count() == expected.num_rows, filter_
    assert table.scan(options=options).answer.max("v").value == pc.max(whole["v"]).as_py()
    top = table.scan(top_n="v desc nulls last, 5", options=options).to_arrow()["v"].to_pylist()
    assert top == sorted(whole["v"].drop_null().to_pylist(), reverse=True)[:5]
    assert table.scan(limit=4, options=options).to_arrow().num_rows == min(4, whole.num_rows)


@requires_shared
@requires_java_oracle
@pytest.mark.parametrize("name", ["pk_changelog_lookup", "pk_dedup_mor"])
def test_between_times(name: str, oracle: Oracle) -> None:
    path = table_path(name)
    times = [snapshot.time_millis for snapshot in pp.Table.open(path)._store.snapshots()]
    spans = [(times[0], times[-1]), (times[1], times[2]), (times[1] - 1, times[-1] + 5)]
    key = "incremental-between-timestamp"
    reads = [{key: f"{a},{b}", "incremental-between-scan-mode": mode} for a, b in spans for mode in MODES]
    _assert_as_java(oracle, path, reads)


@requires_java_oracle
def test_states_with_other_numbers_of_buckets_are_not_compared(tmp_path: Path, oracle: Oracle) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int32())])
    rows = [{"id": i, "v": i} for i in range(9)]
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", schema, primary_keys=["id"], options={"bucket": "1"})
        batch.write(tmp_path, "db.t", rows)
        batch.alter(tmp_path, "db.t", {"op": "set", "key": "bucket", "value": "2"})
        batch.write(tmp_path, "db.t", rows, overwrite=True)
        batch.write(tmp_path, "db.t", [{"id": 1, "v": 10}])
    path = tmp_path / "db.db" / "t"
    with pytest.raises(UnsupportedError, match="numbers of buckets"):
        pp.Table.open(path).scan(options=_options(1, 3, "diff")).plan()
    _assert_as_java(oracle, path, [_options(1, 3, "diff"), _options(1, 3, "delta"), _options(2, 3, "diff")])


PERIODS: dict[str, tuple[dict[str, str], list[str]]] = {
    "daily": ({}, ["2024-12-01", "2024-12-02 late", "2024-12-04"]),
    "short": ({"tag.period-formatter": "without_dashes"}, ["20241201", "20241202", "20241204"]),
    "hourly": ({"tag.creation-period": "hourly"}, ["2024-12-01 22", "2024-12-01 23", "2024-12-02 00"]),
    "hourly_short": (
        {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
        ["2024120122", "2024120123", "2024120200"],
    ),
    "two_hours": (
        {"tag.creation-period": "two-hours", "tag.period-formatter": "without_dashes"},
        ["2024-12-01 20", "2024-12-01 22", "2024-12-02 00"],
    ),
    "minutes": ({"tag.creation-period-duration": "10 min"}, ["202412012340", "202412012350", "202412020000"]),
}


@requires_java_oracle
def test_up_to_a_tag_from_the_automatic_one_before_it(tmp_path: Path, oracle: Oracle) -> None:
    """Whatever the order in which they were made, and beside tags of other names; of the first nothing is read."""
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int32())])
    with oracle.batch() as batch:
        for name, (options, tags) in PERIODS.items():
            batch.create(tmp_path, f"db.{name}", schema, primary_keys=["id"], options={"bucket": "1", **options})
            for number in range(4):
                batch.write(tmp_path, f"db.{name}", [{"id": i, "v": number} for i in range(number, number + 2)])
            for snapshot, tag in zip((1, 3, 4, 2), (*tags, "2024-12-03x"), strict=True):
                batch.tag(tmp_path, f"db.{name}", tag, snapshot=snapshot)
        asked = {n: [*tags, "2024-12-03x", tags[0].replace("2024", "2023")] for n, (_, tags) in PERIODS.items()}
        replies = {
            name: [
                _read(batch, tmp_path / "db.db" / name, {"incremental-to-auto-tag": tag}, f"db.{name}") for tag in tags
            ]
            for name, tags in asked.items()
        }
    for name, found in replies.items():
        table = pp.Table.open(tmp_path / "db.db" / name)
        for tag, reply in zip(asked[name], found, strict=True):
            options = {"incremental-to-auto-tag": tag}
            if not reply.ok:
                with pytest.raises(OptionError, match="automatic"):
                    table.scan(options=options)
                continue
            assert in_order(lines(table.scan(options=options).to_arrow())) == _added(reply), (name, tag)
        assert [reply.ok for reply in found] == [True, True, True, False, True], name
        assert [len(reply.lines) > 0 for reply in found] == [False, True, True, False, False], name


@pytest.mark.parametrize("kind", ["dv", "first-row"])
def test_both_rules_of_a_difference_where_reads_hide_level_0(kind: str) -> None:
    """Of states that batch reads see, as Java 1.4; or of all files that only one state has, as Java 2.1."""
    path, expected = newer_fixture(f"diff-level-0-{kind}")
    table = pp.Table.open(path)
    pairs = [key for key in expected if key[0].isdigit()]
    assert len(pairs) == 6
    for pair in pairs:
        start, end = pair.split(",")
        for rules, says in (("1.4", "ours"), ("2.1", "Java 2.1")):
            rows = table.scan(options={**_options(start, end, "diff"), "diff-rules": rules}).to_arrow()
            found = sorted(["+I", row["k"], row["v"]] for row in rows.to_pylist())
            assert found == sorted(expected[pair][says]), (pair, rules)
        by_default = table.scan(options=_options(start, end, "diff")).to_arrow()
        assert by_default.num_rows == len(expected[pair]["ours"])
