"""The merge engines partial-update and aggregation, one version at a time.

Java raises as soon as a function can't take back what a row retracts; here only when no delete removes the row later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from support.aggregate_model import Aggregator
from support.engine_model import DELETE, INSERT, KIND, RETRACTS, SEQ, Fold, RefusedError, Row, rank

Functions = Mapping[str, Callable[[], Aggregator]]


@dataclass(frozen=True)
class Group:
    """A sequence group of partial-update."""

    fields: Sequence[str]
    columns: Sequence[str]
    functions: Functions = field(default_factory=dict)
    removes: bool = False

    def age(self, row: Row) -> list[object]:
        return [rank(row[name]) for name in self.fields]

    def is_empty(self, row: Row) -> bool:
        return all(row[name] is None for name in self.fields)


def _retract(
    functions: Mapping[str, Aggregator], name: str, values: tuple[object, object], refused: set[str]
) -> object:
    """What is left of a known value without another; a function that can't tell is noted."""
    try:
        return functions[name].retract(*values)
    except RefusedError:
        refused.add(name)
        return None


def partial_update(
    columns: Sequence[str], *, ignore_delete: bool = False, remove_on_delete: bool = False, groups: Sequence[Group] = ()
) -> Fold:
    """Of each column the newest value that is not NULL, or what its group says."""
    grouped = {name for group in groups for name in (*group.fields, *group.columns)}

    def fold(versions: list[Row]) -> Row | None:
        row: Row = dict.fromkeys(columns)
        functions = {name: make() for group in groups for name, make in group.functions.items()}
        number, added, filled, deleted = 0, False, False, False
        refused: set[str] = set()

        def change(version: Row, group: Group) -> None:
            if group.is_empty(version):
                return
            newest = group.age(version) >= group.age(row)
            for name in group.columns:
                function = functions.get(name)
                if function is not None:
                    row[name] = (function.add if newest else function.add_before)(row[name], version[name])
                elif newest:
                    row[name] = version[name]
            if newest:
                row.update({name: version[name] for name in group.fields})

        def removes(version: Row) -> bool:
            acting = [group for group in groups if group.removes and not group.is_empty(version)]
            return version[KIND] == DELETE and any(group.age(version) >= group.age(row) for group in acting)

        def retract(version: Row) -> None:
            for group in groups:
                if group.is_empty(version):
                    continue
                newest = group.age(version) >= group.age(row)
                for name in group.columns:
                    if name in functions:
                        row[name] = _retract(functions, name, (row[name], version[name]), refused)
                    elif newest:
                        row[name] = None
                if newest:
                    row.update({name: version[name] for name in group.fields})

        for version in versions:
            deleted = False
            if version[KIND] not in RETRACTS:
                for name in columns:
                    if name not in grouped and version[name] is not None:
                        row[name] = version[name]
                for group in groups:
                    change(version, group)
                number, added, filled = version[SEQ], True, True
                continue
            if not filled:
                row, filled = {name: version[name] for name in columns}, True
            if ignore_delete:
                continue
            number = version[SEQ]
            if groups:
                deleted = removes(version)
                if not deleted:
                    retract(version)
            elif remove_on_delete:
                deleted = version[KIND] == DELETE
            else:
                raise RefusedError
            if deleted:
                row = {name: version[name] for name in columns}
                refused.clear()
        if refused:
            raise RefusedError
        return {**versions[0], **row, SEQ: number, KIND: DELETE if deleted or not added else INSERT}

    return fold


def aggregation(functions: Functions, *, remove_on_delete: bool = False) -> Fold:
    """A function for each column."""

    def fold(versions: list[Row]) -> Row | None:
        made = {name: make() for name, make in functions.items()}
        row: Row = dict.fromkeys(functions)
        refused: set[str] = set()
        for version in versions:
            if remove_on_delete and version[KIND] == DELETE:
                row = {name: version[name] for name in functions}
                refused.clear()
                continue
            for name, function in made.items():
                if version[KIND] in RETRACTS:
                    row[name] = _retract(made, name, (row[name], version[name]), refused)
                else:
                    row[name] = function.add(row[name], version[name])
        if refused:
            raise RefusedError
        last = versions[-1]
        deleted = remove_on_delete and last[KIND] == DELETE
        return {**last, **row, KIND: DELETE if deleted else INSERT}

    return fold
