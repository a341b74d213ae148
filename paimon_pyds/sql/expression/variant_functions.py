"""Functions of VARIANT values: parts of them with a type, JSON as VARIANT.

Source: Spark 4's ``VariantGet``, whose casts are those of SQL, but NULL or an error where a value does not fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, from_numpy, is_true, one_array, pc, scalar
from paimon_pyds.base.types import ArrayType, AtomicType, DataType, MapType, RowType, arrow_type
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.kinds import STRING_KINDS, Kind
from paimon_pyds.base.variant import build, nodes
from paimon_pyds.base.variant.build import spread
from paimon_pyds.base.variant.encode import InvalidJsonError, metadata_of, parse_json
from paimon_pyds.base.variant.json_text import decimal_text, to_json
from paimon_pyds.base.variant.nodes import Nodes, items_of
from paimon_pyds.base.variant.parts import Path
from paimon_pyds.base.variant.paths import follow, parse_path
from paimon_pyds.base.variant.python import decimals, floats, integers, scalars, texts
from paimon_pyds.errors import ExpressionError, PredicateError, UnsupportedError
from paimon_pyds.sql.expression.cast import can_cast, cast_array, cast_each
from paimon_pyds.sql.expression.coercion import TIMESTAMP, TIMESTAMP_NTZ, normal
from paimon_pyds.sql.expression.lists import make_lists
from paimon_pyds.sql.expression.nodes import Apply, Constant, Function, Node, Resolve, type_text
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

VARIANT = AtomicType(Kind.VARIANT)
_FLOAT = AtomicType(Kind.FLOAT)
_TYPES = {
    **dict.fromkeys(nodes.INTEGERS, tree.LONG),
    nodes.TRUE: tree.BOOLEAN, nodes.FALSE: tree.BOOLEAN, nodes.FLOAT: _FLOAT, nodes.DOUBLE: tree.DOUBLE,
    nodes.DATE: tree.DATE, nodes.INSTANT: TIMESTAMP, nodes.WALL_CLOCK: TIMESTAMP_NTZ, nodes.BYTES: tree.BYTES,
    nodes.TEXT: tree.STRING, nodes.SHORT: tree.STRING, nodes.UUID: tree.STRING,
}  # fmt: skip
"""What primitive values are in SQL; decimals are of their own scale."""


class _Cast:
    """Casts parts of values, by whole columns. ``lenient``: NULL for what does not fit, otherwise an error."""

    def __init__(self, zone: str, lenient: bool) -> None:
        self._zone = zone
        self._lenient = lenient

    def of(self, values_: Nodes, type_: DataType) -> pa.Array:
        """Each value as a type; NULL for JSON's null."""
        if isinstance(type_, AtomicType):
            return self._atoms(values_, type_)
        wanted = nodes.ARRAY if type_.kind is Kind.ARRAY else nodes.OBJECT
        null = values_.kinds == nodes.NULL
        fitting = values_.basics == wanted
        self._refuse(values_, ~fitting & ~null, type_)
        there = np.flatnonzero(fitting)
        return spread(self._nested(values_.pick(there), type_), there, len(values_))

    def _nested(self, values_: Nodes, type_: DataType) -> pa.Array:
        match type_:
            case ArrayType(element=element):
                items = items_of(values_)
                inner = self._inside(items.nodes, element)
                return make_lists(arrow_type(type_), items.counts, inner, np.ones(len(values_), np.bool_))
            case MapType(value=value):
                items = items_of(values_)
                keys = values_.keys.names.take(from_numpy(items.codes))
                entries = pa.StructArray.from_arrays([keys, self._inside(items.nodes, value)], names=["key", "value"])
                return make_lists(arrow_type(type_), items.counts, entries, np.ones(len(values_), np.bool_))
            case RowType(fields=fields):
                members = []
                for field in fields:
                    found, rows = follow(values_, (field.name,))
                    members.append(spread(self._inside(found, field.type), rows, len(values_)))
                wanted = arrow_type(type_)
                return pa.StructArray.from_arrays(members, fields=[f.with_nullable(True) for f in wanted])
        raise ExpressionError(f"a VARIANT can't be cast to {type_text(type_)}")

    def _inside(self, values_: Nodes, type_: DataType) -> pa.Array:
        return self.of(values_, normal(type_))

    def _refuse(self, values_: Nodes, wrong: np.ndarray, type_: DataType) -> None:
        if self._lenient or not wrong.any():
            return
        shown = to_json(values_.pick(np.flatnonzero(wrong)[:1]), values.time_zone(self._zone))[0].as_py()
        raise ExpressionError(
            f"the VARIANT {shown:.100} can't be cast to {type_text(type_)}",
            hint="try_variant_get and TRY_CAST give NULL for it",
        )

    def _atoms(self, values_: Nodes, type_: AtomicType) -> pa.Array:
        wanted = arrow_type(type_)
        kinds = values_.kinds
        parts: list[pa.Array] = [pa.nulls(1, wanted)]
        order = np.zeros(len(values_), np.int64)
        done = 1
        for kind in np.unique(kinds).tolist():
            if kind == nodes.NULL:
                continue
            for at in _alike(values_, np.flatnonzero(kinds == kind), kind):
                found = self._of_kind(values_.pick(at), kind, type_)
                order[at] = done + np.arange(len(at))
                parts.append(found)
                done += len(at)
        return pa.concat_arrays(parts).take(from_numpy(order))

    def _of_kind(self, some: Nodes, kind: int, type_: AtomicType) -> pa.Array:
        text = type_.kind in STRING_KINDS
        if kind == 255 and text:
            return to_json(some, values.time_zone(self._zone)).cast(pa.string())
        if kind in nodes.DECIMALS and text:
            return array([decimal_text(value) for value in decimals(some, nodes.DECIMALS[kind])], pa.string())
        if kind == nodes.UUID and text:
            return array([str(value) for value in scalars(some, kind)], pa.string())
        own = _sql_type(some, kind)
        no_instant = own == tree.BOOLEAN and type_.kind is Kind.TIMESTAMP_LTZ
        if own is None or no_instant or not can_cast(own, type_):
            self._refuse(some, np.ones(len(some), np.bool_), type_)
            return pa.nulls(len(some), arrow_type(type_))
        given = _sql_values(some, kind, own)
        try:
            return cast_array(given, own, type_, self._zone)
        except (PredicateError, pa.ArrowInvalid, OverflowError):
            found = cast_each(given, own, type_, self._zone)
            self._refuse(some, is_true(found.is_null()), type_)
            return found


def _alike(values_: Nodes, at: Int64s, kind: int) -> list[Int64s]:
    """Values of one type as groups of one SQL type: decimals of each scale."""
    if kind not in nodes.DECIMALS:
        return [at]
    scales = values_.pick(at).fixed(1).reshape(-1)
    return [at[scales == scale] for scale in np.unique(scales).tolist()]


def _sql_type(some: Nodes, kind: int) -> AtomicType | None:
    if kind in nodes.DECIMALS:
        return AtomicType(Kind.DECIMAL, precision=38, scale=int(some.fixed(1)[0, 0]))
    return _TYPES.get(kind)


def _sql_values(some: Nodes, kind: int, type_: AtomicType) -> pa.Array:
    wanted = arrow_type(type_)
    if kind in nodes.INTEGERS:
        return from_numpy(integers(some, nodes.INTEGERS[kind]))
    if kind in (nodes.FLOAT, nodes.DOUBLE):
        return from_numpy(floats(some, kind)).cast(wanted)
    if kind in (nodes.TEXT, nodes.SHORT):
        return texts(some)
    if kind in (nodes.DATE, nodes.INSTANT, nodes.WALL_CLOCK):
        numbers = integers(some, 4 if kind == nodes.DATE else 8)
        return from_numpy(numbers).cast(pa.int32() if kind == nodes.DATE else pa.int64()).view(wanted)
    found = scalars(some, kind)
    return array(list(map(str, found)) if kind == nodes.UUID else found, wanted)


def get(column: pa.Array, path: Path, type_: DataType, zone: str, lenient: bool) -> pa.Array:
    """The parts of values at a path as a type; NULL where nothing is.
    Raises ExpressionError: a value does not fit the type; CorruptFileError."""
    whole, valid = Nodes.of(one_array(column))
    found, rows = follow(whole, path)
    rows = np.flatnonzero(valid)[rows]
    if type_.kind is not Kind.VARIANT:
        return spread(_Cast(zone, lenient).of(found, type_), rows, len(column))
    parts = spread(found.bytes_of(), rows, len(column))
    there = is_true(parts.is_valid())
    metadata = pc.if_else(array(there), pc.struct_field(column, "metadata"), scalar(None, pa.binary()))
    return build.column(parts, metadata, there)


def json_of(column: pa.Array, zone: str) -> pa.Array:
    """Values as JSON; NULL for NULL."""
    whole, valid = Nodes.of(column)
    return spread(to_json(whole, values.time_zone(zone)).cast(pa.string()), np.flatnonzero(valid), len(column))


def _type_texts(column: pa.Array) -> pa.Array:
    from paimon_pyds.base.variant.type_texts import type_texts  # few conditions need it

    whole, valid = Nodes.of(column)
    return spread(type_texts(whole), np.flatnonzero(valid), len(column))


def of_atoms(given: pa.Array) -> pa.Array:
    """Plain values as VARIANT. Raises ExpressionError: VARIANT has no such values."""
    try:
        encoded = build.scalars(given)
    except UnsupportedError as error:
        raise ExpressionError(error.message) from None
    metadata = pa.repeat(scalar(metadata_of(()), pa.binary()), len(given))
    return build.column(encoded, metadata, is_true(given.is_valid()))


def _parsed(texts_: pa.Array, lenient: bool) -> pa.Array:
    encoded = texts_.dictionary_encode()
    found: list[tuple[bytes, bytes] | None] = []
    for text in encoded.dictionary.to_pylist():
        try:
            found.append(parse_json(text))
        except InvalidJsonError as error:
            if not lenient:
                raise ExpressionError(
                    f"{text!r:.100} is no JSON: {error}", hint="try_parse_json gives NULL for it"
                ) from None
            found.append(None)
    there = np.array([pair is not None for pair in found], np.bool_)
    value, metadata = (array([None if pair is None else pair[n] for pair in found], pa.binary()) for n in range(2))
    return build.column(value, metadata, there).take(encoded.indices)


def _is_null(column: pa.Array) -> pa.Array:
    whole, valid = Nodes.of(column)
    found = np.zeros(len(column), np.bool_)
    found[valid] = whole.kinds == nodes.NULL
    return from_numpy(found)


def _variant(node: Node) -> Node:
    if node.type is None:
        return replace(node, type=VARIANT) if not isinstance(node, Constant) else _no_variant()
    if node.type.kind is not Kind.VARIANT:
        raise LookupError(f"a VARIANT is wanted, not a {type_text(node.type)}; parse_json makes one of JSON")
    return node


def _no_variant() -> Constant:
    return Constant(VARIANT, scalar(None, arrow_type(VARIANT)))


def _text_of(node: Node, what: str) -> str:
    value = node.value.as_py() if isinstance(node, Constant) else None
    if not isinstance(value, str):
        raise LookupError(f"{what} is a text that is the same for all rows")
    return value


def _get(lenient: bool) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        text = _text_of(arguments[1], "the path")
        path = parse_path(text)
        if path is None:
            raise LookupError(f"{text!r:.100} is no path; write such as '$.a.b' or '$[0]'")
        type_: DataType = VARIANT
        if len(arguments) > 2:
            type_ = binder.parsed_type(_text_of(arguments[2], "the type"))
        return part_of(binder, _variant(arguments[0]), path, type_, lenient)

    return resolve


def part_of(binder: Binder, node: Node, path: Path, type_: DataType, lenient: bool) -> Node:
    """The part of a VARIANT at a path, as a type. Raises LookupError: there is no such cast."""
    _check_target(type_)
    if isinstance(node, Apply) and node.kernel is get and node.type == VARIANT:
        return Apply(type_, get, node.arguments, (node.options[0] + path, type_, binder.zone, lenient))
    return Apply(type_, get, (node,), (path, type_, binder.zone, lenient))


def cast_variant(binder: Binder, node: Node, type_: DataType, lenient: bool) -> Node:
    """A cast from VARIANT, or of a plain value to it. Raises ExpressionError: SQL has no such cast."""
    assert node.type is not None
    if node.type.kind is Kind.VARIANT:
        try:
            return node if type_.kind is Kind.VARIANT else part_of(binder, node, (), type_, lenient)
        except LookupError as error:
            raise ExpressionError(str(error.args[0])) from None
    if not isinstance(node.type, AtomicType):
        raise ExpressionError(
            f"a {type_text(node.type)} can't be cast to VARIANT", hint="parse_json(to_json(…)) makes one"
        )
    return Apply(VARIANT, of_atoms, (node,))


def _check_target(type_: DataType) -> None:
    if isinstance(type_, MapType) and type_.key.kind not in STRING_KINDS:
        raise LookupError("keys of a VARIANT are texts: write MAP<STRING, …>")
    for inner in type_.children():
        if inner.kind is Kind.VARIANT:
            raise LookupError("a VARIANT has no casts to types with VARIANT inside")
        _check_target(inner)


def _parse(lenient: bool) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        return Apply(VARIANT, _parsed, (binder.coerce(arguments[0], tree.STRING),), (lenient,))

    return resolve


VARIANT_FUNCTIONS: dict[str, Function] = {
    "variant_get": Function((2, 3), _get(False)),
    "try_variant_get": Function((2, 3), _get(True)),
    "is_variant_null": Function((1, 1), lambda binder, given: Apply(tree.BOOLEAN, _is_null, (_variant(given[0]),))),
    "parse_json": Function((1, 1), _parse(False)),
    "schema_of_variant": Function((1, 1), lambda binder, given: Apply(tree.STRING, _type_texts, (_variant(given[0]),))),
    "try_parse_json": Function((1, 1), _parse(True)),
}
