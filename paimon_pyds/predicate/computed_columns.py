"""Very many conditions on computed values that are joined by OR: ``lower(s) LIKE 'a%' OR lower(s) LIKE 'b%' OR …``.

Each value is computed once for a batch, and is a column then: what is done for very many conditions on columns
(`paimon_pyds.predicate.long_ors`, `disjunction`) is done for these, too. Statistics and indexes see what the conditions
ask of the table's own columns.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa

from paimon_pyds.buffers import one_array
from paimon_pyds.predicate.bind import TableBinder
from paimon_pyds.predicate.disjunction import MANY, any_of
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.tree import Computed, Leaf, Predicate, make_and, relaxed, root_columns
from paimon_pyds.sql.tree import Call, CastTo, Expression, Item, Name, Value, names
from paimon_pyds.types import DataField, DataType, arrow_type
from paimon_pyds.types.kinds import INTEGER_KINDS, Kind

_NEVER_FAILING = {
    "upper", "lower", "trim", "ltrim", "rtrim", "btrim", "length", "substr", "substring", "reverse", "concat", "||",
}  # fmt: skip
_JOINED = ("AND", "OR")
_TESTS = {"=", "<", "<=", ">", ">=", "in", "like", "startswith", "endswith", "contains"}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass
class ComputedColumns:
    """Conditions of one form, on columns of their own in the place of computed values.

    Attributes:
        fields: these columns.
        parts: the conditions.
        written: the conditions as they are written.
    """

    fields: tuple[DataField, ...]
    values: tuple[Expression, ...]
    parts: list[Expression] = field(default_factory=list)
    written: list[Expression] = field(default_factory=list)

    def binder(self, fields: Sequence[DataField], timezone: str) -> TableBinder:
        """What binds the conditions, given the table's columns."""
        return TableBinder([*fields, *self.fields], timezone=timezone)

    def joined(self, parts: Sequence[Predicate], bound: Callable[[Expression], Any]) -> Predicate:
        """The OR of the conditions, once they are bound, on the table's columns.

        Args:
            parts: the bound conditions.
            bound: gives what evaluates an expression: an object with ``columns``, ``text`` and ``evaluate``.
        """
        predicate, evaluators = any_of(*parts), [bound(value) for value in self.values]
        own = {made.name for made in self.fields}
        of_table = [name for name in root_columns(predicate) if name not in own]
        arrays = tuple((f.name, e, arrow_type(f.type)) for f, e in zip(self.fields, evaluators, strict=True))
        condition = _OnComputed(arrays, tuple(of_table), predicate)
        columns = dict.fromkeys(chain(of_table, *(evaluator.columns for evaluator in evaluators)))
        digest = hashlib.sha256(pickle.dumps(condition)).hexdigest()[:32]
        text = f"{', '.join(evaluator.text for evaluator in evaluators)}: one of {len(self.parts):,} conditions"
        asked = relaxed(predicate, lambda part: isinstance(part, Leaf) and part.column.name not in own)
        return make_and(asked, Computed(text, tuple(columns), digest, condition))


@dataclass(frozen=True)
class _OnComputed:
    """A predicate on computed values, each the name of its column, what evaluates it, and its type; and on columns."""

    values: tuple[tuple[str, Any, pa.DataType], ...]
    columns: tuple[str, ...]
    predicate: Predicate

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether it is true, per row."""
        arrays = {name: batch.column(name) for name in self.columns}
        for name, evaluator, type_ in self.values:
            found = one_array(evaluator.evaluate(batch))
            arrays[name] = found if found.type == type_ else found.cast(type_)
        found = matches(self.predicate, pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)))
        return one_array(found)


def with_computed_columns(
    parts: Sequence[Expression], of_type: Callable[[Expression], DataType | None]
) -> tuple[list[Expression], list[ComputedColumns]]:
    """Conditions joined by OR: those that stay as they are, and those on the same computed values where there are very
    many. Where a condition has several parts, these values can't fail: which part is asked first is the same then.

    Args:
        parts: the conditions.
        of_type: the type of a value; None where it has none.
    """
    columns = _Columns(of_type)
    forms: dict[frozenset[str], list[tuple[Expression, Expression]]] = defaultdict(list)
    for part in parts:
        forms[columns.used_by(made := columns.rewritten(part))].append((part, made or part))
    others: list[Expression] = []
    found: list[ComputedColumns] = []
    for used, members in forms.items():
        if not used or len(members) <= MANY:
            others += [part for part, _ in members]
            continue
        of_form = [(f, value) for value, f in columns.found.items() if f is not None and f.name in used]
        group = ComputedColumns(tuple(f for f, _ in of_form), tuple(value for _, value in of_form))
        group.written, group.parts = [part for part, _ in members], [new for _, new in members]
        found.append(group)
    return others, found


class _Columns:
    """Columns for computed values, as these are found."""

    def __init__(self, of_type: Callable[[Expression], DataType | None]) -> None:
        self._type_of = of_type
        self.found: dict[Expression, DataField | None] = {}

    def used_by(self, part: Expression | None) -> frozenset[str]:
        """The names of the columns that a condition uses; none where it has parts and one of them may fail."""
        if part is None:
            return frozenset()
        used = {name.parts[0] for name in names(part)}
        made = {f.name: value for value, f in self.found.items() if f is not None and f.name in used}
        alone = len(used) == 1
        return frozenset(made) if alone or all(map(_never_fails, made.values())) else frozenset()

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
        literals = [value.literal for value in right if isinstance(value, Value)]
        if isinstance(left, Call | CastTo):
            column = self._column(left)
            if column is None or not all(one.type and _alike(column.type.kind, one.type.kind) for one in literals):
                return None
            left = Name((column.name,), start=left.start, stop=left.stop)
        elif not isinstance(left, Name | Item):
            return None
        return Call(function, (left, *right), start=part.start, stop=part.stop)

    def _column(self, value: Expression) -> DataField | None:
        """The column of a value; None where it has none, as it is no number and no text, or the same in each row."""
        if value not in self.found:
            type_ = self._type_of(value) if next(names(value), None) is not None else None
            fits = type_ is not None and (type_.kind in INTEGER_KINDS or type_.kind is Kind.VARCHAR)
            number = len(self.found)
            self.found[value] = DataField(-1 - number, f"\0computed {number}", type_) if type_ and fits else None
        return self.found[value]


def _alike(a: Kind, b: Kind) -> bool:
    """Whether values of two types, the first of a column, are compared alike as a column's and as computed ones."""
    return b in INTEGER_KINDS if a in INTEGER_KINDS else b is Kind.VARCHAR


def _never_fails(value: Expression) -> bool:
    calls = isinstance(value, Call) and value.function in _NEVER_FAILING and all(map(_never_fails, value.arguments))
    return calls or isinstance(value, Name | Value)
