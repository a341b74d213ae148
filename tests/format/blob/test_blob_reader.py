"""One BLOB column in several files: which file has a row's value, what is read of it, and in what batches."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, RowType
from paimon_pyds.base.types.model import parse_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.format.blob import codec, nested
from paimon_pyds.format.blob.reader import BlobReader, BlobSource
from paimon_pyds.format.blob.references import decode_descriptor
from support.effort import examples
from support.memory_io import MemoryIO

FIELD = DataField(0, "b", parse_type("BLOB"))
PLACEHOLDER = object()


class Part(NamedTuple):
    """A file: the position of its first row, and its values."""

    start: int
    values: list[Any]


def encoded(values: list[Any]) -> bytes:
    """The bytes of a file."""
    body, lengths = bytearray(), []
    for value in values:
        entry = b"".join(codec.encode_entry(value)) if isinstance(value, bytes) else b""
        lengths.append(len(entry) if entry else codec.NULL if value is None else codec.PLACEHOLDER)
        body += entry
    return bytes(body) + codec.encode_end(lengths)


def reader(
    parts: list[Part], rows: int, counters: ReadCounters | None = None, **how: Any
) -> tuple[MemoryIO, BlobReader]:
    """A reader of files, the oldest of which comes first."""
    files: dict[str, bytes] = {}
    io = MemoryIO(files)
    sources = []
    for number, part in enumerate(parts):
        data = encoded(part.values)
        files[f"/t/{number}.blob"] = data
        sources.append(BlobSource(f"/t/{number}.blob", len(data), part.start, len(part.values), number))
    random.shuffle(sources)
    hints = ReadHints(read_whole=how.pop("read_whole", 0), most_bytes=how.pop("most_bytes", 1 << 20))
    return io, BlobReader(io, sources, rows, counters or ReadCounters(), hints, **how)


def model(parts: list[Part], rows: int) -> list[bytes | None]:
    """The values of all rows: each is in the newest file that says something of it."""
    found: list[Any] = [PLACEHOLDER] * rows
    for part in parts:
        for place, value in enumerate(part.values):
            if value is not PLACEHOLDER:
                found[part.start + place] = value
    return [None if value is PLACEHOLDER else value for value in found]


def values_of(blobs: BlobReader, selection: RowSelection = RowSelection.ALL, field: DataField = FIELD) -> list[Any]:
    batches = list(blobs.read([field], selection, 7))
    for batch in batches:
        batch.validate(full=True)
        assert batch.num_rows <= 7
    return [value for batch in batches for value in batch.column(0).to_pylist()]


@st.composite
def _parts(draw: st.DrawFn, rows: int) -> list[Part]:
    value = st.none() | st.binary(max_size=12) | st.just(PLACEHOLDER)
    found = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, rows - 1))
        found.append(Part(start, draw(st.lists(value, min_size=1, max_size=rows - start))))
    return found


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), _parts(n))), st.data())
def test_the_newest_file_that_says_something(case: tuple[int, list[Part]], data: st.DataObject) -> None:
    rows, parts = case
    wanted = sorted(data.draw(st.sets(st.integers(0, rows - 1))))
    _, blobs = reader(
        parts, rows, read_whole=data.draw(st.sampled_from([0, 1 << 16])), most_bytes=data.draw(st.integers(1, 100))
    )
    expected = model(parts, rows)
    assert values_of(blobs) == expected
    assert values_of(blobs, RowSelection.of(wanted)) == [expected[row] for row in wanted]
    nulls = DataField(0, "b", RowType(fields=()))
    assert values_of(blobs, field=nulls) == [None if value is None else {} for value in expected]


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), _parts(n))))
def test_descriptors_say_where_the_bytes_are(case: tuple[int, list[Part]]) -> None:
    rows, parts = case
    io, blobs = reader(parts, rows, as_descriptors=True)
    for value, expected in zip(values_of(blobs), model(parts, rows), strict=True):
        if value is None:
            assert expected is None
            continue
        descriptor = decode_descriptor(value)
        assert io.read_range(descriptor.uri, descriptor.offset, descriptor.length) == expected


def test_one_of_many_megabytes_is_read_alone() -> None:
    values = [bytes([n]) * (1 << 20) for n in range(20)]
    counters = ReadCounters()
    _, blobs = reader([Part(0, values)], 20, counters)
    assert values_of(blobs, RowSelection.of([7])) == [values[7]]
    assert counters.bytes_read < 1.02 * (1 << 20)
    assert [b.num_rows for b in blobs.read([FIELD], RowSelection.ALL, 100)] == [1] * 20  # most_bytes is 1 MiB
    assert [
        b.num_rows for b in reader([Part(0, values)], 20, most_bytes=5 << 20)[1].read([FIELD], RowSelection.ALL, 100)
    ] == [4] * 5


def test_a_long_index_takes_a_second_request() -> None:
    values: list[Any] = [b"x" * (n % 300) for n in range(30_000)]
    _, blobs = reader([Part(0, values)], len(values))
    (batch,) = blobs.read([FIELD], RowSelection.of([29_999]), 10)
    assert batch.column(0).to_pylist() == [values[-1]]


def test_arrays_and_maps() -> None:
    arrays = [[b"x", None], [], None, [b""]]
    field = DataField(0, "b", parse_type({"type": "ARRAY", "element": "BLOB"}))
    payloads: list[Any] = [None if value is None else nested.encode_array(value) for value in arrays]
    assert values_of(reader([Part(0, payloads)], 4)[1], field=field) == arrays
    maps = [[(1, b"x"), (2, None)], None, []]
    field = DataField(0, "b", parse_type({"type": "MAP", "key": "INT NOT NULL", "value": "BLOB"}))
    payloads = [
        None if pairs is None else nested.encode_map([k.to_bytes(4, "little") for k, _ in pairs], [v for _, v in pairs])
        for pairs in maps
    ]
    assert values_of(reader([Part(0, payloads)], 3)[1], field=field) == maps


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.none() | st.binary(max_size=9), min_size=1, max_size=6), st.data())
def test_damaged_files(values: list[bytes | None], data: st.DataObject) -> None:
    io, blobs = reader([Part(0, values)], len(values))
    whole = bytearray(io.read_bytes("/t/0.blob"))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    io.replace("/t/0.blob", bytes(whole))
    try:
        found = values_of(blobs)
    except CorruptFileError as error:
        assert error.path == "/t/0.blob"
        return
    there = [value for value in values if value is not None]  # NULL and placeholder are one bit apart
    assert [value for value in found if value is not None] == there


def test_another_number_of_rows_than_the_manifest_says() -> None:
    io, _ = reader([Part(0, [b"a", b"b"])], 2)
    size = io.size("/t/0.blob")
    blobs = BlobReader(io, [BlobSource("/t/0.blob", size, 0, 3, 1)], 3, ReadCounters(), ReadHints())
    with pytest.raises(CorruptFileError, match="has 2 rows, the manifest says 3"):
        values_of(blobs)
    for wrong in (size - 1, size + 1, 0):
        blobs = BlobReader(io, [BlobSource("/t/0.blob", wrong, 0, 2, 1)], 2, ReadCounters(), ReadHints())
        with pytest.raises(CorruptFileError):
            values_of(blobs)


def test_the_type_is_that_of_arrow() -> None:
    (batch,) = reader([Part(0, [b"a"])], 1)[1].read([FIELD], RowSelection.ALL, 10)
    assert batch.schema == pa.schema({"b": pa.large_binary()})
