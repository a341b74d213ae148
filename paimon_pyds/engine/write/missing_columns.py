"""Columns that rows are written without: whether NULL, which stands for them, takes the place of values.

It does where the merge engine replaces whole rows (deduplicate), keeps them for good (first-row), takes NULL for a
value like all others (aggregation, by function), or changes columns together (sequence groups of partial-update). Such
rows are refused, unless the write says ``missing-columns=null``. Deletes need no values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.absent_fields import LeftOut
from paimon_pyds.base.arrays import is_true
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import OptionError, SchemaError, columns_text
from paimon_pyds.keys.merge.key_values import is_retract

if TYPE_CHECKING:
    from paimon_pyds.engine.write.context import WriteContext

MISSING_COLUMNS = "missing-columns"
"""An option of a write: ``null`` or ``refuse``."""
_HINT = f"give {{}}; or write NULL: {MISSING_COLUMNS}=null"


def choice(options: Mapping[str, str]) -> str | None:
    """What a write says of missing columns: ``null``, ``refuse``, or None. Raises OptionError."""
    given = options.get(MISSING_COLUMNS)
    said = None if given is None else given.strip().lower()
    if said not in (None, "null", "refuse"):
        raise OptionError(f"{MISSING_COLUMNS} is null or refuse, not {given!r:.100}")
    return said


@dataclass(frozen=True, slots=True)
class _Replaced:
    """Why NULL must not stand for a column. ``fields``: only in rows where one of these has a value; None for all."""

    why: str
    fields: tuple[str, ...] | None = None


class MissingColumns:
    """Refuses rows without columns that would lose values by it.
    Raises OptionError: the option has another value."""

    def __init__(self, context: WriteContext) -> None:
        said = choice(context.raw_options)
        self._table = context.root
        self._replaced: Mapping[str, _Replaced] = {}
        self._members: frozenset[str] = frozenset()
        if said == "refuse":
            names = context.schema.field_names
            self._replaced = dict.fromkeys(names, _Replaced(f"and {MISSING_COLUMNS} is refuse"))
            self._members = frozenset(names)
        elif said is None and context.schema.primary_keys:
            self._replaced, self._members = _replaced_columns(context)

    def check_names(self, missing: Sequence[str]) -> None:
        """Refuse rows before they arrive. ``missing``: columns without a default that no row has.
        Raises SchemaError."""
        refused = [name for name in missing if name in self._replaced and self._replaced[name].fields is None]
        if refused:
            raise self._refused(refused, None)

    def check(self, rows: pa.RecordBatch, missing: Sequence[str], left_out: LeftOut, kinds: pa.Array | None) -> None:
        """Refuse rows that are to be written.

        Args:
            rows: with the table's columns.
            missing: columns without a default that no row has.
            left_out: the rows that leave out a column, by the table's names of columns; no columns with a default.
            kinds: of rows, as numbers; None where all are added.

        Raises:
            SchemaError: NULL would take the place of values; ``row`` is the first such row, where others have them.
        """
        if not self._replaced or not (missing or left_out):
            return
        added = np.ones(rows.num_rows, np.bool_) if kinds is None else ~is_retract(kinds)
        first: dict[str, int] = {}
        for name in missing:
            self._note(first, name, added & self._counts(rows, name))
        for path, numbers in left_out.items():
            lacking = np.zeros(rows.num_rows, np.bool_)
            lacking[numbers] = True
            if len(path) == 1:
                self._note(first, path[0], added & lacking & self._counts(rows, path[0]))
            elif path[0] in self._members:
                self._note(first, ".".join(path), added & lacking)
        if first:
            row = min(first.values())
            raise self._refused([*first], None if first.keys() <= set(missing) and row == 0 else row)

    @staticmethod
    def _note(first: dict[str, int], name: str, refused: np.ndarray) -> None:
        if refused.any():
            first[name] = int(np.argmax(refused))

    def _counts(self, rows: pa.RecordBatch, name: str) -> np.ndarray:
        """Of each row whether NULL in a column would replace a value."""
        found = self._replaced.get(name)
        if found is None or found.fields is None:
            return np.full(rows.num_rows, found is not None)
        valid = [is_true(rows.column(field).is_valid()) for field in found.fields]
        return np.asarray(np.logical_or.reduce(valid))

    def _refused(self, names: Sequence[str], row: int | None) -> SchemaError:
        found = self._replaced.get(names[0]) or _Replaced("and NULL would replace values of keys that are there")
        one = len(names) == 1
        error = SchemaError(
            f"{columns_text(names)} {'is' if one else 'are'} missing from the data, {found.why}",
            path=self._table,
            hint=_HINT.format("it" if one else "them"),
        )
        error.row = row
        return error


def _replaced_columns(context: WriteContext) -> tuple[dict[str, _Replaced], frozenset[str]]:
    """Of a table with a primary key the columns whose values NULL replaces; and those that lose values where NULL
    stands for a member of a struct."""
    schema, engine = context.schema, context.options.get("merge-engine")
    names = [name for name in schema.field_names if name not in schema.primary_keys]
    if engine == "deduplicate":
        why = "and NULL would replace values of keys that are there (merge-engine=deduplicate)"
        return dict.fromkeys(names, _Replaced(why)), frozenset(names)
    if engine == "first-row":
        why = "and no later row would replace NULL (merge-engine=first-row)"
        return dict.fromkeys(names, _Replaced(why)), frozenset(names)
    from paimon_pyds.keys.merge.aggregates import (  # not for other tables
        KEEPS_MEMBERS,
        NULL_IS_VALUE,
        NULL_IS_VALUE_IF_LATE,
    )
    from paimon_pyds.keys.merge.column_engines import Aggregation
    from paimon_pyds.keys.merge.engine_options import merge_engine
    from paimon_pyds.keys.merge.partial_update import PartialUpdate

    made, found = merge_engine(schema), dict[str, _Replaced]()
    functions = dict(made.functions) if isinstance(made, Aggregation) else {}
    for name, function in functions.items():
        if function.name in NULL_IS_VALUE:
            found[name] = _Replaced(f"and NULL would count as a value (aggregate function {function.name})")
    for group in made.groups if isinstance(made, PartialUpdate) else ():
        why = f"and NULL would replace values, as rows have the sequence group's {', '.join(group.fields)}"
        functions |= group.aggregates
        for name in (*group.fields, *group.columns):
            aggregate = group.aggregates.get(name)
            if aggregate is None or aggregate.name in NULL_IS_VALUE | NULL_IS_VALUE_IF_LATE:
                found[name] = _Replaced(why, group.fields)
    keeping = {name for name, function in functions.items() if function.name in KEEPS_MEMBERS}
    return found, frozenset(names) - keeping
