"""Join conditions between a target and a source: equal keys, what concerns one side only, and the rest.

Rows of both sides are matched by codes: equal keys have equal codes, made from the distinct keys of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, is_true, pc, scalar, to_numpy, with_one_nan
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.types import AtomicType, DataField
from paimon_pyds.base.zones import default_zone
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.bind import Binder, Scope
from paimon_pyds.sql.expression.bound import BoundExpression, Operand, bind_condition, bind_tree, checked_condition
from paimon_pyds.sql.expression.condition import predicate_of
from paimon_pyds.sql.expression.functions import char_length, without_blanks
from paimon_pyds.sql.expression.nodes import Cast, Column, Node, columns
from paimon_pyds.sql.expression.operands import filled
from paimon_pyds.sql.predicate.tree import Const, Predicate, make_and
from paimon_pyds.sql.text.lexer import SqlText
from paimon_pyds.sql.text.parser import parse
from paimon_pyds.sql.text.tree import Call, Expression, conjuncts

_DENSE_FACTOR = 4
"""Integer keys are looked up by their distance from the least one if their range is at most this number of times their
count."""


@dataclass(frozen=True)
class Residual:
    """Conditions joined by AND, evaluated on rows. They pickle. ``parts``: in their order; later ones are evaluated for
    the rows that earlier ones keep only."""

    parts: tuple[BoundExpression, ...]

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows of a batch are meant; never null. Raises ExpressionError when a part fails on a value."""
        found = np.ones(batch.num_rows, np.bool_)
        for part in self.parts:
            if found.all():
                found = np.array(to_numpy(part.matches(batch)))
            elif found.any():
                rows = np.flatnonzero(found)
                found[rows] = to_numpy(part.matches(batch.take(arrow_array(rows))))
        return arrow_array(found)


@dataclass(frozen=True)
class JoinKey:
    """Two expressions, one of each side, that are equal where rows match. ``null_safe``: written with ``<=>``: NULL
    equals NULL. ``column``: the target's column, where the key is nothing else but that, compared in a type that holds
    its values."""

    target: BoundExpression
    source: BoundExpression
    null_safe: bool
    column: DataField | None


@dataclass(frozen=True)
class JoinCondition:
    """A condition taken apart at the ANDs of its top.

    Attributes:
        keys: what must be equal.
        predicate: conditions on the target alone, as far as the predicate room can express them.
        target, source: all conditions on one side alone.
        pairs: what concerns both sides and is no equality.
    """

    keys: tuple[JoinKey, ...]
    predicate: Predicate
    target: Residual | None
    source: Residual | None
    pairs: Residual | None


def split_join(
    on: Operand, target: Scope, source: Scope, *, timezone: str | None = None, now: datetime | None = None
) -> JoinCondition:
    """A condition over two scopes, whose columns have distinct prefixes.
    Raises ExpressionError: it does not parse or bind, or is not a condition."""
    scopes, zone = (target, source), timezone or default_zone()
    if not isinstance(on, str):
        return JoinCondition((), Const.TRUE, None, None, Residual((bind_condition(on, scopes, timezone=zone),)))
    keys: list[JoinKey] = []
    predicates: list[Predicate] = []
    sides: dict[str, list[BoundExpression]] = {"target": [], "source": [], "pairs": []}
    source_text = SqlText(on, "expression")
    binder = Binder(scopes, zone, source_text, now)
    for part in conjuncts(parse(source_text, timezone=zone)):
        bound = checked_condition(bind_tree(part, binder))
        key = _key(part, binder, scopes)
        if key is not None:
            keys.append(key)
            continue
        on_target, on_source = (any(name.startswith(s.prefix) for name in bound.columns) for s in scopes)
        sides["pairs" if on_target and on_source else "target" if on_target else "source"].append(bound)
        if on_target and not on_source:
            predicate = predicate_of(part, source_text, target, zone)
            predicates += [] if predicate is None else [predicate]
    residual = {side: Residual(tuple(parts)) if parts else None for side, parts in sides.items()}
    predicate = make_and(*predicates) if predicates else Const.TRUE
    return JoinCondition(tuple(keys), predicate, residual["target"], residual["source"], residual["pairs"])


def _key(part: Expression, binder: Binder, scopes: tuple[Scope, Scope]) -> JoinKey | None:
    if not isinstance(part, Call) or part.function not in ("=", "<=>"):
        return None
    nodes = [binder.bind(argument) for argument in part.arguments]
    if not _within(nodes[0], scopes[0]):
        nodes.reverse()
    if not (_within(nodes[0], scopes[0]) and _within(nodes[1], scopes[1])):
        return None
    a, b = binder.common(nodes)
    column = _plain(a, scopes[0])
    if char_length((a, b)) is not None:
        a, b = without_blanks(binder, (a, b))
    shown = binder.text_of(part)[:200]

    def bound(node: Node) -> BoundExpression:
        return BoundExpression(shown, tuple(dict.fromkeys(columns(node))), node.type, None, binder.zone, node)

    return JoinKey(bound(a), bound(b), part.function == "<=>", column)


def _within(node: Node, scope: Scope) -> bool:
    names = list(columns(node))
    return bool(names) and all(name.startswith(scope.prefix) for name in names)


def _plain(node: Node, scope: Scope) -> DataField | None:
    """The column that a key is, a cast to a wider type around it or not."""
    inner = node.child if isinstance(node, Cast) else node
    if not isinstance(inner, Column) or not isinstance(inner.type, AtomicType):
        return None
    name = inner.name[len(scope.prefix) :]
    return next(field for field in scope.fields if field.name == name)


@dataclass(frozen=True)
class SourceKeys:
    """The rows of a source by their keys. It pickles.

    Attributes:
        keys: of the condition.
        values: the distinct values of each key.
        combined: after each key but the first, the distinct pairs of the code so far and the key's own.
        order: rows by code.
        starts: where the rows of each code begin in ``order``, and where the last ones end.
    """

    keys: tuple[JoinKey, ...]
    values: tuple[pa.Array, ...]
    combined: tuple[Int64s, ...]
    order: Int64s
    starts: Int64s

    @classmethod
    def build(cls, keys: Sequence[JoinKey], source: pa.RecordBatch, eligible: Flags) -> SourceKeys:
        """The eligible rows of a source, those with a NULL key left out."""
        rows = np.flatnonzero(eligible)
        batch = source if len(rows) == source.num_rows else source.take(arrow_array(rows))
        codes = np.zeros(len(rows), np.int64)
        distinct: list[pa.Array] = []
        combined: list[Int64s] = []
        for number, key in enumerate(keys):
            values, places = _numbered(_comparable(key.source.evaluate(batch)), key.null_safe)
            distinct.append(values)
            codes = _joined(codes, places, len(values))
            if number:
                combined.append(np.unique(codes[codes >= 0]))
                codes = _search(codes, combined[-1])
        kept = codes >= 0
        order = np.argsort(codes[kept], kind="stable")
        size = len(combined[-1]) if combined else len(distinct[0]) if distinct else 1
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes[kept], minlength=size))])
        return cls(tuple(keys), tuple(distinct), tuple(combined), rows[kept][order], starts)

    def codes(self, target: pa.RecordBatch) -> Int64s:
        """The code of each row of a target; -1 for a row whose key no row of the source has."""
        codes = np.zeros(target.num_rows, np.int64)
        for number, (key, values) in enumerate(zip(self.keys, self.values, strict=True)):
            found = _comparable(key.target.evaluate(target))
            dense = self._dense[number]
            places = _places(found, values, key.null_safe) if dense is None else dense.places(found)
            codes = _joined(codes, places, len(values))
            if number:
                codes = _search(codes, self.combined[number - 1])
        return codes

    @cached_property
    def _dense(self) -> tuple[_DenseValues | None, ...]:
        return tuple(_DenseValues.of(values) for values in self.values)

    @property
    def batch_rows(self) -> int:
        """How many rows of a target at once are worth a call of `codes`, which may make a hash table of all values."""
        return max((len(v) for v, dense in zip(self.values, self._dense, strict=True) if dense is None), default=1)

    def counts(self, codes: Int64s) -> Int64s:
        """How many rows of the source have each code."""
        if len(self.starts) < 2:
            return np.zeros(len(codes), np.int64)
        places = np.where(codes >= 0, codes, 0)
        return np.where(codes >= 0, self.starts[places + 1] - self.starts[places], 0)


def expand(keys: SourceKeys, codes: Int64s) -> tuple[Int64s, Int64s]:
    """All pairs of rows with equal codes: places among the target's codes, and rows of the source."""
    counts = keys.counts(codes)
    rows = np.flatnonzero(counts)
    left = np.repeat(rows, counts[rows])
    ends = np.cumsum(counts[rows])
    within = np.arange(len(left)) - np.repeat(ends - counts[rows], counts[rows])
    return left, keys.order[np.repeat(keys.starts[codes[rows]], counts[rows]) + within]


def _comparable(array: pa.Array) -> pa.Array:
    """Floats with one NaN and one zero, so that equal ones have equal bits."""
    if not pa.types.is_floating(array.type):
        return array
    return with_one_nan(pc.add(array, scalar(0.0, array.type)))


def _numbered(array: pa.Array, null_safe: bool) -> tuple[pa.Array, Int64s]:
    """The distinct values, NULL among them only where it equals NULL, and where each value stands among them or -1."""
    try:
        encoded = pc.dictionary_encode(array, null_encoding="encode" if null_safe else "mask")
    except pa.ArrowNotImplementedError:
        raise ExpressionError(f"keys of type {array.type} can't be matched") from None
    return encoded.dictionary, filled(encoded.indices, -1).astype(np.int64)


def _places(array: pa.Array, values: pa.Array, null_safe: bool) -> Int64s:
    """Where each value stands among distinct ones; -1 where it does not."""
    try:
        found = pc.index_in(array, value_set=values, skip_nulls=not null_safe)
    except pa.ArrowNotImplementedError:
        raise ExpressionError(f"keys of type {array.type} can't be matched") from None
    return filled(found, -1).astype(np.int64)


@dataclass(frozen=True)
class _DenseValues:
    """Distinct integers, dates or times that are close together: a place for each number from ``least`` on.

    This replaces a hash table of all values, which Arrow would build again for each batch.
    """

    least: int
    by_number: npt.NDArray[np.int32]
    null: int

    @classmethod
    def of(cls, values: pa.Array) -> _DenseValues | None:
        numbers = _numbers(values)
        if numbers is None or len(values) == values.null_count:
            return None
        given = np.flatnonzero(is_true(values.is_valid()))
        numbers = numbers[given]
        least, span = int(numbers.min()), int(numbers.max()) - int(numbers.min()) + 1
        if span > _DENSE_FACTOR * len(values):
            return None
        by_number = np.full(span, -1, np.int32)
        by_number[numbers - least] = given
        null = np.flatnonzero(is_true(values.is_null()))
        return cls(least, by_number, int(null[0]) if len(null) else -1)

    def places(self, array: pa.Array) -> Int64s:
        """As `_places`."""
        numbers = _numbers(array)
        assert numbers is not None
        inside = (numbers >= self.least) & (numbers <= self.least + len(self.by_number) - 1)
        places: Int64s = np.where(inside, self.by_number[np.where(inside, numbers - self.least, 0)], np.int64(-1))
        if array.null_count:
            places[is_true(array.is_null())] = self.null
        return places


def _numbers(array: pa.Array) -> Int64s | None:
    """The numbers that an array of integers, dates or times consists of, anything where it is NULL; None for others."""
    type_ = array.type
    if pa.types.is_date(type_) or pa.types.is_time(type_) or pa.types.is_timestamp(type_):
        array = array.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    elif not pa.types.is_signed_integer(type_):
        return None
    return filled(array).astype(np.int64, copy=False)


def _joined(codes: Int64s, more: Int64s, size: int) -> Int64s:
    return np.where((codes >= 0) & (more >= 0), codes * max(size, 1) + more, -1)


def _search(codes: Int64s, ordered: Int64s) -> Int64s:
    places = np.searchsorted(ordered, codes)
    inside = np.minimum(places, max(len(ordered) - 1, 0))
    return np.where(ordered[inside] == codes, inside, -1) if len(ordered) else np.full(len(codes), -1)
