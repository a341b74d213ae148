"""BLOB columns written here: random operations, rolled files, descriptors as input, and peers that read on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError, PaimonError, SchemaError, SecurityError, UnsupportedError
from paimon_pyds.format.blob.references import BlobDescriptor, encode_descriptor
from support.effort import LONG, SEED
from support.newer_writer import rename_columns
from support.peers import Pypaimon, Rust

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
COLUMNS = "id INT, name STRING, pic BLOB, gal ARRAY<BLOB>, mp MAP<INT, BLOB>"
AS_DESCRIPTORS = {"blob-as-descriptor": "true"}


def row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "name": f"n{i}",
        "pic": None if i % 3 == 0 else bytes([i % 256]) * (i % 50),
        "gal": None if i % 4 == 0 else [b"x", None, b""][: i % 4],
        "mp": None if i % 2 else [(i, b"v"), (i + 1, None)],
    }


def create(path: Path, **options: str) -> pp.Table:
    return pp.Table.create(path, COLUMNS, options=OPTIONS | options)


def append(table: pp.Table, rows: list[dict[str, Any]], **options: str) -> None:
    table.append(pa.Table.from_pylist(rows, table.arrow_schema), options=options)


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda each: each["id"])


def rows_of(table: pp.Table, where: str | None = None) -> list[dict[str, Any]]:
    return by_id(pp.Table.open(table.path).scan(where).to_arrow().to_pylist())


class Model:
    """A table, and its rows by id."""

    def __init__(self, table: pp.Table, rng: random.Random) -> None:
        self.table, self.rng = table, rng
        self.rows: dict[int, dict[str, Any]] = {}

    def step(self) -> None:
        self.rng.choice([self.append, self.name, self.pic, self.merge, self.delete, self.compact, self.fill])()

    def some(self) -> list[int]:
        return sorted(self.rng.sample(sorted(self.rows), self.rng.randint(0, min(4, len(self.rows)))))

    def among(self, ids: list[int]) -> str:
        return f"id IN ({', '.join(map(str, ids))})" if ids else "FALSE"

    def append(self) -> None:
        start = max(self.rows, default=0) + 1
        new = [row(i) for i in range(start, start + self.rng.randint(1, 9))]
        append(self.table, new, **{"blob.target-file-size": self.rng.choice(["30 b", "1 mb"])})
        self.rows |= {each["id"]: each for each in new}

    def name(self) -> None:
        ids = self.some()
        self.table.update({"name": "concat(name, '!')"}, self.among(ids))
        for i in ids:
            self.rows[i]["name"] += "!"

    def pic(self) -> None:
        ids = self.some()
        self.table.update({"pic": "CAST(name AS BINARY)", "name": "'p'"}, self.among(ids))
        for i in ids:
            self.rows[i] |= {"pic": self.rows[i]["name"].encode(), "name": "p"}

    def merge(self) -> None:
        ids = self.some()
        values = [None if self.rng.random() < 0.3 else self.rng.randbytes(self.rng.randint(0, 20)) for _ in ids]
        source = pa.table({"id": pa.array(ids, pa.int32()), "pic": pa.array(values, pa.binary())})
        self.table.merge(source, on="id", when_matched=[pp.Update({"pic": "source.pic"})])
        for i, value in zip(ids, values, strict=True):
            self.rows[i]["pic"] = value

    def delete(self) -> None:
        ids = self.some()
        self.table.delete(self.among(ids))
        for i in ids:
            del self.rows[i]

    def fill(self) -> None:
        self.table.update({"pic": "CAST('full' AS BINARY)"}, "pic IS NULL AND id % 2 = 0")
        for i, each in self.rows.items():
            each["pic"] = b"full" if each["pic"] is None and i % 2 == 0 else each["pic"]

    def compact(self) -> None:
        self.table.compact(full=True)

    def check(self) -> None:
        rows = by_id(list(self.rows.values()))
        assert rows_of(self.table) == rows
        assert rows_of(self.table, "pic IS NULL") == [each for each in rows if each["pic"] is None]


@pytest.mark.parametrize("number", range(40 if LONG else 2))
def test_random_operations(tmp_path: Path, number: int) -> None:
    model = Model(create(tmp_path / "t"), random.Random(f"{SEED}-{number}"))
    for _ in range(12):
        model.step()
        model.check()
    report = model.table.maintenance.verify()
    assert not report.findings, str(report)


def test_files_roll_and_rows_keep_their_ids(tmp_path: Path) -> None:
    table = create(tmp_path / "t", **{"target-file-row-num": "7", "blob.target-file-size": "200 b"})
    rows = [row(i) for i in range(50)]
    append(table, rows)
    assert rows_of(table) == rows
    names = [path.name for path in (tmp_path / "t" / "bucket-0").iterdir()]
    assert sum(name.endswith(".parquet") for name in names) == 8
    assert sum(name.endswith(".blob") for name in names) > 24
    ids = table.scan(columns=["id", "_ROW_ID"]).to_arrow().to_pylist()
    assert all(each["id"] == each["_ROW_ID"] for each in ids)
    table.append(pa.Table.from_pylist([row(99)], table.arrow_schema))
    (last,) = table.scan("id = 99", columns=["_ROW_ID"]).to_arrow()["_ROW_ID"].to_pylist()
    assert last == 50


def test_an_update_of_other_columns_leaves_blob_files_alone(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    append(table, [row(i) for i in range(20)])
    blobs = tmp_path / "t" / "bucket-0"
    before = set(blobs.glob("*.blob"))
    table.update({"name": "'new'"}, "id < 5")
    assert set(blobs.glob("*.blob")) == before
    table.update({"pic": "NULL"}, "id = 7")
    (new,) = set(blobs.glob("*.blob")) - before
    assert new.stat().st_size < 60  # placeholders only


def test_descriptors_are_copied(tmp_path: Path) -> None:
    source, target = create(tmp_path / "a"), create(tmp_path / "b")
    append(source, [row(i) for i in range(9)])
    rows = source.scan(columns=["id", "pic"], options=AS_DESCRIPTORS).to_arrow()
    with pytest.raises(SecurityError, match=r"external-paths\.allow"):
        target.append(rows, options={**AS_DESCRIPTORS, "missing-columns": "null"})
    assert [path.name for path in (tmp_path / "b").glob("bucket-0/*")] == []
    within = create(tmp_path / "a2")
    append(source, [row(20)])
    source.append(rows, options={**AS_DESCRIPTORS, "missing-columns": "null"})
    copied = [(r["id"], r["pic"]) for r in source.scan("name IS NULL").to_arrow().to_pylist()]
    assert copied == [(i, row(i)["pic"]) for i in range(9)]
    (tmp_path / "a2" / "big").write_bytes(bytes(range(256)) * 100_000)
    for length in (20_000_000, -1):
        value = encode_descriptor(BlobDescriptor(str(tmp_path / "a2" / "big"), 5, length))
        within.append([{"id": 1, "pic": value}], options={**AS_DESCRIPTORS, "missing-columns": "null"})
    sizes = [len(value) for value in within.to_arrow()["pic"].to_pylist()]
    assert sizes == [20_000_000, 25_599_995]
    with pytest.raises(CorruptFileError, match="no descriptor"):
        within.append([{"id": 1, "pic": b"abc"}], options={**AS_DESCRIPTORS, "missing-columns": "null"})


def test_an_append_that_fails_leaves_nothing(tmp_path: Path) -> None:
    table = create(tmp_path / "t")

    def batches() -> Iterator[pa.RecordBatch]:
        yield from pa.Table.from_pylist([row(i) for i in range(50)], table.arrow_schema).to_batches()
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        table.append(pa.RecordBatchReader.from_batches(table.arrow_schema, batches()))
    assert list((tmp_path / "t").glob("bucket-0/*")) == [] and table.count() == 0


def test_what_tables_may_have_blobs(tmp_path: Path) -> None:
    for columns, how, error in (
        (COLUMNS, {}, UnsupportedError),
        ("id INT, b BLOB", {"options": {"row-tracking.enabled": "true"}}, UnsupportedError),
        ("id INT, b BLOB", {"options": OPTIONS, "primary_key": ["id"]}, PaimonError),
        ("b BLOB", {"options": OPTIONS}, SchemaError),
        ("id INT, b ROW<c BLOB>", {"options": OPTIONS}, UnsupportedError),
        ("id INT, b ARRAY<ARRAY<BLOB>>", {"options": OPTIONS}, UnsupportedError),
        ("id INT, b ARRAY<BLOB>", {"options": {**OPTIONS, "blob-descriptor-field": "b"}}, UnsupportedError),
        ("id INT, b BLOB", {"options": {"blob-descriptor-field": "b"}}, UnsupportedError),
    ):
        with pytest.raises(error):
            pp.Table.create(tmp_path / "t", columns, **how)  # type: ignore[arg-type]
        assert not (tmp_path / "t").exists()
    table = pp.Table.create(tmp_path / "t", "id INT", options=OPTIONS)
    table.append([{"id": 1}])
    table.alter(add_columns={"b": "BLOB"})
    table.append([{"id": 2, "b": b"x"}])
    assert rows_of(table) == [{"id": 1, "b": None}, {"id": 2, "b": b"x"}]
    table.update({"b": "CAST('y' AS BINARY)"}, "id = 1")
    assert rows_of(table) == [{"id": 1, "b": b"y"}, {"id": 2, "b": b"x"}]


@pytest.mark.parametrize("peer", ["pypaimon", "pypaimon-rust"])
def test_peers_read_on(tmp_path: Path, peer: str) -> None:
    other = Rust(tmp_path) if peer == "pypaimon-rust" else Pypaimon(tmp_path)
    model = Model(create(tmp_path / "db.db" / "t"), random.Random(f"{SEED}-{peer}"))
    model.append()
    for turn in range(10 if LONG else 5):
        (model.append, model.pic, model.compact, model.merge, model.name)[turn % 5]()
        model.step()
        assert by_id(other.read("t").to_pylist()) == by_id(list(model.rows.values())), turn
        new = row(max(model.rows, default=0) + 1)
        other.append("t", pa.Table.from_pylist([new], model.table.arrow_schema))
        model.rows[new["id"]] = new
        model.check()


def blob_files(table: pp.Table) -> set[str]:
    return {path.name for path in (Path(table.path) / "bucket-0").glob("*.blob")}


def test_compaction_joins_the_other_columns_and_leaves_blob_files(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT", options=OPTIONS)
    for i in range(4):
        table.append([{"id": i}])
    table.alter(add_columns={"b": "BLOB"})
    for i in range(4, 8):
        table.append([{"id": i, "b": bytes([i])}])
    table.update({"id": "id + 10"}, "id = 5")
    before, blobs = rows_of(table), blob_files(table)
    table.compact(full=True)
    assert rows_of(table) == before
    assert blob_files(table) == blobs and len(blobs) == 4
    live = table.system.read("files")["file_path"].to_pylist()
    assert sum(name.endswith(".parquet") for name in live) == 2  # Java reads BLOB files of all rows, or of none
    table.update({"b": "CAST('new' AS BINARY)"}, "id = 1 OR id = 7")
    assert rows_of(table, "id = 1") == [{"id": 1, "b": b"new"}]
    table.compact(full=True)
    live = table.system.read("files")["file_path"].to_pylist()
    assert sum(name.endswith(".parquet") for name in live) == 1
    assert rows_of(table, "id = 7") == [{"id": 7, "b": b"new"}]
    assert rows_of(table, "id = 4") == [{"id": 4, "b": bytes([4])}]


def test_a_renamed_column_keeps_the_name_that_its_files_have(tmp_path: Path) -> None:
    """Java Paimon reads no rows of which two BLOB files name their column differently."""
    table = create(tmp_path / "t")
    append(table, [row(i) for i in range(4)])
    rename_columns(tmp_path / "t", {"pic": "image"})
    table = pp.Table.open(tmp_path / "t")
    table.alter(add_columns={"pic": "BLOB"})
    table.update({"image": "CAST('x' AS BINARY)", "pic": "CAST('y' AS BINARY)"}, "id = 1")
    table.update({"pic": "CAST('z' AS BINARY)"}, "id = 2")
    found = table.scan(columns=["id", "image", "pic"]).to_arrow().to_pylist()
    assert [(r["image"], r["pic"]) for r in found] == [
        (None, None), (b"x", b"y"), (row(2)["pic"], b"z"), (row(3)["pic"], None),
    ]  # fmt: skip
    entries = table.system.read("files").to_pylist()
    names = {(each["schema_id"], *(each["write_cols"] or ())) for each in entries if ".blob" in each["file_path"]}
    assert {name for name in names if name[1:] in (("image",), ("pic",))} == {(0, "pic"), (2, "pic")}
