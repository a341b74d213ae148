"""Members of Avro records that this version does not know: later versions of Paimon add some, all of them nullable.

Readers pass over them. Where a record is written again they go with it, as the bytes that they are in the file, under
the type that their writer gave them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import pyarrow as pa

from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.format.avro.container import BRANCH, schema_node
from paimon_pyds.format.avro.schema import (
    Array,
    Node,
    Primitive,
    Record,
    Union,
    Unread,
    UnreadValue,
    parse_schema,
    put_bytes,
    read_bytes,
    reader_of,
)
from paimon_pyds.metadata.json_text import names_in

_NAMED = frozenset({"record", "error", "enum", "fixed"})
_OF_NAMES = frozenset({"name", "namespace", "aliases", "doc", "default"})


class UnknownMember(NamedTuple):
    """A member of a record, other than null.

    Attributes:
        path: its place in the record, with a dot after each record on the way.
        type: the JSON text of its Avro type, in which types have no names.
        data: its value, as it is in the file.
    """

    path: str
    type: str
    data: bytes

    def value(self) -> Any:
        """The value that its bytes are by their type."""
        return reader_of(parse_schema(_named(json.loads(self.type), "record", set())))(self.data, 0)[0]

    def names(self) -> Iterator[str]:
        """Possible names of files in the value: the last path parts of all texts."""
        return names_in(self.value())


class KnownSchema:
    """The Avro schema of some records as far as this version knows it. ``json``: its JSON value."""

    def __init__(self, json: Mapping[str, Any]) -> None:
        self.json = json

    def node_of(self, text: bytes) -> Node:
        """The type of the records of a writer's schema, in which members that are not known here are `Unread`."""
        return _node_of(self, text)

    def extended(self, members: Iterable[UnknownMember]) -> Mapping[str, Any]:
        """The JSON value of the schema with these members of its records, whose paths begin at the topmost one.

        Raises UnsupportedError: one that can't be null, or that has several types.
        """
        types: dict[str, str] = {}
        for member in members:
            if types.setdefault(member.path, member.type) != member.type:
                raise _refused(member.path, "has several types")
        if not types:
            return self.json
        extended = deepcopy(dict(self.json))
        for path, text in types.items():
            type_ = json.loads(text)
            if not isinstance(type_, list) or "null" not in type_:
                raise _refused(path, "can't be null")
            _add(extended, path, type_)
        return extended


def _refused(path: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the table's metadata has a member {path} that is not known here and {why}: it can't be written again",
        hint="a newer Paimon wrote it: upgrade paimon-pyds, or write with that Paimon",
        feature="extra-metadata",
    )


@functools.lru_cache(maxsize=32)
def _node_of(known: KnownSchema, text: bytes) -> Node:
    node = schema_node(text)
    if not isinstance(node, Record):
        return node
    found = _without_names(json.loads(text.decode()), "", {})
    return _marked(node, found[1] if isinstance(found, list) else found, known.json)


def _marked(node: Node, found: Any, known: Any) -> Node:
    """A type in which the members of records are `Unread` that a known one lacks. ``found``: its JSON value."""
    if isinstance(known, list):
        known = known[1]
    if isinstance(node, Union):
        return Union(tuple(_marked(branch, type_, known) for branch, type_ in zip(node.branches, found, strict=True)))
    if isinstance(node, Array) and _kind(known) == "array":
        return Array(_marked(node.item, found["items"], known["items"]))
    if not isinstance(node, Record) or _kind(known) != "record":
        return node
    types = {member["name"]: member["type"] for member in found["fields"]}
    ours = {member["name"]: member["type"] for member in known["fields"]}
    return Record(
        tuple(
            (name, _marked(member, types[name], ours[name]) if name in ours else _unread(name, member, types))
            for name, member in node.fields
        )
    )


def _unread(name: str, node: Node, types: Mapping[str, Any]) -> Node:
    return node if name == BRANCH else Unread(node, json.dumps(types[name], sort_keys=True))


def _kind(type_: Any) -> object:
    return type_.get("type") if isinstance(type_, Mapping) else type_


def _without_names(type_: Any, space: str, named: dict[str, Any]) -> Any:
    """A type that `schema_node` takes, with the definitions of types in the place of their names."""
    if isinstance(type_, str):
        full = f"{space}.{type_}"
        return named[full] if full in named else named.get(type_, type_)
    if isinstance(type_, list):
        return [_without_names(branch, space, named) for branch in type_]
    kind = type_["type"]
    plain = {key: value for key, value in type_.items() if key not in _OF_NAMES}
    if kind in ("array", "map"):
        of = "items" if kind == "array" else "values"
        return {**plain, of: _without_names(type_[of], space, named)}
    if not isinstance(kind, str) or kind not in _NAMED:
        kind = _without_names(kind, space, named)
        return {**plain, "type": kind} if len(plain) > 1 and isinstance(kind, str) else kind
    name = type_["name"]
    space = name.rpartition(".")[0] if "." in name else type_.get("namespace", space)
    if "fields" in type_:
        plain["fields"] = [
            {"name": member["name"], "type": _without_names(member["type"], space, named)} for member in type_["fields"]
        ]
    named[name if "." in name or not space else f"{space}.{name}"] = plain
    return plain


def _named(type_: Any, name: str, taken: set[str]) -> Any:
    """A type of `_without_names` with names again, which begin with this one, as Java Paimon gives them."""
    if isinstance(type_, list):
        return [_named(branch, name, taken) for branch in type_]
    if not isinstance(type_, dict):
        return type_
    made = {key: _named(type_[key], name, taken) if key in ("items", "values") else type_[key] for key in type_}
    if type_["type"] in _NAMED:
        own = next(f"{name}{end}" for end in ("", *(f"_{n}" for n in range(len(taken)))) if f"{name}{end}" not in taken)
        taken.add(own)
        made["name"] = own
    if "fields" in type_:
        made["fields"] = [
            {"name": member["name"], "type": _named(member["type"], f"{made['name']}_{member['name']}", taken)}
            for member in type_["fields"]
        ]
    return made


def _add(schema: dict[str, Any], path: str, type_: list[Any]) -> None:
    """Add a member to the record at its place in a schema."""
    *records, name = path.split(".")
    record: Any = schema
    for step in records:
        record = _record_in(next(member["type"] for member in record["fields"] if member["name"] == step))
    member = {"name": name, "type": _named(type_, f"{record['name']}_{name}", _names_in(schema))}
    record["fields"].append(member if type_[0] != "null" else {**member, "default": None})


def _record_in(type_: Any) -> Any:
    """The record that a known type is, or has within null or arrays."""
    while _kind(type_) != "record":
        type_ = type_[1] if isinstance(type_, list) else type_["items"]
    return type_


def _names_in(type_: Any) -> set[str]:
    """The names of all types in one."""
    if isinstance(type_, list):
        return set().union(*map(_names_in, type_))
    if not isinstance(type_, dict):
        return set()
    inside = [type_[key] for key in ("items", "values", "type") if key in type_]
    inside += [member["type"] for member in type_.get("fields", ())]
    own = {type_["name"]} if type_.get("type") in _NAMED else set()
    return own.union(*map(_names_in, inside))


# ----------------------------------------------------------------------------------------------------- of one record


def unread_paths(node: Node) -> tuple[str, ...]:
    """The places of the members that are not known, in one order for all writers; members in arrays are left out."""
    return tuple(sorted(_paths(node, "")))


def _paths(node: Node, place: str) -> Iterator[str]:
    if isinstance(node, Unread):
        yield place
    elif isinstance(node, Union):
        for branch in node.branches:
            yield from _paths(branch, place)
    elif isinstance(node, Record):
        for name, member in node.fields:
            yield from _paths(member, f"{place}.{name}" if place else name)


def members_in(record: Mapping[str, Any]) -> tuple[UnknownMember, ...]:
    """The unknown members of a record, as `decode_records` gives it, without those of records in it."""
    return tuple(members_at(record, [name for name, value in record.items() if isinstance(value, UnreadValue)]))


def members_at(record: Mapping[str, Any], paths: Iterable[str]) -> Iterator[UnknownMember]:
    """The unknown members at these places of a record, as `decode_records` gives it; none in records that are null."""
    for path in paths:
        value: Any = record
        for name in path.split("."):
            value = None if value is None else value[name]
        if value is not None and value.data != _null_of(value.type):
            yield UnknownMember(path, *value)


@functools.lru_cache(maxsize=64)
def _null_of(text: str) -> bytes | None:
    type_ = json.loads(text)
    return bytes([2 * type_.index("null")]) if isinstance(type_, list) and "null" in type_ else None


# --------------------------------------------------------------------------------- of the entries of manifests
#
# A binary column has those of each entry: the path, type and bytes of one after the other; null if it has no unknown
# members.


def pack(members: Iterable[UnknownMember]) -> bytes | None:
    """Members as a value of that column."""
    return b"".join(_packed(*member) for member in members) or None


def _packed(path: str, type_: str, data: bytes) -> bytes:
    out = bytearray()
    for part in (path.encode(), type_.encode(), data):
        put_bytes(out, part)
    return bytes(out)


def unpack(value: bytes | None) -> Iterator[UnknownMember]:
    """The members in a value of that column."""
    value, at = value or b"", 0
    while at < len(value):
        path, at = read_bytes(value, at)
        type_, at = read_bytes(value, at)
        data, at = read_bytes(value, at)
        yield UnknownMember(path.decode(), type_.decode(), data)


def packed(columns: Mapping[str, tuple[Unread, pa.Array]], count: int) -> pa.Array:
    """The column of many entries. ``columns``: the bytes of members by their paths. ``count``: of the entries."""
    from paimon_pyds.format.avro.encode import encode_field, join

    nothing = scalar(b"", pa.binary())
    pieces = []
    for path, (node, data) in columns.items():
        here = pc.not_equal(data, scalar(node.null, pa.binary())) if node.null is not None else None
        if here is not None and not pc.any(here).as_py():
            continue
        head = scalar(_packed(path, node.type, b"")[:-1], pa.binary())  # without the length of no bytes
        piece = pc.binary_join_element_wise(head, *encode_field(Primitive("bytes"), data), nothing)
        pieces.append(piece if here is None else pc.if_else(here, piece, nothing))
    if not pieces:
        return pa.nulls(count, pa.binary())
    whole = join(pieces)
    return pc.if_else(pc.greater(pc.binary_length(whole), 0), whole, scalar(None, pa.binary()))


def by_path(column: pa.Array) -> tuple[list[UnknownMember], Mapping[str, list[bytes | None]]]:
    """All members in the column, and by their paths the values of each entry, None for a null."""
    members: list[UnknownMember] = []
    values: dict[str, list[bytes | None]] = {}
    for at, value in enumerate(column.to_pylist() if column.null_count < len(column) else ()):
        for member in unpack(value):
            members.append(member)
            values.setdefault(member.path, [None] * len(column))[at] = member.data
    return members, values


def names_among(column: pa.Array) -> set[str]:
    """Possible names of files in the members in the column."""
    if column.null_count == len(column):
        return set()
    return {name for value in column.drop_null().to_pylist() for member in unpack(value) for name in member.names()}
