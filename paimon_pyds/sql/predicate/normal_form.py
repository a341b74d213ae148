"""From conditions as written to predicates, which have no NOT.

SQL's conditions have three values; a filter selects rows for which its condition is *true*. `Truth` states which rows
are wanted by a part of a condition. So NOT is pushed into the leaves, and a leaf's unknown may count as false.

What a predicate has no leaf for, a comparison of two columns or a function of one, is left to the rows (`Computed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import AtomicType, DataField, DataType, fields_named
from paimon_pyds.base.types.kinds import STRING_KINDS, Kind
from paimon_pyds.base.zones import default_zone
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.tree import (
    FLIPPED,
    OPPOSITE,
    And,
    ColumnRef,
    Const,
    Leaf,
    MapKey,
    Op,
    Or,
    Predicate,
    Truth,
    negate,
)
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.lexer import SqlText
from paimon_pyds.sql.text.parser import parse
from paimon_pyds.sql.text.tree import (
    Call,
    CastTo,
    Expression,
    Item,
    Literal,
    Name,
    Value,
    count_operations,
    integer,
    names,
)

MOST_LEAVES_PER_PART = 16
"""Leaves per part of a condition, at most; IS NULL of a condition doubles its leaves."""
MANY_LEAVES = 1000
"""Leaves that are allowed in any case."""

_COMPARISONS = {"=": Op.EQ, "<>": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_TEXT_FUNCTIONS = {op.value.lower(): op for op in (Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS, Op.LIKE)}
_NEVER_UNKNOWN = frozenset({"isnull", "isnotnull", "isnan", "<=>"})
_CONDITIONS = frozenset({"AND", "OR", "NOT", "in", *_NEVER_UNKNOWN, *_COMPARISONS, *_TEXT_FUNCTIONS})


class RowEvaluator(Protocol):
    """What evaluates parts of a condition that predicates have no leaf for."""

    def constant(self, expression: Expression) -> Literal | None:
        """The value of an expression without columns; None when it has none, or none that a literal can have."""

    def type_of(self, expression: Expression) -> DataType | None:
        """The type of an expression's values; None when it is NULL, or can't be bound."""

    def bound(self, expression: Expression) -> Any:
        """What evaluates an expression on rows."""

    def condition(self, expression: Expression, text: str) -> Predicate:
        """A condition to be evaluated on rows, shown as ``text``. Raises PredicateError: it can't be bound."""


@dataclass(frozen=True, slots=True)
class Table:
    """The table that a condition is about.

    Attributes:
        bind: binds a leaf to its columns.
        fields: its columns.
        evaluator: gives what evaluates what predicates have no leaf for, the same each time.
        qualifiers: what may stand before a column's name, such as ``("target", "t")``.
    """

    bind: Callable[[Leaf], Predicate]
    fields: Sequence[DataField]
    evaluator: Callable[[], RowEvaluator] | None = None
    qualifiers: Sequence[str] = ()


def parse_filter(text: str, *, timezone: str | None = None) -> Predicate:
    """A filter that compares columns with literals, as a tree of names and `Literal`s, to be bound by `bind`.

    Raises:
        PredicateError: the text is not a condition, or rows alone can answer it
        (`paimon_pyds.sql.expression.bind_filter`
            takes every condition).
    """
    source, zone = SqlText(text), timezone or default_zone()
    return normal_form(parse(source, timezone=zone), source, zone)


def normal_form(condition: Expression, source: SqlText, zone: str, table: Table | None = None) -> Predicate:
    """The predicate that is true for the rows where a condition is.

    Args:
        condition: parsed from ``source``.
        source: the text, for errors.
        zone: time zone of casts between texts and timestamps.
        table: what the condition is about; without, names stay unbound, and the tree as it is written.

    Raises:
        PredicateError: a part that predicates have no leaf for can't be bound, or there is no evaluator.
    """
    form = _NormalForm(source, zone, table, condition)
    try:
        return form.rows(condition, Truth.TRUE)
    except _TooLargeError:
        return form.on_rows(condition, Truth.TRUE)


class _TooLargeError(Exception): ...


class _NormalForm:
    def __init__(self, source: SqlText, zone: str, table: Table | None, whole: Expression) -> None:
        self._source = source
        self._zone = zone
        self._evaluator = None if table is None else table.evaluator
        self._table = table
        self._whole = whole
        self._leaves = 0
        self._most_leaves = 0

    def rows(self, node: Expression, wanted: Truth) -> Predicate:
        """The rows where a condition is what is wanted."""
        if isinstance(node, Call) and node.function in ("AND", "OR", "NOT"):
            if node.function == "NOT":
                return self.rows(node.arguments[0], wanted.opposite)
            given = node.arguments
            from paimon_pyds.sql.predicate.disjunction import FEW_CONDITIONS

            if node.function == "OR" and len(given) > FEW_CONDITIONS and self._evaluator is not None:
                given = _with_lists(given)
            parts = [self.rows(argument, wanted) for argument in given]
            return self._joined((node.function == "AND") == wanted.positive, parts)
        try:
            found = self._condition(node, wanted)
            if found is not None:
                return found
            asked = self.on_rows(node, wanted)
            return self._joined(True, [self._implied(node, wanted), asked])
        except PredicateError as error:
            if error.message.startswith(f"{self._source.kind}: "):
                raise
            placed = self._source.placed(error, node.start)
        try:
            return self.on_rows(node, wanted)
        except PredicateError:
            raise placed from None

    def on_rows(self, node: Expression, wanted: Truth) -> Predicate:
        """A condition that is evaluated on rows. Raises PredicateError."""
        if self._evaluator is None:
            hint = "compare columns with literals"
            raise self._source.error(node.start, "statistics and indexes can't answer this condition", hint)
        text = wanted.sql.format(self._source.text[node.start : node.stop])
        if wanted in (Truth.NOT_TRUE, Truth.NOT_FALSE):
            value = Value(Literal(wanted is Truth.NOT_TRUE, tree.BOOLEAN), start=node.start, stop=node.stop)
            node = Call("<=>", (node, value), start=node.start, stop=node.stop)
        if wanted is not Truth.TRUE:
            node = Call("NOT", (node,), start=node.start, stop=node.stop)
        return self._evaluator().condition(node, text)

    def _implied(self, node: Expression, wanted: Truth) -> Predicate:
        """What leaves can say of a comparison of functions of a column: true for all rows that are looked for."""
        if not isinstance(node, Call) or self._evaluator is None or wanted not in (Truth.TRUE, Truth.FALSE):
            return Const.TRUE
        from paimon_pyds.sql.predicate.implied import (  # most filters have leaves
            Operands,
            implied_comparison,
            implied_list,
        )

        operands = Operands(self._evaluator().type_of, self._constant, self._zone)
        found = None
        if node.function == "in" and wanted is Truth.TRUE:
            left, *items = node.arguments
            literals = [literal for item in items if (literal := self._constant(item)) is not None]
            found = implied_list(left, literals, operands) if len(literals) == len(items) else None
        elif node.function in _COMPARISONS and len(node.arguments) == 2:
            op = _COMPARISONS[node.function]
            op = op if wanted is Truth.TRUE else OPPOSITE[op]
            left, right = node.arguments
            literal = self._constant(right)
            if literal is None:
                left, literal, op = right, self._constant(left), FLIPPED.get(op, op)
            if literal is not None and literal.value is not None and op is not Op.NE:
                found = implied_comparison(op, left, literal, operands)
        try:
            return Const.TRUE if found is None else self.rows(found, Truth.TRUE)
        except PredicateError:
            return Const.TRUE

    def _bound(self, leaf: Leaf) -> Predicate:
        """A leaf, bound to the table's columns if there is a table. Raises PredicateError."""
        self._leaves += 1
        if self._leaves > MANY_LEAVES:
            self._most_leaves = self._most_leaves or MANY_LEAVES + MOST_LEAVES_PER_PART * count_operations(self._whole)
            if self._leaves > self._most_leaves:
                raise _TooLargeError
        return leaf if self._table is None else self._table.bind(leaf)

    def _joined(self, every: bool, parts: Sequence[Predicate]) -> Predicate:
        if self._table is not None:
            from paimon_pyds.sql.predicate.disjunction import all_of, any_of

            return all_of(*parts) if every else any_of(*parts)
        kind = And if every else Or
        flat = [child for part in parts for child in (part.children if isinstance(part, kind) else (part,))]
        return flat[0] if len(flat) == 1 else kind(tuple(flat))

    def _condition(self, node: Expression, wanted: Truth) -> Predicate | None:
        """The leaves, not bound yet, of a condition that is neither AND nor OR nor NOT; None if it has no leaves."""
        if isinstance(node, Call):
            if node.function in _COMPARISONS and len(node.arguments) == 2:
                return self._comparison(_COMPARISONS[node.function], node, wanted)
            if node.function == "<=>":
                return self._null_safe(node, wanted)
            if node.function == "in":
                return self._in(node, wanted)
            if node.function in ("isnull", "isnotnull") and len(node.arguments) == 1:
                wanted = wanted if node.function == "isnull" else wanted.opposite
                return self._is_null(node.arguments[0], wanted)
            if node.function == "isnan" and len(node.arguments) == 1:
                column = self._column(node.arguments[0])
                return None if column is None else self._same(column, Literal(float("nan"), tree.DOUBLE), wanted)
            if node.function in _TEXT_FUNCTIONS:
                return self._text_test(node, wanted)
        column = self._column(node)
        return self._constant_condition(node, wanted) if column is None else self._is_true(column, node, wanted)

    def _is_true(self, column: ColumnRef, node: Expression, wanted: Truth) -> Predicate:
        """A column alone, as a condition."""
        for field in () if self._table is None or column.path else fields_named(column.name, self._table.fields):
            if field.type.kind is not Kind.BOOLEAN:
                hint = f"compare it with a value: it is {field.type}"
                raise self._source.error(node.start, f"expected a condition, found column {column}", hint)
        return self._leaf(Leaf(Op.EQ, column, (Literal(True, tree.BOOLEAN),)), wanted)

    def _constant_condition(self, node: Expression, wanted: Truth) -> Predicate | None:
        literal = self._constant(node)
        if literal is None:
            return None
        if literal.value is None:
            return _const(Const.UNKNOWN, wanted)
        if isinstance(literal.value, bool):
            return _const(Const.TRUE if literal.value else Const.FALSE, wanted)
        quotes = "double quotes make a string; put column names in `back quotes`"
        hint = quotes if isinstance(literal.value, str) else None
        raise self._source.error(node.start, "expected a condition, found a literal", hint)

    def _comparison(self, op: Op, node: Call, wanted: Truth) -> Predicate | None:
        left, right = node.arguments
        column, literal, flipped = self._operands(left, right)
        if column is not None:
            op = FLIPPED.get(op, op) if flipped else op
            return None if literal is None else self._leaf(Leaf(op, column, (literal,)), wanted)
        first = self._constant(left)
        if first is not None and literal is not None:
            from paimon_pyds.sql.predicate.compare import compare_literals

            return _const(compare_literals(op, first, literal), wanted)
        condition, value = (left, literal) if first is None else (right, first)
        if value is None or not _is_condition(condition) or op not in (Op.EQ, Op.NE):
            return None
        if value.value is None:
            return _const(Const.UNKNOWN, wanted)
        if not isinstance(value.value, bool):
            return None
        return self.rows(condition, wanted if value.value == (op is Op.EQ) else wanted.opposite)

    def _null_safe(self, node: Call, wanted: Truth) -> Predicate | None:
        """``<=>``, IS DISTINCT FROM and IS TRUE: NULL is a value as any other, and nothing is unknown."""
        left, right = node.arguments
        column, literal, _ = self._operands(left, right)
        if column is not None:
            return None if literal is None else self._same(column, literal, wanted)
        first = self._constant(left)
        if first is not None and literal is not None:
            if first.value is None or literal.value is None:
                return _const(Const.TRUE if first.value is literal.value else Const.FALSE, wanted)
            from paimon_pyds.sql.predicate.compare import compare_literals

            return _const(compare_literals(Op.EQ, first, literal), wanted)
        condition, value = (left, literal) if first is None else (right, first)
        if value is None or not _is_condition(condition):
            return None
        if value.value is None:
            return self._unknown(condition, wanted)
        if not isinstance(value.value, bool):
            return None
        if wanted.positive:
            return self.rows(condition, Truth.TRUE if value.value else Truth.FALSE)
        return self.rows(condition, Truth.NOT_TRUE if value.value else Truth.NOT_FALSE)

    def _same(self, column: ColumnRef, literal: Literal, wanted: Truth) -> Predicate:
        if literal.value is None:
            return self._bound(Leaf(Op.IS_NULL if wanted.positive else Op.IS_NOT_NULL, column))
        if wanted.positive:
            return self._bound(Leaf(Op.EQ, column, (literal,)))
        unequal = Leaf(Op.NE, column, (literal,))
        return self._joined(False, [self._bound(leaf) for leaf in (Leaf(Op.IS_NULL, column), unequal)])

    def _is_null(self, operand: Expression, wanted: Truth) -> Predicate | None:
        column = self._column(operand)
        if column is not None:
            return self._bound(Leaf(Op.IS_NULL if wanted.positive else Op.IS_NOT_NULL, column))
        literal = self._constant(operand)
        if literal is not None:
            return _const(Const.TRUE if literal.value is None else Const.FALSE, wanted)
        return self._unknown(operand, wanted) if _is_condition(operand) else None

    def _unknown(self, condition: Expression, wanted: Truth) -> Predicate:
        """The rows where a condition is unknown, or where it is not."""
        if isinstance(condition, Call) and condition.function in _NEVER_UNKNOWN:
            return _const(Const.FALSE, wanted)
        if wanted.positive:
            return self._joined(True, [self.rows(condition, w) for w in (Truth.NOT_TRUE, Truth.NOT_FALSE)])
        return self._joined(False, [self.rows(condition, w) for w in (Truth.TRUE, Truth.FALSE)])

    def _in(self, node: Call, wanted: Truth) -> Predicate | None:
        left, *items = node.arguments
        column = self._column(left)
        if column is None:
            parts = tuple(Call("=", (left, item), start=node.start, stop=node.stop) for item in items)
            return None if self._constant(left) is None else self.rows(Call("OR", parts), wanted)
        literals = [item.literal if type(item) is Value else self._constant(item) for item in items]
        values = tuple(literal for literal in literals if literal is not None)
        return self._leaf(Leaf(Op.IN, column, values), wanted) if len(values) == len(items) else None

    def _text_test(self, node: Call, wanted: Truth) -> Predicate | None:
        """LIKE and the functions that look for a text."""
        op = _TEXT_FUNCTIONS[node.function]
        if not 2 <= len(node.arguments) <= (3 if op is Op.LIKE else 2):
            return None
        left, right, *rest = node.arguments
        column, pattern = self._column(left), self._constant(right)
        if column is None or pattern is None:
            return None
        text, type_ = pattern.value, pattern.type
        if text is not None and (type_ is None or type_.kind not in STRING_KINDS):
            hint = "put the text in single quotes"
            raise self._source.error(right.start, f"{op.value} takes a string", hint)
        if op is not Op.LIKE:
            return self._leaf(Leaf(op, column, (pattern,)), wanted)
        escape = rest[0].literal.value if rest and isinstance(rest[0], Value) else "\\"
        if text is not None:
            from paimon_pyds.sql.predicate.like import like_parts

            self._source.located(right.start, lambda: like_parts(text, escape))
        return self._leaf(Leaf(op, column, (pattern, escape)), wanted)

    def _leaf(self, leaf: Leaf, wanted: Truth) -> Predicate:
        """The rows for a leaf that is unknown where its column is NULL, or by a NULL among its literals."""
        test = leaf if wanted.positive else negate(leaf)
        assert isinstance(test, Leaf)
        if wanted is Truth.TRUE or wanted is Truth.FALSE:
            return self._bound(test)
        values = tuple(v for v in leaf.literals if not (isinstance(v, Literal) and v.value is None))
        if len(values) < len(leaf.literals) and (test.op is not Op.NOT_IN or not values):
            # IN with a NULL among its values is true or unknown, NOT IN is false or unknown, the others are unknown.
            return Const.TRUE
        test = Leaf(test.op, leaf.column, values)
        return self._joined(False, [self._bound(one) for one in (Leaf(Op.IS_NULL, leaf.column), test)])

    def _operands(self, left: Expression, right: Expression) -> tuple[ColumnRef | None, Literal | None, bool]:
        """The column of a comparison, the literal of its other side, and whether the column is on the right."""
        column = self._column(left)
        if column is None and (other := self._column(right)) is not None:
            return other, self._constant(left), True
        return column, self._constant(right), False

    def _column(self, node: Expression) -> ColumnRef | None:
        """The column, or the part of one, that an operand is; None when it is something else."""
        if isinstance(node, Name):
            parts = node.parts
            if self._table is not None and len(parts) > 1:
                qualified = any(parts[0].casefold() == name.casefold() for name in self._table.qualifiers)
                parts = parts[1:] if qualified and fields_named(parts[1], self._table.fields) else parts
            return ColumnRef(parts[0], parts[1:])
        if isinstance(node, Item):
            child, key = node.child, node.key
        elif isinstance(node, Call) and node.function == "element_at" and len(node.arguments) == 2:
            child, key = node.arguments
        else:
            return None
        column = self._column(child)
        if column is None:
            return None
        if isinstance(key, str):
            return ColumnRef(column.name, (*column.path, key))
        literal = self._constant(key)
        if literal is None or literal.value is None:
            return None
        plain = literal.type in (tree.STRING, tree.INT, tree.LONG)
        return ColumnRef(column.name, (*column.path, MapKey(literal.value if plain else literal)))

    def _constant(self, node: Expression) -> Literal | None:
        """The literal that an operand without columns stands for; None when it has columns."""
        if isinstance(node, Value):
            return node.literal
        if isinstance(node, Name | Item):
            return None
        try:
            found = self._literal(node)
        except PredicateError:
            if self._evaluator is None:
                raise
            found = None
        if found is not None or self._evaluator is None or next(names(node), None) is not None:
            return found
        return self._evaluator().constant(node)

    def _literal(self, node: Expression) -> Literal | None:
        """A cast literal, or one with signs; None for other operands."""
        if isinstance(node, CastTo) and (self._evaluator is None or not node.lenient):
            inner = self._constant(node.child)
            if inner is None or not isinstance(node.type, AtomicType):
                return None
            from paimon_pyds.sql.text.casts import cast_literal

            return self._source.located(node.child.start, partial(cast_literal, inner, node.type, self._zone))
        if isinstance(node, Call) and node.function in ("negative", "positive"):
            inner = self._constant(node.arguments[0])
            if inner is None or inner.value is None:
                return inner
            from paimon_pyds.sql.text.casts import is_number

            if not is_number(inner):
                raise PredicateError("a sign stands before something that is not a number")
            if node.function == "positive":
                return inner
            negated = -inner.value
            return integer(negated) if isinstance(negated, int) else Literal(negated, inner.type)
        return None


def _with_lists(parts: Sequence[Expression]) -> tuple[Expression, ...]:
    """Conditions joined by OR, with comparisons of one computed value with literals of one type as one list."""
    lists: dict[object, list[Expression]] = {}
    found: list[Expression | list[Expression]] = []
    for part in parts:
        if isinstance(part, Call) and part.function in ("=", "in") and isinstance(part.arguments[0], Call | CastTo):
            left, *values = part.arguments
            types = {value.literal.type if isinstance(value, Value) else None for value in values}
            if len(types) == 1 and None not in types:
                key = (left, *types)
                if key not in lists:
                    found.append(lists.setdefault(key, [part]))
                else:
                    lists[key].append(part)
                continue
        found.append(part)
    return tuple(_list_of(part) if isinstance(part, list) else part for part in found)


def _list_of(parts: Sequence[Expression]) -> Expression:
    calls = [part for part in parts if isinstance(part, Call)]
    if len(calls) == 1:
        return calls[0]
    values = (value for call in calls for value in call.arguments[1:])
    return Call("in", (calls[0].arguments[0], *values), start=calls[0].start, stop=calls[-1].stop)


def _const(value: Const, wanted: Truth) -> Const:
    if value in wanted.truth:
        return Const.TRUE
    return Const.UNKNOWN if value is Const.UNKNOWN else Const.FALSE


def _is_condition(node: Expression) -> bool:
    return isinstance(node, Call) and node.function in _CONDITIONS
