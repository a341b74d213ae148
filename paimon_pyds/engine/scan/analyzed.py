"""What `analyze` found of just the state that is read: it answers where manifests can't, and spares reading them.

Statistics are JSON without a checksum, so those that are used have one in the properties of their snapshot. Those of
Java, of another state or of another schema are not used.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.types import AtomicType, arrow_type
from paimon_pyds.base.types.kinds import INTEGER_KINDS, Kind
from paimon_pyds.errors import PaimonError, PredicateError
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.statistics import CHECKSUM, Statistics, checksum_text, parse_statistics, parsed_statistics
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.prune import ColumnStats, may_match
from paimon_pyds.sql.predicate.relaxation import relaxed
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf
from paimon_pyds.sql.text import casts, tree
from paimon_pyds.sql.text.tree import Literal

if TYPE_CHECKING:
    from paimon_pyds.engine.scan.request import ScanRequest

_WITH_BOUNDS = INTEGER_KINDS | {Kind.DATE, Kind.DECIMAL}
"""Types whose texts are read here: their bounds are values of the column."""


def analyzed_rows(store: TableStore, request: ScanRequest) -> int | None:
    """The rows of a request without a filter, where versions would have to be merged to count them; None else."""
    if not request.state.schema.primary_keys or request.predicate is not Const.TRUE:
        return None
    statistics = _statistics(store, request)
    return None if statistics is None else statistics.merged_record_count


def nothing_matches(store: TableStore, request: ScanRequest) -> bool:
    """Whether no row matches the filter, by the statistics."""
    if request.predicate is Const.TRUE:
        return False
    statistics = _statistics(store, request)
    if statistics is None or statistics.merged_record_count is None:
        return False
    rows = array([statistics.merged_record_count], pa.int64())
    known = relaxed(request.predicate, lambda part: isinstance(part, Leaf) and not part.column.path)
    return not may_match(known, rows, partial(_stats_of, statistics, rows))[0]


def _statistics(store: TableStore, request: ScanRequest) -> Statistics | None:
    """The statistics of the rows that a request reads; None if the table has no statistics of exactly these rows."""
    snapshot, schema = request.state.snapshot, request.state.schema
    if snapshot is None or snapshot.commit_kind is not CommitKind.ANALYZE:
        return None
    expected, options = (snapshot.properties or {}).get(CHECKSUM), dict(request.options)
    if not expected or request.between is not None or request.read_optimized or options != dict(schema.options):
        return None
    try:
        data = parsed_statistics(store, snapshot, lambda data, path: (data, path))
        if data is None or checksum_text(data[0]) != expected:
            return None
        found = parse_statistics(*data)
    except PaimonError:
        return None  # all that they say is in data files, too
    is_same = (found.snapshot_id, found.schema_id) == (snapshot.id - 1, schema.id)
    return found if is_same and schema.id == store.latest_schema().id else None


def _stats_of(statistics: Statistics, rows: pa.Array, ref: ColumnRef) -> ColumnStats | None:
    column, type_ = statistics.columns.get(ref.name), ref.type
    if column is None or column.column_id != ref.field_id or not isinstance(type_, AtomicType):
        return None
    kind, texts = type_.kind, (column.min, column.max)
    bounds = [pa.nulls(1, arrow_type(type_))] * 2
    if kind in _WITH_BOUNDS and None not in texts:
        try:
            bounds = [_value(str(text), type_) for text in texts]
        except PredicateError:
            return None
    nulls = array([column.null_count], pa.int64())
    return ColumnStats(min=bounds[0], max=bounds[1], null_count=nulls, row_count=rows)


def _value(text: str, type_: AtomicType) -> pa.Array:
    if type_.kind is Kind.DATE:  # days
        return array([int(text)], pa.int32()).view(pa.date32())
    value = casts.cast_literal(Literal(text, tree.STRING), type_, "UTC").value
    return array([value], arrow_type(type_))
