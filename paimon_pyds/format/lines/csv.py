"""CSV files, as Java Paimon reads them; what its parser and others read as different values is refused.

Java's parser works line by line, drops a backslash that is not before a quote or a backslash, and takes quotes within
a value for a part of it or not, by rules of its own. (Source: Java Paimon's CsvParser and CsvOptions.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.base.types import DataField
from paimon_pyds.errors import CorruptFileError, OptionError, UnsupportedError
from paimon_pyds.format.lines.reader import LineReader, Parse, only
from paimon_pyds.format.lines.values import KINDS, values_of

_KEYS = {
    "field-delimiter": (",", "field-delimiter", "seq", "delimiter"), "quote-character": ('"', "quote"),
    "escape-character": ("\\", "escape"), "null-literal": ("", "nullvalue"), "include-header": ("false", "header"),
    "line-delimiter": ("\n", "lineSep"),
}  # fmt: skip
"""Options: the default, and other names."""


def _option(options: Mapping[str, str], name: str) -> str:
    default, *others = _KEYS[name]
    return next((options[key] for key in (f"csv.{name}", *others) if key in options), default)


class CsvReader(LineReader):
    """`FormatReader` of one file."""

    def configure(self, options: Mapping[str, str]) -> None:
        self._null = _option(options, "null-literal")
        self.header = _option(options, "include-header").strip().lower() == "true"
        if _option(options, "line-delimiter") not in ("\n", "\r\n"):
            raise UnsupportedError(
                "csv.line-delimiter: only line feeds end the lines of CSV files",
                path=self.path,
                feature="format-tables",
            )
        names = ("field-delimiter", "quote-character", "escape-character")
        self._separator, self._quote, self._escape = (_option(options, name)[:1] for name in names)
        for name, value in zip(names, (self._separator, self._quote, self._escape), strict=True):
            if not value.isascii() or not value:
                raise OptionError(f"csv.{name} must be one ASCII character", path=self.path)

    def parser(self, fields: Sequence[DataField]) -> Parse:
        only(KINDS, fields, "CSV", self.path)
        from pyarrow import csv

        columns = [field.name for field in self.hints.columns or ()]
        parsing = csv.ParseOptions(
            delimiter=self._separator,
            quote_char=False if self._quote == "\0" else self._quote,
            escape_char=False if self._escape == "\0" else self._escape,
            ignore_empty_lines=False,
        )
        conversion = csv.ConvertOptions(
            include_columns=[field.name for field in fields] or columns[:1],
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=[],
            strings_can_be_null=False,
        )
        regular = self._regular(len(columns))

        def parse(part: bytes) -> Sequence[pa.Array]:
            if not regular(part):
                raise UnsupportedError(
                    "a line has a quote or a backslash in a place, or blanks alone, that readers of CSV take for "
                    "different values",
                    path=self.path,
                    hint="write the file anew, with quotes around whole values; or give another csv.escape-character",
                    feature="format-tables",
                )
            reading = csv.ReadOptions(column_names=columns, block_size=len(part) + 1, use_threads=False)
            table = csv.read_csv(pa.BufferReader(part), reading, parsing, conversion)
            try:
                return [values_of(self._nulled(table[field.name].combine_chunks()), field) for field in fields]
            except CorruptFileError as error:
                error.path = self.path
                raise

        return parse

    def _nulled(self, texts: pa.Array) -> pa.Array:
        return pc.if_else(pc.equal(texts, scalar(self._null)), pa.nulls(len(texts), pa.string()), texts)

    def _regular(self, columns: int) -> Callable[[bytes], bool]:
        """Whether parsers of CSV agree on some lines: values have quotes around them or none, and backslashes stand
        within quotes, before a quote or a backslash."""
        separator, quote, escape = (re.escape(c.encode()) for c in (self._separator, self._quote, self._escape))
        inside = rb"[^\n" + quote + escape + rb"]++|" + quote + quote + rb"|" + escape + rb"[" + quote + escape + rb"]"
        value = quote + rb"(?:" + inside + rb")*+" + quote + rb"|[^\n" + separator + quote + escape + rb"]*+"
        lines = re.compile(rb"(?:(?:" + value + rb")(?:" + separator + rb"(?:" + value + rb"))*+\n)*+")
        blanks = re.compile(rb"^[ \t]+$", re.MULTILINE)
        special = [c.encode() for c in (self._quote, self._escape)]

        def regular(part: bytes) -> bool:
            if columns == 1 and blanks.search(part):
                return False
            return not any(c in part for c in special) or lines.fullmatch(part) is not None

        return regular
