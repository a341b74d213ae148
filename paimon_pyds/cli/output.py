"""Rows on their way out: to a terminal, a pipe or a file, as text, JSON lines, CSV, Markdown, Parquet or Arrow.

CSV distinguishes NULL, which is never quoted, from a text that looks the same, which is; `paimon_pyds.cli.inputs` reads
it so. What CSV has no form for is JSON text, as are the values of JSON lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, BinaryIO

from paimon_pyds.base.secrets import UNSEEN, visible
from paimon_pyds.errors import OptionError, StorageError

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIXES = {
    "txt": "text", "json": "json", "jsonl": "json", "ndjson": "json", "csv": "csv", "md": "markdown",
    "parquet": "parquet", "arrow": "arrow", "feather": "arrow", "ipc": "arrow",
}  # fmt: skip


@dataclass(frozen=True)
class RowOutput:
    """How and where rows are printed.

    Attributes:
        output: the form; None where the suffix of ``out`` says it.
        out: a file; None and ``-`` are standard output.
        delimiter: between the values of CSV.
        null: what NULL is in CSV.
        no_header: CSV without names of columns.
    """

    output: str | None = None
    out: str | None = None
    delimiter: str = ","
    null: str = ""
    no_header: bool = False

    @classmethod
    def of(cls, given: dict[str, Any]) -> RowOutput:
        """Move the output's options out of a command's."""
        return cls(*(given.pop(field.name) for field in fields(cls)))

    @property
    def is_standard_output(self) -> bool:
        """Whether rows go to standard output."""
        return self.out in (None, "-")

    @property
    def form(self) -> str:
        """The form. Raises OptionError."""
        if self.output is not None:
            return self.output
        if self.out is None or self.out == "-":
            return "text"
        form = _SUFFIXES.get(self.out.lower().rsplit(".", 1)[-1])
        if form is None:
            raise OptionError(f"can't tell the form of {self.out!r:.200}", hint="add --output csv, parquet or another")
        return form

    def show(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, whole: bool = False, follows: bool = False
    ) -> None:
        """Print rows. Raises OptionError: a form that a terminal can't show.

        ``batches``: the rows; they are held in memory for text only, whose columns are as wide as their values.
        ``whole``: text does not cut long values. ``follows``: print batches as they come, in text each by itself; and
        leave what was written to a file, whatever ends it.
        """
        import pyarrow as pa

        from paimon_pyds.cli import display

        form = self.form
        with redirected(self.out, stays=follows):
            if form == "text" and follows:
                for batch in batches:
                    display.text_table(pa.Table.from_batches([batch]), whole=whole)
            elif form == "text":
                display.text_table(pa.Table.from_batches(batches, schema), whole=whole)
            elif form == "json":
                for batch in batches:
                    display.json_rows(batch)
            elif form == "markdown":
                _markdown(schema, batches)
            elif form == "csv":
                _csv(self, schema, batches)
            else:
                _binary(form, schema, batches, seekable=not self.is_standard_output)


def delimiter_of(given: str) -> str:
    """The character between the values of CSV. Raises OptionError."""
    text = given.replace("\\t", "\t")
    if len(text) != 1 or not text.isascii() or text in '"\r\n':
        raise OptionError(f"--delimiter takes one character of ASCII, not {text!r:.20}")
    return text


@contextlib.contextmanager
def redirected(out: str | None, *, stays: bool = False) -> Iterator[None]:
    """Standard output is this file, where one is named; what was written of it is removed on errors, unless it
    ``stays``. Raises StorageError: the file can't be written."""
    if out in (None, "-"):
        yield
        return
    there = os.path.exists(out)
    try:
        with open(out, "w", encoding="utf-8", newline="") as file, contextlib.redirect_stdout(file):
            yield
    except BaseException as error:
        if not there and not stays:
            with contextlib.suppress(OSError):
                os.unlink(out)
        if isinstance(error, OSError) and error.filename == out:
            raise StorageError(f"can't write the output: {error.strerror}", path=out) from error
        raise


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


def _csv(how: RowOutput, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    delimiter, null = delimiter_of(how.delimiter), how.null
    special = f'["\r\n{re.escape(delimiter)}]'
    if re.search(special, null):
        raise OptionError(f"--null takes no quotes, delimiters and line breaks, and {null!r:.50} has some")
    if not how.no_header:
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


def _binary(form: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, seekable: bool) -> None:
    """Parquet, or Arrow: a file where readers can seek in it, and else a stream."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if sys.stdout is not None and sys.stdout.isatty():
        raise OptionError(f"a terminal can't show {form}", hint="name a file with --out, or pipe it to a program")
    sink = pa.PythonFile(_Counted(_standard_output()), "w")
    if form == "parquet":
        writer = pq.ParquetWriter(sink, schema, compression="zstd")
    else:
        writer = (pa.ipc.new_stream if not seekable else pa.ipc.new_file)(sink, schema)
    with writer:
        for batch in batches:
            writer.write_batch(batch)
    sink.flush()
