"""Avro schemas as trees of types, names resolved (Apache Avro specification 1.11, Schema Declaration)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from paimon_pyds.errors import CorruptFileError

__all__ = ["Array", "Mapping", "Node", "Primitive", "Record", "Sized", "Union", "optional", "parse_schema"]

MAX_DEPTH = 32
MAX_FIXED_BYTES = 256 * 2**20


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


Node: TypeAlias = Primitive | Sized | Array | Mapping | Union | Record

_PRIMITIVES = {
    name: Primitive(name) for name in ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
}


def optional(node: Node) -> tuple[Node, int] | None:
    """For a union of null and one other type: that type and the number of the null branch. None for all else."""
    if isinstance(node, Union) and len(node.branches) == 2 and _PRIMITIVES["null"] in node.branches:
        null = node.branches.index(_PRIMITIVES["null"])
        return node.branches[1 - null], null
    return None


def parse_schema(schema: object, path: object = None) -> Node:
    """A schema from its JSON value.

    Raises:
        CorruptFileError: not an Avro schema, or one that contains itself.
    """
    try:
        return _parse(schema, {}, "", 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(f"not an Avro schema: {error}", path=path, field="avro.schema") from error


def _parse(schema: Any, named: dict[str, Node], space: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        full = schema if "." in schema or not space else f"{space}.{schema}"
        return named[full] if full in named else named[schema]
    if isinstance(schema, list):
        return Union(tuple(_parse(branch, named, space, depth + 1) for branch in schema))
    kind = schema["type"]
    if kind in ("record", "error", "enum", "fixed"):
        name = schema["name"]
        space = name.rpartition(".")[0] if "." in name else schema.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        node: Node
        if kind == "fixed":
            if not isinstance(schema["size"], int) or not 0 <= schema["size"] <= MAX_FIXED_BYTES:
                raise ValueError(f"a fixed of size {schema['size']!r}")
            node = Sized(schema["size"])
        elif kind == "enum":
            node = _PRIMITIVES["int"]
        else:
            node = Record(tuple((str(f["name"]), _parse(f["type"], named, space, depth + 1)) for f in schema["fields"]))
        named[full] = node
        return node
    if kind == "array":
        return Array(_wide(_parse(schema["items"], named, space, depth + 1)))
    if kind == "map":
        return Mapping(_parse(schema["values"], named, space, depth + 1))
    return _parse(kind, named, space, depth + 1)


def _wide(item: Node) -> Node:
    """An item of an array, refused when it takes no bytes: then nothing would bound how many a few bytes claim."""
    if not _takes_bytes(item):
        raise ValueError("an array of items without bytes")
    return item


def _takes_bytes(node: Node) -> bool:
    if isinstance(node, Record):
        return any(_takes_bytes(member) for _, member in node.fields)
    return node not in (_PRIMITIVES["null"], Sized(0))
