"""Parquet data files: writing with a page index, reading whole row groups or single pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.formats import TRAITS, FormatTraits, ReadCounters, ReadHints
from paimon_pyds.storage import FileIO
from paimon_pyds.types import DataField

if TYPE_CHECKING:
    from paimon_pyds.formats.parquet.reader import ParquetReader
    from paimon_pyds.formats.parquet.writer import ParquetWriter


class ParquetFormat:
    """Parquet as a `FileFormat`."""

    name = "parquet"
    traits: FormatTraits = TRAITS["parquet"]

    def open_reader(
        self, io: FileIO, path: str, size: int, counters: ReadCounters, hints: ReadHints | None = None
    ) -> ParquetReader:
        from paimon_pyds.formats.parquet.reader import ParquetReader

        return ParquetReader(io, path, size, counters, None if hints is None else hints.read_ahead)

    def check_writer(self, fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        from paimon_pyds.formats.parquet.settings import WriterOptions, file_schema

        WriterOptions.parse(options)
        file_schema(fields)

    def open_writer(
        self, io: FileIO, path: str, fields: Sequence[DataField], options: Mapping[str, str]
    ) -> ParquetWriter:
        from paimon_pyds.formats.parquet.writer import ParquetWriter

        return ParquetWriter(io, path, fields, options)
