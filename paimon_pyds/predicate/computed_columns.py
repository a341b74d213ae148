"""Very many conditions on computed values that are joined by OR: ``lower(s) LIKE 'a%' OR lower(s) LIKE 'b%' OR …``.

Each value is computed once for a batch, and is a column then: what is done for very many conditions on columns
(`paimon_pyds.predicate.long_ors`, `disjunction`) is done for these, too. Statistics and indexes see what the conditions
ask of the table's own columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from paimon_pyds.buffers import one_array
from paimon_pyds.errors import ExpressionError
from paimon_pyds.predicate.bind import TableBinder
from paimon_pyds.predicate.disjunction import any_of
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.ranges import MANY
from paimon_pyds.predicate.tree import (
    And,
    Leaf,
    Or,
    Predicate,
    make_and,
    make_computed,
    relaxed,
    root_columns,
)
from paimon_pyds.sql.tree import Call, CastTo, Expression, Item, Name, Value, names
from paimon_pyds.types import DataField, DataType, arrow_type
from paimon_pyds.types.kinds import INTEGER_KINDS, Kind

_NEVER_FAILING = {
    "upper", "lower", "trim", "ltrim", "rtrim", "btrim", "length", "substr", "substring", "reverse", "concat", "||",
}  # fmt: skip
_JOINED = ("AND", "OR")
_TESTS = {"=", "<", "<=", ">", ">=", "in", "like", "startswith", "endswith", "contains"}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class ComputedColumns:
    """Conditions of one form, on columns of their own in the place of computed values.

    Attributes:
        fields: these columns.
        values: what each of them is computed from.
        parts: the conditions.
        written: the conditions as they are written.
    """

    fields: tuple[DataField, ...]
    values: tuple[Expression, ...]
    parts: Sequence[Expression]
    written: Sequence[Expression]

    def binder(self, fields: Sequence[DataField], timezone: str) -> TableBinder:
        """What binds the conditions, given the table's columns."""
        return TableBinder([*fields, *self.fields], timezone=timezone)

    def joined(self, parts: Sequence[Predicate], bound: Callable[[Expression], Any]) -> Predicate:
        """The OR of the conditions, once they are bound, on the table's columns.

        ``parts``: the bound conditions. ``bound``: gives what evaluates an expression: an object with ``columns``,
        ``text`` and ``evaluate``.
        """
        predicate, evaluators = any_of(*parts), [bound(value) for value in self.values]
        own = {made.name for made in self.fields}
        of_table = [name for name in root_columns(predicate) if name not in own]
        arrays = tuple((f.name, e, arrow_type(f.type)) for f, e in zip(self.fields, evaluators, strict=True))
        in_turn = () if all(map(_never_fails, self.values)) else tuple(parts)
        condition = _OnComputed(arrays, tuple(of_table), predicate, in_turn)
        columns = chain(of_table, *(evaluator.columns for evaluator in evaluators))
        text = f"{', '.join(evaluator.text for evaluator in evaluators)}: one of {len(self.parts):,} conditions"
        asked = relaxed(predicate, lambda part: isinstance(part, Leaf) and part.column.name not in own)
        return make_and(asked, make_computed(text, columns, condition))


@dataclass(frozen=True)
class _OnComputed:
    """A predicate on computed values and on columns.

    Attributes:
        values: of each computed value the name of its column, what evaluates it, and its type.
        columns: the columns of the table that the predicate needs.
        predicate: on both.
        parts: the conditions that it is made of, where computing a value may fail.
    """

    values: tuple[tuple[str, Any, pa.DataType], ...]
    columns: tuple[str, ...]
    predicate: Predicate
    parts: tuple[Predicate, ...] = ()

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether it is true, per row; values that can't be computed fail where a condition asks for them only."""
        try:
            return self._matches(batch)
        except ExpressionError:
            if not self.parts:
                raise
        asked_late = Or(tuple(self._computed_late(part) for part in self.parts))
        return one_array(matches(asked_late, batch))

    def _matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        arrays = {name: batch.column(name) for name in self.columns}
        for name, evaluator, type_ in self.values:
            found = one_array(evaluator.evaluate(batch))
            arrays[name] = found if found.type == type_ else found.cast(type_)
        found = matches(self.predicate, pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)))
        return one_array(found)

    def _computed_late(self, part: Predicate) -> Predicate:
        """A condition whose values are computed for those rows only that the rest of it leaves."""
        if isinstance(part, And | Or):
            return type(part)(tuple(self._computed_late(child) for child in part.children))
        values = tuple(value for value in self.values if isinstance(part, Leaf) and value[0] == part.column.name)
        if not values:
            return part
        columns = tuple(name for _, evaluator, _ in values for name in evaluator.columns)
        return make_computed(str(part), columns, _OnComputed(values, (), part))


def with_computed_columns(
    parts: Sequence[Expression], of_type: Callable[[Expression], DataType | None]
) -> list[Expression | ComputedColumns]:
    """Conditions joined by OR, with those on the same computed values, where there are very many, as one in the place
    of the first of them.

    ``of_type``: the type of a value; None where it has none.
    """
    columns = _Columns()
    forms: dict[frozenset[str], list[tuple[Expression, Expression]]] = defaultdict(list)
    for part in parts:
        made = columns.rewritten(part)
        forms[columns.used_by(made)].append((part, made or part))
    groups: dict[int, ComputedColumns] = {}
    for used, members in forms.items():
        fields = columns.fields(used, of_type) if used and len(members) > MANY else None
        if fields is not None:
            values = tuple(columns.values[made.name] for made in fields)
            group = ComputedColumns(fields, values, [new for _, new in members], [part for part, _ in members])
            groups.update((id(part), group) for part, _ in members)
    found: list[Expression | ComputedColumns] = []
    for part in parts:
        grouped = groups.get(id(part))
        if grouped is None:
            found.append(part)
        elif part is grouped.written[0]:
            found.append(grouped)
    return found


class _Columns:
    """Columns for computed values, as these are found: ``values`` by the columns' names."""

    def __init__(self) -> None:
        self.values: dict[str, Expression] = {}
        self._names: dict[Expression, str] = {}
        self._kinds: dict[str, set[Kind | None]] = defaultdict(set)  # of what each is compared with

    def used_by(self, part: Expression | None) -> frozenset[str]:
        """The names of the columns that a condition uses."""
        return frozenset(() if part is None else self.values.keys() & {name.parts[0] for name in names(part)})

    def fields(
        self, used: Iterable[str], of_type: Callable[[Expression], DataType | None]
    ) -> tuple[DataField, ...] | None:
        """These columns with their types; None where one is no number and no text, or compared with another type."""
        found = []
        for number, name in enumerate(sorted(used)):
            type_ = of_type(self.values[name])
            if type_ is None or not all(kind and _alike(type_.kind, kind) for kind in self._kinds[name]):
                return None
            found.append(DataField(-1 - number, name, type_))
        return tuple(found)

    def rewritten(self, part: Expression) -> Expression | None:
        """A condition with columns in the place of computed values; None where it can't be."""
        if not isinstance(part, Call) or not part.arguments:
            return None
        if part.function in _JOINED:
            arguments = [self.rewritten(argument) for argument in part.arguments]
            if None in arguments:
                return None
            return Call(part.function, tuple(a for a in arguments if a), start=part.start, stop=part.stop)
        left, *right = part.arguments
        function = part.function
        if isinstance(left, Value) and len(right) == 1 and function in _FLIPPED:
            (left,), right, function = right, [left], _FLIPPED[function]
        if function not in _TESTS or not right or not all(isinstance(value, Value) for value in right):
            return None
        if isinstance(left, Call | CastTo):
            if next(names(left), None) is None:  # the same in each row
                return None
            name = self._names.setdefault(left, f"\0computed {len(self._names)}")
            self.values[name] = left
            types = (value.literal.type for value in right if isinstance(value, Value))
            self._kinds[name].update(None if type_ is None else type_.kind for type_ in types)
            left = Name((name,), start=left.start, stop=left.stop)
        elif not isinstance(left, Name | Item):
            return None
        return Call(function, (left, *right), start=part.start, stop=part.stop)


def _alike(a: Kind, b: Kind) -> bool:
    """Whether values of two types are compared alike as a column's and as computed ones."""
    return (a in INTEGER_KINDS and b in INTEGER_KINDS) or (a is Kind.VARCHAR and b is Kind.VARCHAR)


def _never_fails(value: Expression) -> bool:
    calls = isinstance(value, Call) and value.function in _NEVER_FAILING and all(map(_never_fails, value.arguments))
    return calls or isinstance(value, Name | Value)
