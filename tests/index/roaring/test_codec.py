"""Bitmaps serialized from arrays are, byte for byte, those of the roaring library."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from pyroaring import BitMap

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.roaring.codec import decode_bitmap, encode_bitmap, encode_mask, encode_packed, pack_rows
from paimon_pyds.index.slice_codec import encode_slices, numbers_of

CONTAINER = 65_536
ROWS = [0, 1, 8, 4_097, CONTAINER - 1, CONTAINER, CONTAINER + 1, 2 * CONTAINER + 77]


TIES_ALIKE = encode_bitmap(BitMap([1, 4, 5, 6, 7]))[0] == 0x3A
"""The library of pyroaring 1.0.4 takes runs where they are as long as the positions; Java and later ones don't."""


def _check(encoded: bytes, mask: npt.NDArray[np.bool_]) -> None:
    expected = BitMap(np.flatnonzero(mask).astype(np.uint32))
    assert decode_bitmap(encoded) == expected
    if TIES_ALIKE:
        assert encoded == encode_bitmap(expected)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("share", [0.0, 0.0001, 0.03, 0.0625, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("stretch", [1, 40, 3 * CONTAINER])
def test_masks(rows: int, share: float, stretch: int) -> None:
    rng = np.random.default_rng(rows)
    mask = np.repeat(rng.random(rows // stretch + 1) < share, stretch)[:rows]
    _check(encode_mask(mask), mask)


def test_runs_over_the_edges_of_words_and_containers() -> None:
    mask = np.zeros(3 * CONTAINER, np.bool_)
    for begin, end in ((0, 1), (63, 65), (127, 129), (CONTAINER - 1, CONTAINER + 64), (3 * CONTAINER - 64, None)):
        mask[begin:end] = True
    _check(encode_mask(mask), mask)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("kind", "count"), [(np.uint32, 20), (np.uint32, 32), (np.int64, 3), (np.int64, 63)])
def test_slices(rows: int, kind: type[np.integer], count: int) -> None:
    values = np.random.default_rng(count).integers(0, 2**count - 1, rows, np.uint64, endpoint=True).astype(kind)
    values[rows // 3 : rows // 2] = 0
    encoded = encode_slices(values, count)
    assert len(encoded) == count
    for bit, one in enumerate(encoded):
        _check(one, values >> kind(bit) & kind(1) == 1)
    again = numbers_of([decode_bitmap(one) for one in encoded], rows, np.uint32 if count <= 32 else np.uint64)
    assert np.array_equal(again, values)


def test_without_numpys_own_count_of_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy has it from 2.0 on."""
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    mask = np.random.default_rng(1).random(2 * CONTAINER) < 0.05
    _check(encode_mask(mask), mask)


@pytest.mark.parametrize("rows", [1, 7, CONTAINER, 5 * CONTAINER - 9])
def test_packed_is_the_inverse_of_its_encoding(rows: int) -> None:
    """Arrays, bitmaps and runs, and containers that are not there."""
    rng = np.random.default_rng(rows)
    mask = rng.random(rows) < np.repeat([0.5, 0.01, 0.0, 0.3, 0.001], CONTAINER)[:rows]
    mask[3 * CONTAINER : 3 * CONTAINER + 40_000] = True
    encoded = encode_mask(mask)
    bits = pack_rows(decode_bitmap(encoded), rows)
    assert np.array_equal(np.unpackbits(bits, bitorder="little")[:rows], mask)
    assert encode_packed(bits) == encoded


def test_a_header_for_runs_without_any_is_read() -> None:
    """The library writes it otherwise; it says the same."""
    members = [1, 5, 70_000, 140_000, 200_000]
    keys, cards = [0, 1, 2, 3], [2, 1, 1, 1]
    head = struct.pack("<HHB", 12347, 3, 0) + b"".join(map(struct.Struct("<HH").pack, keys, [c - 1 for c in cards]))
    starts = len(head) + 16 + 2 * (np.cumsum(cards) - cards)
    data = head + struct.pack("<4I", *starts.tolist()) + np.array(members, "<u4").astype("<u2").tobytes()
    assert decode_bitmap(data) == BitMap(members)
    assert encode_bitmap(BitMap(members)) != data
    with pytest.raises(CorruptFileError, match="bytes in"):
        decode_bitmap(data + b"\0\0")


@pytest.mark.parametrize("at", [7, -2])
def test_runs_that_are_not_as_told(at: int) -> None:
    """The library does not compare the rows in runs with what the header says."""
    data = bytearray(encode_bitmap(BitMap([*range(100, 5_000), *range(9_000, 9_050)])))
    data[at] ^= 1
    with pytest.raises(CorruptFileError, match="contradict"):
        decode_bitmap(bytes(data))


@pytest.mark.parametrize("members", [[1, 5], range(0, 300_000, 2), range(0, 300_000, 20)])
def test_offsets_that_are_not_where_containers_are(members: Sequence[int]) -> None:
    data = bytearray(encode_bitmap(BitMap(members)))
    assert decode_bitmap(bytes(data)) == BitMap(members)
    for size in (-2, 2):
        with pytest.raises(CorruptFileError):
            decode_bitmap(bytes(data[:size] if size < 0 else data + bytes(size)))
    data[8 + 4 * int.from_bytes(data[4:8], "little")] ^= 4
    with pytest.raises(CorruptFileError, match="offsets"):
        decode_bitmap(bytes(data))
