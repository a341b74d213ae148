"""Tables that Java wrote: the runs of their buckets, cut into windows and merged, are the rows that Java reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.scan.plan import plan_scan
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.travel import TableState
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage.local import LocalFileIO
from support.effort import sampled
from support.fixtures import fixture_dir, fixture_names, meta, requires_shared, table_path
from support.merged_runs import merged_lines
from support.values import dumps, expected_lines, in_order

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
@pytest.mark.parametrize(("name", "snapshot", "expected"), sampled(_reads(), 50))
def test_merged_runs_are_the_rows_of_java(name: str, snapshot: int | None, expected: str, batch_rows: int) -> None:
    store = TableStore(_IO, str(table_path(name)))
    schema = store.latest_schema()
    state = TableState(_state(store, name, snapshot, expected), schema)
    plan = plan_scan(store, ScanRequest(state, Const.TRUE, schema.fields, TableOptions(schema.options)))
    found = merged_lines(plan.files, schema, batch_rows)
    assert _comparable(found, schema) == _comparable(expected_lines(fixture_dir(name) / expected), schema)


@requires_shared
def test_there_are_tables_of_the_engines_that_merge_on_read() -> None:
    stores = {read.values[0]: TableStore(_IO, str(table_path(read.values[0]))) for read in _reads()}
    engines = {store.latest_schema().options.get("merge-engine", "deduplicate") for store in stores.values()}
    assert engines == {"deduplicate", "partial-update", "aggregation"}
