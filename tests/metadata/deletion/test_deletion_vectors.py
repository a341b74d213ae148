"""Deletion vectors: those of Java Paimon, round trips, and damage."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_pyds.errors import CorruptFileError, SchemaError, UnsupportedError
from paimon_pyds.metadata.deletion.vector import (
    DeletionVector,
    decode_vector,
    encode_vector,
    read_vector,
    write_vectors,
)
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import examples
from support.fixtures import DEV, json_lines

FUZZ = int(os.environ.get("PAIMON_PYDS_FUZZ", "2000"))

# Vectors as Java Paimon 1.4 wrote them, length field and CRC included, and the rows that they delete.
SAMPLES = [
    (
        32,
        "0000002e5e43f2d03a3000000100000000000c001000000002000a0011001500220028002f003a003b00400052005b005f009ad4979e",
        [2, 10, 17, 21, 34, 40, 47, 58, 59, 64, 82, 91, 95],
    ),
    (
        64,
        "00000032d1d339640100000000000000000000003a3000000100000000000800100000000c00100014002a002b00450057005c005e00"
        "2500beff",
        [12, 16, 20, 42, 43, 69, 87, 92, 94],
    ),
]
POSITIONS = st.lists(st.integers(0, 200_000), max_size=300) | st.tuples(
    st.integers(0, 150_000), st.integers(1, 90_000)
).map(lambda run: list(range(run[0], run[0] + run[1])))


@pytest.mark.parametrize(("bits", "hex_", "positions"), SAMPLES)
def test_samples_of_java(bits: int, hex_: str, positions: list[int]) -> None:
    data = b"\1" + bytes.fromhex(hex_)
    length = len(data) - 1 if bits == 64 else len(data) - 9
    vector = read_vector(BytesSource(data), 1, length, len(positions), 100)
    assert (vector.bits, list(vector.positions)) == (bits, positions)
    assert write_vectors([DeletionVector(BitMap(positions), bits)])[0] == data


def java_vectors() -> list[tuple[Path, dict[str, Any]]]:
    if DEV is None:
        return []
    found = []
    for listing in sorted(DEV.glob("*/expected/dv*")):
        table = listing.parents[1] / "table" / "db.db" / "t"
        for line in json_lines(listing):
            found += [(path, line) for path in sorted(table.rglob(line["indexFile"]))[:1]]
    return found


@pytest.mark.skipif(not java_vectors(), reason="needs tables written by Java Paimon")
def test_vectors_of_java_are_read_and_written_equal() -> None:
    vectors = java_vectors()
    assert {line["kind"] for _, line in vectors} == {"BitmapDeletionVector", "Bitmap64DeletionVector"}
    for path, line in vectors:
        data = path.read_bytes()
        vector = read_vector(
            BytesSource(data, str(path)), line["offset"], line["length"], line["cardinality"], line["rowCount"]
        )
        assert list(vector.positions) == line["positions"]
        assert vector.bits == (64 if "64" in line["kind"] else 32)
        again, ranges = write_vectors([vector])
        size = ranges[0].length + (0 if vector.bits == 64 else 8)
        assert ranges[0].length == line["length"]
        assert again[1 : 1 + size] == data[line["offset"] : line["offset"] + size]


@pytest.mark.skipif(not java_vectors(), reason="needs tables written by Java Paimon")
def test_whole_deletion_files_are_written_equal() -> None:
    by_file: dict[Path, list[dict[str, Any]]] = {}
    for path, line in java_vectors():
        by_file.setdefault(path, []).append(line)
    whole = 0
    for path, lines in by_file.items():
        data = path.read_bytes()
        lines.sort(key=lambda line: line["offset"])
        source = BytesSource(data)
        vectors = [
            read_vector(source, line["offset"], line["length"], line["cardinality"], line["rowCount"]) for line in lines
        ]
        ours, ranges = write_vectors(vectors)
        if len(ours) == len(data):  # else the file holds vectors that the snapshot no longer names
            assert ours == data
            assert [(r.offset, r.length) for r in ranges] == [(x["offset"], x["length"]) for x in lines]
            whole += 1
    assert whole


@given(st.lists(st.tuples(POSITIONS, st.sampled_from([32, 64])), max_size=4))
@settings(max_examples=examples(15), deadline=None)
def test_a_deletion_file_gives_back_its_vectors(contents: list[tuple[list[int], int]]) -> None:
    vectors = [DeletionVector(BitMap(positions), bits) for positions, bits in contents]
    data, ranges = write_vectors(vectors)
    assert data[0] == 1
    for vector, where in zip(vectors, ranges, strict=True):
        assert read_vector(BytesSource(data), where.offset, where.length, where.cardinality, None) == vector


def test_a_64_bit_vector_of_several_bitmaps() -> None:
    low = encode_vector(BitMap([1, 70_000]), 64)
    two = low[:4] + (2).to_bytes(8, "little") + low[12:] + (1).to_bytes(4, "little") + encode_vector(BitMap(), 32)[4:]
    assert list(decode_vector(two).positions) == [1, 70_000]
    beyond = low[:4] + (2).to_bytes(8, "little") + low[12:] + (1).to_bytes(4, "little") + encode_vector(BitMap([0]))[4:]
    with pytest.raises(UnsupportedError):
        decode_vector(beyond)
    backwards = low[:12] + (-1).to_bytes(4, "little", signed=True) + low[16:]
    with pytest.raises(CorruptFileError, match="key"):
        decode_vector(backwards)


def test_another_width_is_refused() -> None:
    with pytest.raises(SchemaError, match="32 or 64"):
        encode_vector(BitMap([1]), 16)


def damaged(data: bytes, bits: int) -> list[tuple[str, bytes, int, int, int | None, int | None]]:
    length = len(data) - 9 if bits == 32 else len(data) - 1
    flipped = bytearray(data)
    flipped[20] ^= 1
    magic = bytearray(data)
    magic[5] ^= 1
    size = bytearray(data)
    size[4] ^= 1
    return [
        ("checksum", bytes(flipped), 1, length, None, None),
        ("checksum", bytes(magic), 1, length if bits == 32 else length - 8, None, None),
        ("size", bytes(size), 1, length, None, None),
        ("size", data, 1, length - 1, None, None),
        ("offset", data, 1, length + 9, None, None),
        ("offset", data, 0, length, None, None),
        ("cardinality", data, 1, length, 4, None),
        ("bitmap", data, 1, length, None, 90_000),
        ("size|offset", data[:-1], 1, length, None, None),
    ]


@pytest.mark.parametrize("bits", [32, 64])
def test_damage_is_named(bits: int) -> None:
    data, _ = write_vectors([DeletionVector(BitMap([1, 5, 90_000]), bits)])
    for field, bad, offset, length, cardinality, rows in damaged(data, bits):
        with pytest.raises(CorruptFileError, match=f"field ({field})"):
            read_vector(BytesSource(bad, "index-0"), offset, length, cardinality, rows)


def test_mutated_vectors_are_refused_or_right() -> None:
    """The CRC guards a file; here it is taken away, and the bitmap codecs stand alone."""
    rng = random.Random(8)
    seeds = [
        encode_vector(BitMap(members), bits)
        for bits in (32, 64)
        for members in (range(10, 5000), [3, 70_000, 200_000], rng.sample(range(70_000), 9000), [])
    ]
    for _ in range(FUZZ):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(min(len(data), 200))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        del data[rng.choice((len(data), rng.randrange(len(data)))) :]
        try:
            vector = decode_vector(bytes(data), row_count=300_000)
        except (CorruptFileError, UnsupportedError):
            continue
        assert vector.positions <= BitMap(range(300_000))
