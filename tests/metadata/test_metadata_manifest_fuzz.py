"""Damaged metadata files: a clear error or the right records, in bounded time and memory."""

from __future__ import annotations

import dataclasses
import io
import json
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.row import encode_row
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.types import parse_type
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.avro.container import read_container, write_container
from paimon_pyds.format.avro.schema import put_long
from paimon_pyds.metadata import manifest_codec
from paimon_pyds.metadata.manifest import ENTRY, DataFile, ManifestEntry
from paimon_pyds.metadata.manifest_codec import decode_manifest, decode_manifests, encode_manifest, entries_to_batch
from paimon_pyds.metadata.record_codec import decode_index_manifest, decode_manifest_list
from support.effort import examples
from support.fixtures import DEV

KNOWN = (CorruptFileError, UnsupportedError)
NAMES = [
    "manifest_null", "manifest_snappy", "manifest_deflate", "append_dv32_part", "pk_dynamic_bucket", "append_avro",
    "append_bitmap_v2_embedded", "part_other_types", "row_tracking", "data_evolution",
]  # fmt: skip


def files() -> list[Path]:
    if DEV is None:
        return []
    folders = [DEV / name / "table/db.db/t/manifest" for name in NAMES]
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]


FILES = files()


def decoder(name: str) -> Callable[[bytes, str], Any]:
    if name.startswith("manifest-list-"):
        return decode_manifest_list
    return decode_index_manifest if name.startswith("index-") else decode_manifest


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[float, int, bytes]]:
    """Changes of bytes: (where, as a part of the length; how many bytes are taken out; what is put there)."""
    place = st.floats(0, 1, exclude_max=True)
    return draw(st.lists(st.tuples(place, st.integers(0, 3), st.binary(max_size=4)), min_size=1, max_size=3))


def damage(data: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    out = bytearray(data)
    for place, length, new in changes:
        at = int(place * len(out))
        out[at : at + length] = new
    return bytes(out)


@pytest.mark.skipif(not FILES, reason="needs tables written by Java Paimon")
@settings(max_examples=examples(60), deadline=60_000)
@given(st.integers(0, 10**6), edits())
def test_damaged_files(number: int, changes: list[tuple[float, int, bytes]]) -> None:
    path = FILES[number % len(FILES)]
    data = damage(path.read_bytes(), changes)
    try:
        found = decoder(path.name)(data, str(path))
    except KNOWN:
        return
    if b"snappy" in data[:4000]:
        return
    try:
        reader = fastavro.reader(io.BytesIO(data))
    except UnicodeDecodeError:  # in a name of the header that nobody needs
        return
    try:
        records = list(reader)  # type: ignore[arg-type]
    except OverflowError:  # a creation time beyond Python's years
        return
    rows = found.to_pylist() if hasattr(found, "to_pylist") else [dataclasses.asdict(record) for record in found]
    for row, record in zip(rows, records, strict=True):
        record = record.get("_FILE", record)
        assert (row["file_name"], row["file_size"]) == (record["_FILE_NAME"], record["_FILE_SIZE"])


def entries(count: int) -> bytes:
    types = [parse_type("STRING"), parse_type("BIGINT"), parse_type("DECIMAL(30, 2)")]
    partition = encode_row([12], [parse_type("INT")])
    made = []
    for i in range(count):
        low, high = encode_row([f"a-{i}", i, 4], types), encode_row([f"long text {i}", -i, None], types)
        stats = SimpleStats(low, high, (0, None, i))
        made.append(
            ManifestEntry(
                i % 2, partition, i, 4,
                DataFile(
                    file_name=f"data-{i}.parquet", file_size=i * 1000, row_count=2**40 + i, min_key=low, max_key=high,
                    key_stats=stats, value_stats=stats, min_sequence_number=-i, max_sequence_number=2**63 - 1 - i,
                    schema_id=0, extra_files=("x",) * (i % 3), creation_time=10**12 + i,
                    value_stats_cols=("a", "b") if i % 2 else None, embedded_index=bytes(i) if i % 5 == 0 else None,
                ),
            )
        )  # fmt: skip
    return encode_manifest(entries_to_batch(made), "null")


MANY = entries(60)
SIZES = {count: entries(count) for count in (0, 1, 30, 70)}
OTHER = write_container({**ENTRY, "doc": "of another writer"}, "null", [(60, read_container(MANY).blocks[0])])
BLOCK = read_container(MANY).blocks[0]


def read(data: bytes, one_by_one: int) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_codec, "ONE_BY_ONE_RECORDS", one_by_one)
        try:
            return decode_manifest(data, "m").to_pydict()
        except KNOWN:
            return "refused"


@settings(max_examples=examples(48), deadline=60_000)
@given(edits())
def test_damaged_records_read_the_same_in_both_ways(changes: list[tuple[float, int, bytes]]) -> None:
    block = damage(BLOCK, changes)
    data = write_container(ENTRY, "null", [(60, block)])
    at_once, one_by_one = read(data, 0), read(data, 10**9)
    assert at_once == one_by_one
    if isinstance(at_once, dict):
        stream = io.BytesIO(block)
        # Without the logical type: not every damaged time is a datetime of Python.
        text = json.dumps(ENTRY).replace('{"type": "long", "logicalType": "timestamp-millis"}', '"long"')
        schema = fastavro.parse_schema(json.loads(text))
        names = [fastavro.schemaless_reader(stream, schema, None)["_FILE"]["_FILE_NAME"] for _ in range(60)]  # type: ignore[call-overload,index]
        assert at_once["file_name"] == names
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(manifest_codec, "ONE_BY_ONE_RECORDS", 0)
            found = decode_manifest(data, "m", keep=lambda _: np.arange(60) % 7 == 0)
        assert found.to_pydict() == {name: values[::7] for name, values in at_once.items()}


def all_of(decode: Callable[[], Iterable[Any]]) -> tuple[list[Any], str]:
    """What is decoded until something is damaged, and what is said of that."""
    found: list[Any] = []
    try:
        found.extend(decode())
    except KNOWN as error:
        return found, str(error)
    return found, ""


@settings(max_examples=examples(12), deadline=60_000)
@given(st.lists(st.sampled_from(sorted(SIZES)), max_size=6), st.integers(0, 5), st.none() | edits())
def test_many_manifests_read_as_each_alone(
    sizes: list[int], number: int, changes: list[tuple[float, int, bytes]] | None
) -> None:
    """Also one that was written by somebody else, and one that is damaged."""
    parts = [SIZES[size] for size in sizes]
    if number < len(parts):
        parts[number] = OTHER if changes is None else damage(parts[number], changes)
    files = [(data, f"manifest-{i}") for i, data in enumerate(parts)]
    columns = ("kind", "file_name", "extra_files")
    joined, said = all_of(lambda: decode_manifests(files, columns))
    alone, expected = all_of(lambda: (decode_manifest(*file, columns) for file in files))
    assert said == expected
    assert joined == (alone if not said else alone[: len(joined)])


@settings(max_examples=examples(36), deadline=60_000)
@given(st.binary(max_size=400), st.integers(0, 500))
def test_noise_as_records(block: bytes, count: int) -> None:
    data = write_container(ENTRY, "null", [(count, block)])
    assert read(data, 0) == read(data, 10**9)


@settings(max_examples=examples(36), deadline=60_000)
@given(st.binary(max_size=300))
def test_noise_as_a_file(noise: bytes) -> None:
    for data in (noise, b"Obj\x01" + noise):
        with pytest.raises(KNOWN):
            decode_manifest_list(data, "l")


@pytest.mark.parametrize("length", range(0, len(MANY), 997))
def test_truncated_files(length: int) -> None:
    container_end = len(MANY) - len(BLOCK)
    if length <= container_end - 40:
        with pytest.raises(CorruptFileError):
            decode_manifest(MANY[: min(length, 1000)], "m")
    with pytest.raises(CorruptFileError):
        decode_manifest(MANY[:length] if length > 1200 else MANY[:-1], "m")


def test_lengths_that_lie_cost_neither_time_nor_memory() -> None:
    """Huge counts and sizes where each can stand: lists, bytes, blocks."""
    huge = bytearray()
    put_long(huge, 2**62)
    tracemalloc.start()
    started = time.process_time()
    for at in range(0, len(BLOCK), 331):
        block = BLOCK[:at] + bytes(huge) + BLOCK[at:]
        read(write_container(ENTRY, "null", [(60, block)]), 0)
    seconds = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * 2**20
    assert seconds < 60


def test_arrays_without_end_are_bounded() -> None:
    """Nested arrays of an invented schema, each with as many items as are read at once."""
    schema = {
        "type": "record", "name": "r", "fields": [
            *ENTRY["fields"][:3],
            {"name": "x", "type": {"type": "array", "items": {"type": "array", "items": "long"}}},
            *ENTRY["fields"][3:],
        ],
    }  # fmt: skip
    block = bytearray(b"\x04\x00\x18" + bytes(12))
    for _ in range(300):
        put_long(block, 200)
        put_long(block, 200)
        block += bytes(200) + b"\x00"
    started = time.process_time()
    data = write_container(schema, "null", [(60, bytes(block) * 30)])
    with pytest.raises(CorruptFileError):
        decode_manifest(data, "m")
    assert time.process_time() - started < 20
