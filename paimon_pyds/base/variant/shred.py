"""VARIANT columns taken apart: parts of one type become arrays of their own, what does not fit stays bytes.

A part goes into ``typed_value`` only if it comes back as it was: integers into integers, decimals into decimals whose
scale holds all their digits. All else, JSON's null too, is in ``value``.

Source: apache/parquet-format, VariantShredding.md.
"""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa

from paimon_pyds.base.array_values import bits
from paimon_pyds.base.arrays import Flags, Int64s, array, from_numpy, is_true, pc, scalar
from paimon_pyds.base.types.arrow import arrow_type
from paimon_pyds.base.types.kinds import INTEGER_KINDS, MAX_LENGTH, Kind
from paimon_pyds.base.types.model import ArrayType, AtomicType, DataField, DataType, RowType
from paimon_pyds.base.variant import nodes as n
from paimon_pyds.base.variant.build import objects, spread
from paimon_pyds.base.variant.nodes import Items, Nodes, items_of
from paimon_pyds.base.variant.python import integers, texts
from paimon_pyds.errors import CorruptFileError

TYPED = "typed_value"
"""The member that holds values as columns."""
_BYTES = AtomicType(Kind.VARBINARY, length=MAX_LENGTH)
_FIXED = {
    Kind.FLOAT: (n.FLOAT, 4), Kind.DOUBLE: (n.DOUBLE, 8), Kind.DATE: (n.DATE, 4), Kind.TIMESTAMP_LTZ: (n.INSTANT, 8),
    Kind.TIMESTAMP: (n.WALL_CLOCK, 8),
}  # fmt: skip
"""Types whose values are bytes that Arrow has, too: the primitive type, and how many bytes."""


def stored_type(type_: DataType, *, is_whole: bool = True, is_item: bool = False) -> RowType:
    """The members that a file has for a VARIANT whose parts of ``type_`` are columns.

    ``is_whole``: it is no part of another. ``is_item``: it is an item of an array.
    """
    members: list[tuple[str, DataType]] = [("metadata", _BYTES.with_nullable(False))] if is_whole else []
    if type_.kind is Kind.VARIANT:
        members.append(("value", _BYTES.with_nullable(not (is_whole or is_item))))
    else:
        members += [("value", _BYTES), (TYPED, _typed(type_))]
    return RowType(fields=tuple(DataField(i, name, member) for i, (name, member) in enumerate(members)))


def _typed(type_: DataType) -> DataType:
    match type_:
        case RowType(fields=fields):
            stored = (stored_type(f.type, is_whole=False).with_nullable(False) for f in fields)
            return RowType(fields=tuple(DataField(f.id, f.name, s) for f, s in zip(fields, stored, strict=True)))
        case ArrayType(element=element):
            return ArrayType(element=stored_type(element, is_whole=False, is_item=True))
    return type_.with_nullable(True)


def shredded(column: pa.StructArray, type_: DataType) -> pa.StructArray:
    """A VARIANT column as a struct of the members that `stored_type` has.

    Raises CorruptFileError: damaged bytes, an object that has a key twice.
    """
    nodes, valid = Nodes.of(column)
    metadata = pc.struct_field(column, "metadata")
    metadata = pc.fill_null(metadata, scalar(b"", metadata.type)) if metadata.null_count else metadata
    members = _members(nodes, np.flatnonzero(valid), len(column), type_)
    if type_.kind is Kind.VARIANT:
        members = [pc.fill_null(members[0], scalar(b"", pa.binary()))]
    mask = None if valid.all() else array(~valid)
    return pa.StructArray.from_arrays([metadata, *members], fields=list(arrow_type(stored_type(type_))), mask=mask)


def _members(nodes: Nodes, rows: Int64s, count: int, type_: DataType) -> list[pa.Array]:
    """Values that are in some of ``count`` rows as the members ``value`` and ``typed_value``; without the latter for
    VARIANT."""
    if type_.kind is Kind.VARIANT:
        return [spread(nodes.bytes_of(), rows, count)]
    match type_:
        case RowType(fields=fields):
            fits = nodes.basics == n.OBJECT
            rest, at, typed = _objects(nodes.pick(fits), rows[fits], count, fields)
        case ArrayType(element=element):
            fits = nodes.basics == n.ARRAY
            rest, at, typed = None, rows[:0], _arrays(nodes.pick(fits), rows[fits], count, element)
        case _:
            fits, found = _atoms(nodes, type_)
            rest, at, typed = None, rows[:0], spread(found, rows[fits], count)
    whole, places = nodes.pick(~fits).bytes_of(), rows[~fits]
    if rest is not None and len(rest):
        whole, places = pa.concat_arrays([whole, rest]), np.concatenate([places, at])
    return [spread(whole, places, count), typed]


def _group(nodes: Nodes, rows: Int64s, count: int, type_: DataType, *, is_item: bool = False) -> pa.StructArray:
    stored = arrow_type(stored_type(type_, is_whole=False, is_item=is_item))
    return pa.StructArray.from_arrays(_members(nodes, rows, count, type_), fields=list(stored))


def _arrays(nodes: Nodes, rows: Int64s, count: int, element: DataType) -> pa.Array:
    items = items_of(nodes)
    lengths, there = np.zeros(count + 1, np.int32), np.zeros(count, np.bool_)
    lengths[rows + 1], there[rows] = items.counts, True
    total = len(items.nodes)
    inside = _group(items.nodes, np.arange(total), total, element, is_item=True)
    offsets = pa.py_buffer(np.cumsum(lengths, dtype=np.int32))
    return pa.Array.from_buffers(pa.list_(inside.type), count, [bits(there), offsets], children=[inside])


def _objects(
    nodes: Nodes, rows: Int64s, count: int, fields: tuple[DataField, ...]
) -> tuple[pa.Array, Int64s, pa.StructArray]:
    """Objects as a struct of their members that are columns; and those with other members as objects of these, and the
    rows that they are in."""
    items = items_of(nodes)
    numbers = np.full(len(nodes.keys.names) + 1, len(fields), np.int32)  # the last is that of no key
    for number, field in enumerate(fields):
        if (code := nodes.keys.code(field.name)) >= 0:
            numbers[code] = number
    members = numbers[items.codes].astype(np.uint8 if len(fields) < 256 else np.int32)
    order = np.argsort(members, kind="stable")
    bounds = np.cumsum(np.bincount(members, minlength=len(fields) + 1))
    found, begin = [], 0
    for field, end in zip(fields, bounds.tolist(), strict=False):
        at, begin = order[begin:end], end
        owners = items.owners[at]
        if (owners[1:] == owners[:-1]).any():
            raise CorruptFileError(f"an object of a VARIANT has the key {field.name!r:.100} twice")
        found.append(_group(items.nodes.pick(at), rows[owners], count, field.type))
    missing = np.ones(count, np.bool_)
    missing[rows] = False
    names = [pa.field(f.name, group.type, False) for f, group in zip(fields, found, strict=True)]
    typed = pa.StructArray.from_arrays(found, fields=names, mask=array(missing) if missing.any() else None)
    rest, owners = _others(items, order[begin:], len(nodes))
    return rest, rows[owners], typed


def _others(items: Items, at: Int64s, count: int) -> tuple[pa.Array, Int64s]:
    """Some items of objects as objects of these alone, and which of ``count`` objects they are of."""
    counts = np.bincount(items.owners[at], minlength=count)
    some = np.flatnonzero(counts)
    if not len(some):
        return pa.nulls(0, pa.binary()), some
    return objects(items.nodes.pick(at).bytes_of(), counts[some], items.ids[at]).cast(pa.binary()), some


def _atoms(nodes: Nodes, type_: DataType) -> tuple[Flags, pa.Array]:
    """Which values fit a type, and these as its Arrow array."""
    kind, kinds, wanted = type_.kind, nodes.kinds, arrow_type(type_)
    if kind is Kind.BOOLEAN:
        fits = (kinds == n.TRUE) | (kinds == n.FALSE)
        return fits, from_numpy(kinds[fits] == n.TRUE)
    if kind in (Kind.VARCHAR, Kind.VARBINARY):
        is_text = kind is Kind.VARCHAR
        fits = (kinds == n.TEXT) | (kinds == n.SHORT) if is_text else kinds == n.BYTES
        return fits, texts(nodes.pick(fits)) if is_text else nodes.pick(fits).texts()
    if kind in INTEGER_KINDS:
        fits = np.isin(kinds, list(n.INTEGERS))
        numbers = np.zeros(len(kinds), np.int64)
        for own, width in n.INTEGERS.items():
            some = kinds == own
            numbers[some] = integers(nodes.pick(some), width)
        limits = np.iinfo(wanted.to_pandas_dtype())
        fits &= (numbers >= limits.min) & (numbers <= limits.max)
        return fits, from_numpy(numbers[fits].astype(wanted.to_pandas_dtype()))
    if isinstance(type_, AtomicType) and kind is Kind.DECIMAL:
        return _decimals(nodes, kinds, type_)
    own, width = _FIXED[kind]
    fits = kinds == own
    data = np.ascontiguousarray(nodes.pick(fits).fixed(width))
    return fits, pa.Array.from_buffers(wanted, len(data), [None, pa.py_buffer(data)])


def _decimals(nodes: Nodes, kinds: np.ndarray, type_: AtomicType) -> tuple[Flags, pa.Array]:
    precision, scale = type_.precision or 0, type_.scale or 0
    fits = np.zeros(len(kinds), np.bool_)
    found, places = [pa.nulls(0, pa.decimal128(precision, scale))], [np.zeros(0, np.int64)]
    limit = scalar(decimal.Decimal(10**precision).scaleb(-scale), pa.decimal256(76, scale))
    for own_scale, at, own in exact_decimals(nodes, kinds):
        wide = own.cast(pa.decimal256(76, own_scale)).cast(pa.decimal256(76, scale), safe=False)
        same = is_true(pc.less(pc.abs(wide), limit))
        if scale < own_scale:
            same &= is_true(pc.equal(wide.cast(pa.decimal256(76, own_scale)), own.cast(pa.decimal256(76, own_scale))))
        fits[at[same]] = True
        found.append(wide.filter(array(same)).cast(pa.decimal128(precision, scale)))
        places.append(at[same])
    return fits, pa.concat_arrays(found).take(from_numpy(np.argsort(np.concatenate(places))))


def exact_decimals(nodes: Nodes, kinds: np.ndarray) -> list[tuple[int, Int64s, pa.Array]]:
    """The decimals among some values by their scales: the scale, which they are, and an array of 38 digits."""
    found = []
    for kind, width in n.DECIMALS.items():
        places = np.flatnonzero(kinds == kind)
        scales = nodes.pick(places).fixed(1).reshape(-1)
        if (scales > 38).any():
            raise CorruptFileError(f"a decimal of a VARIANT has the scale {int(scales.max())}")
        for scale in np.unique(scales).tolist():
            at = places[scales == scale]
            data = np.zeros((len(at), 16), np.uint8)
            data[:, :width] = nodes.pick(at).fixed(width, 2)
            data[data[:, width - 1] > 127, width:] = 255
            own = pa.Array.from_buffers(pa.decimal128(38, scale), len(at), [None, pa.py_buffer(data)])
            found.append((scale, at, own))
    return found
