"""What pyarrow gives of an ORC file, as the Arrow types of Paimon's types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.nested import rebuild
from paimon_pyds.formats.orc.tail import OrcKind, OrcType
from paimon_pyds.formats.orc.zones import ORC_EPOCH, Clocks, is_utc
from paimon_pyds.types import (
    NANOS_PER_UNIT,
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


def from_orc(array: pa.Array, type_: DataType, orc: OrcType, clocks: Clocks, path: object = None) -> pa.Array:
    """What pyarrow gives for a type of ORC, as the Arrow type of Paimon's type.

    Args:
        array: what pyarrow gives.
        type_: Paimon's type.
        orc: the file's type.
        path: the file, for messages.
        clocks: of the stripe's writer; pyarrow was told that they show UTC.

    Raises:
        UnsupportedError: timestamps of a time zone that is not known.
    """
    target = arrow_type(type_)
    match type_:
        case RowType():
            children = [
                from_orc(array.field(f.name), f.type, orc.children[orc.names.index(f.name)], clocks, path)
                for f in type_.fields
            ]
            if not children:
                return rebuild(array, target, [])
            return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
        case ArrayType():
            return rebuild(array, target, [from_orc(array.values, type_.element, orc.children[0], clocks, path)])
        case MapType():
            return _map_from_orc(array, (type_.key, type_.value), orc, target, clocks, path)
        case MultisetType():
            return _map_from_orc(array, (type_.element, AtomicType(Kind.INT)), orc, target, clocks, path)
    if type_.kind in TIMESTAMP_KINDS:
        return _from_nanoseconds(array if is_utc(clocks.zone) else _reckoned(array, orc, clocks, path), target)
    if type_.kind is Kind.TIME:
        return array.view(target)
    if type_.kind is Kind.CHAR:  # whatever the file's type is, as Java reads it
        return pc.utf8_rtrim(array, " ")
    return array if array.type == target else pc.cast(array, target)


def _map_from_orc(
    array: pa.Array, types: tuple[DataType, DataType], orc: OrcType, target: pa.DataType, clocks: Clocks, path: object
) -> pa.Array:
    pairs = zip((array.keys, array.items), types, orc.children, strict=True)
    children = [from_orc(child, type_, inner, clocks, path) for child, type_, inner in pairs]
    entries = pa.StructArray.from_arrays(children, fields=[target.key_field, target.item_field])
    return rebuild(array, target, [entries])


def _reckoned(array: pa.Array, orc: OrcType, clocks: Clocks, path: object) -> pa.Array:
    """Nanoseconds that pyarrow took for those of a writer in UTC, as those of its own zone."""
    counts = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds = counts // 1_000_000_000
    nanos = counts - seconds * 1_000_000_000
    # pyarrow has taken a second off where it took the moment for one before 1970.
    stored = seconds + ((seconds < 0) & (nanos > 999_999)) - ORC_EPOCH
    seconds = clocks.seconds(stored, nanos, clock_time=orc.kind is OrcKind.TIMESTAMP, path=path)
    return pa.array(seconds * 1_000_000_000 + nanos, pa.int64(), mask=np.asarray(array.is_null()))


def _from_nanoseconds(array: pa.Array, target: pa.DataType) -> pa.Array:
    factor = NANOS_PER_UNIT[target.unit]
    counts = array.view(pa.int64())
    if factor > 1:
        values = counts.fill_null(0).to_numpy(zero_copy_only=False)
        counts = pa.array(values // factor, pa.int64(), mask=np.asarray(array.is_null()))
    return counts.view(target)
