"""The engines that treat each column by its own options: partial-update and aggregation, made from a table's options.

Source: as of `paimon_pyds.keys.merge.engine_options`, which makes the other engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.errors import OptionError, UnknownColumnError, suggest
from paimon_pyds.keys.merge.aggregated_columns import CountedVersions, aggregated_column
from paimon_pyds.keys.merge.aggregates import (
    DEFAULT_AGGREGATE,
    AggregateFunction,
    configured_aggregate,
    resolve_aggregate,
)
from paimon_pyds.keys.merge.engine import MergeEngine
from paimon_pyds.keys.merge.key_values import DELETE, INSERT, SEQUENCE_NUMBER, VALUE_KIND, is_retract
from paimon_pyds.keys.merge.partial_update import PartialUpdate, SequenceGroup
from paimon_pyds.keys.merge.versions import Versions, check_orders_rows
from paimon_pyds.metadata.schema import TableSchema


@dataclass(frozen=True)
class Aggregation(MergeEngine):
    """The merge engine aggregation: a function for each column.

    Source: Paimon documentation, primary-key-table/merge-engine/aggregation; where it is silent, what Java Paimon 1.4
    gives (class AggregateMergeFunction).

    ``functions``: of the table's columns; what else rows hold is the same in all versions of a key.
    ``remove_on_delete``: a delete removes the row; what comes later adds to the values of the delete, as in Java.
    """

    functions: Mapping[str, AggregateFunction]
    remove_on_delete: bool = False

    def merge(self, rows: pa.RecordBatch, versions: Versions, columns: Sequence[str]) -> pa.RecordBatch:
        kinds = to_numpy(rows.column(VALUE_KIND))[versions.order]
        counted = self._counted(rows, versions, kinds == DELETE)
        newest = versions.ends - 1
        given = np.ones(len(kinds), np.bool_)
        found = {SEQUENCE_NUMBER: rows.column(SEQUENCE_NUMBER).take(from_numpy(versions.order[newest]))}
        deleted = self.remove_on_delete & (kinds[newest] == DELETE)
        made = np.where(deleted, DELETE, INSERT)
        found[VALUE_KIND] = from_numpy(np.where(versions.is_single, kinds[newest], made).astype(np.int8))
        for name in columns:
            if name in found:
                continue
            column, function = rows.column(name), self.functions.get(name)
            if function is None:
                found[name] = column.take(from_numpy(versions.order[newest]))
            else:
                found[name] = aggregated_column(column, function, counted, given)
        schema = pa.schema([rows.schema.field(name) for name in columns])
        return pa.RecordBatch.from_arrays([found[name] for name in columns], schema=schema)

    def _counted(self, rows: pa.RecordBatch, versions: Versions, deletes: np.ndarray) -> CountedVersions:
        base = np.where(versions.is_single, versions.starts, -1)
        if self.remove_on_delete:
            removed = versions.last(deletes)
            base = np.where(removed >= 0, removed, base)
        retract = is_retract(rows.column(VALUE_KIND))[versions.order]
        return CountedVersions(versions, retract, base, np.zeros(len(base), np.bool_))


_PREFIX, _SUFFIX = "fields.", ".sequence-group"
_IGNORE_DELETE = "ignore-delete"
_REMOVE_ON_DELETE = "partial-update.remove-record-on-delete"
_REMOVE_ON_GROUP = "partial-update.remove-record-on-sequence-group"


def aggregation(schema: TableSchema, options: TableOptions, sequence: Sequence[str]) -> Aggregation:
    """The engine aggregation of a table. Raises as `merge_engine` does. ``sequence``: the columns of
    ``sequence.field``, which have the newest value in the result."""
    functions = {}
    for column in schema.fields:
        if column.name in schema.primary_keys:
            continue
        name = configured_aggregate(column.name, options) or DEFAULT_AGGREGATE
        name = "last_value" if column.name in sequence else name
        functions[column.name] = resolve_aggregate(name, column.type, column.name, options)
    return Aggregation(functions, bool(options.get("aggregation.remove-record-on-delete")))


def partial_update(schema: TableSchema, options: TableOptions) -> PartialUpdate:
    """The engine partial-update of a table. Raises as `merge_engine` does."""
    ignore_delete = bool(options.get(_IGNORE_DELETE))
    groups = tuple(_groups(schema, options))
    remove_on_delete = bool(options.get(_REMOVE_ON_DELETE))
    contradictions = [
        (ignore_delete and remove_on_delete, _IGNORE_DELETE, _REMOVE_ON_DELETE),
        (ignore_delete and options.is_set(_REMOVE_ON_GROUP), _IGNORE_DELETE, _REMOVE_ON_GROUP),
        (bool(groups) and remove_on_delete, "sequence groups", _REMOVE_ON_DELETE),
    ]
    for contradicts, one, other in contradictions:
        if contradicts:
            raise OptionError(f"{one} and {other} contradict each other", hint="set one of them only")
    return PartialUpdate(ignore_delete, remove_on_delete, groups)


def _groups(schema: TableSchema, options: TableOptions) -> Iterator[SequenceGroup]:
    """The sequence groups of partial-update."""
    named = [
        (tuple(key[len(_PREFIX) : -len(_SUFFIX)].split(",")), tuple(value.split(",")), key)
        for key, value in options.items()
        if key.startswith(_PREFIX) and key.endswith(_SUFFIX)
    ]
    members = {name: key for fields, _, key in named for name in fields}
    for fields, columns, key in named:
        for name in (*fields, *columns):
            if name not in schema.field_names:
                hint = suggest(name, schema.field_names, "columns")
                raise UnknownColumnError(f"option {key} names {name!r}, which is not a column", hint=hint)
            if columns.count(name) > 1:
                raise OptionError(f"option {key} lists {name} twice")
            if members.setdefault(name, key) != key:
                raise OptionError(f"column {name} is in two sequence groups: {members[name]} and {key}")
        for name in fields:
            check_orders_rows(schema.field(name), key)
    sequence = {name for fields, _, _ in named for name in fields}
    removing = _removing(options, sequence)
    functions = _group_functions(schema, options, members, sequence)
    for fields, columns, _ in named:
        inside = tuple(n for n in columns if n not in fields and n not in schema.primary_keys)
        found = {name: functions[name] for name in inside if name in functions}
        yield SequenceGroup(fields, inside, found, removes=not removing.isdisjoint(fields))


def _removing(options: TableOptions, sequence: set[str]) -> set[str]:
    """The sequence fields of groups whose delete removes the row."""
    named = options.get(_REMOVE_ON_GROUP)
    if named is None:
        return set()
    found = set(str(named).split(","))
    unknown = sorted(found - sequence)
    if unknown:
        raise OptionError(
            f"{_REMOVE_ON_GROUP} names {', '.join(unknown)}, which is no field of a sequence group",
            hint=suggest(unknown[0], sequence, "sequence fields"),
        )
    return found


def _group_functions(
    schema: TableSchema, options: TableOptions, members: Iterable[str], sequence: Iterable[str]
) -> dict[str, AggregateFunction]:
    """The functions of columns in sequence groups; elsewhere Java takes the newest value that is not NULL only."""
    found = {}
    for column in schema.fields:
        name = configured_aggregate(column.name, options)
        if name is None or column.name in schema.primary_keys or column.name in sequence:
            continue
        if name != DEFAULT_AGGREGATE and column.name not in members:
            raise OptionError(
                f"partial-update: column {column.name} has the aggregate function {name} and is in no sequence group",
                hint=f"name {column.name} in an option fields.COLUMN.sequence-group, or give it no function",
            )
        found[column.name] = resolve_aggregate(name, column.type, column.name, options)
    return found
