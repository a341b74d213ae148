"""Rewriting file indexes: what is asked for is built, what is right is kept, and nothing else of the table changes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit import Changes
from paimon_pyds.engine.execution.live_files import index_source, live_of
from paimon_pyds.errors import (
    CommitConflictError,
    CommitError,
    CommitOutcomeUnknownError,
    OptionError,
    PredicateError,
    SnapshotNotFoundError,
    StorageError,
)
from paimon_pyds.index.container import parse_head
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.index_tools import rewrite as module
from paimon_pyds.ops.index_tools.rewrite import next_index_name
from support.fixtures import requires_shared, table_path
from support.live_files import live_files
from support.oracle import Oracle, requires_java_oracle
from support.progress import Seen, once
from support.values import lines

SCHEMA = pa.schema([("id", pa.int64()), ("color", pa.string()), ("size", pa.float64()), ("day", pa.int32())])
SIDE = {"file-index.in-manifest-threshold": "1b"}
BITMAP = {"file-index.bitmap.columns": "color"}
BLOOM = {"file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.items": "1000"}

Bodies = dict[tuple[str, str], bytes | None]


def _rows(first: int = 0, count: int = 300) -> pa.Table:
    ids = range(first, first + count)
    colors = [None if i % 7 == 0 else ("red", "green", "blue")[i % 3] for i in ids]
    return pa.table({"id": ids, "color": colors, "size": [i / 4 for i in ids], "day": [i % 2 for i in ids]}, SCHEMA)


def _table(path: Path, options: Mapping[str, str] | None = None, **create: Any) -> pp.Table:
    table = pp.Table.create(path, SCHEMA, options=options, **create)
    table.append(_rows(0))
    table.append(_rows(300))
    return table


def _files(table: pp.Table) -> list[PlannedFile]:
    """The live files, by name: a rewritten one moves to the end of the manifests."""
    return sorted(live_files(table)[1], key=lambda f: f.name)


def _bodies(table: pp.Table, file: PlannedFile) -> Bodies:
    source = index_source(table._store.io, file)
    if source is None:
        return {}
    return {
        (column, kind): None if r.is_empty else source.read(r.start, r.length)
        for column, kinds in parse_head(source).columns.items()
        for kind, r in kinds.items()
    }


def _without_index(entries: pa.RecordBatch) -> list[dict[str, Any]]:
    """The entries, all but what says of their index, by file name."""
    columns = [n for n in ENTRY_SCHEMA.names if n not in ("extra_files", "embedded_index")]
    return sorted(entries.select(columns).to_pylist(), key=lambda row: str(row["file_name"]))


def _same_but_for_indexes(table: pp.Table, snapshot: int) -> None:
    then = live_of(table._store, table._store.snapshot(snapshot))
    assert _without_index(live_of(table._store, table.snapshots.latest())) == _without_index(then)


# -------------------------------------------------------------------------------------------------------- one call


def test_an_index_added_to_an_old_table_becomes_effective(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    before = table.scan().to_arrow()
    assert table.index.build().snapshot_id is None
    table.alter({**BITMAP, **BLOOM, **SIDE})
    assert table.explain("color = 'red' AND id = 5").steps[-1].rows == 300
    seen = Seen()
    summary = table.index.build(progress=seen)
    assert (summary.snapshot_id, summary.files, summary.rewritten, summary.built, summary.dropped) == (3, 2, 2, 4, 0)
    assert seen.done("indexing") == 600
    assert summary.rows == 600
    assert table.explain("color = 'red' AND id = 5").steps[-1].rows < 100
    assert lines(table.scan().to_arrow()) == lines(before)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.delta_record_count, snapshot.total_record_count) == (
        CommitKind.COMPACT,
        0,
        600,
    )
    _same_but_for_indexes(table, 2)
    again = table.index.build()
    assert (again.snapshot_id, again.files, again.rewritten) == (None, 2, 0)
    assert len(table.snapshots.list()) == 3


def test_what_is_right_stays_byte_for_byte_and_what_is_not_asked_for_goes(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {**BITMAP, **BLOOM, **SIDE})
    old = [_bodies(table, file) for file in _files(table)]
    names = [Path(file.index_path or "").name for file in _files(table)]
    table.alter({"file-index.range-bitmap.columns": "size"}, ["file-index.bloom-filter.columns", *list(BLOOM)[1:]])
    summary = table.index.build()
    assert (summary.built, summary.dropped, summary.kept) == (2, 2, 2)
    for file, before, name in zip(_files(table), old, names, strict=True):
        after = _bodies(table, file)
        assert set(after) == {("color", "bitmap"), ("size", "range-bitmap")}
        assert after["color", "bitmap"] == before["color", "bitmap"]
        assert Path(file.index_path or "").name == name.removesuffix(".index") + "-1.index"
        assert (Path(file.path).parent / name).exists(), "older snapshots need it"
    assert table.count("size BETWEEN 10 AND 20 AND color = 'red'") == table.scan().to_arrow().filter(
        (pc.field("size") >= 10) & (pc.field("size") <= 20) & (pc.field("color") == "red")
    ).num_rows  # fmt: skip
    assert table.scan("id = 5", snapshot=2).explain().steps[-1].rows == 300  # one file by its bloom filter, still


def test_the_threshold_decides_between_manifest_and_file(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.alter({**BITMAP, "file-index.in-manifest-threshold": "1mb"})
    table.index.build()
    assert [(f.embedded_index is not None, f.index_path) for f in _files(table)] == [(True, None)] * 2
    table.alter({**SIDE, **BLOOM})
    table.index.build()
    assert [f.embedded_index for f in _files(table)] == [None, None]
    assert all(f.index_path == f.path + ".index" for f in _files(table))
    table.alter(unset_options=["file-index.bitmap.columns", "file-index.bloom-filter.columns", list(BLOOM)[1]])
    table.index.build()
    assert [(f.embedded_index, f.index_path) for f in _files(table)] == [(None, None)] * 2
    assert lines(table.scan().to_arrow()) == lines(pa.concat_tables([_rows(0), _rows(300)]))


def test_rebuild_builds_what_is_there_too(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {**BLOOM, **SIDE})
    table.alter({"file-index.bloom-filter.id.items": "5000"})
    assert table.index.build().rewritten == 0
    sizes = [len(body or b"") for file in _files(table) for body in _bodies(table, file).values()]
    assert (table.index.build(rebuild=True).built, len(_files(table))) == (2, 2)
    assert all(
        len(body or b"") > 4 * size
        for file, size in zip(_files(table), sizes, strict=True)
        for body in _bodies(table, file).values()
    )


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("data-0f-0.parquet.index", "data-0f-0.parquet-1.index"),
        ("data-0f-0.parquet-1.index", "data-0f-0.parquet-2.index"),
        ("data-0f-0.parquet-9.index", "data-0f-0.parquet-10.index"),
        ("data-0f-7.index", "data-0f-8.index"),
        ("plain.index", "plain-1.index"),
    ],
)
def test_side_files_are_named_as_java_names_them(name: str, after: str) -> None:
    assert next_index_name(name) == after


# -------------------------------------------------------------------------------------------------------- schemas


def test_columns_are_those_of_the_file_by_id(tmp_path: Path) -> None:
    """Renamed, swapped, widened, dropped and added columns: an index lies under the name the file knows."""
    table = _table(tmp_path / "t", SIDE)
    table.alter(rename_columns={"color": "hue", "size": "color"})
    table.alter(rename_columns={"hue": "size"}, change_types={"day": "BIGINT"}, add_columns={"fresh": "INT"})
    table.append(pa.table({"id": [1000], "size": ["red"], "color": [0.5], "day": [9], "fresh": [1]}))
    table.alter(
        {
            "file-index.bitmap.columns": "size,fresh",
            "file-index.range-bitmap.columns": "color,day",
            "file-index.bloom-filter.columns": "day",
        }
    )
    summary = table.index.build()
    assert (summary.rewritten, summary.built) == (3, 4 + 4 + 5)
    found = [set(_bodies(table, f)) for f in sorted(_files(table), key=lambda f: f.row_count)]
    old = {("color", "bitmap"), ("size", "range-bitmap"), ("day", "range-bitmap"), ("day", "bloom-filter")}
    assert found[1:] == [old, old]
    assert found[0] == {("size", "bitmap"), ("fresh", "bitmap"), ("color", "range-bitmap")} | {
        ("day", "range-bitmap"),
        ("day", "bloom-filter"),
    }
    rows = table.scan().to_arrow()
    for filter_, mask in {
        "size = 'red' AND color < 30": (pc.field("size") == "red") & (pc.field("color") < 30),
        "day = 9": pc.field("day") == 9,
        "fresh = 1": pc.field("fresh") == 1,
        "day = 1 AND color >= 100.25": (pc.field("day") == 1) & (pc.field("color") >= 100.25),
    }.items():
        assert table.count(filter_) == rows.filter(mask).num_rows, filter_
    assert table.index.build().snapshot_id is None


def test_a_type_that_the_index_did_not_take_then_is_left_out(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("flag", pa.bool_())]))
    table.append(pa.table({"id": [1, 2], "flag": [True, False]}))
    table.alter(change_types={"flag": "INT"})
    table.append(pa.table({"id": [3], "flag": pa.array([5], pa.int32())}))
    table.alter({"file-index.bloom-filter.columns": "flag", "file-index.bitmap.columns": "flag"})
    assert table.index.build().built == 3
    assert sorted(len(_bodies(table, f)) for f in _files(table)) == [1, 2]
    assert table.count("flag = 1") == 1
    assert table.index.build().snapshot_id is None


# ------------------------------------------------------------------------------------------------------ partitions


def test_partitions_are_chosen_by_a_condition(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", partition_by=["day"])
    table.alter(BITMAP)
    assert table.index.build("day = 7").files == 0
    summary = table.index.build("day = 1")
    assert (summary.files, summary.rewritten, summary.partitions) == (2, 2, 1)
    indexed = {Path(f.path).parent.parent.name: bool(_bodies(table, f)) for f in _files(table)}
    assert indexed == {"day=0": False, "day=1": True}
    assert table.index.build("day IN (0, 1) AND day IS NOT NULL").rewritten == 2
    assert table.index.build("  ").rewritten == 0
    assert table.index.build("day = NULL").files == 0


def test_other_conditions_are_refused_by_name(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", partition_by=["day"])
    with pytest.raises(OptionError, match=r"not on color, size.*partitioned by day"):
        table.index.build("day = 1 AND (color = 'red' OR size > 3)")
    with pytest.raises(PredicateError, match="colour"):
        table.index.build("colour = 'red'")
    with pytest.raises(OptionError, match="partitioned by nothing"):
        _table(tmp_path / "plain").index.build("id = 1")


# ----------------------------------------------------------------------------------- what must not change with it


def _copy(name: str, tmp_path: Path) -> pp.Table:
    shutil.copytree(table_path(name).parents[1], tmp_path / "w")
    return pp.Table.open(tmp_path / "w" / "db.db" / "t")


@requires_shared
@pytest.mark.parametrize(
    "name",
    ["append_dv32", "append_dv32_part", "append_dv64_bitmap_index", "index_in_data_dir", "row_tracking",
     "append_bucketed", "append_orc", "append_avro", "evolve_index", "append_index_map", "append_all_types"],
)  # fmt: skip
def test_deletions_numbers_and_row_ids_stay(name: str, tmp_path: Path) -> None:
    table = _copy(name, tmp_path)
    extra = ["_ROW_ID", "_SEQUENCE_NUMBER"] if name == "row_tracking" else []
    columns = [*table.schema.field_names, *extra]
    before, snapshot = table.scan(columns=columns).to_arrow(), table.snapshots.latest()
    assert snapshot is not None
    column = table.schema.fields[0].name
    asked = {"file-index.bitmap.columns": column, "file-index.bloom-filter.columns": column}
    table.alter(asked, [k for k in table.options if k.startswith("file-index.") and k.count(".") > 1])
    assert table.index.build().rewritten == len(_files(table)) > 0
    after = table.snapshots.latest()
    assert after is not None
    assert (after.index_manifest, after.next_row_id) == (snapshot.index_manifest, snapshot.next_row_id)
    assert after.total_record_count == snapshot.total_record_count
    _same_but_for_indexes(table, snapshot.id)
    assert lines(table.scan(columns=columns).to_arrow()) == lines(before)


# ------------------------------------------------------------------------------------------- back and forth again


CONFIGS = st.lists(
    st.fixed_dictionaries(
        {"bitmap": st.booleans(), "bloom": st.booleans(), "side": st.booleans(), "rebuild": st.booleans()}
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=8)
@given(CONFIGS)
def test_after_any_history_the_files_have_what_is_asked_for(history: list[dict[str, bool]]) -> None:
    """A file may come back to an index it had before, or to none: it must not be taken for the one deleted then."""
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        table = pp.Table.create(Path(scratch) / "t", SCHEMA, options={"file-index.bloom-filter.columns": "day"})
        table.append(_rows(0, 20))
        rows = lines(_rows(0, 20))
        for wanted in history:
            columns = {"bitmap": ["color"] * wanted["bitmap"], "bloom-filter": ["id"] * wanted["bloom"]}
            options = {f"file-index.{k}.columns": ",".join(v) for k, v in columns.items() if v}
            options |= {f"file-index.bloom-filter.{c}.items": "50" for c in columns["bloom-filter"]}
            options["file-index.in-manifest-threshold"] = "1b" if wanted["side"] else "10kb"
            table.alter(options, [k for k in table.options if k not in options])
            table.index.build(rebuild=wanted["rebuild"])
            (file,) = _files(table)
            assert set(_bodies(table, file)) == {(c, k) for k, v in columns.items() for c in v}
            assert lines(table.scan().to_arrow()) == rows
            assert table.count("color = 'red' AND id <> 3") == 5
        for snapshot in table.snapshots.list():
            assert lines(table.scan(snapshot=snapshot.id).to_arrow()) == rows


# -------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("damage", ["head", "gone"])
def test_a_container_that_cannot_be_read_is_made_anew(tmp_path: Path, damage: str) -> None:
    table = _table(tmp_path / "t", {**BITMAP, **SIDE})
    bodies = [_bodies(table, f) for f in _files(table)]
    side = Path(_files(table)[0].index_path or "")
    side.write_bytes(b"not a container") if damage == "head" else side.unlink()
    summary = table.index.build()
    assert (summary.rewritten, summary.repaired, summary.built) == (1, 1, 1)
    assert [_bodies(table, f) for f in _files(table)] == bodies
    table.alter(unset_options=["file-index.bitmap.columns"])
    Path(_files(table)[0].index_path or "").unlink()
    assert (table.index.build().repaired, [f.index_path for f in _files(table)]) == (1, [None, None])


# ------------------------------------------------------------------------------------------------------- conflicts


def _meanwhile(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Run something after the indexes were built and before they are committed, once."""
    real, waiting = module.commit, [act]

    def commit(store: TableStore, changes: Changes, options: TableOptions) -> Any:
        if waiting:
            waiting.pop()()
        return real(store, changes, options)

    monkeypatch.setattr(module, "commit", commit)


def test_files_that_others_took_away_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t", SIDE, partition_by=["day"])
    table.alter(BITMAP)
    other = pp.Table.open(table.path)
    fresh = _rows(0, 40).filter(pc.field("day") == 0)
    _meanwhile(monkeypatch, lambda: other.overwrite(fresh, {"day": 0}))
    summary = table.index.build()
    assert (summary.files, summary.rewritten, summary.skipped, summary.snapshot_id) == (4, 2, 2, 4)
    assert table.count("day = 0") == fresh.num_rows
    named = {Path(f.index_path or "").name for f in _files(table)}
    assert {p.name for p in Path(table.path).rglob("*.index")} == named, "no file is left of what was not published"


def test_an_append_meanwhile_is_no_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t")
    table.alter(BITMAP)
    _meanwhile(monkeypatch, lambda: pp.Table.open(table.path).append(_rows(600)))
    assert (table.index.build().rewritten, table.count()) == (2, 900)
    assert table.index.build().rewritten == 0, "what was appended has the index already"


def test_two_rewrites_at_once_do_not_double_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t", SIDE)
    table.alter(BITMAP)
    other = pp.Table.open(table.path)
    real = module.commit
    _meanwhile(monkeypatch, lambda: monkeypatch.setattr(module, "commit", real) or other.index.build())
    summary = table.index.build()
    assert (summary.snapshot_id, summary.rewritten, summary.skipped) == (None, 0, 2)
    assert (table.count(), len(_files(table))) == (600, 2)
    assert len(list(Path(table.path).rglob("*.index"))) == 2


def test_conflicts_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t", SIDE)
    table.alter(BITMAP)

    def commit(*_: Any) -> None:
        raise CommitConflictError("always")

    monkeypatch.setattr(module, "commit", commit)
    with pytest.raises(CommitConflictError, match="always"):
        table.index.build()
    assert not list(Path(table.path).rglob("*.index"))


@pytest.mark.parametrize("error", [CommitError("no"), StorageError("full"), CommitOutcomeUnknownError("who knows")])
def test_a_commit_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    table = _table(tmp_path / "t", SIDE)
    table.alter(BITMAP)

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(module, "commit", fail)
    with pytest.raises(type(error)):
        table.index.build()
    left = len(list(Path(table.path).rglob("*.index")))
    assert left == (2 if isinstance(error, CommitOutcomeUnknownError) else 0), "files of what may be there stay"
    assert len(table.snapshots.list()) == 2


def test_an_interrupt_leaves_no_half_built_index(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", SIDE)
    table.alter(BITMAP)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.index.build(progress=once("indexing", stop))
    assert len(table.snapshots.list()) == 2
    assert table.index.build().rewritten == 2


def test_a_data_file_that_is_gone_stops_it(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", SIDE)
    table.alter(BITMAP)
    Path(_files(table)[1].path).unlink()
    with pytest.raises(SnapshotNotFoundError, match="a file of the table is gone"):
        table.index.build()
    assert not list(Path(table.path).rglob("*.index"))


_SMALLEST = -(2**63)
_ALL_KINDS = {f"file-index.{kind}.columns": "id" for kind in ("bitmap", "bsi", "range-bitmap", "bloom-filter")}


@pytest.mark.filterwarnings("ignore:the bsi index")
def test_a_value_that_bsi_can_t_hold_costs_the_index_and_not_the_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Java fails to write such a file, and reads one without the index."""
    rows = pa.table({"id": [_SMALLEST, 1, None]}, pa.schema([("id", pa.int64())]))
    table = pp.Table.create(tmp_path / "t", rows.schema, options=_ALL_KINDS | SIDE)
    table.append(rows)
    table.append(pa.table({"id": [2, 3]}))
    assert caplog.text.count("column id: a bsi index can't hold the value -9223372036854775808") == 1
    without, whole = sorted(({kind for _, kind in _bodies(table, file)} for file in _files(table)), key=len)
    assert whole - without == {"bsi"} and len(without) == 3
    assert table.index.verify().ok
    for where in (f"id = {_SMALLEST}", "id < 0", "id <= 1", "id IS NULL", "id > 1"):
        plain = table.scan(where, options={"file-index.read.enabled": "false"})
        assert lines(table.scan(where).to_arrow()) == lines(plain.to_arrow())
    assert table.index.build().rewritten == 0
    again = table.index.build(rebuild=True)
    assert (again.built, again.rewritten) == (7, 2)

    only = pp.Table.create(tmp_path / "only", rows.schema, options={"file-index.bsi.columns": "id"})
    only.append(rows)
    assert only.count("id < 0") == 1 and only.index.verify().ok and only.index.build().rewritten == 0
    assert only.index.cost().sampled_index_bytes == 0
    only.alter({"file-index.bloom-filter.columns": "id"})
    assert only.index.build().built == 1
    only.compact(full=True)
    assert only.count("id < 0") == 1


@pytest.mark.java
@requires_java_oracle
@pytest.mark.filterwarnings("ignore:the bsi index")
def test_java_reads_a_file_without_the_index_that_could_not_hold_its_values(oracle: Oracle, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    options = {"file-index.bsi.columns": "id,n"}
    rows = [{"id": _SMALLEST, "n": 1}, {"id": 5, "n": 2}]
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", schema, options=options)
        refused = batch.write(tmp_path, "db.t", rows, allow_fail=True)
    assert not refused.ok
    pp.Table.open(tmp_path / "db.db/t").append(pa.Table.from_pylist(rows, schema))
    with oracle.batch() as batch:
        found = {
            op: batch.read(tmp_path, "db.t", filter={"op": op, "field": "id", "literals": [value]})
            for op, value in (("eq", _SMALLEST), ("lt", 0), ("gt", 0))
        }
        other = batch.read(tmp_path, "db.t", filter={"op": "eq", "field": "n", "literals": [3]})
    assert [len(reply.lines) for reply in found.values()] == [1, 1, 1]
    assert other.lines == []
