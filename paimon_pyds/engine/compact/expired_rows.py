"""Rows that a compaction leaves out because they are too old: option ``record-level.expire-time``.

Only rewritten files lose them: readers see them until then, also as older versions that a compaction looks up; but
first rows that have expired are replaced by new ones (Java drops the new ones, and later the old ones). Changelogs do
not record them. (Source: Java, class RecordLevelExpire.)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.types import timestamp_unit
from paimon_pyds.base.types.kinds import UNITS_PER_SECOND, Kind
from paimon_pyds.engine.scan.prune import statistics_mask
from paimon_pyds.keys.merge.engine_options import record_time_column
from paimon_pyds.keys.merge.grouped_rows import Flags
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const, Leaf, Op, Predicate, make_and, make_or, negate

_TIME = "record-level.expire-time"
_FIRST_MILLIS = 10**12
"""Numbers of BIGINT from here on are milliseconds, others seconds."""


def not_expired(schema: TableSchema, options: TableOptions, now: float) -> Predicate:
    """What rows meet that stay: those whose time is NULL, or not that long ago.

    ``now``: seconds since 1970.

    Raises:
        OptionError: no column has the time, or one of another type than INT, BIGINT or TIMESTAMP.
        SchemaError: the column is not there.
    """
    if not options.is_set(_TIME):
        return Const.TRUE
    column = record_time_column(schema, options)
    assert column.type is not None
    first = int(now) - int(options.get(_TIME)) // 1000
    is_null, kind = Leaf(Op.IS_NULL, column), column.type.kind
    if kind is Kind.BIGINT:
        seconds = make_and(Leaf(Op.GE, column, (first,)), Leaf(Op.LT, column, (_FIRST_MILLIS,)))
        return make_or(is_null, seconds, Leaf(Op.GE, column, (max(_FIRST_MILLIS, first * 1000),)))
    unit = 1 if kind is Kind.INT else UNITS_PER_SECOND[timestamp_unit(column.type)]
    return make_or(is_null, Leaf(Op.GE, column, (first * unit,)))


def have_expired(
    entries: pa.RecordBatch, store: TableStore, schema: TableSchema, options: TableOptions, now: float
) -> Flags:
    """A mask of the files with expired rows, by their statistics; files without statistics count as having none.
    ``entries``: of data files (`ENTRY_SCHEMA`). ``now``: seconds since 1970.
    Raises OptionError, SchemaError: as `not_expired`."""
    if not options.is_set(_TIME):
        return np.zeros(entries.num_rows, np.bool_)

    def may_have(predicate: Predicate) -> Flags:
        return statistics_mask(predicate, schema.fields, entries, lambda id_: store.schema(id_).fields)

    column = record_time_column(schema, options)
    assert column.type is not None
    least = -(2**31) if column.type.kind is Kind.INT else -(2**63)
    unknown = may_have(Leaf(Op.LT, column, (least,)))
    return may_have(negate(not_expired(schema, options, now))) & ~unknown
