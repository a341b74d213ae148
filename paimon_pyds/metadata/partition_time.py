"""Partitions as times: what ``partition.timestamp-formatter`` and ``partition.timestamp-pattern`` make of their values.

(Sources: Paimon documentation, maintenance/manage-partitions; Java Paimon 1.4, classes PartitionTimeExtractor,
AbstractFileStoreWrite.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import decode_row
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.java_text import partition_text
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.metadata.paths import partition_directory
from paimon_pyds.metadata.schema import TableSchema

Texts: TypeAlias = Sequence[str | None]
"""The values of a partition as texts, None for NULL."""
_TIME = re.compile(r"(\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII)
_LETTERS = {"y": "%Y", "u": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S"}
_WIDTHS = {"y": (4,), "u": (4,)}
_FORMATS = ("partition.timestamp-formatter", "partition.timestamp-pattern")


def java_texts(fields: Sequence[DataField], partition: bytes) -> tuple[str | None, ...]:
    """The values of a partition (arity + BinaryRow) as Java reads times of them."""
    values = decode_row(partition, [f.type for f in fields])
    return tuple(
        None if value is None else partition_text(value, field.type, legacy=True)
        for field, value in zip(fields, values, strict=True)
    )


def partition_times(options: TableOptions, names: Sequence[str]) -> Callable[[Texts], datetime | None]:
    """A function that returns the time of a partition; None if its values are not a time.

    ``names``: of the partition columns.
    Raises UnsupportedError: a formatter with letters that are not known here, or without year, month or day.
    """
    read, pattern = _reader(options.get("partition.timestamp-formatter")), options.get("partition.timestamp-pattern")

    def time_of(texts: Texts) -> datetime | None:
        text = _filled(pattern, names, texts)
        return None if text is None else read(text)

    return time_of


def strict_check(schema: TableSchema, options: TableOptions) -> Callable[[bytes], None] | None:
    """What raises SchemaError for a partition that is no time, where ``partition.timestamp-format.strict`` refuses it;
    None where rows may go into any."""
    formats = [key for key in _FORMATS if options.get(key) is not None]
    if not options.get("partition.timestamp-format.strict") or not formats or not schema.partition_keys:
        return None
    time_of, fields = partition_times(options, schema.partition_keys), schema.partition_fields

    def check(partition: bytes) -> None:
        if time_of(java_texts(fields, partition)) is None:
            raise SchemaError(
                f"the partition {partition_directory(schema, partition)} is no time by {' and '.join(formats)}, and "
                "partition.timestamp-format.strict refuses it",
                hint="look whether the right column has the time, or unset the option",
            )

    return check


def _filled(pattern: str | None, names: Sequence[str], texts: Sequence[str | None]) -> str | None:
    """The pattern with the values of a partition in the places of ``$name``; the first value without one.

    Where several columns fit, the one with the longest name is meant. None when a value is NULL: such a partition
    never expires.
    """
    if pattern is None:
        return texts[0]
    if None in texts:
        return None
    values = {name: str(text) for name, text in zip(names, texts, strict=True)}
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"\$({longest_first})", lambda found: values[found[1]], pattern)


def _reader(formatter: str | None) -> Callable[[str], datetime | None]:
    """What reads times, by Java's letters ``y M d H m s`` and literals; None for what is no time."""
    if formatter is None:
        return _default_time
    expression, directives, given = "", "", set[str]()
    for part in re.finditer(r"'([^']*)'|([A-Za-z])\2*|.", formatter, re.DOTALL):
        letters = part[0]
        if part[1] is not None or not letters[0].isalpha():
            literal = letters if part[1] is None else part[1] or "'"
            expression, directives = expression + re.escape(literal), directives + literal.replace("%", "%%")
        elif letters[0] in _LETTERS and len(letters) in _WIDTHS.get(letters[0], (2,)):
            expression += rf"\d{{{len(letters)}}}"
            directives += _LETTERS[letters[0]]
            given.add(_LETTERS[letters[0]])
        else:
            raise UnsupportedError(
                f"partition.timestamp-formatter: {letters!r} is not supported", hint="yyyy, MM, dd, HH, mm and ss are"
            )
    for needed, directive in (("year", "%Y"), ("month", "%m"), ("day", "%d")):
        if directive not in given:  # Java reads no date then, where strptime makes one up
            raise UnsupportedError(
                f"partition.timestamp-formatter={formatter} has no {needed}, so no partition is a time",
                hint="let partition.timestamp-pattern add it, such as '$month-01', and the formatter read it",
            )
    shape = re.compile(expression, re.ASCII)

    @lru_cache(maxsize=1024)
    def read(text: str) -> datetime | None:
        try:
            return datetime.strptime(text, directives) if shape.fullmatch(text) else None
        except ValueError:
            return None

    return read


def _default_time(text: str) -> datetime | None:
    """``yyyy-M-d`` with or without `` H:m:s[.f]``; days and hours beyond the last run on, as Java reads them."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        first = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
        return first + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second)
    except (ValueError, OverflowError):
        return None
