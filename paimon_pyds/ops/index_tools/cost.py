"""Cost and benefit of indexes: build them in memory for a sample of files, and evaluate the filters by them.

Nothing is written. Sizes and times of the sampled files are projected to the whole table by the number of rows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import no_columns, to_numpy
from paimon_pyds.base.options import TableOptions, check_known
from paimon_pyds.base.options.option import integer, mapping, several
from paimon_pyds.base.progress import counted as counted_items
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted, human_bytes
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.text import Summary, plain
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.engine.execution.live_files import file_specs, indexed_batches, live_in, planned_live_files
from paimon_pyds.errors import OptionError
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec, parse_index_specs, size_advice
from paimon_pyds.index.container import write_container
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.metadata.evolution.file_columns import plan_evolution
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.argument import condition
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.tree import Const, Predicate, root_columns
from paimon_pyds.storage.byte_source import BytesSource

_MOST_ROWS = 2_000_000
"""Rows taken of one file at most: bounds memory."""


@dataclass(frozen=True, slots=True)
class FileSample:
    """The first rows of a data file: some of its columns, ``fields`` of ``file_fields``, under its own names."""

    file: PlannedFile
    file_fields: tuple[DataField, ...]
    fields: tuple[DataField, ...]
    batches: tuple[pa.RecordBatch, ...]
    rows: int

    def devolve(self, predicate: Predicate, table_fields: Sequence[DataField]) -> Predicate:
        """A filter on the table's columns as one on the file's."""
        return plan_evolution(self.file_fields, _wanted(predicate, table_fields)).devolve(predicate)

    def as_table(self, fields: Sequence[DataField]) -> list[pa.RecordBatch]:
        """Columns of the table, read from the file's as they are now. The file's must be among the sample's."""
        evolution = plan_evolution(self.file_fields, fields)
        places = [self.fields.index(f) for f in evolution.file_fields]
        schema = arrow_schema(evolution.file_fields)
        batches = []
        for batch in self.batches:
            if places:
                own = pa.RecordBatch.from_arrays([batch.column(i) for i in places], schema=schema)
            else:
                own = no_columns(batch.num_rows)
            batches.append(evolution.apply(own))
        return batches

    def mask(self, predicate: Predicate, table_fields: Sequence[DataField]) -> npt.NDArray[np.bool_]:
        """Which of the rows a filter on the table's columns keeps."""
        if isinstance(predicate, Const):
            return np.full(self.rows, predicate is Const.TRUE)
        batches = self.as_table(_wanted(predicate, table_fields))
        return np.concatenate(
            [np.zeros(0, np.bool_), *(np.asarray(to_numpy(matches(predicate, b)), np.bool_) for b in batches)]
        )


def _wanted(predicate: Predicate, table_fields: Sequence[DataField]) -> tuple[DataField, ...]:
    names = root_columns(predicate)
    return tuple(f for f in table_fields if f.name in names)


def sample_files(files: Sequence[PlannedFile], count: int) -> list[PlannedFile]:
    """``count`` files from all over the table: the same ones each time, larger ones more likely.
    Raises OptionError: ``count`` is less than one."""
    if integer("files", count) < 1:
        raise OptionError(f"a sample needs at least one file, not {count}")
    full = sorted((f for f in files if f.row_count), key=lambda f: f.path)
    if len(full) <= count:
        return full
    ends = np.cumsum([f.row_count for f in full])
    places = (np.arange(count) + 0.5) * (ends[-1] / count)
    chosen = np.unique(np.searchsorted(ends, places, side="right"))
    return [full[int(i)] for i in chosen]


def read_sample(read: ReadSpec, file: PlannedFile, names: set[str], max_rows: int = _MOST_ROWS) -> FileSample:
    """The first rows of some columns (of the file's schema) of a data file.
    Raises CorruptFileError, StorageError: the file can't be read; SnapshotNotFoundError: it is gone."""
    own = read.fields_of(file)
    fields = tuple(f for f in own if f.name in names)
    rows = min(file.row_count, max_rows)
    selection = RowSelection.ALL if rows == file.row_count else RowSelection.of(range(rows))
    if not fields:
        return FileSample(file, own, fields, (no_columns(rows),), rows)
    with file.must_exist():
        batches = tuple(indexed_batches(read, file, fields, selection))
    return FileSample(file, own, fields, batches, sum(b.num_rows for b in batches))


_PREFIX = "file-index."


@dataclass(slots=True)
class IndexCost:
    """One index over the sampled files. Bytes and seconds (of one core, built alone); projections to all rows."""

    column: str
    index_type: str
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    projected_bytes: int = 0
    projected_seconds: float = 0.0


@dataclass(slots=True)
class FilterCost:
    """What the indexes make of one filter in the sampled files.

    ``rows_kept`` is what the indexes leave, ``rows_matching`` what really matches: the least that can be left.
    ``files_matching`` hold such a row. ``index_bytes`` are read to find out. ``exact``: the index's answer is final in
    every file.
    """

    filter: str
    files: int = 0
    files_kept: int = 0
    files_matching: int = 0
    rows: int = 0
    rows_kept: int = 0
    rows_matching: int = 0
    index_bytes: int = 0
    exact: bool = True


@dataclass(slots=True, repr=False)
class CostReport(Summary):
    """The cost of a configuration of indexes, and what it brings to some filters."""

    files: int
    rows: int
    sampled_files: int = 0
    sampled_rows: int = 0
    sampled_data_bytes: int = 0
    sampled_index_bytes: int = 0
    threshold: int = 0
    embedded: int = 0
    side: int = 0
    size_advice: str = ""
    """What makes the indexes smaller, where they take more than the data."""
    indexes: list[IndexCost] = field(default_factory=list)
    filters: list[FilterCost] = field(default_factory=list)

    @property
    def projected_bytes(self) -> int:
        return _projected(self.sampled_index_bytes, self.rows, self.sampled_rows)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "projected_bytes": self.projected_bytes}

    def __str__(self) -> str:
        indexes = (f"{c.index_type} of {c.column} {human_bytes(c.projected_bytes)}" for c in self.indexes)
        of_all = f"{human_bytes(self.projected_bytes)} of indexes for {counted(self.rows, 'row')}"
        filters = (f"{f.filter} leaves {f.rows_kept:,} of {f.rows:,} rows" for f in self.filters)
        return plain(f"{self.sampled_files} of {counted(self.files, 'file')} sampled", of_all, *indexes, *filters)


def index_options(schema: TableSchema, given: Mapping[str, str] | None) -> dict[str, str]:
    """The table's options with other indexes: ``given`` replaces all that the table says of which indexes there are.
    Raises OptionError: an unknown option, or one that is not of indexes."""
    if not given:
        return dict(schema.options)
    check_known(given, own=False)
    kept = {k: v for k, v in schema.options.items() if not (k.startswith(_PREFIX) and k.count(".") >= 2)}
    return {**kept, **given}


def index_cost(
    store: TableStore,
    options: Mapping[str, str] | None = None,
    filters: Sequence[str | Predicate] = (),
    *,
    files: int = 3,
    where: str | Predicate | None = None,
) -> CostReport:
    """Build indexes of a few files in memory: sizes, times, embedded or side, and what they leave of filters.

    The arguments are those of ``table.index.cost``.

    Raises:
        OptionError: wrong options of indexes, or a ``where`` on other columns.
        PredicateError: a filter that does not fit the table.
    """
    filters = several("filters", filters)
    schema = store.latest_schema()
    merged = index_options(schema, None if options is None else mapping("options", options))
    specs = parse_index_specs(merged, schema.fields)
    conditions = [condition("filters: each", f) for f in filters]
    predicates = [bind(parse_filter(f) if isinstance(f, str) else f, schema.fields) for f in conditions]
    entries = live_in(store, schema, store.latest_snapshot(), where, "index cost")
    read, live = planned_live_files(store, schema, entries)
    threshold = int(TableOptions(merged).get("file-index.in-manifest-threshold"))
    report = CostReport(len(live), sum(f.row_count for f in live), threshold=threshold)
    report.filters = [FilterCost(text if isinstance(text, str) else str(text)) for text in filters]
    costs: dict[tuple[str, str], IndexCost] = {}
    chosen = sample_files(live, files)
    for file in counted_items(chosen, "sampling", files=len(chosen)):
        own = [(spec, mine) for spec in specs for mine in file_specs([spec], schema.fields, read.fields_of(file))]
        columns = _columns([mine for _, mine in own], predicates, schema, read.fields_of(file))
        sample = read_sample(read, file, columns)
        container = _build(sample, own, report, costs)
        for predicate, cost in zip(predicates, report.filters, strict=True):
            _ask_filter(sample, container, predicate, schema, cost)
    for cost_of in costs.values():
        cost_of.projected_bytes = _projected(cost_of.bytes, report.rows, report.sampled_rows)
        cost_of.projected_seconds = cost_of.seconds * report.rows / max(1, report.sampled_rows)
    report.indexes = list(costs.values())
    if report.sampled_index_bytes > report.sampled_data_bytes:
        report.size_advice = size_advice(specs, report.sampled_rows // max(1, report.sampled_files))
    return report


def _projected(amount: int, rows: int, sampled: int) -> int:
    return round(amount * rows / max(1, sampled))


def _columns(
    specs: Sequence[IndexSpec], predicates: Sequence[Predicate], schema: TableSchema, file_fields: Sequence[DataField]
) -> set[str]:
    wanted = {name for predicate in predicates for name in root_columns(predicate)}
    ids = {f.id for f in schema.fields if f.name in wanted}
    return {spec.column for spec in specs} | {f.name for f in file_fields if f.id in ids}


def _build(
    sample: FileSample,
    specs: Sequence[tuple[IndexSpec, IndexSpec]],
    report: CostReport,
    costs: dict[tuple[str, str], IndexCost],
) -> bytes | None:
    """Build each index (as the table names it, as the file does) of the sample alone, to know its time; then join."""
    indexes: dict[str, dict[str, bytes]] = {}
    for spec, own in specs:
        started = time.perf_counter()
        body = build_one(sample, own)
        seconds = time.perf_counter() - started
        if body is None:
            continue
        indexes.setdefault(own.container_name, {})[own.index_type] = body
        name = spec.container_name
        cost = costs.setdefault((name, spec.index_type), IndexCost(name, spec.index_type))
        cost.files += 1
        cost.bytes += len(body)
        cost.seconds += seconds
    container = write_container(indexes, checksums=True) if indexes else None
    size = len(container or b"")
    report.sampled_files += 1
    report.sampled_rows += sample.rows
    report.sampled_data_bytes += round(sample.file.size * sample.rows / max(1, sample.file.row_count))
    report.sampled_index_bytes += size
    if container is not None:
        report.side += size > report.threshold
        report.embedded += size <= report.threshold
    return container


def build_one(sample: FileSample, spec: IndexSpec) -> bytes | None:
    """The body of one index of the sampled rows; None where it can't hold their values."""
    builder = FileIndexBuilder([spec], sample.fields)
    for batch in sample.batches:
        builder.update(batch)
    return builder.bodies().get(spec.container_name, {}).get(spec.index_type)


def _ask_filter(
    sample: FileSample, container: bytes | None, predicate: Predicate, schema: TableSchema, cost: FilterCost
) -> None:
    matching = int(np.count_nonzero(sample.mask(predicate, schema.fields)))
    kept, exact = sample.rows, False
    if container is not None:
        devolved = sample.devolve(predicate, schema.fields)
        result = FileIndex.open(BytesSource(container, sample.file.path)).evaluate(devolved, sample.rows)
        kept, exact = result.selection.count(sample.rows), result.exact
        cost.index_bytes += result.bytes_read
    cost.files += 1
    cost.files_kept += kept > 0
    cost.files_matching += matching > 0
    cost.rows += sample.rows
    cost.rows_kept += kept
    cost.rows_matching += matching
    cost.exact = cost.exact and exact
