"""What is asked for one key alone takes other steps than for many, and has the same answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from paimon_pyds.base.types import arrow_type, parse_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.bloom import BloomBuilder, BloomReader
from paimon_pyds.index.build import bloom_size
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.probe import Points
from paimon_pyds.index.roaring.codec import decode_bitmap, encode_bitmap
from paimon_pyds.storage.byte_source import BytesSource


@pytest.mark.parametrize(("items", "fpp"), [(300, 0.5), (800_000, 0.1), (200, 1e-300)])
@pytest.mark.parametrize("name", ["BIGINT", "STRING", "DOUBLE", "TINYINT"])
def test_a_bloom_filter_tells_the_same_of_one_key(name: str, items: int, fpp: float) -> None:
    type_ = parse_type(name)
    spread = 7 if name == "TINYINT" else 10**15 + 7
    count = 600 if fpp > 0.01 else 60  # the third filter has a thousand hash functions
    numbers = [(n % 30 - 15) * spread if name == "TINYINT" else (n - count // 2) * spread for n in range(count)]
    made = {"STRING": str, "DOUBLE": float}.get(name, int)
    values = pa.array([made(n) for n in numbers], arrow_type(type_))
    codec = key_codec(type_)
    builder = BloomBuilder(codec, *bloom_size(items, fpp))
    builder.add(codec.keys_of(values[::2]))
    source = BytesSource(builder.finish())
    one, many = BloomReader(source, codec), BloomReader(source, codec)
    keys = codec.keys_of(values).to_pylist()
    told = [one.answer(Points((key,))) is None for key in keys]
    assert told == [many.answer(Points((key, key))) is None for key in keys]
    assert all(told[::2])


@pytest.mark.parametrize("members", [4096, 4097, 30_000])
def test_a_wrong_count_of_one_container_is_told(members: int) -> None:
    data = bytearray(encode_bitmap(BitMap(np.arange(members, dtype=np.uint32) * 2)))
    assert len(decode_bitmap(bytes(data))) == members
    data[-2:] = b"\xff\xff" if members > 4096 else b"\0\0"
    with pytest.raises(CorruptFileError, match="not a RoaringBitmap"):
        decode_bitmap(bytes(data))
