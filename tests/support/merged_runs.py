"""The rows of a planned table with a primary key, merged from the runs of its buckets; for tables of one schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.format import ReadCounters, ReadHints, by_path
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER, VALUE_KIND, key_column, without_deletes
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.keys.merge.windows import SortedBatches, windows
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import PlannedFile
from paimon_pyds.storage.local import LocalFileIO


def merged_rows(files: Iterable[PlannedFile], schema: TableSchema) -> Iterator[pa.RecordBatch]:
    """The rows that readers see: the table's columns, ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``."""
    buckets: dict[object, list[PlannedFile]] = {}
    for file in files:
        buckets.setdefault(file.bucket_id, []).append(file)
    merger = RowMerger(schema)
    for members in buckets.values():
        for window in windows(_runs(members, schema), merger.keys, merger.needed):
            yield without_deletes(merger.merge(window, [*schema.field_names, SEQUENCE_NUMBER, VALUE_KIND]))


def _file_fields(schema: TableSchema) -> tuple[DataField, ...]:
    thin = TableOptions(schema.options).get("data-file.thin-mode")
    keys = [schema.field(name) for name in schema.trimmed_primary_keys]
    return (
        *(() if thin else (DataField(f.id + 2**30 - 1, key_column(f.name), f.type) for f in keys)),
        DataField(2147483646, SEQUENCE_NUMBER, parse_type("BIGINT NOT NULL")),
        DataField(2147483645, VALUE_KIND, parse_type("TINYINT NOT NULL")),
        *schema.fields,
    )


def _batches(file: PlannedFile, schema: TableSchema) -> Iterator[pa.RecordBatch]:
    hints = ReadHints(schema.options, file.instants)
    reader = by_path(file.path).open_reader(LocalFileIO(), file.path, file.size, ReadCounters(), hints)
    for batch in reader.read(_file_fields(schema), RowSelection.ALL, 100_000):
        for name in schema.trimmed_primary_keys:
            if key_column(name) not in batch.schema.names:
                batch = batch.append_column(key_column(name), batch.column(name))
        yield batch
    reader.close()


def _runs(files: Sequence[PlannedFile], schema: TableSchema) -> list[SortedBatches]:
    """Those of a bucket: every file of level 0 is one, and every higher level, whose files' keys are in order."""
    runs: dict[object, list[PlannedFile]] = {}
    for file in sorted(files, key=lambda f: -f.run.level if f.run else 0):
        assert file.run is not None
        runs.setdefault(file.run.level or file.path, []).append(file)
    found = []
    for members in runs.values():
        parts = [list(_batches(file, schema)) for file in members]
        parts.sort(key=lambda part: [part[0].column(key_column(k))[0].as_py() for k in schema.trimmed_primary_keys])
        found.append(SortedBatches([batch for part in parts for batch in part], members[0].path))
    return found
