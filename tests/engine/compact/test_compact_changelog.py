"""Changelogs that compactions write: those of Java after the same writes, and what they say is what became of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.engine.compact import publish as module
from paimon_pyds.errors import CommitError
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from support.compaction import data_files, latest, live
from support.effort import LONG, sampled
from support.key_engines import write_kinds
from support.oracle import Batch, Oracle, Reply, requires_java_oracle
from support.values import dumps, json_rows, lines

PRODUCERS = ["full-compaction", "lookup"]
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), False), ("a", pa.int64()), ("b", pa.int32()), ("f", pa.float64()),
        ("l", pa.list_(pa.int32())),
    ]
)  # fmt: skip
_SUMS = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.l.aggregate-function": "collect"}
_PARTIAL = {"merge-engine": "partial-update"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "ignoring": {"ignore-delete": "true", "data-file.thin-mode": "true"},
    "sequence": {"sequence.field": "b"},
    "sums": {**_SUMS, "fields.default-aggregate-function": "last_value"},
    "sums_removing": {**_SUMS, "aggregation.remove-record-on-delete": "true"},
    "partial": {**_PARTIAL, "partial-update.remove-record-on-delete": "true"},
    "partial_sequence": {**_PARTIAL, "sequence.field": "b", "ignore-delete": "true"},
    "groups": {**_PARTIAL, "fields.b.sequence-group": "a,l", "fields.a.aggregate-function": "sum"},
    "first": {"merge-engine": "first-row", "ignore-delete": "true"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors_partial": {**_PARTIAL, "deletion-vectors.enabled": "true", "ignore-delete": "true"},
    "vectors_sums": {**_SUMS, "fields.default-aggregate-function": "last_value", "deletion-vectors.enabled": "true"},
}
_LOOK_UP = {"first", "vectors", "vectors_partial", "vectors_sums"}
"""Engines that have no changelog of full compactions."""
_DEDUPLICATE = {"changelog-producer.row-deduplicate": "true"}
COMPARED: dict[str, dict[str, str]] = {
    "each": {},
    "changed": _DEDUPLICATE,
    "some": {**_DEDUPLICATE, "changelog-producer.row-deduplicate-ignore-fields": "f,a,l,x"},
}
KIND = {"rowkind-column": "_kind"}
NO_COMPACTION = {"bucket": "1", "write-only": "true"}


def _rows(
    random: Random, count: int = 25, keys: int = 30, kinds: Sequence[str] = ("+I", "+I", "+U", "-D", "-U")
) -> pa.Table:
    def values(choices: Sequence[Any]) -> list[Any]:
        return [random.choice(choices) if random.random() < 0.8 else None for _ in range(count)]

    columns = {
        "k": [random.randrange(keys) for _ in range(count)], "a": values(range(3)), "b": values(range(3)),
        "f": values([0.0, -0.0, 1.5, float("nan")]), "l": values([[], [1], [1, 2]]),
        "_kind": [random.choice(kinds) for _ in range(count)],
    }  # fmt: skip
    return pa.table(columns, pa.schema([*SCHEMA, ("_kind", pa.string())]))


def _tables(producer: str) -> dict[str, dict[str, str]]:
    """Options of tables of some engines, new ones at each run, and with each way to compare rows."""
    found = {}
    able = [engine for engine in ENGINES if producer == "lookup" or engine not in _LOOK_UP]
    for number, engine in sampled(enumerate(able), 2):
        ways = [*COMPARED] if engine == "sequence" else [[*COMPARED][number % 3]]
        for way in ways:
            found[f"{engine}_{way}"] = {"changelog-producer": producer, **ENGINES[engine], **COMPARED[way]}
    return found


def _logged(table: pp.Table) -> list[tuple[Snapshot, list[dict[str, Any]]]]:
    """The snapshots that have a changelog, with the entries of its files."""
    reader = ManifestReader(table._store)
    found = [s for s in table.snapshots.list() if s.changelog_manifest_list is not None]
    return [(snapshot, reader.added(reader.changelog(snapshot)).to_pylist()) for snapshot in found]


_ENTRY = (
    "row_count", "min_key", "max_key", "min_sequence_number", "max_sequence_number", "delete_row_count",
    "file_source", "schema_id", "key_stats_min", "key_stats_max", "bucket",
)  # fmt: skip


def _changelogs(table: pp.Table) -> list[Any]:
    """All that the changelogs of a table say: of snapshots, of files, and their rows as they are."""
    return [
        (
            (snapshot.commit_kind, snapshot.changelog_record_count),
            [{name: entry[name] for name in _ENTRY} for entry in entries],
            [dumps(row) for entry in entries for row in _rows_of(table, entry["file_name"])],
        )
        for snapshot, entries in _logged(table)
    ]


def _rows_of(table: pp.Table, file: str) -> list[dict[str, Any]]:
    (path,) = Path(table.path).rglob(file)
    return json_rows(pq.read_table(path, partitioning=None))


def _changes(batch: Batch, path: Path) -> list[Reply]:
    """The changelogs of a table as Java reads them: of each snapshot, and together in the system tables."""
    warehouse, name = path.parents[1], f"{path.parent.stem}.{path.name}"
    logged = [snapshot.id for snapshot, _ in _logged(pp.Table.open(path))]
    return [
        *(batch.read(warehouse, f"{name}$audit_log", options=_between(id_ - 1, id_)) for id_ in logged),
        batch.add("stream", warehouse, name, "--option", "scan.snapshot-id=1", "--rounds", "40"),
        *(batch.read(warehouse, f"{name}${system}", options=_between(1, logged[-1])) for system in _STREAMS),
    ]


_STREAMS = ("audit_log", "binlog")


def _between(first: int, last: int) -> dict[str, str]:
    return {"incremental-between": f"{first},{last}"}


def _assert_as_java(oracle: Oracle, tmp_path: Path, names: Iterable[str]) -> None:
    """The changelogs of tables in two databases; and Java reads its own and ours alike, as we do."""
    with oracle.batch() as batch:
        paths = {name: [tmp_path / f"{db}.db" / name for db in ("ours", "db")] for name in names}
        rows = {n: [batch.read(tmp_path, f"{db}.{n}") for db in ("ours", "db")] for n in names}
        changes = {name: [_changes(batch, path) for path in both] for name, both in paths.items()}
    for name in names:
        ours, java = (pp.Table.open(path) for path in paths[name])
        for mine, theirs in zip(_changelogs(ours), _changelogs(java), strict=True):
            assert mine == theirs, name
        assert rows[name][0].lines == rows[name][1].lines == lines(ours.scan().to_arrow()), name
        of_ours, of_java = ([reply.lines for reply in replies] for replies in changes[name])
        last = latest(ours).id
        found = [
            lines(read(options=_between(1, last)).to_arrow()) for read in (ours.system.audit_log, ours.system.binlog)
        ]
        assert of_ours[-2:] == found, name
        assert of_ours[:-2] == of_java[:-2], name  # and a stream of Java's
        assert any(of_java), name


@requires_java_oracle
@pytest.mark.java
@pytest.mark.parametrize("producer", PRODUCERS)
def test_changelogs_of_full_compactions_are_those_of_java(producer: str, oracle: Oracle, tmp_path: Path) -> None:
    """Rows, kinds, sequence numbers, order, and the metadata of files; a column is added meanwhile."""
    random, tables = Random(1), _tables(producer)
    steps = [[_rows(random) for _ in range(count)] for count in (2, 1, 3)]
    with oracle.batch() as batch:
        for name, options in tables.items():
            for db in ("ours", "db"):
                batch.create(tmp_path, f"{db}.{name}", SCHEMA, primary_keys=["k"], options={**NO_COMPACTION, **options})
            for number, writes in enumerate(steps):
                for rows in writes:
                    write_kinds(batch, tmp_path, name, json_rows(_with_added(rows, number)))
                batch.add("compact", tmp_path, f"db.{name}", "--option", "write-only=false")
                if number == 0:
                    batch.alter(tmp_path, f"db.{name}", {"op": "add", "name": "g", "type": "INT"})
    for name in tables:
        table = pp.Table.open(tmp_path / "ours.db" / name)
        for number, writes in enumerate(steps):
            for rows in writes:
                table.append(_with_added(rows, number), options=KIND)
            assert table.compact(full=True).snapshot_id == latest(table).id
            if number == 0:
                table.alter(add_columns={"g": "INT"})
    _assert_as_java(oracle, tmp_path, tables)


@requires_java_oracle
@pytest.mark.java
def test_changelogs_of_look_ups_are_those_of_java(oracle: Oracle, tmp_path: Path) -> None:
    """Where each write is followed by a compaction of some runs, the others having older rows of its keys."""
    random, tables, levels = Random(2), _tables("lookup"), set()
    base = _rows(random, 2000, 2000, ["+I"]).set_column(0, SCHEMA.field(0), pa.array(range(2000), pa.int32()))
    writes = [base, *(_rows(random, count, 60) for count in (25, 9, 4, 25, 4))]
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    with oracle.batch() as batch:
        for name, own in tables.items():
            for db, write_only in (("ours", "true"), ("db", "false")):
                given = {**options, **own, "write-only": write_only}
                batch.create(tmp_path, f"{db}.{name}", SCHEMA, primary_keys=["k"], options=given)
            for rows in writes:
                write_kinds(batch, tmp_path, name, json_rows(rows))
    for name in tables:
        table = pp.Table.open(tmp_path / "ours.db" / name)
        for rows in writes:
            table.append(rows, options=KIND)
            table.compact()
            levels.add(tuple(sorted(live(table)["level"].to_pylist())))
    assert any(len(found) > 1 for found in levels) and not any(0 in found for found in levels)
    _assert_as_java(oracle, tmp_path, tables)


def _with_added(rows: pa.Table, number: int) -> pa.Table:
    return rows if number == 0 else rows.append_column("g", pa.array(range(rows.num_rows), pa.int32()))


# ---------------------------------------------------------------------------------------------------------- a model


_STEPS = st.lists(st.sampled_from(["write", "write", "few", "minor", "full"]), min_size=4, max_size=9)


@pytest.mark.parametrize("engine", sampled(ENGINES, 2))
@settings(max_examples=100 if LONG else 2, deadline=None)
@given(
    steps=_STEPS,
    seed=st.integers(0, 999),
    producer=st.sampled_from(PRODUCERS),
    compared=st.sampled_from(["each", "changed"]),
    size=st.sampled_from(["1 kb", "1 mb"]),
)
def test_the_changelog_replayed_over_the_old_state_gives_the_new_one(
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    steps: list[str],
    seed: int,
    producer: str,
    compared: str,
    size: str,
) -> None:
    random, state, replayed = Random(seed), dict[int, str](), 0
    producer = "lookup" if engine in _LOOK_UP else producer
    options = {"num-sorted-run.compaction-trigger": "2", "target-file-size": size, "changelog-producer": producer}
    options |= {**NO_COMPACTION, "bucket": "2", **ENGINES[engine], **COMPARED[compared]}
    table = pp.Table.create(tmp_path_factory.mktemp("t") / "t", SCHEMA, primary_key=["k"], options=options)
    for step in [*steps, "full"]:
        if step in ("write", "few"):
            rows = _rows(random, *((25, 40) if step == "write" else (2, 5)))
            if (
                engine == "groups"
            ):  # without the number, Java logs a row of level 0 without its group, and keeps it whole
                rows = rows.set_column(2, "b", pc.fill_null(rows["b"], 1))
            table.append(rows, options=KIND)
        else:
            table.compact(full=step == "full")
        for snapshot, _ in _logged(table):
            if snapshot.id > replayed:
                assert snapshot.commit_kind is CommitKind.COMPACT
                _replay(table, snapshot.id, state)
                replayed = snapshot.id
        levels = set(live(table)["level"].to_pylist())
        if levels <= {2} or (producer == "lookup" and 0 not in levels):
            assert state == {row["k"]: _text(row) for row in json_rows(table.scan().to_arrow())}
    assert replayed or not state


def _replay(table: pp.Table, snapshot: int, state: dict[int, str]) -> None:
    """Apply the changelog of a snapshot: what it takes away was there, what it adds was not."""
    between = {"incremental-between": f"{snapshot - 1},{snapshot}", "incremental-between-scan-mode": "changelog"}
    kinds: dict[int, str] = {}
    for row in json_rows(table.system.audit_log(options=between).to_arrow()):
        kind, key = row.pop("rowkind"), row["k"]
        kinds[key] = kinds.get(key, "") + kind
        if kind in ("-U", "-D"):
            assert state.pop(key) == _text(row)
        else:
            assert key not in state
            state[key] = _text(row)
    allowed = {"+I", "-U+U", "-D", *(["+U"] if table.options.get("merge-engine") == "first-row" else [])}
    assert allowed.issuperset(kinds.values())


def _text(row: Mapping[str, Any]) -> str:
    """Zeros are equal where rows are compared."""
    return dumps(row).replace('"-0.0"', '"0.0"')


def test_a_compaction_that_is_not_published_leaves_no_changelog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pp.Table.create(
        tmp_path / "t", SCHEMA, primary_key=["k"], options={**NO_COMPACTION, "changelog-producer": "lookup"}
    )
    for _ in range(2):
        table.append(_rows(Random(3)), options=KIND)
    files = data_files(table)

    def fail(*_: object) -> None:
        raise CommitError("no")

    with monkeypatch.context() as patch:
        patch.setattr(module, "commit", fail)
        with pytest.raises(CommitError):
            table.compact(full=True)
    assert data_files(table) == files
    assert table.compact(full=True).groups == 1
    ((snapshot, (entry,)),) = _logged(table)
    assert snapshot.changelog_record_count == entry["row_count"] == table.scan().count() > 0


def test_files_that_stay_are_logged_too(tmp_path: Path) -> None:
    """One of each: rewritten, upgraded from level 0, and left where it is."""
    options = {"target-file-size": "100 b", "changelog-producer": "full-compaction", **NO_COMPACTION}
    table = pp.Table.create(tmp_path / "t", SCHEMA, primary_key=["k"], options=options)

    def write(*keys: int) -> None:
        rows = _rows(Random(5), len(keys), kinds=["+I"])
        table.append(rows.set_column(0, SCHEMA.field(0), pa.array(keys, pa.int32())), options=KIND)

    write(1, 2)
    assert table.compact(full=True).rows == 0
    for keys in ((10, 11), (5, 6), (6, 7)):
        write(*keys)
    assert table.compact(full=True).rows == 3
    logged = [
        [row["k"] for entry in entries for row in _rows_of(table, entry["file_name"])] for _, entries in _logged(table)
    ]
    assert [sorted(keys) for keys in logged] == [[1, 2], [5, 6, 7, 10, 11]]
    assert live(table)["level"].to_pylist() == [5] * 3
    assert table.compact(full=True).snapshot_id is None


@pytest.mark.parametrize(
    ("options", "suffix"),
    [({}, ".orc"), ({"changelog-file.format": "avro", "changelog-file.prefix": "c-"}, ".avro")],
)
def test_files_are_as_those_of_their_level_or_as_changelogs_have_it(
    tmp_path: Path, options: dict[str, str], suffix: str
) -> None:
    options = {"changelog-producer": "lookup", "file.format.per.level": "5:orc", **NO_COMPACTION, **options}
    schema = pa.schema([SCHEMA.field("k"), pa.field("p", pa.string(), False), SCHEMA.field("a")])
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["k", "p"], partition_by=["p"], options=options)
    for number in range(2):
        table.append(pa.table([[1, 1, 2], ["x", "y", "x"], [number] * 3], schema=schema))
        assert table.compact(full=True).groups == 2
    prefix = options.get("changelog-file.prefix", "changelog-")
    names = [entry["file_name"] for _, entries in _logged(table) for entry in entries]
    assert len(names) == 4
    assert all(name.startswith(prefix) and name.endswith(suffix) for name in names)
    rows = json_rows(table.system.audit_log(options=_between(0, 4)).to_arrow())
    assert sorted((row["k"], row["p"], row["rowkind"], row["a"]) for row in rows) == sorted(
        (key, part, kind, value)
        for key, part in ((1, "x"), (1, "y"), (2, "x"))
        for kind, value in (("+I", 0), ("-U", 0), ("+U", 1))
    )
