"""Avro schemas as trees of types, names resolved, and values of them read and written one by one (Apache Avro
specification 1.11, Schema Declaration and Binary Encoding).

Of manifests, which have many records, `batch_decode` reads the values and `encode` writes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import CorruptFileError

MAX_DEPTH = 32
MAX_VALUES = 100_000
"""What a record is made of, at most; it has no more columns than that."""
MAX_EMPTY_VALUES = 16
"""Values of a record that take no bytes, at most: nothing else bounds what reading them costs. Iceberg has one."""
MAX_FIXED_BYTES = 256 * 2**20
"""Bytes of a value of type fixed."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """null, boolean, int, long, float, double, bytes or string. An enum is read as an int."""

    name: str


@dataclass(frozen=True, slots=True)
class Sized:
    """A fixed: always that many bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Array:
    """An array of items of one type."""

    item: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """A map from strings to values of one type."""

    value: Node


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields in order."""

    fields: tuple[tuple[str, Node], ...]
    _hash: int = field(init=False, repr=False, compare=False)  # taken once: schemas are keys of caches

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.fields))

    def __hash__(self) -> int:
        return self._hash

    def field(self, name: str) -> Node | None:
        """The type of a field, None when there is no such field."""
        return next((node for found, node in self.fields if found == name), None)


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that stays the bytes that it is in the file, as an `UnreadValue`. ``type``: the JSON text of ``node``."""

    node: Node
    type: str

    @property
    def null(self) -> bytes | None:
        """The bytes of a null; None where there is always a value."""
        if not isinstance(self.node, Union) or _PRIMITIVES["null"] not in self.node.branches:
            return None
        return bytes([2 * self.node.branches.index(_PRIMITIVES["null"])])


class UnreadValue(NamedTuple):
    """The bytes of a value, and the JSON text of its type."""

    type: str
    data: bytes


Node: TypeAlias = Primitive | Sized | Array | Mapping | Union | Record | Unread

_PRIMITIVES = {
    name: Primitive(name) for name in ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
}


def optional(node: Node) -> tuple[Node, int] | None:
    """For a union of null and one other type: that type and the number of the null branch. None for all else."""
    if isinstance(node, Union) and len(node.branches) == 2 and _PRIMITIVES["null"] in node.branches:
        null = node.branches.index(_PRIMITIVES["null"])
        return node.branches[1 - null], null
    return None


def parse_schema(schema: object, path: object = None, max_depth: int = MAX_DEPTH) -> Node:
    """A schema from its JSON value.

    Raises CorruptFileError: not an Avro schema, one that contains itself or is deeper than ``max_depth``, or one under
    which a few bytes claim to be very many values.
    """
    try:
        return _Parser(max_depth).parse(schema, "", 0).node
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(f"not an Avro schema: {error}", path=path, field="avro.schema") from error


class _Parsed(NamedTuple):
    """A type, with what its values are made of when all names stand for their types: a type that is named twice counts
    twice, so that twenty lines which each name the one before twice are a million.

    ``values``: how many there are in one, of an array or map with one item. ``empty``: how many of them take no bytes.
    ``depth``: levels. ``takes_bytes``: whether one takes any.
    """

    node: Node
    values: int = 1
    empty: int = 0
    depth: int = 0
    takes_bytes: bool = True


class _Parser:
    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._named: dict[str, _Parsed] = {}

    def parse(self, schema: Any, space: str, depth: int) -> _Parsed:
        """The type of a JSON value. A name is known from the end of its type on: none is within itself."""
        if isinstance(schema, str):
            return self._checked(self._by_name(schema, space), depth)
        if depth > self._max_depth:
            raise ValueError(f"nested deeper than {self._max_depth} levels")
        if isinstance(schema, list):
            branches = [self.parse(branch, space, depth + 1) for branch in schema]
            return self._checked(_around(Union(tuple(branch.node for branch in branches)), branches, True), depth)
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(schema, kind, space, depth)
        if kind == "array":
            item = self.parse(schema["items"], space, depth + 1)
            if not item.takes_bytes:  # nothing would bound how many a few bytes claim
                raise ValueError("an array of items without bytes")
            return self._checked(_around(Array(item.node), [item], True), depth)
        if kind == "map":
            value = self.parse(schema["values"], space, depth + 1)
            return self._checked(_around(Mapping(value.node), [value], True), depth)
        return self.parse(kind, space, depth + 1)

    def _by_name(self, name: str, space: str) -> _Parsed:
        if name in _PRIMITIVES:
            takes_bytes = name != "null"
            return _Parsed(_PRIMITIVES[name], 1, int(not takes_bytes), 0, takes_bytes)
        full = name if "." in name or not space else f"{space}.{name}"
        return self._named[full] if full in self._named else self._named[name]

    def _definition(self, schema: Any, kind: str, space: str, depth: int) -> _Parsed:
        name = schema["name"]
        space = name.rpartition(".")[0] if "." in name else schema.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        if kind == "fixed":
            size = schema["size"]
            if not isinstance(size, int) or not 0 <= size <= MAX_FIXED_BYTES:
                raise ValueError(f"a fixed of size {size!r}")
            found = _Parsed(Sized(size), 1, int(not size), 0, size > 0)
        elif kind == "enum":
            found = _Parsed(_PRIMITIVES["int"])
        else:
            members = [(str(f["name"]), self.parse(f["type"], space, depth + 1)) for f in schema["fields"]]
            node = Record(tuple((member, found.node) for member, found in members))
            found = _around(node, [found for _, found in members], False)
        self._named[full] = self._checked(found, depth)
        return found

    def _checked(self, found: _Parsed, depth: int) -> _Parsed:
        if depth + found.depth > self._max_depth:
            raise ValueError(f"nested deeper than {self._max_depth} levels")
        if found.values > MAX_VALUES:
            raise ValueError(f"a value is made of more than {MAX_VALUES}")
        if found.empty > MAX_EMPTY_VALUES:
            raise ValueError(f"more than {MAX_EMPTY_VALUES} values take no bytes")
        return found


def _around(node: Node, inner: Sequence[_Parsed], takes_bytes: bool) -> _Parsed:
    """A type that is made of others; ``takes_bytes``: also where these take none."""
    takes_bytes = takes_bytes or any(found.takes_bytes for found in inner)
    values, empty = sum(found.values for found in inner), sum(found.empty for found in inner)
    if not isinstance(node, Union):
        values, empty = values + 1, empty + (not takes_bytes)
    else:  # of which one is there, after the number that says which
        empty = max((found.empty for found in inner if found.node != _PRIMITIVES["null"]), default=0)
    return _Parsed(node, values, empty, 1 + max((found.depth for found in inner), default=0), takes_bytes)


class Overrun(Exception):
    """The bytes end before the value does, or hold no such value."""


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """An int or long, and the place after it. Raises Overrun."""
    if at < len(data) and (byte := data[at]) < 0x80:  # as most are
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = shift = 0
    end = min(len(data), at + 10)
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise Overrun
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise Overrun


def _int(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_long(data, at)
    if not -(2**31) <= value < 2**31:
        raise Overrun
    return value, at


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes that follow their length, and the place after them. Raises Overrun."""
    size, at = read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise Overrun
    return data[at : at + size], at + size


def _string(data: bytes, at: int) -> tuple[str, int]:
    value, at = read_bytes(data, at)
    try:
        return value.decode(), at
    except UnicodeDecodeError:
        raise Overrun from None


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    if at >= len(data) or data[at] > 1:
        raise Overrun
    return data[at] == 1, at + 1


Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
_READERS: dict[str, Reader] = {
    "null": lambda data, at: (None, at),
    "boolean": _boolean,
    "int": _int,
    "long": read_long,
    "bytes": read_bytes,
    "string": _string,
}


@functools.lru_cache(maxsize=256)
def reader_of(node: Node) -> Reader:
    """A function from data and a place in it to a value and the place after it; it raises Overrun."""
    match node:
        case Primitive("float"):
            return _raw_reader(4)
        case Primitive("double"):
            return _raw_reader(8)
        case Primitive(name):
            return _READERS[name]
        case Sized(size):
            return _raw_reader(size)
        case Array(item):
            return _array_reader(reader_of(item))
        case Mapping(value):
            return _map_reader(_array_reader(reader_of(Record((("key", _PRIMITIVES["string"]), ("value", value))))))
        case Union(branches):
            return _union_reader([reader_of(branch) for branch in branches])
        case Record(fields):
            return _record_reader([(name, reader_of(member)) for name, member in fields])
        case Unread(inner, type_):
            return _unread_reader(reader_of(inner), type_)


def _raw_reader(size: int) -> Reader:
    """Values that stay the bytes that they are: floats and fixed occur in metadata of Iceberg only."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        if size > len(data) - at:
            raise Overrun
        return data[at : at + size], at + size

    return read


def _array_reader(item: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while True:
            count, at = read_long(data, at)
            if count == 0:
                return values, at
            if count < 0:
                count = -count
                _, at = read_long(data, at)
            if count > len(data) - at:
                raise Overrun
            for _ in range(count):
                value, at = item(data, at)
                values.append(value)

    return read


def _map_reader(pairs: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found, at = pairs(data, at)
        return {pair["key"]: pair["value"] for pair in found}, at

    return read


def _union_reader(branches: Sequence[Reader]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = read_long(data, at)
        if not 0 <= branch < len(branches):
            raise Overrun
        return branches[branch](data, at)

    return read


def _record_reader(fields: Sequence[tuple[str, Reader]]) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, reader in fields:
            record[name], at = reader(data, at)
        return record, at

    return read


def _unread_reader(inner: Reader, type_: str) -> Reader:
    def read(data: bytes, at: int) -> tuple[UnreadValue, int]:
        _, end = inner(data, at)
        return UnreadValue(type_, data[at:end]), end

    return read


def put_long(out: bytearray, value: int) -> None:
    """Append an int or long."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_bytes(out: bytearray, value: bytes) -> None:
    """Append bytes after their length."""
    put_long(out, len(value))
    out += value


def _put_string(out: bytearray, value: str) -> None:
    put_bytes(out, value.encode())


def _put_plain(out: bytearray, value: bool | bytes) -> None:
    out += bytes([value]) if isinstance(value, bool) else value  # floats are bytes, as they are read


Writer: TypeAlias = Callable[[bytearray, Any], None]
_WRITERS: dict[str, Writer] = {
    "int": put_long, "long": put_long, "bytes": put_bytes, "string": _put_string, "boolean": _put_plain,
    "float": _put_plain, "double": _put_plain,
}  # fmt: skip


@functools.lru_cache(maxsize=256)
def writer_of(node: Node) -> Writer:
    """A function that appends a value to bytes: primitive values, arrays and records, nullable or not, and the bytes of
    what is unread. Raises TypeError for other types."""
    match node:
        case Primitive(name) if name in _WRITERS:
            return _WRITERS[name]
        case Array(item):
            return _array_writer(writer_of(item))
        case Record(fields):
            return _record_writer([(name, writer_of(member), isinstance(member, Unread)) for name, member in fields])
        case Union() if (found := optional(node)) is not None:
            return _optional_writer(writer_of(found[0]), found[1])
        case Unread():
            return _unread_writer(node.null or b"")
    raise TypeError(f"no writer for {node}")


def _array_writer(item: Writer) -> Writer:
    def write(out: bytearray, values: Sequence[Any]) -> None:
        if values:
            put_long(out, len(values))
            for value in values:
                item(out, value)
        out.append(0)

    return write


def _record_writer(fields: Sequence[tuple[str, Writer, bool]]) -> Writer:
    def write(out: bytearray, record: dict[str, Any]) -> None:
        for name, writer, may_lack in fields:
            writer(out, record.get(name) if may_lack else record[name])

    return write


def _optional_writer(member: Writer, null: int) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(2 * null)
        else:
            out.append(2 - 2 * null)
            member(out, value)

    return write


def _unread_writer(null: bytes) -> Writer:
    def write(out: bytearray, value: bytes | None) -> None:
        out += null if value is None else value

    return write
