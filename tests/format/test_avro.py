"""Avro data files: Java's files, round trips, another writer's files, damage."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import CorruptFileError, OptionError, PaimonError, UnsupportedError
from paimon_pyds.format import ReadCounters, by_name
from paimon_pyds.format.avro import compression, container
from paimon_pyds.format.avro.compression import compressor, decompressor
from paimon_pyds.format.avro.container import BLOCK_BYTES, CHECKSUM, ContainerReader
from paimon_pyds.format.avro.schema import put_bytes, put_long
from paimon_pyds.format.avro.types import plain_schema, write_schema
from paimon_pyds.metadata.split import METADATA_FIELDS
from paimon_pyds.ops.migration.avro_file import describe
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage import open_file_io
from support.data_files import fields_of, open_reader, read_file, table_of, write_file
from support.fixtures import requires_shared, table_fields, table_path
from support.strategies import ATOMS, NESTED, tables
from support.values import lines

FORMAT = by_name("avro")
MAP_OF_INTS = {"type": "MAP", "key": "INT NOT NULL", "value": {"type": "ARRAY", "element": "STRING"}}
DEEP = {"type": "MAP", "key": "DATE NOT NULL", "value": "DECIMAL(20, 3) NOT NULL"}
TYPES = [*(t for t in ATOMS if "(9)" not in t), *NESTED, MAP_OF_INTS, DEEP]


def _java_files() -> list[Path]:
    return sorted(table_path("append_avro").rglob("*.avro"))


# ------------------------------------------------------------------------------------------------------ Java's files


@requires_shared
def test_projection_and_selection_of_java_files() -> None:
    fields = table_fields(table_path("append_avro"))
    path = _java_files()[0]
    whole = read_file(path, fields)
    some = (fields[15], fields[0], fields[23])
    assert read_file(path, some, RowSelection.of([0, 3, 59])).equals(
        whole.select([f.name for f in some]).take([0, 3, 59])
    )
    reader = open_reader(path)
    assert reader.row_count == 60
    assert reader.groups() == [(0, 60)]
    assert reader.prune(Const.FALSE).is_all
    assert list(reader.read(fields, RowSelection.NONE, 5)) == []


@requires_shared
def test_schema_is_that_of_java() -> None:
    java = json.loads(fastavro.block_reader(_java_files()[0].open("rb")).metadata["avro.schema"])
    ours = write_schema(table_fields(table_path("append_avro")))
    assert json.loads(json.dumps(ours)) == java


# ------------------------------------------------------------------------------------------------------- round trips


@given(data=tables(types=TYPES), codec=st.sampled_from(["zstd", "snappy", "deflate", "bzip2", "xz", "none"]))
def test_round_trip(
    data: tuple[tuple[DataField, ...], pa.Table], codec: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fields, table = data
    path = tmp_path_factory.mktemp("avro") / "data-1.avro"
    write_file(path, fields, table.slice(0, 3), {"file.compression": codec})
    assert lines(read_file(path, fields)) == lines(table.slice(0, 3))
    write_file(path.with_name("b.avro"), fields, pa.concat_tables([table.slice(2), table]), {"file.compression": codec})
    found = read_file(path.with_name("b.avro"), fields, batch_rows=7)
    assert found.schema == table.schema
    assert lines(found) == lines(pa.concat_tables([table.slice(2), table]))


@given(data=tables(types=TYPES))
def test_fastavro_reads_the_same(data: tuple[tuple[DataField, ...], pa.Table], tmp_path_factory: Any) -> None:
    fields, table = data
    path = tmp_path_factory.mktemp("avro") / "data-1.avro"
    write_file(path, fields, table)
    with path.open("rb") as f:
        records = list(fastavro.reader(f))
    assert [r["id"] for r in records] == table.column("id").to_pylist()
    for i, field in enumerate(fields):
        nulls = [r[field.name] is None for r in records]
        assert nulls == table.column(i).is_null().to_pylist()


def test_many_blocks(tmp_path: Path) -> None:
    fields = fields_of("BIGINT", "STRING", "DOUBLE")
    rng = np.random.default_rng(1)
    n = 20_000
    table = table_of(
        fields, rng.integers(-(2**60), 2**60, n), [f"text {i % 91}" * (i % 5) for i in range(n)], rng.random(n)
    )
    path = tmp_path / "a.avro"
    write_file(path, fields, table)
    with path.open("rb") as f:
        sizes = [b.bytes_.getbuffer().nbytes for b in fastavro.block_reader(f)]
    assert len(sizes) > 5
    assert all(BLOCK_BYTES <= s < BLOCK_BYTES + 100 for s in sizes[:-1])
    assert read_file(path, fields, batch_rows=999).equals(table)
    rows = [0, 1, 7_000, 7_001, 19_999]
    counters = ReadCounters()
    reader = open_reader(path, counters)
    found = pa.Table.from_batches(list(reader.read(fields, RowSelection.of(rows), 100)))
    assert found.equals(table.take(rows))
    assert counters.rows_decoded < n
    assert counters.requests == 1
    assert reader.row_count == n


def test_large_files_are_fetched_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "WHOLE_FILE_BYTES", 1000)
    monkeypatch.setattr(container, "WINDOW_BYTES", 5000)
    fields = fields_of("BIGINT", "BYTES")
    table = table_of(fields, range(3000), [random.Random(i).randbytes(100) for i in range(3000)])
    path = tmp_path / "a.avro"
    write_file(path, fields, table)
    counters = ReadCounters()
    reader = open_reader(path, counters)
    assert reader.row_count == 3000
    assert pa.Table.from_batches(list(reader.read(fields, RowSelection.ALL, 10_000))).equals(table)
    assert counters.requests > 5


_LONGS = {"type": "record", "name": "r", "fields": [{"name": "c0", "type": ["null", "long"]}]}
_RECORDS = 150_000


@cache
def _many_records() -> bytes:
    """The body of a block of numbers from 0."""
    body = bytearray()
    for number in range(_RECORDS):
        body.append(2)
        put_long(body, number)
    return bytes(body)


@pytest.mark.parametrize("selected", [None, [0, 65_535, 65_536, 149_999, 150_000], [149_999]])
def test_a_block_of_very_many_records(selected: list[int] | None, tmp_path: Path) -> None:
    """It is decoded in parts: a few kilobytes may claim to have millions."""
    path, count, body = tmp_path / "a.avro", _RECORDS, _many_records()
    blocks = [(count, body), (1, b"\x02\x0e")]
    path.write_bytes(container.write_container(_LONGS, "zstandard", blocks))
    selection = RowSelection.of(selected) if selected else RowSelection.ALL
    reader = open_reader(path)
    found = list(reader.read(fields_of("BIGINT"), selection, 10_000))
    values = pa.Table.from_batches(found)["c0"].to_pylist()
    everything = [*range(count), 7]
    assert values == ([everything[row] for row in selected] if selected else everything)


def test_a_block_of_very_many_records_of_which_one_is_missing(tmp_path: Path) -> None:
    path, count, body = tmp_path / "a.avro", _RECORDS, _many_records()
    for blocks in ([(count, body + b"\0")], [(count, body[:-1])], [(count - 1, body)]):
        path.write_bytes(container.write_container(_LONGS, "null", blocks))
        with pytest.raises(CorruptFileError, match=f"does not hold {blocks[0][0]} records"):
            read_file(path, fields_of("BIGINT"))


def test_a_record_larger_than_a_block(tmp_path: Path) -> None:
    fields = fields_of("BYTES")
    table = table_of(fields, [b"a", b"x" * 300_000, None, b"y" * 70_000])
    path = tmp_path / "a.avro"
    write_file(path, fields, table)
    assert read_file(path, fields).equals(table)


def test_multisets(tmp_path: Path) -> None:
    fields = fields_of({"type": "MULTISET", "element": "STRING NOT NULL"})
    table = table_of(fields, [[("a", 2), ("b", 1)], None, []])
    path = tmp_path / "a.avro"
    write_file(path, fields, table)
    assert read_file(path, fields).equals(table)
    fields = fields_of({"type": "ARRAY", "element": {"type": "MULTISET", "element": "BIGINT NOT NULL"}})
    with pytest.raises(UnsupportedError, match="MULTISET<BIGINT NOT NULL>"):
        write_file(tmp_path / "b.avro", fields, table_of(fields, [None]))
    assert not (tmp_path / "b.avro").exists()


def test_decimals_of_every_length(tmp_path: Path) -> None:
    fields = fields_of("DECIMAL(38, 0)")
    values = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**63, -(2**63) - 1, 10**38 - 1, -(10**38) + 1]
    table = table_of(fields, [Decimal(v) for v in values])
    path = tmp_path / "a.avro"
    write_file(path, fields, table)
    assert read_file(path, fields).equals(table)
    with path.open("rb") as f:
        raw = [len(b) for b in _raw_column(f.read())]
    assert raw == [max(1, ((v if v >= 0 else ~v).bit_length() + 8) // 8) for v in values]


def _raw_column(data: bytes) -> list[bytes]:
    """The bytes of the column as fastavro sees them without its logical types."""
    reader = ContainerReader(lambda at, n: data[at : at + n], len(data), "x")
    plain = fastavro.parse_schema(plain_schema(json.loads(reader.schema)))
    found: list[bytes] = []
    for block in reader.blocks(lambda row, count: True):
        stream = io.BytesIO(block.body or b"")
        found += [fastavro.schemaless_reader(stream, plain)["c0"] for _ in range(block.count)]  # type: ignore[call-arg, index]
    return found


# ----------------------------------------------------------------------------------------------------------- refusals


def test_what_avro_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    bad_name = (DataField(0, "é", parse_type("INT")),)
    for fields in (fields_of("TIMESTAMP(9)"), fields_of({"type": "ARRAY", "element": "TIMESTAMP(7)"}), bad_name):
        with pytest.raises(UnsupportedError):
            FORMAT.open_writer(open_file_io(str(path))[0], str(path), fields, {})
    for options, error in [
        ({"file.compression": "lz4"}, UnsupportedError),
        ({"file.compression.zstd-level": "x"}, OptionError),
    ]:
        with pytest.raises(error):
            FORMAT.open_writer(open_file_io(str(path))[0], str(path), fields_of("INT"), options)
    assert not path.exists()


def test_names_of_records_are_unique() -> None:
    row = {
        "type": "ROW",
        "fields": [{"id": 9, "name": "b", "type": {"type": "ROW", "fields": [{"id": 8, "name": "x", "type": "INT"}]}}],
    }
    fields = (
        DataField(0, "a", parse_type(row)),
        DataField(1, "a_b", parse_type({"type": "ROW", "fields": [{"id": 7, "name": "y", "type": "INT"}]})),
    )
    fastavro.parse_schema(write_schema(fields))


# ------------------------------------------------------------------------------------------------------------- damage


def test_what_is_no_avro_file(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    good = b"Obj\x01"
    for content in (b"", b"ORC1", good, good + b"\x00" + b"s" * 16, good + b"\xff" * 40, good + b"\x02\x02a\x02{"):
        path.write_bytes(content)
        with pytest.raises(CorruptFileError):
            open_reader(path)


@pytest.mark.parametrize(
    "schema",
    [
        "1", '"int"', "[]", '{"type":"record","name":"r"}', '{"type":"record","name":"r","fields":[{"name":"a"}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":"null"}}]}',
        "[" * 5000, '{"type":"record","name":"r","fields":[{"name":"c0","type":"Nowhere"}]}',
        '{"type":"record","name":"r","fields":[{"name":"c0","type":' + "[" * 200 + "]" * 200 + "}]}",
    ],
)  # fmt: skip
def test_broken_schemas(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    body = schema.encode()
    content = bytearray(b"Obj\x01\x02\x16avro.schema")
    put_bytes(content, body)
    path.write_bytes(content + b"\x00" + b"s" * 16)
    with pytest.raises(CorruptFileError):
        read_file(path, fields_of("INT"))


def _with_column(type_: Any, value: bytes) -> bytes:
    """A file of one row, with a column of another writer beside the table's own."""
    members = [{"name": "c0", "type": ["null", "int"]}, {"name": "other", "type": type_}]
    schema = {"type": "record", "name": "r", "fields": members}
    return container.write_container(schema, "null", [(1, b"\x02\x02" + value)])


def _doubled() -> dict[str, Any]:
    found: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "null"}]}
    for number in range(1, 40):
        members = [{"name": "a", "type": found}, {"name": "b", "type": f"R{number - 1}"}]
        found = {"type": "record", "name": f"R{number}", "fields": members}
    return found


_MANY = b"\x80\x80\x80\x80\x80\x01\x00"
"""2 to the 34 items, and no more."""


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (
            {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]},
            b"\x02" * 3_000_000 + b"\0",
        ),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, _MANY),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": [{"name": "e", "type": "null"}]}}, _MANY),
        (_doubled(), b""),
    ],
    ids=["contains itself", "no bytes", "nothing in a record", "doubled"],
)
def test_types_that_few_bytes_make_endless(type_: Any, value: bytes, tmp_path: Path) -> None:
    """fastavro reads what is not asked for, too: it ended the process, or did not end."""
    path = tmp_path / "a.avro"
    path.write_bytes(_with_column(type_, value))
    with pytest.raises(CorruptFileError, match="not an Avro schema"):
        read_file(path, fields_of("INT"))
    with pytest.raises(CorruptFileError):
        describe(open_file_io(str(tmp_path))[0], str(path), path.stat().st_size)


def test_wrong_columns(tmp_path: Path) -> None:
    fields = fields_of(
        "INT", {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "INT"}]}, "DECIMAL(4, 2)", "TIMESTAMP(3)"
    )
    path = tmp_path / "a.avro"
    write_file(path, fields, table_of(fields, [1], [{"x": 1}], [Decimal("1.00")], [1]))
    assert read_file(path, fields).num_rows == 1
    wrong: list[tuple[DataField, ...]] = [
        (DataField(7, "missing", parse_type("INT")),),
        fields_of("BIGINT"),
        fields_of("DATE"),
        fields_of("INT", {"type": "ROW", "fields": [{"id": 5, "name": "y", "type": "INT"}]}),
        fields_of("INT", {"type": "ARRAY", "element": "INT"}),
        (DataField(2, "c2", parse_type("DECIMAL(4, 3)")),),
        (DataField(3, "c3", parse_type("TIMESTAMP(6)")),),
    ]
    either = (DataField(3, "c3", parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")),)  # as in Java, which is not told
    assert read_file(path, either).num_rows == 1
    for fields in wrong:
        with pytest.raises(CorruptFileError):
            read_file(path, fields)


@pytest.mark.parametrize("null_first", [True, False])
def test_rows_that_may_be_null(null_first: bool, tmp_path: Path) -> None:
    """Java's files of tables with row tracking after UPDATE and compaction: a branch of a union is before each row."""
    fields = (*fields_of("BIGINT", "STRING"), METADATA_FIELDS["_ROW_ID"], METADATA_FIELDS["_SEQUENCE_NUMBER"])
    record = write_schema(fields)
    record["fields"][2] = {"name": "_ROW_ID", "type": "long"}
    schema = ["null", record] if null_first else [record, "null"]
    rows = [{"c0": i, "c1": None if i % 3 else "x" * i, "_ROW_ID": i + 7, "_SEQUENCE_NUMBER": None} for i in range(200)]
    path = tmp_path / "a.avro"
    with path.open("wb") as f:
        fastavro.writer(f, schema, rows, sync_interval=500)
    assert read_file(path, fields).to_pylist() == rows
    some = RowSelection.of([0, 3, 150])
    assert read_file(path, fields[2:3], some).to_pylist() == [{"_ROW_ID": i + 7} for i in (0, 3, 150)]
    with path.open("wb") as f:
        fastavro.writer(f, schema, [*rows, None])
    with pytest.raises(CorruptFileError):
        read_file(path, fields)


def test_nulls_where_none_may_be(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    write_file(path, fields_of("INT"), table_of(fields_of("INT"), [1, None]))
    with pytest.raises(CorruptFileError, match="NOT NULL"):
        read_file(path, fields_of("INT NOT NULL"))


@pytest.mark.parametrize("codec", ["zstd", "snappy", "deflate", "bzip2", "xz", "none"])
def test_damaged_files(codec: str, tmp_path: Path) -> None:
    """Every error is one of ours; a compressed block never gives other rows unnoticed when it carries a checksum."""
    fields = fields_of("BIGINT", "STRING", NESTED[0], "DECIMAL(10, 2)", MAP_OF_INTS)
    table = table_of(
        fields, range(200), [f"v{i}" for i in range(200)], [[i, None] for i in range(200)],
        [Decimal(i) for i in range(200)], [[(i, ["a", None])] for i in range(200)],
    )  # fmt: skip
    path = tmp_path / "a.avro"
    write_file(path, fields, table, {"file.compression": codec})
    data = path.read_bytes()
    rng = random.Random(codec)
    refused = 0
    for i in range(150):
        damaged = bytearray(data)
        if i % 5 == 0:
            damaged = damaged[: rng.randrange(len(damaged))]
        else:
            for _ in range(rng.choice([1, 2, 4])):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            found = read_file(path, fields)
        except PaimonError:
            refused += 1
        else:
            assert found.num_rows <= 200
    assert refused > 60


def test_the_name_of_the_checksum_in_headers_never_changes() -> None:
    """Files have it; under another name they would be read without being checked."""
    assert CHECKSUM == "paimon_pyds.buffers"


@given(st.binary(min_size=1, max_size=70_000) | st.integers(1, 200_000).map(bytes), st.booleans(), st.randoms())
def test_frames_of_zstd_that_say_their_size(content: bytes, checked: bool, random: random.Random) -> None:
    """They are decompressed at once, and become what a stream makes of them; so do two of them, and pieces of one."""
    frame = pa.Codec("zstd").compress(content, asbytes=True)
    frame = compressor("zstandard")(content) if checked else frame
    cut = random.randrange(len(frame))
    changed = frame[:cut] + bytes([frame[cut] ^ 1 << random.randrange(8)]) + frame[cut + 1 :]
    unzstd = decompressor("zstandard", None)
    assert unzstd(frame, len(content)) == content
    assert unzstd(frame * 2, 2 * len(content)) == content * 2
    with pytest.raises(ValueError):
        unzstd(frame, len(content) - 1)
    for damaged in (frame[:cut], changed):
        with mock.patch.object(compression, "_content_size", return_value=0):
            streamed = _outcome(unzstd, damaged)
        assert _outcome(unzstd, damaged) == streamed


def _outcome(unzstd: Any, data: bytes) -> bytes | None:
    try:
        return unzstd(data, 1 << 20)
    except (OSError, ValueError, EOFError):
        return None
