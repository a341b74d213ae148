"""The oracle's JSON values and predicates as internal values, Arrow columns and bound predicates."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataType, arrow_type
from paimon_pyds.index.bitmap import BitmapReader
from paimon_pyds.index.dictionary import ColumnDictionary, EncodedColumn
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.probe import Nulls, Points
from paimon_pyds.sql.predicate.tree import And, ColumnRef, Leaf, MapKey, Op, Or, Predicate
from paimon_pyds.storage.byte_source import BytesSource
from support.oracle_filters import internal_value

EPOCH = dt.datetime(1970, 1, 1)
PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
OPS = {
    "eq": Op.EQ, "ne": Op.NE, "lt": Op.LT, "le": Op.LE, "gt": Op.GT, "ge": Op.GE, "in": Op.IN, "notin": Op.NOT_IN,
    "isnull": Op.IS_NULL, "isnotnull": Op.IS_NOT_NULL, "startswith": Op.STARTS_WITH, "endswith": Op.ENDS_WITH,
    "contains": Op.CONTAINS, "like": Op.LIKE,
}  # fmt: skip


def column(values: Sequence[Any], type_: DataType) -> pa.Array:
    """The Arrow column of JSON values."""
    return pa.array([internal_value(value, type_) for value in values], arrow_type(type_))


def predicate(json: Mapping[str, Any], types: Mapping[str, DataType]) -> Predicate:
    """The bound predicate of a JSON predicate; ``types`` maps column names, map keys as ``m[k]`` included."""
    if json["op"] in ("and", "or"):
        children = tuple(predicate(child, types) for child in json["args"])
        return And(children) if json["op"] == "and" else Or(children)
    name = json["field"]
    type_ = types[name]
    outer, bracket, inner = name.partition("[")
    ref = ColumnRef(outer, (MapKey(inner[:-1]),) if bracket else (), type_)
    literals = tuple(internal_value(value, type_) for value in json.get("literals", ()))
    if json["op"] == "between":
        return And((Leaf(Op.GE, ref, literals[:1]), Leaf(Op.LE, ref, literals[1:])))
    op = OPS[json["op"]]
    return Leaf(op, ref, (*literals, "\\") if op is Op.LIKE else literals)


def encoded(values: pa.Array, type_: DataType) -> EncodedColumn:
    """A column as its indexes are built from it."""
    dictionary = ColumnDictionary(key_codec(type_))
    dictionary.update(values)
    return dictionary.finish()


def positions(selection: RowSelection, row_count: int) -> set[int]:
    """The selected rows."""
    return set(selection.to_array(row_count).tolist())


def agrees(selection: RowSelection, java: Any) -> bool:
    """Whether a selection is what Java answered: "REMAIN", "SKIP", positions, or their number and CRC-32."""
    if java == "REMAIN":
        return selection.is_all
    if java == "SKIP":
        return selection.is_none
    if selection.is_all:
        return False
    found = selection.to_array(0)
    if isinstance(java, dict):
        crc = zlib.crc32(found.astype("<u4").tobytes())
        return {"cardinality": len(found), "crc32": crc} == java
    return bool(np.array_equal(found, java))


def same_answers(ours: bytes, theirs: bytes, type_: DataType) -> bool:
    """Whether two bitmap indexes hold the same values with the same rows, whatever their order."""
    readers = [BitmapReader(BytesSource(body), key_codec(type_), ByteLimitedCache(1 << 20)) for body in (ours, theirs)]
    contents = []
    for reader in readers:
        blocks = reader.load_blocks(range(reader.block_count))
        keys = [key for block in blocks for key in block.keys]
        rows = [list(reader.answer(Points((key,))).selection.positions) for key in keys]  # type: ignore[union-attr, arg-type]
        contents.append((keys, rows, list(reader.answer(Nulls()).selection.positions)))  # type: ignore[union-attr, arg-type]
    return contents[0] == contents[1]
