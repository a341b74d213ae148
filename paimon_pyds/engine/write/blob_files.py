"""Writing BLOB columns into files of their own, next to the file of the other columns of the same rows.

Each file of the other columns has, for every BLOB column, one ``.blob`` file or several with consecutive rows. The
commit gives all of them the row ids of that file. (Source: files of Java Paimon 2.1 and pypaimon 2.1.)
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, binary_parts, is_true, to_numpy
from paimon_pyds.base.checksums import crc32
from paimon_pyds.base.progress import count
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, MapType
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.rolling import RowMetadata, data_file
from paimon_pyds.format.blob import codec, nested
from paimon_pyds.format.blob.references import BlobDescriptor, decode_descriptor
from paimon_pyds.format.statistics import encode_stats
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.metadata.paths import file_paths, named_file
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import OutputFile, discard

_COPIED_BYTES = 8 << 20
"""Bytes of a BLOB that are read at a time where it is given as a descriptor."""


class ApartFile(NamedTuple):
    """A finished file, and the number of the file of other columns that has its rows."""

    number: int
    file: DataFile


class BlobColumnWriter:
    """Writes the values of one column of one bucket."""

    suffix = ".blob"

    def __init__(self, context: WriteContext, directory: str, field: DataField) -> None:
        self._context, self._directory, self._field = context, directory, field
        self._name = f"{context.options.get('data-file.prefix')}{uuid.uuid4()}"
        self._target = int(context.options.get("blob.target-file-size") or context.target_file_size)
        self._takes_descriptors = bool(context.options.get("blob-as-descriptor"))
        self._external: Sequence[str] | None = None
        self._output: OutputFile | None = None
        self._path = ""
        self._lengths: list[int] = []
        self._written = self._started = self._number = 0
        self._finished: list[str] = []
        self.files: list[ApartFile] = []
        """Those that are finished."""

    def write(self, column: pa.Array) -> None:
        """Append values.

        Raises:
            CorruptFileError: a value should be a descriptor, and is something else.
            SecurityError: a descriptor names a file that nobody allows.
        """
        self.write_changed(column, np.ones(len(column), np.bool_))

    def write_changed(self, column: pa.Array | None, changed: Flags) -> None:
        """As `write`, for rows of which only some have a value in ``column``; the others get placeholders, by which
        readers take the value of an older file."""
        values = iter(()) if column is None else values_of(column, self._field)
        for has_value in changed.tolist():
            if self._output is None:
                self._output = self._start()
            if not has_value:
                self._lengths.append(codec.PLACEHOLDER)
                continue
            self._put(next(values))
            if self._written >= self._target:
                self._finish()

    def _put(self, value: bytes | memoryview | None) -> None:
        if value is None:
            self._lengths.append(codec.NULL)
        elif self._takes_descriptors and isinstance(self._field.type, AtomicType):
            self._copy(decode_descriptor(bytes(value)))
        else:
            self._entry(codec.encode_entry(value), len(value))

    def cut(self) -> None:
        """The rows that follow are in the next file of other columns."""
        self._finish()
        self._number += 1

    def abort(self) -> None:
        """Remove every file written so far."""
        if self._output is not None:
            self._output.abort()
            self._output = None
        discard(self._context.io, (f"{self._directory}/{each.file.file_name}" for each in self.files))
        self.files.clear()

    def _start(self) -> OutputFile:
        self._path = f"{self._directory}/{self._name}-{self._started}{self.suffix}"
        self._started += 1
        self._written, self._lengths = 0, []
        return self._context.io.open_output(self._path)

    def _entry(self, parts: Sequence[bytes | memoryview], size: int) -> None:
        assert self._output is not None
        for part in parts:
            self._output.sink.write(part)
        self._lengths.append(size + codec.OVERHEAD_BYTES)
        self._written += size + codec.OVERHEAD_BYTES

    def _copy(self, descriptor: BlobDescriptor) -> None:
        """An entry with the bytes that a descriptor stands for, a few of which are in memory."""
        assert self._output is not None
        io = self._context.io
        path = named_file(self._context.root, descriptor.uri, self._allowed())
        size = descriptor.length if descriptor.length >= 0 else max(0, io.size(path) - descriptor.offset)
        head, tail = codec.encode_ends(size)
        crc = crc32(head)
        self._output.sink.write(head)
        for start in range(0, size, _COPIED_BYTES):
            part = io.read_range(path, descriptor.offset + start, min(_COPIED_BYTES, size - start))
            crc = crc32(part, crc)
            self._output.sink.write(part)
        self._entry([tail, crc32(tail, crc).to_bytes(4, "little")], size)

    def _allowed(self) -> Sequence[str]:
        if self._external is None:
            store = TableStore(self._context.io, self._context.root, self._context.branch)
            self._external = file_paths(store, self._context.raw_options, outside=True).external_roots
        return self._external

    def _finish(self) -> None:
        if self._output is None:
            return
        output, self._output = self._output, None
        try:
            output.sink.write(codec.encode_end(self._lengths))
            size = output.close()
        except BaseException:
            output.abort()
            raise
        self._add(size)

    def _add(self, size: int) -> None:
        """Note that the file is finished."""
        count(written=size)
        metadata = RowMetadata(min_sequence_number=0, max_sequence_number=0)
        context = replace(self._context, columns=frozenset([self._field.name]))
        entry = data_file(context, self._path, (size, len(self._lengths)), None, encode_stats([]), metadata)
        self.files.append(ApartFile(self._number, replace(entry, value_stats_cols=())))


def values_of(column: pa.Array, field: DataField) -> Iterator[bytes | memoryview | None]:
    """The payload of each value, None for NULL."""
    payloads = _payloads(column, field)
    return (next(payloads) if there else None for there in is_true(column.is_valid()).tolist())


def _payloads(column: pa.Array, field: DataField) -> Iterator[bytes | memoryview]:
    """The payloads of the values that are not NULL."""
    match field.type:
        case ArrayType():
            elements = _parts(column.values)
            for start, stop in _spans(column):
                yield nested.encode_array(elements[start:stop])
        case MapType(key=AtomicType() as key):
            keys, values = nested.encode_keys(column.keys, key), _parts(column.items)
            for start, stop in _spans(column):
                yield nested.encode_map(keys[start:stop], values[start:stop])
        case _:
            yield from (value for value in _parts(column) if value is not None)


def _spans(column: pa.Array) -> Iterator[tuple[int, int]]:
    """Where the elements of each value that is not NULL begin and end."""
    there, offsets = is_true(column.is_valid()), to_numpy(column.offsets)
    yield from zip(offsets[:-1][there].tolist(), offsets[1:][there].tolist(), strict=True)


def _parts(column: pa.Array) -> list[bytes | memoryview | None]:
    """Views of the bytes of each value, None for NULL."""
    data, starts, ends = binary_parts(column)
    view, there = data.data, is_true(column.is_valid()).tolist()
    bounds = zip(there, starts.tolist(), ends.tolist(), strict=True)
    return [view[start:end] if valid else None for valid, start, end in bounds]
