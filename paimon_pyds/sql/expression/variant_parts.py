"""What filters want of VARIANT columns: which parts, and what comparisons of them say to statistics."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import AtomicType, scalar_to_internal
from paimon_pyds.base.types.kinds import INTEGER_KINDS, Kind
from paimon_pyds.base.variant.parts import Path
from paimon_pyds.sql.expression import operators
from paimon_pyds.sql.expression.bound import BoundExpression
from paimon_pyds.sql.expression.nodes import Apply, Cast, Column, Constant, Node
from paimon_pyds.sql.expression.variant_functions import get
from paimon_pyds.sql.predicate.tree import FLIPPED, ColumnRef, Computed, Leaf, Op, Predicate, computed_parts, conjuncts

_OPS = {"=": Op.EQ, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_COMPARED = INTEGER_KINDS | {Kind.VARCHAR, Kind.DOUBLE, Kind.FLOAT, Kind.DATE, Kind.BOOLEAN}
"""Types of parts that statistics of their columns know."""


@dataclass(frozen=True, slots=True)
class PartTest:
    """A comparison that a row has to pass.

    Attributes:
        column: the VARIANT column.
        path: the part that is compared.
        leaf: the comparison, of a column of the part's type in its place.
    """

    column: str
    path: Path
    leaf: Leaf


def wanted_parts(predicate: Predicate, column: str) -> tuple[Path, ...] | None:
    """The parts of a VARIANT column that a filter needs; None where it needs whole values.

    Tests whether the column is NULL need no part.
    """
    found: dict[Path, None] = {}
    for part in computed_parts(predicate):
        if column not in part.columns:
            continue
        node = part.condition.node if isinstance(part.condition, BoundExpression) else None
        paths = [None] if node is None else list(_uses(node, column))
        if None in paths:
            return None
        found.update(dict.fromkeys(path for path in paths if path is not None))
    return tuple(found)


def _uses(node: Node, column: str) -> Iterator[Path | None]:
    """The paths at which a node takes parts of a column; None where it takes whole values."""
    if (taken := _part(node)) is not None and taken[0] == column:
        yield taken[1]
        return
    if isinstance(node, Column) and node.name == column:
        yield None
    for child in node.children():
        yield from _uses(child, column)


def _part(node: Node) -> tuple[str, Path] | None:
    if isinstance(node, Apply) and node.kernel is get and isinstance(node.arguments[0], Column):
        return node.arguments[0].name, node.options[0]
    return None


def part_tests(predicate: Predicate) -> list[PartTest]:
    """The comparisons of parts with constants that all rows of a filter pass."""
    found = []
    for part in conjuncts(predicate):
        if isinstance(part, Computed) and isinstance(part.condition, BoundExpression):
            test = None if part.condition.node is None else _test(part.condition.node)
            if test is not None:
                found.append(test)
    return found


def _test(node: Node) -> PartTest | None:
    if not isinstance(node, Apply):
        return None
    if node.kernel is operators.compare and node.options[0] in _OPS:
        left, right = node.arguments
        op = _OPS[node.options[0]]
        if isinstance(left, Constant):
            left, right, op = right, left, FLIPPED.get(op, op)
        return _compared(left, op, [right.value]) if isinstance(right, Constant) else None
    if node.kernel is operators.among:
        return _compared(node.arguments[0], Op.IN, list(node.options[0]))
    return None


def _compared(node: Node, op: Op, values: list[pa.Scalar]) -> PartTest | None:
    if isinstance(node, Cast) and _widens(node):
        node = node.child
    taken, type_ = _part(node), node.type
    if taken is None or not isinstance(type_, AtomicType) or type_.kind not in _COMPARED:
        return None
    literals = sorted({scalar_to_internal(value) for value in values if value.is_valid})
    if not literals or any(value != value for value in literals):
        return None
    op = Op.EQ if op is Op.IN and len(literals) == 1 else op
    return PartTest(taken[0], taken[1], Leaf(op, ColumnRef(taken[0], (), type_), tuple(literals)))


def _widens(cast: Cast) -> bool:
    own, wanted = cast.child.type, cast.type
    return own is not None and wanted is not None and own.kind in INTEGER_KINDS and wanted.kind in INTEGER_KINDS
