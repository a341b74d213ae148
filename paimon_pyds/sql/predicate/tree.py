"""The predicate tree: one tree, evaluated by statistics, by file indexes, and exactly.

A predicate is a filter, in SQL's three-valued logic: a row matches if it is *true*, so *unknown* counts as false. Trees
are in negation normal form: NOT is pushed into the leaves as they are built (`negate`), each leaf operator having its
opposite. AND and OR are monotone, so with no NOT above it a leaf's *unknown* may be taken for false, and every
evaluator needs only two values.

A tree is *unbound* as the parser makes it (columns are names, literals are `Literal`), and *bound* after `bind`
(columns carry type and field id, literals are internal values of the column's type: see `paimon_pyds.base.types`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataType


class Op(enum.Enum):
    """Operators of leaves. The value is the SQL spelling shown to people."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "IN"
    NOT_IN = "NOT IN"
    IS_NULL = "IS NULL"
    IS_NOT_NULL = "IS NOT NULL"
    LIKE = "LIKE"
    NOT_LIKE = "NOT LIKE"
    STARTS_WITH = "STARTSWITH"
    NOT_STARTS_WITH = "NOT STARTSWITH"
    ENDS_WITH = "ENDSWITH"
    NOT_ENDS_WITH = "NOT ENDSWITH"
    CONTAINS = "CONTAINS"
    NOT_CONTAINS = "NOT CONTAINS"

    __hash__ = object.__hash__  # faster than Enum's, for very many leaves


OPPOSITE = {
    Op.EQ: Op.NE, Op.LT: Op.GE, Op.GT: Op.LE, Op.IN: Op.NOT_IN, Op.IS_NULL: Op.IS_NOT_NULL, Op.LIKE: Op.NOT_LIKE,
    Op.STARTS_WITH: Op.NOT_STARTS_WITH, Op.ENDS_WITH: Op.NOT_ENDS_WITH, Op.CONTAINS: Op.NOT_CONTAINS,
}  # fmt: skip
OPPOSITE |= {b: a for a, b in OPPOSITE.items()}
"""The operator that holds where another does not, NULL apart."""
FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
"""The comparison with its sides exchanged, of those that change by it."""
TEXT_OPS = frozenset({
    Op.LIKE, Op.NOT_LIKE, Op.STARTS_WITH, Op.NOT_STARTS_WITH, Op.ENDS_WITH, Op.NOT_ENDS_WITH, Op.CONTAINS,
    Op.NOT_CONTAINS,
})  # fmt: skip


class Const(enum.Enum):
    """A predicate without columns. UNKNOWN is what a comparison with NULL gives; its negation is itself."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    UNKNOWN = "UNKNOWN"


class Truth(enum.Enum):
    """The rows that are looked for, by what a condition is for them, and the SQL that is true for them."""

    TRUE = ((Const.TRUE,), "{}")
    FALSE = ((Const.FALSE,), "NOT ({})")
    NOT_TRUE = ((Const.FALSE, Const.UNKNOWN), "({}) IS NOT TRUE")
    NOT_FALSE = ((Const.TRUE, Const.UNKNOWN), "({}) IS NOT FALSE")

    def __init__(self, truth: tuple[Const, ...], sql: str) -> None:
        self.truth = truth
        self.sql = sql
        self.positive = Const.TRUE in truth

    @property
    def opposite(self) -> Truth:
        """The rows wanted by the operand of NOT, if these are wanted by the NOT itself."""
        return _WANTED_WITH_NOT[self]


_WANTED_WITH_NOT = {
    Truth.TRUE: Truth.FALSE, Truth.FALSE: Truth.TRUE, Truth.NOT_TRUE: Truth.NOT_FALSE,
    Truth.NOT_FALSE: Truth.NOT_TRUE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MapKey:
    """The step ``['key']`` into a MAP. Once bound, ``key`` is an internal value of the map's key type, ``type``."""

    key: Any
    type: DataType | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column, or a place inside one: ``name``, then ``path`` steps (a field name, or a MapKey).

    ``type`` (of the place reached) and ``field_id`` (of the top-level column) are set by `bind`.
    """

    name: str
    path: tuple[str | MapKey, ...] = ()
    type: DataType | None = None
    field_id: int | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.path, self.field_id))

    def __str__(self) -> str:
        text = self.name
        for step in self.path:
            text += f"['{step.key}']" if isinstance(step, MapKey) else f".{step}"
        return text


@dataclass(frozen=True, slots=True)
class Leaf:
    """``column op literals``: no literal for IS [NOT] NULL, one or more for [NOT] IN, else exactly one.

    LIKE's literals are (pattern, escape character), the latter a plain str. Once bound, LIKE escapes with a backslash,
    IN has at least two literals, sorted and each once, and NaN is ``math.nan`` itself.
    """

    op: Op
    column: ColumnRef
    literals: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class And:
    """All children hold."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Ranges of one column, as steps of its type (`paimon_pyds.sql.predicate.literal_bounds`): in order, without
    overlaps, both ends included."""

    column: ColumnRef
    low: Int64s
    high: Int64s


@dataclass(frozen=True, slots=True)
class Or:
    """At least one child holds. ``ranges`` says the same as the children, where these are very many ranges."""

    children: tuple[Predicate, ...]
    ranges: Ranges | None = field(default=None, compare=False, repr=False)


class RowCondition(Protocol):
    """A condition that is evaluated on rows: `paimon_pyds.sql.expression.BoundExpression`."""

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether it is true, per row; never null."""


class Digest:
    """A digest by which pickles are compared. It is computed at its first use: thousands of conditions that become one
    never need theirs."""

    __slots__ = ("_of", "_text")

    def __init__(self, of: object, text: str = "") -> None:
        self._of = of
        self._text = text

    def __str__(self) -> str:
        if not self._text:
            import hashlib  # OpenSSL takes 3 MiB, and few processes need it
            import pickle

            self._text, self._of = hashlib.sha256(pickle.dumps(self._of)).hexdigest()[:32], None
        return self._text

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[type[Digest], tuple[object, str]]:
        return Digest, (None, str(self))


@dataclass(frozen=True, slots=True)
class Computed:
    """A condition that only rows can answer, such as ``upper(s) = 'B'``; statistics and indexes keep all rows.

    Attributes:
        text: as SQL.
        columns: names of the top-level columns that it needs.
        digest: differs from that of other conditions of the same text, with another time zone or current time.
        condition: evaluates it; it pickles.
    """

    text: str
    columns: tuple[str, ...]
    digest: Digest
    condition: RowCondition = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Among:
    """``(a, b) IN ((1, 2), …)``: in some columns, a row has the values of one of these rows. NULL equals nothing.
    `paimon_pyds.sql.predicate.among` makes it, and says what it means to statistics and indexes.

    Attributes:
        columns: bound, each once.
        values: of each column the values that occur, sorted and each once.
        levels: of each column but the first, sorted: the rows up to there, as numbers made of the place of the row up
            to the column before, and of the place of its value in this one.
        known: what was worked out of it.
    """

    columns: tuple[ColumnRef, ...]
    values: tuple[pa.Array, ...]
    levels: tuple[Int64s, ...] = ()
    known: dict[Any, Predicate] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Among) or self.columns != other.columns:
            return False
        levels = all(map(np.array_equal, self.levels, other.levels))
        return levels and all(map(_have_equal_values, self.values, other.values))

    def __hash__(self) -> int:
        return hash((self.columns, tuple(map(len, self.values))))

    def __reduce__(self) -> tuple[type[Among], tuple[object, ...]]:
        return Among, (self.columns, self.values, self.levels)


def _have_equal_values(a: pa.Array, b: pa.Array) -> bool:
    floats = pa.types.is_floating(a.type)  # Arrow takes no NaN for equal to another
    return bool(np.array_equal(to_numpy(a), to_numpy(b), equal_nan=True) if floats else a.equals(b))


Predicate: TypeAlias = Leaf | Among | And | Or | Const | Computed


def make_computed(text: str, columns: Iterable[str], condition: RowCondition) -> Computed:
    """A condition that rows answer, from the columns of these names, shown as ``text``."""
    return Computed(text, tuple(dict.fromkeys(columns)), Digest(condition), condition)


def make_and(*children: Predicate) -> Predicate:
    """AND, flattened and simplified (FALSE and UNKNOWN win over everything: both reject the row)."""
    flat: list[Predicate] = []
    for child in children:
        if isinstance(child, And):
            flat.extend(child.children)
        elif child in (Const.FALSE, Const.UNKNOWN):
            return child
        elif child is not Const.TRUE:
            flat.append(child)
    if not flat:
        return Const.TRUE
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def make_or(*children: Predicate) -> Predicate:
    """OR, flattened and simplified (TRUE wins)."""
    flat: list[Predicate] = []
    rejected: Predicate = Const.FALSE
    for child in children:
        if isinstance(child, Or) and child.ranges is None:
            flat.extend(child.children)
        elif child is Const.TRUE:
            return child
        elif child is Const.UNKNOWN:
            rejected = child
        elif child is not Const.FALSE:
            flat.append(child)
    if not flat:
        return rejected
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def negate(predicate: Predicate) -> Predicate:
    """NOT, pushed into the leaves. Call it on trees not yet simplified by AND or OR with NULL literals.

    ``make_and`` and ``make_or`` drop UNKNOWN only where it cannot matter to a filter *above* it, so negation has to
    happen while the tree is built, before them: the parser negates by De Morgan on the way down.
    """
    match predicate:
        case Computed() | Among():
            raise TypeError("a computed condition, or one on rows, is negated before it is bound")
        case Leaf(op=op):
            return Leaf(OPPOSITE[op], predicate.column, predicate.literals)
        case And():
            return make_or(*(negate(c) for c in predicate.children))
        case Or():
            return make_and(*(negate(c) for c in predicate.children))
    return {Const.TRUE: Const.FALSE, Const.FALSE: Const.TRUE, Const.UNKNOWN: Const.UNKNOWN}[predicate]


def ends(predicate: Predicate, every: bool = False) -> Iterator[Leaf | Among | Const | Computed]:
    """The nodes that are neither AND nor OR, left to right; see `leaves`."""
    left = [predicate]
    while left:
        node = left.pop()
        if type(node) is Leaf:  # most are
            yield node
        elif isinstance(node, Or) and node.ranges is not None and not every:
            left.append(first_leaf(node))
        elif isinstance(node, And | Or):
            left += node.children[::-1]
        else:
            yield node


def first_leaf(predicate: Predicate) -> Predicate:
    """The first that is neither AND nor OR."""
    while isinstance(predicate, And | Or):
        predicate = predicate.children[0]
    return predicate


def leaves(predicate: Predicate, *, every: bool = True) -> Iterator[Leaf]:
    """The leaves, left to right: every one, or of an `Or` with ranges, whose column all have, the first only."""
    return (node for node in ends(predicate, every) if isinstance(node, Leaf))


def tested_columns(predicate: Predicate) -> dict[ColumnRef, frozenset[Op]]:
    """The columns, or places in them, that leaves and rows of values are about, and the operators that each is tested
    by; `Op.IN` where it is by rows."""
    found: dict[ColumnRef, set[Op]] = {}
    for node in ends(predicate):
        if isinstance(node, Leaf):
            found.setdefault(node.column, set()).add(node.op)
        elif isinstance(node, Among):
            for column in node.columns:
                found.setdefault(column, set()).add(Op.IN)
    return {column: frozenset(ops) for column, ops in found.items()}


def is_deep(predicate: Predicate, levels: int) -> bool:
    """Whether ANDs and ORs are nested in more levels; without recursion."""
    level = [predicate]
    while level and levels >= 0:
        levels -= 1
        level = [child for node in level if isinstance(node, And | Or) for child in node.children]
    return bool(level)


def computed_parts(predicate: Predicate) -> Iterator[Computed]:
    """Every part that rows alone can answer, left to right."""
    return (node for node in ends(predicate) if isinstance(node, Computed))


def is_computed(predicate: Predicate) -> bool:
    """Whether there is a part that rows alone can answer."""
    return next(computed_parts(predicate), None) is not None


def root_columns(predicate: Predicate) -> list[str]:
    """Names of the top-level columns a predicate reads, each once, in order of appearance."""
    found: dict[str, None] = {}
    for node in ends(predicate):
        if isinstance(node, Leaf):
            found[node.column.name] = None
        elif isinstance(node, Among):
            found.update((column.name, None) for column in node.columns)
        elif isinstance(node, Computed):
            found.update(dict.fromkeys(node.columns))
    return list(found)


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The AND-ed parts of a predicate; none for TRUE."""
    if predicate is Const.TRUE:
        return ()
    return predicate.children if isinstance(predicate, And) else (predicate,)
