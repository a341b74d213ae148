"""Laws of rows: what is encoded is decoded, hashes are those of a plain murmur3, damaged rows give errors or values."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.row import (
    EMPTY_ROW,
    decode_column,
    decode_row,
    decode_rows,
    encode_row,
    encode_rows,
    hash_rows,
)
from paimon_pyds.base.types import DataType, arrow_type, parse_type, scalar_to_internal
from paimon_pyds.errors import CorruptFileError, SchemaError, UnsupportedError
from support.effort import examples

I64 = st.integers(-(2**63), 2**63 - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    def build(unscaled: int) -> Decimal:
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

    return st.integers(-(10**precision) + 1, 10**precision - 1).map(build)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": I64,
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "DECIMAL(9, 2)": decimals(9, 2),
    "DECIMAL(18, 0)": decimals(18, 0),
    "DECIMAL(19, 3)": decimals(19, 3),
    "DECIMAL(38, 10)": decimals(38, 10),
    "CHAR(5)": st.text(max_size=5),
    "STRING": st.text(max_size=40),
    "BINARY(4)": st.binary(max_size=4),
    "BYTES": st.binary(max_size=40),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIME(3)": st.integers(0, 86_399_999),
    "TIMESTAMP(3)": I64,
    "TIMESTAMP(6)": I64,
    "TIMESTAMP(9)": I64,
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": I64,
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": I64,
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": I64,
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.Array], list[DataType]]:
    """Columns of random types; sometimes slices of longer ones, so that offsets are met."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=6))
    rows = draw(st.integers(0, 5))
    skip = draw(st.integers(0, 2))
    columns = []
    for name in names:
        maybe = VALUES[name] if draw(st.booleans()) else st.none() | VALUES[name]
        values = draw(st.lists(maybe, min_size=rows + skip, max_size=rows + skip))
        columns.append(pa.array(values, arrow_type(parse_type(name))).slice(skip))
    return columns, [parse_type(name) for name in names]


def same(left: pa.Array, right: pa.Array) -> bool:
    """Equal to the bit, NaN and -0.0 included."""
    if pa.types.is_floating(left.type):
        if left.is_valid() != right.is_valid():
            return False
        a, b = left.fill_null(0).to_numpy(), right.fill_null(0).to_numpy()
        return a.tobytes() == b.tobytes()
    return bool(left.equals(right))


@settings(max_examples=examples(24), deadline=None)
@given(tables(), st.booleans())
def test_decoding_gives_what_was_encoded(table: tuple[list[pa.Array], list[DataType]], arity: bool) -> None:
    columns, types = table
    rows = encode_rows(columns, types, arity=arity)
    rows.validate(full=True)
    assert all(len(row) % 8 == (4 if arity else 0) for row in rows.to_pylist())
    for index, (column, back) in enumerate(zip(columns, decode_rows(rows, types, arity=arity), strict=True)):
        back.validate(full=True)
        assert back.type == arrow_type(types[index])
        assert same(column, back)
        alone = decode_column(rows, types, index, arity=arity)
        assert alone.unknown is None
        assert same(column, alone.values)
        assert same(column.slice(1), decode_column(rows.slice(1), types, index, arity=arity).values)


@settings(max_examples=examples(24), deadline=None)
@given(tables(), st.sampled_from([1, 40]))
def test_single_rows_are_rows_of_columns(table: tuple[list[pa.Array], list[DataType]], times: int) -> None:
    columns, types = (list(each) * times for each in table)
    rows = encode_rows(columns, types, arity=True).to_pylist()
    for index, row in enumerate(rows):
        values = tuple(scalar_to_internal(column[index]) for column in columns)
        assert encode_row(values, types) == row
        assert repr(decode_row(row, types)) == repr(values)


def murmur(data: bytes) -> int:
    """Murmur3-32 with seed 42, value by value, of whole 4-byte blocks."""
    mask = 0xFFFFFFFF

    def rotate(x: int, n: int) -> int:
        return ((x << n) | (x >> (32 - n))) & mask

    h = 42
    for (k,) in struct.iter_unpack("<I", data):
        k = rotate(k * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
        h = (rotate(h ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= len(data)
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


@settings(max_examples=examples(24), deadline=None)
@given(tables())
def test_hashes_are_murmur_of_the_row_without_arity(table: tuple[list[pa.Array], list[DataType]]) -> None:
    columns, types = table
    rows = encode_rows(columns, types, arity=False).to_pylist()
    assert hash_rows(columns, types).tolist() == [murmur(row) for row in rows]


def test_hashing_many_rows_goes_chunk_by_chunk() -> None:
    count = 40_000
    texts = pa.array([None if i % 7 == 0 else "x" * (i % 23) + str(i) for i in range(count)])
    numbers = pa.array(range(count), pa.int32())
    types = [parse_type("STRING"), parse_type("INT")]
    rows = encode_rows([texts, numbers], types, arity=False).to_pylist()
    assert hash_rows([texts, numbers], types).tolist() == [murmur(row) for row in rows]
    assert hash_rows([texts.slice(0, 0), numbers.slice(0, 0)], types).tolist() == []


@pytest.mark.parametrize("fields", [1, 55, 56, 57, 120, 121])
def test_wide_rows_have_wider_null_bits(fields: int) -> None:
    types = [parse_type("INT")] * fields
    columns = [pa.array([i, None], pa.int32()) for i in range(fields)]
    rows = encode_rows(columns, types, arity=True)
    header = 8 if fields <= 56 else 16 if fields <= 120 else 24
    assert [len(row) for row in rows.to_pylist()] == [4 + header + 8 * fields] * 2
    assert [c.to_pylist() for c in decode_rows(rows, types, arity=True)] == [[i, None] for i in range(fields)]
    null_row = rows[1].as_py()[4 : 4 + header]
    assert int.from_bytes(null_row, "little") == ((1 << fields) - 1) << 8


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array(["a", None, "long enough to lie outside"], pa.large_string()), "STRING"),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "STRING"),
        (pa.chunked_array([["a"], ["b", None]]), "STRING"),
        (pa.chunked_array([], pa.string()), "STRING"),
        (pa.array([1, 2], pa.int8()), "BIGINT"),
        (pa.array([b"x"], pa.large_binary()), "BYTES"),
    ],
)
def test_other_arrow_forms_are_taken(array: Any, text: str) -> None:
    type_ = parse_type(text)
    plain = pa.array(array.to_pylist(), arrow_type(type_))
    assert encode_rows([array], [type_], arity=True).equals(encode_rows([plain], [type_], arity=True))


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SchemaError, match="does not fit"):
        encode_rows([pa.array(["x"])], [parse_type("INT")], arity=True)
    with pytest.raises(SchemaError, match="lengths"):
        encode_rows([pa.array([1]), pa.array([1, 2])], [parse_type("INT")] * 2, arity=True)
    with pytest.raises(SchemaError, match="2 fields"):
        encode_rows([pa.array([1])], [parse_type("INT")] * 2, arity=True)
    with pytest.raises(SchemaError, match="is not a value of"):
        encode_row(["x"], [parse_type("INT")])
    with pytest.raises(SchemaError, match="1 values for a row of 2"):
        encode_row([1], [parse_type("INT")] * 2)
    with pytest.raises(UnsupportedError, match="ARRAY"):
        decode_row(encode_row([1], [parse_type("INT")]), [parse_type({"type": "ARRAY", "element": "INT"})])


def test_the_row_without_fields() -> None:
    assert encode_row([], []) == EMPTY_ROW
    assert decode_row(EMPTY_ROW, []) == ()
    assert decode_rows(pa.array([EMPTY_ROW] * 2), [], arity=True) == []


# ------------------------------------------------------------------------------------------- timestamps out of range


def stamp_row(millis: int, nanos: int) -> bytes:
    return bytes(8) + struct.pack("<iiq", nanos, 16, millis)


@pytest.mark.parametrize("text", ["TIMESTAMP(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "TIMESTAMP(6)"])
def test_timestamps_that_arrow_cannot_hold_are_unknown(text: str) -> None:
    type_ = parse_type(text)
    per_milli, nanos_per = (1000, 1000) if "(6)" in text else (10**6, 1)
    low, high = -(2**63), 2**63 - 1
    inside = [low, low + 1, 0, -1, high - 1, high]
    outside = [low - 1, high + 1, low - per_milli, high + per_milli, low * 900, high * 900]
    rows = [stamp_row(v // per_milli, v % per_milli * nanos_per) for v in inside + outside]
    found = decode_column(pa.array(rows), [type_], 0, arity=False)
    assert [scalar_to_internal(v) for v in found.values] == inside + [None] * len(outside)
    assert found.unknown is not None
    assert found.unknown.tolist() == [False] * len(inside) + [True] * len(outside)
    with pytest.raises(UnsupportedError, match="outside the range"):
        decode_rows(pa.array(rows), [type_], arity=False)


def test_micros_with_nanoseconds_are_unknown_and_nulls_are_not() -> None:
    type_ = parse_type("TIMESTAMP(6)")
    null = encode_rows([pa.array([None], pa.timestamp("us"))], [type_], arity=False)[0].as_py()
    found = decode_column(pa.array([stamp_row(1, 1500), null, stamp_row(1, 2000)]), [type_], 0, arity=False)
    assert [scalar_to_internal(v) for v in found.values] == [None, None, 1002]
    assert found.unknown is not None
    assert found.unknown.tolist() == [True, False, False]


# ------------------------------------------------------------------------------------------------------- damaged rows

TYPES = [parse_type(t) for t in ("STRING", "DECIMAL(30, 4)", "TIMESTAMP(6)", "DECIMAL(9, 2)", "BYTES", "INT")]
GOOD = encode_row(
    ["a text of some length", Decimal("-123456789012345678901.2345"), 5, Decimal("1.50"), b"12345678", 3], TYPES
)


def corrupt(row: bytes, field: str, types: list[DataType] = TYPES) -> None:
    with pytest.raises(CorruptFileError, match=field) as caught:
        decode_row(row, types, path="a-manifest")
    assert caught.value.path == "a-manifest"


def patched(at: int, data: bytes) -> bytes:
    return GOOD[: 4 + at] + data + GOOD[4 + at + len(data) :]


def test_each_kind_of_damage_is_named() -> None:
    corrupt(b"", "arity")
    corrupt(b"\x00\x00\x00", "arity")
    corrupt(b"\x00\x00\x00\x07" + GOOD[4:], "arity")
    corrupt(b"\xff" * 4 + GOOD[4:], "arity")
    corrupt(GOOD[:40], "row length")
    corrupt(GOOD[:70], "variable part")
    corrupt(patched(8, struct.pack("<II", 22, 2**30)), "variable part")
    corrupt(patched(8, struct.pack("<II", 2**32 - 1, 56)), "variable part")
    corrupt(patched(8, b"\xff\xfe\x00\x00\x00\x00\x00\x82"), "string")
    corrupt(patched(8, b"abcdefg\x89"), "inline length")
    corrupt(patched(16, struct.pack("<II", 17, 56)), "decimal length")
    corrupt(patched(16, struct.pack("<II", 0, 56)), "decimal length")
    corrupt(patched(24, struct.pack("<i", 1_000_000)), "nanoOfMillisecond")
    corrupt(patched(32, struct.pack("<q", 10**9)), "decimal")
    corrupt(patched(16, struct.pack("<II", 16, 56)), "decimal")
    with pytest.raises(CorruptFileError, match="missing"):
        decode_rows(pa.array([GOOD, None]), TYPES, arity=True)


@settings(max_examples=examples(24), deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=6), st.integers(0, len(GOOD)))
def test_damaged_rows_give_errors_or_values(edits: list[tuple[int, int]], length: int) -> None:
    row = bytearray(GOOD)
    for at, byte in edits:
        row[at] = byte
    for data in (bytes(row), bytes(row[:length])):
        try:
            values = decode_row(data, TYPES)
        except (CorruptFileError, UnsupportedError):
            continue
        assert len(values) == len(TYPES)
        encode_row(values, TYPES)


@settings(max_examples=examples(24), deadline=None)
@given(st.lists(st.binary(max_size=80), max_size=4), st.booleans())
def test_noise_gives_errors_or_values(rows: list[bytes], arity: bool) -> None:
    try:
        columns = decode_rows(pa.array(rows, pa.binary()), TYPES, arity=arity)
    except (CorruptFileError, UnsupportedError):
        return
    assert [len(c) for c in columns] == [len(rows)] * len(TYPES)


def test_statistics_of_a_hundred_thousand_files_decode_fast() -> None:
    import time

    types = [parse_type("BIGINT"), parse_type("STRING"), parse_type("TIMESTAMP(6)")]
    count = 100_000
    numbers = np.arange(count)
    columns = [
        pa.array(numbers),
        pa.array([f"customer-{i:07d}" for i in range(count)]),
        pa.array(numbers, pa.timestamp("us")),
    ]
    rows = encode_rows(columns, types, arity=True)
    for index, column in enumerate(columns):
        started = time.process_time()
        assert decode_column(rows, types, index, arity=True).values.equals(column)
        assert time.process_time() - started < 2
