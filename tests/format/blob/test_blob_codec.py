"""Entries, index, nested payloads and references of BLOBs: what pypaimon wrote, round trips, and damage."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.types.model import parse_type
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.blob import codec, nested
from paimon_pyds.format.blob.references import (
    BlobDescriptor,
    BlobView,
    decode_descriptor,
    decode_view,
    encode_descriptor,
    is_descriptor,
)
from support.effort import examples

few = settings(max_examples=examples(15), deadline=None)
blobs = st.binary(max_size=40)


def _file(values: list[bytes | None]) -> bytes:
    body, lengths = b"", []
    for value in values:
        entry = b"" if value is None else b"".join(codec.encode_entry(value))
        lengths.append(codec.NULL if value is None else len(entry))
        body += entry
    return body + codec.encode_end(lengths)


def _values(data: bytes) -> list[bytes | None]:
    size = codec.index_size(data[-5:], len(data), "f")
    lengths, offsets = codec.decode_index(data[len(data) - 5 - size : -5], len(data), "f")
    view = memoryview(data)
    pairs = zip(lengths.tolist(), offsets.tolist(), strict=True)
    return [None if n < 0 else bytes(codec.payload_of(view[at : at + n], "f", at)) for n, at in pairs]


def test_a_file_of_pypaimon() -> None:
    values = [b"\x89PNG123", None, b"", b"hello"]
    data = _file(values)
    assert len(data) == 69
    assert data[-9:].hex() == "2e2f220a0400000001"
    assert _values(data) == values


@few
@given(st.lists(st.none() | blobs, max_size=20))
def test_files_come_back(values: list[bytes | None]) -> None:
    assert _values(_file(values)) == values


@few
@given(st.lists(st.integers(-2, 2**47)))
def test_lengths_come_back(lengths: list[int]) -> None:
    assert codec.decode_lengths(codec.encode_lengths(lengths), "f").tolist() == lengths


@few
@given(st.lists(st.none() | blobs, min_size=1, max_size=6), st.data())
def test_damage_is_an_error_or_changes_nothing(values: list[bytes | None], data: st.DataObject) -> None:
    whole = bytearray(_file(values))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.just(0) | st.integers(0, len(whole)))
    try:
        found = _values(bytes(whole[cut:]))
    except CorruptFileError:
        return
    # A number of the index may have become another one of no bytes: NULL and placeholder.
    there = [value for value in found if value is not None]
    assert there == [value for value in values if value is not None]


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00" * 4, struct.pack("<ib", 0, 2), struct.pack("<ib", 1, 1), struct.pack("<ib", -1, 1),
     b"\xff" * 10 + struct.pack("<ib", 10, 1), codec.encode_end([3]), codec.encode_end([-3]), codec.encode_end([2**60]),
     codec.encode_end([2**55, 2**55])],
)  # fmt: skip
def test_hostile_ends(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        _values(data)


@few
@given(st.lists(st.none() | blobs, max_size=8))
def test_arrays_come_back(values: list[bytes | None]) -> None:
    assert nested.decode_array(memoryview(nested.encode_array(values)), "f") == values


_KEYS: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.integers(-128, 127), "BIGINT": st.integers(-(2**63), 2**63 - 1), "BOOLEAN": st.booleans(),
    "STRING": st.text(max_size=5), "BYTES": blobs, "DATE": st.dates(),
    "DECIMAL(10, 2)": st.decimals(-99999999, 99999999, places=2),
    "DECIMAL(30, 0)": st.integers(-(10**30) + 1, 10**30 - 1).map(Decimal),
}  # fmt: skip


@pytest.mark.parametrize("kind", _KEYS)
@few
@given(st.data())
def test_maps_come_back(kind: str, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(_KEYS[kind], st.none() | blobs), max_size=6))
    type_: Any = parse_type(kind)
    from paimon_pyds.base.types import arrow_type

    keys = pa.array([key for key, _ in pairs], arrow_type(type_))
    values = [value for _, value in pairs]
    payload = nested.encode_map(nested.encode_keys(keys, type_), values)
    raw, found = nested.decode_map(memoryview(payload), "f")
    assert nested.keys_of(raw, type_, "f").to_pylist() == keys.to_pylist()
    assert found == values


def test_keys_that_maps_of_blobs_have_not() -> None:
    for kind in ("FLOAT", "TIMESTAMP(3)", {"type": "ARRAY", "element": "INT"}):
        with pytest.raises(UnsupportedError, match="no keys of type"):
            nested.check_key(parse_type(kind))
    nested.check_key(parse_type("DECIMAL(20, 1)"))


@few
@given(st.booleans(), st.lists(st.none() | blobs, max_size=5), st.data())
def test_damaged_payloads(is_map: bool, values: list[bytes | None], data: st.DataObject) -> None:
    keys = [bytes([n]) for n in range(len(values))]
    whole = bytearray(nested.encode_map(keys, values) if is_map else nested.encode_array(values))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    hostile = memoryview(bytes(whole[data.draw(st.just(0) | st.integers(0, len(whole))) :]))
    try:
        found = nested.decode_map(hostile, "f")[1] if is_map else nested.decode_array(hostile, "f")
    except CorruptFileError:
        return
    assert sum(len(value or b"") for value in found) <= len(hostile)


@few
@given(st.text(max_size=20), st.integers(0, 2**62), st.integers(-1, 2**62))
def test_descriptors_come_back(uri: str, offset: int, length: int) -> None:
    descriptor = BlobDescriptor(uri, offset, length)
    data = encode_descriptor(descriptor)
    assert is_descriptor(data) and decode_descriptor(data) == descriptor
    assert decode_descriptor(b"\x01" + data[9:]) == descriptor  # version 1
    for end in range(len(data)):
        with pytest.raises(CorruptFileError):
            decode_descriptor(data[:end])


def test_descriptors_and_views_of_java() -> None:
    head = bytes.fromhex("02") + b"CSEDBOLB" + struct.pack("<i", 3) + b"a/b" + struct.pack("<qq", 4, 9)
    assert decode_descriptor(head) == BlobDescriptor("a/b", 4, 9)
    view = bytes.fromhex("01") + b"WEIVBOLB" + struct.pack("<i", 4) + b"db.t" + struct.pack("<iq", 2, 7)
    assert decode_view(view) == BlobView("db.t", 2, 7)
    for data in (b"", b"\x03", head, view[:-1], view + b"x", b"\x01WEIVBOLB" + struct.pack("<i", -1)):
        with pytest.raises(CorruptFileError):
            decode_view(data)
    for data in (view, b"\x02", b"\x02" + bytes(30), head[:9] + struct.pack("<i", 2**31 - 1) + head[13:]):
        with pytest.raises(CorruptFileError):
            decode_descriptor(data)


def test_the_length_of_a_long_index() -> None:
    lengths = np.arange(100_000, dtype=np.int64) * 7 % 5000 + 16
    assert (codec.decode_lengths(codec.encode_lengths(lengths), "f") == lengths).all()
