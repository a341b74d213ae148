"""VARIANT columns of Parquet files: whole values of groups whose members are in columns of their own (shredding).

Source: apache/parquet-format, VariantShredding.md. A value is in ``typed_value`` where that has one, else in ``value``;
of an object, members that ``typed_value`` has no columns for are in ``value``, too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, array, from_numpy, is_true, pc, scalar, to_numpy
from paimon_pyds.base.variant.build import NULL_BYTES, arrays, column, objects, scalars, spread
from paimon_pyds.base.variant.nodes import OBJECT, Keys, Nodes, distinct, items_of
from paimon_pyds.base.variant.shred import TYPED
from paimon_pyds.errors import CorruptFileError, MissingColumnError, UnsupportedError

_BYTES = pa.large_binary()


def whole_values(group: pa.StructArray, name: str, path: str, around: pa.BooleanArray | None = None) -> pa.Array:
    """The values of a VARIANT column as a file holds it.

    Args:
        group: the column, with the members ``metadata`` and ``value``, ``typed_value`` or both, in any order.
        name: the column, for errors.
        path: the file, for errors.
        around: where it is false the row that the column is in is NULL, and there is no value.

    Returns:
        An array of the type `base.types.arrow.ARROW_VARIANT`.

    Raises:
        CorruptFileError: members that contradict each other, or damaged bytes.
        MissingColumnError: the group is no VARIANT.
        UnsupportedError: a column of a type that VARIANT does not have.
    """
    members = {field.name for field in group.type}
    if "metadata" not in members or not members & {"value", TYPED} or members - {"metadata", "value", TYPED}:
        raise MissingColumnError(f"column {name!r} holds {group.type}, the schema says VARIANT", path=path)
    valid = is_true(group.is_valid())
    if around is not None:
        valid &= is_true(around)
    there = group if valid.all() else group.filter(array(valid))
    metadata = pc.struct_field(there, "metadata")
    try:
        if metadata.null_count:
            raise CorruptFileError("a VARIANT has no metadata")
        if TYPED in members:
            owners, keys = distinct(_plain(metadata))
            values = _of_group(there, owners, keys)
        else:
            values = _plain(pc.struct_field(there, "value"))
        values = pc.fill_null(values, scalar(NULL_BYTES, values.type)) if values.null_count else values
        if not valid.all():
            places = np.cumsum(valid) - 1
            order = array(np.where(valid, places, 0), mask=~valid)
            values, metadata = values.take(order), metadata.take(order)
        return column(values, metadata, valid)
    except (CorruptFileError, UnsupportedError) as error:
        raise type(error)(f"column {name!r}: {error.message}", path=path, hint=error.hint) from None


def _plain(values: pa.Array) -> pa.Array:
    return values if pa.types.is_binary(values.type) else values.cast(pa.binary())


def _of_group(group: pa.StructArray, owners: Int64s, keys: Keys) -> pa.Array:
    """The values of groups of ``value`` and ``typed_value``, NULL where both are missing.

    ``owners``: the metadata of each.
    """
    fields = _members(group)
    value, typed = fields.get("value"), fields.get(TYPED)
    if value is not None:
        value = _plain(value)
    if typed is None:
        if value is None:
            raise CorruptFileError("a VARIANT member has neither value nor typed_value")
        return value.cast(_BYTES)
    if pa.types.is_struct(typed.type):
        found = _objects(typed, value, owners, keys)
    else:
        is_list = pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type)
        found = _arrays(typed, owners, keys) if is_list else scalars(typed)
        if value is not None and is_true(pc.and_(typed.is_valid(), value.is_valid())).any():
            raise CorruptFileError("a VARIANT has both a value and a typed_value")
    return found if value is None else pc.if_else(typed.is_valid(), found, value.cast(_BYTES))


def _members(group: pa.StructArray) -> Mapping[str, pa.Array]:
    """The members of a struct, NULL where it is NULL itself."""
    names = [group.type.field(i).name for i in range(group.type.num_fields)]
    return dict(zip(names, group.flatten(), strict=True))


def _arrays(lists: pa.Array, owners: Int64s, keys: Keys) -> pa.Array:
    valid = is_true(lists.is_valid())
    there = lists.filter(array(valid)) if lists.null_count else lists
    counts = to_numpy(pc.list_value_length(there)).astype(np.int64)
    items = _of_group(pc.list_flatten(there), np.repeat(owners[valid], counts), keys)
    items = pc.fill_null(items, scalar(NULL_BYTES, _BYTES)) if items.null_count else items
    return spread(arrays(items, counts), np.flatnonzero(valid), len(valid))


def _objects(typed: pa.StructArray, value: pa.Array | None, owners: Int64s, keys: Keys) -> pa.Array:
    valid = is_true(typed.is_valid())
    items: list[pa.Array] = []
    rows, codes, ids = (list[Int64s]() for _ in range(3))
    for name, member in _members(typed).items():
        found = _of_group(member, owners, keys)
        there = np.flatnonzero(is_true(found.is_valid()) & valid)
        if not len(there):
            continue
        numbers = keys.ids(name)[owners[there]]
        if (numbers < 0).any():
            raise CorruptFileError(f"the metadata of a VARIANT has no key {name!r:.100}, which is a column")
        items.append(found if len(there) == len(found) else found.take(from_numpy(there)))
        rows.append(there)
        codes.append(np.full(len(there), keys.code(name)))
        ids.append(numbers)
    if value is not None:
        both = np.flatnonzero(is_true(value.is_valid()) & valid)
        nodes = Nodes.over(value.take(from_numpy(both)), owners[both], keys)
        if (nodes.basics != OBJECT).any():
            raise CorruptFileError("a VARIANT has members in columns, and also a value that is no object")
        rest = items_of(nodes)
        items.append(rest.nodes.bytes_of().cast(_BYTES))
        rows.append(both[rest.owners])
        codes.append(rest.codes)
        ids.append(rest.ids)
    return spread(_joined(items, rows, codes, ids, keys, valid), np.flatnonzero(valid), len(valid))


def _joined(
    items: list[pa.Array], rows: list[Int64s], codes: list[Int64s], ids: list[Int64s], keys: Keys, valid: Flags
) -> pa.Array:
    """Objects of members that are given column by column, one for each row that has one."""
    count = int(valid.sum())
    nothing = np.zeros(0, np.int64)
    of_row, of_key, number = (np.concatenate([nothing, *parts]) for parts in (rows, codes, ids))
    order = np.lexsort((keys.ranks[of_key], of_row)) if len(of_row) else nothing
    of_row, of_key = of_row[order], of_key[order]
    if ((of_row[1:] == of_row[:-1]) & (of_key[1:] == of_key[:-1])).any():
        raise CorruptFileError("a VARIANT has a member both in a column and in its value")
    every = pa.concat_arrays(items).take(from_numpy(order)) if items else pa.nulls(0, _BYTES)
    counts = np.bincount((np.cumsum(valid) - 1)[of_row], minlength=count).astype(np.int64)
    return objects(every, counts, number[order])
