r"""Files of lines: one row in each. They are read in parts, so that memory does not grow with the file.

A line ends with ``\n``, ``\r`` or both. (Source: Java Paimon's StandardLineReader.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, slices
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, Kind, arrow_schema
from paimon_pyds.base.types.kinds import STRING_KINDS
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.format.batches import resized
from paimon_pyds.format.plain_reader import PlainReader
from paimon_pyds.storage import FileIO

Parse: TypeAlias = Callable[[bytes], Sequence[pa.Array]]
"""Makes columns of some lines, each of which ends with a line feed."""
_PART = 8 << 20
"""Bytes of lines that are parsed together, about."""
_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_MARK = b"\xef\xbb\xbf"
"""The mark of UTF-8 at the beginning of a file, which is no part of the first line."""


class LineReader(PlainReader):
    """`FormatReader` of one file. `parser` is what formats differ in."""

    header = False
    """Whether the first line has names."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters, hints: ReadHints) -> None:
        self._io, self.path, self._size, self._counters, self.hints = io, path, size, counters, hints
        self.configure(hints.options)
        lines = sum(part.count(b"\n") for part in self._parts())
        self.row_count = max(lines - self.header, 0)

    def configure(self, options: Any) -> None:
        """Take the table's options. Raises UnsupportedError, OptionError."""

    def parser(self, fields: Sequence[DataField]) -> Parse:
        """A parser of these columns. Raises UnsupportedError: columns of types that the format has no values of."""
        raise NotImplementedError

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(fields)
        batches = self._batches(fields, schema, selection)
        yield from resized(batches, schema, batch_rows, self.hints.batch_bytes)

    def _batches(
        self, fields: Sequence[DataField], schema: pa.Schema, selection: RowSelection
    ) -> Iterator[pa.RecordBatch]:
        parse, start, skip = self.parser(fields), 0, self.header
        for part in self._parts():
            if skip:
                part, skip = part[part.index(b"\n") + 1 :], False
            count = part.count(b"\n")
            inside = selection.window(start, start + count)
            start += count
            if inside.is_none or not count:
                continue
            try:
                columns = parse(part)
            except pa.ArrowException as error:
                raise CorruptFileError(f"rows {start - count:,} to {start:,}: {error}", path=self.path) from error
            batch = pa.RecordBatch.from_arrays(list(columns), schema=schema)
            if batch.num_rows != count:
                raise CorruptFileError(f"{count} lines are {batch.num_rows} rows", path=self.path)
            self._counters.rows_decoded += count
            rows = inside.to_array(count)
            yield batch if len(rows) == count else batch.take(from_numpy(rows))

    def _parts(self) -> Iterator[bytes]:
        """The file's lines, some at a time, each with a line feed at its end."""
        self._counters.bytes_read += self._size
        self._counters.requests += 1
        rest, first = b"", True
        codec = _CODECS.get(self.path.rpartition(".")[2].lower())
        with self._io.open_input(self.path) as file, _plain(file, codec) as stream:
            while True:
                try:
                    read = bytes(stream.read(_PART))
                except OSError as error:
                    if codec is None:
                        raise
                    raise CorruptFileError(f"it can't be decompressed: {error}", path=self.path) from error
                data, end = rest + read, not read
                if first:
                    if len(data) < len(_MARK) and not end:
                        rest = data
                        continue
                    data, first = data.removeprefix(_MARK), False
                cut = len(data) if end else data.rfind(b"\n") + 1
                part, rest = data[:cut], data[cut:]
                if b"\r" in part:
                    part = part.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                if part:
                    yield part if part.endswith(b"\n") else part + b"\n"
                if end:
                    return


def _plain(file: Any, codec: str | None) -> Any:
    return file if codec is None else pa.CompressedInputStream(file, codec)


def only(kinds: frozenset[Kind], fields: Sequence[DataField], name: str, path: str) -> None:
    """Raise UnsupportedError for a column of another kind."""
    for field in fields:
        if field.type.kind not in kinds:
            raise UnsupportedError(
                f"column {field.name}: values of type {field.type} are not read from {name} files",
                path=path,
                hint="read the other columns with columns=…, or use Java Paimon",
                feature="format-tables",
            )


class TextReader(LineReader):
    """Lines as they are, in the one column of the table."""

    def parser(self, fields: Sequence[DataField]) -> Parse:
        only(STRING_KINDS, fields, "text", self.path)
        if len(self.hints.columns or ()) != 1:
            raise UnsupportedError("text files hold one column", path=self.path, feature="format-tables")
        return lambda part: [_lines(part) for _ in fields]


def _lines(part: bytes) -> pa.Array:
    data = np.frombuffer(part, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    return slices(data, np.append(0, ends[:-1] + 1), ends).cast(pa.string())
