"""Reading one BLOB column of some rows, whose values are in several ``.blob`` files.

The newest file that says something of a row has its value. Indexes of files are read first, then only the entries of
the rows that are wanted, in batches of bounded bytes, as one value may have gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, fixed_binary, from_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, Kind, MapType, RowType, arrow_schema, arrow_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.format.blob import codec, nested
from paimon_pyds.format.blob.references import BlobDescriptor, encode_descriptor
from paimon_pyds.format.plain_reader import PlainReader
from paimon_pyds.storage import FileIO, check_range

_TAIL_BYTES = 16 << 10
"""Read at the end of a file at first: the index of some thousand values, and little next to one large value."""
_ON_NONE, _OPEN = -1, -2
"""Numbers in place of a file's: the value is NULL; no file was found yet."""


class BlobSource(NamedTuple):
    """A ``.blob`` file: ``start`` is the position of its first row among those that are read."""

    path: str
    size: int
    start: int
    row_count: int
    sequence: int


def blob_row_count(io: FileIO, path: str, size: int) -> int:
    """The rows of a ``.blob`` file, by its index. Raises CorruptFileError, StorageError."""
    return len(_read_index(io, path, size, ReadCounters(), 0)[1])


def _read_index(
    io: FileIO, path: str, size: int, counters: ReadCounters, read_whole: int
) -> tuple[bytes, Int64s, Int64s]:
    """The last bytes of a file, all of them up to ``read_whole``, and the lengths and offsets of its entries."""

    def fetch(length: int) -> bytes:
        check_range(path, size - length, length, size)
        return counters.read_range(io, path, size - length, length)

    tail = fetch(size if size <= read_whole else min(size, _TAIL_BYTES))
    length = codec.index_size(tail, size, path) + codec.END_BYTES
    if length > len(tail):
        tail = fetch(length)
    counters.footer_bytes += length
    lengths, offsets = codec.decode_index(tail[len(tail) - length : len(tail) - codec.END_BYTES], size, path)
    return tail, lengths, offsets


class _Places(NamedTuple):
    """For each row the number of the file that has its value, or `_ON_NONE`, and its entry there."""

    file: npt.NDArray[np.int32]
    offset: Int64s
    length: Int64s


class BlobReader(PlainReader):
    """`FormatReader` of one column of ``row_count`` rows. ``as_descriptors``: a BLOB is given as its descriptor."""

    def __init__(
        self,
        io: FileIO,
        sources: Sequence[BlobSource],
        row_count: int,
        counters: ReadCounters,
        hints: ReadHints,
        *,
        as_descriptors: bool = False,
    ) -> None:
        self.row_count = row_count
        self._io, self._counters, self._hints = io, counters, hints
        self._as_descriptors = as_descriptors
        self._files = sorted(sources, key=lambda source: -source.sequence)
        self._whole: dict[int, bytes] = {}

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        (field,) = fields
        schema = arrow_schema(fields)
        rows, places = selection.to_array(self.row_count), self._places
        only_nulls = isinstance(field.type, RowType)
        light = only_nulls or (self._as_descriptors and field.type.kind is Kind.BLOB)
        ends = np.cumsum(np.where(places.file[rows] >= 0, 0 if light else places.length[rows], 0))
        start = 0
        while start < len(rows):
            before = int(ends[start - 1]) if start else 0
            fitting = int(np.searchsorted(ends, before + self._hints.batch_bytes, "right"))
            stop = min(max(fitting, start + 1), start + batch_rows, len(rows))
            part = rows[start:stop]
            there = places.file[part] >= 0
            if only_nulls:
                column = pa.Array.from_buffers(schema.field(0).type, len(part), [_bits(there)], children=[])
            else:
                column = self._descriptors(part) if light else self._values(part, there, field)
            self._counters.rows_decoded += len(part)
            yield pa.RecordBatch.from_arrays([column], schema=schema)
            start = stop

    def close(self) -> None:
        self._whole.clear()

    @cached_property
    def _places(self) -> _Places:
        rows = self.row_count
        found = _Places(np.full(rows, _OPEN, np.int32), np.zeros(rows, np.int64), np.zeros(rows, np.int64))
        for number, source in enumerate(self._files):
            window = slice(max(source.start, 0), max(min(source.start + source.row_count, rows), 0))
            undecided = found.file[window] == _OPEN
            if not undecided.any():
                continue
            lengths, offsets = self._index(number, source)
            mine = slice(window.start - source.start, window.stop - source.start)
            lengths, offsets = lengths[mine], offsets[mine]
            for of_all, value, chosen in (
                (found.file, number, undecided & (lengths >= 0)),
                (found.file, _ON_NONE, undecided & (lengths == codec.NULL)),
            ):
                of_all[window][chosen] = value
            chosen = undecided & (lengths >= 0)
            found.offset[window][chosen] = offsets[chosen]
            found.length[window][chosen] = lengths[chosen]
        found.file[found.file == _OPEN] = _ON_NONE
        return found

    def _index(self, number: int, source: BlobSource) -> tuple[Int64s, Int64s]:
        whole = self._hints.read_whole
        tail, lengths, offsets = _read_index(self._io, source.path, source.size, self._counters, whole)
        if source.size <= whole:
            self._whole[number] = tail
        if len(lengths) != source.row_count:
            raise CorruptFileError(
                f"the BLOB file has {len(lengths)} rows, the manifest says {source.row_count}", path=source.path
            )
        return lengths, offsets

    def _descriptors(self, rows: Int64s) -> pa.Array:
        """References to the values of some rows, NULL where they are NULL."""
        places = self._places
        files = places.file[rows]
        result: list[pa.Array] = [pa.nulls(1, pa.binary())]
        order = np.zeros(len(rows), np.int64)  # place 0 is the NULL
        done = 1
        for number in np.unique(files[files >= 0]).tolist():
            mine = np.flatnonzero(files == number)
            head = encode_descriptor(BlobDescriptor(self._files[number].path, 0, 0))[:-16]
            bounds = np.empty((len(mine), 2), "<i8")
            bounds[:, 0] = places.offset[rows[mine]] + codec.HEAD_BYTES
            bounds[:, 1] = places.length[rows[mine]] - codec.OVERHEAD_BYTES
            heads = np.broadcast_to(np.frombuffer(head, np.uint8), (len(mine), len(head)))
            result.append(fixed_binary(np.concatenate([heads, bounds.view(np.uint8).reshape(-1, 16)], axis=1)))
            order[mine] = np.arange(done, done + len(mine))
            done += len(mine)
        return pa.concat_arrays(result).take(from_numpy(order)).cast(pa.large_binary())

    def _values(self, rows: Int64s, there: Flags, field: DataField) -> pa.Array:
        payloads = self._payloads(rows[there])
        match field.type:
            case ArrayType():
                return _arrays(payloads, there, field.type, self._where(rows))
            case MapType():
                return _maps(payloads, there, field.type, self._where(rows))
        return _large_binary(payloads, there)

    def _where(self, rows: Int64s) -> str:
        return next((self._files[n].path for n in self._places.file[rows].tolist() if n >= 0), "")

    def _payloads(self, rows: Int64s) -> list[memoryview]:
        """The checked payloads of rows that have one. There is no check of many entries at once: their CRC is taken
        one by one."""
        places = self._places
        files = places.file[rows]
        found: list[Any] = [None] * len(rows)
        for number in np.unique(files).tolist():
            mine = np.flatnonzero(files == number)
            source = self._files[number]
            ranges = list(zip(places.offset[rows[mine]].tolist(), places.length[rows[mine]].tolist(), strict=True))
            for place, entry, (offset, _) in zip(mine.tolist(), self._entries(number, ranges), ranges, strict=True):
                found[place] = codec.payload_of(memoryview(entry), source.path, offset)
        return found

    def _entries(self, number: int, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        if number in self._whole:
            whole = memoryview(self._whole[number])
            return [whole[offset : offset + length] for offset, length in ranges]
        self._counters.bytes_read += sum(length for _, length in ranges)
        self._counters.requests += 1
        return self._io.read_ranges(self._files[number].path, ranges)


def _bits(flags: Flags) -> pa.Buffer | None:
    return None if flags.all() else pa.py_buffer(np.packbits(flags, bitorder="little"))


def _offsets(there: Flags, lengths: Sequence[int]) -> Int64s:
    """Offsets of values of these lengths where they are there; others have none."""
    sizes = np.zeros(len(there) + 1, np.int64)
    sizes[1:][there] = lengths
    return np.cumsum(sizes)


def _large_binary(payloads: Sequence[bytes | memoryview], there: Flags) -> pa.Array:
    offsets = pa.py_buffer(_offsets(there, [len(payload) for payload in payloads]))
    buffers = [_bits(there), offsets, pa.py_buffer(b"".join(payloads))]
    return pa.Array.from_buffers(pa.large_binary(), len(there), buffers)


def _elements(parts: Sequence[Sequence[bytes | None]]) -> pa.Array:
    flat = [element for part in parts for element in part]
    valid = np.array([element is not None for element in flat], np.bool_)
    return _large_binary([element for element in flat if element is not None], valid)


def _arrays(payloads: Sequence[memoryview], there: Flags, type_: ArrayType, path: str) -> pa.Array:
    parts = [nested.decode_array(payload, path) for payload in payloads]
    offsets = pa.py_buffer(_offsets(there, list(map(len, parts))).astype(np.int32))
    return pa.Array.from_buffers(arrow_type(type_), len(there), [_bits(there), offsets], children=[_elements(parts)])


def _maps(payloads: Sequence[memoryview], there: Flags, type_: MapType, path: str) -> pa.Array:
    nested.check_key(type_.key)
    assert isinstance(type_.key, AtomicType)
    wanted = arrow_type(type_)
    parts = [nested.decode_map(payload, path) for payload in payloads]
    keys = nested.keys_of([key for part, _ in parts for key in part], type_.key, path)
    members = [keys, _elements([values for _, values in parts])]
    entries = pa.StructArray.from_arrays(members, fields=[wanted.key_field, wanted.item_field])
    offsets = pa.py_buffer(_offsets(there, [len(part) for part, _ in parts]).astype(np.int32))
    return pa.Array.from_buffers(wanted, len(there), [_bits(there), offsets], children=[entries])
