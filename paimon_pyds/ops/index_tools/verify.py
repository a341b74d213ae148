"""Verify file indexes: make each one's content from the data again, and compare row by row.

Each finding is of one of these kinds; the first five are faults:

    missing options define an index that the file does not have, or its container is gone stale the index says other
    things of the rows than the data does corrupt the container or an index can't be read row-count the index, or the
    data file, has another number of rows than the manifest says data the data file can't be read, so that nothing could
    be compared unconfigured the file has an index that options don't define unknown an index of a type that is not
    known here; it was not compared
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted
from paimon_pyds.base.text import Summary
from paimon_pyds.base.types import DataField, MapType
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor, mapped
from paimon_pyds.engine.execution.live_files import file_specs, indexed_batches, live_in, planned_live_files
from paimon_pyds.errors import CorruptFileError, PaimonError
from paimon_pyds.index.bitmap import BitmapReader, write_bitmap
from paimon_pyds.index.bloom import BloomReader
from paimon_pyds.index.bsi import BsiReader
from paimon_pyds.index.build import IndexSpec, map_values, parse_index_specs, plan_indexes, value_type
from paimon_pyds.index.container import IndexRange
from paimon_pyds.index.decode import bloom_difference, codes_in, decode_index
from paimon_pyds.index.dictionary import ColumnDictionary, EncodedColumn
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import BSI, INDEX_TYPES, key_codec, supports
from paimon_pyds.index.probe import IndexReader
from paimon_pyds.index.range_bitmap import RangeBitmapReader
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.index_tools.rewrite import build_indexes
from paimon_pyds.sql.predicate.tree import Predicate
from paimon_pyds.storage.byte_source import BytesSource

FAULTS = frozenset({"missing", "stale", "corrupt", "row-count", "data"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be: of a file's index, or of the whole container or file (column None)."""

    path: str
    column: str | None
    index_type: str | None
    kind: str
    detail: str

    @property
    def is_fault(self) -> bool:
        return self.kind in FAULTS


@dataclass(frozen=True, slots=True, repr=False)
class VerifyReport(Summary):
    """What a verification found. ``indexes`` and ``index_bytes`` were compared, with ``rows`` rows of data."""

    files: int
    indexes: int
    rows: int
    index_bytes: int
    seconds: float
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not any(f.is_fault for f in self.findings)

    def __str__(self) -> str:
        faults = sum(f.is_fault for f in self.findings)
        what = f"{counted(self.indexes, 'index', 'indexes')} of {counted(self.files, 'file')}"
        result = counted(faults, "fault") if faults else "no fault"
        return f"{what} compared with {counted(self.rows, 'row')}: {result}"

    def to_arrow(self) -> pa.Table:
        """The findings as a table: file, column, index, kind, fault, detail."""
        names = ("file", "column", "index", "kind", "fault", "detail")
        rows = [(f.path, f.column, f.index_type, f.kind, f.is_fault, f.detail) for f in self.findings]
        types = [pa.string(), pa.string(), pa.string(), pa.string(), pa.bool_(), pa.string()]
        arrays = [array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]
        return pa.Table.from_arrays(arrays, names=list(names))


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """One data file to verify. It pickles."""

    number: int
    read: ReadSpec
    file: PlannedFile
    specs: tuple[IndexSpec, ...]


@dataclass(frozen=True, slots=True)
class FileReport:
    """The findings in one file."""

    number: int
    rows: int
    indexes: int
    index_bytes: int
    findings: tuple[Finding, ...]


def verify_indexes(
    store: TableStore, where: str | Predicate | None = None, *, executor: Executor | None = None
) -> VerifyReport:
    """Compare every index of the live files with the data.
    Raises OptionError: ``where`` names other columns than partition columns, or the options of indexes are wrong."""
    started = time.perf_counter()
    schema = store.latest_schema()
    specs = parse_index_specs(schema.options, schema.fields)
    entries = live_in(store, schema, store.latest_snapshot(), where, "index verify")
    read, files = planned_live_files(store, schema, entries)
    tasks = [
        VerifyTask(number, read, file, file_specs(specs, schema.fields, read.fields_of(file)))
        for number, file in enumerate(files)
    ]
    found = mapped(executor or LocalExecutor(), "verifying", verify_one, tasks, lambda task: [task.file])
    reports = sorted(found, key=lambda r: r.number)
    return VerifyReport(
        files=len(reports),
        indexes=sum(r.indexes for r in reports),
        rows=sum(r.rows for r in reports if r.indexes),
        index_bytes=sum(r.index_bytes for r in reports),
        seconds=time.perf_counter() - started,
        findings=tuple(f for r in reports for f in r.findings),
    )


def verify_one(task: VerifyTask) -> FileReport:
    """Verify the indexes of one file. Whatever is wrong with the file becomes a finding."""
    return _Verifier(task).run()


class _Verifier:
    def __init__(self, task: VerifyTask) -> None:
        self.task = task
        self.file = task.file
        self.findings: list[Finding] = []
        self.indexes = 0
        self.bytes = 0

    def run(self) -> FileReport:
        data = self.container()
        if data is not None:
            try:
                index = FileIndex.open(BytesSource(data, self.file.index_path or f"{self.file.path} (embedded index)"))
            except CorruptFileError as error:
                self.add(None, None, "corrupt", str(error))
            else:
                self.compare(index, data)
        return FileReport(self.task.number, self.file.row_count, self.indexes, self.bytes, tuple(self.findings))

    def add(self, column: str | None, index_type: str | None, kind: str, detail: str) -> None:
        self.findings.append(Finding(self.file.path, column, index_type, kind, detail))

    def container(self) -> bytes | None:
        if self.file.index_path is None and self.file.embedded_index is None:
            self.missing(self.task.specs, "the file has no indexes")
            return None
        if self.file.index_path is None:
            return self.file.embedded_index
        try:
            return self.task.read.io.read_bytes(self.file.index_path)
        except FileNotFoundError:
            self.add(None, None, "missing", f"the index file {self.file.index_path.rpartition('/')[2]} is gone")
        return None

    def missing(self, specs: Sequence[IndexSpec], detail: str) -> None:
        """Indexes that are not there; one that can't hold the column's values is not missing."""
        for spec in specs:
            if spec.index_type != BSI or self.holds_column(spec):
                self.add(spec.container_name, spec.index_type, "missing", detail)

    def holds_column(self, spec: IndexSpec) -> bool:
        try:
            return not build_indexes(self.task.read, self.file, [spec])[1]
        except (PaimonError, FileNotFoundError):  # another finding reports it
            return True

    def compare(self, index: FileIndex, data: bytes) -> None:
        plan = plan_indexes(index.head, self.task.specs)
        self.missing(plan.build, "the container does not have it")
        for column, kind in plan.drop:
            self.add(column, kind, "unconfigured", "the table's options don't define it")
        located: dict[str, tuple[DataField, str | None]] = {}
        for column, kinds in index.head.columns.items():
            found = column_and_key(column, self.task.read.fields_of(self.file))
            if found is None:
                for kind in kinds:
                    self.add(column, kind, "unknown", "the file has no such column")
            else:
                located[column] = found
        if not located:
            return
        try:
            columns = _encoded(self.task.read, self.file, located)
        except (PaimonError, FileNotFoundError) as error:
            self.add(None, None, "data", f"the data file can't be read: {error}")
            return
        specs = {(s.container_name, s.index_type): s for s in self.task.specs}
        for column, encoded in columns.items():
            if encoded is None:
                continue
            if encoded.row_count != self.file.row_count:
                message = f"the data file has {encoded.row_count} rows, the manifest says {self.file.row_count}"
                self.add(None, None, "row-count", message)
                return
            for kind in index.head.columns[column]:
                self.check(index, column, kind, encoded, specs.get((column, kind)), data)

    def check(
        self, index: FileIndex, column: str, kind: str, encoded: EncodedColumn, spec: IndexSpec | None, data: bytes
    ) -> None:
        where = index.head.columns[column][kind]
        type_ = encoded.codec.type
        if not supports(kind, type_):
            self.add(column, kind, "unknown", f"a {kind} index on {type_} is not known here")
            return
        self.indexes += 1
        self.bytes += where.length
        if where.is_empty:
            if len(encoded.keys):
                detail = f"marked as empty, and the column has {len(encoded.keys):,} values: rows would be lost"
                self.add(column, kind, "stale", detail)
            return
        try:
            reader = index.reader(column, kind, type_)
            fault = None if reader is None else _fault(reader, encoded, spec, data, where)
        except CorruptFileError as error:
            fault = ("corrupt", str(error))
        if fault is not None:
            self.add(column, kind, *fault)


def column_and_key(name: str, fields: Sequence[DataField]) -> tuple[DataField, str | None] | None:
    """The column, and the map key, that a name in a container means."""
    for field in fields:
        if field.name == name:
            return field, None
    for field in fields:
        if isinstance(field.type, MapType) and name.startswith(f"{field.name}[") and name.endswith("]"):
            return field, name[len(field.name) + 1 : -1]
    return None


def _encoded(
    read: ReadSpec, file: PlannedFile, located: dict[str, tuple[DataField, str | None]]
) -> dict[str, EncodedColumn | None]:
    """The distinct keys and codes of the columns; None for a type that no index can be on."""
    dictionaries: dict[str, ColumnDictionary | None] = {}
    for name, (field, key) in located.items():
        type_ = value_type(field.type, key)
        can_have_index = any(supports(kind, type_) for kind in INDEX_TYPES)
        dictionaries[name] = ColumnDictionary(key_codec(type_)) if can_have_index else None
    fields = [f for f in read.fields_of(file) if any(f is field for field, _ in located.values())]
    for batch in indexed_batches(read, file, fields):
        for name, (field, key) in located.items():
            dictionary = dictionaries[name]
            if dictionary is not None:
                dictionary.update(map_values(batch.column(fields.index(field)), key))
    return {name: None if d is None else d.finish() for name, d in dictionaries.items()}


def _fault(
    reader: IndexReader, column: EncodedColumn, spec: IndexSpec | None, data: bytes, where: IndexRange
) -> tuple[str, str] | None:
    """How an index differs from the data: a kind and a sentence; None when it doesn't."""
    if isinstance(reader, BloomReader):
        denied, extra = bloom_difference(reader, column)
        if denied:
            return "stale", f"{denied:,} of {len(column.keys):,} values are denied: rows would be lost"
        return ("stale", f"{extra:,} bits are set for values that the file does not have") if extra else None
    if reader.row_count != column.row_count:
        return "row-count", f"the index is of {reader.row_count:,} rows, the file has {column.row_count:,}"
    if isinstance(reader, BitmapReader) and spec is not None:
        # Bitmaps of many values are slow to read back one by one: those written here are the same bytes.
        _, block_size = spec.bitmap()
        if write_bitmap(column, reader.version, block_size) == data[where.start : where.start + where.length]:
            return None
    if not isinstance(reader, BitmapReader | BsiReader | RangeBitmapReader):
        return None
    decoded = decode_index(reader, column.codec)
    wrong = np.flatnonzero(codes_in(decoded, column) != column.codes)
    wrong = np.setdiff1d(wrong, decoded.doubled, assume_unique=True)
    if len(wrong):
        share = f"{len(wrong):,} of {column.row_count:,} rows"
        return "stale", f"{share} have another value in the index, first row {wrong[0]:,}: rows would be lost"
    return (
        ("stale", f"{len(decoded.doubled):,} rows have several values in the index") if len(decoded.doubled) else None
    )
