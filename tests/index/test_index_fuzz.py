"""Damaged indexes: CorruptFileError or an answer, in bounded time and memory, whatever the bytes are."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

import pytest
from pyroaring import BitMap

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.aggregate import COUNTING
from paimon_pyds.index.container import parse_head, write_container
from paimon_pyds.index.keys import INDEX_TYPES
from paimon_pyds.index.roaring.codec import decode_bitmap, encode_bitmap
from paimon_pyds.storage.byte_source import BytesSource
from support.index_fuzz import BOUND, FUZZ, SEEDS, PeakMemory, Seed, ask_all, mutated, seeds_of, take_whole

EACH = FUZZ if FUZZ >= 100_000 else FUZZ // 4
"""Inputs of each codec; short runs share them out."""
every_codec = pytest.mark.parametrize("kind", INDEX_TYPES)


def _refused(kind: str, ask: Callable[[Seed], int]) -> int:
    """How many damaged inputs of a codec were refused; each is answered soon and in bounded memory."""
    seeds, peak = seeds_of(kind), PeakMemory()
    refused = 0
    for number in range(EACH):
        began = time.process_time()
        refused += ask(seeds[number % len(seeds)]) > 0
        assert time.process_time() - began < 2
        peak.check(number)
    return refused


def _damaged_body(rng: random.Random, seed: Seed) -> bytes:
    """A container whose head is right, so that every mutation reaches a codec."""
    _, kind, column, container, *_ = seed
    where = parse_head(BytesSource(container)).columns[column][kind]
    return write_container({column: {kind: mutated(rng, container[where.start : where.start + where.length])}})


@every_codec
def test_mutated_containers(kind: str) -> None:
    rng = random.Random(f"20 {kind}")
    assert (
        _refused(kind, lambda s: ask_all(mutated(rng, s[3]), s[0], s[2], s[4], s[5], rng.random() < 0.7)) > EACH // 10
    )


@every_codec
def test_mutated_bodies_in_a_right_container(kind: str) -> None:
    rng = random.Random(f"21 {kind}")
    assert _refused(kind, lambda s: ask_all(_damaged_body(rng, s), s[0], s[2], s[4], s[5], True)) > EACH // 30


@pytest.mark.parametrize("kind", COUNTING)
def test_mutated_indexes_taken_whole(kind: str) -> None:
    """What checks of indexes and index-only answers read: dictionaries and slices from end to end."""
    rng = random.Random(f"24 {kind}")
    assert _refused(kind, lambda s: take_whole(_damaged_body(rng, s), s[0], s[2], s[4])) > EACH // 30


def test_memory_stays_bounded() -> None:
    rng = random.Random(22)
    tracemalloc.start()
    try:
        for number in range(max(FUZZ // 10, 50)):
            text, _, column, container, rows, literals = SEEDS[number % len(SEEDS)]
            tracemalloc.reset_peak()
            damaged = mutated(rng, container)
            ask_all(damaged, text, column, rows, literals, True)
            take_whole(damaged, text, column, rows)
            assert tracemalloc.get_traced_memory()[1] < BOUND
    finally:
        tracemalloc.stop()


def test_mutated_bitmaps() -> None:
    rng = random.Random(23)
    sets = [range(1, 9000), rng.sample(range(300_000), 2000), [5], [], range(0, 200_000, 2), [*range(70_000), 90_001]]
    seeds = [encode_bitmap(BitMap(members)) for members in sets]
    refused = 0
    for number in range(FUZZ):
        data = mutated(rng, seeds[number % len(seeds)])
        try:
            bitmap = decode_bitmap(data, row_count=300_000, path="x")
        except CorruptFileError:
            refused += 1
            continue
        assert not bitmap or bitmap.max() < 300_000
        assert BitMap.deserialize(data) == bitmap
    assert refused > FUZZ // 4


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_every_truncation(seed: int) -> None:
    """A file cut anywhere is refused, or what was cut was not asked for."""
    text, _, column, container, rows, literals = SEEDS[seed]
    steps = max(1, len(container) // 60)
    for length in range(0, len(container), steps):
        assert ask_all(container[:length], text, column, rows, literals, True) == 1
