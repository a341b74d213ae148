"""Java Paimon on tables with a primary key whose rows were deleted and changed here: it reads the same rows and the
same changelog as of a table to which it wrote the same versions itself, as its commands for Spark do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import sampled
from support.key_engines import ENGINES, SCHEMA, random_rows, write_kinds
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

pytestmark = [requires_java_oracle, pytest.mark.java]

_DELETING = (
    "deduplicate", "sequence", "sequence_descending", "partial_removing", "groups_removing", "groups_removing_both",
    "groups_first_removing", "aggregation_removing",
)  # fmt: skip
_UPDATING = ("deduplicate", "deduplicate_ignoring", "sequence", "sequence_descending", "partial_ignoring",
             "partial_removing", "groups", "groups_removing", "groups_first_ignoring")  # fmt: skip
_IN_ORDER = "s IS NOT NULL AND t IS NOT NULL"
_LAYOUTS: list[dict[str, str]] = [
    {}, {"changelog-producer": "input"}, {"data-file.thin-mode": "true"}, {"file.format": "orc"},
    {"file.format": "avro", "changelog-producer": "input"}, {"deletion-vectors.enabled": "true"},
]  # fmt: skip


def _data(rows: list[dict[str, Any]]) -> pa.Table:
    listed = [{**row, "u": None if row["u"] is None else float(row["u"])} for row in rows]
    return pa.Table.from_pylist(listed, schema=pa.schema([("_kind", pa.string()), *SCHEMA]))


class _Twins:
    """A table that is changed here, and what Java has to write to another one for the same."""

    def __init__(self, table: pp.Table, random: Random) -> None:
        self.table = table
        self.random = random
        self.written: list[list[Mapping[str, Any]]] = []

    def append(self) -> None:
        rows = list({row["k"]: row for row in random_rows(self.random)}.values())
        self.table.append(_data(rows), options={"rowkind-column": "_kind"})
        self.written.append(rows)

    def found(self, where: str) -> list[dict[str, Any]]:
        rows = self.table.scan(where).to_arrow().to_pylist()
        return [{**row, "u": None if row["u"] is None else str(row["u"])} for row in rows]

    def delete(self, where: str) -> None:
        gone = self.found(where)
        assert self.table.delete(where).rows_deleted == len(gone) > 0
        self.written.append([{"_kind": "-D", **row} for row in gone])

    def update(self, values: dict[str, Any], where: str) -> None:
        old = self.found(where)
        assert self.table.update({name: repr(value) for name, value in values.items()}, where).rows_updated == len(old)
        self.written.append([{"_kind": "+U", **row, **values} for row in old])

    def merge(self) -> None:
        """Keys 0 to 4: the even ones go, the others change, those that are not there come."""
        there = {row["k"]: row for row in self.found("k < 5")}
        source = [{"k": k, "a": k, "b": 5, "c": "m", "d": 2, "s": 3, "t": "q", "u": 2.5} for k in range(5)]
        self.table.merge(
            pa.Table.from_pylist(source, schema=SCHEMA),
            ["k"],
            when_matched=["source.a % 2 = 0 AND target.s IS NOT NULL THEN DELETE", "update"],
            when_not_matched="insert",
        )
        made: list[Mapping[str, Any]] = []
        for row in source:
            new = {**row, "u": str(row["u"])}
            old = there.get(row["k"])
            if old is not None and row["k"] % 2 == 0 and old["s"] is not None:
                made.append({"_kind": "-D", **old})
            else:
                made.append({"_kind": "+I" if old is None else "+U", **new})
        self.written.append(made)


def test_java_reads_what_was_changed_here(oracle: Oracle, tmp_path: Path) -> None:
    random = Random(14)
    names = sampled([name for name in ENGINES if name in {*_DELETING, *_UPDATING}], 2)
    twins: dict[str, _Twins] = {}
    for number, name in enumerate(names):
        options = {"bucket": "2", "write-only": "true", **ENGINES[name], **_LAYOUTS[number % len(_LAYOUTS)]}
        pp.Table.create(tmp_path / "db.db" / f"{name}_java", SCHEMA, primary_key=["k"], options=options)
        table = pp.Table.create(tmp_path / "db.db" / name, SCHEMA, primary_key=["k"], options=options)
        twin = twins[name] = _Twins(table, random)
        for _ in range(2):
            twin.append()
            if name in _UPDATING:
                twin.update({"a": 77, "c": "w"}, "k % 3 = 1")
                twin.update({"s": 1, "d": 6}, "k % 7 = 3")
            if name in _DELETING:
                twin.delete(f"(a > 4 OR k = 30 OR d = 2) AND {_IN_ORDER}")
        if name in _UPDATING and name in _DELETING:
            twin.merge()
    read: dict[str, list[Any]] = {}
    with oracle.batch() as batch:
        for name, twin in twins.items():
            for rows in twin.written:
                write_kinds(batch, tmp_path, f"{name}_java", rows)
            both = (f"db.{name}", f"db.{name}_java")
            read[name] = [batch.read(tmp_path, table) for table in both]
            from_start = ["--option", "scan.mode=from-snapshot", "--option", "scan.snapshot-id=1"]
            read[name] += [batch.add("stream", tmp_path, table, *from_start) for table in both]
            for table in both:
                batch.compact(tmp_path, table)
            read[name] += [batch.read(tmp_path, table) for table in both]
    for name, replies in read.items():
        found = [reply.lines for reply in replies]
        assert found[0] == found[1] == lines(twins[name].table.scan(snapshot=len(twins[name].written)).to_arrow()), name
        assert found[2] == found[3], name
        assert found[4] == found[5] == lines(twins[name].table.scan().to_arrow()), name
        assert len(found[4]) > 9, name
