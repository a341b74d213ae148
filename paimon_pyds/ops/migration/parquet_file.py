"""What a Parquet file of any writer holds, as types of Paimon; what Java Paimon would read otherwise is refused.

Sources: apache/parquet-format, parquet.thrift and LogicalTypes.md; which physical types Java Paimon's reader takes for
a column (its classes ParquetVectorUpdaterFactory and ParquetReaderFactory). It reads an INT64 of nanoseconds as
milliseconds and a TIME of microseconds as milliseconds, knows no unsigned numbers, and has no decoder for
BYTE_STREAM_SPLIT, so no schema can describe these.

It finds a DECIMAL of more than 18 digits by = in plain pages only, which is how parquet-mr writes it; pyarrow uses a
dictionary. Of 18 digits or fewer it refuses to filter what is not stored as a whole number, but reads all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from paimon_pyds.base.types import MAX_LENGTH, ArrayType, AtomicType, DataField, DataType, Kind, MapType, RowType
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.parquet.encodings import LONG_DIGITS
from paimon_pyds.format.parquet.footer import get, require
from paimon_pyds.format.parquet.page_picks import DICTIONARIES
from paimon_pyds.format.parquet.prune import file_statistics
from paimon_pyds.format.parquet.source import ParquetSource, decoding
from paimon_pyds.format.parquet.thrift import (
    BINARY,
    I32,
    LIST,
    STRUCT,
    Struct,
    decode_struct,
    field_head,
    list_head,
    skip_field,
)
from paimon_pyds.ops.migration.common_types import FileFacts
from paimon_pyds.storage import FileIO

_BOOLEAN, _INT32, _INT64, _INT96, _FLOAT, _DOUBLE, _BYTES, _FIXED = range(8)
_REQUIRED, _REPEATED = 0, 2
_CODECS = {3: "LZO", 4: "BROTLI"}
_BYTE_STREAM_SPLIT = 9
_LOGICAL = {
    1: "string", 2: "map", 3: "list", 4: "string", 5: "decimal", 6: "date", 7: "time", 8: "timestamp", 10: "integer",
    11: "null", 12: "string", 13: "bytes", 14: "uuid",
}  # fmt: skip
"""Members of the union LogicalType; ENUM and JSON are strings, BSON bytes."""
_CONVERTED = {
    0: ("string",), 1: ("map",), 2: ("map",), 3: ("list",), 4: ("string",), 5: ("decimal",), 6: ("date",),
    7: ("time", "ms"), 8: ("time", "us"), 9: ("timestamp", "ms", True), 10: ("timestamp", "us", True),
    **{11 + i: ("integer", 8 << i, False) for i in range(4)}, **{15 + i: ("integer", 8 << i, True) for i in range(4)},
    19: ("string",), 20: ("bytes",),
}  # fmt: skip
"""ConvertedType, by its numbers."""
_UNITS = {1: "ms", 2: "us", 3: "ns"}
_INTEGERS = {8: Kind.TINYINT, 16: Kind.SMALLINT, 32: Kind.INT, 64: Kind.BIGINT}
_PLAIN = {_BOOLEAN: Kind.BOOLEAN, _INT32: Kind.INT, _INT64: Kind.BIGINT, _FLOAT: Kind.FLOAT, _DOUBLE: Kind.DOUBLE}
_STRING, _BINARY = (AtomicType(kind, length=MAX_LENGTH) for kind in (Kind.VARCHAR, Kind.VARBINARY))
_SPARK, _LEGACY = b"org.apache.spark.version", (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


def describe(io: FileIO, path: str, size: int, *, instants: bool) -> FileFacts:
    """What a file holds.

    ``instants``: timestamps of 96 bits are instants. They are in files of Spark; others give them no meaning.

    Raises:
        CorruptFileError: no Parquet file, or a damaged one.
        UnsupportedError: something that Java Paimon reads otherwise, or not at all.
    """
    source = ParquetSource(io, path, size, ReadCounters())
    try:
        with decoding(path):
            elements, metadata = _schema_and_metadata(source.footer.data)
            for key in _LEGACY:
                if key in metadata:
                    raise UnsupportedError(
                        f"Spark wrote old dates by the Julian calendar ({key.decode()}), which Paimon has not",
                        path=path,
                        hint="append its rows, read with Spark, instead",
                    )
            _check_encodings(source)
            try:
                fields, untyped = _Columns(elements, path, instants or _SPARK in metadata).read()
            except (StopIteration, KeyError, IndexError, TypeError) as error:
                raise CorruptFileError("the schema is damaged", path=path, field="schema") from error
            _check_decimals(source, fields)
            known = {f.name: file_statistics(source, f) for f in fields if isinstance(f.type, AtomicType)}
            return FileFacts("parquet", source.footer.row_count, fields, untyped, known)
    finally:
        source.close()


def _schema_and_metadata(footer: bytes) -> tuple[list[Struct], set[bytes]]:
    """The elements of the schema, and the keys of the file's metadata."""
    elements: list[Struct] = []
    keys: set[bytes] = set()
    pos = field_id = 0
    while True:
        wire, field_id, pos = field_head(footer, pos, field_id)
        if wire == 0:
            return elements, keys
        if field_id not in (2, 5) or wire != LIST:
            pos = skip_field(footer, pos, wire)
            continue
        _, count, pos = list_head(footer, pos)
        for _ in range(count):
            part, pos = decode_struct(footer, pos)
            if field_id == 2:
                elements.append(part)
            else:
                keys.add(require(part, 1, BINARY, "KeyValue.key"))


def _check_encodings(source: ParquetSource) -> None:
    footer = source.footer
    for group, (start, stop) in enumerate(footer.groups):
        if start == stop:
            continue
        for leaf in footer.leaves:
            chunk = footer.chunk(group, leaf.index)
            name = _CODECS.get(chunk.codec) or ("BYTE_STREAM_SPLIT" if _BYTE_STREAM_SPLIT in chunk.encodings else None)
            if name is not None:
                raise _refused(".".join(leaf.path), f"{name}, which Java Paimon can't decode", source.path)


def _check_decimals(source: ParquetSource, fields: Sequence[DataField]) -> None:
    """Check that Java finds DECIMALs which are bytes of one length: in a dictionary it looks for the shortest bytes."""
    footer = source.footer
    filled = [group for group, (start, stop) in enumerate(footer.groups) if start < stop]
    for field in fields:
        if not isinstance(field.type, AtomicType) or field.type.kind is not Kind.DECIMAL:
            continue
        [leaf] = footer.columns[field.name]
        is_long = footer.leaves[leaf].physical == _FIXED and (field.type.precision or 0) > LONG_DIGITS
        if is_long and any(not DICTIONARIES.isdisjoint(footer.chunk(group, leaf).encodings) for group in filled):
            what = f"DECIMALs of more than {LONG_DIGITS} digits in a dictionary, in which Java Paimon finds none by ="
            raise _refused(field.name, what, source.path)


def _refused(name: str, what: str, path: str) -> UnsupportedError:
    return UnsupportedError(
        f"column {name} has {what}", path=path, hint="append the rows of this file instead: they are written anew"
    )


class _Columns:
    """Walks the elements of a schema, which lists parents before their children."""

    def __init__(self, elements: Sequence[Struct], path: str, instants: bool) -> None:
        self._elements: Iterator[Struct] = iter(elements)
        self._path = path
        self._instants = instants

    def read(self) -> tuple[tuple[DataField, ...], tuple[str, ...]]:
        """The columns, and the names of those without a type."""
        root = next(self._elements)
        fields, untyped = [], []
        for _ in range(get(root, 5, I32, "num_children") or 0):
            element = next(self._elements)
            column = self._field(element, "")
            if column is None:
                untyped.append(_name(element))
            else:
                fields.append(column)
        return tuple(fields), tuple(untyped)

    def _field(self, element: Struct, within: str) -> DataField | None:
        """A column or a field of one; None for one without a type."""
        name = _name(element)
        if _repetition(element) == _REPEATED:
            raise _refused(f"{within}{name}", "values that repeat without being a list", self._path)
        type_ = self._type(element, f"{within}{name}")
        return None if type_ is None else DataField(_field_id(element), name, type_)

    def _type(self, element: Struct, name: str) -> DataType | None:
        nullable = _repetition(element) != _REQUIRED
        children = get(element, 5, I32, "num_children")
        found = self._atom(element, name) if children is None else self._group(element, children, name)
        return None if found is None else found.with_nullable(nullable)

    def _group(self, element: Struct, children: int, name: str) -> DataType | None:
        meaning = _meaning(element)[0]
        if meaning == "list":
            return self._list(children, name)
        if meaning == "map":
            return self._map(children, name)
        fields = []
        for _ in range(children):
            column = self._field(next(self._elements), f"{name}.")
            if column is None:
                raise _refused(name, "a field without a type", self._path)
            fields.append(column)
        if not fields:
            raise _refused(name, "no fields", self._path)
        return RowType(fields=tuple(fields))

    def _list(self, children: int, name: str) -> DataType | None:
        middle = next(self._elements) if children == 1 else {}
        parts = get(middle, 5, I32, "num_children")
        # A repeated group of these names is itself the element: what was written so means another thing to Java.
        older = parts == 1 and _name(middle) in ("array", f"{name.rpartition('.')[2]}_tuple")
        if parts != 1 or _repetition(middle) != _REPEATED or older:
            raise _refused(name, "lists of two levels, as old writers make them", self._path)
        element = self._type(next(self._elements), f"{name}.element")
        return None if element is None else ArrayType(element=element)

    def _map(self, children: int, name: str) -> DataType | None:
        middle = next(self._elements) if children == 1 else {}
        if get(middle, 5, I32, "num_children") != 2 or _repetition(middle) != _REPEATED:
            raise _refused(name, "a map without keys and values", self._path)
        types = {}
        for _ in range(2):
            element = next(self._elements)
            types[_name(element)] = self._type(element, f"{name}.{_name(element)}")
        if types.keys() != {"key", "value"}:
            raise _refused(name, f"a map whose parts are named {' and '.join(types)}", self._path)
        key, value = types["key"], types["value"]
        return None if key is None or value is None else MapType(key=key.with_nullable(False), value=value)

    def _atom(self, element: Struct, name: str) -> DataType | None:
        physical = require(element, 1, I32, "type")
        meaning, *details = _meaning(element)
        if meaning == "null":
            return None
        found = self._timestamp96() if physical == _INT96 else _atom(physical, meaning, details, element)
        if found is None:
            text = " ".join(str(part) for part in (meaning or "no meaning", *details))
            raise _refused(name, f"a type that Java Paimon can't read: {_PHYSICAL[physical]}, {text}", self._path)
        return found

    def _timestamp96(self) -> AtomicType:
        return AtomicType(Kind.TIMESTAMP_LTZ if self._instants else Kind.TIMESTAMP, precision=9)


_PHYSICAL = dict(
    enumerate(("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"))
)


def _name(element: Struct) -> str:
    return str(require(element, 4, BINARY, "SchemaElement.name").decode("utf-8", "replace"))


def _field_id(element: Struct) -> int:
    found = get(element, 9, I32, "field_id")
    return -1 if found is None else int(found)


def _repetition(element: Struct) -> int:
    return int(get(element, 3, I32, "repetition_type") or 0)


def _meaning(element: Struct) -> tuple[Any, ...]:
    """The logical meaning of a type: ``("timestamp", "us", True)`` and the like; ``(None,)`` without one."""
    logical = get(element, 10, STRUCT, "logicalType")
    if not logical:
        converted = get(element, 6, I32, "converted_type")
        return _CONVERTED.get(converted, (f"converted type {converted}",)) if converted is not None else (None,)
    number, (_, value) = next(iter(logical.items()))
    meaning = _LOGICAL.get(number, f"logical type {number}")
    if meaning == "integer":
        return meaning, value[1][1], value[2][1] is True
    if meaning in ("time", "timestamp"):
        unit = _UNITS.get(next(iter(value[2][1])))
        return (meaning, unit) if meaning == "time" else (meaning, unit, value[1][1] is True)
    return (meaning,)


def _atom(physical: int, meaning: str | None, details: list[Any], element: Struct) -> AtomicType | None:
    """Paimon's type, None where it has none that Java reads."""
    if meaning == "decimal":
        precision, scale = get(element, 8, I32, "precision") or 0, get(element, 7, I32, "scale") or 0
        fits = physical in (_INT32, _INT64, _BYTES, _FIXED) and 0 <= scale <= precision and 1 <= precision <= 38
        return AtomicType(Kind.DECIMAL, precision=precision, scale=scale) if fits else None
    match physical, meaning, details:
        case (_, None, _) if physical in _PLAIN:
            return AtomicType(_PLAIN[physical])
        case (1, "integer", [8 | 16 | 32 as bits, True]) | (2, "integer", [64 as bits, True]):
            return AtomicType(_INTEGERS[bits])
        case 1, "integer", [8 | 16 as bits, False]:
            return AtomicType(_INTEGERS[2 * bits])
        case 1, "date", _:
            return AtomicType(Kind.DATE)
        case 1, "time", ["ms"]:
            return AtomicType(Kind.TIME, precision=3)
        case 2, "timestamp", ["ms" | "us" as unit, utc]:
            return AtomicType(Kind.TIMESTAMP_LTZ if utc else Kind.TIMESTAMP, precision=3 if unit == "ms" else 6)
        case 6, "string", _:
            return _STRING
        case 6, None | "bytes", _:
            return _BINARY
        case 7, None | "uuid", _:
            return AtomicType(Kind.BINARY, length=require(element, 2, I32, "type_length"))
    return None
