"""Which parts of a VARIANT column are worth columns of their own: those that enough rows have, of one type.

Source: Paimon documentation, multimodal-table/variant; Java's ``InferVariantShreddingSchema`` for limits and widths.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import pc, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types.kinds import MAX_LENGTH, Kind
from paimon_pyds.base.types.model import ArrayType, AtomicType, DataField, DataType, RowType
from paimon_pyds.base.variant import nodes as n
from paimon_pyds.base.variant.nodes import Items, Nodes, items_of
from paimon_pyds.base.variant.shred import exact_decimals

_VARIANT = AtomicType(Kind.VARIANT)
_LONG = AtomicType(Kind.BIGINT)
_LONG_DIGITS = 19
_WIDTHS = (18, 38)
"""Digits of DECIMAL columns."""
_TYPES = {
    n.TRUE: AtomicType(Kind.BOOLEAN), n.FALSE: AtomicType(Kind.BOOLEAN), n.FLOAT: AtomicType(Kind.FLOAT),
    n.DOUBLE: AtomicType(Kind.DOUBLE), n.DATE: AtomicType(Kind.DATE),
    n.INSTANT: AtomicType(Kind.TIMESTAMP_LTZ, precision=6), n.WALL_CLOCK: AtomicType(Kind.TIMESTAMP, precision=6),
    n.BYTES: AtomicType(Kind.VARBINARY, length=MAX_LENGTH), n.TEXT: AtomicType(Kind.VARCHAR, length=MAX_LENGTH),
    n.SHORT: AtomicType(Kind.VARCHAR, length=MAX_LENGTH), **dict.fromkeys(n.INTEGERS, _LONG),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what is inferred.

    Attributes:
        width: columns, of bytes and of typed values.
        depth: levels of objects and arrays.
        least_ratio: of the rows that must have a member.
        rows: from how many rows it is inferred.
    """

    width: int = 300
    depth: int = 50
    least_ratio: float = 0.1
    rows: int = 4096


class Inference:
    """Infers the types of VARIANT columns of one file, one after the other."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left = limits.width
        self._least = 1

    def of(self, column: pa.StructArray) -> DataType:
        """The type that a column is to be shredded by; VARIANT where that is no use. Raises CorruptFileError."""
        nodes, _ = Nodes.of(column.slice(0, self._limits.rows))
        self._least = max(1, math.ceil(len(nodes) * self._limits.least_ratio))
        return self._type(nodes, self._limits.depth)

    def _type(self, nodes: Nodes, depth: int) -> DataType:
        self._left -= 1
        nodes = nodes.pick(nodes.kinds != n.NULL)
        if self._left <= 0 or not len(nodes):
            return _VARIANT
        basics = set(np.unique(nodes.basics).tolist())
        if basics == {n.OBJECT} and depth > 0:
            return self._row(items_of(nodes), depth - 1)
        if basics == {n.ARRAY} and depth > 0:
            element = self._type(items_of(nodes).nodes, depth - 1)
            return element if element == _VARIANT else ArrayType(element=element)
        if basics <= {n.PRIMITIVE, n.SHORT_TEXT}:
            found = _atom(nodes)
            self._left -= found != _VARIANT
            return found
        return _VARIANT

    def _row(self, items: Items, depth: int) -> DataType:
        names = items.nodes.keys.names
        counts = np.bincount(items.codes, minlength=len(names))
        wanted = np.flatnonzero((counts >= self._least) & (to_numpy(pc.binary_length(names)) > 0))
        fields: list[DataField] = []
        for code in wanted[np.argsort(items.nodes.keys.ranks[wanted])].tolist():
            if self._left <= 0:
                break
            type_ = self._type(items.nodes.pick(items.codes == code), depth)
            fields.append(DataField(len(fields), names[code].as_py(), type_))
        return RowType(fields=tuple(fields)) if fields else _VARIANT


def _atom(nodes: Nodes) -> DataType:
    """The type that primitive values have in common; VARIANT where they have none."""
    kinds = set(np.unique(nodes.kinds).tolist())
    if kinds & n.DECIMALS.keys() and kinds <= n.DECIMALS.keys() | n.INTEGERS.keys():
        return _decimal(nodes, has_integers=not kinds <= n.DECIMALS.keys())
    types = {_TYPES.get(kind, _VARIANT) for kind in kinds}
    return types.pop() if len(types) == 1 else _VARIANT


def _decimal(nodes: Nodes, *, has_integers: bool) -> DataType:
    """The narrowest of the types of DECIMAL columns that holds all digits."""
    scale, whole = 0, _LONG_DIGITS if has_integers else 0
    for own_scale, _, values in exact_decimals(nodes, nodes.kinds):
        largest = pc.max(pc.abs(values)).as_py()
        whole = max(whole, len(str(int(largest))) if largest >= 1 else 0)
        scale = max(scale, own_scale)
    width = next((w for w in _WIDTHS if max(1, whole) + scale <= w), None)
    return _VARIANT if width is None else AtomicType(Kind.DECIMAL, precision=width, scale=scale)
