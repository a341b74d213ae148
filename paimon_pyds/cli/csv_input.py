"""Rows of CSV by pyarrow.csv, with the types of the table they go to; errors are Arrow's, with names of columns."""

from __future__ import annotations

import codecs
import io
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from paimon_pyds.base.types.nested import cast_number
from paimon_pyds.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from paimon_pyds.cli.inputs import InputFormat, Rows

_PEEKED_BYTES = 64 << 10
"""Bytes in which the first line is looked for: longer ones are no header of a table."""
_NO_UTF8 = "it is no UTF-8: convert the file"
_NO_DECIMAL = re.compile(r"The string '(.*)' is not a valid decimal128 number")
_INVALID = "CSV conversion error to {}: invalid value '{}'"
_COLUMN = re.compile(r"In CSV column #(\d+)")


def open_csv(path: str, file: Any, how: InputFormat) -> Rows:
    """The schema and the rows of one input. ``path``: for errors. ``file``: its bytes.

    Raises:
        OptionError: nothing names the columns, or one is of bytes.
        SchemaError: what is no CSV, at once or when the rows are read: a value of another type.
    """
    import pyarrow.csv as arrow_csv

    first = cast(io.BufferedReader, file).peek(_PEEKED_BYTES).partition(b"\n")[0]
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SchemaError("can't read the input: it is in UTF-16", path=path, hint="convert it to UTF-8")
    types = {field.name: field.type for field in how.types or ()}
    if not (how.header or types):
        raise OptionError("nothing names the columns of CSV without a header", hint="say them with --types")
    guesses = how.header and not types and file.seekable()

    def opened(column_types: dict[str, pa.DataType]) -> Any:
        return arrow_csv.open_csv(
            file,
            arrow_csv.ReadOptions(column_names=None if how.header else list(types)),
            # An empty line is the NULL of a single column.
            arrow_csv.ParseOptions(
                delimiter=how.delimiter, newlines_in_values=True, ignore_empty_lines=how.delimiter.encode() in first
            ),
            arrow_csv.ConvertOptions(
                column_types={name: _parsed(type_) for name, type_ in column_types.items()},
                null_values=[how.null], strings_can_be_null=True, quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip

    try:
        if guesses:
            types = {field.name: field.type for field in opened({}).schema if pa.types.is_integer(field.type)}
            file.seek(0)
        stream = opened(types)
        names = stream.schema.names
    except pa.ArrowInvalid as error:
        names = [] if how.header else list(types)
        raise _refused(error, names or _names(first, how), path, types) from error
    except UnicodeDecodeError as error:
        raise SchemaError("can't read the names of columns", path=path, hint=_NO_UTF8) from error
    _check_names(names, how, path)
    for field in stream.schema:
        if field.name in types and _is_binary(field.type):
            # CSV written here has bytes as Base64, other writers have them as they are: the file does not say which.
            hint = "give them as Parquet, ORC or Arrow"
            raise OptionError(f"column {field.name!r} holds bytes, which CSV has no form for", hint=hint)
        if _is_binary(field.type):  # as Arrow guesses where one of the first values is no UTF-8
            raise SchemaError(f"a value can't be read in column {field.name!r}", path=path, hint=_NO_UTF8)
    schema = pa.schema([(field.name, types.get(field.name, field.type)) for field in stream.schema])
    guessed = [f.name for f in stream.schema if pa.types.is_float64(f.type) and f.name not in types]
    return schema, _batches(stream, schema, guessed, path)


def _parsed(type_: pa.DataType) -> pa.DataType:
    """The type to read a column as, before it is cast. Arrow would make infinity of what is too large for FLOAT, and
    take 0xFFFFFFFF for the bits of an integer, which is -1; for a decimal it takes no such text."""
    if pa.types.is_float32(type_):
        return pa.float64()
    return pa.decimal128(20, 0) if pa.types.is_integer(type_) else type_


def _is_binary(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_))


def _names(first: bytes, how: InputFormat) -> list[str]:
    """The names in the first line, for an error: quotes within them are not looked at."""
    names = first.decode("utf-8", "replace").lstrip("\ufeff").rstrip("\r").split(how.delimiter)
    return [name.strip('"') for name in names]


def _check_names(names: list[str], how: InputFormat, path: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"two columns have the same name: {', '.join(twice)}", path=path)
    how.check_types(names)
    other = next((mark for mark in ";\t|," if mark in names[0]), None)
    if len(names) == 1 and other is not None and (how.types is None or names[0] not in how.types.names):
        text = f"the only column is {names[0]!r:.200}, with {how.delimiter!r} between columns"
        raise SchemaError(text, path=path, hint=f"say --delimiter {shlex.quote(repr(other)[1:-1])}")


def _batches(stream: Any, schema: pa.Schema, guessed: list[str], path: str) -> Iterator[pa.RecordBatch]:
    """The rows with their types. Raises SchemaError: a value of another type; a number that may have been a longer
    integer before it was read as a DOUBLE, whose type nobody gave."""
    rows = 0
    while True:
        try:
            batch = next(stream, None)
        except pa.ArrowInvalid as error:
            raise _refused(
                error, schema.names, path, dict(zip(schema.names, schema.types, strict=True)), rows
            ) from error
        if batch is None:
            return
        rows += batch.num_rows
        for name in guessed:
            if may_be_rounded(batch.column(name)):
                text = f"column {name!r} has numbers of 2^53 or more, which may lose digits as a DOUBLE"
                hint = f"say its type: --types {shlex.quote(f'{name} DECIMAL(38, 0)')}, or DOUBLE"
                raise SchemaError(text, path=path, hint=hint)
        columns = []
        for field, column in zip(schema, batch.columns, strict=True):
            try:
                columns.append(column if column.type == field.type else cast_number(column, field.type))
            except pa.ArrowInvalid as error:
                said = _too_large(column, field.type) if pa.types.is_decimal(column.type) else str(error)
                raise SchemaError(f"can't read the input: column {field.name!r}: {said}", path=path) from error
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _too_large(column: pa.Array, type_: pa.DataType) -> str:
    from paimon_pyds.base.types.unfit_values import first_refused

    at = first_refused(len(column), lambda n: cast_number(column.slice(0, n), type_))
    return _INVALID.format(type_, column[at].as_py())


def _refused(
    error: Exception, names: list[str], path: str, types: Mapping[str, pa.DataType], rows: int = 0
) -> SchemaError:
    """Arrow's error, with the name of the column in place of its number, and with its type in place of the one that it
    is parsed as. ``rows``: that were read before."""
    text, hint = str(error).splitlines()[0], None
    if found := _COLUMN.match(text):
        at = int(found[1])
        name = names[at] if at < len(names) else f"#{at + 1}"
        text = text[found.end() :]
        if name in types and pa.types.is_integer(types[name]):
            no_number = _NO_DECIMAL.search(text)
            text = ": " + _INVALID.format(types[name], no_number[1] if no_number else "with a fraction")
        shown = repr(name) if at < len(names) else name
        text, hint = f"column {shown}{text}", "correct the value, or give the column another type"
    if "UTF8" in text:
        hint = _NO_UTF8
    elif "Empty string" in text:
        hint = "a text in quotes is a value, and not NULL"
    place = f", after row {rows:,}" if rows else ""
    return SchemaError(f"can't read the input: {text}{place}", path=path, hint=hint)


def may_be_rounded(numbers: pa.Array | pa.ChunkedArray) -> bool:
    """Whether some floats are so large that they may have been other integers."""
    from paimon_pyds.base.arrays import pc

    large = pc.greater_equal(pc.abs(numbers), 2.0**53)
    return bool(pc.any(pc.and_(large, pc.is_finite(numbers))).as_py())
