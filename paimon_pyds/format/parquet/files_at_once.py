"""Small Parquet files of one schema, decoded by one call of pyarrow: it takes longer to open one than to decode it.

The pages of all files are strung together, and the first footer, with other row groups, becomes that of all. Without
dictionaries the pages of a column become those of one row group. Else each file has its own, for which pyarrow takes
about twice as long. Rows can't get from file to file: the header of a page has the number of its rows, which is
compared with the manifest's; where values repeat within a row, the page has a checksum.
Source: apache/parquet-format, parquet.thrift (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, PageHeader).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, Octets
from paimon_pyds.base.varints import unzigzag, varint
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.footer import MAGIC, Leaf
from paimon_pyds.format.parquet.pages import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE
from paimon_pyds.format.parquet.source import open_reader
from paimon_pyds.format.parquet.spellings import (
    Path,
    Spelling,
    Ways,
    element_starts,
    field_places,
    gaps_of,
    raw_fields,
)
from paimon_pyds.format.parquet.thrift import I32, I64, LIST, STRUCT, list_head, list_start, raw_struct
from paimon_pyds.format.parquet.thrift import varint as read_varint

_MOST_DECODED = 16 << 20
"""Bytes that the rows of files may become which are decoded by one call."""
_VALUE_BYTES = 16
"""Bytes that a value takes in memory, at most, besides those of texts."""
_ROWS, _GROUPS, _CHECKSUM = 3, 4, 32_767
"""Fields of FileMetaData."""
_COUNTS = frozenset({(_ROWS,), (_GROUPS, 3)})
"""Rows of the file and of its only row group."""
_OF_FOOTER = _COUNTS | {(_CHECKSUM,), *((_GROUPS, field_id) for field_id in (2, 5, 6, 7))}
"""Parts of a footer that may differ, apart from its column chunks: numbers of rows and bytes, offsets, an ordinal."""
_NUMBERS_OF_CHUNK = tuple((3, field_id) for field_id in (5, 6, 7, 9, 11))
"""Values, bytes before and after compression, and the offsets of the data page and of the dictionary, if any."""
_OF_CHUNK = frozenset({*_NUMBERS_OF_CHUNK, (2,), (4,), (5,), (6,), (7,), (3, 10), (3, 14), (3, 15)})
_TYPES_OF_CHUNK = {1: I32, 2: LIST, 3: LIST, 4: I32, 5: I64, 6: I64, 7: I64, 9: I64}
"""Types in Thrift of what a chunk must say of itself."""
_BOUNDS = frozenset({(3, 12), (3, 16)})
"""Statistics and size statistics of a column chunk: all that is in them may differ."""
_NUMBERS_OF_PAGE: dict[int, tuple[Path, ...]] = {
    DATA_PAGE: ((2,), (3,), (5, 1)),
    DICTIONARY_PAGE: ((2,), (3,), (7, 1)),
    DATA_PAGE_V2: ((2,), (3,), (8, 1), (8, 3)),
}
"""By the kind of a page: bytes before and after compression, values and, in the second version, rows."""
_WANTED_OF_PAGE = frozenset(path for paths in _NUMBERS_OF_PAGE.values() for path in paths)
_SAME_IN_PAGES = frozenset({(1,), (5, 2), (5, 3), (5, 4), (7, 2), (8, 4)})
"""The kind of a page and its encodings."""
_TEXT, _BYTES = 6, 7
"""Physical types of values of any length, and of one length."""
_SHORTENING = frozenset({2, 7, 8})
"""Encodings by which equal values take fewer bytes."""
_SLOT = b"\xff\xfe\xff\xfe\xff"
"""Stands for a number in a row group; a name, in UTF-8, does not have such bytes."""
_SLOTS = 7
"""Numbers in the chunk of a column that is read."""


class Chunk(NamedTuple):
    """A column chunk of a file. ``start``, ``data``: where its pages begin, and where its data page does. ``most``: an
    estimate of the bytes that it takes decoded."""

    codec: int
    values: int
    uncompressed: int
    compressed: int
    start: int
    data: int
    most: int


File: TypeAlias = tuple[bytes, list[Chunk], int]
"""A file: its bytes, the chunks of the wanted columns, and the number of rows."""


class _OfChunk(NamedTuple):
    """What chunks of one spelling share."""

    codec: int
    is_shortened: bool


class _OfPage(NamedTuple):
    """What page headers of one spelling share."""

    kind: int
    has_checksum: bool


class AlikeFiles:
    """Decodes files whose footers are spelled like that of one of them.

    ``footer``: of that file. ``leaves``: all of its schema. ``wanted``: numbers of those to decode.
    Raises CorruptFileError, IndexError, KeyError: files with such a footer can't be decoded together.
    """

    def __init__(self, footer: bytes, leaves: Sequence[Leaf], wanted: Sequence[int]) -> None:
        gaps, stop = gaps_of(footer, 0, _OF_FOOTER.__contains__)
        groups = element_starts(footer, field_places(footer)[_GROUPS][1])
        of_group = field_places(footer, groups[0])
        starts = element_starts(footer, of_group[1][1])
        is_usual = stop == len(footer) and len(groups) == 2 and next(iter(of_group)) == 1
        if not is_usual or len(starts) != len(leaves) + 1:
            raise CorruptFileError("not the usual footer of a small file", field="row_groups")
        head, tail = ([gap for gap in gaps if is_tail == (gap.start >= starts[-1])] for is_tail in (False, True))
        self._head = Spelling(footer, 0, starts[0], [gap for gap in head if gap.start < starts[0]], _COUNTS)
        self._tail = Spelling(footer, starts[-1], stop, tail, _COUNTS)
        self._fields = raw_fields(footer)
        self._wanted = sorted(wanted)
        pages = {_type_of(leaf): _ways_of_pages(leaf) for leaf in leaves}
        self._chunks = [(leaf, _ways_of_chunks(leaf, leaf.index in wanted), pages[_type_of(leaf)]) for leaf in leaves]
        self._group = _Group([footer[a:b] for a, b in pairwise(starts)], wanted)

    def chunks(self, data: bytes, rows: int) -> list[Chunk] | None:
        """The chunks of the wanted columns of a file; None if it is not like the others, or damaged.

        ``data``: the whole file, which has a footer. ``rows``: how many it is to have.
        """
        end = len(data) - 8
        footer = end - int.from_bytes(data[-8:-4], "little")
        found = self._head.read(data, footer)
        if found is None:
            return None
        (pos, counts), chunks = found, list[Chunk]()
        for leaf, ways, pages in self._chunks:
            read = ways.read(data, pos)
            if read is None:
                return None
            pos, numbers, common = read
            if leaf.index in self._wanted:
                chunk = _chunk(leaf, numbers, common, rows)
                if chunk.start + chunk.compressed > footer or not _has_one_page(data, leaf, chunk, pages, rows):
                    return None
                chunks.append(chunk)
        found = self._tail.read(data, pos)
        if found is None or found[0] != end or [*counts, *found[1]] != [rows, rows]:
            return None
        return chunks if sum(chunk.most for chunk in chunks) <= _MOST_DECODED else None

    def decode(self, files: Sequence[File]) -> Iterator[tuple[int, pa.Table | None]]:
        """The rows of files, some files at a time: of how many, and None where one of them can't be decoded."""
        some, most = list[File](), 0
        for file in files:
            size = sum(chunk.most for chunk in file[1])
            if some and most + size > _MOST_DECODED:
                yield len(some), self._decoded(some)
                some, most = [], 0
            some.append(file)
            most += size
        if some:
            yield len(some), self._decoded(some)

    def _decoded(self, files: Sequence[File]) -> pa.Table | None:
        columns = list(zip(*(chunks for _, chunks, _ in files), strict=True))
        is_one = all(each.start == each.data and each.codec == column[0].codec for column in columns for each in column)
        if is_one:
            parts, groups = self._one_group(files, columns)
        else:
            parts, groups = self._group_each(files)
        total = sum(rows for *_, rows in files)
        footer = raw_struct({
            **{field_id: field for field_id, field in self._fields.items() if field_id != _CHECKSUM},
            _ROWS: (I64, varint(total << 1)),
            _GROUPS: (LIST, list_start(STRUCT, 1 if is_one else len(files)) + groups),
        })  # fmt: skip
        whole = b"".join((*parts, footer, len(footer).to_bytes(4, "little"), MAGIC))
        try:
            table = open_reader(pa.BufferReader(whole)).read_all(column_indices=self._wanted, use_threads=False)
        except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError):
            return None
        return table if table.num_rows == total else None

    def _one_group(self, files: Sequence[File], columns: Sequence[Sequence[Chunk]]) -> tuple[list[bytes], bytes]:
        """The pages of all files by column, and a row group of all."""
        parts, position, numbers = [MAGIC], len(MAGIC), list[int]()
        for column in columns:
            parts += [data[c.start : c.start + c.compressed] for (data, *_), c in zip(files, column, strict=True)]
            _, values, uncompressed, compressed, *_ = map(sum, zip(*column, strict=True))
            numbers += _numbers_of(position, column[0].codec, values, uncompressed, compressed, position)
            position += compressed
        rows = sum(rows for *_, rows in files)
        return parts, self._group.encoded([[*numbers, position, rows]])

    def _group_each(self, files: Sequence[File]) -> tuple[list[bytes], bytes]:
        """The pages of one file after the other, and a row group for each."""
        parts, position, groups = [MAGIC], len(MAGIC), list[list[int]]()
        for data, chunks, rows in files:
            begin, numbers = position, list[int]()
            for codec, values, uncompressed, compressed, start, page, _ in chunks:
                parts.append(data[start : start + compressed])
                numbers += _numbers_of(position, codec, values, uncompressed, compressed, position + page - start)
                position += compressed
            groups.append([*numbers, position - begin, rows])
        return parts, self._group.encoded(groups)


def _chunk(leaf: Leaf, numbers: Sequence[int], common: _OfChunk, rows: int) -> Chunk:
    """A chunk; of none, after the end of all files, if the numbers make no sense."""
    values, uncompressed, compressed, data, *rest = numbers
    dictionary = rest[0] if rest else 0
    start = dictionary if 0 < dictionary < data else data
    is_flat = not leaf.max_repetition
    if min(values, uncompressed) < 0 or compressed <= 0 or start < len(MAGIC) or (is_flat and values != rows):
        return Chunk(common.codec, 0, 0, 0, 1 << 62, 0, 0)
    most = uncompressed * (rows if common.is_shortened else 1) + _VALUE_BYTES * values
    return Chunk(common.codec, values, uncompressed, compressed, start, data, most)


def _has_one_page(data: bytes, leaf: Leaf, chunk: Chunk, pages: Ways[_OfPage], rows: int) -> bool:
    """Whether a chunk is a dictionary, if any, and one page of all values."""
    if chunk.start != chunk.data:
        found = pages.read(data, chunk.start)
        if found is None or found[2].kind != DICTIONARY_PAGE:
            return False
        end, (size, stored, _), _ = found
        if not 0 <= size <= chunk.uncompressed or stored < 0 or end + stored != chunk.data:
            return False
    found = pages.read(data, chunk.data)
    if found is None or found[2].kind not in (DATA_PAGE, DATA_PAGE_V2):
        return False
    end, (size, stored, values, *rest), common = found
    if not 0 <= size <= chunk.uncompressed or stored < 0 or end + stored != chunk.start + chunk.compressed:
        return False
    is_counted = common.has_checksum or not leaf.max_repetition
    return is_counted and values == chunk.values and rest in ([], [rows])


def _ways_of_chunks(leaf: Leaf, is_wanted: bool) -> Ways[_OfChunk]:
    def common(chunk: bytes, numbers: Sequence[Path]) -> _OfChunk:
        fields = raw_fields(chunk)
        meta = raw_fields(fields[3][1]) if 3 in fields else {}
        has_numbers = tuple(numbers) in (_NUMBERS_OF_CHUNK, _NUMBERS_OF_CHUNK[:-1]) or not is_wanted
        is_usual = _TYPES_OF_CHUNK.items() <= {i: wire for i, (wire, _) in meta.items()}.items() and has_numbers
        if not is_usual or fields.keys() & {1, 8, 9}:  # in another file, or encrypted
            raise CorruptFileError("not the usual column chunk of a small file", field="ColumnChunk")
        if _number(meta[1][1]) != leaf.physical:
            raise CorruptFileError("another type than that of the schema", field="ColumnMetaData.type")
        if meta[2][1][0] & 0x0F != I32:
            raise CorruptFileError("not a list of encodings", field="ColumnMetaData.encodings")
        shortens = leaf.physical in (_TEXT, _BYTES) and not _SHORTENING.isdisjoint(_numbers(meta[2][1]))
        return _OfChunk(_number(meta[4][1]), shortens)

    def differs(path: Path) -> bool:
        return path in _OF_CHUNK or path[:2] in _BOUNDS

    return Ways(differs, _NUMBERS_OF_CHUNK if is_wanted else (), common, has_texts=leaf.physical == _TEXT)


def _ways_of_pages(leaf: Leaf) -> Ways[_OfPage]:
    def common(header: bytes, numbers: Sequence[Path]) -> _OfPage:
        fields = raw_fields(header)
        kind = _number(fields[1][1]) if 1 in fields else -1
        if tuple(numbers) != _NUMBERS_OF_PAGE.get(kind) or not _has_types(fields, (1, 2, 3)):
            raise CorruptFileError("not the usual page header of a small file", field="PageHeader")
        if not _has_types(raw_fields(fields[numbers[-1][0]][1]), (1, 2) if kind == DICTIONARY_PAGE else (1, 2, 3, 4)):
            raise CorruptFileError("not the usual page header of a small file", field="PageHeader")
        return _OfPage(kind, 4 in fields)

    def differs(path: Path) -> bool:
        return path not in _SAME_IN_PAGES

    return Ways(differs, _WANTED_OF_PAGE, common, has_texts=leaf.physical == _TEXT)


def _has_types(fields: Mapping[int, tuple[int, bytes]], numbers: Sequence[int]) -> bool:
    """Whether these fields are there, and numbers of 32 bits."""
    return all(i in fields and fields[i][0] == I32 for i in numbers)


def _type_of(leaf: Leaf) -> tuple[int, object]:
    """The physical type of a column, and the length of its values: bounds in page headers are as long."""
    return leaf.physical, leaf.element.get(2)


def _number(data: bytes) -> int:
    return unzigzag(read_varint(data, 0)[0])


def _numbers(data: bytes) -> list[int]:
    """The numbers of a list, each of a byte."""
    _, size, start = list_head(data, 0)
    return [unzigzag(byte) for byte in data[start : start + size]]


def _numbers_of(start: int, codec: int, values: int, uncompressed: int, compressed: int, data: int) -> list[int]:
    """The numbers for the slots of a chunk. ``start``: of its pages; ``data``: of its data page."""
    return [start, codec, values, uncompressed, compressed, data, start if start != data else 0]


class _Group:
    """Encodes row groups. ``chunks``: of one, as a file has them; ``wanted``: the numbers of those that are read. The
    others have no pages; but of how many values they are, pyarrow 16 takes for the number of rows."""

    def __init__(self, chunks: Sequence[bytes], wanted: Sequence[int]) -> None:
        columns = b"".join(_empty_chunk(chunk, is_wanted=at in wanted) for at, chunk in enumerate(chunks))
        group = {1: (LIST, list_start(STRUCT, len(chunks)) + columns), 2: (I64, _SLOT), 3: (I64, _SLOT)}
        example = raw_struct(group)
        lengths = [len(part) for part in example.split(_SLOT)][:-1]
        slots = np.cumsum(lengths) + len(_SLOT) * np.arange(len(lengths))
        numbers = iter(range(len(wanted) * _SLOTS))
        order = [list(islice(numbers, _SLOTS)) if at in wanted else [-1] for at in range(len(chunks))]
        self._example = np.frombuffer(example, np.uint8)
        self._slots = (slots[:, None] + np.arange(len(_SLOT))).ravel()
        self._order = [*chain.from_iterable(order), -2, -1]

    def encoded(self, groups: Sequence[Sequence[int]]) -> bytes:
        """Row groups with these numbers: for each wanted column `_numbers_of`, then bytes and rows of all."""
        rows = np.tile(self._example, (len(groups), 1))
        numbers = np.array(groups, np.int64)[:, self._order]
        rows[:, self._slots] = _padded(numbers).reshape(len(groups), -1)
        return rows.tobytes()


def _empty_chunk(chunk: bytes, *, is_wanted: bool) -> bytes:
    """The ColumnChunk of a column, with slots for its numbers: the only one of an unwanted column is that of rows."""
    number = _SLOT if is_wanted else b"\0"
    meta = {i: field for i, field in raw_fields(raw_fields(chunk)[3][1]).items() if i <= 3}
    meta[4] = (I32, number)
    meta |= dict.fromkeys((6, 7, 9, 11), (I64, number))
    meta[5] = (I64, _SLOT)
    return raw_struct({2: (I64, number), 3: (STRUCT, raw_struct(meta))})


def _padded(numbers: Int64s) -> Octets:
    """Numbers below 2^34 as LEB128 of their zigzag encoding, in as many bytes as `_SLOT` has."""
    shifts = 7 * np.arange(len(_SLOT))
    found: Octets = ((numbers[..., None] << 1 >> shifts) & 0x7F).astype(np.uint8)
    found[..., :-1] |= 0x80
    return found
