"""Rows of CSV, with the types of the table they go to; errors name line, column and value, which Arrow's do not.

An error is followed by a second, slower reading of the input for its place.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.types.arrow import from_arrow_type
from paimon_pyds.base.types.unfit_values import first_refused, misfit
from paimon_pyds.engine.write.nested import cast_number
from paimon_pyds.errors import OptionError, SchemaError

if TYPE_CHECKING:
    import pyarrow.csv as arrow_csv

    from paimon_pyds.cli.inputs import InputFormat, Rows

_PEEKED = 64 << 10
_KEPT = 64 << 20
_RECORDS = 50_000
_ESCAPED = "surrogateescape"  # what is no UTF-8 is told as such by Arrow
_NO_UTF8 = "it is no UTF-8: convert the file"
_INTEGER = re.compile(r"\s*[+-]?[0-9]{16,300}\s*")
_COLUMN = re.compile(r"In CSV column #(\d+)")


class CsvInput:
    """One input.

    ``path``: of the file, for a second reading (of no pipe) and for errors; ``-`` is standard input. ``file``: its
    bytes.

    Raises:
        OptionError: nothing names the columns, or one is of bytes.
        SchemaError: by `rows`, when they are made and when they are read: what is no CSV, a value of another type.
    """

    def __init__(self, path: str, file: Any, how: InputFormat) -> None:
        import pyarrow.csv as arrow_csv

        self._path, self._how = path, how
        first = cast(io.BufferedReader, file).peek(_PEEKED).partition(b"\n")[0]
        if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SchemaError("can't read the input: it is in UTF-16", path=path, hint="convert it to UTF-8")
        self._file = file if path != "-" and Path(path).is_file() else _Kept(file)
        self._types = {field.name: field.type for field in how.types or ()}
        names = None if how.header else list(self._types)
        if names == []:
            raise OptionError("nothing names the columns of CSV without a header", hint="say them with --types")
        self._read = arrow_csv.ReadOptions(column_names=names)
        # An empty line is the NULL of a single column.
        self._parse = arrow_csv.ParseOptions(
            delimiter=how.delimiter, newlines_in_values=True, ignore_empty_lines=how.delimiter.encode() in first
        )
        _refuse_bytes(self._types, first, how)

    def rows(self) -> Rows:
        """The schema, and the rows."""
        import pyarrow.csv as arrow_csv

        convert = _conversion({name: _parsed(type_) for name, type_ in self._types.items()}, self._how.null)
        try:
            stream = arrow_csv.open_csv(self._file, self._read, self._parse, convert)
            names = stream.schema.names
        except pa.ArrowInvalid as error:
            raise self._located(error) from error
        except UnicodeDecodeError as error:
            raise SchemaError("can't read the names of columns", path=self._path, hint=_NO_UTF8) from error
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(f"two columns have the same name: {', '.join(twice)}", path=self._path)
        self._how.check_types(names)
        self._check_delimiter(names)
        for field in stream.schema:
            if field.name not in self._types and pa.types.is_binary(field.type):
                raise self._no_text(field.name)
        given = set(self._types)
        self._types = {field.name: self._types.get(field.name, field.type) for field in stream.schema}
        schema = pa.schema(list(self._types.items()))
        floats = (i for i, field in enumerate(stream.schema) if pa.types.is_float64(field.type))
        guessed = [i for i in floats if stream.schema.names[i] not in given]
        return schema, self._checked(self._batches(stream, schema), guessed)

    def _checked(self, batches: Iterator[pa.RecordBatch], guessed: list[int]) -> Iterator[pa.RecordBatch]:
        """The batches, as long as no integer has been rounded to be a DOUBLE, which nobody asked for."""
        for batch in batches:
            if guessed and any(may_be_rounded(batch.column(at)) for at in guessed):
                self._check_digits(guessed)
                guessed = []
            yield batch

    def _check_digits(self, columns: list[int]) -> None:
        again = self._again()
        if again is None:
            return
        with again, suppress(csv.Error):
            records = self._records(again)
            names = next(records, (1, []))[1] if self._how.header else list(self._types)
            for line, values in records:
                for at in columns:
                    if at < len(values) and is_rounded(values[at]):
                        raise rounded(names[at], values[at], line, self._path)

    def _no_text(self, name: str) -> SchemaError:
        """The error about a column whose values Arrow takes for bytes, as one of the first is no UTF-8."""
        self._types[name] = pa.string()
        again = self._again()
        if again is not None:
            with again, suppress(csv.Error):
                found = self._wrong_value(again, None)
                line = None if found is None else re.search(r", in line [\d,]+$", found.message)
                text = f"a value can't be read in column {name!r}{'' if line is None else line[0]}"
                return SchemaError(text, path=self._path, hint=_NO_UTF8)
        return SchemaError(f"a value can't be read in column {name!r}", path=self._path, hint=_NO_UTF8)

    def _check_delimiter(self, names: Sequence[str]) -> None:
        other = next((mark for mark in ";\t|," if mark in names[0]), None)
        if len(names) == 1 and names[0] not in self._types and other is not None:
            text = f"the only column is {names[0]!r:.200}, with {self._how.delimiter!r} between columns"
            raise SchemaError(text, path=self._path, hint=f"say --delimiter {shlex.quote(repr(other)[1:-1])}")

    def _batches(self, stream: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = next(stream, None)
                if batch is None:
                    return
                columns = [_fitting(c, t) for c, t in zip(batch.columns, schema.types, strict=True)]
            except pa.ArrowInvalid as error:
                raise self._located(error) from error
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _located(self, error: pa.ArrowInvalid) -> SchemaError:
        """The error about the line that Arrow refuses, where the input can be read again."""
        plain = SchemaError(f"can't read the input: {str(error).splitlines()[0]}", path=self._path)
        again, column = self._again(), _COLUMN.match(str(error))
        if again is None:
            return plain
        with again:
            try:
                if column is not None or "CSV" not in str(error):
                    return self._wrong_value(again, column) or plain
                line = self._wrong_length(again)
            except csv.Error:
                return plain
        return plain if line is None else SchemaError(f"{plain.message}, in line {line:,}", path=self._path)

    def _again(self) -> BinaryIO | None:
        if isinstance(self._file, _Kept):
            return self._file.again()
        opens: Any = gzip.open if self._path.lower().endswith(".gz") else open
        return cast(BinaryIO, opens(self._path, "rb"))

    def _records(self, file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
        """Each record with the number of its first line; those without values are left out where Arrow leaves them."""
        text = io.TextIOWrapper(file, "utf-8-sig", errors=_ESCAPED, newline="")
        reader, line = csv.reader(text, delimiter=self._how.delimiter), 1
        for values in reader:
            if values or not self._parse.ignore_empty_lines:
                yield line, values
            line = reader.line_num + 1

    def _wrong_length(self, file: BinaryIO) -> int | None:
        """The line of the first record that has another number of values than the header."""
        records = self._records(file)
        wanted = len(next(records, (1, []))[1]) if self._how.header else len(self._types)
        return next((line for line, values in records if len(values) != wanted), None)

    def _wrong_value(self, file: BinaryIO, column: re.Match[str] | None) -> SchemaError | None:
        """The error about the first value that is not one of its column's type, which Arrow's error names by number."""
        records = self._records(file)
        names = next(records, (1, []))[1] if self._how.header else list(self._types)
        while chunk := list(itertools.islice(records, _RECORDS)):
            refused = [found for at, name in enumerate(names) if (found := self._refused(chunk, at, name)) is not None]
            if refused:
                line, error = min(refused, key=lambda found: found[0])
                return SchemaError(f"{error.message}, in line {line:,}", path=self._path, hint=error.hint)
        if column is None or int(column[1]) >= len(names):
            return None
        text = f"column {names[int(column[1])]!r}: {column.string[column.end() :].strip(': ').splitlines()[0]}"
        return SchemaError(text, path=self._path, hint="a text in quotes is a value, and not NULL")

    def _refused(self, chunk: Sequence[tuple[int, list[str]]], at: int, name: str) -> tuple[int, SchemaError] | None:
        """The first value of a column that Arrow refuses: its line, and what is wrong."""
        type_ = self._types.get(name)
        given = [(line, v[at]) for line, v in chunk if at < len(v) and v[at] != self._how.null]
        values = [value for _, value in given]
        if type_ is None or not values:
            return None
        try:
            _values(values, type_)
        except pa.ArrowInvalid:
            n = first_refused(len(values), lambda count: _values(values[:count], type_))
            readable = values[n].encode("utf-8", _ESCAPED).decode("utf-8", "replace")
            hint = None if readable == values[n] else _NO_UTF8
            if pa.types.is_timestamp(type_) and type_.tz is not None:
                hint = "such values end with their zone: 2026-01-31 12:30:00Z, or +01:00 for Z"
            return given[n][0], misfit(array([readable]), 0, name, from_arrow_type(type_, iter(())), hint=hint)
        return None


class _Kept:
    """A stream that can't be read again, whose beginning is kept."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._beginning = file, bytearray()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        if len(self._beginning) <= _KEPT:
            self._beginning += data
        return data

    def again(self) -> BinaryIO | None:
        """All that was read; None where that is too much."""
        return None if len(self._beginning) > _KEPT else io.BytesIO(self._beginning)


def may_be_rounded(numbers: pa.Array | pa.ChunkedArray) -> bool:
    """Whether some floats are so large that they may have been other integers."""
    from paimon_pyds.base.arrays import pc

    return bool(pc.any(pc.greater_equal(pc.abs(numbers), 2.0**53)).as_py())


def is_rounded(text: str) -> bool:
    """Whether a text is an integer that no float is equal to."""
    return _INTEGER.fullmatch(text) is not None and int(text) != float(text)


def rounded(column: str, text: str, line: int, path: str) -> SchemaError:
    """The error about an integer that would be rounded."""
    digits = len(text.strip().lstrip("+-"))
    type_ = f"DECIMAL({digits}, 0)" if digits <= 38 else "STRING"
    message = f"column {column!r}: {text:.60} has too many digits, as a DOUBLE it would lose digits, in line {line:,}"
    return SchemaError(message, path=path, hint=f"say its type: --types {shlex.quote(f'{column} {type_}')}")


def _conversion(types: dict[str, pa.DataType], null: str) -> arrow_csv.ConvertOptions:
    import pyarrow.csv as arrow_csv

    return arrow_csv.ConvertOptions(
        column_types=types, null_values=[null], strings_can_be_null=True, quoted_strings_can_be_null=False
    )


def _parsed(type_: pa.DataType) -> pa.DataType:
    """The type that Arrow reads texts as: it would make infinity of what is too large for FLOAT."""
    return pa.float64() if pa.types.is_float32(type_) else type_


def _fitting(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column if column.type == type_ else cast_number(column, type_)


def _values(texts: Sequence[str], type_: pa.DataType) -> pa.Array:
    """Texts as values of a type, as they are read. Raises pyarrow.ArrowInvalid."""
    import pyarrow.csv as arrow_csv

    quoted = "\n".join('"' + text.replace('"', '""') + '"' for text in texts).encode("utf-8", _ESCAPED)
    read = arrow_csv.ReadOptions(column_names=["c"])
    parse = arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
    table = arrow_csv.read_csv(io.BytesIO(quoted), read, parse, _conversion({"c": _parsed(type_)}, ""))
    return _fitting(table.column(0).combine_chunks(), type_)


def _refuse_bytes(types: dict[str, pa.DataType], first: bytes, how: InputFormat) -> None:
    """CSV written here has bytes as Base64, and others write them as they are: nothing tells which. OptionError."""
    t = pa.types
    line = first.decode("utf-8", "replace").lstrip("\ufeff").rstrip("\r")
    names = next(csv.reader([line], delimiter=how.delimiter), []) if how.header else list(types)
    for name in names:
        if name in types and (t.is_binary(types[name]) or t.is_fixed_size_binary(types[name])):
            raise OptionError(
                f"column {name!r} holds bytes, which CSV has no form for", hint="give them as Parquet, ORC or Arrow"
            )
