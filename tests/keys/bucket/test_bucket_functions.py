"""The bucket functions; Java's own values are in tests/base/row/test_row_vectors.py."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.row import hash_rows
from paimon_pyds.base.types import parse_type
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.keys.bucket import bucket_of
from support.effort import examples

INT, BIGINT, STRING = parse_type("INT"), parse_type("BIGINT"), parse_type("STRING")


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 1000))
def test_default_and_mod_stay_in_range(values: list[int | None], buckets: int) -> None:
    keys = pa.array(values, pa.int64())
    found = bucket_of([keys], [BIGINT], buckets)
    hashes = hash_rows([keys], [BIGINT]).tolist()
    assert found.dtype == np.int32
    assert found.tolist() == [abs(h) % buckets for h in hashes]
    assert bucket_of([keys], [BIGINT], buckets, "mod").tolist() == [(v or 0) % buckets for v in values]


def test_the_smallest_hash_has_a_bucket() -> None:
    """abs(-2³¹) does not fit Java's int, but the remainder comes first there."""
    from paimon_pyds.keys.bucket import functions

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functions, "hash_rows", lambda columns, types: np.array([-(2**31), -7, 7], np.int32))
        assert bucket_of([pa.array([1, 2, 3])], [INT], 5).tolist() == [3, 2, 2]


@pytest.mark.parametrize(
    ("columns", "types"),
    [
        ([pa.array(["a"])], [STRING]),
        ([pa.array([1]), pa.array([2])], [INT, INT]),
        ([pa.array([1], pa.int16())], [parse_type("SMALLINT")]),
    ],
)
def test_mod_wants_one_whole_number(columns: list[pa.Array], types: list[Any]) -> None:
    with pytest.raises(SchemaError, match="mod"):
        bucket_of(columns, types, 4, "mod")


def test_bad_arguments() -> None:
    with pytest.raises(OptionError, match="0 buckets"):
        bucket_of([pa.array([1])], [INT], 0)
    with pytest.raises(OptionError, match="'crc'"):
        bucket_of([pa.array([1])], [INT], 2, "crc")
    with pytest.raises(UnsupportedError, match="hive"):
        bucket_of([pa.array([1], pa.timestamp("us"))], [parse_type("TIMESTAMP(6)")], 2, "hive")


def java_hash(value: Any) -> int:
    """Java's hashCode of one value as Hive takes it, unsigned 32 bits."""
    if value is None:
        return 0
    if isinstance(value, bytes):
        total = 0
        for byte in value:
            total = total * 31 + (byte - 256 if byte > 127 else byte)
        return total % 2**32
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        unscaled, scale = int("".join(map(str, digits))), -int(exponent)
        while unscaled and scale and unscaled % 10 == 0:
            unscaled, scale = unscaled // 10, scale - 1
        if not unscaled:
            return 0
        total = 0
        for shift in (96, 64, 32, 0):
            total = total * 31 + (unscaled >> shift) % 2**32
        return ((-total if sign else total) * 31 + scale) % 2**32
    unsigned = value % 2**64
    return int((unsigned ^ unsigned >> 32) % 2**32)


@settings(max_examples=examples(24), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=12),
            st.none() | st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-9, 9).map(lambda n: n * 10**20),
            st.none() | st.integers(-(2**63), 2**63 - 1),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_hive_against_a_plain_computation(rows: list[tuple[bytes | None, int | None, int | None]]) -> None:
    texts, unscaled, numbers = zip(*rows, strict=True)
    scaled = [None if n is None else Decimal((n < 0, tuple(map(int, str(abs(n)))), -10)) for n in unscaled]
    columns = [
        pa.array(texts, pa.binary()), pa.array(scaled, pa.decimal128(38, 10)), pa.array(numbers, pa.int64()),
    ]  # fmt: skip
    types = [parse_type("BYTES"), parse_type("DECIMAL(38, 10)"), BIGINT]
    expected = []
    for row in zip(texts, scaled, numbers, strict=True):
        total = 0
        for value in row:
            total = (total * 31 + java_hash(value)) % 2**32
        expected.append((total & 0x7FFFFFFF) % 97)
    assert bucket_of(columns, types, 97, "hive").tolist() == expected
    assert bucket_of([c.slice(1) for c in columns], types, 97, "hive").tolist() == expected[1:]
