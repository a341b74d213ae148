"""Every engine beside Java: versions in several commits of Java's are merged to the rows that Java reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.errors import UnsupportedError
from paimon_pyds.merge.key_values import SEQUENCE_NUMBER, VALUE_KIND
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.predicate.tree import Const
from paimon_pyds.scan.plan import ScanRequest, plan_scan
from paimon_pyds.scan.travel import TableState
from paimon_pyds.storage.local import LocalFileIO
from support.merged_runs import merged_rows
from support.oracle import Batch, Oracle, requires_java_oracle
from support.values import dumps, in_order, lines

_SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), False), ("a", pa.int32()), ("b", pa.int64()), ("c", pa.string()), ("d", pa.int64()),
        ("s", pa.int32()), ("t", pa.string()), ("u", pa.float64()),
    ]
)  # fmt: skip
_PARTIAL = {"merge-engine": "partial-update"}
_GROUPS = {**_PARTIAL, "fields.s.sequence-group": "a,b", "fields.t,u.sequence-group": "c,d"}
_AGGREGATES = {"fields.b.aggregate-function": "sum", "fields.d.aggregate-function": "last_non_null_value"}
_FIRST = {"fields.b.aggregate-function": "first_value", "fields.d.aggregate-function": "first_non_null_value"}
_IGNORING = {"fields.b.ignore-retract": "true", "fields.d.ignore-retract": "true"}
_AGGREGATION = {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"}
_ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate_ignoring": {"ignore-delete": "true"},
    "sequence": {"sequence.field": "s,t"},
    "sequence_descending": {"sequence.field": "u,s", "sequence.field.sort-order": "descending"},
    "partial_ignoring": {**_PARTIAL, "ignore-delete": "true"},
    "partial_ignoring_sequence": {**_PARTIAL, "ignore-delete": "true", "sequence.field": "s"},
    "partial_removing": {**_PARTIAL, "partial-update.remove-record-on-delete": "true"},
    "groups": _GROUPS,
    "groups_ignoring": {**_GROUPS, "ignore-delete": "true"},
    "groups_removing": {**_GROUPS, "partial-update.remove-record-on-sequence-group": "s"},
    "groups_removing_both": {**_GROUPS, "partial-update.remove-record-on-sequence-group": "s,u"},
    "groups_aggregates": {**_GROUPS, **_AGGREGATES},
    "groups_aggregates_ignoring": {**_GROUPS, **_AGGREGATES, **_IGNORING},
    "groups_first": {**_GROUPS, **_FIRST, **_IGNORING},
    "groups_first_ignoring": {**_GROUPS, **_FIRST, "ignore-delete": "true"},
    "groups_first_removing": {
        **_GROUPS, **_FIRST, **_IGNORING, "partial-update.remove-record-on-sequence-group": "t",
    },
    "aggregation": {**_AGGREGATION, **_AGGREGATES},
    "aggregation_removing": {
        **_AGGREGATION, "fields.b.aggregate-function": "sum", "aggregation.remove-record-on-delete": "true",
    },
    "aggregation_first": {**_AGGREGATION, **_FIRST, **_IGNORING, "sequence.field": "s"},
}  # fmt: skip


def _rows(random: Random) -> list[dict[str, Any]]:
    def row() -> Mapping[str, Any]:
        values = {
            "a": random.randrange(9), "b": random.randrange(9), "c": random.choice("xyz"), "d": random.randrange(9),
            "s": random.randrange(4), "t": random.choice("pq"), "u": random.choice(["0.0", "-0.0", "1.5"]),
        }  # fmt: skip
        return {name: value if random.random() < 0.7 else None for name, value in values.items()}

    kinds = ["+I", "+I", "+U", "+U", "-U", "-D"]
    return [{"_kind": random.choice(kinds), "k": random.randrange(60), **row()} for _ in range(90)]


def _write(batch: Batch, warehouse: Path, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Have Java write and commit rows, each of its kind."""
    path = batch.oracle.scratch_file(".jsonl")
    path.write_text("".join(dumps(row) + "\n" for row in rows), encoding="utf-8")
    batch.add("write", warehouse, f"db.{table}", path, "--row-kind-field", "_kind")


def _merged(warehouse: Path, table: str, snapshot: int) -> list[pa.RecordBatch]:
    """The rows of a snapshot, merged here."""
    store = TableStore(LocalFileIO(), str(warehouse / "db.db" / table))
    schema = store.latest_schema()
    state = TableState(store.snapshot(snapshot), schema)
    plan = plan_scan(store, ScanRequest(state, Const.TRUE, schema.fields, (), TableOptions(schema.options)))
    return list(merged_rows(plan.files, schema))


def _ages(rows: Sequence[pa.RecordBatch]) -> list[Any]:
    columns = ["k", SEQUENCE_NUMBER, VALUE_KIND]
    return sorted(tuple(row.values()) for batch in rows for row in batch.select(columns).to_pylist())


@requires_java_oracle
@pytest.mark.java
def test_rows_of_every_engine_are_those_of_java(oracle: Oracle, tmp_path: Path) -> None:
    """The values that Java reads, and the sequence numbers and row kinds that it keeps in a compaction."""
    random = Random(20)
    with oracle.batch() as batch:
        for name, options in _ENGINES.items():
            options = {"bucket": "1", "write-only": "true", **options}
            batch.create(tmp_path, f"db.{name}", _SCHEMA, primary_keys=["k"], options=options)
            for _ in range(4):
                _write(batch, tmp_path, name, _rows(random))
        read = {name: batch.read(tmp_path, f"db.{name}") for name in _ENGINES}
        for name in _ENGINES:
            batch.compact(tmp_path, f"db.{name}")
    different = {}
    for name, reply in read.items():
        ours = _merged(tmp_path, name, 4)
        found = in_order(line for rows in ours for line in lines(rows.select(_SCHEMA.names)))
        if found != reply.lines:
            different[name] = [pair for pair in zip(found, reply.lines, strict=False) if pair[0] != pair[1]]
        assert _ages(ours) == _ages(_merged(tmp_path, name, 5)), name
    assert not different


@requires_java_oracle
@pytest.mark.java
def test_deletes_that_java_refuses_are_refused(oracle: Oracle, tmp_path: Path) -> None:
    with oracle.batch() as batch:
        for name, engine in (("p", "partial-update"), ("f", "first-row")):
            options = {"bucket": "1", "write-only": "true", "merge-engine": engine}
            batch.create(tmp_path, f"db.{name}", _SCHEMA, primary_keys=["k"], options=options)
            for kind in ("+I", "-D"):
                _write(batch, tmp_path, name, [{"_kind": kind, "k": 1, "a": 2}])
        refused = [batch.add("compact", tmp_path, f"db.{name}", allow_fail=True) for name in "pf"]
    for name, reply in zip("pf", refused, strict=True):
        assert not reply.ok
        with pytest.raises(UnsupportedError, match="deletes"):
            _merged(tmp_path, name, 2)
