"""Global indexes that are built here: what they cover, who else reads them, and what happens beside other commits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.ops.index_tools.global_indexes import build_global_index
from support.effort import LONG, SEED
from support.peers import Pypaimon, Rust

OPTIONS = {
    "row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true",
    "global-index.column-update-action": "IGNORE",
}  # fmt: skip
OFF = {"global-index.enabled": "false"}


def rows(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"id": i, "n": None if i % 9 == 4 else i * 7 % 50 - 20, "s": f"s{i % 6}"} for i in range(start, stop)]


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    made = pp.Table.create(str(tmp_path / "t"), "id INT, n BIGINT, s STRING", options=OPTIONS)
    made.append(rows(0, 100))
    return made


def ids(table: pp.Table, condition: str, **options: str) -> list[int]:
    return sorted(table.scan(condition, columns=["id"], options=options).to_arrow()["id"].to_pylist())


def uses_index(table: pp.Table, condition: str) -> bool:
    return "global index" in [step.name for step in table.scan(condition).explain().steps]


def ranges(table: pp.Table) -> list[tuple[str, int, int, int]]:
    found = table.system.read("table_indexes").to_pylist()
    names = ("index_field_name", "row_range_start", "row_range_end", "row_count")
    return sorted(tuple(row[name] for name in names) for row in found if row["index_type"] == "btree")


def test_columns_that_changed_after_the_last_commit(table: pp.Table) -> None:
    """An index has what the column says now, and not what it said with the columns of the snapshot."""
    table.alter(drop_columns=["s"])
    table.alter(add_columns={"s": "STRING"})
    assert table.index.build_global("s").rows == 100
    assert not any(b"s1" in file.read_bytes() for file in Path(table.path, "index").iterdir())
    table.alter(rename_columns={"n": "m"})
    assert table.index.build_global("m").rows == 100
    assert ids(table, "m = 3") == [row["id"] for row in rows(0, 100) if row["n"] == 3]


def test_a_column_that_is_filled_after_its_index_was_built(table: pp.Table) -> None:
    """Its values have one writer, as those that came with the rows have, but an index of NULLs may be older."""
    table.alter(add_columns={"m": "INT"})
    table.index.build_global("m")
    assert len(ids(table, "m IS NULL")) == 100
    table.update({"m": "id % 3"}, "id < 90")
    for condition in ("m = 1", "m <> 1", "m IS NULL", "m > 0"):
        assert ids(table, condition) == ids(table, condition, **OFF), condition
    assert len(ids(table, "m = 1")) == 30
    table.index.build_global("m", rebuild=True)
    assert uses_index(table, "m = 1")
    assert len(ids(table, "m = 1")) == 30


def test_rows_without_an_index_get_one(table: pp.Table) -> None:
    built = table.index.build_global("n")
    assert (built.built, built.rows, built.snapshot_id) == (1, 100, 2)
    assert table.index.build_global("n").snapshot_id is None
    table.append(rows(100, 130))
    table.append(rows(130, 140))
    assert ids(table, "n = 3") == [i["id"] for i in rows(0, 140) if i["n"] == 3]
    assert table.index.build_global("n").built == 1
    assert ranges(table) == [("n", 0, 99, 100), ("n", 100, 139, 40)]
    again = table.index.build_global("n", rebuild=True)
    assert (again.built, again.dropped) == (1, 2)
    assert ranges(table) == [("n", 0, 139, 140)]
    assert uses_index(table, "n = 3")
    assert ids(table, "n IS NULL") == [i["id"] for i in rows(0, 140) if i["n"] is None]
    assert table.index.drop_global("n").dropped == 1
    assert not uses_index(table, "n = 3")
    assert table.maintenance.verify(deep=True).ok


def test_deleted_rows_are_left_out(table: pp.Table) -> None:
    table.delete("id < 50")
    assert table.index.build_global("n").rows == 50
    assert uses_index(table, "n = 3")
    table.delete("id = 89")
    assert ids(table, "n = 3") == []
    assert table.count("n = 3") == 0


def test_partitions_have_files_of_their_own(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = pp.Table.create(str(tmp_path / "t"), "p INT, n INT", partition_by="p", options=options)
    for start in (0, 10):
        table.append([{"p": i % 2, "n": i} for i in range(start, start + 10)])
    assert table.index.build_global("n").built == 4
    for n in (0, 9, 13, 18):  # statistics leave files out before
        assert table.scan(f"n = {n}").to_arrow().to_pylist() == [{"p": n % 2, "n": n}]
        assert len(table.scan(f"n = {n}").explain().files) == 1


@pytest.mark.parametrize("name", ["pypaimon", "rust"])
def test_other_readers_find_rows_by_an_index_of_ours(name: str, tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "t"
    table = pp.Table.create(str(path), "id INT, n BIGINT, s STRING", options=OPTIONS)
    table.append(rows(0, 100))
    table.index.build_global("n")
    table.index.build_global("s")
    for column, value in (("n", -18), ("n", 3), ("s", "s4")):
        wanted = [row["id"] for row in rows(0, 100) if row[column] == value]
        if name == "rust":
            text = f"'{value}'" if isinstance(value, str) else str(value)
            found = [row["id"] for row in Rust(tmp_path).sql(f"SELECT id FROM p.db.t WHERE {column} = {text}")]
        else:
            found = Pypaimon(tmp_path).read("t", {column: value})["id"].to_pylist()
        assert sorted(found) == wanted


def test_an_update_meanwhile_is_in_the_index(table: pp.Table) -> None:
    calls: list[int] = []

    def read(snapshot: Snapshot, column: str, first: int, last: int) -> Iterator[pa.RecordBatch]:
        scan = table.scan(
            f"_ROW_ID BETWEEN {first} AND {last}", columns=[column, "_ROW_ID"],
            options={"scan.snapshot-id": str(snapshot.id)},
        )  # fmt: skip
        yield from scan.to_batches()
        calls.append(snapshot.id)
        if len(calls) == 1:
            table.append(rows(100, 101))  # no conflict
            table.update({"n": "777"}, "id = 5")

    built = build_global_index(table._store, "n", read)
    assert calls == [1, 3]
    assert built.rows == 101
    assert uses_index(table, "n = 777")
    assert ids(table, "n = 777") == [5]


@pytest.mark.parametrize("number", range(40 if LONG else 2))
def test_filters_are_the_same_with_and_without(table: pp.Table, number: int) -> None:
    rng = random.Random(f"{SEED} {number}")
    next_id = 100
    for _ in range(10):
        match rng.choice(["append", "build", "rebuild", "update", "delete"]):
            case "append":
                table.append(rows(next_id, next_id + 9))
                next_id += 9
            case "build" | "rebuild" as kind:
                table.index.build_global(rng.choice(["n", "s"]), rebuild=kind == "rebuild")
            case "update":
                table.update({"n": str(rng.randrange(-20, 30))}, f"id % 11 = {rng.randrange(11)}")
            case _:
                table.delete(f"id = {rng.randrange(next_id)}")
        for condition in (
            f"n = {rng.randrange(-20, 30)}",
            f"n > 20 AND s = 's{rng.randrange(6)}'",
            "n IS NULL OR s < 's1'",
        ):
            assert ids(table, condition) == ids(table, condition, **OFF)


def test_what_can_t_be_built_is_refused_by_name(table: pp.Table, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="nosuch"):
        table.index.build_global("nosuch")
    plain = pp.Table.create(str(tmp_path / "plain"), "id INT")
    with pytest.raises(UnsupportedError, match="tables with data-evolution"):
        plain.index.build_global("id")
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    other = pp.Table.create(str(tmp_path / "o"), "p INT, b BYTES", partition_by="p", options=evolving)
    with pytest.raises(UnsupportedError, match="type BYTES"):
        other.index.build_global("b")
    with pytest.raises(OptionError, match="partition column"):
        other.index.build_global("p")


def test_the_command_line_builds_and_drops(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", "build-global", table.path, "n"]) == 0
    assert "1 index file of 100 rows built" in capsys.readouterr().out
    assert main(["index", "drop-global", table.path, "n"]) == 0
    assert "1 index file dropped" in capsys.readouterr().out
