"""DELETE, UPDATE and MERGE on tables with a primary key: what is there afterwards is what a model of versions holds."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis.strategies import just

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from support.effort import LONG, SEED
from support.engine_model import DELETE, INSERT, KIND, SEQ, UPDATE_AFTER, Row, merged
from support.executors import Pickling
from support.key_engines import MODELED, Engine
from support.progress import Seen
from support.races import race
from support.table_world import SEEDS

_SCHEMA = pa.schema(
    [("p", pa.int32()), ("k", pa.string()), ("a", pa.int64()), ("b", pa.string()), ("s", pa.int32()), ("l", pa.int64())]
)
_KEY = ["p", "k"]
_VALUES = ("a", "b", "s", "l")
_PARTIAL = {"merge-engine": "partial-update"}
_LOOSE = {"bucket": "2", "missing-columns": "null"}


_ENGINES = ("deduplicate", "sequence", "descending", "partial_removing", "groups_removing", "aggregation_removing")


def _above(name: str, limit: int) -> Callable[[Row], bool]:
    return lambda row: row[name] is not None and row[name] > limit


_CONDITIONS: list[tuple[str, Callable[[Row], bool]]] = [
    ("a > 0", _above("a", 0)),
    ("b = 'x'", lambda row: row["b"] == "x"),
    ("s IS NULL", lambda row: row["s"] is None),
    ("s > 1", _above("s", 1)),
    ("k IN ('a', 'z')", lambda row: row["k"] in ("a", "z")),
    ("k = 'a' AND a < 3", lambda row: row["k"] == "a" and row["a"] is not None and row["a"] < 3),
    ("abs(a) = 2 OR b IS NULL", lambda row: row["a"] in (2, -2) or row["b"] is None),
    ("p = 1 AND l > 0", lambda row: row["p"] == 1 and _above("l", 0)(row)),
]
_WHOLE: list[tuple[str, Callable[[Row], bool]]] = [("TRUE", lambda row: True), ("p = 1", lambda row: row["p"] == 1)]
_SETS: list[tuple[dict[str, Any], Callable[[Row], Row]]] = [
    ({"a": "a + 1"}, lambda row: {"a": None if row["a"] is None else row["a"] + 1}),
    ({"b": "k", "l": "7"}, lambda row: {"b": row["k"], "l": 7}),
    ({"b": None, "k": "k"}, lambda row: {"b": None}),
    ({"s": "coalesce(s, 0) + 1"}, lambda row: {"s": (row["s"] or 0) + 1}),
    ({"s": "0", "a": "9"}, lambda row: {"s": 0, "a": 9}),
]


@dataclass
class _World:
    """A table, and its versions as lists of rows: those of one commit are merged once, all of them when it is read."""

    random: Random
    engine: Engine
    table: pp.Table
    log: list[str]
    files: list[list[Row]] = field(default_factory=list)
    count: int = 0

    def merged(self) -> list[Row]:
        together = [row for file in self.files for row in file]
        found = merged(together, _KEY, self.engine.order, self.engine.fold(_VALUES))
        return [row for row in found if row[KIND] != DELETE]

    def rows(self) -> list[Row]:
        return [{name: row[name] for name in _SCHEMA.names} for row in self.merged()]

    def write(self, rows: Sequence[Row]) -> None:
        numbered = [{**row, SEQ: self.count + n} for n, row in enumerate(rows)]
        self.count += len(rows)
        self.files.append(merged(numbered, _KEY, self.engine.order, self.engine.fold(_VALUES)))

    def row(self) -> Row:
        pick = self.random.choice
        return {
            "p": pick([0, 1]), "k": pick(["", "a", "b", "ä", "longer than sixteen bytes", "z"]),
            "a": pick([None, -2, 0, 1, 2, 5]), "b": pick([None, "x", "y"]), "s": pick([None, 0, 1, 2, 3]),
            "l": pick([None, -1, 4]),
        }  # fmt: skip

    def how(self) -> dict[str, Any]:
        return {"executor": Pickling()} if self.random.random() < 0.3 else {}

    def append(self) -> None:
        rows = [self.row() for _ in range(self.random.randrange(1, 14))]
        self.log.append(f"append {rows}")
        self.table.append(pa.Table.from_pylist(rows, schema=_SCHEMA))
        self.write([{**row, KIND: INSERT} for row in rows])

    def compact(self) -> None:
        self.log.append("compact")
        self.table.compact(full=True)
        self.files = [self.merged()]  # no delete stays, that would be newer by its sequence fields than what comes

    def drop(self) -> None:
        where, meant = self.random.choice(_WHOLE)
        self.log.append(f"drop {where}")
        assert self.table.delete(where).rows_deleted == sum(map(meant, self.rows()))
        self.files = [[row for row in file if not meant(row)] for file in self.files]

    def delete(self) -> None:
        where, meant = self.random.choice(_CONDITIONS)
        gone = [row for row in self.rows() if meant(row)]
        self.log.append(f"delete {where}: {gone}")
        if "sequence-group" in str(self.engine.options) and any(row["s"] is None for row in gone):
            with pytest.raises(UnsupportedError, match="NULL in s"):
                self.table.delete(where)
            return
        summary = self.table.delete(where, **self.how())
        assert (summary.rows_deleted, summary.snapshot_id is None) == (len(gone), not gone)
        self.write([{**row, KIND: DELETE} for row in gone])
        assert not any(map(meant, self.rows()))

    def update(self) -> None:
        where, meant = self.random.choice([*_CONDITIONS, *_WHOLE])
        values, change = self.random.choice(_SETS)
        hit = [row for row in self.rows() if meant(row)]
        self.log.append(f"update {values} {where}: {hit}")
        if not self.engine.updates:
            with pytest.raises(UnsupportedError, match="merge engine aggregation does not replace rows"):
                self.table.update(values, where)
            return
        summary = self.table.update(values, where, **self.how())
        assert (summary.rows_updated, summary.snapshot_id is None) == (len(hit), not hit)
        self.write([{**row, **change(row), KIND: UPDATE_AFTER} for row in hit])

    def merge(self) -> None:
        source = list({(row["p"], row["k"]): row for row in (self.row() for _ in range(8))}.values())
        source = [{**row, "s": row["s"] or 0} for row in source]
        self.log.append(f"merge {source}")
        there = {(row["p"], row["k"]): row for row in self.rows()}
        written: list[Row] = []
        counts = {"rows_deleted": 0, "rows_updated": 0, "rows_inserted": 0}
        for new in source:
            old = there.pop((new["p"], new["k"]), None)
            if old is None:
                counts["rows_inserted"] += 1
                written.append({**new, KIND: INSERT})
            elif new["b"] == "x" and old["s"] is not None:
                counts["rows_deleted"] += 1
                written.append({**old, KIND: DELETE})
            elif self.engine.updates and new["a"] is not None:
                counts["rows_updated"] += 1
                written.append({**new, KIND: UPDATE_AFTER})
        for old in there.values():
            if self.engine.updates and old["a"] == 5:
                counts["rows_updated"] += 1
                written.append({**old, "l": -9, KIND: UPDATE_AFTER})
        deleting = "source.b = 'x' AND target.s IS NOT NULL THEN DELETE"
        clauses = [deleting, "source.a IS NOT NULL THEN UPDATE"] if self.engine.updates else [deleting]
        summary = self.table.merge(
            pa.Table.from_pylist(source, schema=_SCHEMA),
            self.random.choice([_KEY, "t.k = s.k AND s.p = t.p"]),
            when_matched=clauses,
            when_not_matched="insert",
            when_not_matched_by_source="a = 5 THEN UPDATE SET l = -9" if self.engine.updates else None,
            **self.how(),
        )
        assert counts == {name: getattr(summary, name) for name in counts}
        self.write(written)

    def check(self) -> None:
        found = self.table.scan().to_arrow().sort_by([(name, "ascending") for name in _KEY]).to_pylist()
        assert found == sorted(self.rows(), key=lambda row: (row["p"], row["k"].encode()))
        assert self.table.count() == len(found)


_LAYOUTS: list[dict[str, str]] = [
    {}, {"file.format": "orc"}, {"data-file.thin-mode": "true"}, {"file-index.bitmap.columns": "a,b"},
    {"changelog-producer": "input", "write-buffer-size": "1 b"},
]  # fmt: skip


@pytest.mark.parametrize("name", _ENGINES)
@settings(max_examples=500 if LONG else 1, phases=[Phase.generate])
@given(SEEDS if LONG else just(SEED))
def test_rows_are_those_of_the_model(name: str, seed: int) -> None:
    random, engine, log = Random(seed), MODELED[name], list[str]()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        options = {"bucket": "2", "write-only": "true", **engine.options, **random.choice(_LAYOUTS)}
        table = pp.Table.create(directory + "/t", _SCHEMA, primary_key=_KEY, partition_by=["p"], options=options)
        world = _World(random, engine, table, log)
        world.append()
        try:
            for _ in range(random.randrange(4, 9)):
                steps = [world.append, world.delete, world.update, world.merge]
                random.choices([*steps, world.compact, world.drop], [3, 3, 3, 3, 1, 1])[0]()
                world.check()
        except BaseException:
            note(f"{options}\n" + "\n".join(log))
            raise


def test_keys_of_char_are_equal_whatever_blanks_they_have(tmp_path: Path) -> None:
    """And stay as files have them."""
    fields = [DataField(0, "k", parse_type("CHAR(3) NOT NULL")), DataField(1, "v", parse_type("INT"))]
    table = pp.Table.create(tmp_path / "t", fields, primary_key=["k"], options={"bucket": "1"})
    table.append(pa.table({"k": ["a", "b"], "v": pa.array([1, 2], pa.int32())}))
    source = pa.table({"k": ["a ", "c"], "v": pa.array([3, 4], pa.int32())})
    summary = table.merge(source, "t.k = s.k", when_matched="UPDATE", when_not_matched="INSERT")
    assert (summary.rows_updated, summary.rows_inserted) == (1, 1)
    found = table.scan().to_arrow().to_pydict()
    assert dict(zip(found["k"], found["v"], strict=True)) == {"a": 3, "b": 2, "c": 4}


# --------------------------------------------------------------------------------------------------------- refusals


def _table(path: Path, **options: str) -> pp.Table:
    table = pp.Table.create(path, _SCHEMA, primary_key=_KEY, partition_by=["p"], options=_LOOSE | options)
    table.append(pa.table({"p": [0, 1], "k": ["a", "b"], "a": [1, 2], "s": [0, 1], "b": ["+I", "+I"]}))
    return table


_GROUP = {**_PARTIAL, "fields.s.sequence-group": "a,l"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ignore-delete": "true"}, "ignore-delete"),
        ({"rowkind.field": "b"}, "rowkind.field"),
        (_PARTIAL, "partial-update.remove-record-on-delete"),
        ({"merge-engine": "aggregation"}, "aggregation.remove-record-on-delete"),
    ],
)
def test_deletes_that_would_not_delete(tmp_path: Path, options: dict[str, str], message: str) -> None:
    table = _table(tmp_path / "t", **options)
    with pytest.raises(UnsupportedError, match=message):
        table.delete("a = 1")
    with pytest.raises(UnsupportedError, match=message):
        table.merge(pa.table({"p": [0], "k": ["a"]}), _KEY, when_matched="delete")
    assert table.count() == 2
    assert table.delete("p = 1").rows_deleted == 1  # by metadata: no engine has to delete rows
    assert table.scan().to_arrow()["k"].to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rowkind.field": "b"}, "rowkind.field"),
        ({"merge-engine": "aggregation"}, "aggregation does not replace rows"),
        ({"merge-engine": "first-row"}, "first-row does not replace rows: the first row of a key stays"),
        ({**_GROUP, "fields.l.aggregate-function": "sum"}, r"l is aggregated \(sum\)"),
    ],
)
def test_updates_that_would_be_something_else(tmp_path: Path, options: dict[str, str], message: str) -> None:
    table = _table(tmp_path / "t", **options)
    before = table.snapshots.list()
    with pytest.raises(UnsupportedError, match=message):
        table.update({"a": 1})
    with pytest.raises(UnsupportedError, match=message):
        table.merge(pa.table({"p": [0], "k": ["a"]}), _KEY, when_matched="update set a = 1")
    assert table.snapshots.list() == before


def test_keys_stay(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    source = pa.table({"p": [0, 1], "k": ["a", "b"], "j": ["a", "c"]})
    for clauses in (
        {"when_matched": "update set k = 'z'", "on": ["p"]},
        {"when_matched": "update set k = source.j", "on": _KEY},
        {"when_not_matched_by_source": "update set p = 5", "on": _KEY},
    ):
        with pytest.raises(UnsupportedError, match="of the primary key can't be updated"):
            table.merge(source.slice(1) if "set p" in str(clauses) else source, **clauses)
    with pytest.raises(UnsupportedError, match="column p of the primary key can't be updated"):
        table.update({"p": "p + 1"}, "k = 'nobody'")
    assert table.merge(source.slice(0, 1), _KEY, when_matched="update set k = source.j, a = 7").rows_updated == 1
    assert table.update({"k": "k", "b": "'w'"}).rows_updated == 2
    assert table.scan("a = 7 AND b = 'w'").to_arrow()["k"].to_pylist() == ["a"]


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_a_condition_that_is_never_true(tmp_path: Path, partition_by: list[str]) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, primary_key=_KEY, partition_by=partition_by, options=_LOOSE)
    table.append(pa.table({"p": [0, 1], "k": ["a", "b"]}))
    for where in ("NULL", "1 = 2", "p = NULL", "k = 'a' AND FALSE", "p = 3", "p IN (7, 8) AND k = 'a'"):
        assert table.delete(where).snapshot_id is None, where
        assert table.update({"a": "1"}, where).snapshot_id is None, where
    assert table.merge(pa.table({"k": pa.array([None], pa.string())}), "t.k = s.k", when_matched="delete") is not None
    assert (table.count(), len(table.snapshots.list())) == (2, 1)


def test_values_that_do_not_fit(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int32(), False), pa.field("v", pa.int32(), False)])
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["k"], options={"bucket": "1"})
    table.append(pa.table({"k": [1, 2], "v": [1, 2]}))
    with pytest.raises(SchemaError, match="column 'v' is NOT NULL"):
        table.update({"v": "NULL"}, "k = 2")
    with pytest.raises(OptionError, match=r"deletion-vectors.enabled can't be switched on"):
        table.delete("k = 1", options={"deletion-vectors.enabled": "true"})
    assert len(table.snapshots.list()) == 1
    assert len(list((tmp_path / "t" / "bucket-0").iterdir())) == 1


def _hiding(path: Path, wide: str = "false", **options: str) -> pp.Table:
    """Reads see keys a, b with 1, 2; a compaction will show a with 50, and a key z with 60."""
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": wide, **options}
    table = _table(path, **options)
    table.compact(full=True)
    table.append(pa.table({"p": [0, 0], "k": ["a", "z"], "a": [50, 60]}), options={"write-only": "true"})
    assert _values(table) == {"a": 1, "b": 2}
    return table


def _values(table: pp.Table) -> dict[str, int]:
    rows = table.to_arrow()
    return dict(zip(rows["k"].to_pylist(), rows["a"].to_pylist(), strict=True))


@pytest.mark.parametrize("wide", ["false", "true"])
def test_rows_that_reads_hide_do_not_change(tmp_path: Path, wide: str) -> None:
    """With write-only, as in Java: what an operation makes of the rows that reads see is newer than those they hide."""
    table = _hiding(tmp_path / "t", wide, **{"write-only": "true"})
    assert table.update({"a": "a + 1"}, "p = 0 AND a >= 50").rows_updated == 0
    assert table.update({"a": "a + 1"}, "a = 1").rows_updated == 1
    assert table.delete("k = 'z'").rows_deleted == 0
    assert table.delete("k = 'b'").rows_deleted == 1
    source = pa.table({"p": [0, 0], "k": ["z", "a"], "a": [7, 8]})
    insert = "INSERT (p, k, a) VALUES (source.p, source.k, source.a)"
    summary = table.merge(source, ["p", "k"], when_matched="target.a > 5 THEN DELETE", when_not_matched=insert)
    assert (summary.rows_deleted, summary.rows_inserted) == (0, 1)
    assert _values(table) == {"a": 1, "b": 2}
    table.compact(full=True)
    assert _values(table) == {"a": 2, "z": 7}
    assert table.delete("TRUE").rows_deleted == 2
    table.compact(full=True)
    assert _values(table) == {}


def test_rows_that_the_next_compaction_shows_change(tmp_path: Path) -> None:
    table = _hiding(tmp_path / "t")
    assert table.update({"a": "a + 1"}, "p = 0 AND a >= 50").rows_updated == 2
    assert _values(table) == {"a": 51, "b": 2, "z": 61}


def test_reads_with_an_option_see_what_operations_see(tmp_path: Path) -> None:
    table, whole = _hiding(tmp_path / "t", **{"write-only": "true"}), {"deletion-vectors.merge-on-read": "true"}
    assert table.update({"a": "a + 1"}, "a >= 50", options=whole).rows_updated == 2
    assert sorted(table.scan(options=whole).to_arrow()["a"].to_pylist()) == [2, 51, 61]


_MEANWHILE: dict[str, tuple[Callable[[pp.Table], Any], int]] = {
    "a compaction that shows the row": (lambda t: t.compact(full=True), 2),
    "rows that stay hidden": (lambda t: t.append(pa.table({"p": [0], "k": ["a"], "a": [70]})), 1),
    "an overwrite": (lambda t: t.overwrite(pa.table({"p": [0], "k": ["a"], "a": [9]}), {"p": 0}), 2),
}


@pytest.mark.parametrize("what", _MEANWHILE)
def test_what_changes_the_rows_that_reads_see_makes_an_update_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    table = _hiding(tmp_path / "t", **{"write-only": "true"})
    intruder, (other, attempts) = pp.Table.open(table.path), _MEANWHILE[what]
    came = race(monkeypatch, lambda: other(intruder))
    summary = table.update({"a": "a + 1000"}, "k = 'a'")
    assert came
    assert summary.attempts == attempts
    table.compact(full=True)
    assert _values(table).get("a") == {"an overwrite": 9}.get(what, 1050 if attempts == 2 else 1001)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_values_of_all_kinds_stay(tmp_path: Path, file_format: str) -> None:
    row = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float64()))])
    schema = pa.schema(
        [("id", pa.int64()), ("n", pa.int32()), ("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int64())),
         ("r", row), ("d", pa.decimal128(20, 3)), ("t", pa.timestamp("us")), ("z", pa.timestamp("ms", "UTC")),
         ("b", pa.binary())]
    )  # fmt: skip
    values = {
        "l": [["a", None], None], "m": [[("k", 1), ("q", None)], None], "r": [{"x": 1, "y": [1.5, None]}, None],
        "d": [Decimal("-1.125"), None], "t": [datetime(1960, 1, 1), None],
        "z": [datetime(2020, 1, 1, tzinfo=UTC), None], "b": [b"\x00\xff", None],
    }  # fmt: skip
    rows = [{"id": i, "n": i, **{name: of[i % 2] for name, of in values.items()}} for i in range(12)]
    options = {"bucket": "1", "file.format": file_format, "write-only": "true"}
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["id"], options=options)
    data = pa.Table.from_pylist(rows, schema=schema)
    table.append(data)
    table.append(data.slice(3, 3))
    assert table.update({"n": "n + 100"}, "id >= 6").rows_updated == 6
    assert table.delete("id % 4 = 1").rows_deleted == 3
    table.merge(pa.table({"id": [0, 2], "n": [-1, -2]}), ["id"], when_matched="update set n = source.n")
    kept = [{**r, "n": n} for r, n in zip(data.to_pylist(), [-1, 1, -2, 3, 4, 5, *range(106, 112)], strict=True)]
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [r for r in kept if r["id"] % 4 != 1]
    assert _changes(table, "3,4", "id") == [{"rowkind": "-D", **r} for r in kept if r["id"] % 4 == 1]


# ---------------------------------------------------------------------------------------------------------- figures


def test_what_a_delete_reads_and_writes(tmp_path: Path) -> None:
    """Keys rule out buckets; the new version of a row has all its values."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["k"], options={"bucket": "4"})
    table.append(pa.table({"k": range(1000), "v": [f"v{i}" for i in range(1000)]}))
    seen = Seen()
    summary = table.delete("k = 77", progress=seen)
    assert 0 < seen.done("rewriting") < 400
    assert (summary.rows_deleted, summary.files_added, summary.files_removed) == (1, 1, 0)
    assert _changes(table, "1,2") == [{"rowkind": "-D", "k": 77, "v": "v77"}]
    assert table.delete("k = 77").snapshot_id is None
    summary = table.delete("TRUE")
    assert (summary.rows_deleted, summary.files_removed, summary.files_added) == (999, 5, 0)
    assert table.delete("TRUE").snapshot_id is None
    assert table.count() == 0


def _changes(table: pp.Table, between: str, key: str = "k") -> list[dict[str, Any]]:
    found = table.system.audit_log(options={"incremental-between": between}).to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row[key], row["rowkind"]))


def test_a_changelog_has_the_changes(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"changelog-producer": "input"})
    table.update({"a": "a + 10"}, "k = 'a'")
    table.delete("k = 'b' AND a > 0")
    table.merge(
        pa.table({"p": [0, 1], "k": ["a", "c"], "a": [5, 6]}),
        _KEY,
        when_matched="update set a = source.a",
        when_not_matched="insert (p, k, a) values (p, k, a)",
    )
    table.delete("p = 1")  # a partition goes without
    none = dict.fromkeys(("b", "s", "l"))
    old = {"b": "+I", "l": None}
    assert _changes(table, "1,5") == [
        {"rowkind": "+U", "p": 0, "k": "a", "a": 11, "s": 0, **old},
        {"rowkind": "+U", "p": 0, "k": "a", "a": 5, "s": 0, **old},
        {"rowkind": "-D", "p": 1, "k": "b", "a": 2, "s": 1, **old},
        {"rowkind": "+I", "p": 1, "k": "c", "a": 6, **none},
    ]
    assert table.scan().to_arrow()["k"].to_pylist() == ["a"]


def test_partitions_go_row_by_row_where_a_changelog_is_wanted(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"changelog-producer": "input", "delete.force-produce-changelog": "true"})
    summary = table.delete("p = 1")
    assert (summary.rows_deleted, summary.files_removed, summary.files_added) == (1, 0, 1)
    assert [row["rowkind"] for row in _changes(table, "1,2")] == ["-D"]


@pytest.mark.parametrize("options", [{"bucket": "1"}, {"bucket": "4"}, {"bucket": "-1"}], ids=str)
def test_rows_whose_key_is_nan(options: dict[str, str], tmp_path: Path) -> None:
    """NaN is the same key in a row and its new version, although it does not equal itself."""
    schema = pa.schema([pa.field("x", pa.float64(), nullable=False), ("v", pa.string())])
    table = pp.Table.create(tmp_path / "t", schema, "x", options=options)
    table.append(pa.table([[math.nan, -0.0, 1.5], ["a", "b", "c"]], schema=schema))
    table.update({"v": "'u'"}, "isnan(x) OR x = 0")
    table.merge(pa.table([[math.nan, 2.5], ["m", "n"]], schema=schema), "x", when_matched="update")
    found = {str(row["x"]): row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {"nan": "m", "-0.0": "u", "1.5": "c"} and table.count() == 3
    table.delete("isnan(x)")
    assert table.count() == 2
