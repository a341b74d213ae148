"""Mosaic files, decoded by the package paimon-mosaic (the extra ``mosaic``).

It is native code, which may end the process at a damaged file: what can be checked before is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.errors import CorruptFileError, MissingColumnError, UnsupportedError
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.format.batches import resized
from paimon_pyds.format.plain_reader import PlainReader
from paimon_pyds.storage import FileIO

_MAGIC = b"MOSA"


class MosaicReader(PlainReader):
    """`FormatReader` of one open file."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters, hints: ReadHints) -> None:
        try:
            import mosaic
        except ImportError:
            raise UnsupportedError(
                "data files of the format mosaic are read by the package paimon-mosaic, which is not installed",
                path=path,
                hint="pip install paimon-mosaic",
                feature="mosaic-files",
            ) from None
        self._path, self._counters, self._hints = path, counters, hints
        self._failure: Exception | None = None
        if size < len(_MAGIC) or io.read_range(path, size - len(_MAGIC), len(_MAGIC)) != _MAGIC:
            raise CorruptFileError("this is no Mosaic file", path=path, field="magic")

        def read(offset: int, length: int) -> bytes:
            try:
                return counters.read_range(io, path, offset, length)
            except Exception as error:  # the library passes on no more than that there was one
                self._failure = error
                raise

        self._file = self._called(mosaic.MosaicReader.from_input_file, read, size)
        self._rows = [self._called(self._file.row_group_num_rows, n) for n in range(self._file.num_row_groups)]
        self.row_count = sum(self._rows)

    def groups(self) -> Sequence[tuple[int, int]]:
        ends = [sum(self._rows[: n + 1]) for n in range(len(self._rows))]
        return [(end - rows, end) for end, rows in zip(ends, self._rows, strict=True) if rows]

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(fields)
        yield from resized(self._batches(schema, selection), schema, batch_rows, self._hints.batch_bytes)

    def close(self) -> None:
        self._file.close()

    def _batches(self, schema: pa.Schema, selection: RowSelection) -> Iterator[pa.RecordBatch]:
        if missing := [name for name in schema.names if name not in self._file.schema.names]:
            raise MissingColumnError(f"the file has no column {missing[0]!r}", path=self._path)
        for number, (start, stop) in enumerate(self.groups()):
            inside = selection.window(start, stop)
            if inside.is_none:
                continue
            self._called(self._file.project, schema.names)
            found = self._called(self._file.read_row_group, number)
            if found.num_rows != stop - start:
                raise CorruptFileError(f"a row group of {found.num_rows} rows, not {stop - start}", path=self._path)
            self._counters.rows_decoded += found.num_rows
            rows = inside.to_array(found.num_rows)
            if len(rows) < found.num_rows:
                found = found.take(from_numpy(rows))
            try:
                columns = [found.column(field.name).cast(field.type) for field in schema]
                for column in columns:
                    column.validate(full=True)
            except pa.ArrowException as error:
                raise CorruptFileError(f"values of other types: {error}", path=self._path) from error
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _called(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """What the library gives. Raises CorruptFileError; StorageError: the file can't be read."""
        try:
            return call(*arguments)
        except (RuntimeError, ValueError, pa.ArrowException) as error:
            if self._failure is not None:
                raise self._failure from None
            raise CorruptFileError(f"the file can't be decoded: {error}", path=self._path) from error
