"""BLOB columns of which data files have descriptors (``blob-descriptor-field``, tables with a primary key)."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.read import read_split
from paimon_pyds.errors import (
    CorruptFileError,
    MissingFileError,
    NotFoundError,
    OptionError,
    SchemaError,
    SecurityError,
    UnknownColumnError,
    UnsupportedError,
)
from paimon_pyds.format.blob.references import (
    BlobDescriptor,
    decode_descriptor,
    decode_references,
    encode_descriptor,
    encode_references,
)
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.newer_writer import rename_columns
from support.peers import Pypaimon

EVOLVES = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
OPTIONS = EVOLVES | {"blob-descriptor-field": "pic"}
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


@pytest.mark.parametrize("keyed", [False, True])
def test_columns_that_are_dropped(keyed: bool, tmp_path: Path) -> None:
    """Java alters no table whose options name columns that are not there."""
    key, options = ("id", {"bucket": "1"}) if keyed else ((), EVOLVES)
    options = options | {"blob-descriptor-field": "old , pic"}
    columns = "id INT NOT NULL, n INT, pic BLOB, old BLOB"
    table = pp.Table.create(tmp_path / "t", columns, primary_key=key, options=options)
    (tmp_path / "t" / "pictures").write_bytes(bytes(range(256)))
    table.append([{"id": 1, "n": 1, "pic": place(table, 5, 2), "old": place(table, 9, 1)}])
    table.alter(drop_columns=["old"])
    assert table.options["blob-descriptor-field"] == "pic"
    table.append([{"id": 2, "n": 1, "pic": place(table, 6, 2)}])
    with pytest.raises(SchemaError, match="blob-descriptor-field"):
        table.append([{"id": 3, "n": 1, "pic": b"bytes"}])
    rows = [{"id": 1, "n": 1, "pic": b"\5\6"}, {"id": 2, "n": 1, "pic": b"\6\7"}]
    for _ in range(2):
        assert table.to_arrow().sort_by("id").to_pylist() == rows
        before = [{"id": 1, "n": 1, "pic": b"\5\6", "old": b"\x09"}]
        assert table.scan("old IS NOT NULL", snapshot=1).to_arrow().to_pylist() == before
        table.compact(full=True)
    table.alter(drop_columns=["pic"])
    assert "blob-descriptor-field" not in table.options
    table.alter(add_columns={"pic": "BLOB"})
    table.append([{"id": 2, "n": 2, "pic": b"bytes"}])
    assert table.scan("pic IS NOT NULL").to_arrow().to_pylist() == [{"id": 2, "n": 2, "pic": b"bytes"}]


def test_options_name_blob_columns(tmp_path: Path) -> None:
    for options, said in (
        ({"blob-descriptor-field": "none"}, "names none, which is no column of type BLOB"),
        ({"blob-view-field": "id"}, "names id, which is no column of type BLOB"),
        ({"blob-field": "b, id"}, "names id, which is no column of type BLOB"),
        ({"blob-view-field": "b", "blob-descriptor-field": "b"}, "both name b"),
    ):
        with pytest.raises(OptionError, match=said):
            pp.Table.create(tmp_path / "t", "id INT, b BLOB", options=EVOLVES | options)
    options = {"bucket": "1", "merge-engine": "partial-update", "fields.s.sequence-group": "b"}
    for function, more, taken in (
        ("last_value", {}, True), ("first_value", {}, False),
        ("first_value", {"fields.b.ignore-retract": "true"}, True),
        ("first_value", {"ignore-delete": "true"}, True), ("first_value", {"blob-descriptor-field": "b"}, True),
    ):  # fmt: skip
        own = options | {"fields.b.aggregate-function": function} | more
        arguments = (tmp_path / f"{function}{len(more)}{''.join(more)}", "id INT NOT NULL, s INT, b BLOB")
        if taken:
            pp.Table.create(*arguments, primary_key="id", options=own)
        else:
            with pytest.raises(OptionError, match="ignore-retract"):
                pp.Table.create(*arguments, primary_key="id", options=own)


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
    table = _retyped(path, b="BLOB")
    assert table.to_arrow()["b"].to_pylist() == [b"012", b"123", b"234"]
    assert table.scan("id = 2").to_arrow()["b"].to_pylist() == [b"234"]
    assert table.scan(options=AS_DESCRIPTORS).to_arrow()["b"][1].as_py() == place(table, 1, 3, "blobs")
    assert table.scan("b IS NULL").count() == 0


def _retyped(path: Path, **types: object) -> pp.Table:
    """A table whose columns have other types from now on."""
    file = path / "schema" / "schema-0"
    schema = json.loads(file.read_text())
    for field in schema["fields"]:
        field["type"] = types.get(field["name"], field["type"])
    file.write_text(json.dumps(schema))
    METADATA_CACHE.clear()
    return pp.Table.open(path)


def test_references_in_arrays_and_maps(tmp_path: Path) -> None:
    path = tmp_path / "t"
    columns = {"id": "INT NOT NULL", "a": "ARRAY<BYTES>", "m": "MAP<STRING, BYTES>"}
    table = pp.Table.create(path, columns, primary_key="id", options={"bucket": "1"})
    (path / "pictures").write_bytes(bytes(range(256)))
    rows = [
        {"id": 1, "a": [place(table, 1, 2), None, place(table, 9, 0)], "m": [("x", place(table, 3, 1)), ("y", None)]},
        {"id": 2, "a": None, "m": []},
        {"id": 3, "a": [], "m": None},
        {"id": 4, "a": [place(table, 7, 200)] * 3, "m": [("z", place(table, 5, 2))]},
    ]
    table.append(rows)
    blobs = {"a": {"type": "ARRAY", "element": "BLOB"}, "m": {"type": "MAP", "key": "STRING", "value": "BLOB"}}
    table = _retyped(path, **blobs)
    wanted = [
        {"id": 1, "a": [b"\1\2", None, b""], "m": [("x", b"\3"), ("y", None)]}, rows[1], rows[2],
        {"id": 4, "a": [bytes(range(7, 207))] * 3, "m": [("z", b"\5\6")]},
    ]  # fmt: skip
    assert table.to_arrow().to_pylist() == wanted
    plan = table.scan().plan()
    batches = [b for split in plan.splits for b in read_split(replace(split, spec=replace(plan.spec, batch_bytes=4)))]
    assert len(batches) > 1 and pa.Table.from_batches(batches).to_pylist() == wanted
    assert table.scan(options=AS_DESCRIPTORS).to_arrow().to_pylist() == rows
    assert table.scan("a IS NULL", columns=["id"]).to_arrow()["id"].to_pylist() == [2]


def _packs(path: Path) -> tuple[set[str], set[str]]:
    """The packs in a table, and those that files next to its live data files name."""
    named = set()
    live = {Path(file.path).name for file in pp.Table.open(path).scan().plan().files}
    for file in path.rglob("*.blobref"):
        data = file.read_bytes()
        assert data[:5] == b"PBLR\x01" and data[-4:] == struct.pack(">I", zlib.crc32(data[4:-4]))
        (count,), at = struct.unpack(">i", data[5:9]), 9
        for _ in range(count):
            texts = []
            for _ in range(2):
                (size,) = struct.unpack_from(">H", data, at)
                texts.append(data[at + 2 : at + 2 + size].decode())
                at += 2 + size
            assert Path(texts[0]) == file.parent
            if file.name.removesuffix(".blobref") in live:
                named.add(texts[1])
        assert at == len(data) - 4
    return {file.name for file in path.rglob("*.managed.blob")}, named


@pytest.mark.parametrize(
    "more",
    [{"file.format": "orc"}, {"merge-engine": "partial-update"}, {"file.format": "avro", "bucket": "-1"}],
    ids=str,
)
def test_values_of_tables_with_a_primary_key(more: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"bucket": "1", "blob.target-file-size": "8 b", "write-only": "true"} | more
    table = pp.Table.create(path, "id INT NOT NULL, v STRING, b BLOB, c BLOB", primary_key="id", options=options)
    model = {i: {"id": i, "v": f"v{i}", "b": bytes([i]) * i if i % 3 else None, "c": b""} for i in range(8)}
    table.append(list(model.values()))
    there, named = _packs(path)
    assert there == named and len(there) > 3
    model[2] = {"id": 2, "v": "new", "b": b"another", "c": b"\0"}
    table.append([model[2]])
    table.update({"v": "'u'"}, "id >= 6")
    model[6]["v"] = model[7]["v"] = "u"
    if "merge-engine" not in more:
        table.delete("id = 5")
        del model[5]
    for _ in range(2):
        assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == [model[i] for i in sorted(model)]
        null = table.scan("b IS NULL", columns=["id"]).to_arrow()["id"].to_pylist()
        assert sorted(null) == [i for i in model if model[i]["b"] is None]
        assert _packs(path)[1] <= _packs(path)[0]
        table.compact(full=True)
        table.snapshots.expire(retain_max=1)
        os.utime(next(path.rglob("*.managed.blob")), (0, 1))
        table.maintenance.remove_orphan_files()
    assert len(_packs(path)[1]) < len(there) + 2  # those of rows that are gone are named no more, and stay
    with pytest.raises(UnsupportedError, match="new values by append alone"):
        table.update({"b": "CAST('p' AS BINARY)"}, "id = 1")


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_copies_of_tables_with_a_primary_key_have_packs_of_their_own(file_format: str, tmp_path: Path) -> None:
    options = {"bucket": "2", "blob.target-file-size": "64 b", "write-only": "true", "file.format": file_format}
    columns = "p STRING, id INT NOT NULL, v STRING, b BLOB, c BLOB"
    table = pp.Table.create(tmp_path / "t", columns, primary_key=["p", "id"], partition_by=["p"], options=options)
    blobs = [bytes([i]) * i if i % 3 else None for i in range(9)]
    table.append([{"p": f"p{i % 2}", "id": i, "v": f"v{i}", "b": blob, "c": None} for i, blob in enumerate(blobs)])
    rename_columns(tmp_path / "t", {"b": "d"})
    table = pp.Table.open(tmp_path / "t")
    table.alter(set_options={"data-file.thin-mode": "true"})
    table.append([{"p": "p0", "id": i, "v": "new", "d": b"d", "c": b""} for i in (2, 8)])
    table.delete("id = 1")
    table.maintenance.rescale(1, where="p = 'p0'")
    rows = table.to_arrow().sort_by("id")
    for name, where in (("all", None), ("part", "p = 'p0'")):
        planned = table.maintenance.clone(tmp_path / name, where=where, dry_run=True)
        done = table.maintenance.clone(tmp_path / name, where=where)
        assert (planned.files, planned.bytes) == (done.files, done.bytes)
    shutil.move(tmp_path / "t", tmp_path / "gone")
    for name, wanted in (("all", rows), ("part", rows.filter(pc.equal(rows["p"], "p0")))):
        copy = pp.Table.open(tmp_path / name)
        assert copy.to_arrow().sort_by("id") == wanted
        assert copy.lookup([("p0", 8)])["d"].to_pylist() == [b"d"]
        assert not copy.maintenance.verify(deep=True).findings
        there, named = _packs(tmp_path / name)
        assert there == named
        copy.compact(full=True)
        assert copy.to_arrow().sort_by("id") == wanted


def test_descriptors_of_a_part_of_a_value_in_a_pack(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT NOT NULL, b BLOB", primary_key="id", options={"bucket": "1"})
    table.append([{"id": 1, "b": b"0123456789"}])
    whole = decode_descriptor(table.scan(options=AS_DESCRIPTORS).to_arrow()["b"][0].as_py())
    other = pp.Table.create(tmp_path / "o", "id INT, pic BLOB", options=OPTIONS)
    parts = [whole._replace(offset=whole.offset + at, length=length) for at, length in ((0, 10), (2, 3), (0, 0))]
    other.append([{"id": i, "pic": encode_descriptor(part)} for i, part in enumerate(parts)])
    other = pp.Table.open(other.path, storage_options={"external-paths.allow": str(tmp_path / "t")})
    assert other.to_arrow()["pic"].to_pylist() == [b"0123456789", b"234", b""]


def test_packs_that_are_gone_are_found(tmp_path: Path) -> None:
    options = {"bucket": "1", "blob.target-file-size": "8 b", "write-only": "true"}
    table = pp.Table.create(tmp_path / "t", "id INT NOT NULL, b BLOB", primary_key="id", options=options)
    for _ in range(2):
        table.append([{"id": i, "b": bytes([i])} for i in range(3)])
    assert not table.maintenance.verify().findings
    pack = next((tmp_path / "t").rglob("*.managed.blob"))
    listed = next((tmp_path / "t").rglob("*.blobref"))
    pack.unlink()
    assert [(each.kind, each.path) for each in table.maintenance.verify().findings] == [("data-file", str(pack))]
    listed.write_bytes(listed.read_bytes()[:-1])
    assert ("data-file", str(listed)) in [(each.kind, each.path) for each in table.maintenance.verify().findings]


def test_lists_of_packs_that_are_damaged() -> None:
    uris = [f"{folder}/data-{i}.managed.blob" for folder in ("/w/t", "file:/w/é\U0001f600\0") for i in range(3)]
    data = encode_references([*uris, "/w/t/other"])
    assert sorted(decode_references(data, "list")) == sorted(uris)
    assert decode_references(encode_references([]), "list") == []

    def with_crc(body: bytes) -> bytes:
        return data[:4] + body + struct.pack(">I", zlib.crc32(body))

    body, places = data[4:-4], range(len(data))
    wrong = [data[:n] for n in places] + [bytes([*data[:n], data[n] ^ 1, *data[n + 1 :]]) for n in places]
    wrong += [with_crc(body[:n]) for n in range(len(body))] + [with_crc(body + b"\0")]
    wrong += [with_crc(body[:1] + struct.pack(">i", n) + body[5:]) for n in (-1, 5, 7, 2**31 - 1)]
    wrong += [with_crc(b"\2" + body[1:]), with_crc(b"\1" + struct.pack(">iHBHB", 1, 1, 255, 1, 65))]
    for each in wrong:
        with pytest.raises(CorruptFileError):
            decode_references(each, "list")


def test_descriptors_in_tables_with_a_primary_key(tmp_path: Path) -> None:
    """They are written as they are, whatever the table's changelog; and copied where that is wanted."""
    path = tmp_path / "t"
    options = {"bucket": "1", "blob-descriptor-field": "b", "changelog-producer": "input"}
    table = pp.Table.create(path, "id INT NOT NULL, b BLOB", primary_key="id", options=options)
    (path / "pictures").write_bytes(bytes(range(256)))
    table.append([{"id": i, "b": place(table, i, 2)} for i in range(3)])
    assert table.to_arrow()["b"].to_pylist() == [bytes([i, i + 1]) for i in range(3)]
    with pytest.raises(SchemaError, match="blob-descriptor-field"):
        table.append([{"id": 1, "b": b"bytes"}])
    with pytest.raises(UnsupportedError, match="no references"):
        table.append([{"id": 1, "b": None}], options={"file.format": "row"})
    other = pp.Table.create(tmp_path / "o", "id INT NOT NULL, b BLOB", primary_key="id", options={"bucket": "1"})
    (tmp_path / "o" / "pictures").write_bytes(bytes(range(256)))
    other.append([{"id": 1, "b": place(other, 4, 3)}], options=AS_DESCRIPTORS)
    (tmp_path / "o" / "pictures").unlink()
    assert other.to_arrow()["b"].to_pylist() == [b"\4\5\6"]


def test_rows_by_their_keys_have_bytes(tmp_path: Path) -> None:
    options = {"bucket": "1", "blob.target-file-size": "8 b"}
    table = pp.Table.create(tmp_path / "t", "id INT NOT NULL, b BLOB", primary_key="id", options=options)
    table.append([{"id": i, "b": bytes([i]) * i if i else None} for i in range(20)])
    next((tmp_path / "t").rglob("*-0.managed.blob")).unlink()  # of a row that nobody wants
    table.append([{"id": 3, "b": b"new"}])
    assert table.lookup([7, 3, 0, 99]).to_pylist() == [
        {"id": 7, "b": bytes([7]) * 7}, {"id": 3, "b": b"new"}, {"id": 0, "b": None},
    ]  # fmt: skip
    assert table.lookup([9], columns=["b"]).to_pylist() == [{"b": bytes([9]) * 9}]
    assert table.lookup([9], columns=["b"], options=AS_DESCRIPTORS)["b"][0].as_py()[1:9] == b"CSEDBOLB"


def test_rows_that_wait_for_their_buckets_have_bytes(tmp_path: Path) -> None:
    path, options = tmp_path / "t", {"bucket": "-2", "blob-descriptor-field": "b"}
    table = pp.Table.create(path, "id INT NOT NULL, b BLOB", primary_key="id", options=options)
    (path / "pictures").write_bytes(bytes(range(256)))
    table.append([{"id": i, "b": place(table, i, 2)} for i in (1, 2)])
    table.compact(full=True)
    waiting = {"postpone.batch-write-fixed-bucket": "false"}
    table.append([{"id": i, "b": place(table, 9 * i, 2)} for i in (2, 3)], options=waiting)
    merged = {"postpone.merge-on-read": "true"}
    wanted = [{"id": i, "b": bytes([at, at + 1])} for i, at in ((1, 1), (2, 18), (3, 27))]
    assert table.scan(options=merged).to_arrow().to_pylist() == wanted
    assert table.lookup([1, 2, 3], options=merged).to_pylist() == wanted
    with pytest.raises(SchemaError, match="blob-descriptor-field"):
        table.append([{"id": 4, "b": b"bytes"}], options=waiting)
    stored = table.scan("id = 2", columns=["b"], options=merged | AS_DESCRIPTORS).to_arrow()["b"].to_pylist()
    assert stored == [place(table, 18, 2)]


@pytest.mark.parametrize("keyed", [False, True])
def test_views_of_another_table(keyed: bool, tmp_path: Path) -> None:
    first = pp.Table.create(tmp_path / "w" / "a.db" / "up", "id INT, pic BLOB, own BLOB", options=OPTIONS)
    (tmp_path / "w" / "a.db" / "up" / "pictures").write_bytes(bytes(range(256)))
    first.append([{"id": i, "pic": place(first, i, 2), "own": None if i == 3 else bytes([i]) * 9} for i in range(6)])
    first.update({"own": "CAST('new' AS BINARY)"}, "id = 5")
    first.delete("id = 0")

    def view(i: int, column: int = 2, table: str = "a.up") -> bytes:
        name = table.encode()
        return b"\x01WEIVBOLB" + struct.pack("<i", len(name)) + name + struct.pack("<iq", column, i)

    options = {"bucket": "1"} if keyed else EVOLVES
    key = {"primary_key": "id"} if keyed else {}
    columns = "id INT NOT NULL, v BLOB, n INT"
    table = pp.Table.create(tmp_path / "w" / "b.db" / "t", columns, options=options | {"blob-view-field": "v"}, **key)
    table.append([{"id": i, "v": view(i) if i else None, "n": i} for i in range(6)])
    table.append([{"id": 9, "v": view(4, 1), "n": 9}])
    table.update({"n": "0"}, "id = 2")
    wanted = [None, b"\1" * 9, b"\2" * 9, None, b"\4" * 9, b"new", b"\4\5"]
    assert table.to_arrow().sort_by("id")["v"].to_pylist() == wanted
    plan = pickle.loads(pickle.dumps(table.scan("id = 5").plan()))
    assert [row["v"] for split in plan.splits for batch in read_split(split) for row in batch.to_pylist()] == [b"new"]
    raw = table.scan("id = 4", options={"blob-view.resolve.enabled": "false"}).to_arrow()["v"].to_pylist()
    assert raw == [view(4)]
    with pytest.raises(SchemaError, match="blob-view-field"):
        table.append([{"id": 1, "v": b"bytes", "n": 0}])
    for wrong, error in (
        (view(0), CorruptFileError), (view(99), CorruptFileError), (view(1, 77), UnknownColumnError),
        (view(1, 0), CorruptFileError),
        (view(1, 1, "b.t"), UnsupportedError), (view(1, 1, "a.none"), NotFoundError),
        (view(1, 1, "../a.up"), UnsupportedError), (view(1, 2, "a.up$files"), UnsupportedError),
    ):  # fmt: skip
        table.append([{"id": 8, "v": wrong, "n": 8}])
        with pytest.raises(error) as caught:
            table.to_arrow()
        table.delete("id = 8")
        assert error is not UnsupportedError or caught.value.feature == "blob"


def test_pypaimon_reads_the_same(tmp_path: Path) -> None:
    other = Pypaimon(tmp_path)
    table = create(tmp_path / "db.db" / "t")
    append(table, *range(5))
    table.update({"name": "'x'"}, "id = 1")
    rows = [expected(i, **({"name": "x"} if i == 1 else {})) for i in range(5)]
    assert sorted(other.read("t").to_pylist(), key=lambda each: each["id"]) == rows
