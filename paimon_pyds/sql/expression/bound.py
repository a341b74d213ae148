"""Bound expressions and conditions as callers hold them: what they need, and their values over batches. They pickle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa

from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    arrow_type,
    from_arrow_type,
    scalar_to_internal,
)
from paimon_pyds.base.types.kinds import BINARY_KINDS, MAX_LENGTH, REFUSED_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.base.types.nested import cast_nested
from paimon_pyds.base.types.vectors import has_vector, stored_type
from paimon_pyds.base.zones import default_zone
from paimon_pyds.errors import ExpressionError, PredicateError, SchemaError, UnknownColumnError, suggest
from paimon_pyds.sql.expression.bind import Binder, Scope
from paimon_pyds.sql.expression.cast import cast_array
from paimon_pyds.sql.expression.coercion import NUMBERS, Type, normal
from paimon_pyds.sql.expression.nodes import Column, Node, Part, columns, type_text
from paimon_pyds.sql.expression.operands import spread
from paimon_pyds.sql.predicate.bind import internal_literal
from paimon_pyds.sql.predicate.tree import Computed, Predicate, make_computed
from paimon_pyds.sql.text import casts, tree
from paimon_pyds.sql.text.lexer import SqlText
from paimon_pyds.sql.text.parser import parse
from paimon_pyds.sql.text.tree import Expression, Literal, Value

Operand: TypeAlias = Any
"""What stands for an expression: SQL text, a plain Python value, or a `pyarrow.compute.Expression`."""
_NO_MATCH = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ")
"""What Arrow says of a name that no column has."""


@dataclass(frozen=True)
class BoundExpression:
    """An expression over the columns of some scopes.

    Attributes:
        text: what errors call it.
        columns: names of the batch's columns it needs, each once, without an order that means anything.
        type: of its values before they are assigned; None for NULL.
        target: the column that takes the values; None to leave them as they are.
        zone: time zone of texts, dates and wall-clock times.
    """

    text: str
    columns: tuple[str, ...]
    type: Type
    target: DataField | None
    zone: str
    _node: Node | None = None
    _arrow: pc.Expression | None = None

    @property
    def node(self) -> Node | None:
        """The tree; None where Arrow evaluates it."""
        return self._node

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """A value for each row, of the Arrow type of the target column, or of the expression's own type.
        Raises ExpressionError: overflow, division by zero, a cast or an assignment that loses a value."""
        try:
            found = self._values(batch)
            if self.target is None:
                return found
            own = self.type if self._node else from_arrow_type(found.type, iter(range(1 << 20)))
            return assign(found, own, self.target.type, self.zone)
        except ExpressionError as error:
            where = f"column {self.target.name!r}: " if self.target else ""
            raise type(error)(f"{where}{self.text}: {error.message}", hint=error.hint) from None

    def _values(self, batch: pa.RecordBatch) -> pa.Array:
        if self._node is not None:
            return spread(self._node.evaluate(batch), batch.num_rows)
        return _evaluated(self._arrow, batch)

    @property
    def column(self) -> str | None:
        """The column that it is, and nothing else; None for any other expression."""
        return self._node.name if isinstance(self._node, Column) else None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """For a condition: whether it is true, per row; never null."""
        found = self.evaluate(batch)
        if not pa.types.is_boolean(found.type):
            found = found.cast(pa.bool_())  # NULL alone has Arrow's type of nulls
        return pc.fill_null(found, False) if found.null_count else found


def _evaluated(expression: Any, batch: pa.RecordBatch) -> pa.Array:
    """A pyarrow expression's values."""
    from pyarrow._acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions  # pyarrow.acero loads pandas

    table = pa.Table.from_batches([batch])
    plan = Declaration.from_sequence([
        Declaration("table_source", TableSourceNodeOptions(table)),
        Declaration("project", ProjectNodeOptions([expression], ["value"])),
    ])  # fmt: skip
    try:
        found = plan.to_table(use_threads=False).column(0).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        if unknown := _NO_MATCH.match(str(error)):
            hint = suggest(unknown[1], batch.schema.names, "there are")
            raise UnknownColumnError(f"no column {unknown[1]!r:.100}", hint=hint) from None
        raise ExpressionError(str(error).splitlines()[0]) from None
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def bind_expression(
    operand: Operand,
    scopes: Sequence[Scope],
    target: DataField | None = None,
    *,
    timezone: str | None = None,
    now: datetime | None = None,
) -> BoundExpression:
    """An expression with its names and types resolved.

    Args:
        operand: SQL text, a plain Python value (a str is always SQL text), a `pyarrow.compute.Expression`.
        scopes: the columns it may name.
        target: the column that takes its values, by the rules of store assignment.
        timezone: zone of literals without one, of dates and wall-clock times.
        now: what CURRENT_TIMESTAMP and CURRENT_DATE give; the time of the call when None.

    Raises:
        ExpressionError: it does not parse, names no column, mixes types, or can't be stored in the target.
    """
    zone = timezone or default_zone()
    if isinstance(operand, str):
        source = SqlText(operand, "expression")
        return bind_tree(parse(source, timezone=zone), Binder(scopes, zone, source, now), target)
    if isinstance(operand, pc.Expression):
        names = tuple(scope.prefix + field.name for scope in scopes for field in scope.fields)
        return BoundExpression(str(operand), names, None, target, zone, None, operand)
    try:
        literal = casts.from_python(operand, None if target is None else target.type.kind)
    except PredicateError as error:
        raise ExpressionError(error.message.replace("a condition", "an expression"), hint=error.hint) from None
    return bind_tree(Value(literal), Binder(scopes, zone, SqlText("", "expression"), now), target)


def bind_tree(tree: Expression, binder: Binder, target: DataField | None = None) -> BoundExpression:
    """A parsed expression, or a part of one, bound as by `bind_expression`; the binder has the whole text."""
    node = binder.bind(tree)
    shown = binder.text_of(tree) or (str(tree.literal.value) if isinstance(tree, Value) else "")
    if target is not None:
        try:
            check_assignable(node.type, target.type)
        except ExpressionError as error:
            raise ExpressionError(f"column {target.name!r}: {shown:.200}: {error.message}", hint=error.hint) from None
    return BoundExpression(shown[:200], tuple(dict.fromkeys(columns(node))), node.type, target, binder.zone, node)


def bind_condition(
    operand: Operand, scopes: Sequence[Scope], *, timezone: str | None = None, now: datetime | None = None
) -> BoundExpression:
    """A condition, bound as by `bind_expression`: use `BoundExpression.matches`.
    Raises ExpressionError: also when it is no condition."""
    bound = bind_expression(operand, scopes, None, timezone=timezone, now=now)
    return checked_condition(bound)


def checked_condition(bound: BoundExpression) -> BoundExpression:
    """The expression itself. Raises ExpressionError when it is no condition."""
    if bound._arrow is None and bound.type is not None and bound.type.kind is not tree.BOOLEAN.kind:
        raise ExpressionError(f"{bound.text} is a {bound.type.kind.value}, a condition is wanted")
    return bound


_TEMPORAL = TIMESTAMP_KINDS | {Kind.DATE}


def check_assignable(source: Type, target: DataType) -> None:
    """Raise ExpressionError unless values of one type may be stored in a column of another.

    The rules are those of Spark's ANSI policy (``Cast.canANSIStoreAssign``): a number fits any number that has room for
    it, any plain value fits a text, dates and timestamps fit each other; a text fits nothing but a text.
    """
    if source is None:
        return
    target = _with_bytes(stored_type(target))
    if not isinstance(source, AtomicType) and source.kind is target.kind:
        for own, wanted in zip(source.children(), target.children(), strict=False):
            check_assignable(own, wanted)
        return
    if _may_hold(source.kind, target.kind) and target.kind not in REFUSED_KINDS:
        return
    hint = None
    if isinstance(target, AtomicType) and isinstance(source, AtomicType):
        names = {Kind.TIMESTAMP: "TIMESTAMP_NTZ", Kind.TIMESTAMP_LTZ: "TIMESTAMP"}
        hint = f"write CAST(… AS {names.get(target.kind, str(normal(target)))})"
    raise ExpressionError(f"{type_text(source)} can't be stored in a column of type {target}", hint=hint)


def _with_bytes(type_: DataType) -> DataType:
    """A type with BYTES in place of BLOB where such columns are written."""
    match type_:
        case ArrayType(element=element):
            return ArrayType(element=_with_bytes(element))
        case MapType(key=key, value=value):
            return MapType(key=key, value=_with_bytes(value))
    return tree.BYTES if type_.kind is Kind.BLOB else type_


def _may_hold(source: Kind, target: Kind) -> bool:
    return (
        (source is target)
        or (source in NUMBERS and target in NUMBERS)
        or target in STRING_KINDS
        or (source in BINARY_KINDS and target in BINARY_KINDS)
        or (source in _TEMPORAL and target in _TEMPORAL)
    )


def assign(array: pa.Array, source: Type, target: DataType, zone: str) -> pa.Array:
    """Values of one type as values of a column, lengths checked. Raises ExpressionError when one does not fit."""
    if source is None:
        return pa.nulls(len(array), arrow_type(target))
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return _nested(array, target)
    if target.kind is Kind.BLOB:
        return array.cast(arrow_type(target))
    found = cast_array(array, source, target, zone)
    _check_finite(array, found)
    if target.kind is Kind.DECIMAL:  # which Arrow does not look at, where it was of the same type
        return _nested(found, target)
    return _fitted(found, target) if target.kind in STRING_KINDS | BINARY_KINDS else found


def _check_finite(array: pa.Array, found: pa.Array) -> None:
    """Refuse numbers that became infinity, those in nested values too."""
    t = pa.types
    if t.is_struct(array.type):
        for own, cast in zip(array.flatten(), found.flatten(), strict=True):
            _check_finite(own, cast)
    elif t.is_map(array.type):
        _check_finite(array.items, found.items)
    elif t.is_list(array.type):
        _check_finite(array.flatten(), found.flatten())
    elif t.is_float64(array.type) and t.is_float32(found.type):
        from paimon_pyds.base.types.unfit_values import grown_infinite, shown

        grown = grown_infinite(array, found)
        if pc.any(grown).as_py():
            raise ExpressionError(f"{shown(array, pc.index(grown, scalar(True)).as_py())} does not fit FLOAT")


def _nested(array: pa.Array, target: DataType) -> pa.Array:
    from paimon_pyds.base.types.unfit_values import check_bounds, check_no_more_members

    wanted = arrow_type(target)
    try:
        check_no_more_members(array.type, wanted, "value")
        found = array
        if has_vector(target):
            found = cast_nested(array, wanted, "value", lambda values, type_, _: values.cast(type_))
        elif array.type != wanted:
            found = array.cast(wanted)
        _check_finite(array, found)
        check_bounds(found, target, "value")
    except SchemaError as error:
        raise ExpressionError(error.message) from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ExpressionError(f"a value does not fit: {str(error).splitlines()[0]}") from None
    return found


def _fitted(array: pa.Array, target: AtomicType) -> pa.Array:
    """Texts and bytes within their column's length: spaces at the end give way. CHAR is not filled, as in appends."""
    limit = target.length or 1
    if limit == MAX_LENGTH:
        return array
    text = target.kind in STRING_KINDS
    lengths = pc.utf8_length(array) if text else pc.binary_length(array)
    if (pc.max(lengths).as_py() or 0) > limit:
        if text:
            cut = pc.utf8_slice_codeunits(array, 0, limit)
            spaces = pc.utf8_rtrim(pc.utf8_slice_codeunits(array, limit), characters=" ")
            array = cut if (pc.max(pc.utf8_length(spaces)).as_py() or 0) == 0 else array
            lengths = pc.utf8_length(array)
        longest = pc.max(lengths)
        if longest.as_py() > limit:
            from paimon_pyds.base.types.unfit_values import described, shown

            at = pc.index(lengths, longest).as_py()
            raise ExpressionError(f"{shown(array, at)} does not fit {described(target)}")
    return array


class RowBinder:
    """Binds parts of one condition on a table: all of them see the same current time."""

    def __init__(self, source: SqlText, fields: tuple[DataField, ...], qualifiers: tuple[str, ...], zone: str) -> None:
        now = datetime.now(UTC)
        self._binder = Binder((Scope(qualifiers, fields),), zone, source, now)

    def constant(self, expression: Expression) -> Literal | None:
        """The value of an expression without columns; None when it has none, or none that a literal can have."""
        try:
            node = self._binder.bind(expression)
            value = self._binder.folded(node).value
        except PredicateError:
            return None
        if node.type is None or not value.is_valid:
            return Literal(None, node.type)
        if not isinstance(node.type, AtomicType) or node.type.kind is Kind.VARIANT:
            return None
        return internal_literal(scalar_to_internal(value), node.type)

    def type_of(self, expression: Expression) -> Type:
        """The type of an expression's values; None when it is NULL, or can't be bound."""
        try:
            node = self._binder.bind(expression)
        except PredicateError:
            return None
        length = node.char if isinstance(node, Column | Part) else None
        return node.type if length is None else AtomicType(Kind.CHAR, length=length)

    def bound(self, expression: Expression) -> BoundExpression:
        """What evaluates an expression. Raises ExpressionError: it names no column, or mixes types."""
        return bind_tree(expression, self._binder)

    def condition(self, expression: Expression, text: str) -> Predicate:
        """A condition to be evaluated on rows, shown as ``text``.
        Raises ExpressionError: it names no column, mixes types, or is no condition."""
        bound = bind_tree(expression, self._binder)
        if bound.type is not None and bound.type.kind is not Kind.BOOLEAN:
            quoted = bound.type.kind in STRING_KINDS and bound.text.startswith('"')
            hint = "double quotes make a string; put column names in `back quotes`" if quoted else None
            self._binder.fail(expression, f"a condition is wanted, this is a {type_text(bound.type)}", hint)
        return computed(bound, text)


def computed(bound: BoundExpression, text: str) -> Computed:
    """A bound condition as a part of a predicate."""
    return make_computed(text, bound.columns, bound)
