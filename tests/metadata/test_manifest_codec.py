"""Manifests in made-up forms: other writers' schemas, long lists, misleading bytes, deletes, bad files."""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.row import EMPTY_ROW, encode_row
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.types import parse_type
from paimon_pyds.errors import CorruptFileError, OptionError, UnsupportedError
from paimon_pyds.format.avro import batch_decode
from paimon_pyds.format.avro import container as container_module
from paimon_pyds.format.avro.container import BLOCK_BYTES, Container, decode_records, read_container, write_container
from paimon_pyds.format.avro.schema import Record, parse_schema
from paimon_pyds.metadata import manifest_codec, manifest_records
from paimon_pyds.metadata.manifest import (
    ENTRY,
    ENTRY_PATHS,
    ENTRY_SCHEMA,
    DataFile,
    DeletionRange,
    GlobalIndex,
    IndexEntry,
    ManifestEntry,
    ManifestFile,
    live_entries,
)
from paimon_pyds.metadata.manifest_codec import decode_manifest, encode_manifest, entries_to_batch
from paimon_pyds.metadata.record_codec import (
    decode_index_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest_list,
)
from support.effort import examples
from support.manifests import entry_at

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
COUNT = st.integers(0, 2**63 - 1)
SEQUENCE = st.integers(-1, 2**63 - 1)
BYTES = st.binary(max_size=30)
TEXT = st.text(max_size=12)
MAYBE_LONG = st.none() | LONG
MAYBE_TEXTS = st.none() | st.lists(TEXT, max_size=4).map(tuple)
COUNTS = st.none() | st.lists(MAYBE_LONG, max_size=5).map(tuple)
STATS = st.builds(SimpleStats, BYTES, BYTES, COUNTS)
PARTITION = st.sampled_from(
    [EMPTY_ROW, encode_row([7], [parse_type("INT")]), encode_row(["x" * 99], [parse_type("STRING")])]
)
FILES = st.builds(
    DataFile,
    file_name=TEXT, file_size=COUNT, row_count=COUNT, min_key=BYTES, max_key=BYTES, key_stats=STATS, value_stats=STATS,
    min_sequence_number=SEQUENCE, max_sequence_number=SEQUENCE, schema_id=COUNT, level=st.integers(0, 2**31 - 1),
    extra_files=st.lists(TEXT, max_size=2).map(tuple), creation_time=MAYBE_LONG, delete_row_count=MAYBE_LONG,
    embedded_index=st.none() | BYTES, file_source=st.none() | st.integers(0, 1), value_stats_cols=MAYBE_TEXTS,
    external_path=st.none() | TEXT, first_row_id=MAYBE_LONG, write_cols=MAYBE_TEXTS,
)  # fmt: skip
ENTRIES = st.builds(ManifestEntry, st.integers(0, 1), PARTITION, INT, INT, FILES)


def data_file(name: str = "data-1.parquet", **changes: Any) -> DataFile:
    stats = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    fields: dict[str, Any] = {
        "file_name": name, "file_size": 100, "row_count": 10, "min_key": EMPTY_ROW, "max_key": EMPTY_ROW,
        "key_stats": stats, "value_stats": stats, "min_sequence_number": 0, "max_sequence_number": 9, "schema_id": 0,
    }  # fmt: skip
    return DataFile(**{**fields, **changes})


def entry(name: str = "data-1.parquet", kind: int = 0, **changes: Any) -> ManifestEntry:
    return ManifestEntry(kind, EMPTY_ROW, changes.pop("bucket", 0), -1, data_file(name, **changes))


def records(entries: list[ManifestEntry]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for row in entries_to_batch(entries).to_pylist():
        record: dict[str, Any] = {"_VERSION": 2}
        for column, place in ENTRY_PATHS.items():
            inside = record
            *parents, last = place.split(".")
            for step in parents:
                inside = inside.setdefault(step, {})
            inside[last] = row[column]
        found.append(record)
    return found


def plain_schema() -> dict[str, Any]:
    """Java's schema, without the logical type that would make fastavro take times for datetimes."""
    return json.loads(  # type: ignore[no-any-return]
        json.dumps(ENTRY).replace('{"type": "long", "logicalType": "timestamp-millis"}', '"long"')
    )


def fast_write(schema: Any, rows: list[dict[str, Any]], sync_interval: int = 16_000) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(copy.deepcopy(schema)), rows, codec="null", sync_interval=sync_interval)
    return out.getvalue()


def _third(entries: Any) -> Any:
    """By fields at the head of an entry."""
    return (np.arange(entries.num_rows) + len(entries.column("file_name")[0].as_py()) % 3) % 3 == 0


def _by_schema(entries: Any) -> Any:
    """By a field behind the head."""
    return entries.column("schema_id").to_numpy() % 2 == 0


def _by_schema_of_third(entries: Any) -> Any:
    """By such a field of those that another test leaves."""
    found = _third(entries)
    rows = np.flatnonzero(found)
    found[rows] = _by_schema(entries.take(pa.array(rows)))
    return found


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Decode all at once, then one by one; both must agree; all at once must have worked unless told otherwise."""

    def decode(data: bytes, *, at_once: bool = True) -> pa.RecordBatch:
        walks: list[Any] = []
        original = manifest_records.walk_manifest
        with monkeypatch.context() as patch:
            patch.setattr(manifest_codec, "ONE_BY_ONE_RECORDS", 0)
            patch.setattr(manifest_records, "walk_manifest", lambda *args: walks.append(original(*args)) or walks[-1])
            first = decode_manifest(data, "m")
            some = [decode_manifest(data, "m", keep=keep) for keep in (_third, _by_schema, _by_schema_of_third)]
            del walks[1:]
            patch.setattr(manifest_codec, "ONE_BY_ONE_RECORDS", 10**9)
            second = decode_manifest(data, "m")
        assert first.equals(second)
        for keep, found in zip((_third, _by_schema, _by_schema_of_third), some, strict=True):
            assert found.equals(first.filter(pa.array(keep(first), pa.bool_())))
        first.validate(full=True)
        assert [walk is not None for walk in walks] == [at_once]
        return first

    return decode


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=20), st.sampled_from([1, 300, 16_000]))
def test_any_entries_round_trip(entries: list[ManifestEntry], sync_interval: int) -> None:
    batch = entries_to_batch(entries)
    assert [entry_at(batch, i) for i in range(len(entries))] == entries
    rows = records(entries)
    ours = encode_manifest(batch, "zstd")
    schema = fastavro.parse_schema(plain_schema())
    stream = io.BytesIO(b"".join(read_container(ours).blocks))
    assert [fastavro.schemaless_reader(stream, schema, None) for _ in rows] == rows
    times = 1 + 100 // len(entries)  # more than 100 are encoded all at once, these one by one
    many = encode_manifest(pa.Table.from_batches([batch] * times), "zstd")
    assert b"".join(read_container(many).blocks) == b"".join(read_container(ours).blocks) * times
    for data in (ours, fast_write(plain_schema(), rows, sync_interval)):
        with pytest.MonkeyPatch.context() as patch:
            for limit in (0, 10**9):
                patch.setattr(manifest_codec, "ONE_BY_ONE_RECORDS", limit)
                assert decode_manifest(data, "m").equals(batch)


@pytest.mark.parametrize("count", [1, 100], ids=["one by one", "all at once"])
@pytest.mark.parametrize(
    "field", ["file_size", "row_count", "schema_id", "level", "min_sequence_number", "max_sequence_number"]
)
def test_negative_numbers_are_damage(field: str, count: int) -> None:
    entries = [entry(f"data-{i}") for i in range(count)]
    entries[-1] = entry("data-last", **{field: -2})
    with pytest.raises(CorruptFileError, match=f"an entry says -2 .*_{field.upper()}"):
        decode_manifest(encode_manifest(entries_to_batch(entries), "zstd"), "m")


NEWER: Sequence[tuple[Any, Any]] = (
    ("boolean", True),
    ("float", 1.5),
    ("double", 2.5),
    ({"type": "fixed", "name": "sixteen", "size": 16}, bytes(16)),
    ({"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}, "BLUE"),
    ({"type": "map", "values": "long"}, {"a": 1, "b": -(2**62)}),
    (["string", "long", "boolean"], 2**40),
    (["string", "long", "boolean"], "text"),
    ({"type": "array", "items": {"type": "array", "items": "string"}}, [["a", "b"], [], ["c"]]),
    ({"type": "record", "name": "inner", "fields": [{"name": "x", "type": "long", "default": 0}]}, {"x": 3}),
    ("sixteen", bytes(16)),
    ({"type": "array", "items": "inner"}, [{"x": 1}]),
    ({"type": "record", "name": "outer", "fields": [{"name": "x", "type": "inner"}]}, {"x": {"x": 1}}),
)
"""Types of members that this version does not know, and a value of each."""


def newer(*, nullable: bool) -> tuple[dict[str, Any], list[ManifestEntry], list[dict[str, Any]]]:
    """A schema with more members, entries, and these as records; of nullable members every third is null."""
    schema = plain_schema()
    file = next(f for f in schema["fields"] if f["name"] == "_FILE")["type"]["fields"]
    stats = next(f for f in file if f["name"] == "_KEY_STATS")["type"]["fields"]
    entries = [entry(f"data-{i}", value_stats_cols=("a",) * (i % 3), first_row_id=i or None) for i in range(60)]
    rows = records(entries)
    for number, (type_, value) in enumerate(NEWER):
        branches = type_ if isinstance(type_, list) else [type_]
        optional = ["null", *branches] if number % 2 else [*branches, "null"]
        (schema["fields"], file, stats)[number % 3].insert(
            3 + number // 3, {"name": f"_EXTRA_{number}", "type": optional if nullable else type_}
        )
        for index, row in enumerate(rows):
            inside = (row, row["_FILE"], row["_FILE"]["_KEY_STATS"])[number % 3]
            inside[f"_EXTRA_{number}"] = None if nullable and index % 3 == number % 3 else value
    return schema, entries, rows


def fast_read(data: bytes) -> list[dict[str, Any]]:
    return [*fastavro.reader(io.BytesIO(data))]  # type: ignore[arg-type]


def test_members_of_a_newer_writer_go_with_their_entries(ways: Any) -> None:
    schema, entries, rows = newer(nullable=True)
    decoded = ways(fast_write(schema, rows))
    assert decoded.drop_columns("unknown").equals(entries_to_batch(entries).drop_columns("unknown"))
    for repetitions in (decoded, pa.Table.from_batches([decoded, decoded])):  # written by one, and by many writers
        assert fast_read(encode_manifest(repetitions, "zstd")) == fast_read(fast_write(schema, rows)) * (
            repetitions.num_rows // len(rows)
        )
    older = entries_to_batch([entry(f"old-{i}") for i in range(60)])
    written = encode_manifest(pa.Table.from_batches([older, decoded]), "zstd")
    assert ways(written).slice(60).equals(decoded)
    assert [row["_EXTRA_0"] for row in fast_read(written)[:60]] == [None] * 60
    plain = decode_manifest(fast_write(schema, rows[:1]), "m", columns=["file_name"])
    assert plain.to_pydict() == {"file_name": ["data-0"]}


def test_members_that_are_null_leave_the_schema_as_it_was(ways: Any) -> None:
    schema = plain_schema()
    schema["fields"].append({"name": "_EXTRA", "type": ["null", "string"]})
    entries = [entry(f"data-{i}") for i in range(60)]
    decoded = ways(fast_write(schema, [{**row, "_EXTRA": None} for row in records(entries)]))
    assert decoded.equals(entries_to_batch(entries))


def test_members_that_can_not_be_kept_are_refused_by_name(ways: Any) -> None:
    """Readers pass over those that are never null; they can't be written again, as other entries have none."""
    schema, entries, rows = newer(nullable=False)
    decoded = ways(fast_write(schema, rows))
    assert decoded.drop_columns("unknown").equals(entries_to_batch(entries).drop_columns("unknown"))
    with pytest.raises(UnsupportedError, match=r"member _EXTRA_0 that is not known here and can't be null") as caught:
        encode_manifest(decoded, "zstd")
    assert caught.value.feature == "extra-metadata"
    several = []
    for type_, value in (("long", 1), ("string", "x")):
        schema = plain_schema()
        schema["fields"].append({"name": "_EXTRA", "type": ["null", type_]})
        several.append(decode_manifest(fast_write(schema, [{**records([entry()])[0], "_EXTRA": value}]), "m"))
    with pytest.raises(UnsupportedError, match=r"member _EXTRA that is not known here and has several types"):
        encode_manifest(pa.Table.from_batches(several), "zstd")


def test_fields_that_an_older_writer_lacks_are_null(ways: Any) -> None:
    schema = plain_schema()
    file_fields = next(f for f in schema["fields"] if f["name"] == "_FILE")["type"]["fields"]
    gone = {"_WRITE_COLS", "_FIRST_ROW_ID", "_EXTERNAL_PATH", "_VALUE_STATS_COLS", "_CREATION_TIME"}
    file_fields[:] = [f for f in file_fields if f["name"] not in gone]
    entries = [entry(f"data-{i}") for i in range(20)]
    assert ways(fast_write(schema, records(entries))).equals(entries_to_batch(entries))


def test_a_field_that_must_be_there_is_missed_by_name() -> None:
    schema = plain_schema()
    schema["fields"][-1]["type"]["fields"][0]["name"] = "_OTHER"
    row = records([entry()])[0]
    row["_FILE"]["_OTHER"] = "x"
    with pytest.raises(CorruptFileError, match=r"missing.*_FILE\._FILE_NAME"):
        decode_manifest(fast_write(schema, [row]), "m")


def test_a_field_of_another_type_is_refused_by_name() -> None:
    schema = plain_schema()
    schema["fields"][-1]["type"]["fields"][0]["type"] = "bytes"
    row = records([entry()])[0]
    row["_FILE"]["_FILE_NAME"] = b"x"
    with pytest.raises(CorruptFileError, match=r"another type.*_FILE\._FILE_NAME"):
        decode_manifest(fast_write(schema, [row]), "m")


def test_other_order_of_fields_is_read_one_by_one(ways: Any) -> None:
    schema = plain_schema()
    schema["fields"].reverse()
    entries = [entry(f"data-{i}") for i in range(20)]
    assert ways(fast_write(schema, records(entries)), at_once=False).equals(entries_to_batch(entries))


def test_bytes_that_look_like_entries_do_not_mislead(ways: Any) -> None:
    """Keys that hold whole encoded entries, and parts of such: each is a false start."""
    head = [entry(f"inner-{i}") for i in range(3)]
    inner = b"".join(read_container(encode_manifest(entries_to_batch(head), "null")).blocks)
    entries = [entry(f"data-{i}", min_key=inner[i:], max_key=inner[: 40 * i], embedded_index=inner) for i in range(40)]
    assert ways(fast_write(plain_schema(), records(entries))).equals(entries_to_batch(entries))


def test_lists_longer_than_those_of_the_first_entry(ways: Any) -> None:
    entries = [entry(f"data-{i}", write_cols=tuple(map(str, range(9 * i)))) for i in range(30)]
    assert ways(fast_write(plain_schema(), records(entries))).equals(entries_to_batch(entries))
    entries.append(entry("wide", write_cols=tuple(map(str, range(batch_decode.MAX_ITEMS + 1)))))
    assert ways(fast_write(plain_schema(), records(entries)), at_once=False).equals(entries_to_batch(entries))


def test_only_wanted_columns() -> None:
    entries = entries_to_batch([entry(f"data-{i}", level=i) for i in range(100)])
    data = encode_manifest(entries, "zstd")
    found = decode_manifest(data, "m", columns=["level", "file_name", "kind"])
    assert found.schema.names == ["kind", "file_name", "level"]
    assert found.equals(entries.select(["kind", "file_name", "level"]))
    assert decode_manifest(data, "m", columns=[]).num_columns == 0


def test_arrays_in_several_blocks_and_with_sizes() -> None:
    """Avro lets a writer part an array, and put the size in bytes behind a negative count."""
    schema = parse_schema(
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "long"}}]}
    )
    assert isinstance(schema, Record)
    bodies = [
        bytes([0]),
        bytes([2, 10, 2, 12, 0]),  # [5] [6]
        bytes([3, 4, 10, 12, 4, 14, 16, 0]),  # -2 items in 2 bytes: [5, 6], then [7, 8]
        bytes([4, 2, 4, 0]),
    ]
    lists = [[], [5, 6], [5, 6, 7, 8], [1, 2]]
    data = np.frombuffer(b"".join(bodies) + bytes(batch_decode.PADDING_BYTES), np.uint8)
    starts = np.cumsum([0, *map(len, bodies[:-1])])
    walk = batch_decode.walk_records(schema, data, starts, frozenset({"a"}))
    assert walk.ok.all()
    assert walk.ends.tolist() == np.cumsum([len(b) for b in bodies]).tolist()
    assert batch_decode.to_arrow(walk.captured["a"], pa.list_(pa.int64()), data).to_pylist() == lists
    block = b"".join(bodies)
    container = Container(schema, (4,), (block,), (0,), None)
    assert [r["a"] for r in decode_records(container)] == lists


@pytest.mark.parametrize("value", [0, -1, 63, 64, 2**27, -(2**34), 2**48, 2**55, -(2**55), 2**62, 2**63 - 1, -(2**63)])
def test_numbers_of_every_width(value: int) -> None:
    schema = parse_schema({"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]})
    assert isinstance(schema, Record)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)  # type: ignore[arg-type]
    data = np.frombuffer(b"\x7f" + out.getvalue() + bytes(batch_decode.PADDING_BYTES), np.uint8)
    walk = batch_decode.walk_records(schema, data, np.array([0, 1]), frozenset({"a"}))
    captured = walk.captured["a"]
    assert isinstance(captured, batch_decode.Longs)
    assert captured.values.tolist() == [-64, value]
    assert walk.ends.tolist() == [1, 1 + len(out.getvalue())]


def test_numbers_beyond_64_bits_and_past_the_end_fail() -> None:
    schema = parse_schema({"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]})
    assert isinstance(schema, Record)
    data = np.frombuffer(b"\xff" * 9 + b"\x02" + b"\xff" * 4 + bytes(batch_decode.PADDING_BYTES), np.uint8)
    walk = batch_decode.walk_records(schema, data, np.array([0, 10]), frozenset())
    assert walk.ok.tolist() == [False, False]


# --------------------------------------------------------------------------------------------------------- live entries


def test_deletes_take_away_their_adds_wherever_they_are() -> None:
    a, b, c, d = (entry(f"data-{i}") for i in range(4))
    delete_b = ManifestEntry(1, b.partition, b.bucket, -1, b.file)
    stray = entry("data-99", kind=1)
    first, second = entries_to_batch([delete_b, a, b, c]), entries_to_batch([stray, d])
    live = live_entries([first, second])
    assert live.column("file_name").to_pylist() == ["data-0", "data-2", "data-3"]
    assert live.schema.equals(ENTRY_SCHEMA)
    assert live_entries([]).num_rows == 0
    assert live_entries([first.slice(0, 0)]).schema.equals(ENTRY_SCHEMA)


@pytest.mark.parametrize(
    "change",
    [
        {"level": 1}, {"bucket": 1}, {"extra_files": ("x",)}, {"extra_files": ("a", "b")}, {"embedded_index": b""},
        {"embedded_index": b"i"}, {"external_path": ""}, {"external_path": "/p"},
    ],
)  # fmt: skip
def test_a_delete_of_another_identity_takes_nothing(change: dict[str, Any]) -> None:
    adds = [entry("data-0", extra_files=("ab",)), entry("data-1")]
    other = entry("data-0", kind=1, **{"extra_files": ("ab",), **change})
    assert live_entries([entries_to_batch([*adds, other])]).num_rows == 2
    same = entry("data-0", kind=1, extra_files=("ab",))
    assert live_entries([entries_to_batch([*adds, same])]).column("file_name").to_pylist() == ["data-1"]


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), st.integers(0, 2)), max_size=30), st.integers(1, 4))
def test_live_entries_are_adds_without_deletes(rows: list[tuple[int, int, int]], parts: int) -> None:
    entries = [entry(f"data-{name}", kind=kind, level=level) for kind, name, level in rows]
    deleted = {(name, level) for kind, name, level in rows if kind == 1}
    expected = [(f"data-{n}", level) for kind, n, level in rows if kind == 0 and (n, level) not in deleted]
    step = max(1, -(-len(entries) // parts))
    batches = [entries_to_batch(entries[i : i + step]) for i in range(0, len(entries), step)]
    live = live_entries(batches)
    assert list(zip(live.column("file_name").to_pylist(), live.column("level").to_pylist(), strict=True)) == expected


# ------------------------------------------------------------------------------------------- lists and index files


def test_manifest_lists_and_index_manifests_round_trip() -> None:
    stats = SimpleStats(EMPTY_ROW, EMPTY_ROW, (None, 3))
    files = [
        ManifestFile(
            file_name=f"manifest-{i}", file_size=i, num_added_files=1, num_deleted_files=0, partition_stats=stats,
            schema_id=0, min_bucket=i or None, max_row_id=2**62,
        )
        for i in range(3000)
    ]  # fmt: skip
    data = encode_manifest_list(files, "zstd")
    assert decode_manifest_list(data, "l") == files
    assert len(read_container(data).counts) > 1
    assert decode_manifest_list(encode_manifest_list([], "null"), "l") == []
    entries = [
        IndexEntry(
            partition=EMPTY_ROW, bucket=0, index_type="BTREE", file_name="i", file_size=1, row_count=2,
            deletion_ranges=(DeletionRange("d", 1, 2, None), DeletionRange("e", 3, 4, 5)), external_path="/x",
            global_index=GlobalIndex(row_range_start=0, row_range_end=9, index_field_id=3, extra_field_ids=(4,)),
        ),
        IndexEntry(partition=EMPTY_ROW, bucket=1, index_type="HASH", file_name="h", file_size=1, row_count=2),
    ]  # fmt: skip
    for compression in ("zstd", "snappy", "deflate", "null"):
        assert decode_index_manifest(encode_index_manifest(entries, compression), "i") == entries


def test_many_entries_go_to_many_blocks() -> None:
    entries = entries_to_batch([entry(f"data-{i:06d}") for i in range(2000)])
    data = encode_manifest(entries, "snappy")
    container = read_container(data)
    assert len(container.counts) > 3
    assert max(map(len, container.blocks)) < BLOCK_BYTES + 1000
    assert decode_manifest(data, "m").equals(entries)
    assert decode_manifest(encode_manifest(entries.slice(0, 0), "zstd"), "m").equals(entries.slice(0, 0))
    assert decode_manifest(encode_manifest(entries.slice(70, 100), "zstd"), "m").equals(entries.slice(70, 100))


def test_unknown_compression_is_refused() -> None:
    for name in ("none", "brotli", ""):
        with pytest.raises(OptionError, match=r"manifest\.compression"):
            encode_manifest_list([], name)
    data = fast_write(plain_schema(), records([entry()])).replace(b"avro.codec\x08null", b"avro.codec\x08lzma")
    with pytest.raises(UnsupportedError, match="lzma"):
        decode_manifest(data, "m")


def test_other_versions_are_refused() -> None:
    rows = records([entry()])
    rows[0]["_VERSION"] = 3
    with pytest.raises(UnsupportedError, match="version 3"):
        decode_manifest(fast_write(plain_schema(), rows), "m")


def test_a_kind_that_is_neither_add_nor_delete() -> None:
    rows = records([entry()])
    rows[0]["_KIND"] = 2
    with pytest.raises(CorruptFileError, match="_KIND"):
        decode_manifest(fast_write(plain_schema(), rows), "m")


def test_errors_name_file_field_and_offset() -> None:
    data = encode_manifest(entries_to_batch([entry()]), "zstd")
    with pytest.raises(CorruptFileError, match="not an Avro file") as caught:
        decode_manifest(b"Obj2" + data, "the-manifest")
    assert (caught.value.path, caught.value.offset, caught.value.field) == ("the-manifest", 0, "magic")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(CorruptFileError, match="does not fit"):
        decode_manifest(data[:-20], "m")
    with pytest.raises(CorruptFileError, match="sync marker"):
        decode_manifest(data[:-1] + b"\x00" if data[-1] else data[:-1] + b"\x01", "m")
    with pytest.raises(CorruptFileError, match="ends inside its header"):
        decode_manifest_list(encode_index_manifest([], "null")[:-3], "m")
    index = IndexEntry(partition=b"", bucket=0, index_type="HASH", file_name="i", file_size=1, row_count=1)
    with pytest.raises(CorruptFileError, match="it is missing"):
        decode_manifest(encode_index_manifest([index], "null"), "m")


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_module, "MAX_BLOCK_BYTES", 2**20)
    for codec in ("deflate", "zstandard", "snappy"):
        blocks = [(1, bytes(2**20)), (1, bytes(2**20 + 1))]
        read_container(write_container("bytes", codec, blocks[:1]))
        with pytest.raises(CorruptFileError, match=r"more than|claims to have"):
            read_container(write_container("bytes", codec, blocks))
    monkeypatch.setattr(container_module, "MAX_FILE_BYTES", 2**20)
    with pytest.raises(CorruptFileError, match="more than"):
        read_container(write_container("bytes", "zstandard", [(1, bytes(2**19)), (1, bytes(2**19 + 1))]))


def test_schemas_that_lead_nowhere() -> None:
    for schema in (
        {"type": "record"}, {"type": "unknown"}, "nothing", 3, None, {"type": "fixed", "name": "f", "size": -1},
        {"type": "array", "items": "null"}, {"type": "record", "name": "r", "fields": [{"name": "x", "type": "r"}]},
        ["null"] * 2 + [{"type": "fixed", "name": "f", "size": 2**40}],
    ):  # fmt: skip
        with pytest.raises(CorruptFileError, match="not an Avro schema"):
            parse_schema(schema)
    deep: Any = "int"
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    with pytest.raises(CorruptFileError, match="nested deeper"):
        parse_schema(deep)


def _record(name: str, types: Sequence[Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": t} for i, t in enumerate(types)]}


def _doubled(leaf: str) -> dict[str, Any]:
    """A short schema, of which each record has the one before twice: 2 to the 30 leaves."""
    found = _record("R0", [leaf, leaf])
    for number in range(1, 30):
        found = _record(f"R{number}", [found, f"R{number - 1}"])
    return found


def _in_a_row(length: int) -> dict[str, Any]:
    """Records that each have the one before, by its name."""
    return _record("top", [_record("C0", ["int"]), *(_record(f"C{i}", [f"C{i - 1}"]) for i in range(1, length))])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (_record("top", ["int", _doubled("null")]), "take no bytes"),
        (_record("top", [{"type": "array", "items": _doubled("null")}]), "take no bytes"),
        (_record("top", ["int", _doubled("int")]), "more than 100000"),
        (_record("top", ["int", *["null"] * 20]), "take no bytes"),
        (_in_a_row(2000), "nested deeper"),
        (_record("top", [{"type": "array", "items": _record("empty", [])}]), "without bytes"),
    ],
)
def test_short_schemas_of_very_many_values(schema: Any, message: str) -> None:
    """A manifest list with such a schema was read for hours, or overflowed Python's stack."""
    data = write_container(schema, "null", [(1, b"\x02" * 3000)])
    for decode in (decode_manifest_list, decode_index_manifest, decode_manifest):
        with pytest.raises(CorruptFileError, match=message):
            decode(data, "m")


def test_a_type_may_be_named_again() -> None:
    node = parse_schema(
        _record("top", [_record("s", ["int", ["null", "string"]]), "s", {"type": "array", "items": "s"}])
    )
    assert isinstance(node, Record) and node.fields[0][1] == node.fields[1][1]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("types", [["int"], [{"type": "array", "items": _record("item", ["int"])}]])
def test_lists_that_unpack_to_very_much(types: list[Any]) -> None:
    """A few kilobytes that became a hundred million Python objects."""
    head = b"" if types == ["int"] else b"\x80\x80\x80\x40"
    body = head + bytes(64 << 20) + b"\0" * bool(head)
    data = write_container(_record("top", types), "zstandard", [(1 if head else 64 << 20, body)])
    assert len(data) < 8192
    for decode in (decode_manifest_list, decode_index_manifest):
        with pytest.raises(CorruptFileError, match=r"bytes that unpack to 67108"):
            decode(data, "m")


def test_lists_that_are_much_alike_are_read() -> None:
    """The names of all manifests of a writer differ in a number only."""
    alike = ManifestFile(
        file_name="", file_size=1000, num_added_files=1, num_deleted_files=0,
        partition_stats=SimpleStats(EMPTY_ROW, EMPTY_ROW, ()), schema_id=0,
    )  # fmt: skip
    found = [replace(alike, file_name=f"manifest-5bf3a2a4-98f2-4e3f-b4ac-3c7ed79ec5a0-{n}") for n in range(40_000)]
    data = encode_manifest_list(found, "zstd")
    assert len(data) * 40 < sum(map(len, read_container(data).blocks))
    assert decode_manifest_list(data, "m") == found


def test_manifests_that_are_read_one_by_one_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of zeros is not held as millions of records until the first one is looked at."""
    entries = entries_to_batch([entry(f"data-{number}.parquet", first_row_id=number) for number in range(25)])
    monkeypatch.setattr(manifest_codec, "RECORDS_AT_ONCE", 10)
    assert decode_manifest(encode_manifest(entries, "zstd"), "m").equals(entries)
    asked: list[int] = []
    monkeypatch.setattr(manifest_records, "walk_manifest", lambda *_: None)
    monkeypatch.setattr(manifest_codec, "decode_records", lambda c: (asked.append(1) or r for r in decode_records(c)))
    with pytest.raises((CorruptFileError, UnsupportedError)):
        decode_manifest(write_container(ENTRY, "zstandard", [(1 << 20, bytes(8 << 20))]), "m")
    assert len(asked) <= 10
