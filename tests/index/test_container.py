"""The container: its bytes as the specification draws them, odd names, and heads that lie."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.errors import CorruptFileError, SchemaError
from paimon_pyds.index import container
from paimon_pyds.index.container import (
    MAGIC,
    CheckedBlocks,
    IndexRange,
    blocks_in,
    checked,
    decode_modified_utf8,
    encode_checksums,
    encode_modified_utf8,
    parse_head,
    write_container,
)
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import examples

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


class CountingSource(BytesSource):
    """Remembers what was read."""

    reads: list[tuple[int, int]]

    def read(self, offset: int, length: int) -> bytes:
        self.__dict__.setdefault("reads", []).append((offset, length))
        return super().read(offset, length)


def test_bytes_of_the_specification() -> None:
    data = write_container({"c": {"bloom-filter": b"\x01\x02", "bsi": None}})
    head = struct.pack(">qiii", 1493475289347502, 1, 66, 1)
    head += b"\x00\x01c" + struct.pack(">i", 2)
    head += b"\x00\x0cbloom-filter" + struct.pack(">ii", 66, 2)
    head += b"\x00\x03bsi" + struct.pack(">ii", -1, 0) + b"\0\0\0\0"
    assert data == head + b"\x01\x02"
    parsed = parse_head(BytesSource(data))
    assert parsed.columns == {"c": {"bloom-filter": IndexRange(66, 2), "bsi": IndexRange(-1, 0)}}
    assert parsed.columns["c"]["bsi"].is_empty
    assert parsed.head_length == 66


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, st.none() | st.binary(max_size=50), max_size=3), max_size=4))
@settings(max_examples=examples(24), deadline=None)
def test_what_is_written_is_read(indexes: dict[str, dict[str, bytes | None]]) -> None:
    data = write_container(indexes)
    columns = parse_head(BytesSource(data)).columns
    assert list(columns) == list(indexes)
    for name, by_type in indexes.items():
        for kind, body in by_type.items():
            where = columns[name][kind]
            assert (None if where.is_empty else data[where.start : where.start + where.length]) == body


def test_names_are_javas_modified_utf8() -> None:
    assert encode_modified_utf8("a\0é中😀") == b"a\xc0\x80\xc3\xa9\xe4\xb8\xad\xed\xa0\xbd\xed\xb8\x80"
    for text in ("", "\0", "a\0é中😀", "m[ключ]"):
        assert decode_modified_utf8(encode_modified_utf8(text)) == text
    for wrong in (b"\xff", b"\xed\xa0\xbd", b"\xe4\xb8"):
        with pytest.raises(ValueError):
            decode_modified_utf8(wrong)


def test_redundant_bytes_are_passed_over() -> None:
    data = write_container({"c": {"x": b"body"}})
    more = data[:-8] + struct.pack(">i", 3) + b"new" + data[-4:]
    longer = int.from_bytes(data[12:16], "big") + 3
    start = data.index(b"\x00\x01x") + 3
    more = more[:12] + struct.pack(">i", longer) + more[16:start] + struct.pack(">i", longer) + more[start + 4 :]
    where = parse_head(BytesSource(more)).columns["c"]["x"]
    assert more[where.start : where.start + where.length] == b"body"


def test_a_short_head_is_read_at_once_and_a_long_one_in_few_reads() -> None:
    body = bytes(100_000)
    source = CountingSource(write_container({"c": {"x": body}}))
    parse_head(source)
    assert source.reads == [(0, 4096)]
    many = CountingSource(write_container({f"column {i}": {"x": b""} for i in range(3000)}))
    parse_head(many)
    assert len(many.reads) < 12


def head_with(**fields: int) -> bytes:
    values = {"magic": MAGIC, "version": 1, "length": 44, "columns": 1, "indexes": 1, "start": 44, "size": 4, "rest": 0}
    values.update(fields)
    v = values
    return (
        struct.pack(">qiii", v["magic"], v["version"], v["length"], v["columns"])
        + b"\0\1c" + struct.pack(">i", v["indexes"])
        + b"\0\3bsi" + struct.pack(">iii", v["start"], v["size"], v["rest"])
        + b"body"
    )  # fmt: skip


def test_the_untouched_head_is_right() -> None:
    assert parse_head(BytesSource(head_with())).columns == {"c": {"bsi": IndexRange(44, 4)}}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"magic": 1}, "magic"),
        ({"version": 2}, "version"),
        ({"length": 19}, "head length"),
        ({"length": 43}, "head length"),
        ({"length": 45}, "start pos"),
        ({"length": 2**31 - 1}, "head length"),
        ({"columns": -1}, "column number"),
        ({"columns": 2**31 - 1}, "column number"),
        ({"columns": 2}, "index number"),
        ({"indexes": -1}, "index number"),
        ({"indexes": 2**30}, "index number"),
        ({"start": 43}, "start pos"),
        ({"start": -2}, "start pos"),
        ({"size": 5}, "start pos"),
        ({"size": -1}, "start pos"),
        ({"start": 2**31 - 1, "size": 2**31 - 1}, "start pos"),
        ({"rest": -1}, "redundant length"),
        ({"rest": 5}, "redundant length"),
        ({"rest": 4}, "head length"),
    ],
)
def test_a_head_that_lies_is_refused_by_name(fields: dict[str, int], field: str) -> None:
    with pytest.raises(CorruptFileError, match=f"field {field}, byte"):
        parse_head(BytesSource(head_with(**fields), "data-0.parquet.index"))


def test_names_given_twice_are_refused() -> None:
    once = write_container({"c": {"x": b""}, "d": {"x": b""}})
    with pytest.raises(CorruptFileError, match="twice"):
        parse_head(BytesSource(once.replace(b"\0\1d", b"\0\1c")))


def test_a_name_too_long_is_refused() -> None:
    with pytest.raises(SchemaError, match="longer than 65535 bytes"):
        write_container({"é" * 32768: {"x": b""}})
    with pytest.raises(CorruptFileError):
        parse_head(BytesSource(b""))


# ------------------------------------------------------------------------------------------------------- checksums


def _checked_container() -> bytes:
    return write_container({"c": {"x": bytes(range(256)) * 10, "y": b"short"}, "d": {"x": None}}, checksums=True)


def _everything(data: bytes) -> list[bytes]:
    source = BytesSource(data, "x.index")
    head = parse_head(source)
    ranges = [r for kinds in head.columns.values() for r in kinds.values() if not r.is_empty]
    return checked(source, head).read_many([(r.start, r.length) for r in ranges])


def test_checksums_lie_where_no_reader_looks() -> None:
    data = _checked_container()
    plain = write_container({"c": {"x": bytes(range(256)) * 10, "y": b"short"}, "d": {"x": None}})
    head = parse_head(BytesSource(data))
    assert head.checked_bytes == 2565
    assert head.head_length == parse_head(BytesSource(plain)).head_length + 8 + 4
    assert data[head.head_length : -3 * 4] == plain[parse_head(BytesSource(plain)).head_length :]
    assert _everything(data) == _everything(plain) == [bytes(range(256)) * 10, b"short"]
    assert parse_head(BytesSource(write_container({"c": {"x": None}}, checksums=True))).checked_bytes == 0


def test_no_bit_of_a_checked_container_changes_unnoticed() -> None:
    data = _checked_container()
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        with pytest.raises(CorruptFileError, match=r"x\.index"):
            _everything(bytes(bad))
    for length in range(len(data)):
        with pytest.raises(CorruptFileError, match=r"x\.index"):
            _everything(data[:length])
        with pytest.raises(CorruptFileError, match=r"x\.index"):
            _everything(data[:length] + b"\0" + data[length:])


_BODY = bytes(i * i % 251 for i in range(300_001))
_RANGES = st.lists(st.tuples(st.integers(0, 300_001), st.integers(0, 200_000) | st.integers(0, 3000)), max_size=8)


@given(_RANGES)
def test_any_ranges_of_checked_blocks(ranges: list[tuple[int, int]]) -> None:
    ranges = [(at, min(length, len(_BODY) - at)) for at, length in ranges]
    blocks = CheckedBlocks(BytesSource(b"head" + _BODY + encode_checksums(_BODY)), 4, len(_BODY))
    places, right = [(4 + at, n) for at, n in ranges], [_BODY[at : at + n] for at, n in ranges]
    for _ in range(3):  # the last times by checksums that were kept
        assert blocks.read_many(places) == list(map(bytes, blocks.views(places))) == right
        assert [blocks.read(*place) for place in places] == right


def test_nothing_behind_the_checked_blocks_is_read() -> None:
    blocks = CheckedBlocks(BytesSource(b"head" + _BODY + encode_checksums(_BODY)), 4, len(_BODY))
    for _ in range(2):
        for place in ((len(_BODY), 5), (len(_BODY) + 4, 1)):
            with pytest.raises(CorruptFileError, match="those with checksums end at 300005"):
                blocks.read(*place)
        assert blocks.read_many([(4, 9), (99_999, 9)])[0] == _BODY[:9]


@given(st.integers(0, 300_000), st.integers(1, 200_000) | st.integers(1, 3000), st.integers(0, 299_999))
def test_a_damaged_byte_among_those_that_are_read(at: int, length: int, flipped: int) -> None:
    length = min(length, len(_BODY) - at)
    bad = bytearray(b"head" + _BODY + encode_checksums(_BODY))
    bad[4 + at + flipped % length] ^= 1
    blocks = CheckedBlocks(BytesSource(bytes(bad)), 4, len(_BODY))
    for read in (blocks.read, lambda *place: blocks.views([place])):
        with pytest.raises(CorruptFileError, match="do not have their checksum"):
            read(4 + at, length)


def test_checksums_that_are_asked_for_before_all_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "REQUEST_BYTES", 1)
    monkeypatch.setattr(container, "FEW_CHECKSUMS_BYTES", 0)
    whole = b"head" + _BODY + encode_checksums(_BODY)
    for at, length in ((0, 1), (1000, 100), (60_000, 200_000), (65_536, 131_072), (299_000, 1001)):
        assert CheckedBlocks(BytesSource(whole), 4, len(_BODY)).read(4 + at, length) == _BODY[at : at + length]
        for flipped in {at, at + length // 2, at + length - 1}:
            bad = bytearray(whole)
            bad[4 + flipped] ^= 1
            with pytest.raises(CorruptFileError, match="do not have their checksum"):
                CheckedBlocks(BytesSource(bytes(bad)), 4, len(_BODY)).read(4 + at, length)


def test_few_checksums_are_read_once() -> None:
    body = _BODY * 10
    source = CountingSource(b"head" + body + encode_checksums(body))
    blocks = CheckedBlocks(source, 4, len(body))
    for at in (0, 200_000, 299_000):
        assert blocks.read(4 + at, 9) == body[at : at + 9]
    assert [offset for offset, _ in source.reads] == [4, 4 + len(body), 4 + 199_680, 4 + 299_000 // 1024 * 1024]


@given(st.integers(0, 5_000_000))
def test_the_length_of_blocks_is_told_by_that_of_all(length: int) -> None:
    size = length + 4 * (-(-length // 1024) + length // 65_536)
    assert blocks_in(size) == length
    assert blocks_in(size + 1) in (None, length + 1)


def test_redundant_bytes_of_somebody_else_are_passed_over() -> None:
    data = _checked_container()
    at = data.index(b"XXH4BLK1")
    other = data[:at] + b"somebodyelse" + data[at + 12 :]
    assert parse_head(BytesSource(other)).checked_bytes is None
    assert _everything(other) == _everything(data)
