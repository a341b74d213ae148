"""VECTOR columns in files of their own (``vector.file.format``) written here: random operations, peers that read on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError, UnsupportedError
from support.effort import LONG, SEED
from support.peers import Pypaimon, Rust

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
COLUMNS = "id INT, name STRING, v VECTOR<FLOAT, 2>, w VECTOR<INT, 1>"


def create(path: Path, columns: str = COLUMNS, **options: str) -> pp.Table:
    return pp.Table.create(path, columns, options={**OPTIONS, "vector.file.format": "parquet", **options})


def rows_of(table: pp.Table, where: str | None = None) -> list[dict[str, Any]]:
    rows = pp.Table.open(table.path).scan(where).to_arrow().to_pylist()
    return sorted(rows, key=lambda each: each["id"])


def vector_files(table: pp.Table) -> list[str]:
    return sorted(each.name for each in Path(table.path).glob("bucket-0/*.vector.*"))


class Model:
    """A table, and its rows by id."""

    def __init__(self, table: pp.Table, rng: random.Random) -> None:
        self.table, self.rng = table, rng
        self.rows: dict[int, dict[str, Any]] = {}

    def vector(self) -> list[float] | None:
        return None if self.rng.random() < 0.2 else [self.rng.randrange(9) / 2, 1.0]

    def some(self) -> list[int]:
        return sorted(self.rng.sample(sorted(self.rows), self.rng.randint(1, min(4, len(self.rows)))))

    def append(self, nulls: bool = True) -> list[dict[str, Any]]:
        start = max(self.rows, default=0) + 1
        new = [
            {"id": i, "name": f"n{i}", "v": self.vector() if nulls else [1.0, 2.0], "w": [i]}
            for i in range(start, start + self.rng.randint(1, 6))
        ]
        self.table.append(pa.Table.from_pylist(new, self.table.arrow_schema))
        self.rows |= {each["id"]: each for each in new}
        return new

    def update(self, columns: Sequence[str]) -> None:
        ids = self.some()
        values = {"name": "'x'", "v": "array(0.5, id)", "w": "array(id + 1)"}
        self.table.update({name: values[name] for name in columns}, f"id IN ({', '.join(map(str, ids))})")
        for i in ids:
            new = {"name": "x", "v": [0.5, float(i)], "w": [i + 1]}
            self.rows[i] |= {name: new[name] for name in columns}

    def merge(self) -> None:
        ids = self.some()
        source = [{"id": i, "v": self.vector()} for i in ids]
        schema = pa.schema([self.table.arrow_schema.field(name) for name in ("id", "v")])
        given = pa.Table.from_pylist(source, schema)
        self.table.merge(given, on="id", when_matched=[pp.Update({"v": "source.v"})])
        for each in source:
            self.rows[each["id"]]["v"] = each["v"]

    def delete(self) -> None:
        (i,) = self.some()[:1]
        if len(self.rows) > 1:
            self.table.delete(f"id = {i}")
            del self.rows[i]

    def compact(self) -> None:
        self.table.compact(full=self.rng.random() < 0.7)

    def step(self) -> None:
        columns = self.rng.sample(["name", "v", "w"], self.rng.randint(1, 3))
        operations = [self.append, lambda: self.update(columns), self.merge, self.delete, self.compact]
        self.rng.choices(operations, [3, 4, 2, 1, 2])[0]()

    def check(self) -> None:
        rows = sorted(self.rows.values(), key=lambda each: each["id"])
        assert rows_of(self.table) == rows
        assert rows_of(self.table, "v IS NULL") == [each for each in rows if each["v"] is None]


@pytest.mark.parametrize("number", range(40 if LONG else 1))
def test_random_operations(tmp_path: Path, number: int) -> None:
    model = Model(create(tmp_path / "t"), random.Random(f"{SEED}-{number}"))
    model.append()
    for _ in range(12):
        model.step()
        model.check()
    assert vector_files(model.table)
    report = model.table.maintenance.verify()
    assert not report.findings, str(report)


def test_files_roll_apart_from_each_other(tmp_path: Path) -> None:
    options = {"target-file-row-num": "7", "vector.target-file-size": "1 b", "vector.file.format": "avro"}
    table = create(tmp_path / "t", **options)
    rows = [{"id": i, "name": None, "v": [i, 0.0], "w": None} for i in range(20)]
    table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    assert rows_of(table) == rows
    names = [path.name for path in (tmp_path / "t" / "bucket-0").iterdir()]
    assert sum(name.endswith(".vector.avro") for name in names) >= 3
    assert sum(name.endswith(".parquet") for name in names) == 3
    before = vector_files(table)
    table.update({"name": "'new'"}, "id = 1")
    assert vector_files(table) == before
    assert table.scan("id = 19", columns=["v", "_ROW_ID"]).to_arrow().to_pylist() == [{"v": [19.0, 0.0], "_ROW_ID": 19}]


def test_what_tables_may_have_vector_files(tmp_path: Path) -> None:
    for columns, options, error in (
        (COLUMNS, {"vector.file.format": "orc"}, UnsupportedError),
        (COLUMNS, {"vector.file.format": "lance"}, UnsupportedError),
        (COLUMNS, {"data-evolution.enabled": "false"}, OptionError),
        ("v VECTOR<FLOAT, 2>", {}, OptionError),
    ):
        with pytest.raises(error, match=r"vector\.file\.format"):
            create(tmp_path / "t", columns, **options)
        assert not (tmp_path / "t").exists()


def test_vectors_of_other_columns_are_compacted_first(tmp_path: Path) -> None:
    """Java Paimon takes the first of such files by their columns, not the newest."""
    table = create(tmp_path / "t", "id INT, v VECTOR<FLOAT, 1>")
    schema = table.arrow_schema
    table.append(pa.Table.from_pylist([{"id": 1, "v": [1.0]}, {"id": 2, "v": [2.0]}], schema))
    table.alter(add_columns={"n": "INT"})
    table.update({"v": "array(3.0)"}, "id = 1")
    assert rows_of(table) == [{"id": 1, "v": [3.0], "n": None}, {"id": 2, "v": [2.0], "n": None}]
    table.alter(add_columns={"w": "VECTOR<INT, 1>"})
    before = vector_files(table)
    for change in ({"w": "array(1)"}, {"v": "array(1.0)"}):
        with pytest.raises(UnsupportedError, match="Java Paimon would go on reading"):
            table.update(change, "id = 1")
    assert vector_files(table) == before
    table.compact(full=True)
    table.update({"w": "array(7)"}, "id = 1")
    table.alter(rename_columns={"w": "x"})
    with pytest.raises(UnsupportedError, match="Java Paimon would go on reading"):
        table.update({"v": "array(1.0)"}, "id = 1")
    table.compact(full=True)
    table.update({"v": "array(9.0)"}, "id = 2")
    assert rows_of(table) == [{"id": 1, "v": [3.0], "n": None, "x": [7]}, {"id": 2, "v": [9.0], "n": None, "x": None}]


def test_vectors_in_data_files_are_compacted_first(tmp_path: Path) -> None:
    """Java Paimon takes a column from a data file that has it, whatever vector files say."""
    table = pp.Table.create(tmp_path / "t", "id INT, v VECTOR<FLOAT, 1>", options=OPTIONS)
    schema = table.arrow_schema
    for i in range(2):
        table.append(pa.Table.from_pylist([{"id": i, "v": [1.0]}], schema))
    table.alter({"vector.file.format": "parquet"})
    table.append(pa.Table.from_pylist([{"id": 2, "v": [2.0]}], schema))
    with pytest.raises(UnsupportedError, match="Java Paimon would go on reading"):
        table.update({"v": "array(3.0)"}, "id = 1")
    table.update({"v": "array(4.0)"}, "id = 2")
    table.compact(full=True)
    table.update({"v": "array(3.0)"}, "id = 1")
    assert rows_of(table) == [{"id": 0, "v": [1.0]}, {"id": 1, "v": [3.0]}, {"id": 2, "v": [4.0]}]
    table.alter(unset_options=["vector.file.format"])
    table.update({"v": "array(5.0)"}, "id = 0")
    table.compact(full=True)
    live = table.system.read("files")["file_path"].to_pylist()
    assert len(live) == 1 and ".vector." not in live[0]
    assert rows_of(table) == [{"id": 0, "v": [5.0]}, {"id": 1, "v": [3.0]}, {"id": 2, "v": [4.0]}]


@pytest.mark.parametrize("peer", ["pypaimon", "pypaimon-rust"])
def test_peers_read_on(tmp_path: Path, peer: str) -> None:
    other = Rust(tmp_path) if peer == "pypaimon-rust" else Pypaimon(tmp_path)
    model = Model(create(tmp_path / "db.db" / "t"), random.Random(f"{SEED}-{peer}"))
    model.append()
    for turn in range(3 if LONG else 2):
        for operation in (
            model.append,
            lambda: model.update(["v"]),
            lambda: model.update(["w", "name"]),
            model.merge,
        ):
            operation()
        model.compact()
        model.delete()
        found = sorted(other.read("t").to_pylist(), key=lambda each: each["id"])
        assert found == sorted(model.rows.values(), key=lambda each: each["id"]), turn
        if peer == "pypaimon":
            new = {"id": max(model.rows) + 1, "name": "p", "v": [1.0, 2.0], "w": [3]}
            other.append("t", pa.Table.from_pylist([new], model.table.arrow_schema))
            model.rows[new["id"]] = new
            model.check()
