"""Damaged files of deletion vectors and index manifests: a clear error, or what was written, in bounded memory."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from pyroaring import BitMap

from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.metadata.deletion.vector import DeletionVector, read_vector, write_vectors
from paimon_pyds.metadata.manifest import DELETION_VECTORS, DeletionRange, IndexEntry
from paimon_pyds.metadata.record_codec import decode_index_manifest, encode_index_manifest
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import LONG

FUZZ = int(os.environ.get("PAIMON_PYDS_FUZZ", "100000" if LONG else "700"))
BOUND = 64 << 20
ROWS = 200_000


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A few bytes or numbers changed, mostly near the front; sometimes cut short or grown."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(min(len(changed), rng.choice((24, 200, len(changed)))))
        if rng.random() < 0.3:
            number = rng.choice((0, 1, -1, 2**31 - 1, -(2**31), len(data), rng.randrange(300)))
            changed[at : at + 4] = number.to_bytes(4, rng.choice(("big", "little")), signed=True)
        else:
            changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256), changed[at] ^ 1 << rng.randrange(8)))
    if rng.random() < 0.15:
        del changed[rng.randrange(len(changed)) :]
    return bytes(changed)


@contextmanager
def bounded_memory(number: int) -> Iterator[None]:
    """Every 50th input is watched: watching takes time."""
    if number % 50:
        yield
        return
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < BOUND
    finally:
        tracemalloc.stop()


def test_damaged_vectors_are_refused_or_unharmed() -> None:
    """Each vector has its length, its magic and its CRC: what is read is what was written, whatever else is damaged."""
    rng = random.Random(31)
    sets = [range(10, 5000), [3, 70_000, 199_999], rng.sample(range(70_000), 9000), [], range(0, ROWS, 3)]
    files = [write_vectors([DeletionVector(BitMap(s), bits) for s in sets]) for bits in (32, 64)]
    refused = 0
    for number in range(FUZZ):
        bits = rng.choice((32, 64))
        data, ranges = files[bits == 64]
        which = rng.randrange(len(sets))
        where = ranges[which]
        start, stop = where.offset, where.offset + where.length + 8
        damaged = data[:start] + mutated(rng, data[start:stop]) + data[stop:]
        with bounded_memory(number):
            try:
                vector = read_vector(BytesSource(damaged, "index-0"), start, where.length, where.cardinality, ROWS)
            except (CorruptFileError, UnsupportedError):
                refused += 1
                continue
        assert vector.positions == BitMap(sets[which])
    assert refused > FUZZ // 2


def entries() -> list[IndexEntry]:
    partition = bytes.fromhex("00000001 00000000 00000000 07000000 00000000".replace(" ", ""))
    ranges = tuple(DeletionRange(f"data-{i}-0.parquet", 1 + 40 * i, 32, i or None) for i in range(5))
    return [
        IndexEntry(
            partition=partition,
            bucket=bucket,
            index_type=DELETION_VECTORS,
            file_name=f"index-{bucket}-0",
            file_size=200,
            row_count=5,
            deletion_ranges=ranges,
        )
        for bucket in range(3)
    ]


def test_damaged_index_manifests_are_refused_or_read() -> None:
    rng = random.Random(32)
    files = [encode_index_manifest(entries(), codec) for codec in ("null", "null", "zstd")]
    refused = 0
    for number in range(FUZZ):
        damaged = mutated(rng, rng.choice(files))
        with bounded_memory(number):
            try:
                found = decode_index_manifest(damaged, "index-manifest-0")
            except (CorruptFileError, UnsupportedError):
                refused += 1
                continue
        assert all(isinstance(entry, IndexEntry) for entry in found)
    assert refused > FUZZ // 10
