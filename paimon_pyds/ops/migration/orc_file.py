"""What an ORC file of any writer holds, as types of Paimon (source: ORC specification v1, File Footer)."""

from __future__ import annotations

from typing import Any

from paimon_pyds.base.types import MAX_LENGTH, ArrayType, AtomicType, DataField, DataType, Kind, MapType, RowType
from paimon_pyds.base.varints import unzigzag
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.orc.encoding import as_bytes, as_number, numbers_of, read_message
from paimon_pyds.format.orc.tail import OrcKind, OrcTail, OrcType, parse_tail
from paimon_pyds.ops.migration.common_types import Bounds, FileFacts
from paimon_pyds.storage import FileIO

_KINDS = {
    OrcKind.BOOLEAN: Kind.BOOLEAN, OrcKind.BYTE: Kind.TINYINT, OrcKind.SHORT: Kind.SMALLINT, OrcKind.INT: Kind.INT,
    OrcKind.LONG: Kind.BIGINT, OrcKind.FLOAT: Kind.FLOAT, OrcKind.DOUBLE: Kind.DOUBLE, OrcKind.DATE: Kind.DATE,
}  # fmt: skip
_TEXTS = {OrcKind.CHAR: Kind.CHAR, OrcKind.VARCHAR: Kind.VARCHAR}
_STAMPS = {OrcKind.TIMESTAMP: Kind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT: Kind.TIMESTAMP_LTZ}
_WHOLE = frozenset({OrcKind.BYTE, OrcKind.SHORT, OrcKind.INT, OrcKind.LONG})
_GREGORIAN = -141_427
"""The first day of the Gregorian calendar, 1582-10-15: bounds of days before it depend on the writer."""
_REFUSED_CODECS = frozenset({"lzo", "brotli"})


def describe(io: FileIO, path: str, size: int) -> FileFacts:
    """What a file holds.

    Raises:
        CorruptFileError: no ORC file, or a damaged one.
        UnsupportedError: something that Java Paimon reads otherwise, or not at all.
    """
    tail = parse_tail(lambda offset, length: io.read_range(path, offset, length), size, path)
    if tail.codec in _REFUSED_CODECS:
        raise UnsupportedError(f"files compressed with {tail.codec} can't be read by Java Paimon", path=path)
    names = tail.root.names
    if names and all(name.startswith("_col") and name[4:].isdecimal() for name in names):
        raise UnsupportedError(
            "an ORC file whose columns have no names but _col0, _col1, …: Java reads those by their place",
            path=path,
            hint="append its rows instead, with their names",
        )
    details = _numbers(tail, path)
    fields = tuple(_field(t, n, n, details, path) for t, n in zip(tail.root.children, names, strict=True))
    known = {f.name: _statistics(tail, t, path) for f, t in zip(fields, tail.root.children, strict=True)}
    return FileFacts("orc", tail.row_count, fields, (), known)


def _numbers(tail: OrcTail, path: str) -> list[dict[int, int]]:
    """Attributes of types by their field numbers: 4 the length of texts, 5 the precision, 6 the scale."""
    found = []
    for number, _, value in read_message(tail.messages[0], path):
        if number == 4:
            parts = read_message(as_bytes(value, path, "types"), path)
            found.append({n: as_number(v, path, "types") for n, _, v in parts if n in (4, 5, 6)})
    return found


def _field(orc: OrcType, name: str, where: str, details: list[dict[int, int]], path: str) -> DataField:
    return DataField(-1, name, _type(orc, where, details, path))


def _type(orc: OrcType, where: str, details: list[dict[int, int]], path: str) -> DataType:
    numbers = details[orc.id]
    match orc.kind:
        case OrcKind.STRUCT if orc.children:
            parts = zip(orc.children, orc.names, strict=True)
            return RowType(fields=tuple(_field(t, n, f"{where}.{n}", details, path) for t, n in parts))
        case OrcKind.LIST if len(orc.children) == 1:
            return ArrayType(element=_type(orc.children[0], f"{where}.element", details, path))
        case OrcKind.MAP if len(orc.children) == 2:
            key, value = (
                _type(t, f"{where}.{n}", details, path) for t, n in zip(orc.children, ("key", "value"), strict=True)
            )
            return MapType(key=key.with_nullable(False), value=value)
        case OrcKind.STRING:
            return AtomicType(Kind.VARCHAR, length=MAX_LENGTH)
        case OrcKind.BINARY:
            return AtomicType(Kind.VARBINARY, length=MAX_LENGTH)
        case OrcKind.CHAR | OrcKind.VARCHAR:
            return AtomicType(_TEXTS[orc.kind], length=max(1, numbers.get(4, MAX_LENGTH)))
        case OrcKind.TIMESTAMP | OrcKind.TIMESTAMP_INSTANT:
            return AtomicType(_STAMPS[orc.kind], precision=9)
        case OrcKind.DECIMAL if 1 <= numbers.get(5, 38) <= 38 and numbers.get(6, 0) <= numbers.get(5, 38):
            return AtomicType(Kind.DECIMAL, precision=numbers.get(5, 38), scale=numbers.get(6, 0))
    if orc.kind in _KINDS:
        return AtomicType(_KINDS[orc.kind])
    raise UnsupportedError(f"column {where} has a type that Paimon has not: {orc.kind.name}", path=path)


def _statistics(tail: OrcTail, orc: OrcType, path: str) -> Bounds:
    """Bounds of whole numbers, texts and days; those of other types leave out values, or are not exact."""
    if orc.children or orc.id >= len(tail.statistics):
        return None, None, None
    nulls: int | None = None
    low: Any = None
    high: Any = None
    for number, _, value in read_message(tail.statistics[orc.id], path):
        if number == 1:
            nulls = tail.row_count - as_number(value, path, "numberOfValues")
        elif (number == 2 and orc.kind in _WHOLE) or (number == 7 and orc.kind is OrcKind.DATE):
            found = {n: unzigzag(v) for n, v in numbers_of(value, path, "statistics").items()}
            low, high = found.get(1), found.get(2)
        elif number == 4 and orc.kind in (OrcKind.STRING, OrcKind.VARCHAR):
            low, high = _texts(as_bytes(value, path, "stringStatistics"), path)
    if nulls is not None and not 0 <= nulls <= tail.row_count:
        raise CorruptFileError("more values than rows", path=path, field="numberOfValues")
    if low is None or high is None or (orc.kind is OrcKind.DATE and low < _GREGORIAN):
        return None, None, nulls
    return low, high, nulls


def _texts(message: bytes, path: str) -> tuple[str | None, str | None]:
    """Least and greatest text, where they are there in full: shortened ones are other fields."""
    found = {n: v for n, _, v in read_message(message, path)}
    try:
        low, high = (as_bytes(found[n], path, "stringStatistics").decode() for n in (1, 2))
    except (KeyError, UnicodeDecodeError):
        return None, None
    return low, high
