"""Files of JSON objects, one in a line. Java Paimon writes numbers as texts, others as numbers: both are read.

(Source: Java Paimon's JsonFileReader and JsonFormatWriter.)
"""

from __future__ import annotations

import json as texts
from collections.abc import Mapping, Sequence
from itertools import islice

import pyarrow as pa

from paimon_pyds.base.types import ArrayType, DataField, DataType, Kind, RowType, arrow_type
from paimon_pyds.base.types.kinds import FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.lines.reader import LineReader, Parse, only
from paimon_pyds.format.lines.values import KINDS, values_of

_NUMBERS = frozenset({*INTEGER_KINDS, *FLOAT_KINDS, Kind.BOOLEAN})
_NESTED = frozenset({*_NUMBERS, *STRING_KINDS, Kind.DECIMAL, Kind.ARRAY, Kind.ROW})
_TRIED = 64
"""Lines that show whether numbers are written as texts."""


class JsonReader(LineReader):
    """`FormatReader` of one file."""

    def configure(self, options: Mapping[str, str]) -> None:
        if options.get("json.line-delimiter", "\n") not in ("\n", "\r\n"):
            told = "json.line-delimiter: only line feeds end the lines of JSON files"
            raise UnsupportedError(told, path=self.path, feature="format-tables")

    def parser(self, fields: Sequence[DataField]) -> Parse:
        from pyarrow import json

        only(KINDS | {Kind.ARRAY, Kind.ROW}, fields, "JSON", self.path)
        nested = [DataField(f.id, f.name, inner) for f in fields if f.type.children() for inner in _inner(f.type)]
        only(_NESTED, nested, "JSON", self.path)

        def parse(part: bytes) -> Sequence[pa.Array]:
            as_texts = self._as_texts(part, fields)
            schema = pa.schema([(f.name, pa.string() if f.name in as_texts else arrow_type(f.type)) for f in fields])
            table = json.read_json(
                pa.BufferReader(part),
                json.ReadOptions(use_threads=False, block_size=len(part) + 1),
                json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
            try:
                columns = {f.name: table[f.name].combine_chunks() for f in fields}
                return [values_of(columns[f.name], f) if f.name in as_texts else columns[f.name] for f in fields]
            except CorruptFileError as error:
                error.path = self.path
                raise

        return parse

    def _as_texts(self, part: bytes, fields: Sequence[DataField]) -> set[str]:
        """The columns whose values are texts."""
        found = {f.name for f in fields if f.type.kind in KINDS - _NUMBERS - {Kind.DECIMAL}}
        tried = {f.name for f in fields if f.type.kind in _NUMBERS}
        for line in islice(part.splitlines(), _TRIED) if tried else ():
            try:
                row = texts.loads(line)
            except ValueError as error:
                raise CorruptFileError(f"a line is no JSON: {error}", path=self.path) from error
            found |= {name for name in tried if isinstance(row, dict) and isinstance(row.get(name), str)}
        return found


def _inner(type_: DataType) -> list[DataType]:
    """The types inside of lists and rows; of other nested types themselves."""
    if not isinstance(type_, ArrayType | RowType):
        return [type_]
    return [inner for child in type_.children() for inner in _inner(child)]
