"""Rows from files and from standard input: Parquet, ORC, Arrow, CSV and JSON lines.

CSV and JSON lines are read with the types of the table they go to, so that ``007`` stays a text where
the column is one.
What CSV holds is read as `paimon_pyds.cli.output` writes it: NULL is the text of ``--null`` without quotes.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from paimon_pyds.cli.output import delimiter_of
from paimon_pyds.errors import OptionError, SchemaError, StorageError, UnknownColumnError, suggest

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.base.types import DataField

Rows: TypeAlias = "tuple[pa.Schema, Iterator[pa.RecordBatch]]"
_FORMATS = {
    "parquet": "parquet", "orc": "orc", "arrow": "arrow", "feather": "arrow", "ipc": "arrow", "csv": "csv",
    "json": "json", "jsonl": "json", "ndjson": "json",
}  # fmt: skip
_PEEKED_BYTES = 64 << 10
"""Bytes in which a file shows its format by its first bytes or its first object."""
_LINES = "write one object in each line, such as with jq -c"
_FILES_OF_ARROW = b"ARROW1"
_LONG_INTEGER = re.compile(rb"[0-9]{16}")


@dataclass(frozen=True)
class InputFormat:
    """How inputs are read.

    Attributes:
        name: of the format; None where suffixes say it.
        delimiter: between the values of CSV.
        null: the text without quotes that is NULL in CSV.
        header: whether the first line of CSV has the names of its columns.
        types: of columns, where texts do not say them.
        named: the columns among them that the command line has types of.
        notes_missing: of JSON lines, which leave out columns or members (`paimon_pyds.base.absent_fields`).
    """

    name: str | None = None
    delimiter: str = ","
    null: str = ""
    header: bool = True
    types: pa.Schema | None = None
    named: tuple[str, ...] = ()
    notes_missing: bool = False

    @classmethod
    def of(cls, given: dict[str, Any]) -> InputFormat:
        """Move the input's options out of a command's. Raises OptionError, SchemaError."""
        types, names = given.pop("types"), ()
        if types is not None:
            from paimon_pyds.base.types import arrow_schema
            from paimon_pyds.base.types.sql_columns import parse_columns

            types = arrow_schema(parse_columns(types))
            names = tuple(types.names)
        delimiter = delimiter_of(given.pop("delimiter"))
        return cls(given.pop("input_format"), delimiter, given.pop("null"), not given.pop("no_header"), types, names)

    def of_table(self, columns: pa.Schema, *, notes_missing: bool = False) -> InputFormat:
        """This for rows that go to a table with these columns, which texts are read as unless types are given."""
        import pyarrow as pa

        types = pa.schema([f for f in columns if f.name not in self.named] + list(self.types or []))
        return replace(self, types=types, notes_missing=notes_missing)

    def check_types(self, columns: Sequence[str], *, sparse: bool = False) -> None:
        """Refuse types of columns that an input does not have; of a ``sparse`` one, only misspelled names.
        Raises UnknownColumnError."""
        for name in self.named:
            hint = suggest(name, columns, "its columns")
            if name not in columns and not (sparse and not (hint or "").startswith("did")):
                raise UnknownColumnError(f"--types has a column {name!r} that the input does not have", hint=hint)


def format_of(path: str) -> str | None:
    """The format of rows that the suffix of a path says, ``.gz`` or not; None where it says none."""
    return _FORMATS.get(path.lower().removesuffix(".gz").rpartition(".")[2]) if "." in path else None


def open_inputs(paths: Sequence[str], how: InputFormat | None = None) -> Rows:
    """The schema of the first input, and the batches of all.

    ``paths``: files; ``-`` is standard input.

    Raises:
        OptionError: nothing says the format.
        StorageError: a file that can't be read.
        SchemaError: a file that is not what its suffix says.
    """
    how = how or InputFormat()
    if list(paths).count("-") > 1:
        raise OptionError("standard input can be read once only, and - is given twice")
    schema, first = _open(paths[0], how)
    others = itertools.chain.from_iterable(_open(path, how)[1] for path in paths[1:])
    return schema, itertools.chain(first, others)


def matching_keys(path: str, columns: Sequence[DataField]) -> pa.RecordBatchReader:
    """The keys in the file of ``--matching``, texts taken for values of a table with these columns.
    Raises OptionError, StorageError, SchemaError: as `open_inputs`."""
    if format_of(path) is None:
        hint = "name it .parquet, .orc, .arrow, .csv or .jsonl"
        raise OptionError(f"no suffix says the format of the file of keys {path!r:.100}", hint=hint)
    import pyarrow as pa

    from paimon_pyds.base.types import arrow_schema

    types = arrow_schema([column for column in columns if column.type.refused() is None])
    return pa.RecordBatchReader.from_batches(*open_inputs([path], InputFormat(types=types)))


def _open(path: str, how: InputFormat) -> Rows:
    import pyarrow as pa

    try:
        schema, batches = _opened(path, how)
        return schema, _checked(batches, path)
    except pa.ArrowException as error:
        raise _unreadable(error, path) from error
    except OSError as error:
        raise StorageError(f"can't read the input: {error.strerror or error}", path=path) from error


def _checked(batches: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    while True:
        try:
            batch = next(batches, None)
        except pa.ArrowException as error:
            raise _unreadable(error, path) from error
        if batch is None:
            return
        yield batch


def _unreadable(error: Exception, path: str) -> SchemaError:
    return SchemaError(f"can't read the input: {str(error).splitlines()[0]}", path=path)


def _opened(path: str, how: InputFormat) -> Rows:
    name = how.name or format_of(path)
    if name is None:
        what = "standard input" if path == "-" else path
        hint = "use a .parquet, .orc, .arrow, .csv or .jsonl file, or say what it is with --input-format"
        raise OptionError(f"can't tell the format of {what}", hint=hint)
    if path != "-":
        file: Any = gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb")  # noqa: SIM115 - read later
    else:
        if sys.stdin is None:
            raise OptionError("standard input is closed")
        file = sys.stdin.buffer
    if not _peek(file):
        raise SchemaError(f"{'standard input' if path == '-' else 'the file'} is empty: there is no data", path=path)
    if path == "-" and name in ("parquet", "orc"):  # which end with what says how to read them
        file = io.BytesIO(file.read())
    match name:
        case "parquet":
            import pyarrow.parquet as pq

            parquet = pq.ParquetFile(file)
            return parquet.schema_arrow, parquet.iter_batches(131_072)
        case "orc":
            import pyarrow.orc as orc

            table = orc.ORCFile(file)
            return table.schema, (table.read_stripe(i) for i in range(table.nstripes))
        case "arrow":
            return _arrow(file, path)
        case "csv":
            from paimon_pyds.cli.csv_input import open_csv

            return open_csv(path, file, how)
    return _json_lines(file.read(), path, how)


def _json_lines(data: bytes, path: str, how: InputFormat) -> Rows:
    import pyarrow as pa

    from paimon_pyds.base.absent_fields import batches_with_left_out

    if data.lstrip().startswith(b"["):
        text = "the input is one array, and a line is wanted for each object"
        raise SchemaError(text, path=path, hint="write them so, such as with jq -c '.[]'")
    try:
        rows = _json(data, how.types or ())
    except pa.ArrowInvalid as error:
        raise _refused_line(error, data, path) from error
    _check_digits(rows, data, {field.name for field in how.types or ()}, path)
    how.check_types(rows.schema.names, sparse=True)
    if how.notes_missing:
        rows = _with_notes(rows, data, path)
    return rows.schema, batches_with_left_out(rows)


def _with_notes(rows: pa.Table, data: bytes, path: str) -> pa.Table:
    """The rows of JSON lines, with a note of what lines leave out. Lines are read again where NULL is found.
    Raises SchemaError."""
    import numpy as np
    import pyarrow as pa

    from paimon_pyds.base.absent_fields import find_left_out, with_left_out
    from paimon_pyds.base.arrays import pc, to_numpy

    doubtful = np.zeros(rows.num_rows, np.bool_)
    for column in rows.columns:
        nested = pa.types.is_nested(column.type)
        doubtful |= np.ones(len(column), np.bool_) if nested else to_numpy(pc.is_null(column))
    if not doubtful.any():
        return rows
    lines = [line for line in data.splitlines() if line.strip()]
    if len(lines) != rows.num_rows:
        raise SchemaError("the input has several objects in a line, or one in several lines", path=path, hint=_LINES)
    numbers = np.flatnonzero(doubtful)
    found = find_left_out([json.loads(lines[number]) for number in numbers], pa.struct(rows.schema))
    return with_left_out(rows, {at: numbers[own] for at, own in found.items()})


def _check_digits(rows: pa.Table, data: bytes, given: set[str], path: str) -> None:
    """Refuse integers that were rounded to a DOUBLE without being declared as one. Raises SchemaError."""
    import pyarrow.types as t

    from paimon_pyds.cli.csv_input import may_be_rounded

    guessed = {f.name for f in rows.schema if t.is_float64(f.type) and f.name not in given}
    if not any(may_be_rounded(rows.column(name)) for name in guessed):
        return
    for number, line in enumerate(data.splitlines(), 1):
        if not _LONG_INTEGER.search(line):
            continue
        try:
            values = json.loads(line)
        except ValueError:  # Arrow takes more forms than this
            continue
        for name, value in values.items():
            if name in guessed and isinstance(value, int) and value != float(value):
                digits = len(str(abs(value)))
                hint = f"--types {shlex.quote(f'{name} DECIMAL({digits}, 0)' if digits <= 38 else f'{name} STRING')}"
                text = f"column {name!r}: {value} would lose digits as a DOUBLE, in line {number:,}"
                raise SchemaError(text, path=path, hint=f"say its type: {hint}")


def _refused_line(error: Exception, data: bytes, path: str) -> SchemaError:
    """The error of JSON that can't be read, with the line; Arrow counts from the beginning of some block."""
    import pyarrow.json as arrow_json

    from paimon_pyds.base.types.unfit_values import first_refused

    lines = data.splitlines(keepends=True)
    at = first_refused(len(lines), lambda count: arrow_json.read_json(io.BytesIO(b"".join(lines[:count]))))
    what = re.sub(r"\.? in row \d+$", "", str(error).splitlines()[0].removeprefix("JSON parse error: "))
    what = re.sub(r"^Column\(/(.*?)\)", r"column '\1'", what)
    return SchemaError(f"can't read the input: {what}, in line {at + 1}", path=path)


def _arrow(file: Any, path: str) -> Rows:
    import pyarrow as pa

    if not _peek(file).startswith(_FILES_OF_ARROW):
        stream = pa.ipc.open_stream(file)
        return stream.schema, iter(stream)
    reader = pa.ipc.open_file(io.BytesIO(file.read()) if path == "-" or path.lower().endswith(".gz") else file)
    return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))


def _peek(file: Any) -> bytes:
    return cast(io.BufferedReader, file).peek(_PEEKED_BYTES)


def _json(data: bytes, types: Iterable[pa.Field]) -> pa.Table:
    """JSON lines, with their columns in the order of first appearance; texts are what the types say: still texts where
    they look like times, or decimals and times; without a type, dates where all of them are."""
    import pyarrow as pa
    import pyarrow.json as arrow_json
    import pyarrow.types as t

    from paimon_pyds.base.arrays import pc

    rows = _in_order(data, {})
    wanted = [field for field in types if field.name in rows.schema.names]
    typed = {field.name: field.type for field in wanted}
    moments = [field for field in rows.schema if t.is_timestamp(field.type)]
    guessed = [f.name for f in moments if f.name not in typed or not t.is_timestamp(typed[f.name])]
    if guessed:
        texts = pa.schema([(name, pa.string()) for name in guessed])
        as_read, rows = rows, _in_order(data, {"parse_options": arrow_json.ParseOptions(explicit_schema=texts)})
        rows = rows.select(as_read.schema.names)  # which has those of the texts first
        for name in guessed:
            if name not in typed:
                at = rows.schema.get_field_index(name)
                are_days = pc.all(pc.match_substring_regex(rows.column(at), r"^\d{4}-\d\d-\d\d$")).as_py()
                rows = rows.set_column(at, name, rows.column(at).cast("date32") if are_days else as_read.column(name))
    for field in wanted:
        at = rows.schema.get_field_index(field.name)
        is_exact = any(is_(field.type) for is_ in (t.is_decimal, t.is_date, t.is_timestamp))
        if is_exact and t.is_string(rows.schema.field(at).type):
            rows = rows.set_column(at, field.name, _cast_texts(rows.column(at), field))
    return rows


def _in_order(data: bytes, how: Mapping[str, Any]) -> pa.Table:
    """JSON lines with columns, and fields of objects, in the order of first appearance. Each of Arrow's threads reads a
    part of the lines, and adds new names as it ends."""
    import pyarrow.json as arrow_json
    import pyarrow.types as t

    rows = arrow_json.read_json(io.BytesIO(data), **how)
    if len(data) <= arrow_json.ReadOptions().block_size:
        return rows
    try:
        names = list(json.loads(data.lstrip().partition(b"\n")[0]))
    except ValueError:  # Arrow takes more forms than this
        names = []
    if sorted(names) == sorted(rows.schema.names) and not any(t.is_nested(field.type) for field in rows.schema):
        return rows.select(names)
    return arrow_json.read_json(io.BytesIO(data), read_options=arrow_json.ReadOptions(use_threads=False), **how)


def _cast_texts(texts: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Texts as values of a column. Raises SchemaError, which names the first text that is not a value."""
    import pyarrow as pa

    try:
        return texts.cast(field.type)
    except pa.ArrowInvalid as error:
        from paimon_pyds.base.types.arrow import from_arrow_type
        from paimon_pyds.base.types.unfit_values import first_refused, misfit

        whole = texts.combine_chunks()
        at = first_refused(len(whole), lambda n: whole.slice(0, n).cast(field.type))
        refused = misfit(whole, at, field.name, from_arrow_type(field.type, iter(())))
        refused.name_row(0)
        raise refused from error
