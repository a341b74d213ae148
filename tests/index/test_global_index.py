"""Global index files: those of Paimon's writers, those written here, and damaged ones."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import parse_type
from paimon_pyds.base.types.arrow import arrow_type
from paimon_pyds.base.varints import varint
from paimon_pyds.errors import CorruptFileError, PaimonError, UnsupportedError
from paimon_pyds.index.global_index.blocks import BlockPlace, read_blocks, with_trailer
from paimon_pyds.index.global_index.btree_file import FOOTER, MAGIC, OF_ANY_SIZE, OF_ONE_SIZE, VERSION
from paimon_pyds.index.global_index.btree_writer import write_btree
from paimon_pyds.index.global_index.range_meta import (
    KeyRange,
    read_key_range,
    source_snapshot,
    write_key_range,
    write_source,
)
from paimon_pyds.index.global_index.reader import open_global_index
from paimon_pyds.index.global_index.row_ids import decode_row_ids, encode_row_ids
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.probe import make_probe
from paimon_pyds.sql.predicate.tree import Op
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import LONG
from support.v2_fixtures import v2_table

TYPES = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-300, 300),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    "DATE": st.integers(-800_000, 800_000),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats() | st.sampled_from([0.0, -0.0, 1.5]),
    "STRING": st.text(max_size=3) | st.text("ab", max_size=2),
    "DECIMAL(9, 2)": st.decimals(-9_999_999, 9_999_999, places=2),
    "TIMESTAMP(3)": st.integers(-(10**13), 10**13),
    "TIMESTAMP(6)": st.integers(-(10**15), 10**15),
}
COMPARED = (Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE)


def column(type_: str, values: list[Any]) -> pa.Array:
    wanted = arrow_type(parse_type(type_))
    if type_.startswith("TIMESTAMP") or type_ == "DATE":
        return pa.array(values, pa.int32() if type_ == "DATE" else pa.int64()).cast(wanted)
    return pa.array(values, wanted)


def candidates(kind: str, data: bytes, type_: str, rows: int, op: Op, literals: list[Any]) -> list[int] | None:
    probe = make_probe(op, literals, key_codec(parse_type(type_)))
    assert probe is not None
    found = open_global_index(kind, BytesSource(data), parse_type(type_), rows).candidates(probe)
    return None if found is None else found.tolist()


def matches(value: Any, op: Op, literal: Any) -> bool:
    """SQL's comparison of two values that are not NULL, in which NaN is equal to itself and above all others."""
    if isinstance(value, float):
        value, literal = (value != value, value), (literal != literal, literal)
        if value[0] and literal[0]:
            return op in (Op.EQ, Op.LE, Op.GE)
        if value[0] or literal[0]:
            value, literal = value[0], literal[0]
    return {
        Op.EQ: value == literal, Op.LT: value < literal, Op.LE: value <= literal, Op.GT: value > literal,
        Op.GE: value >= literal,
    }[op]  # fmt: skip


def fixture(name: str) -> bytes:
    (file,) = (v2_table("global_index") / "index").glob(f"{name}*")
    return file.read_bytes()


def test_a_bitmap_index_of_pypaimon_gives_the_rows_of_a_value() -> None:
    data = fixture("bitmap-global-index")
    assert candidates("bitmap", data, "STRING", 80, Op.EQ, ["green"]) == list(range(2, 80, 3))
    assert candidates("bitmap", data, "STRING", 80, Op.GE, ["green"]) == [n for n in range(80) if n % 3 != 1]
    assert candidates("bitmap", data, "STRING", 80, Op.IN, ["black", "red"]) == list(range(0, 80, 3))
    assert candidates("bitmap", data, "STRING", 80, Op.IS_NULL, []) == []


def test_btree_indexes_of_pypaimon_give_the_rows_of_values_and_ranges() -> None:
    names, ids = fixture("btree-global-index-98315070"), fixture("btree-global-index-b0734297")
    assert candidates("btree", names, "STRING", 80, Op.IN, ["n0003", "n0007", "n0009"]) == [3, 9]
    assert candidates("btree", names, "STRING", 80, Op.STARTS_WITH, ["n001"]) == list(range(10, 20))
    assert candidates("btree", names, "STRING", 80, Op.IS_NULL, []) == [7, 57]
    assert candidates("btree", ids, "INT", 80, Op.GT, [76]) == [77, 78, 79]
    assert candidates("btree", ids, "INT", 80, Op.EQ, [80]) == []


@given(st.data())
def test_an_index_gives_the_rows_that_match(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(sorted(TYPES)))
    values = data.draw(st.lists(st.none() | TYPES[type_], max_size=40))
    codec = data.draw(st.sampled_from(["none", "zstd"]))
    rows = len(values) + 3
    ids = np.sort(np.array(data.draw(st.permutations(range(rows)))[: len(values)], np.int64))
    written = write_btree(column(type_, values), ids, parse_type(type_), codec=codec)
    assert written.row_count == len(values)
    assert written.bounds.has_nulls == (None in values)
    op, literal = data.draw(st.sampled_from(COMPARED)), data.draw(TYPES[type_])
    if data.draw(st.booleans()) and any(value is not None for value in values):
        literal = data.draw(st.sampled_from([value for value in values if value is not None]))
    file = b"".join(written.pieces)
    expected = [int(ids[n]) for n, value in enumerate(values) if value is not None and matches(value, op, literal)]
    assert candidates("btree", file, type_, rows, op, [literal]) == expected
    nulls = [int(ids[n]) for n, value in enumerate(values) if value is None]
    assert candidates("btree", file, type_, rows, Op.IS_NULL, []) == nulls


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("type_", ["BIGINT", "DOUBLE", "STRING", "TIMESTAMP(6)"])
@pytest.mark.parametrize("asked", [1, 40, 3000])
def test_few_and_many_keys_of_many_blocks(asked: int, type_: str, codec: str) -> None:
    rng = np.random.default_rng(asked)
    count = 40_000
    numbers = np.where(rng.random(count) < 0.3, 5, rng.integers(0, count, count))
    texts = [f"{n}-{'x' * (n % 7)}" if type_ == "STRING" else n for n in numbers.tolist()]
    values = [n / 2 for n in texts] if type_ == "DOUBLE" else texts
    file = b"".join(write_btree(column(type_, values), np.arange(count), parse_type(type_), codec=codec).pieces)
    wanted = rng.integers(-10, count + 10, asked)
    literals = [f"{n}-{'x' * (n % 7)}" if type_ == "STRING" else n for n in wanted.tolist()]
    literals = [n / 2 for n in literals] if type_ == "DOUBLE" else literals
    found = candidates("btree", file, type_, count, Op.IN, literals)
    assert found == np.flatnonzero(np.isin(numbers, wanted)).tolist()


@pytest.mark.parametrize("table", [[0, 15, 15], [0, 16, 15], [1, 15, 30], [0, 15, 60], [0, 15, 2**32 - 1]])
def test_entries_out_of_order_are_refused(table: list[int]) -> None:
    entries = b"".join(bytes([8, *key.to_bytes(8, "little"), 5, 1, 0x80, 0x80, 0x80, 1]) for key in (1, 2, 3))
    content = entries + np.array(table, "<u4").tobytes() + len(table).to_bytes(4, "little") + bytes([OF_ANY_SIZE])
    block = with_trailer(content, "none")
    last = bytes([8, *(3).to_bytes(8, "little")])
    handle = varint(0) + varint(len(content))
    entry = last + bytes([len(handle)]) + handle
    index = with_trailer(entry + len(entry).to_bytes(4, "little") + bytes([OF_ONE_SIZE]), "none")
    footer = FOOTER.pack(0, 0, 0, len(block), len(index) - 5, 0, 0, VERSION, MAGIC)
    with pytest.raises(CorruptFileError, match=r"entries out of order|a key of|row ids|a number"):
        candidates("btree", block + index + footer, "BIGINT", 1 << 22, Op.IN, [1, 2, 3])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_keys_of_many_rows_and_many_blocks(codec: str) -> None:
    rng = np.random.default_rng(7)
    count = 3_000_000 if LONG else 300_000
    values = np.where(rng.random(count) < 0.3, 5, rng.integers(0, count, count))
    file = b"".join(write_btree(pa.array(values), np.arange(count), parse_type("BIGINT"), codec=codec).pieces)
    index = open_global_index("btree", BytesSource(file), parse_type("BIGINT"), count)
    wanted = [5, *rng.integers(0, count, 50).tolist()]
    probe = make_probe(Op.IN, wanted, key_codec(parse_type("BIGINT")))
    assert np.array_equal(index.candidates(probe), np.flatnonzero(np.isin(values, wanted)))
    low, high = count // 2, count // 2 + 5000
    between = [make_probe(op, [at], key_codec(parse_type("BIGINT"))) for op, at in ((Op.GE, low), (Op.LT, high))]
    found = index.candidates(between[0].overlap(between[1]))
    assert np.array_equal(found, np.flatnonzero((values >= low) & (values < high)))
    assert index.candidates(make_probe(Op.GE, [1000], key_codec(parse_type("BIGINT")))) is None  # nearly all blocks


def test_bounds_and_source() -> None:
    for bounds in (KeyRange(b"a", b"", True), KeyRange(None, None, True), KeyRange(b"", b"", False)):
        assert read_key_range(write_key_range(bounds)) == bounds
    assert read_key_range(bytes(8) + b"\x01") == KeyRange(None, None, True)  # of a writer without flags
    assert source_snapshot(write_source(17)) == 17
    assert source_snapshot(b"DEIX") is None
    with pytest.raises(CorruptFileError):
        read_key_range(b"\x05\x00\x00\x00a")


@given(st.sets(st.integers(0, 2**40) | st.integers(0, 100)))
def test_row_ids_round_trip(ids: set[int]) -> None:
    wanted = np.array(sorted(ids), np.int64)
    assert np.array_equal(decode_row_ids(encode_row_ids(wanted), "x", 0), wanted)


@pytest.mark.parametrize("name", ["bitmap-global-index", "btree-global-index-9", "btree-global-index-b"])
def test_damaged_files_are_refused_or_give_rows_of_the_range(name: str) -> None:
    data, rng = fixture(name), random.Random(3)
    kind, type_ = name.split("-")[0], "INT" if name.endswith("b") else "STRING"
    refused = 0
    for _ in range(20_000 if LONG else 400):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 5])):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(damaged[: rng.choice([len(data), len(data), rng.randrange(len(data))])])
        for op, literals in ((Op.EQ, [3 if type_ == "INT" else "n0003"]), (Op.GE, [0 if type_ == "INT" else ""])):
            try:
                found = candidates(kind, cut, type_, 80, op, list(literals))
            except (CorruptFileError, UnsupportedError):
                refused += 1
            else:
                assert found is None or all(0 <= row < 80 for row in found)
    assert refused > 100


def test_what_is_not_supported_is_refused_by_name() -> None:
    for type_ in ("BYTES", "DECIMAL(20, 2)", "TIMESTAMP(9)"):
        with pytest.raises(PaimonError, match="index"):
            open_global_index("btree", BytesSource(fixture("btree-global-index-b")), parse_type(type_), 80)
    with pytest.raises(UnsupportedError, match="full-text"):
        open_global_index("full-text", BytesSource(b""), parse_type("STRING"), 80)
    lzo = b"abc\x03"
    block = lzo + zlib.crc32(lzo).to_bytes(4, "little")
    with pytest.raises(UnsupportedError, match="blocks compressed in the way 3"):
        read_blocks(BytesSource(block), [BlockPlace(0, 3)])
