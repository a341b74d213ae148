"""Statistics of a table and its columns, as Spark's ANALYZE TABLE makes them with Java Paimon: an ANALYZE snapshot
names them, and Java's optimizers look at them. Here they are used where they are of just the state that is read
(`scan.analyzed`); else manifests say more, of each file.

Distinct values are counted exactly up to 65,536, and estimated beyond, with an error of about 0.4 %.
(Sources: Java Paimon 1.4, class PaimonAnalyzeTableColumnCommand; Spark's documentation, ANALYZE TABLE; Bar-Yossef et
al., Counting Distinct Elements in a Data Stream, algorithm 2: the k least hashes.)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar, to_numpy
from paimon_pyds.base.options import check_writable
from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import AtomicType, DataField, DataType, scalar_to_internal
from paimon_pyds.base.types.java_text import partition_text
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.commit.publisher import on_newest, removing_unpublished
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import CommitConflictError, UnsupportedError
from paimon_pyds.index.bloom import hash_binary
from paimon_pyds.keys.merge.equal_values import mixed
from paimon_pyds.metadata.schema import TableSchema, utf8_bytes
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.statistics import CHECKSUM, ColumnStatistics, Statistics, checksum_text, statistics_to_json
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.expire import maintenance_options
from paimon_pyds.storage import discard

if TYPE_CHECKING:
    from paimon_pyds.scan import Scan

U64 = npt.NDArray[np.uint64]
_LEAST_HASHES = 1 << 16
_LENGTHS = {
    Kind.BOOLEAN: 1, Kind.TINYINT: 1, Kind.SMALLINT: 2, Kind.INT: 4, Kind.BIGINT: 8, Kind.FLOAT: 4, Kind.DOUBLE: 8,
    Kind.DATE: 4, Kind.TIME: 4, Kind.TIMESTAMP: 8, Kind.TIMESTAMP_LTZ: 8, Kind.DECIMAL: 16, Kind.CHAR: 20,
    Kind.VARCHAR: 20, Kind.BINARY: 100, Kind.VARBINARY: 100,
}  # fmt: skip
"""Bytes of a value as Spark has them; of texts and bytes where there is no value."""


def analyze(
    store: TableStore,
    scan: Callable[[], Scan],
    columns: Sequence[str] | None,
    options: Mapping[str, str] | None = None,
    *,
    dry_run: bool = False,
) -> tuple[Statistics | None, Snapshot | None]:
    """Make statistics and commit them; see ``table.maintenance.analyze``.

    ``scan``: gives one of all its rows and columns, as it is now. ``columns``: names; None for all that statistics are
    made of, none for the count of rows alone.

    Raises:
        SchemaError: no such column.
        UnsupportedError: no statistics are made of a column of that type; or a table that can't be written to.
        CommitConflictError: the schema was changed meanwhile, or the snapshot rolled back, again and again.
    """
    return on_newest(store, lambda newest, _: _once(store, scan(), columns, options, dry_run), options)


def _once(
    store: TableStore, scan: Scan, columns: Sequence[str] | None, options: Mapping[str, str] | None, dry_run: bool
) -> tuple[Statistics | None, Snapshot | None]:
    typed, schema = maintenance_options(store, options), scan.schema
    check_writable(schema, options, existing_rows=True, metadata_only=True)
    fields, snapshot = _fields(schema, columns), scan.snapshot
    if snapshot is None:
        return None, None
    found = {field.name: _Column(field) for field in fields}
    rows = _read(scan.selecting(fields), found) if found else scan.count()
    size, total = (
        int(pc.sum(live_of(store, snapshot, ("file_size",))["file_size"]).as_py() or 0),
        snapshot.total_record_count,
    )
    statistics = Statistics(
        snapshot_id=snapshot.id,
        schema_id=schema.id,
        merged_record_count=rows,
        merged_record_size=size * rows // total if total else size,
        columns={name: column.result() for name, column in found.items()},
    )
    if dry_run:
        return statistics, None

    name = f"stat-{uuid.uuid4()}-0"
    path = store.paths.statistics(name)
    with removing_unpublished(lambda: discard(store.io, [path])):
        data = utf8_bytes(statistics_to_json(statistics), "a statistics file")
        store.io.write_bytes(path, data)
        increment = Increment(kind=CommitKind.ANALYZE, statistics=name, guard=_Guard(store, snapshot, schema))
        return statistics, commit(store, Changes((increment,), properties={CHECKSUM: checksum_text(data)}), typed)


@dataclass(frozen=True, slots=True)
class _Guard:
    """The table must not have been altered or rolled back since."""

    store: TableStore
    snapshot: Snapshot
    schema: TableSchema

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        mine = self.snapshot
        rolled_back = latest is None or latest.id < mine.id or (latest.id == mine.id and latest != mine)
        if schema.id != self.schema.id or rolled_back:
            raise CommitConflictError(
                "the table was altered or rolled back while it was analyzed",
                path=self.store.root,
                hint="analyze it again",
            )


def _fields(schema: TableSchema, columns: Sequence[str] | None) -> tuple[DataField, ...]:
    if columns is None:
        return tuple(field for field in schema.fields if field.type.kind in _LENGTHS)
    fields = tuple(schema.field(name) for name in dict.fromkeys(columns))
    for field in fields:
        if field.type.kind not in _LENGTHS:
            raise UnsupportedError(f"no statistics are made of the column {field.name!r} of type {field.type}")
    return fields


def _read(scan: Scan, columns: Mapping[str, _Column]) -> int:
    rows = 0
    with phase("reading", scan.plan().files) as step:
        for batch in scan.to_batches(on_file=lambda trace: step.advance(files=1)):
            rows += batch.num_rows
            for name, column in columns.items():
                column.add(batch.column(name))
    return rows


class _Column:
    """Statistics of a column, gathered batch by batch."""

    def __init__(self, field: DataField) -> None:
        self._field = field
        self._nulls = self._values = self._length = self._longest = 0
        self._min: pa.Scalar | None = None
        self._max: pa.Scalar | None = None
        self._hashes = np.empty(0, np.uint64)

    def add(self, values: pa.Array) -> None:
        kind = self._field.type.kind
        self._nulls += values.null_count
        values = values.drop_null()
        if not len(values):
            return
        self._values += len(values)
        distinct = pc.unique(values)
        hashes = np.concatenate([self._hashes, _hashes(distinct, kind)])
        self._hashes = np.unique(hashes)[:_LEAST_HASHES]
        if kind in STRING_KINDS or kind in BINARY_KINDS:
            lengths = pc.utf8_length(values) if kind in STRING_KINDS else pc.binary_length(values)
            self._length += pc.sum(lengths).as_py()
            self._longest = max(self._longest, pc.max(lengths).as_py())
            return
        ends = array([end.as_py() for end in (self._min, self._max) if end is not None], distinct.type)
        self._min, self._max = _extremes(pa.concat_arrays([distinct, ends]), kind)

    def result(self) -> ColumnStatistics:
        type_ = self._field.type
        length = _LENGTHS[type_.kind]
        if type_.kind is Kind.DECIMAL and isinstance(type_, AtomicType) and (type_.precision or 10) <= 18:
            length = 8
        longest = length
        if self._values and (type_.kind in STRING_KINDS or type_.kind in BINARY_KINDS):
            length, longest = -(-self._length // self._values), self._longest
        return ColumnStatistics(
            column_id=self._field.id,
            distinct_count=min(self._distinct(), self._values),
            min=_text(self._min, type_),
            max=_text(self._max, type_),
            null_count=self._nulls,
            avg_length=length,
            max_length=longest,
        )

    def _distinct(self) -> int:
        if len(self._hashes) < _LEAST_HASHES:
            return len(self._hashes)
        return int((_LEAST_HASHES - 1) / (float(self._hashes[-1]) / 2.0**64))


def _text(value: pa.Scalar | None, type_: DataType) -> str | None:
    if value is None:
        return None
    return partition_text(scalar_to_internal(value), type_, legacy=type_.kind not in TIMESTAMP_KINDS)


def _extremes(values: pa.Array, kind: Kind) -> tuple[pa.Scalar, pa.Scalar]:
    """The least and the greatest; NaN is greater than all, as in Spark."""
    nan = None
    if kind in FLOAT_KINDS:
        is_nan = pc.is_nan(values)
        nan = scalar(float("nan"), values.type) if pc.any(is_nan).as_py() else None
        values = values.filter(pc.invert(is_nan))
    if not len(values):
        return nan, nan
    found = pc.min_max(values)
    return found["min"], found["max"] if nan is None else nan


def _hashes(values: pa.Array, kind: Kind) -> U64:
    """64-bit hashes of values without NULL: different ones of different numbers."""
    if kind is Kind.DECIMAL:
        wide = values.cast(pa.decimal128(38, values.type.scale))
        _, data = wide.buffers()
        values = pa.Array.from_buffers(pa.binary(16), len(wide), [None, data], offset=wide.offset)
    if kind is Kind.DECIMAL or kind in STRING_KINDS or kind in BINARY_KINDS:
        return hash_binary(values.cast(pa.binary())).view(np.uint64)
    return mixed(_bits(values, kind))


def _bits(values: pa.Array, kind: Kind) -> U64:
    if kind in FLOAT_KINDS:
        numbers = to_numpy(values.cast(pa.float64())) + 0.0  # -0.0 is 0.0
        return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    integers = {1: pa.uint8(), 32: pa.int32(), 64: pa.int64()}
    narrow: Any = values if pa.types.is_integer(values.type) else values.cast(integers[values.type.bit_width])
    return to_numpy(narrow.cast(pa.int64())).view(np.uint64)
