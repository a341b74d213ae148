"""Plans that use the global indexes of other writers: no row is lost, whatever they cover."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import LONG, SEED
from support.peers import Pypaimon
from support.v2_fixtures import Read, read_id, v2_reads, v2_table
from support.values import lines

SCHEMA = pa.schema([("id", pa.int32()), ("n", pa.int64()), ("s", pa.string())])
OPTIONS = {
    "row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true",
    "global-index.column-update-action": "IGNORE",
}  # fmt: skip
OFF = {"global-index.enabled": "false"}
FILTERS = (
    "n = {n}", "n IN ({n}, {m})", "n BETWEEN {n} AND {m}", "n >= {n} AND s = '{s}'", "n = {n} OR s = '{s}'",
    "n IS NULL", "s LIKE '{s}%'", "s > '{s}' AND n < {m}", "NOT (n = {n})", "(n = {n} OR n = {m}) AND s <> '{s}'",
    "n = {n} OR id = {m}", "n <=> {n}", "n + 1 = {n}",
)  # fmt: skip


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Pypaimon:
    return Pypaimon(tmp_path_factory.mktemp("peer") / "warehouse")


@pytest.mark.parametrize("read", v2_reads("global_index"), ids=read_id)
def test_rows_beyond_the_indexes_are_found(read: Read) -> None:
    table = pp.Table.open(v2_table(read.fixture))
    assert lines(table.scan(filter=read.filter).to_arrow()) == read.rows


def steps(table: pp.Table, condition: str) -> list[str]:
    return [step.name for step in table.scan(filter=condition).explain().steps]


def test_an_index_selects_rows_and_leaves_files_out() -> None:
    table = pp.Table.open(v2_table("global_index"))
    plan = table.scan(filter="tag = 'purple'").explain()
    assert [file.rows for file in plan.files] == [3]  # the file that no index covers
    assert [skip.step for skip in plan.skips] == ["global index"]
    assert not plan.hint
    assert "global index" in steps(table, "id > 3 AND id < 6")
    assert "global index" not in steps(table, "txt = 'z'")
    off = table.scan(filter="tag = 'purple'", options=OFF).explain()
    assert "global index" not in [step.name for step in off.steps]


def test_an_updated_column_and_another_type_are_not_trusted(peer: Pypaimon) -> None:
    path = peer.create("stale", SCHEMA, [], [], OPTIONS)
    peer.append("stale", pa.table({"id": [1, 2], "n": [1, 2], "s": ["a", "b"]}, SCHEMA))
    peer.index("stale", "n", "btree")
    table = pp.Table.open(path)
    assert "global index" in steps(table, "n = 7")
    peer.update("stale", "id", 2, {"n": 7})
    assert table.scan(filter="n = 7").to_arrow().to_pylist() == [{"id": 2, "n": 7, "s": "b"}]
    assert "global index" not in steps(table, "n = 7")
    peer.create("widened", SCHEMA, [], [], OPTIONS)
    peer.append("widened", pa.table({"id": [1, 2], "n": [1, 2], "s": ["a", "b"]}, SCHEMA))
    peer.index("widened", "id", "btree")
    schemas = path.with_name("widened") / "schema"
    schema = json.loads((schemas / "schema-0").read_text())
    schema["fields"][0]["type"], schema["id"] = "BIGINT", 1
    (schemas / "schema-1").write_text(json.dumps(schema))
    widened = pp.Table.open(path.with_name("widened"))
    assert widened.scan(filter="id = 2").to_arrow().to_pylist() == [{"id": 2, "n": 2, "s": "b"}]


def test_bitmap_indexes_whose_keys_are_in_the_order_of_their_bytes(peer: Pypaimon) -> None:
    path = peer.create("bytes", SCHEMA, [], [], OPTIONS)
    numbers = [3, -2, -1, 0, 300, None, -300, 2**40]
    peer.append("bytes", pa.table({"id": range(8), "n": numbers, "s": ["a"] * 8}, SCHEMA))
    peer.index("bytes", "n", "bitmap")
    table = pp.Table.open(path)
    for condition, wanted in (("n = -2", [1]), ("n < 0", [1, 2, 6]), ("n IN (300, -300)", [4, 6]), ("n > 3", [4, 7])):
        assert "global index" in steps(table, condition)
        assert table.scan(filter=condition, columns=["id"]).to_arrow()["id"].to_pylist() == wanted


class World:
    """A table of pypaimon, and the rows that it has."""

    def __init__(self, peer: Pypaimon, name: str, rng: random.Random) -> None:
        self.peer, self.name, self.rng = peer, name, rng
        self.path: Path = peer.create(name, SCHEMA, [], [], OPTIONS)
        self.rows: list[dict[str, Any]] = []
        self.append()

    def value(self) -> dict[str, Any]:
        rng = self.rng
        n = rng.choice([None, rng.randrange(-3, 12), rng.randrange(-3, 12)])
        return {"n": n, "s": rng.choice([None, "a", "b", "ab", "é"])}

    def append(self) -> None:
        made = [{"id": self.rng.randrange(20), **self.value()} for _ in range(self.rng.randrange(1, 9))]
        self.peer.append(self.name, pa.Table.from_pylist(made, SCHEMA))
        self.rows += made

    def step(self) -> None:
        rng = self.rng
        match rng.choice(["append", "index", "index", "update", "delete"]):
            case "append":
                self.append()
            case "index":
                column = rng.choice(["n", "s"])  # by an index of id, pypaimon would not find all rows to delete
                self.peer.index(self.name, column, rng.choice(["btree", "bitmap"]))
            case kind:
                wanted = rng.choice(self.rows)["id"] if self.rows else 0
                values = {key: value for key, value in self.value().items() if rng.random() < 0.6 and value is not None}
                found = [row for row in self.rows if row["id"] == wanted]
                if not found or (kind == "update" and not values):
                    return
                self.peer.update(self.name, "id", wanted, values if kind == "update" else {})
                for row in found:
                    if kind == "update":
                        row.update(values)
                    else:
                        self.rows.remove(row)


@pytest.mark.parametrize("number", range(60 if LONG else 1))
def test_filters_of_a_table_that_changes_give_its_rows(peer: Pypaimon, number: int) -> None:
    rng = random.Random(f"{SEED} {number}")
    world = World(peer, f"random_{number}", rng)
    for _ in range(12):
        world.step()
        table = pp.Table.open(world.path)
        for condition in rng.sample(FILTERS, 5):
            text = condition.format(n=rng.randrange(-3, 12), m=rng.randrange(-3, 12), s=rng.choice(["a", "b", "é"]))
            wanted = table.scan(filter=text, options=OFF).to_arrow().to_pylist()
            found = table.scan(filter=text).to_arrow().to_pylist()
            assert found == wanted, text
            assert table.count(filter=text) == len(found)
        everything = table.scan().to_arrow().to_pylist()
        assert sorted(map(repr, everything)) == sorted(map(repr, world.rows))
