"""Rows on their way out: to a terminal, a pipe or a file, as text, JSON lines, CSV, Markdown, Parquet or Arrow.

CSV distinguishes NULL, which is never quoted, from a text that looks the same, which is; `paimon_pyds.cli.inputs` reads
it so. What CSV has no form for is JSON text, as are the values of JSON lines.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from paimon_pyds.base.secrets import UNSEEN, visible
from paimon_pyds.errors import OptionError, StorageError

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIXES = {
    "txt": "text", "json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv", "md": "markdown",
    "parquet": "parquet", "arrow": "arrow", "feather": "arrow", "ipc": "arrow",
}  # fmt: skip
_BINARY = ("parquet", "arrow")


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command that prints rows."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output",
        type=lambda form: "json" if form == "jsonl" else form,
        choices=("text", "json", "csv", "markdown", *_BINARY),
        metavar="FORM",
        help="text, json (or jsonl: one object a line), csv, markdown, parquet or arrow; by default what the suffix "
        "of --out says, or text",
    )
    group.add_argument("--out", metavar="FILE", help="write to a file instead; - is standard output")
    add_csv_arguments(group)


def add_csv_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the arguments that CSV has in both directions."""
    group.add_argument("--delimiter", default=",", metavar="CHARACTER", help=r"of CSV: a comma by default; \t is a tab")
    group.add_argument("--null", default="", metavar="TEXT", help="what NULL is in CSV: nothing at all by default")
    group.add_argument("--no-header", action="store_true", help="CSV without names of columns in its first line")


def delimiter_of(arguments: argparse.Namespace) -> str:
    """The character between the values of CSV. Raises OptionError."""
    text = str(arguments.delimiter).replace("\\t", "\t")
    if len(text) != 1 or not text.isascii() or text in '"\r\n':
        raise OptionError(f"--delimiter takes one character of ASCII, not {text!r:.20}")
    return text


def form_of(arguments: argparse.Namespace) -> str:
    """The form that rows are asked for in. Raises OptionError."""
    if arguments.output is not None:
        return str(arguments.output)
    if arguments.out in (None, "-"):
        return "text"
    form = _SUFFIXES.get(arguments.out.lower().rsplit(".", 1)[-1])
    if form is None:
        raise OptionError(f"can't tell the form of {arguments.out!r:.200}", hint="add --output csv, parquet or another")
    return form


@contextlib.contextmanager
def redirected(out: str | None) -> Iterator[None]:
    """Standard output is this file, where one is named; what was written of it is removed on errors.
    Raises StorageError: the file can't be written."""
    if out in (None, "-"):
        yield
        return
    there = os.path.exists(out)
    try:
        with open(out, "w", encoding="utf-8", newline="") as file, contextlib.redirect_stdout(file):
            yield
    except BaseException as error:
        if not there:
            with contextlib.suppress(OSError):
                os.unlink(out)
        if isinstance(error, OSError) and error.filename == out:
            raise StorageError(f"can't write the output: {error.strerror}", path=out) from error
        raise


def show_rows(
    arguments: argparse.Namespace, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, whole: bool = False
) -> None:
    """Print rows in the form that is asked for. ``batches``: the rows; they are held in memory for text only, whose
    columns are as wide as their values. ``whole``: text does not cut long values.
    Raises OptionError: a form that a terminal can't show."""
    import pyarrow as pa

    from paimon_pyds.cli import display as show

    form = form_of(arguments)
    with redirected(arguments.out):
        if form == "text":
            show.text_table(pa.Table.from_batches(batches, schema), whole=whole)
        elif form == "json":
            for batch in batches:
                show.json_rows(batch)
        elif form == "markdown":
            _markdown(schema, batches)
        elif form == "csv":
            _csv(arguments, schema, batches)
        else:
            _binary(form, arguments.out, schema, batches)


def _markdown(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    from paimon_pyds.cli import display as show

    def row(cells: Iterable[str]) -> str:
        return f"| {' | '.join(visible(cell).replace('|', chr(92) + '|') for cell in cells)} |"

    print(row(schema.names))
    print(row(["---"] * len(schema.names)))
    for batch in batches:
        for cells in zip(*map(show.whole_texts, batch.columns), strict=True):
            print(row(cells))


# -------------------------------------------------------------------------------------------------------------- CSV


def _csv(arguments: argparse.Namespace, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    delimiter, null = delimiter_of(arguments), arguments.null
    special = f'["\r\n{re.escape(delimiter)}]'
    if re.search(special, null):
        raise OptionError(f"--null takes no quotes, delimiters and line breaks, and {null!r:.50} has some")
    if not arguments.no_header:
        _write_csv([delimiter.join(f'"{n.replace(chr(34), chr(34) * 2)}"' if re.search(special, n) else n
                                   for n in schema.names)])  # fmt: skip
    for batch in batches:
        if batch.num_rows:
            _write_csv(_csv_lines(batch, delimiter, null, special))


def _write_csv(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    if sys.stdout.isatty():  # which would obey control characters
        text = re.sub(UNSEEN, lambda match: match[0] if match[0] == "\n" else visible(match[0]), text)
    sys.stdout.write(text) if not hasattr(sys.stdout, "buffer") else _standard_output().write(text.encode())


def _csv_lines(batch: pa.RecordBatch, delimiter: str, null: str, special: str) -> list[str]:
    from paimon_pyds.base.arrays import pc, scalar

    columns = []
    for column in batch.columns:
        text = _csv_text(column)
        quoted = pc.or_(pc.match_substring_regex(text, special), pc.equal(text, null))
        if pc.any(quoted).as_py():
            doubled = pc.replace_substring(text, '"', '""')
            text = pc.if_else(quoted, pc.binary_join_element_wise('"', doubled, '"', ""), text)
        columns.append(pc.fill_null(text, null))
    lines = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, scalar(delimiter))
    return list(lines.to_pylist())


def _csv_text(column: pa.Array) -> pa.Array:
    """The values as texts; NULL stays NULL."""
    import pyarrow as pa
    import pyarrow.types as t

    from paimon_pyds.base.arrays import array, pc
    from paimon_pyds.cli import display as show

    kind = column.type
    if t.is_date(kind) or t.is_timestamp(kind):
        years = pc.min_max(pc.year(column))
        plain = years["min"].as_py() is None or 1 <= years["min"].as_py() <= years["max"].as_py() <= 9999
    else:
        plain = any(is_(kind) for is_ in (t.is_string, t.is_large_string, t.is_boolean, t.is_integer, t.is_floating,
                                          t.is_decimal, t.is_time, t.is_null))  # fmt: skip
    if plain:
        return column.cast(pa.string())
    texts = [None if v is None else v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)
             for v in show.plain_values(column)]  # fmt: skip
    return array(texts, pa.string())


# ----------------------------------------------------------------------------------------------------------- binary


def _standard_output() -> BinaryIO:
    if sys.stdout is None:
        raise OptionError("standard output is closed", hint="name a file with --out")
    sys.stdout.flush()
    return sys.stdout.buffer


class _Counted:
    """What writers of pyarrow need of a file, on a pipe too."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._written, self.closed = file, 0, False

    def write(self, data: Any) -> int:
        self._file.write(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.flush()


def _binary(form: str, out: str | None, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Parquet, or Arrow: a file where one is named, which readers can seek in, and else a stream."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if sys.stdout is not None and sys.stdout.isatty():
        raise OptionError(f"a terminal can't show {form}", hint="name a file with --out, or pipe it to a program")
    sink = pa.PythonFile(_Counted(_standard_output()), "w")
    if form == "parquet":
        writer = pq.ParquetWriter(sink, schema, compression="zstd")
    else:
        writer = (pa.ipc.new_stream if out in (None, "-") else pa.ipc.new_file)(sink, schema)
    with writer:
        for batch in batches:
            writer.write_batch(batch)
    sink.flush()
