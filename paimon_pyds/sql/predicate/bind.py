"""Binding: names to columns, literals to the columns' values, with the comparison rules of Spark 4 (ANSI mode)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.types import (
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    arrow_type,
    fields_named,
    scalar_to_internal,
)
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.kinds import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    INTEGER_RANGES,
    NESTED_KINDS,
    REFUSED_KINDS,
    STRING_KINDS,
    Kind,
)
from paimon_pyds.base.zones import default_zone
from paimon_pyds.errors import PredicateError, UnknownColumnError, suggest
from paimon_pyds.sql.predicate.tree import (
    OPPOSITE,
    TEXT_OPS,
    Among,
    And,
    ColumnRef,
    Const,
    Leaf,
    MapKey,
    Op,
    Or,
    Predicate,
    is_deep,
    make_and,
    make_or,
)
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.tree import Literal

MAX_DEPTH = 200
"""How deep ANDs and ORs of a predicate that was put together by hand may be nested."""

_COMPARISONS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})
_KEPT_AS_WRITTEN = _COMPARISONS | {Op.IN, Op.NOT_IN}
_NEGATED = frozenset({Op.NOT_LIKE, Op.NOT_STARTS_WITH, Op.NOT_ENDS_WITH, Op.NOT_CONTAINS})


def bind(predicate: Predicate, fields: Sequence[DataField], *, timezone: str | None = None) -> Predicate:
    """Resolve a tree against a table's columns.

    Args:
        predicate: a tree of the parser, or one whose literals are plain Python values: ``Literal(value, None)`` of str,
            int, float, bool, bytes, Decimal, date, datetime, time, None. A bound tree is bound again by its names: it
            comes back as it is when the columns are the same, and folded to their types when those are others.
        fields: the columns: an exact name wins, then one that differs in case only.
        timezone: zone of texts that are compared with timestamps, and between timestamps with and without a zone.

    Returns:
        A tree that is true for the same rows, whose literals are internal values of the column's type. Comparisons that
        the type decides are folded: ``int_column = 1.5`` is FALSE, ``int_column < 1.5`` is ``int_column <= 1``.

    Raises:
        PredicateError: no such column, types that SQL does not compare, or a literal that is no value of the type.
    """
    if is_deep(predicate, MAX_DEPTH):
        raise PredicateError(f"the condition is nested deeper than {MAX_DEPTH} levels")
    return TableBinder(fields, timezone=timezone).bind(predicate)


class TableBinder:
    """Binds predicates to the columns of one table; the arguments are those of `bind`."""

    def __init__(self, fields: Sequence[DataField], *, timezone: str | None = None) -> None:
        self._zone = timezone or default_zone()
        values.time_zone(self._zone)
        self._fields = fields
        self._columns: dict[tuple[str, tuple[str | MapKey, ...]], ColumnRef] = {}

    def bind(self, predicate: Predicate) -> Predicate:
        """The predicate with names and literals resolved, as by the function `bind`."""
        if isinstance(predicate, Leaf):
            return self._leaf(predicate)
        from paimon_pyds.sql.predicate.disjunction import all_of, any_of

        match predicate:
            case And(children):
                # Every part is bound, for its errors, before any part may decide the whole.
                return all_of(*[self.bind(child) for child in children])
            case Or(children, ranges):
                if ranges is not None and self.column(ranges.column) == ranges.column:
                    return predicate
                return any_of(*[self.bind(child) for child in children])
            case Among():
                return self._among(predicate)
        return predicate

    def _among(self, node: Among) -> Predicate:
        columns = tuple(map(self.column, node.columns))
        if all(map(_are_of_one_type, columns, node.columns)):
            return node if columns == node.columns else Among(columns, node.values, node.levels)
        from paimon_pyds.sql.predicate.among import with_columns

        return with_columns(node, self._retyped)

    def _retyped(self, before: ColumnRef, values: pa.Array) -> tuple[ColumnRef, pa.Array]:
        """Values of a column as those of its type now, NULL for values that this doesn't have."""
        column = self.column(before)
        assert before.type is not None and column.type is not None
        if _are_of_one_type(before, column):
            return column, values
        literals = (Literal(value, before.type) for value in map(scalar_to_internal, values))
        name = ColumnRef(column.name, column.path)
        found = [self.bind(Leaf(Op.EQ, name, (literal,))) for literal in literals]
        if not all(part is Const.FALSE or (isinstance(part, Leaf) and part.op is Op.EQ) for part in found):
            hint = "compare the columns one by one"
            raise PredicateError(
                f"column {column}: rows of {before.type} can't be compared with {column.type}", hint=hint
            )
        equal = [part.literals[0] if isinstance(part, Leaf) else None for part in found]
        return column, array(equal, arrow_type(column.type))

    def column(self, column: ColumnRef) -> ColumnRef:
        """The column with type and field id."""
        found = self._columns.get((column.name, column.path))
        if found is None:
            found = self._columns[column.name, column.path] = self._resolve(column)
        return found

    def _resolve(self, column: ColumnRef) -> ColumnRef:
        field = self._field(column.name, self._fields, "the table")
        name, type_ = field.name, field.type
        refused = type_.refused()
        if refused is not None and (column.path or not _holds_blobs(type_)):
            raise PredicateError(f"column {name} is of type {refused}; conditions on it are not supported")
        path: list[str | MapKey] = []
        for step in column.path:
            at = ColumnRef(name, tuple(path))
            if isinstance(type_, RowType):
                inner = step.key if isinstance(step, MapKey) else step
                if not isinstance(inner, str):
                    raise PredicateError(f"{at} is a ROW; its fields have names, not {inner!r:.100}")
                member = self._field(inner, type_.fields, str(at))
                path.append(member.name)
                type_ = member.type
            elif isinstance(type_, MapType):
                path.append(self._map_key(step, type_.key, at))
                type_ = type_.value
            elif type_.kind is Kind.ARRAY:
                raise PredicateError(
                    f"{at} is an ARRAY; its elements can't be filtered here",
                    hint="apply it after the read with DataFrame.filter",
                )
            else:
                shown = step.key if isinstance(step, MapKey) else step
                raise PredicateError(f"{at} is of type {type_.kind.value}; it has no part {shown!r:.100}")
        return ColumnRef(name, tuple(path), type_, field.id)

    def _field(self, name: str, fields: Sequence[DataField], where: str) -> DataField:
        found = fields_named(name, fields)
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(f.name for f in found)
            what = "there are" if len(found) > 1 else "there is"
            hint = f"names are case-sensitive here; {what} {names}"
            raise UnknownColumnError(f"no column {name!r:.100} in {where}", hint=hint)
        hint = suggest(name[:200], (f.name for f in fields), "it has") or "it has no columns"
        raise UnknownColumnError(f"no column {name!r:.100} in {where}", hint=hint)

    def _map_key(self, step: str | MapKey, type_: DataType, at: ColumnRef) -> MapKey:
        key = step.key if isinstance(step, MapKey) else step
        literal = literal_of(key, step.type if isinstance(step, MapKey) else None)
        if not isinstance(type_, AtomicType) or literal.value is None:
            raise PredicateError(f"the keys of {at} are of type {type_}, they can't be written in a condition")
        stored = tree.STRING if type_.kind is Kind.CHAR else type_
        try:
            equal = self._comparison(Op.EQ, ColumnRef(at.name, at.path, stored), literal)
        except PredicateError as error:
            raise PredicateError(f"keys of {at}: {error.message}", hint=error.hint) from None
        if isinstance(equal, Leaf) and equal.op is Op.EQ:
            return MapKey(equal.literals[0], type_)
        raise PredicateError(f"{literal.value!r:.100} can't be a key of {at}, whose keys are of type {type_}")

    def _leaf(self, leaf: Leaf) -> Predicate:
        column = self.column(leaf.column)
        assert column.type is not None
        kind = column.type.kind
        if leaf.op in (Op.IS_NULL, Op.IS_NOT_NULL):
            return Leaf(leaf.op, column)
        if kind in NESTED_KINDS or kind in (Kind.VARIANT, Kind.BLOB):
            raise PredicateError(
                f"column {column} is of type {kind.value}; only IS NULL and IS NOT NULL apply to it",
                hint="name a field of it (a.b) or a key (m['k'])" if kind in (Kind.ROW, Kind.MAP) else None,
            )
        try:
            if leaf.op in TEXT_OPS:
                return self._text(leaf, column)
            literals = [literal_of(value, leaf.column.type, kind) for value in leaf.literals]
            if not literals:
                raise PredicateError(f"{leaf.op.value} needs a literal")
            if leaf.op is Op.IN or leaf.op is Op.NOT_IN:
                return self._in(leaf.op, column, literals)
            if len(literals) != 1 or leaf.op not in _COMPARISONS:
                raise PredicateError(f"{leaf.op.value} takes one literal, not {len(literals)}")
            return self._comparison(leaf.op, column, literals[0])
        except PredicateError as error:
            if error.message.startswith("column "):
                raise
            raise PredicateError(f"column {column}: {error.message}", hint=error.hint) from None

    def _comparison(self, op: Op, column: ColumnRef, literal: Literal, *, as_double: bool = False) -> Predicate:
        """As `compare` gives it; most literals are values of the column's type, with smaller and larger ones."""
        type_, given, value = column.type, literal.type, literal.value
        if type_ is not None and given is not None and value is not None and not as_double:
            if type_.kind is Kind.VARCHAR and given.kind in STRING_KINDS:
                return Leaf(op, column, (str(value),))
            if type_.kind in INTEGER_KINDS and given.kind in INTEGER_KINDS:
                held = INTEGER_RANGES[type_.kind]
                if held[0] < value < held[-1]:
                    return Leaf(op, column, (value,))
        from paimon_pyds.sql.predicate.compare import compare

        return compare(op, column, literal, self._zone, as_double=as_double)

    def _in(self, op: Op, column: ColumnRef, literals: list[Literal]) -> Predicate:
        """IN as OR of equalities, NOT IN as AND of inequalities; those with one value each are gathered again."""
        values = [literal for literal in literals if literal.value is not None]
        if op is Op.NOT_IN and len(values) < len(literals):
            return Const.UNKNOWN
        type_ = column.type
        assert isinstance(type_, AtomicType)
        if type_.kind is Kind.CHAR and values:
            from paimon_pyds.sql.predicate.compare import bytes_or_text, compare_char

            return compare_char(op, column, [str(bytes_or_text(literal, type_)) for literal in values], type_)
        negated = op is Op.NOT_IN
        plain = _plain_values(values, type_)
        gathered, others = self._compared(op, column, values) if plain is None else (plain, [])
        if gathered:
            ordered = tuple(gathered[key] for key in sorted(gathered))  # type: ignore[type-var]
            single = Op.NE if negated else Op.EQ
            others.insert(0, Leaf(op if len(ordered) > 1 else single, column, ordered))
        if not others:
            return Leaf(Op.IS_NOT_NULL, column) if negated else (Const.FALSE if values else Const.UNKNOWN)
        return make_and(*others) if negated else make_or(*others)

    def _compared(
        self, op: Op, column: ColumnRef, literals: Sequence[Literal]
    ) -> tuple[dict[object, Any], list[Predicate]]:
        """Values that literals of any types stand for, by their order, and conditions for those that are no value."""
        type_ = column.type
        assert isinstance(type_, AtomicType)
        from paimon_pyds.sql.predicate.compare import NUMBERS

        if type_.kind in NUMBERS and any(literal.type and literal.type.kind in STRING_KINDS for literal in literals):
            # One common type for the whole list: BIGINT with texts, DOUBLE as soon as a fraction is among them.
            fractions = FLOAT_KINDS | {Kind.DECIMAL}
            as_double = type_.kind not in INTEGER_KINDS or any(v.type and v.type.kind in fractions for v in literals)
        else:
            as_double = any(literal.type and literal.type.kind in FLOAT_KINDS for literal in literals)
        single = Op.EQ if op is Op.IN else Op.NE
        gathered: dict[object, Any] = {}
        others: list[Predicate] = []
        unequal = Leaf(Op.IS_NOT_NULL, column)
        from paimon_pyds.sql.predicate.disjunction import sort_key

        for literal in literals:
            part = self._comparison(single, column, literal, as_double=as_double and type_.kind in NUMBERS)
            if isinstance(part, Leaf) and part.op is single:
                gathered.setdefault(sort_key(part.literals[0]), part.literals[0])
            elif part is not Const.FALSE and part != unequal:
                others.append(part)
        return gathered, others

    def _text(self, leaf: Leaf, column: ColumnRef) -> Predicate:
        type_ = column.type
        assert type_ is not None
        literal = literal_of(leaf.literals[0], leaf.column.type) if type_.kind in STRING_KINDS else None
        if literal is None or (literal.value is not None and not isinstance(literal.value, str)):
            raise PredicateError(f"{leaf.op.value} compares texts, this column is of type {type_}")
        if literal.value is None:
            return Const.UNKNOWN
        op, text = leaf.op, str(literal.value)
        negated = op in _NEGATED
        if op in (Op.LIKE, Op.NOT_LIKE):
            escape = leaf.literals[1] if len(leaf.literals) > 1 else "\\"
            from paimon_pyds.sql.predicate.like import normal_like

            op, text = normal_like(text, escape)
        elif negated:
            op = OPPOSITE[op]
        if not text and op in (Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS):
            return Const.FALSE if negated else Leaf(Op.IS_NOT_NULL, column)
        literals = (text, "\\") if op is Op.LIKE else (text,)
        return Leaf(OPPOSITE[op] if negated else op, column, literals)


def _are_of_one_type(a: ColumnRef, b: ColumnRef) -> bool:
    return a.type is not None and b.type is not None and a.type.with_nullable(True) == b.type.with_nullable(True)


def _plain_values(literals: Sequence[Literal], type_: AtomicType) -> dict[object, Any] | None:
    """The values of a list of numbers or texts for a column of such; None for others. Lists may be very long."""
    if type_.kind in FLOAT_KINDS:
        return _plain_floats(literals, type_)
    kinds = INTEGER_KINDS if type_.kind in INTEGER_KINDS else STRING_KINDS
    if type_.kind not in kinds or not {literal.type.kind for literal in literals if literal.type} <= kinds:
        return None
    if kinds is STRING_KINDS:
        return {literal.value: literal.value for literal in literals}
    held = INTEGER_RANGES[type_.kind]
    return {literal.value: literal.value for literal in literals if literal.value in held}


def _plain_floats(literals: Sequence[Literal], type_: AtomicType) -> dict[object, Any] | None:
    """As `compare` gives one after the other: a FLOAT column has no value that only a DOUBLE has."""
    from paimon_pyds.sql.predicate.compare import NUMBERS

    if not {literal.type.kind for literal in literals if literal.type} <= NUMBERS:
        return None
    numbers = np.array([float(literal.value) for literal in literals], np.float64) + 0.0  # one zero
    if np.isnan(numbers).any():
        return None
    if type_.kind is Kind.FLOAT:
        with np.errstate(over="ignore"):
            numbers = numbers[numbers.astype(np.float32) == numbers]
    values = numbers.tolist()
    return dict(zip(values, values, strict=True))


def bind_as_written(predicate: Predicate, fields: Sequence[DataField], *, timezone: str | None = None) -> Predicate:
    """Bind, but don't let a type decide a comparison with one of its own values.

    `bind` makes ``int_column <= 2147483647`` an IS NOT NULL, ``bool_column <> TRUE`` an equality, and of a comparison
    with CHAR one with every number of blanks: right for every row, yet other questions to an index. A literal that is
    no value of the column's type is folded here, too.

    ``predicate``: a tree of the parser. ``timezone``: as `bind` takes it.
    Raises PredicateError: as `bind` does.
    """
    match predicate:
        case And(children) | Or(children):
            return type(predicate)(tuple(bind_as_written(c, fields, timezone=timezone) for c in children))
        case Leaf(op, column, literals) if op in _KEPT_AS_WRITTEN:
            plain = [replace(f, type=tree.STRING) if f.type.kind is Kind.CHAR else f for f in fields]
            alone = [bind(Leaf(Op.EQ, column, (literal,)), plain, timezone=timezone) for literal in literals]
            values: list[Any] = [part.literals[0] for part in alone if isinstance(part, Leaf) and part.op is Op.EQ]
            bound = bind(Leaf(Op.IS_NOT_NULL, column), fields)
            if isinstance(bound, Leaf) and len(values) == len(literals):
                return Leaf(op, bound.column, tuple(values))
    return bind(predicate, fields, timezone=timezone)


def literal_of(value: Any, bound_to: DataType | None, compared: Kind | None = None) -> Literal:
    """A literal of a leaf: of the parser, a plain Python value, or an internal value of the type it was bound to.

    ``compared``: with a column of this kind: where it has instants, a datetime without a zone is local time.
    """
    if isinstance(value, Literal) and value.type is not None:
        return value
    if isinstance(bound_to, AtomicType) and not isinstance(value, Literal):
        return internal_literal(value, bound_to)
    from paimon_pyds.sql.text.casts import from_python

    return from_python(value.value if isinstance(value, Literal) else value, compared)


def internal_literal(value: object, type_: AtomicType) -> Literal:
    """The literal that an internal value of a column's type stands for."""
    if type_.kind is Kind.TIME:
        return Literal(value, AtomicType(Kind.TIME, precision=3))
    return Literal(value, type_)


def _holds_blobs(type_: DataType) -> bool:
    """Whether values are BLOBs, or arrays or maps of them: it can be said of them whether they are NULL."""
    return not isinstance(type_, RowType) and type_.refused(REFUSED_KINDS - {Kind.BLOB}) is None
