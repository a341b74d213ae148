"""Writing tables of data evolution: updates of columns, deletes and merges, in turns with peers and other commits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.compact.compact import compact
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.engine.rowlevel import column_updates
from paimon_pyds.engine.rowlevel.copied_pages import replacer_of
from paimon_pyds.errors import PaimonError, UnsupportedError
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.store import TableStore
from support.effort import LONG, SEED
from support.evolution_model import OPTIONS, EvolvingTable
from support.executors import Pickling
from support.peers import Pypaimon, Rust
from support.races import race
from support.v2_fixtures import v2_copy

SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string()), ("n", pa.int64())])


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"v{i}" for i in ids], "n": [i * 10 for i in ids]}, SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    return pp.Table.create(tmp_path / "db.db" / "t", rows_of(1, 2, 3), options=OPTIONS)


def sorted_rows(table: pp.Table) -> list[dict[str, Any]]:
    return table.to_arrow().sort_by("id").to_pylist()


@pytest.mark.parametrize("number", range(1000 if LONG else 2))
def test_random_operations_give_the_rows_of_a_plain_table(number: int, tmp_path: Path) -> None:
    world = EvolvingTable(tmp_path / "t", random.Random(SEED + number))
    for _ in range(12):
        world.step()
        world.check()
    assert not world.table.maintenance.verify(deep=True).findings


PAGED = {**OPTIONS, "file.format": "parquet", "parquet.page.row.count.limit": "16"}
"""Options of tables whose files have many pages."""


@pytest.mark.parametrize("number", range(300 if LONG else 1))
def test_random_operations_on_files_of_many_pages(number: int, tmp_path: Path) -> None:
    world = EvolvingTable(tmp_path / "t", random.Random(SEED + number), PAGED, most_new=400)
    for _ in range(12):
        world.step()
        world.check()
    assert not world.table.maintenance.verify(deep=True).findings


def paged_rows(count: int) -> pa.Table:
    """Rows in which ``n`` has few values, so that its pages share a dictionary."""
    return pa.table(
        {"id": range(count), "v": [f"v{i}" for i in range(count)], "n": [i % 7 for i in range(count)]}, SCHEMA
    )


def row_groups(table: pp.Table) -> list[int]:
    """The rows of each row group of the newest data file."""
    path = max(Path(table.path).rglob("data-*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


@pytest.fixture
def paged(tmp_path: Path) -> pp.Table:
    return pp.Table.create(tmp_path / "db.db" / "t", paged_rows(1_000), options=PAGED)


def test_an_update_of_few_rows_copies_the_other_pages(paged: pp.Table) -> None:
    expected = paged_rows(1_000).to_pylist()
    few = [96, 32, 864, 8]
    for change, groups in (
        ({"n": "1000"}, few), ({"n": "NULL"}, few), ({"n": "n - 50", "v": "concat(v, '!')"}, [1_000]),
        ({"v": "concat(v, '!')"}, few),
    ):  # fmt: skip
        paged.update(change, "id BETWEEN 100 AND 120 OR id = 999")
        for row in expected[100:121] + expected[999:]:
            if "n" in change:
                row["n"] = 1000 if change["n"] == "1000" else None
            if "v" in change:
                row["v"] += "!"
        assert sorted_rows(paged) == expected
        assert row_groups(paged) == groups  # all columns are in one file, or whole
    assert (paged.max("n"), paged.min("n"), paged.count("n IS NULL")) == (6, 0, 22)
    assert [row["id"] for row in paged.scan("v = 'v100!!'").to_arrow().to_pylist()] == [100]
    assert not paged.maintenance.verify(deep=True).findings


def test_an_update_of_scattered_rows_leaves_pages_and_row_groups(tmp_path: Path) -> None:
    rows = paged_rows(5_000)
    table = pp.Table.create(tmp_path / "t", rows, options=PAGED)
    expected = rows.to_pylist()
    for first, change, values in ((3, "3", {}), (70, "100", {}), (3, "n + 1", {3: 4})):
        table.update({"n": change}, f"id % 80 = {first}")
        for row in expected[first::80]:
            row["n"] = values[row["n"]] if values else int(change)
        assert sorted_rows(table) == expected
        assert row_groups(table) == [5_000]
        assert (table.max("n"), table.min("n")) == (max(r["n"] for r in expected), 0)
        assert table.count("n = 100") == sum(row["n"] == 100 for row in expected)
    assert not table.maintenance.verify(deep=True).findings


def test_least_and_greatest_values_go_with_the_rows_that_had_them(paged: pp.Table) -> None:
    paged.update({"n": "n + 100"}, "id < 30")
    paged.update({"n": "id % 7"}, "id < 30")
    (newest,) = (file for file in paged.system.read("files").to_pylist() if file["max_sequence_number"] == 3)
    assert [newest[f"{end}_value_stats"] for end in ("min", "max")] == [f"{{id=null, n={n}, v=null}}" for n in (0, 6)]


def with_index(table: pp.Table) -> None:
    table.alter(set_options={"file-index.bloom-filter.columns": "n"})


WHOLE: dict[str, Callable[[pp.Table], Any]] = {
    "many rows": lambda table: table.update({"n": "n + 1"}, "id % 10 = 0"),
    "a file index": with_index,
    "another name": lambda table: table.alter(rename_columns={"n": "m"}),
    "another type": lambda table: table.alter(change_types={"n": "DECIMAL(20, 0)"}),
    "another format": lambda table: table.alter(set_options={"file.format": "avro"}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_else_differs_is_written_whole(name: str, paged: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    paged.update({"n": "n"}, "id = 0")
    replaced: list[bool] = []

    def told(*arguments: Any) -> Any:
        replacer = replacer_of(*arguments)
        replaced.append(replacer is not None)
        return replacer

    monkeypatch.setattr(column_updates, "replacer_of", told)
    paged.update({"n": "n"}, "id = 0")
    WHOLE[name](paged)
    paged = pp.Table.open(paged.path)
    column = "m" if name == "another name" else "n"
    if name != "many rows":
        paged.update({column: f"{column} + 1"}, "id % 100 = 0")
    assert replaced == [True, False]
    step = 10 if name == "many rows" else 100
    assert paged.scan(columns=[column]).to_arrow()[column].to_pylist() == [
        i % 7 + (i % step == 0) for i in range(1_000)
    ]


def test_an_update_writes_the_columns_that_it_sets(table: pp.Table) -> None:
    summary = table.update({"n": "n + 1"}, "id = 2")
    assert (summary.rows_updated, summary.files_added, summary.files_removed) == (1, 1, 0)
    (files,) = (table.system.read("files").to_pylist(),)
    assert [(file["first_row_id"], file["record_count"], file["write_cols"]) for file in files] == [
        (0, 3, None), (0, 3, ["n"]),
    ]  # fmt: skip
    assert table.snapshots.list()[-1].commit_kind is CommitKind.APPEND
    assert table.scan(columns=["id", "n", "_ROW_ID"]).to_arrow().to_pylist() == [
        {"id": 1, "n": 10, "_ROW_ID": 0}, {"id": 2, "n": 21, "_ROW_ID": 1}, {"id": 3, "n": 30, "_ROW_ID": 2},
    ]  # fmt: skip


def test_deleted_rows_keep_their_place_in_column_files(table: pp.Table) -> None:
    table.delete("id = 2")
    table.update({"n": "n + 1"}, "id = 3")
    assert table.system.read("files")["record_count"].to_pylist() == [3, 3]
    assert [(row["id"], row["n"]) for row in sorted_rows(table)] == [(1, 10), (3, 31)]
    assert table.count() == 2


def test_a_group_goes_with_its_last_row(table: pp.Table) -> None:
    table.append(rows_of(4))
    table.update({"n": "0"})
    summary = table.delete("id <= 3")
    assert summary.files_removed == 2
    assert sorted_rows(table) == [{"id": 4, "v": "v4", "n": 0}]


def test_rows_are_deleted_by_vectors_only(tmp_path: Path) -> None:
    options = {**OPTIONS, "deletion-vectors.enabled": "false"}
    table = pp.Table.create(tmp_path / "t", rows_of(1, 2), options=options)
    with pytest.raises(UnsupportedError, match="are deleted by deletion vectors only"):
        table.delete("id = 1")
    table.update({"n": "5"}, "id = 1")
    table.delete("id IN (1, 2)")
    assert table.count() == 0


def test_rows_do_not_move_to_other_partitions(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", rows_of(1, 2), partition_by=["id"], options=OPTIONS)
    with pytest.raises(UnsupportedError, match="column 'id' is a partition column"):
        table.update({"id": "id + 1"})


def update_n(table: pp.Table) -> None:
    table.update({"n": "n + 1"}, "id >= 2")


THEIRS: dict[str, tuple[Callable[[pp.Table], Any], list[tuple[int, str, int]]]] = {
    "same column": (lambda t: t.update({"n": "n + 100"}), [(1, "v1", 110), (2, "v2", 121), (3, "v3", 131)]),
    "other column": (lambda t: t.update({"v": "'x'"}), [(1, "x", 10), (2, "x", 21), (3, "x", 31)]),
    "what was searched": (lambda t: t.update({"id": "id - 1"}), [(0, "v1", 10), (1, "v2", 20), (2, "v3", 31)]),
    "deleted row": (lambda t: t.delete("id = 2"), [(1, "v1", 10), (3, "v3", 31)]),
    "whole group": (lambda t: t.delete("TRUE"), []),
    "append": (lambda t: t.append(rows_of(9)), [(1, "v1", 10), (2, "v2", 21), (3, "v3", 31), (9, "v9", 90)]),
}


@pytest.mark.parametrize("name", THEIRS)
def test_an_update_that_meets_another_commit(name: str, table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, expected = THEIRS[name]
    other = pp.Table.open(table.path)
    came = race(monkeypatch, lambda: theirs(other))
    update_n(table)
    assert came
    found = [(row["id"], row["v"], row["n"]) for row in sorted_rows(table)]
    if name == "append":  # the update may come before it
        assert found in (expected, [*expected[:3], (9, "v9", 91)])
    else:
        assert found == expected


def test_a_delete_that_meets_an_update_of_its_condition(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    other = pp.Table.open(table.path)
    race(monkeypatch, lambda: other.update({"n": "n + 1000"}, "id = 3"))
    table.delete("n = 30")
    assert [row["n"] for row in sorted_rows(table)] == [10, 20, 1030]


def test_a_compaction_joins_the_groups_that_follow_one_another(table: pp.Table) -> None:
    table.append(rows_of(4, 5))
    table.update({"n": "n + 1"}, "id >= 2")
    table.delete("id IN (1, 5)")
    before = table.scan(columns=["id", "v", "n", "_ROW_ID"]).to_arrow()
    summary = table.compact(full=True)
    assert (summary.files_before, summary.files_after) == (4, 1)
    (file,) = table.system.read("files").to_pylist()
    assert (file["first_row_id"], file["record_count"], file["write_cols"]) == (0, 5, None)
    assert table.snapshots.list()[-1].commit_kind is CommitKind.COMPACT
    assert table.scan(columns=["id", "v", "n", "_ROW_ID"]).to_arrow() == before
    table.update({"v": "'x'"}, "id = 2")
    table.delete("id = 3")
    assert [(row["id"], row["v"]) for row in sorted_rows(table)] == [(2, "x"), (4, "v4")]
    assert table.compact(full=True).files_before == 2
    assert not table.compact(full=True).files_before
    assert table.count() == 2


class LastFirst:
    """An executor whose results come in another order than its tasks, and travel."""

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        return reversed(list(Pickling().map(function, tasks)))


def test_runs_are_done_in_any_order(tmp_path: Path) -> None:
    fields = {"p": "INT", "id": "INT", "n": "INT"}
    table = pp.Table.create(tmp_path / "t", fields, partition_by=["p"], options=OPTIONS)
    for p in range(3):
        for first in range(10 * p, 10 * p + 2 * p + 2):
            table.append({"p": [p, p], "id": [2 * first, 2 * first + 1], "n": [0, 0]})
    table.delete("id % 5 = 0")
    table.update({"n": "id"}, "id % 3 = 0")
    before = table.scan(columns=["id", "n", "_ROW_ID"]).to_arrow().sort_by("id")
    summary = compact(TableStore.open(table.path), CompactOptions(full=True), LastFirst())
    assert summary.files_after == 3
    assert pp.Table.open(table.path).scan(columns=["id", "n", "_ROW_ID"]).to_arrow().sort_by("id") == before


def test_few_files_wait_for_more(table: pp.Table) -> None:
    table.update({"n": "n + 1"})
    assert not table.compact().files_before
    for _ in range(3):
        table.update({"n": "n + 1"})
    assert table.compact(dry_run=True).files_before == 5
    assert table.compact().files_before == 5


def test_rows_are_not_sorted_by_a_compaction(table: pp.Table) -> None:
    with pytest.raises(UnsupportedError, match="order_by would give rows other row ids"):
        table.compact(order_by="id")


@pytest.mark.parametrize("theirs", ["update", "delete", "append", "compact", "alter"])
def test_a_compaction_that_meets_another_commit(theirs: str, table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(rows_of(4, 5))
    table.update({"n": "n + 1"})
    table.delete("id = 4")
    other = pp.Table.open(table.path)
    do: dict[str, Callable[[], Any]] = {
        "update": lambda: other.update({"v": "'x'"}, "id = 2"),
        "delete": lambda: other.delete("id = 2"),
        "append": lambda: other.append(rows_of(6)),
        "compact": lambda: other.compact(full=True),
        "alter": lambda: other.alter(add_columns={"z": "INT"}),
    }
    expected: list[dict[str, Any]] = []

    def meanwhile() -> None:
        do[theirs]()
        expected.extend(sorted_rows(pp.Table.open(table.path)))

    race(monkeypatch, meanwhile)
    table.compact(full=True)
    assert expected and sorted_rows(pp.Table.open(table.path)) == expected
    assert not pp.Table.open(table.path).maintenance.verify(deep=True).findings


@pytest.mark.parametrize("action", ["THROW_ERROR", "DROP_PARTITION_INDEX", "IGNORE"])
def test_updates_of_columns_with_a_global_index(action: str, tmp_path: Path) -> None:
    table = pp.Table.open(v2_copy("global_index", tmp_path))
    indexes = table.system.read("table_indexes").num_rows
    assert indexes
    if action != "THROW_ERROR":
        table.alter({"global-index.column-update-action": action})
    if action == "THROW_ERROR":
        before = table.to_arrow()
        with pytest.raises(UnsupportedError, match=r"global-index\.column-update-action=THROW_ERROR"):
            table.update({"name": "'new'"}, "id = 3")
        assert table.to_arrow() == before
        return
    table.update({"name": "'new'"}, "id = 3")
    left = table.system.read("table_indexes").num_rows
    assert left == indexes if action == "IGNORE" else left < indexes
    assert set(table.scan("name = 'new'").to_arrow()["id"].to_pylist()) == {3}


@pytest.mark.parametrize("number", range(60 if LONG else 1))
def test_random_operations_with_global_indexes(number: int, tmp_path: Path) -> None:
    """Whether updates drop the index of a column or leave it, filters find the rows that the column has now."""
    rng = random.Random(f"indexes {SEED} {number}")
    action = rng.choice(["IGNORE", "IGNORE", "DROP_PARTITION_INDEX"])
    world = EvolvingTable(tmp_path / "t", rng, {"global-index.column-update-action": action})
    for _ in range(12):
        if rng.random() < 0.5 and world.rows:
            column, rebuild = rng.choice(["id", *world.types]), rng.random() < 0.3
            world.done.append(f"index {column} {rebuild}")
            world.table.index.build_global(column, rebuild=rebuild)
            world.check()
        world.step()
        for _ in range(2):
            world.check()
    assert not world.table.maintenance.verify(deep=True).findings


@pytest.mark.parametrize("seed", range(40 if LONG else 2))
def test_damaged_column_files_give_errors_or_the_rows(seed: int, table: pp.Table) -> None:
    update_n(table)
    expected, rng = sorted_rows(table), random.Random(SEED + seed)
    path = Path(rng.choice(table.scan().plan().files[0].parts).path)
    data = bytearray(path.read_bytes())
    for _ in range(3):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    try:
        found = sorted_rows(pp.Table.open(table.path))
    except PaimonError:
        return
    assert len(found) == len(expected)


# ------------------------------------------------------------------------------------------------------------- peers


@pytest.fixture
def pypaimon(tmp_path: Path) -> Pypaimon:
    return Pypaimon(tmp_path)


def test_peers_read_files_with_copied_pages(paged: pp.Table, tmp_path: Path, pypaimon: Pypaimon) -> None:
    for number in range(3):
        paged.update(
            {"n": f"{number} * 100", "v": "concat(v, '!')"}, f"id BETWEEN {300 * number} AND {300 * number + 40}"
        )
    expected, rust = sorted_rows(paged), Rust(tmp_path)
    assert len(row_groups(paged)) == 6
    _check_peers(expected, rust, pypaimon, (6, 200))


def test_peers_read_files_with_scattered_changes(tmp_path: Path, pypaimon: Pypaimon) -> None:
    rows = pa.table(
        {"id": range(5_000), "v": [f"v{i * i % 40}" for i in range(5_000)], "n": [i * i % 7 for i in range(5_000)]},
        SCHEMA,
    )
    table = pp.Table.create(tmp_path / "db.db" / "t", rows, options=PAGED)
    for number in range(3):
        table.update({"n": f"{number} * 100"}, f"id % 50 = {number}")
        table.update({"v": f"'new {number}'"}, f"id % 50 = {number}")
        assert row_groups(table) == [5_000]
    _check_peers(sorted_rows(table), Rust(tmp_path), pypaimon, (4, 200))


def _check_peers(expected: list[dict[str, Any]], rust: Rust, pypaimon: Pypaimon, numbers: tuple[int, ...]) -> None:
    assert pypaimon.read("t").sort_by("id").to_pylist() == expected
    assert sorted(rust.sql("SELECT id, v, n FROM p.db.t"), key=lambda row: row["id"]) == expected
    for n in numbers:
        wanted = [row for row in expected if row["n"] == n]
        assert sorted(rust.sql(f"SELECT id, v, n FROM p.db.t WHERE n = {n}"), key=lambda row: row["id"]) == wanted


def test_pypaimon_and_pypaimon_rust_go_on_where_this_package_stopped(tmp_path: Path, pypaimon: Pypaimon) -> None:
    table = pp.Table.create(tmp_path / "db.db" / "t", rows_of(1, 2, 3, 4), options=OPTIONS)
    rust = Rust(tmp_path)
    model = {row["id"]: row for row in rows_of(1, 2, 3, 4).to_pylist()}
    rng = random.Random(SEED)
    for number in range(10):
        at, fresh = rng.randint(1, 4), 10 + number
        match number % 5:
            case 0:
                table.update({"n": f"{number}"}, f"id >= {at}")
                for row in model.values():
                    row["n"] = number if row["id"] >= at else row["n"]
            case 1:
                rust.sql(f"UPDATE p.db.t SET v = 'r{number}' WHERE id = {at}")
                if at in model:
                    model[at]["v"] = f"r{number}"
            case 2:
                pypaimon.update("t", "id", at, {"n": 100 + number})
                if at in model:
                    model[at]["n"] = 100 + number
            case 3:
                table.append(rows_of(fresh))
                model[fresh] = rows_of(fresh).to_pylist()[0]
                table.delete(f"id = {at}")
                model.pop(at, None)
                table.merge([{"id": fresh, "v": "m", "n": 1}], on="id", when_matched=pp.Update({"v": "source.v"}))
                model[fresh]["v"] = "m"
            case 4:
                table.compact(full=True)
        expected = sorted(model.values(), key=lambda row: row["id"])
        assert sorted_rows(pp.Table.open(table.path)) == expected, number
        assert pypaimon.read("t").sort_by("id").to_pylist() == expected, number
        assert sorted(rust.sql("SELECT id, v, n FROM p.db.t"), key=lambda row: row["id"]) == expected, number
