"""Files of tables with a primary key as planned: their runs, and whether their rows can be given out as they lie."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.read import read_split
from paimon_pyds.engine.read.live_rows import LiveRows
from paimon_pyds.engine.scan.file_bounds import plan_with_bounds
from paimon_pyds.engine.scan.plan import plan_scan
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.result import ScanPlan
from paimon_pyds.engine.scan.travel import TableState
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage.local import LocalFileIO
from support.fixtures import fixture_dir, fixture_names, json_lines, meta, table_path
from support.values import expected_lines, in_order, lines


def _store(name: str) -> TableStore:
    return TableStore(LocalFileIO(), str(table_path(name)))


def _keyed() -> list[str]:
    return [
        n for n in fixture_names() if json.loads((fixture_dir(n) / "schema.json").read_text("utf-8"))["primary_keys"]
    ]


def _request(
    store: TableStore, snapshot: int | None = None, filter_: str = "", limit: int | None = None
) -> ScanRequest:
    schema = store.latest_schema()
    state: Snapshot | None = store.latest_snapshot() if snapshot is None else store.snapshot(snapshot)
    predicate = bind(parse_filter(filter_), schema.fields) if filter_ else Const.TRUE
    return ScanRequest(
        state=TableState(state, schema),
        predicate=predicate,
        fields=schema.fields,
        options=TableOptions(schema.options),
        limit=limit,
    )


def _plan(name: str, snapshot: int | None = None, filter_: str = "", limit: int | None = None) -> ScanPlan:
    store = _store(name)
    return plan_scan(store, _request(store, snapshot, filter_, limit))


def _java_files() -> Iterator[Any]:
    for name in _keyed():
        description = meta(name)
        for other in description["others"]:
            if other["cmd"] == "files" and not other["args"]:
                latest = description.get("files_is_latest", True) or other["expected"].endswith("_after_compact.jsonl")
                snapshot = None if latest else description["files_snapshot"]
                yield pytest.param(name, snapshot, other["expected"], id=f"{name}-{other['expected']}")


@pytest.mark.parametrize(("name", "snapshot", "expected"), list(_java_files()))
def test_runs_are_those_of_java(name: str, snapshot: int | None, expected: str) -> None:
    """Levels and buckets are Java's; what Java merges is not taken for raw, and no bucket is cut where it merges."""
    plan = _plan(name, snapshot)
    ours = {file.name: file for file in plan.files}
    for java in json_lines(fixture_dir(name) / expected):
        file = ours[java["fileName"]]
        assert file.run is not None
        assert (file.bucket, file.total_buckets, file.run.level) == (
            java["bucket"],
            java["totalBuckets"],
            java["level"],
        )
        assert file.merged or java["rawConvertible"], file.name
        assert file.live_row_count is None or not file.merged
    for split in plan.pack(target_size=1):
        merged = [file for file in split.files if file.merged]
        for file in merged:
            assert {f.name for f in plan.files if f.merged and f.bucket_id == file.bucket_id} <= {
                f.name for f in merged
            }
    assert len(plan.pack(max_splits=1)) <= 1


def test_a_compacted_bucket_is_raw() -> None:
    plan = _plan("pk_dedup_compacted")
    assert plan.files
    assert not any(file.merged for file in plan.files)
    assert plan.live_row_count == len(
        list(json_lines(fixture_dir("pk_dedup_compacted") / "expected" / "full.jsonl.gz"))
    )


def test_raw_splits_give_the_rows_of_java() -> None:
    plan = _plan("pk_dedup_compacted")
    batches = [batch for split in plan.splits for batch in read_split(pickle.loads(pickle.dumps(split)))]
    java = expected_lines(fixture_dir("pk_dedup_compacted") / "expected" / "full.jsonl.gz")
    assert in_order(line for batch in batches for line in lines(batch)) == java


def test_values_prune_no_file_that_may_hide_older_versions() -> None:
    """No file of several levels goes by a condition on a value, though statistics say that none of its rows match."""
    whole = _plan("pk_dedup_mor")
    assert any(file.merged for file in whole.files)
    by_value = _plan("pk_dedup_mor", filter_="v > 100000000 AND v < 100000002")
    assert {f.path for f in whole.files if f.merged} <= {f.path for f in by_value.files}
    assert not _plan("pk_dedup_mor", filter_="id < -9000000000000000000").files


def test_merged_rows_are_not_counted_by_metadata() -> None:
    plan = _plan("pk_dedup_mor")
    assert plan.live_row_count is None
    assert set(_plan("pk_dedup_mor", limit=1).paths) == set(plan.paths)
    store = _store("pk_dedup_mor")
    request = _request(store, filter_="v IS NOT NULL OR v IS NULL OR id IS NULL")
    bounded = plan_with_bounds(store, request, [f for f in request.state.schema.fields if f.name in ("id", "v")])
    for file in bounded.files:
        assert file.bounds_of("v").low is None or not file.merged


def test_rows_of_a_merged_file_are_not_looked_up_alone() -> None:
    plan = _plan("pk_dedup_mor")
    merged = next(file for file in plan.files if file.merged)
    with pytest.raises(UnsupportedError, match="merged"):
        LiveRows(plan.spec, merged)
