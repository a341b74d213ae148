"""rbm32 and rbm64: unions of serialized sets, also by Java; the bytes of Java's 64-bit sets, whole and damaged."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import CorruptFileError, SchemaError
from paimon_pyds.index.roaring.codec import decode_bitmap, encode_bitmap
from paimon_pyds.index.roaring.java64 import decode_java64, encode_java64
from paimon_pyds.keys.merge.aggregates import aggregate, resolve_aggregate
from support.oracle import Oracle, requires_java_oracle

pytestmark = pytest.mark.smoke

_CLOSE = st.integers(0, 300).map(lambda v: v << 16)
_LONGS = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2**20), _CLOSE, st.integers(2**63 - 9, 2**63 + 9))


def packed64(values: Sequence[int]) -> bytes:
    found: dict[int, BitMap] = {}
    for value in values:
        found.setdefault(value >> 32, BitMap()).add(value & 0xFFFFFFFF)
    return encode_java64(found)


def unpacked64(data: bytes) -> set[int]:
    return {high << 32 | low for high, bitmap in decode_java64(data).items() for low in bitmap}


@given(st.sets(_LONGS, max_size=60))
def test_sets_of_long_integers_come_back(values: set[int]) -> None:
    assert unpacked64(packed64(sorted(values))) == values


@pytest.mark.parametrize("width", [1, 2, 4, 5, 16, 17, 48, 49, 255, 256])
@pytest.mark.parametrize("shift", [16, 24, 56])
def test_nodes_of_every_width(width: int, shift: int) -> None:
    values = {byte << shift for byte in range(width)} | {255 << shift | 7}
    assert unpacked64(packed64(sorted(values))) == values


def test_containers_of_every_kind() -> None:
    values = {*range(60_000), *range(1 << 16, 2 << 16, 2), 5 << 40, 2**64 - 1}
    assert unpacked64(packed64(sorted(values))) == values


def test_the_bytes_are_those_of_javas_classes() -> None:
    """Written down from the source: one leaf is the whole tree; a node of type 0 has its bytes backwards."""
    leaf = bytes.fromhex("04000000 000000000001 0000000000000000")
    container = bytes.fromhex("01 02 01000000 0500")
    end = bytes.fromhex("0100000000000000 00000000 00000000")
    head = bytes.fromhex("01000000 fe 01000000")
    assert packed64([1 << 16 | 5]) == b"\x01" + (1).to_bytes(8, "little") + leaf + head + container + end
    assert packed64([]) == b"\0"
    two = packed64([1 << 16, 2 << 16])
    assert two[9:22] == bytes.fromhex("00 0200 05 0000000000 00000201")


@given(st.sets(_LONGS, min_size=1, max_size=20), st.data())
def test_damaged_sets_are_errors_or_other_sets(values: set[int], data: st.DataObject) -> None:
    whole = bytearray(packed64(sorted(values)))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    else:
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    with suppress(CorruptFileError):  # no other error, and no wait
        decode_java64(bytes(whole))


def union(name: str, groups: list[list[bytes | None]]) -> list[bytes | None]:
    function = resolve_aggregate(name, parse_type("BYTES"), "c", {})
    rows = [value for group in groups for value in group]
    starts = np.cumsum([0, *(len(group) for group in groups)], dtype=np.int64)[:-1]
    return aggregate(function, pa.array(rows, pa.binary()), starts, np.zeros(len(rows), np.bool_)).to_pylist()


@given(
    st.lists(st.lists(st.none() | st.sets(st.integers(0, 2**32 - 1), max_size=9), min_size=1, max_size=4), max_size=5)
)
def test_unions_of_integers(groups: list[list[set[int] | None]]) -> None:
    found = union("rbm32", [[None if s is None else encode_bitmap(BitMap(s)) for s in group] for group in groups])
    for data, group in zip(found, groups, strict=True):
        sets = [values for values in group if values is not None]
        assert (data is None) == (not sets)
        assert data is None or set(decode_bitmap(data)) == set().union(*sets)


@given(st.lists(st.lists(st.none() | st.sets(_LONGS, max_size=9), min_size=1, max_size=4), max_size=5))
def test_unions_of_long_integers(groups: list[list[set[int] | None]]) -> None:
    found = union("rbm64", [[None if s is None else packed64(sorted(s)) for s in group] for group in groups])
    for data, group in zip(found, groups, strict=True):
        sets = [values for values in group if values is not None]
        assert (data is None) == (not sets)
        assert data is None or unpacked64(data) == set().union(*sets)


@pytest.mark.parametrize("name", ["rbm32", "rbm64"])
def test_a_value_that_is_alone_is_not_looked_at(name: str) -> None:
    assert union(name, [[None, b"nothing", None]]) == [b"nothing"]
    with pytest.raises(CorruptFileError, match="column c: "):
        union(name, [[b"\x01nothing", b"\x01nothing"]])


@pytest.mark.parametrize("type_", ["BINARY(9)", "STRING", "BIGINT"])
def test_types_that_java_refuses_are_refused_by_name(type_: str) -> None:
    with pytest.raises(SchemaError, match="rbm64 takes BYTES or VARBINARY"):
        resolve_aggregate("rbm64", parse_type(type_), "c", {})


@pytest.mark.slow
@requires_java_oracle
@pytest.mark.java
def test_java_reads_our_bytes_and_we_read_its(oracle: Oracle, warehouse: Path) -> None:
    pick = random.Random(3)
    spread = [byte << shift | pick.randrange(1 << 16) for shift in (16, 24, 40, 56) for byte in range(256)]
    sets = [
        set(spread[:20]), set(spread[10:300]), set(spread), {2**64 - 1, 2**63, 2**63 - 1}, set(range(70_000)),
        set(range(0, 1 << 17, 2)), {pick.randrange(2**64) for _ in range(500)}, set(),
    ]  # fmt: skip
    packed = [packed64(sorted(values)) for values in sets]
    pairs = [(a, b) for a in range(len(sets)) for b in range(len(sets))]
    fields = [DataField(0, "id", parse_type("INT NOT NULL")), DataField(1, "short", parse_type("BYTES")),
              DataField(2, "long", parse_type("BYTES"))]  # fmt: skip
    options = {"bucket": "1", "merge-engine": "aggregation", "write-only": "true",
               "fields.short.aggregate-function": "rbm32", "fields.long.aggregate-function": "rbm64"}  # fmt: skip
    short = [encode_bitmap(BitMap({value & 0xFFFFFFFF for value in values})) for values in sets]
    with oracle.batch() as batch:
        batch.create(warehouse, "db.t", fields, primary_keys=["id"], options=options)
        for side in (0, 1):
            rows = [
                {"id": i, "short": short[pair[side]].hex(), "long": packed[pair[side]].hex()}
                for i, pair in enumerate(pairs)
            ]
            batch.write(warehouse, "db.t", rows)
        read = batch.read(warehouse, "db.t")
    for row in read.values:
        a, b = pairs[row["id"]]
        assert unpacked64(bytes.fromhex(row["long"])) == sets[a] | sets[b]
        assert union("rbm32", [[short[a], short[b]]]) == [bytes.fromhex(row["short"])]
        again = union("rbm64", [[packed[a], packed[b]], [bytes.fromhex(row["long"]), packed64([])]])
        assert again[0] == again[1]


def _bitmap_table(path: Path, **options: str) -> pp.Table:
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.short.aggregate-function": "rbm32",
               "fields.long.aggregate-function": "rbm64", **options}  # fmt: skip
    return pp.Table.create(path, "id INT NOT NULL, short BYTES, long BYTES", primary_key="id", options=options)


def _sets(*rows: tuple[int, bytes | None, bytes | None]) -> pa.Table:
    names = ("id", "short", "long")
    return pa.table({n: pa.array(c, t) for n, c, t in zip(names, zip(*rows, strict=True), _TYPES, strict=True)})


_TYPES = (pa.int32(), pa.binary(), pa.binary())
_SHORT, _LONG = encode_bitmap(BitMap([1, 5])), packed64([7, 2**40])


@pytest.mark.parametrize("bad", [b"", b"nothing", _SHORT[:-1], _SHORT + b"\0"])
@pytest.mark.parametrize("column", ["short", "long"])
def test_bytes_that_are_no_bitmap_are_refused_by_the_write(tmp_path: Path, column: str, bad: bytes) -> None:
    """A second version of the key would make it unreadable for ever."""
    table = _bitmap_table(tmp_path / "t")
    table.append(_sets((1, _SHORT, _LONG), (2, None, None)))
    row = (3, bad, None) if column == "short" else (3, None, bad)
    with pytest.raises(SchemaError, match=rf"column '{column}'.*row 3 of the data") as refused:
        table.append([_sets((1, _SHORT, _LONG), (2, None, _LONG)).to_batches()[0], _sets(row).to_batches()[0]])
    assert "rbm" in str(refused.value)
    assert len(table.snapshots.list()) == 1
    table.append(_sets((2, _SHORT, None)))
    assert table.scan().to_arrow()["short"].to_pylist() == [_SHORT, _SHORT]


def test_other_engines_take_any_bytes(tmp_path: Path) -> None:
    table = _bitmap_table(tmp_path / "t", **{"merge-engine": "deduplicate"})
    table.append(_sets((1, b"any", b"")))
    assert table.scan().count() == 1


def test_groups_of_partial_update_take_bitmaps_only(tmp_path: Path) -> None:
    """So do updates, and merges."""
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "short", "bucket": "1",
               "fields.short.aggregate-function": "rbm32"}  # fmt: skip
    columns = "id INT NOT NULL, g INT, short BYTES"
    table = pp.Table.create(tmp_path / "t", columns, primary_key="id", options=options)
    table.append([{"id": 1, "g": 1, "short": _SHORT}])
    with pytest.raises(SchemaError, match="no serialized RoaringBitmap"):
        table.append([{"id": 1, "g": 2, "short": b"nothing"}])
    with pytest.raises(SchemaError, match="no serialized RoaringBitmap"):
        table.update({"short": "X'00'"}, "id = 1")
    with pytest.raises(SchemaError, match="no serialized RoaringBitmap"):
        table.merge([{"id": 2, "g": 2, "short": b"nothing"}], on="id", when_not_matched="insert")
    assert table.scan().to_arrow()["short"].to_pylist() == [_SHORT]
