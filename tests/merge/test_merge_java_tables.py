"""Tables that Java wrote: the runs of their buckets, cut into windows and merged, are the rows that Java reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.formats import by_path
from paimon_pyds.formats.base import ReadCounters, ReadHints
from paimon_pyds.merge.key_values import SEQUENCE_NUMBER, VALUE_KIND, key_column, without_deletes
from paimon_pyds.merge.merger import RowMerger
from paimon_pyds.merge.windows import SortedBatches, windows
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.predicate.tree import Const
from paimon_pyds.scan.plan import ScanRequest, plan_scan
from paimon_pyds.scan.travel import TableState
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import PlannedFile
from paimon_pyds.storage.local import LocalFileIO
from paimon_pyds.types import DataField, parse_type
from support.fixtures import fixture_dir, fixture_names, meta, requires_shared, table_path
from support.values import dumps, expected_lines, in_order, lines

_IO = LocalFileIO()


def _reads() -> Iterator[Any]:
    """Of tables whose readers don't leave out files of level 0, or of buckets that are not decided."""
    for name in fixture_names():
        options = json.loads((fixture_dir(name) / "schema.json").read_text("utf-8"))["options"]
        hidden = options.get("merge-engine") == "first-row" or options.get("deletion-vectors.enabled") == "true"
        hidden = hidden or options.get("bucket") == "-2"
        if name.startswith("pk_") and not hidden:
            for read in meta(name)["reads"]:
                if set(read) <= {"name", "expected", "snapshot"}:
                    yield pytest.param(name, read.get("snapshot"), read["expected"], id=f"{name}-{read['name']}")


def _file_fields(schema: TableSchema) -> tuple[DataField, ...]:
    thin = TableOptions(schema.options).get("data-file.thin-mode")
    keys = [schema.field(name) for name in schema.trimmed_primary_keys]
    return (
        *(() if thin else (DataField(f.id + 2**30 - 1, key_column(f.name), f.type) for f in keys)),
        DataField(2147483646, SEQUENCE_NUMBER, parse_type("BIGINT NOT NULL")),
        DataField(2147483645, VALUE_KIND, parse_type("TINYINT NOT NULL")),
        *schema.fields,
    )


def _batches(file: PlannedFile, schema: TableSchema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    hints = ReadHints(schema.options, file.instants)
    reader = by_path(file.path).open_reader(_IO, file.path, file.size, ReadCounters(), hints)
    for batch in reader.read(_file_fields(schema), RowSelection.ALL, batch_rows):
        for name in schema.trimmed_primary_keys:
            if key_column(name) not in batch.schema.names:
                batch = batch.append_column(key_column(name), batch.column(name))
        yield batch
    reader.close()


def _runs(files: list[PlannedFile], schema: TableSchema, batch_rows: int) -> list[SortedBatches]:
    """Those of a bucket: every file of level 0 is one, and every higher level, whose files' keys are in order."""
    runs: dict[object, list[PlannedFile]] = {}
    for file in sorted(files, key=lambda f: -f.run.level if f.run else 0):
        assert file.run is not None
        runs.setdefault(file.run.level or file.path, []).append(file)
    found = []
    for members in runs.values():
        parts = [list(_batches(file, schema, batch_rows)) for file in members]
        parts.sort(key=lambda part: [part[0].column(key_column(k))[0].as_py() for k in schema.trimmed_primary_keys])
        found.append(SortedBatches([batch for part in parts for batch in part], members[0].path))
    return found


def _state(store: TableStore, name: str, snapshot: int | None, expected: str) -> Snapshot | None:
    """The snapshot that a read is of: the latest, but the one before where the table was compacted after the read."""
    latest = store.latest_snapshot()
    if snapshot is None and latest is not None and "after_compact" not in expected:
        compacted = any("after_compact" in read["expected"] for read in meta(name)["reads"])
        snapshot = latest.id - 1 if compacted else latest.id
    return latest if snapshot is None else store.snapshot(snapshot)


def _comparable(rows: Iterable[str], schema: TableSchema) -> list[str]:
    """Rows as texts; the items of a set, which Java gives in the order of hashes, are sorted."""
    sets = [f.name for f in schema.fields if schema.options.get(f"fields.{f.name}.distinct") == "true"]
    found = []
    for line in rows:
        row = json.loads(line)
        for name in sets:
            if isinstance(row[name], list):
                row[name].sort()
        found.append(dumps(row) if sets else line)
    return in_order(found)


@pytest.mark.parametrize("batch_rows", [7, 100_000])
@pytest.mark.parametrize(("name", "snapshot", "expected"), list(_reads()))
def test_merged_runs_are_the_rows_of_java(name: str, snapshot: int | None, expected: str, batch_rows: int) -> None:
    store = TableStore(_IO, str(table_path(name)))
    schema = store.latest_schema()
    state = TableState(_state(store, name, snapshot, expected), schema)
    plan = plan_scan(store, ScanRequest(state, Const.TRUE, schema.fields, (), TableOptions(schema.options)))
    buckets: dict[object, list[PlannedFile]] = {}
    for file in plan.files:
        buckets.setdefault(file.bucket_id, []).append(file)
    merger = RowMerger(schema)
    found: list[str] = []
    for files in buckets.values():
        for window in windows(_runs(files, schema, batch_rows), merger.keys, merger.needed):
            rows = without_deletes(merger.merge(window, [*schema.field_names, VALUE_KIND]))
            found += lines(rows.select(list(schema.field_names)))
    assert _comparable(found, schema) == _comparable(expected_lines(fixture_dir(name) / expected), schema)


@requires_shared
def test_there_are_tables_of_the_engines_that_merge_on_read() -> None:
    stores = {read.values[0]: TableStore(_IO, str(table_path(read.values[0]))) for read in _reads()}
    engines = {store.latest_schema().options.get("merge-engine", "deduplicate") for store in stores.values()}
    assert engines == {"deduplicate", "partial-update", "aggregation"}
