"""BLOB columns of which data files have descriptors (``blob-descriptor-field``, tables with a primary key)."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.read import read_split
from paimon_pyds.errors import CorruptFileError, MissingFileError, SchemaError, SecurityError
from paimon_pyds.format.blob.references import BlobDescriptor, encode_descriptor
from paimon_pyds.metadata.store import METADATA_CACHE
from support.peers import Pypaimon

OPTIONS = {
    "row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true",
    "blob-descriptor-field": "pic",
}  # fmt: skip
AS_DESCRIPTORS = {"blob-as-descriptor": "true"}


def create(path: Path, **options: str) -> pp.Table:
    table = pp.Table.create(path, "id INT, name STRING, pic BLOB, own BLOB", options=OPTIONS | options)
    (path / "pictures").write_bytes(bytes(range(256)))
    return table


def place(table: pp.Table, offset: int, length: int, name: str = "pictures") -> bytes:
    return encode_descriptor(BlobDescriptor(f"{table.path}/{name}", offset, length))


def row(table: pp.Table, i: int) -> dict[str, object]:
    pic = None if i % 3 == 0 else place(table, i, i % 5)
    return {"id": i, "name": f"n{i}", "pic": pic, "own": bytes([i])}


def expected(i: int, **changed: object) -> dict[str, object]:
    pic = None if i % 3 == 0 else bytes(range(i, i + i % 5))
    return {"id": i, "name": f"n{i}", "pic": pic, "own": bytes([i]), **changed}


def append(table: pp.Table, *ids: int) -> None:
    table.append(pa.Table.from_pylist([row(table, i) for i in ids], table.arrow_schema))


def test_bytes_are_read_and_descriptors_written(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    append(table, *range(10))
    append(table, *range(10, 14))
    assert table.to_arrow().to_pylist() == [expected(i) for i in range(14)]
    stored = table.scan(options=AS_DESCRIPTORS).to_arrow()["pic"].to_pylist()
    assert stored == [row(table, i)["pic"] for i in range(14)]
    assert table.scan("pic IS NULL", columns=["id"]).to_arrow()["id"].to_pylist() == [0, 3, 6, 9, 12]
    assert table.scan("id = 4", columns=["pic"]).to_arrow().to_pylist() == [{"pic": bytes(range(4, 8))}]
    assert table.scan("pic IS NOT NULL", top_n="id DESC, 1").to_arrow().to_pylist() == [expected(13)]
    assert table.scan(limit=2).to_arrow().to_pylist() == [expected(0), expected(1)]
    splits = table.scan().plan().pack(target_size=1)
    read = [b for split in splits for b in read_split(pickle.loads(pickle.dumps(split)))]
    assert pa.Table.from_batches(read).to_pylist() == [expected(i) for i in range(14)]


def test_changes_keep_descriptors(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    append(table, 0, 1, 2, 4)
    append(table, 5)
    table.update({"name": "'x'"}, "id = 1")
    source = pa.Table.from_pylist([{"id": 2, "pic": place(table, 100, 3)}], table.arrow_schema.remove(3).remove(1))
    table.merge(source, on="id", when_matched=[pp.Update({"pic": "source.pic"})])
    table.update({"pic": "NULL", "own": "CAST('o' AS BINARY)"}, "id = 4")
    table.delete("id = 0")
    table.compact(full=True)
    rows = sorted(table.to_arrow().to_pylist(), key=lambda each: each["id"])
    assert rows == [
        expected(1, name="x"), expected(2, pic=bytes([100, 101, 102])), expected(4, pic=None, own=b"o"), expected(5),
    ]  # fmt: skip
    for wrong in (b"bytes", place(table, 0, 1)[:-1], b""):
        with pytest.raises(SchemaError, match="blob-descriptor-field"):
            table.append([{"id": 9, "name": "", "pic": wrong, "own": None}])
    with pytest.raises(SchemaError, match="blob-descriptor-field"):
        table.update({"pic": "CAST('p' AS BINARY)"}, "id = 1")
    assert table.count() == 4


def test_batches_are_bounded(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    (tmp_path / "t" / "large").write_bytes(bytes(40 << 20))
    table.append([{"id": i, "name": "", "pic": place(table, i, 20 << 20, "large"), "own": None} for i in range(8)])
    batches = list(table.scan().to_batches())
    assert sum(batch.num_rows for batch in batches) == 8
    assert len(batches) > 1 and all(batch.nbytes < 200 << 20 for batch in batches)


def test_hostile_references(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    for number, (value, error) in enumerate(
        (
            (lambda t: place(t, 250, 10), CorruptFileError),
            (lambda t: place(t, 0, 2**62), CorruptFileError),
            (lambda t: place(t, 2**62, 2**62), CorruptFileError),
            (lambda t: place(t, 0, 1, "gone"), MissingFileError),
            (lambda t: encode_descriptor(BlobDescriptor(str(tmp_path / "secret"), 0, 1)), SecurityError),
            (lambda t: place(t, 0, 1, "../secret"), SecurityError),
        )
    ):
        table = create(tmp_path / f"t{number}")
        table.append([{"id": 1, "name": "", "pic": value(table), "own": None}])
        assert table.scan(columns=["id"]).to_arrow().num_rows == 1
        with pytest.raises(error):
            table.to_arrow()
    value = place(table, 0, 1)
    for wrong in (struct.pack("<i", -1), struct.pack("<i", 2**31 - 1)):
        with pytest.raises(SchemaError):
            table.append([{"id": 1, "name": "", "pic": value[:9] + wrong + value[13:], "own": None}])


def test_tables_with_a_primary_key(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pp.Table.create(path, "id INT NOT NULL, b BYTES", primary_key="id", options={"bucket": "1"})
    (path / "blobs").write_bytes(b"0123456789")
    for length in (1, 3):
        values = [{"id": i, "b": place(table, i, length, "blobs")} for i in range(length)]
        table.append(values)
    file = path / "schema" / "schema-0"
    schema = json.loads(file.read_text())
    schema["fields"][1]["type"] = "BLOB"
    file.write_text(json.dumps(schema))
    METADATA_CACHE.clear()
    table = pp.Table.open(path)
    assert table.to_arrow()["b"].to_pylist() == [b"012", b"123", b"234"]
    assert table.scan("id = 2").to_arrow()["b"].to_pylist() == [b"234"]
    assert table.scan(options=AS_DESCRIPTORS).to_arrow()["b"][1].as_py() == place(table, 1, 3, "blobs")
    assert table.scan("b IS NULL").count() == 0


def test_pypaimon_reads_the_same(tmp_path: Path) -> None:
    other = Pypaimon(tmp_path)
    try:
        table = create(tmp_path / "db.db" / "t")
        append(table, *range(5))
        table.update({"name": "'x'"}, "id = 1")
        rows = [expected(i, **({"name": "x"} if i == 1 else {})) for i in range(5)]
        assert sorted(other.read("t").to_pylist(), key=lambda each: each["id"]) == rows
    finally:
        other.close()
