"""Binding: names to columns, operators and functions to kernels, with the types of Spark 4 (ANSI mode)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

import pyarrow as pa

from paimon_pyds.base.arrays import scalar
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType, fields_named
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.kinds import STRING_KINDS, Kind
from paimon_pyds.errors import ExpressionError, PredicateError, UnknownColumnError, suggest
from paimon_pyds.sql.expression.cast import constant
from paimon_pyds.sql.expression.coercion import TIMESTAMP, Type, common_type, normal, same
from paimon_pyds.sql.expression.nested import can_cast, plain
from paimon_pyds.sql.expression.nodes import Cast, Choice, Column, Constant, Node, OpenLambda, Part, arrow_of, type_text
from paimon_pyds.sql.text import casts, tree
from paimon_pyds.sql.text.intervals import moved_by_interval
from paimon_pyds.sql.text.lexer import SqlText
from paimon_pyds.sql.text.parser import Parser
from paimon_pyds.sql.text.tree import Call, Case, CastTo, Expression, Item, Lambda, Literal, Name, Value

_ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], names=[""])


@dataclass(frozen=True, slots=True)
class Scope:
    """Columns that an expression may name.

    Attributes:
        names: what may stand before a column's name, such as ``("target", "t")``.
        fields: the columns.
        prefix: what the names of these columns begin with in the batches that are evaluated.
        nulls: names of columns that hold nothing but NULL, whose type is any.
    """

    names: tuple[str, ...]
    fields: tuple[DataField, ...]
    prefix: str = ""
    nulls: frozenset[str] = frozenset()


class Binder:
    """Binds trees of one statement: all of them see the same time of day."""

    def __init__(self, scopes: Sequence[Scope], zone: str, source: SqlText, now: datetime | None = None) -> None:
        values.time_zone(zone)
        self._scopes = scopes
        self.zone = zone
        self._source = source
        self._names: dict[tuple[str, ...], Node] = {}
        self._variables: list[dict[str, Node]] = []
        self._numbered = 0
        self.now = now or datetime.now(UTC)

    def bind(self, expression: Expression) -> Node:
        """The tree with types and kernels.
        Raises ExpressionError: unknown names, types that do not go together, a constant part that has no value."""
        try:
            return self._bind(expression)
        except LookupError as error:
            self.fail(expression, str(error.args[0]))

    def _bind(self, expression: Any) -> Node:
        binders: dict[type[Expression], Callable[[Any], Node]] = {
            Name: self._name, Item: self._item, Case: self._case, CastTo: self._cast_to, Call: self._call,
            Lambda: lambda written: OpenLambda(None, written),
        }  # fmt: skip
        return self.literal(expression.literal) if type(expression) is Value else binders[type(expression)](expression)

    def text_of(self, expression: Expression) -> str:
        """The source text of a part of the tree."""
        return self._source.text[expression.start : expression.stop]

    def fail(self, where: Expression, message: str, hint: str | None = None) -> NoReturn:
        """Raise an ExpressionError that points at a part of the text."""
        self._fail_by(where, ExpressionError(message, hint=hint))

    def _fail_by(self, where: Expression, error: PredicateError) -> NoReturn:
        """Raise an error so that it points at a part of the text."""
        raise self._source.placed(error, where.start) if self._source.text else error

    def literal(self, literal: Literal) -> Constant:
        """A constant node of a literal."""
        if literal.value is None and literal.type is None:
            return Constant(None, scalar(None), literal)
        if literal.type is None:
            literal = casts.from_python(literal.value)
        assert isinstance(literal.type, AtomicType)
        type_ = normal(literal.type)
        assert isinstance(type_, AtomicType)
        return Constant(type_, constant(literal, type_), literal)

    def _name(self, name: Name) -> Node:
        for variables in reversed(self._variables):
            if (variable := variables.get(name.parts[0].casefold())) is not None:
                return self._steps(name, variable, name.parts[1:])
        found = self._names.get(name.parts)
        if found is None:
            found = self._names[name.parts] = self._named(name)
        return found

    def _named(self, name: Name) -> Node:
        first = name.parts[0].casefold()
        named = [s for s in self._scopes if len(name.parts) > 1 and first in (n.casefold() for n in s.names)]
        for scope in named:
            if (field := _field(scope.fields, name.parts[1])) is not None:
                return self._steps(name, self._column(scope, field), name.parts[2:])
        found = [(s, f) for s in self._scopes if (f := _field(s.fields, name.parts[0])) is not None]
        if len(found) == 1:
            return self._steps(name, self._column(*found[0]), name.parts[1:])
        if found:
            places = " and ".join(scope.names[0] for scope, _ in found)
            self.fail(
                name, f"the column {name.parts[0]!r} is in {places}", f"write {found[0][0].names[0]}.{name.parts[0]}"
            )
        self._unknown(name, named)

    def _unknown(self, name: Name, named: Sequence[Scope]) -> NoReturn:
        wanted = name.parts[1] if named else name.parts[0]
        names = [field.name for scope in named or self._scopes for field in scope.fields]
        hint = suggest(wanted[:200], names, "there are") or "there are no columns"
        if not named and hint.startswith("there are: "):
            hint += f"; a text is written '{wanted:.100}'"
        where = f" in {named[0].names[0]}" if named else ""
        self._fail_by(name, UnknownColumnError(f"no column {wanted!r:.100}{where}", hint=hint))

    def _column(self, scope: Scope, field: DataField) -> Node:
        if field.name in scope.nulls:
            return Constant(None, scalar(None))
        refused = field.type.refused()
        if refused is not None:
            raise LookupError(f"column {field.name!r} is of type {refused}, which is not supported here")
        return Column(normal(field.type), scope.prefix + field.name, _char(field.type))

    def _steps(self, at: Expression, node: Node, steps: Sequence[str]) -> Node:
        for step in steps:
            node = self._part(at, node, Constant(tree.STRING, scalar(step), Literal(step, tree.STRING)))
        return node

    def _item(self, item: Item) -> Node:
        if isinstance(item.key, str):
            return self._steps(item, self._bind(item.child), (item.key,))
        key = self._bind(item.key)
        child = self._bind(item.child)
        if isinstance(key, Constant) and key.literal is not None and key.literal.value is not None:
            return self._part(item, child, key)
        from paimon_pyds.sql.expression.array_items import subscript

        return subscript(self, child, key)

    def _part(self, at: Expression, node: Node, key: Constant) -> Node:
        assert key.literal is not None
        value = key.literal.value
        match node.type:
            case RowType(fields=fields):
                field = _field(fields, value) if isinstance(value, str) else None
                if field is None:
                    names = ", ".join(f.name for f in fields)
                    error = UnknownColumnError(f"the ROW has no field {value!r:.100}", hint=f"it has {names}")
                    self._fail_by(at, error)
                return Part(normal(field.type), node, field.name, _char(field.type))
            case MapType(key=key_type, value=value_type):
                found = self.coerce(key, normal(key_type)).value  # type: ignore[attr-defined]
                return Part(normal(value_type), node, found, _char(value_type))
            case ArrayType(element=element) if isinstance(value, int):
                return Part(normal(element), node, value, _char(element))
            case ArrayType(element=RowType(fields=fields)) if isinstance(value, str):
                from paimon_pyds.sql.expression.array_items import member_of_items

                field = _field(fields, value)
                if field is not None:
                    return member_of_items(node, field)
        self.fail(at, f"a value of type {type_text(node.type)} has no part {value!r:.100}")

    def coerce(self, node: Node, type_: Type) -> Node:
        """The node as one of a type, by a cast if need be. Raises LookupError where SQL casts only on request."""
        if type_ is None or same(node.type, type_):
            return node
        if node.type is not None and not can_cast(node.type, type_):
            raise LookupError(f"{type_text(node.type)} stands where {type_text(type_)} is wanted")
        return self.cast(node, type_)

    def cast(self, node: Node, type_: DataType, lenient: bool = False) -> Node:
        """The node with a cast, done right away for a constant."""
        if node.type is None:
            return Constant(type_, scalar(None, arrow_of(type_)))
        found = Cast(type_, node, self.zone, lenient)
        return self.folded(found) if isinstance(node, Constant) else found

    def parsed_type(self, text: str) -> DataType:
        """The type that a text spells. Raises ExpressionError."""
        parser = Parser(SqlText(text, "expression"), self.zone)
        found = parser.type()
        if parser.peek().kind != "end":
            parser.unexpected("the end of the type")
        return plain(found)

    def folded(self, node: Node) -> Constant:
        """A node without columns as its value."""
        value = node.evaluate(_ONE_ROW)
        return Constant(node.type, value if isinstance(value, pa.Scalar) else value[0])

    def _cast_to(self, cast: CastTo) -> Node:
        child, type_ = self._bind(cast.child), normal(cast.type)
        if child.type is not None and Kind.VARIANT in (child.type.kind, type_.kind):
            from paimon_pyds.sql.expression.variant_functions import cast_variant

            return self._placed(cast, lambda: cast_variant(self, child, type_, cast.lenient))
        if child.type is not None and not can_cast(child.type, type_):
            self.fail(cast, f"a {type_text(child.type)} can't be cast to {type_text(type_)}")
        return child if same(child.type, type_) else self._placed(cast, lambda: self.cast(child, type_, cast.lenient))

    def _placed(self, where: Expression, function: Callable[[], Node]) -> Node:
        try:
            return function()
        except PredicateError as error:
            self._fail_by(where, error)

    def common(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes converted to their common type. Raises LookupError: they have no common type."""
        type_: Type = None
        for node in nodes:
            type_ = common_type(type_, node.type)
        return [self.coerce(node, type_) for node in nodes]

    def condition(self, node: Node) -> Node:
        """The node as a condition. Raises LookupError: it is not a condition."""
        if node.type is None:
            return Constant(tree.BOOLEAN, scalar(None, pa.bool_()))
        if node.type.kind is not Kind.BOOLEAN:
            hint = "; double quotes make a string" if node.type.kind in STRING_KINDS else ""
            raise LookupError(f"a condition is wanted, this is a {type_text(node.type)}{hint}")
        return node

    def plain(self, node: Node) -> Node:
        """The node in its plain type (see `nested.plain`)."""
        return node if node.type is None else self.coerce(node, plain(node.type))

    def body(self, function: Node, types: Sequence[Type]) -> tuple[Node, tuple[str, ...]]:
        """A function of items with types for its parameters, and the names of the columns that its parameters become.
        Raises LookupError: no function, or more parameters; ExpressionError."""
        if not isinstance(function, OpenLambda):
            raise LookupError("a function of items is wanted, such as x -> x > 0")
        parameters = function.written.parameters
        if len(parameters) > len(types):
            raise LookupError(f"its function has {len(parameters)} parameters; {len(types)} at most are given")
        if len({name.casefold() for name in parameters}) < len(parameters):
            raise LookupError("two parameters of its function have the same name")
        names = []
        for _ in parameters:
            self._numbered += 1
            names.append(f"\0{self._numbered}")  # no column has such a name
        given = zip(parameters, types, names, strict=False)
        self._variables.append({p.casefold(): Column(t, name) for p, t, name in given})
        try:
            return self.bind(function.written.body), tuple(names)
        finally:
            self._variables.pop()

    def choice(self, conditions: Sequence[Node | None], given: Sequence[Node]) -> Node:
        """A choice; there is one value more than conditions."""
        found = self.common(given)
        return Choice(found[0].type, tuple(zip(conditions, found, strict=False)), found[-1])

    def _case(self, case: Case) -> Node:
        conditions: list[Node | None] = []
        for condition, _ in case.branches:
            bound = self.bind(condition)
            conditions.append(self._checked(condition, bound))
        given = [self.bind(value) for _, value in case.branches]
        otherwise = Constant(None, scalar(None)) if case.otherwise is None else self.bind(case.otherwise)
        return self.choice(conditions, [*given, otherwise])

    def _checked(self, where: Expression, node: Node) -> Node:
        try:
            return self.condition(node)
        except LookupError as error:
            self.fail(where, str(error.args[0]))

    def _call(self, call: Call) -> Node:
        from paimon_pyds.sql.expression.date_functions import later
        from paimon_pyds.sql.expression.functions import function as function_of
        from paimon_pyds.sql.expression.functions import missing, spelled

        function = function_of(call.function)
        if function is None:
            self.fail(call, *missing(call.function))
        low, high = function.arity
        if not low <= len(call.arguments) <= high:
            wanted = f"{low}" if low == high else f"{low} or more" if high > 1000 else f"{low} to {high}"
            self.fail(call, f"{spelled(call.function)} takes {wanted} arguments, not {len(call.arguments)}")
        moved = moved_by_interval(call)
        arguments = [self.bind(argument) for argument in (call.arguments if moved is None else moved[:1])]
        for argument in arguments if not function.of_items else ():
            if isinstance(argument, OpenLambda):
                self.fail(argument.written, f"{spelled(call.function)} takes no function of items")
        try:
            found = function.resolve(self, arguments) if moved is None else later(self, arguments[0], *moved[1:])
        except LookupError as error:
            self.fail(call, f"{spelled(call.function)}: {error.args[0]}")
        except PredicateError as error:
            self._fail_by(call, error)
        return found

    def call(self, function: str, arguments: list[Node]) -> Node:
        """A function or an operator of bound arguments. Raises LookupError: their types don't fit."""
        from paimon_pyds.sql.expression.functions import function as function_of

        found = function_of(function)
        assert found is not None
        return found.resolve(self, arguments)

    def timestamp(self) -> Constant:
        """CURRENT_TIMESTAMP, one for all expressions of a statement."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        micros = round((self.now - epoch).total_seconds() * 1_000_000)
        return Constant(TIMESTAMP, scalar(micros, arrow_of(TIMESTAMP)))


def _char(type_: DataType) -> int | None:
    """The length of a CHAR; None of other types."""
    return (type_.length or 1) if isinstance(type_, AtomicType) and type_.kind is Kind.CHAR else None


def _field(fields: Sequence[DataField], name: str) -> DataField | None:
    """The field of this name, or else the only one that differs from it in case."""
    found = fields_named(name, fields)
    return found[0] if len(found) == 1 else None
