"""BLOB columns of tables that pypaimon and Java 2.1 wrote, and vectors in files of their own: values, descriptors,
filters, and what is read of the storage."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import (
    ArgumentTypeError,
    CorruptFileError,
    OptionError,
    PredicateError,
    SecurityError,
    UnsupportedError,
)
from paimon_pyds.format.blob.references import BlobDescriptor, decode_descriptor, encode_descriptor
from support.v2_fixtures import Read, read_id, v2_copy, v2_reads, v2_table
from support.values import lines

BLOBS = ("blob", "blob_java", "blob_updated")
VECTORS = ("vector_files", "vector_java")
AS_DESCRIPTORS = {"blob-as-descriptor": "true"}


def opened(name: str) -> pp.Table:
    return pp.Table.open(v2_table(name))


def _options(read: Read) -> dict[str, str]:
    return {} if read.snapshot is None else {"scan.snapshot-id": str(read.snapshot)}


@pytest.mark.parametrize("read", v2_reads(*BLOBS, *VECTORS), ids=read_id)
def test_the_rows_are_those_of_the_writer(read: Read) -> None:
    scan = opened(read.fixture).scan(read.filter, columns=read.columns, options=_options(read))
    assert lines(scan.to_arrow()) == read.rows
    assert scan.count() == len(read.rows)


@pytest.mark.parametrize("name", [*BLOBS, *VECTORS])
def test_filters_and_projections(name: str) -> None:
    table = opened(name)
    whole = table.to_arrow()
    rng = random.Random(7)
    for _ in range(12):
        columns = rng.sample(whole.column_names, rng.randint(1, whole.num_columns))
        ids = sorted(rng.sample(whole["id"].to_pylist(), rng.randint(0, whole.num_rows)))
        where = f"id IN ({', '.join(map(str, ids))})" if ids else "id < 0"
        expected = whole.filter(pc.is_in(whole["id"], pa.array(ids, pa.int32()))).select(columns)
        assert lines(table.scan(where, columns=columns).to_arrow()) == lines(expected)


@pytest.mark.parametrize("name", BLOBS)
def test_descriptors(name: str, tmp_path: Path) -> None:
    table = pp.Table.open(v2_copy(name, tmp_path))
    rows = table.scan(columns=["pic"]).to_arrow()["pic"].to_pylist()
    descriptors = table.scan(columns=["pic"], options=AS_DESCRIPTORS).to_arrow()["pic"].to_pylist()
    assert [value is None for value in descriptors] == [value is None for value in rows]
    for value, expected in zip(descriptors, rows, strict=True):
        if value is None:
            continue
        blob = table.scan().blob(value)
        assert (blob.size, blob.read()) == (len(expected), expected)
        assert blob.read(1, 2) == expected[1:3] and blob.read(len(expected) + 1) == b""
        with blob.open() as file:
            file.seek(-min(3, len(expected)), 2)
            assert file.read() == expected[-3:] and file.read(1) == b""
            file.seek(1)
            assert (file.read(2), file.tell()) == (expected[1:3], min(max(len(expected), 1), 3))
        assert repr(blob).startswith("Blob(") and decode_descriptor(value).uri.endswith(".blob")


def test_what_is_no_descriptor(tmp_path: Path) -> None:
    table = pp.Table.open(v2_copy("blob", tmp_path))
    with pytest.raises(CorruptFileError, match="no descriptor"):
        table.scan().blob(b"abc")
    with pytest.raises(ArgumentTypeError):
        table.scan().blob("abc")  # type: ignore[arg-type]
    (tmp_path / "secret").write_bytes(b"0123456789")
    outside = encode_descriptor(BlobDescriptor(str(tmp_path / "secret"), 0, 10))
    with pytest.raises(SecurityError, match=r"external-paths\.allow"):
        table.scan().blob(outside)
    allowed = pp.Table.open(table.path, storage_options={"external-paths.allow": str(tmp_path)})
    assert allowed.scan().blob(outside).read(2, 3) == b"234"
    to_the_end = encode_descriptor(BlobDescriptor(str(tmp_path / "secret"), 4, -1))
    assert allowed.scan().blob(to_the_end).size == 6
    with pytest.raises(OptionError):
        allowed.scan().blob(outside).read(-1)
    past = encode_descriptor(BlobDescriptor(str(tmp_path / "secret"), 8, 10))
    with pytest.raises(CorruptFileError):
        allowed.scan().blob(past).read()


def test_a_filter_reads_no_blob_that_it_drops(tmp_path: Path) -> None:
    path = v2_copy("blob", tmp_path)
    for file in path.glob("bucket-0/*.blob"):
        data = bytearray(file.read_bytes())
        data[0] ^= 1  # the first entry of each file
        file.write_bytes(data)
    table = pp.Table.open(path)
    assert table.scan("id = 4", columns=["pic", "name"]).to_arrow().to_pylist() == [{"pic": b"hello", "name": "d"}]
    assert table.count() == 5 and len(table.scan(columns=["id"]).to_arrow()) == 5
    with pytest.raises(CorruptFileError, match="no entry begins here"):
        table.scan("id = 1").to_arrow()
    for file in path.glob("bucket-0/*.blob"):
        file.unlink()
    assert table.scan("name = 'd'", columns=["id"]).to_arrow().to_pylist() == [{"id": 4}]


@pytest.mark.parametrize("name", BLOBS)
@pytest.mark.parametrize("how", [{}, AS_DESCRIPTORS], ids=["bytes", "descriptors"])
def test_null_or_not(name: str, how: dict[str, str]) -> None:
    table = opened(name)
    names = [field.name for field in table.schema.fields if "BLOB" in str(field.type)]
    whole = table.scan(options=how).to_arrow()
    for column in names:
        null = whole[column].is_null()
        for test, mask in ("IS NULL", null), ("IS NOT NULL", pc.invert(null)):
            for columns in (None, ["id"], [column], [column, "id"]):
                scan = table.scan(f"{column} {test} AND id <> 2", columns=columns, options=how)
                expected = whole.filter(pc.and_(mask, pc.not_equal(whole["id"], 2))).select(
                    columns or whole.column_names
                )
                assert lines(scan.to_arrow()) == lines(expected)
                assert scan.count() == expected.num_rows


def test_bytes_are_not_read_to_test_for_null(tmp_path: Path) -> None:
    path = v2_copy("blob", tmp_path)
    for file in path.glob("bucket-0/*.blob"):
        data = bytearray(file.read_bytes())
        data[0] ^= 1
        file.write_bytes(data)
    table = pp.Table.open(path)
    assert table.scan("pic IS NULL", columns=["id"]).to_arrow()["id"].to_pylist() == [2]
    assert table.scan("pic IS NOT NULL AND gal IS NULL").count() == 1
    for condition in (
        "pic = 'a'",
        "pic IN ('a')",
        "gal = array('a')",
        "mp['a'] IS NULL",
        "gal[0] IS NULL",
        "pic < pic",
    ):
        with pytest.raises(PredicateError, match=r"BLOB|ARRAY|MAP"):
            table.scan(condition)


def test_blobs_are_not_written_or_compared(tmp_path: Path) -> None:
    table = pp.Table.open(v2_copy("blob", tmp_path))
    with pytest.raises(PredicateError, match="BLOB"):
        table.scan("pic = 'a'")
    for kind in ("BLOB", "ARRAY<BLOB>", "ROW<b BLOB>"):
        with pytest.raises(UnsupportedError, match="BLOB"):
            pp.Table.create(tmp_path / "new", f"id INT, c {kind}")
