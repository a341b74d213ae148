"""What data files hold, against what the metadata says of it: statistics, indexes, order of keys, place of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, is_true, one_batch, pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import columns_of, hash_rows
from paimon_pyds.base.types import DataField, arrow_type, scalar_to_internal
from paimon_pyds.base.types.kinds import UNORDERED_KINDS, Kind
from paimon_pyds.engine.execution.live_files import data_batches
from paimon_pyds.engine.scan.prune import statistics_groups
from paimon_pyds.errors import MissingColumnError, UnsupportedError
from paimon_pyds.format import traits_of
from paimon_pyds.keys.bucket.functions import bucket_of
from paimon_pyds.keys.bucket.hash_index import Hashes
from paimon_pyds.keys.merge.order_codes import order_codes
from paimon_pyds.metadata.manifest_reader import RowStatistics
from paimon_pyds.metadata.partition import partition_scalars
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.ops.index_tools.verify import VerifyTask, verify_one
from paimon_pyds.ops.maintenance.findings import Findings
from paimon_pyds.sql.expression.operators import compare
from paimon_pyds.sql.predicate.prune import may_match
from paimon_pyds.sql.predicate.tree import ColumnRef, Leaf, Op, Predicate

_EXACT = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DATE})
"""Kinds whose bounds are values of the file, whoever wrote them."""


@dataclass(frozen=True)
class KeyChecks:
    """Expectations of keys. ``sorted``: keys ascend, as in data files of a table with a primary key, but not in
    changelogs. ``hashes``: of all keys of the bucket, from its hash index; None: not checked."""

    schema: TableSchema
    sorted: bool
    hashes: Hashes | None = None


def verify_rows(read: ReadSpec, file: PlannedFile, entry: pa.RecordBatch, keys: KeyChecks, findings: Findings) -> None:
    """Read a data file and compare; columns of types that can't be read here are passed over.

    ``entry``: of the manifest, all columns. ``keys``: how its keys are. ``findings``: gets what is wrong.
    Raises CorruptFileError, StorageError: the file can't be read.
    """
    fields = [field for field in read.fields_of(file) if _is_read(field)]
    fields = _held(read, file, fields, keys.schema.partition_keys)
    ids = {field.id: field for field in fields}
    checks: list[_Check] = [_Statistics(read, file, entry, fields), _Places(file, keys.schema, ids)]
    if keys.schema.primary_keys and keys.sorted and file.bucket >= 0:
        checks.append(_Keys(file, keys, ids))
    for batch in data_batches(read, file, fields) if fields else ():
        for check in checks:
            check.add(batch)
    for check in checks:
        check.finish(findings)
    for fault in verify_one(VerifyTask(0, read, file, ())).findings:
        if fault.is_fault:
            place = f"{fault.index_type} index of {fault.column}: " if fault.column else ""
            findings.add("file-index", file.index_path or file.path, f"{place}{fault.detail}")


def _held(
    read: ReadSpec, file: PlannedFile, fields: Sequence[DataField], partition_keys: Sequence[str]
) -> list[DataField]:
    """The columns without those of the partition that the file lacks or has in another type, as files do that were
    migrated: readers take these values from the partition."""
    held = []
    for field in fields:
        if field.name in partition_keys:
            try:
                next(data_batches(read, file, [field]), None)
            except MissingColumnError:
                continue
        held.append(field)
    return held


def _is_read(field: DataField) -> bool:
    try:
        arrow_type(field.type)
    except UnsupportedError:
        return False
    return True


class _Check(Protocol):
    def add(self, batch: pa.RecordBatch) -> None:
        """Look at the next rows of the file, all of its columns."""

    def finish(self, findings: Findings) -> None:
        """Say what was wrong."""


class _Statistics:
    """Bounds and counts of NULLs in the manifest must let through what the file holds, as filters go by them."""

    def __init__(self, read: ReadSpec, file: PlannedFile, entry: pa.RecordBatch, fields: Sequence[DataField]) -> None:
        self._file, self._entry = file, entry
        group = next(statistics_groups(fields, entry, read.schemas.__getitem__))
        self._stats = group.read()
        names = () if self._stats is None else self._stats.names
        self._fields = [f for f in fields if f.name in names and f.type.kind not in UNORDERED_KINDS]
        self._ends: dict[str, list[pa.Scalar]] = {field.name: [] for field in self._fields}
        self._nulls = dict.fromkeys(self._ends, 0)

    def add(self, batch: pa.RecordBatch) -> None:
        for name, ends in self._ends.items():
            column = batch.column(name)
            self._nulls[name] += column.null_count
            found = pc.min_max(column)
            ends += [end for end in (found["min"], found["max"]) if end.is_valid]

    def finish(self, findings: Findings) -> None:
        if self._stats is None:
            return
        for field in self._fields:
            wrong = self._wrong(self._stats, field)
            if wrong:
                findings.add("column-statistics", self._file.path, f"column {field.name}: {wrong}")

    def _wrong(self, stats: RowStatistics, field: DataField) -> str:
        ref = ColumnRef(field.name, (), field.type, field.id)
        column, nulls, ends = stats.of(ref), self._nulls[field.name], self._ends[field.name]
        if column is None:
            return ""
        listed = column.null_count[0].as_py()
        if listed is not None and listed != nulls:
            return f"{nulls:,} NULLs, the manifest says {listed:,}"
        if not ends:
            return ""
        found = pc.min_max(pa.concat_arrays([pa.repeat(end, 1) for end in ends]))  # Python has no year 10,000
        for name, bound in (("min", column.min[0]), ("max", column.max[0])):
            value = scalar_to_internal(found[name])
            equal: Predicate = Leaf(Op.EQ, ref, (value,))
            if not may_match(equal, stats.row_counts, stats.of)[0]:
                return f"{value!r:.60} is outside of the bounds that the manifest has"
            known = bound.is_valid and (column.unknown is None or not column.unknown[0])
            if known and field.type.kind in _EXACT and scalar_to_internal(bound) != value:
                return f"the {name} is {value!r}, the manifest says {scalar_to_internal(bound)!r}"
        return ""


def _trims(file: PlannedFile, keys: Sequence[DataField]) -> bool:
    """Whether keys are read without blanks at their end, which they may have in the manifest and the hash index."""
    return traits_of(file.path).trims_char and any(key.type.kind is Kind.CHAR for key in keys)


class _Places:
    """Checks that rows are in the partition and the bucket of their values."""

    def __init__(self, file: PlannedFile, schema: TableSchema, ids: Mapping[int, DataField]) -> None:
        self._file, options = file, TableOptions(schema.options)
        fields = schema.partition_fields
        values = partition_scalars(fields, file.partition) if fields else {}
        self._partition = [(ids[f.id], values[f.name]) for f in fields if f.id in ids]
        self._function = str(options.get("bucket-function.type"))
        keys = [schema.field(name) for name in schema.bucket_keys]
        hashed = options.get("bucket") != -1 and file.total_buckets > 0 and file.bucket >= 0
        here = hashed and not _trims(file, keys) and all(key.id in ids for key in keys)
        self._keys = [ids[key.id] for key in keys] if here else []
        self._elsewhere = self._in_other_bucket = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if self._partition:
            wrong = np.zeros(batch.num_rows, np.bool_)
            for field, value in self._partition:
                column = batch.column(field.name)
                same = compare(column, value.cast(column.type), "=") if value.is_valid else column.is_null()
                wrong |= ~is_true(same)
            self._elsewhere += int(wrong.sum())
        if self._keys:
            columns = [batch.column(field.name) for field in self._keys]
            types = [field.type for field in self._keys]
            buckets = bucket_of(columns, types, self._file.total_buckets, self._function)
            self._in_other_bucket += int((buckets != self._file.bucket).sum())

    def finish(self, findings: Findings) -> None:
        counts = {"partition": self._elsewhere, "bucket": self._in_other_bucket}
        for kind, count in counts.items():
            if count:
                what = f"{count:,} of {self._file.row_count:,} rows belong into another {kind}"
                findings.add(kind, self._file.path, what)


class _Keys:
    """Keys ascend, each is there once, and the manifest has the first and the last; if keys sort the file."""

    def __init__(self, file: PlannedFile, checks: KeyChecks, ids: Mapping[int, DataField]) -> None:
        self._file = file
        keys = [checks.schema.field(name) for name in checks.schema.trimmed_primary_keys]
        self._keys = [ids[key.id] for key in keys if key.id in ids]
        self._types = [key.type for key in keys]
        self._trimmed = _trims(file, keys)
        self._hashes = None if self._trimmed else checks.hashes
        self._first: pa.RecordBatch | None = None
        self._last: pa.RecordBatch | None = None
        self._unsorted = self._not_indexed = 0
        self._range = None if file.run is None else file.run.key_range
        self._sorted = file.run is None or self._range is not None

    def add(self, batch: pa.RecordBatch) -> None:
        keys = batch.select([field.name for field in self._keys])
        if not keys.num_rows or not self._keys:
            return
        if self._hashes is not None:
            self._not_indexed += int((~np.isin(hash_rows(keys.columns, self._types), self._hashes)).sum())
        if not self._sorted:
            return
        rows = keys if self._last is None else one_batch(pa.Table.from_batches([self._last, keys]))
        codes = order_codes(rows.columns)
        self._unsorted += int((codes[1:] <= codes[:-1]).sum())
        self._first = self._first or keys.slice(0, 1)
        self._last = keys.slice(keys.num_rows - 1)

    def finish(self, findings: Findings) -> None:
        if self._not_indexed:
            what = f"the hash index of its bucket lacks {self._not_indexed:,} of its keys"
            findings.add("hash-index", self._file.path, what)
        if self._unsorted:
            what = f"{self._unsorted:,} of {self._file.row_count:,} keys are not greater than the one before"
            findings.add("key-order", self._file.path, what)
        elif self._first is not None and self._last is not None and self._range is not None:
            ends = array(self._range, pa.binary())
            decoded = list(map(columns_of(ends, self._types, arity=True), range(len(self._types))))
            if any(column.unknown is not None for column in decoded):
                return
            values = [column.values for column in decoded]
            for i, type_ in enumerate(self._types):
                if self._trimmed and type_.kind is Kind.CHAR:
                    values[i] = pc.utf8_rtrim(values[i], " ")
            listed = pa.RecordBatch.from_arrays(values, self._first.schema.names)
            held = pa.Table.from_batches([self._first, self._last]).cast(listed.schema)
            codes = order_codes(one_batch(pa.concat_tables([pa.Table.from_batches([listed]), held])).columns)
            if (codes[:2] != codes[2:]).any():
                findings.add("key-range", self._file.path, "the manifest has another first or last key than the file")
