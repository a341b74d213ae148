"""What pyarrow gives of an ORC file, as the Arrow types of Paimon's types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.nested import rebuild
from paimon_pyds.formats.orc_tail import OrcKind, OrcType
from paimon_pyds.types import (
    TIMESTAMP_KINDS,
    ArrayType,
    AtomicType,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
    arrow_type,
)

__all__ = ["check_type", "from_orc"]

_NATIVE = {
    Kind.BOOLEAN: {OrcKind.BOOLEAN},
    Kind.TINYINT: {OrcKind.BYTE},
    Kind.SMALLINT: {OrcKind.SHORT},
    Kind.INT: {OrcKind.INT},
    Kind.BIGINT: {OrcKind.LONG},
    Kind.FLOAT: {OrcKind.FLOAT},
    Kind.DOUBLE: {OrcKind.DOUBLE},
    Kind.DECIMAL: {OrcKind.DECIMAL},
    Kind.CHAR: {OrcKind.STRING, OrcKind.CHAR, OrcKind.VARCHAR},
    Kind.VARCHAR: {OrcKind.STRING, OrcKind.CHAR, OrcKind.VARCHAR},
    Kind.BINARY: {OrcKind.BINARY},
    Kind.VARBINARY: {OrcKind.BINARY},
    Kind.DATE: {OrcKind.DATE},
    Kind.TIME: {OrcKind.INT},
    Kind.TIMESTAMP: {OrcKind.TIMESTAMP},
    Kind.TIMESTAMP_LTZ: {OrcKind.TIMESTAMP_INSTANT, OrcKind.TIMESTAMP},
    Kind.ARRAY: {OrcKind.LIST},
    Kind.MAP: {OrcKind.MAP},
    Kind.MULTISET: {OrcKind.MAP},
    Kind.ROW: {OrcKind.STRUCT},
}


def check_type(type_: DataType, orc: OrcType, name: str, path: str) -> None:
    """Raises CorruptFileError unless a file's type holds values of the column's type, at every depth."""
    if orc.kind not in _NATIVE.get(type_.kind, ()):
        raise CorruptFileError(f"column {name!r} is {orc.kind.name} in the file, not {type_}", path=path, field="types")
    match type_:
        case RowType():
            for inner in type_.fields:
                child = orc.child(inner.name)
                if child is None:
                    raise CorruptFileError(f"the file has no field {name}.{inner.name}", path=path, field="types")
                check_type(inner.type, child, f"{name}.{inner.name}", path)
        case MultisetType():
            check_type(type_.element, orc.children[0], name, path)
        case ArrayType() | MapType():
            for inner_type, child in zip(type_.children(), orc.children, strict=False):
                check_type(inner_type, child, name, path)


def from_orc(array: pa.Array, type_: DataType, orc: OrcType) -> pa.Array:
    """What pyarrow gives for a type of ORC, as the Arrow type of Paimon's type."""
    target = arrow_type(type_)
    match type_:
        case RowType():
            children = [
                from_orc(array.field(f.name), f.type, orc.children[orc.names.index(f.name)]) for f in type_.fields
            ]
            if not children:
                return rebuild(array, target, [])
            return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
        case ArrayType():
            return rebuild(array, target, [from_orc(array.values, type_.element, orc.children[0])])
        case MapType():
            return _map_from_orc(array, target, from_orc(array.keys, type_.key, orc.children[0]), type_.value, orc)
        case MultisetType():
            keys = from_orc(array.keys, type_.element, orc.children[0])
            return _map_from_orc(array, target, keys, AtomicType(Kind.INT), orc)
    if type_.kind in TIMESTAMP_KINDS:
        return _from_nanoseconds(array, target)
    if type_.kind is Kind.TIME:
        return array.view(target)
    if type_.kind is Kind.CHAR:  # whatever the file's type is, as Java reads it
        return pc.utf8_rtrim(array, " ")
    return array if array.type == target else pc.cast(array, target)


def _map_from_orc(array: pa.Array, target: pa.DataType, keys: pa.Array, value: DataType, orc: OrcType) -> pa.Array:
    items = from_orc(array.items, value, orc.children[1])
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return rebuild(array, target, [entries])


def _from_nanoseconds(array: pa.Array, target: pa.DataType) -> pa.Array:
    factor = {"ms": 1_000_000, "us": 1_000, "ns": 1}[target.unit]
    counts = array.view(pa.int64())
    if factor > 1:
        values = counts.fill_null(0).to_numpy(zero_copy_only=False)
        counts = pa.array(values // factor, pa.int64(), mask=np.asarray(array.is_null()))
    return counts.view(target)
