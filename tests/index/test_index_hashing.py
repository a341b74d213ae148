"""Bloom filter hashes against Java's, and against values that anybody can check."""

from __future__ import annotations

import json
import random

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from paimon_pyds.base.types import parse_type
from paimon_pyds.index.bloom import _positions, hash_binary, hash_longs
from paimon_pyds.index.build import bloom_size
from paimon_pyds.index.keys import key_codec
from support.file_indexes import column
from support.fixtures import fixture_dir


def test_hashes_are_those_of_java() -> None:
    vectors = json.loads(fixture_dir("hash_vectors.json").read_text(encoding="utf-8"))
    compared = 0
    for entry in vectors["types"]:
        hashed = [v for v in entry["values"] if v["fastHash"] is not None]
        if not hashed:
            continue
        codec = key_codec(parse_type(entry["type"]))
        keys = codec.keys_of(column([v["value"] for v in hashed], parse_type(entry["type"])))
        if codec.is_binary:
            ours = hash_binary(keys)
        else:
            ours = hash_longs(codec.serialize(keys.to_numpy(zero_copy_only=False)))
        assert ours.tolist() == [int(v["fastHash"]) for v in hashed], entry["type"]
        compared += len(hashed)
    assert compared > 300


def test_published_hashes() -> None:
    """xxHash64 of the empty string and of "a" with seed 0; Thomas Wang's hash of 0 is 0 with arithmetic shifts."""
    texts = pa.array([b"", b"a"], pa.binary())
    assert hash_binary(texts).view(np.uint64).tolist() == [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B]
    assert hash_longs(np.array([0])).tolist() == [0]


def wang(key: int) -> int:
    """The published steps, on Python's integers."""

    def wrap(value: int) -> int:
        return (value + 2**63) % 2**64 - 2**63

    key = wrap(~key + (key << 21))
    key ^= key >> 24
    key = wrap(key + (key << 3) + (key << 8))
    key ^= key >> 14
    key = wrap(key + (key << 2) + (key << 4))
    key ^= key >> 28
    return wrap(key + (key << 31))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_numbers_hash_alike_one_by_one_and_together(kind: type[np.signedinteger]) -> None:
    rng = random.Random(3)
    info = np.iinfo(kind)
    values = [info.min, info.max, 0, -1, 1, *(rng.randint(info.min, info.max) for _ in range(200))]
    assert hash_longs(np.array(values, kind)).tolist() == [wang(v) for v in values]


def test_slices_hash_what_they_show() -> None:
    texts = pa.array(["x", "yy", "zzz", "w" * 5000]).cast(pa.binary())
    assert hash_binary(texts[1:3]).tolist() == hash_binary(texts).tolist()[1:3]


@pytest.mark.parametrize("size", [*range(33), 64, 200])
def test_texts_hash_alike_one_by_one_and_together(size: int) -> None:
    """Values of one length, of many lengths mixed, and in the middle of an array, against the C hash of each."""
    rng = np.random.default_rng(size)
    same = [rng.bytes(size) for _ in range(1_100)]
    mixed = [value[: int(cut)] for value, cut in zip(same, rng.integers(0, size + 1, len(same)), strict=True)]
    several = same + [value[:-1] for value in same] + [value + b"!" for value in same[:7]]
    for values in (same, mixed, several, [b"", *same]):
        expected = [xxhash.xxh64_intdigest(value) for value in values]
        array = pa.array(values, pa.binary())
        assert hash_binary(array).view(np.uint64).tolist() == expected
        assert hash_binary(array[3:]).view(np.uint64).tolist() == expected[3:]


def test_no_texts() -> None:
    assert hash_binary(pa.array([], pa.binary())).tolist() == []


@pytest.mark.parametrize("hash_functions", [1, 3, 40])
@pytest.mark.parametrize("bits", [8, 4_792_536, 2**31 - 8])
def test_places_are_those_of_integer_arithmetic(bits: int, hash_functions: int) -> None:
    rng = np.random.default_rng(bits)
    hashes = np.append(rng.integers(-(2**63), 2**63 - 1, 300), [0, -1, -(2**63), 2**63 - 1, 2**31, -(2**31)])
    places = _positions(hashes, bits, hash_functions)
    for found, hashed in zip(places.T.tolist(), hashes.tolist(), strict=True):
        low, high = _int32(hashed), _int32(hashed >> 32)
        for number, place in enumerate(found, 1):
            combined = _int32(low + number * high)
            assert place == (combined if combined >= 0 else ~combined) % bits


def _int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def test_sizes() -> None:
    assert bloom_size(1_000_000, 0.1) == (4_792_536, 3)
    assert bloom_size(30, 0.05)[0] % 8 == 0
