"""The footer of a Parquet file, read lazily: schema and row groups at once, column chunks on demand.

Source: apache/parquet-format, src/main/thrift/parquet.thrift (FileMetaData, SchemaElement, RowGroup, ColumnChunk,
ColumnMetaData, Statistics). Footers of wide files are long and most of their column chunks are never looked at, so the
first walk only notes where each chunk's struct begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.varints import unzigzag
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format import WHOLE_FILE, ReadCounters
from paimon_pyds.format.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    check_struct,
    decode_struct,
    field_head,
    list_head,
    skip_field,
    skip_struct,
    varint,
)
from paimon_pyds.storage import FileIO

if TYPE_CHECKING:
    from paimon_pyds.storage.range_cache import CachedRanges

MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_LEAST_TAIL = 16 << 10
"""Bytes that are read from the end of a local file, at least."""
_STORE_TAIL = 128 << 10
"""Bytes that are read from the end of a file in a store, at least: a second request takes longer than more bytes."""
_TAIL_SHARE = 4096
"""One byte of this number of a file's bytes is read as its tail."""
_MAX_FOOTER = 1 << 30
"""Bytes of a footer: a larger one is taken for damage."""
_MAX_NESTING = 64
"""Levels of a nested schema."""
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column of the schema. ``raw`` is its SchemaElement as it stands in the footer."""

    index: int
    path: tuple[str, ...]
    physical: int
    max_definition: int
    max_repetition: int
    element: Struct
    raw: bytes

    @property
    def flat(self) -> bool:
        """A top-level primitive column: one value, or NULL, per row."""
        return len(self.path) == 1 and self.max_repetition == 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column chunk: one column of one row group. Offsets are bytes from the start of the file."""

    physical: int
    codec: int
    encodings: tuple[int, ...]
    path: tuple[bytes, ...]
    values: int
    start: int
    compressed_size: int
    uncompressed_size: int
    statistics: Struct | None
    offset_index: tuple[int, int] | None
    column_index: tuple[int, int] | None

    @property
    def stop(self) -> int:
        """The end of the chunk's pages."""
        return self.start + self.compressed_size


@dataclass(frozen=True, slots=True)
class Tail:
    """The last bytes of a file, cached: ranges within them are not read twice."""

    data: bytes
    start: int

    def get(self, offset: int, length: int) -> bytes | None:
        """The bytes of a range that is within the tail; None if it is not."""
        if offset < self.start or length < 0 or offset + length > self.start + len(self.data):
            return None
        return self.data[offset - self.start : offset - self.start + length]


def get(fields: Struct, field_id: int, wire: int, name: str) -> Any:
    """A field's value, None when absent. Raises CorruptFileError when it has another type."""
    found = fields.get(field_id)
    if found is None:
        return None
    if found[0] != wire:
        raise CorruptFileError(f"Thrift type {found[0]} where {wire} belongs", field=name)
    return found[1]


def require(fields: Struct, field_id: int, wire: int, name: str) -> Any:
    """A field's value. Raises CorruptFileError when it is absent or has another type."""
    value = get(fields, field_id, wire, name)
    if value is None:
        raise CorruptFileError("a required field is missing", field=name)
    return value


def footer_of(file: memoryview) -> memoryview:
    """The footer of a file in memory: FileMetaData as bytes."""
    length = int.from_bytes(file[-8:-4], "little")
    return file[-8 - length : -8]


class Footer:
    """FileMetaData of one file of ``file_size`` bytes; ``data`` is its Thrift text."""

    def __init__(self, data: bytes, path: str, file_size: int) -> None:
        self.data = data
        self.path = path
        self.file_size = file_size
        self.row_count = 0
        self.leaves: list[Leaf] = []
        self.columns: dict[str, range] = {}
        self._group_rows: list[int] = []
        self._chunk_offsets: list[list[int]] = []
        self._chunks: dict[tuple[int, int], Chunk] = {}
        try:
            check_struct(data, "FileMetaData")
            self._walk()
        except IndexError:
            raise CorruptFileError("the footer is cut off", path=path, field="FileMetaData") from None
        except CorruptFileError as error:
            raise self._here(error) from error
        if sum(self._group_rows) != self.row_count:
            raise CorruptFileError(
                f"row groups of {sum(self._group_rows)} rows in a file of {self.row_count}", path=path, field="num_rows"
            )

    @cached_property
    def groups(self) -> list[tuple[int, int]]:
        """First row and end of each row group."""
        return list(pairwise(accumulate(self._group_rows, initial=0)))

    def chunk(self, group: int, leaf: int) -> Chunk:
        """The column chunk of a leaf in a row group. Raises CorruptFileError."""
        found = self._chunks.get((group, leaf))
        if found is None:
            try:
                found = _parse_chunk(self.data, self._chunk_offsets[group][leaf], self.leaves[leaf], self.file_size)
            except CorruptFileError as error:
                raise self._here(error) from error
            self._chunks[group, leaf] = found
        return found

    def chunk_meta(self, group: int, leaf: int) -> Struct:
        """ColumnMetaData of a column chunk."""
        outer, _ = decode_struct(self.data, self._chunk_offsets[group][leaf])
        meta: Struct = require(outer, 3, STRUCT, "ColumnChunk.meta_data")
        return meta

    def _here(self, error: CorruptFileError) -> CorruptFileError:
        return CorruptFileError(error.message, path=self.path)

    def _walk(self) -> None:
        data, pos, field_id = self.data, 0, 0
        rows: int | None = None
        while True:
            wire, field_id, pos = field_head(data, pos, field_id)
            if wire == 0:
                break
            if field_id == 2 and wire == LIST:
                pos = self._walk_schema(pos)
            elif field_id == 3 and wire == I64:
                raw, pos = varint(data, pos)
                rows = unzigzag(raw)
            elif field_id == 4 and wire == LIST:
                count, pos = _struct_list(data, pos, "row_groups")
                for _ in range(count):
                    pos = self._walk_group(pos)
            else:
                pos = skip_field(data, pos, wire)
        if rows is None or rows < 0 or not self.leaves:
            raise CorruptFileError("no row count or no schema", field="FileMetaData")
        self.row_count = rows
        for offsets in self._chunk_offsets:
            if len(offsets) != len(self.leaves):
                raise CorruptFileError(
                    f"a row group of {len(offsets)} columns, the schema has {len(self.leaves)}", field="columns"
                )

    def _walk_schema(self, pos: int) -> int:
        data = self.data
        count, pos = _struct_list(data, pos, "schema")
        elements = []
        for _ in range(count):
            element, stop = decode_struct(data, pos)
            elements.append((element, data[pos:stop]))
            pos = stop
        self.leaves, self.columns = _schema(elements)
        return pos

    def _walk_group(self, pos: int) -> int:
        data, field_id = self.data, 0
        rows: int | None = None
        offsets: list[int] = []
        while True:
            wire, field_id, pos = field_head(data, pos, field_id)
            if wire == 0:
                break
            if field_id == 1 and wire == LIST:
                count, pos = _struct_list(data, pos, "columns")
                for _ in range(count):
                    offsets.append(pos)
                    pos = skip_struct(data, pos)
            elif field_id == 3 and wire == I64:
                raw, pos = varint(data, pos)
                rows = unzigzag(raw)
            else:
                pos = skip_field(data, pos, wire)
        if rows is None or rows < 0:
            raise CorruptFileError("a row group without a row count", field="RowGroup.num_rows")
        self._group_rows.append(rows)
        self._chunk_offsets.append(offsets)
        return pos


def _struct_list(data: bytes, pos: int, name: str) -> tuple[int, int]:
    """The size of a list of structs and the position of the first one."""
    element, size, pos = list_head(data, pos)
    if size and element != STRUCT:
        raise CorruptFileError("not a list of structs", field=name, offset=pos)
    return size, pos


def _schema(elements: Sequence[tuple[Struct, bytes]]) -> tuple[list[Leaf], dict[str, range]]:
    """Leaves in order, and the range of leaf numbers under each top-level column.

    The elements are the schema's tree in depth-first order; ``num_children`` says how many of the next belong to one.
    """
    leaves: list[Leaf] = []
    columns: dict[str, range] = {}
    position = 1

    def visit(path: tuple[str, ...], definition: int, repetition: int) -> None:
        nonlocal position
        if position >= len(elements):
            raise CorruptFileError("the schema tree is incomplete", field="num_children")
        if len(path) >= _MAX_NESTING:
            raise CorruptFileError(f"a schema nested deeper than {_MAX_NESTING} levels", field="schema")
        element, raw = elements[position]
        position += 1
        path = (*path, _name(element))
        kind = get(element, 3, I32, "repetition_type")
        definition += kind in (_OPTIONAL, _REPEATED)
        repetition += kind == _REPEATED
        children = get(element, 5, I32, "num_children")
        if children is None:
            physical = require(element, 1, I32, "SchemaElement.type")
            leaves.append(Leaf(len(leaves), path, physical, definition, repetition, element, raw))
            return
        for _ in _children(children, len(elements)):
            visit(path, definition, repetition)

    if not elements:
        raise CorruptFileError("an empty schema", field="schema")
    root = require(elements[0][0], 5, I32, "num_children")
    for _ in _children(root, len(elements)):
        first, at = len(leaves), position
        visit((), 0, 0)
        name = _name(elements[at][0])
        if name in columns:
            raise CorruptFileError(f"two columns named {name!r:.100}", field="schema")
        columns[name] = range(first, len(leaves))
    if position != len(elements):
        raise CorruptFileError("schema elements outside the tree", field="num_children")
    return leaves, columns


def _children(count: int, elements: int) -> range:
    if not 0 <= count < elements:
        raise CorruptFileError(f"{count} children in a schema of {elements} elements", field="num_children")
    return range(count)


def _name(element: Struct) -> str:
    name: bytes = require(element, 4, BINARY, "SchemaElement.name")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise CorruptFileError("a name that is not UTF-8", field="SchemaElement.name") from None


def _parse_chunk(data: bytes, pos: int, leaf: Leaf, file_size: int) -> Chunk:
    outer, _ = decode_struct(data, pos)
    meta = require(outer, 3, STRUCT, "ColumnChunk.meta_data")
    physical = require(meta, 1, I32, "ColumnMetaData.type")
    if physical != leaf.physical:
        raise CorruptFileError(
            f"physical type {physical}, the schema says {leaf.physical}", field="ColumnMetaData.type"
        )
    encodings = require(meta, 2, LIST, "encodings")
    path = require(meta, 3, LIST, "path_in_schema")
    if (encodings[0] != I32 and encodings[1]) or path[0] != BINARY:
        raise CorruptFileError("not a list of the right type", field="ColumnMetaData")
    start = require(meta, 9, I64, "data_page_offset")
    dictionary = get(meta, 11, I64, "dictionary_page_offset")
    if dictionary is not None and 0 < dictionary < start:
        start = dictionary
    compressed = require(meta, 7, I64, "total_compressed_size")
    uncompressed = require(meta, 6, I64, "total_uncompressed_size")
    if start < len(MAGIC) or compressed < 0 or start + compressed > file_size or uncompressed < 0:
        raise CorruptFileError(
            f"a column chunk of {compressed} bytes at {start} in a file of {file_size}", field="data_page_offset"
        )
    return Chunk(
        physical=physical,
        codec=require(meta, 4, I32, "codec"),
        encodings=tuple(encodings[1]),
        path=tuple(path[1]),
        values=require(meta, 5, I64, "num_values"),
        start=start,
        compressed_size=compressed,
        uncompressed_size=uncompressed,
        statistics=get(meta, 12, STRUCT, "statistics"),
        offset_index=_place(outer, 4, 5, file_size, "offset_index"),
        column_index=_place(outer, 6, 7, file_size, "column_index"),
    )


def _place(outer: Struct, offset_id: int, length_id: int, file_size: int, name: str) -> tuple[int, int] | None:
    offset = get(outer, offset_id, I64, f"{name}_offset")
    length = get(outer, length_id, I32, f"{name}_length")
    if offset is None or length is None:
        return None
    if offset < len(MAGIC) or length <= 0 or offset + length > file_size:
        raise CorruptFileError(
            f"an index of {length} bytes at {offset} in a file of {file_size}", field=f"{name}_offset"
        )
    return offset, length


def columns_in(data: bytes) -> int:
    """The elements of the schema in a footer, without decoding them: its columns, and what nests them; 0 where the
    footer does not begin as usual."""
    try:
        wire, field_id, pos = field_head(data, 0, 0)
        if (wire, field_id) == (I32, 1):
            wire, field_id, pos = field_head(data, skip_field(data, pos, wire), field_id)
        return _struct_list(data, pos, "schema")[0] if (wire, field_id) == (LIST, 2) else 0
    except (IndexError, CorruptFileError):
        return 0


def read_footer(
    io: FileIO,
    path: str,
    size: int,
    counters: ReadCounters,
    whole: int = WHOLE_FILE,
    kept: CachedRanges | None = None,
) -> tuple[bytes, Tail]:
    """The footer of a file, not decoded, in one request where the guess of its length holds.

    A small file is read whole. Else the guess is 1/4096 of the file, between 16 and 64 KiB: a fixed 64 KiB would be
    most of what a lookup of one row reads. A request to a store is larger, as it takes long whatever its size.

    ``whole``: bytes of a file up to which it is read whole. ``kept``: the file's cached metadata; the footer is added
    to it.

    Raises:
        CorruptFileError: not a Parquet file.
        UnsupportedError: the footer is encrypted.
    """
    if size < 12:
        raise CorruptFileError(f"a file of {size} bytes can't be Parquet", path=path, field="magic")
    data = None if kept is None or size <= whole else kept.ending_at(size)
    if data is None or len(data) < 12:
        least = _LEAST_TAIL if kept is None else _STORE_TAIL
        guess = size if size <= max(whole, least) else max(least, min(size // _TAIL_SHARE, WHOLE_FILE))
        data = io.read_range(path, size - guess, guess)
        counters.requests += 1
    tail = Tail(data, size - len(data))
    magic = tail.data[-4:]
    if magic == _ENCRYPTED:
        raise UnsupportedError("encrypted Parquet files are not supported", path=path)
    if magic != MAGIC:
        raise CorruptFileError(
            "the file does not end as a Parquet file does", path=path, offset=size - 4, field="magic",
            hint="it is truncated, or the manifest's file size is wrong",
        )  # fmt: skip
    length = int.from_bytes(tail.data[-8:-4], "little")
    if length > size - 12 or length > _MAX_FOOTER:
        raise CorruptFileError(
            f"a footer of {length} bytes in a file of {size}", path=path, offset=size - 8, field="footer length"
        )
    if length + 8 > len(data):
        missing = length + 8 - len(data)
        tail = Tail(io.read_range(path, tail.start - missing, missing) + tail.data, tail.start - missing)
        counters.requests += 1
    counters.bytes_read += len(tail.data)
    counters.footer_bytes += len(tail.data)
    if kept is not None:
        kept.add(size - 8 - length, tail.data[-8 - length :])
    return tail.data[-8 - length : -8], tail
