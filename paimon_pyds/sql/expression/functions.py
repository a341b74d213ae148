"""The functions and operators that expressions know, and how their arguments are typed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.types import ArrayType, AtomicType, DataType, MapType, RowType, arrow_type
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, Kind
from paimon_pyds.sql.expression import operators
from paimon_pyds.sql.expression.coercion import NUMBERS, VOID, as_decimal, decimal_result
from paimon_pyds.sql.expression.date_functions import DATE_FUNCTIONS
from paimon_pyds.sql.expression.nodes import (
    ANY,
    Apply,
    Column,
    Constant,
    Function,
    Logic,
    Node,
    Part,
    Resolve,
    has_kind,
    has_map,
    type_text,
)
from paimon_pyds.sql.expression.number_functions import NUMBER_FUNCTIONS
from paimon_pyds.sql.expression.text_functions import TEXT_FUNCTIONS
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.intervals import INTERVAL

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder


WORDS = frozenset({"AND", "OR", "NOT", "in", "div", INTERVAL})
"""Operators that are words."""


def spelled(name: str) -> str:
    """A function as errors name it."""
    return {"negative": "-", "isnull": "IS NULL"}.get(name, name)


def _arithmetic(operator: str) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        if operator in ("+", "-") and (moved := _date_arithmetic(binder, operator, arguments)) is not None:
            return moved
        a, b = (_number(binder, node, other) for node, other in zip(arguments, reversed(arguments), strict=True))
        kinds = {node.type.kind for node in (a, b) if node.type is not None}
        if Kind.DECIMAL in kinds and not kinds & FLOAT_KINDS:
            return _decimals(binder, operator, a, b)
        if operator == "/":
            a, b = (binder.coerce(node, tree.DOUBLE) for node in (a, b))
            return Apply(tree.DOUBLE, operators.divide, (a, b))
        a, b = binder.common([a, b])
        if a.type is None:
            a, b = binder.coerce(a, tree.DOUBLE), binder.coerce(b, tree.DOUBLE)
        return Apply(a.type, operators.math, (a, b), (operator,))

    return resolve


def _date_arithmetic(binder: Binder, operator: str, arguments: list[Node]) -> Node | None:
    """Date + days, days + date, date - days; None when no operand is a date."""
    a, b = arguments
    if operator == "+" and b.type is not None and b.type.kind is Kind.DATE:
        a, b = b, a
    if a.type is None or a.type.kind is not Kind.DATE:
        return None
    if b.type is not None and b.type.kind not in INTEGER_KINDS:
        raise LookupError(f"whole days are wanted, not a {type_text(b.type)}; for two dates there is datediff")
    return DATE_FUNCTIONS["date_add" if operator == "+" else "date_sub"].resolve(binder, [a, b])


def _number(binder: Binder, node: Node, other: Node) -> Node:
    """An operand of arithmetic; a text becomes BIGINT if the other operand is an integer, else DOUBLE."""
    if node.type is None:
        return node
    if node.type.kind in STRING_KINDS:
        integers = other.type is not None and other.type.kind in INTEGER_KINDS
        return binder.cast(node, tree.LONG if integers else tree.DOUBLE)
    if node.type.kind not in NUMBERS:
        raise LookupError(f"a number is wanted, not a {type_text(node.type)}")
    return node


def _decimals(binder: Binder, operator: str, a: Node, b: Node) -> Node:
    a, b = (_as_decimal(binder, node, other) for node, other in ((a, b), (b, a)))
    assert isinstance(a.type, AtomicType) and isinstance(b.type, AtomicType)
    result = decimal_result(operator, a.type, b.type)
    return Apply(result, operators.decimal_math, (a, b), (operator, a.type, b.type, result))


def _as_decimal(binder: Binder, node: Node, other: Node) -> Node:
    if node.type is None:
        return binder.coerce(node, other.type)
    literal = node.literal if isinstance(node, Constant) else None
    return binder.cast(node, as_decimal(node.type, literal)) if node.type.kind is not Kind.DECIMAL else node


def _integer_divide(binder: Binder, arguments: list[Node]) -> Node:
    a, b = (_number(binder, node, other) for node, other in zip(arguments, reversed(arguments), strict=True))
    for node in (a, b):
        if node.type is not None and node.type.kind in FLOAT_KINDS:
            raise LookupError(f"an integer is wanted, not a {type_text(node.type)}")
    if any(node.type is not None and node.type.kind is Kind.DECIMAL for node in (a, b)):
        a, b = (_as_decimal(binder, node, other) for node, other in ((a, b), (b, a)))
        assert isinstance(a.type, AtomicType) and isinstance(b.type, AtomicType)
        whole = AtomicType(Kind.DECIMAL, precision=38, scale=0)
        divided = Apply(whole, operators.decimal_math, (a, b), ("div", a.type, b.type, whole))
        return binder.cast(divided, tree.LONG)
    a, b = (binder.coerce(node, tree.LONG) for node in (a, b))
    return Apply(tree.LONG, operators.integer_divide, (a, b))


def _negative(binder: Binder, arguments: list[Node]) -> Node:
    node = _number(binder, arguments[0], arguments[0])
    return node if node.type is None else Apply(node.type, operators.negative, (node,))


def _bits(operator: str) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        given = binder.common(arguments)
        type_ = given[0].type
        if type_ is not None and type_.kind not in INTEGER_KINDS:
            raise LookupError(f"integers are wanted, not {type_text(type_)}")
        return Apply(type_, operators.bitwise, tuple(given), (operator,))

    return resolve


def char_length(nodes: Sequence[Node]) -> int | None:
    """The n of the longest CHAR(n) column among texts that are compared; None if no operand is one."""
    return max((n.char for n in nodes if isinstance(n, Column | Part) and n.char is not None), default=None)


def without_blanks(binder: Binder, nodes: Sequence[Node]) -> list[Node]:
    """Texts without the blanks at their end."""
    bare = [Apply(node.type, pc.utf8_rtrim, (node,), (" ",)) for node in nodes]
    return [binder.folded(b) if isinstance(n, Constant) else b for n, b in zip(nodes, bare, strict=True)]


def _comparison(operator: str) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        a, b = _comparable(binder, arguments)
        if a.type is None:
            return Constant(tree.BOOLEAN, scalar(True if operator == "<=>" else None, pa.bool_()))
        if not isinstance(a.type, AtomicType):
            return _nested_comparison(operator, a, b)
        length = char_length((a, b))
        if length is not None:
            a, b = without_blanks(binder, (a, b))
            if operator not in ("=", "<>", "<=>"):
                return Apply(tree.BOOLEAN, operators.compare_padded, (a, b), (operator, length))
        if operator == "<=>":
            return Apply(tree.BOOLEAN, operators.null_safe, (a, b))
        return Apply(tree.BOOLEAN, operators.compare, (a, b), (operator,))

    return resolve


def _nested_comparison(operator: str, a: Node, b: Node) -> Node:
    """Of arrays and rows, which have no order here; maps can't be compared, in Spark neither."""
    from paimon_pyds.sql.expression.lists import compare_nested

    assert a.type is not None
    if operator not in ("=", "<>", "<=>") or has_map(a.type):
        raise LookupError(f"values of type {type_text(a.type)} can't be compared by it")
    return Apply(tree.BOOLEAN, compare_nested, (a, b), (operator,))


def _comparable(binder: Binder, arguments: Sequence[Node]) -> list[Node]:
    """Two operands in their common type; decimals stay as exact as they are."""
    _refuse_variants(arguments)
    kinds = [node.type.kind if node.type is not None else None for node in arguments]
    if Kind.DECIMAL in kinds and all(kind in INTEGER_KINDS or kind is Kind.DECIMAL for kind in kinds):
        return [_as_decimal(binder, node, node) for node in arguments]
    return binder.common(arguments)


def _refuse_variants(arguments: Sequence[Node]) -> None:
    if any(node.type is not None and has_kind(node.type, Kind.VARIANT) for node in arguments):
        raise LookupError("values of VARIANT can't be compared; take a part with a type: variant_get(v, '$.a', 'int')")


def _in(binder: Binder, arguments: list[Node]) -> Node:
    """IN: all values have one common type, as in Spark; NULL among them makes what is not found unknown."""
    _refuse_variants(arguments)
    given = binder.common(arguments)
    type_ = given[0].type
    if type_ is None:
        return Constant(tree.BOOLEAN, scalar(None, pa.bool_()))
    if not isinstance(type_, AtomicType):
        same = [_nested_comparison("=", given[0], item) for item in given[1:]]
        return Logic(tree.BOOLEAN, tuple(same), False) if len(same) > 1 else same[0]
    if char_length(given) is not None:
        given = without_blanks(binder, given)
    listed = [item.value for item in given[1:] if isinstance(item, Constant)]
    if len(listed) < len(given) - 1 or type_.kind in FLOAT_KINDS:
        parts = [Apply(tree.BOOLEAN, operators.compare, (given[0], item), ("=",)) for item in given[1:]]
        return Logic(tree.BOOLEAN, tuple(parts), False) if len(parts) > 1 else parts[0]
    values = array([value.as_py() for value in listed if value.is_valid], arrow_type(type_))
    return Apply(tree.BOOLEAN, operators.among, (given[0],), (values, len(values) < len(listed)))


def _typeof(binder: Binder, arguments: list[Node]) -> Node:
    return binder.literal(tree.Literal(spark_name(arguments[0].type), tree.STRING))


def spark_name(type_: DataType | None) -> str:
    """A type as Spark's TYPEOF spells it."""
    match type_:
        case None:
            return "void"
        case _ if type_ == VOID:
            return "void"
        case ArrayType(element=element):
            return f"array<{spark_name(element)}>"
        case MapType(key=key, value=value):
            return f"map<{spark_name(key)},{spark_name(value)}>"
        case RowType(fields=fields):
            return f"struct<{','.join(f'{field.name}:{spark_name(field.type)}' for field in fields)}>"
    kind = type_.kind
    if kind in STRING_KINDS:
        return "string"
    if kind is Kind.DECIMAL and isinstance(type_, AtomicType):
        return f"decimal({type_.precision},{type_.scale})"
    if kind in BINARY_KINDS:
        return "binary"
    return {Kind.TIMESTAMP: "timestamp_ntz", Kind.TIMESTAMP_LTZ: "timestamp"}.get(kind, kind.value.lower())


def _zero_if_null(binder: Binder, arguments: list[Node]) -> Node:
    return _coalesce(binder, [*arguments, binder.literal(tree.integer(0))])


def _null_if_zero(binder: Binder, arguments: list[Node]) -> Node:
    return _nullif(binder, [*arguments, binder.literal(tree.integer(0))])


def _logic(every: bool) -> Resolve:
    return lambda binder, arguments: Logic(tree.BOOLEAN, tuple(map(binder.condition, arguments)), every)


def _null_test(kernel: Callable[[pa.Array], pa.Array]) -> Resolve:
    return lambda binder, arguments: Apply(tree.BOOLEAN, kernel, tuple(arguments))


def _coalesce(binder: Binder, arguments: list[Node]) -> Node:
    return binder.choice([None] * (len(arguments) - 1), arguments) if len(arguments) > 1 else arguments[0]


def _nullif(binder: Binder, arguments: list[Node]) -> Node:
    equal = _comparison("=")(binder, arguments)
    return binder.choice([equal], [Constant(None, scalar(None)), arguments[0]])


def _extreme(operator: str) -> Resolve:
    """Greatest and least, which pass over NULL."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        given = binder.common(arguments)
        return Apply(given[0].type, operators.extreme, tuple(given), (operator,)) if given[0].type else given[0]

    return resolve


def _with_unit(name: str, of_unit: str) -> Function:
    """A function of two arguments that takes a unit of time before them as well."""
    plain = DATE_FUNCTIONS[name].resolve
    return Function(
        (2, 3), lambda binder, given: plain(binder, given) if len(given) == 2 else binder.call(of_unit, given)
    )


FUNCTIONS: dict[str, Function] = {
    **{operator: Function((2, 2), _arithmetic(operator)) for operator in ("+", "-", "*", "/", "%")},
    "div": Function((2, 2), _integer_divide),
    "negative": Function((1, 1), _negative),
    "positive": Function((1, 1), lambda binder, given: _number(binder, given[0], given[0])),
    **{operator: Function((2, 2), _bits(operator)) for operator in ("&", "|", "^")},
    "~": Function((1, 1), _bits("~")),
    **{operator: Function((2, 2), _comparison(operator)) for operator in ("=", "<>", "<", "<=", ">", ">=", "<=>")},
    "in": Function((2, ANY), _in),
    "AND": Function((2, ANY), _logic(True)),
    "OR": Function((2, ANY), _logic(False)),
    "NOT": Function((1, 1), lambda binder, given: Apply(tree.BOOLEAN, pc.invert, (binder.condition(given[0]),))),
    "isnull": Function((1, 1), _null_test(pc.is_null)),
    "isnotnull": Function((1, 1), _null_test(pc.is_valid)),
    "coalesce": Function((1, ANY), _coalesce),
    "nvl": Function((2, 2), _coalesce),
    "if": Function((3, 3), lambda binder, given: binder.choice([binder.condition(given[0])], given[1:])),
    "nullif": Function((2, 2), _nullif),
    "zeroifnull": Function((1, 1), _zero_if_null),
    "nullifzero": Function((1, 1), _null_if_zero),
    "equal_null": Function((2, 2), _comparison("<=>")),
    "typeof": Function((1, 1), _typeof),
    "nvl2": Function(
        (3, 3), lambda binder, given: binder.choice([Apply(tree.BOOLEAN, pc.is_valid, (given[0],))], given[1:])
    ),
    "greatest": Function((2, ANY), _extreme(">")),
    "least": Function((2, ANY), _extreme("<")),
    **TEXT_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    **DATE_FUNCTIONS,
    "date_add": _with_unit("date_add", "timestampadd"),
    "datediff": _with_unit("datediff", "timestampdiff"),
}
OTHER_NAMES = {
    "mod": "%", "ifnull": "nvl", "ucase": "upper", "lcase": "lower", "substr": "substring", "position": "locate",
    "sha": "sha1", "signum": "sign", "ceiling": "ceil", "char": "chr", "bit_get": "getbit",
    "pow": "power", "dateadd": "date_add", "date_diff": "datediff", "curdate": "current_date",
    "now": "current_timestamp", "cardinality": "size", "reduce": "aggregate", "regexp": "rlike",
    "regexp_like": "rlike", "to_timestamp_ltz": "to_timestamp",
}  # fmt: skip
"""What functions are called as well."""


def function(name: str) -> Function | None:
    """The function of a name in lower case, or the operator of a sign or word; None if it is unknown."""
    name = OTHER_NAMES.get(name, name)
    return FUNCTIONS.get(name) or _more().get(name)


def all_functions() -> dict[str, Function]:
    """All functions and operators by their names, other names included."""
    own = {**FUNCTIONS, **_more()}
    return {**own, **{other: own[name] for other, name in OTHER_NAMES.items()}}


def _more() -> dict[str, Function]:
    from paimon_pyds.sql.expression.rare_functions import RARE_FUNCTIONS

    return RARE_FUNCTIONS


def missing(name: str) -> tuple[str, str]:
    """Message and hint of an error: there is no function of this name."""
    known = [known for known in all_functions() if known.isidentifier() and known not in WORDS]
    close = difflib.get_close_matches(name[:100], known, n=3)
    begin = f"did you mean {' or '.join(close)}? " if close else ""
    return f"the function {name} is not known here", f"{begin}docs/functions.md lists all functions"
