"""The system tables ``audit_log`` and ``binlog``: rows with what each does to the table, as streams of batches.

Of a state of the table these are its rows, and of a table with a primary key the rows that delete others, as long as
compaction leaves them there. An incremental scan gives what was written, a changelog, or what differs.

Source: Paimon documentation, concepts/system-tables; Java: classes AuditLogTable, BinlogTable, PackChangelogReader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, one_batch, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.options.option import texts
from paimon_pyds.base.row_stream import RowStream
from paimon_pyds.base.text import one_line
from paimon_pyds.base.types import ArrayType, DataField, arrow_schema, column_named
from paimon_pyds.engine.read import read_split
from paimon_pyds.engine.scan.travel import Additions, Difference
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.keys.merge.equal_values import equality_codes
from paimon_pyds.keys.merge.key_values import (
    KEY_VALUE_FIELDS,
    ROW_KINDS,
    ROWKIND,
    SEQUENCE_NUMBER,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    VALUE_KIND,
)
from paimon_pyds.metadata.split import Split
from paimon_pyds.ops.system.scan import Read, Request, SystemScan
from paimon_pyds.sql.predicate.tree import Const

if TYPE_CHECKING:
    from paimon_pyds.scan import Scan

ROW_CHANGES = ("audit_log", "binlog")
_NUMBER, _KIND = KEY_VALUE_FIELDS
_NUMBERED = "table-read.sequence-number.enabled"


def row_tracking_columns(scan: Scan) -> list[str]:
    """The columns of the system table ``row_tracking``. Raises UnsupportedError where rows have no ids."""
    if not scan.options.get("row-tracking.enabled"):
        raise UnsupportedError("rows have no ids without row-tracking.enabled", path=scan.root)
    return [*scan.schema.field_names, "_ROW_ID", SEQUENCE_NUMBER]


def row_changes(scan: Scan, name: str) -> SystemScan:
    """A query on ``audit_log`` or ``binlog``; a filter of ``audit_log`` on the table's columns acts as in scans."""
    make = AuditLog if name == "audit_log" else Binlog

    def changes(request: Request) -> AuditLog:
        names = [f.name for f in fields if f.name in request.columns]
        pushed = request.about(scan.schema.field_names) if make is AuditLog else Const.TRUE
        return make(scan.where_bound(pushed), names)

    fields = make(scan).result_fields
    return SystemScan(
        fields, lambda request: changes(request).to_batches(), split=lambda request: changes(request).parts()
    )


class AuditLog(RowStream):
    """Rows, each with its row kind: ``+I``, ``-U``, ``+U`` or ``-D``.

    ``scan``: of the table's columns; says which state or which changes. ``columns``: of the result; all when None:
    ``rowkind``, ``_SEQUENCE_NUMBER`` where the table's option ``table-read.sequence-number.enabled`` is on, the table's
    columns.
    Raises UnknownColumnError: a name of no column; UnsupportedError: that option, in a table without a primary key.
    """

    def __init__(self, scan: Scan, columns: Sequence[str] | None = None) -> None:
        scan.check_alone("read with the kinds of its rows")
        schema = scan.schema
        self._root, self._primary_keys = scan.root, schema.primary_keys
        self._kept_kinds = bool(schema.primary_keys)
        fields = [ROWKIND, *schema.fields]
        if scan.options.get(_NUMBERED):
            if not self._kept_kinds:
                raise UnsupportedError(f"{_NUMBERED} is for tables with a primary key")
            fields.insert(1, _NUMBER)
        wanted = [field.name for field in fields] if columns is None else texts("columns", columns)
        self.fields = tuple(column_named(name, fields, "the system table") for name in wanted)
        self._scan = scan.selecting(self._read_fields(scan))

    def __repr__(self) -> str:
        return one_line(self, repr(self.__dict__.get("_scan", self._root)))

    def __getstate__(self) -> dict[str, Any]:
        """What makes the result of rows; the scan stays where it was planned."""
        return {name: value for name, value in self.__dict__.items() if name != "_scan"}

    def parts(self) -> list[Read]:
        """What reads each split of the scan; they pickle."""
        return [_Part(self, split) for split in self._scan.own_plan.splits]

    def _read_fields(self, scan: Scan) -> tuple[DataField, ...]:
        """The columns to read: those of the result, and the row kind where files have it."""
        kind = (_KIND,) if self._kept_kinds else ()
        return (*kind, *(field for field in self.fields if field != ROWKIND))

    @property
    def result_fields(self) -> tuple[DataField, ...]:
        """The columns of the result."""
        return self.fields

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.result_fields)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return self.results(self._scan.to_batches())

    def results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The result's rows, of those that the scan, or a split of it, gives."""
        for batch in batches:
            yield self._result(batch, self._kinds(batch))

    def _kinds(self, rows: pa.RecordBatch) -> npt.NDArray[np.int8]:
        if not self._kept_kinds:
            return np.zeros(rows.num_rows, np.int8)
        kinds = to_numpy(rows.column(VALUE_KIND))
        if kinds.size and not 0 <= kinds.min() <= kinds.max() < len(ROW_KINDS):
            raise CorruptFileError("a row has an unknown row kind", path=self._root, field=VALUE_KIND)
        return kinds

    def _result(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> pa.RecordBatch:
        texts = array(ROW_KINDS, pa.string()).take(from_numpy(kinds))
        columns = [texts if field == ROWKIND else rows.column(field.name) for field in self.fields]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)


@dataclass(frozen=True)
class _Part:
    """Reads a split."""

    changes: AuditLog
    split: Split

    def __call__(self, request: Request) -> Iterator[pa.RecordBatch]:
        return self.changes.results(read_split(self.split))


class Binlog(AuditLog):
    """The same with a list in each column: of an update what was before and what is after it, of other rows one value.

    Of what was written or of a changelog, a row ``-U`` that the ``+U`` of its key follows makes one row ``+U`` with it.
    Raises UnsupportedError: a comparison of two states: Java has no binlog of that.
    """

    def __init__(self, scan: Scan, columns: Sequence[str] | None = None) -> None:
        super().__init__(scan, columns)
        if isinstance(scan.between, Difference):
            raise UnsupportedError("what differs between two states has no binlog", hint="read audit_log")
        self._pairs = self._kept_kinds and isinstance(scan.between, Additions)

    def _read_fields(self, scan: Scan) -> tuple[DataField, ...]:
        keys = map(scan.field, scan.schema.primary_keys) if isinstance(scan.between, Additions) else ()
        return tuple(dict.fromkeys((*super()._read_fields(scan), *keys)))

    @property
    def result_fields(self) -> tuple[DataField, ...]:
        of_rows = (ROWKIND.name, SEQUENCE_NUMBER)
        return tuple(
            f if f.name in of_rows else replace(f, type=ArrayType(element=f.type.with_nullable(True)))
            for f in self.fields
        )

    def results(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: pa.RecordBatch | None = None  # a row that the next batch may have the other half of
        for batch in batches:
            rows = batch if waiting is None else one_batch(pa.Table.from_batches([waiting, batch]))
            waiting = None
            if self._pairs and self._kinds(rows)[-1] == UPDATE_BEFORE:
                rows, waiting = rows.slice(0, rows.num_rows - 1), rows.slice(rows.num_rows - 1)
            if rows.num_rows:
                yield self._result(rows, self._kinds(rows))
        if waiting is not None:
            yield self._result(waiting, self._kinds(waiting))

    def _result(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> pa.RecordBatch:
        starts = np.flatnonzero(~self._ends_update(rows, kinds)).astype(np.int32)
        offsets = np.append(starts, rows.num_rows).astype(np.int32)
        columns = []
        for field in self.arrow_schema:
            if field.name == ROWKIND.name:
                columns.append(array(ROW_KINDS, pa.string()).take(from_numpy(kinds[offsets[1:] - 1])))
            elif field.name == SEQUENCE_NUMBER:
                columns.append(rows.column(field.name).take(from_numpy(starts)))
            else:
                buffers = [None, pa.py_buffer(offsets)]
                values = rows.column(field.name)
                columns.append(pa.Array.from_buffers(field.type, len(starts), buffers, children=[values]))
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)

    def _ends_update(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
        """Which rows are the second of two that say what an update did."""
        second = np.zeros(rows.num_rows, np.bool_)
        if self._pairs:
            second[1:] = (kinds[1:] == UPDATE_AFTER) & (kinds[:-1] == UPDATE_BEFORE)
            for name in self._primary_keys if second.any() else ():
                codes = equality_codes(rows.column(name))
                second[1:] &= codes[1:] == codes[:-1]
        return second
