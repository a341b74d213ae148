"""Entries of manifests become planned files: each in its bucket, all of a bucket sharing the object that names it; and
the same files whether they are made at once or when somebody looks at them."""

from __future__ import annotations

import gc
import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.cache import collection_paused
from paimon_pyds.base.row import EMPTY_ROW, encode_row
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.engine.scan.planned_files import _buckets, files_when_asked, planned_files
from paimon_pyds.engine.scan.result import ScanPlan
from paimon_pyds.errors import SecurityError
from paimon_pyds.metadata.manifest import DataFile, ManifestEntry
from paimon_pyds.metadata.manifest_codec import entries_to_batch
from paimon_pyds.metadata.split import Files
from support.effort import examples

_BUCKETS = st.sampled_from([-(1 << 31), -2, -1, 0, 1, 5, (1 << 31) - 1])


@given(st.lists(st.tuples(st.binary(max_size=2), _BUCKETS), max_size=20))
def test_each_entry_is_of_its_partition_and_bucket(keys: list[tuple[bytes, int]]) -> None:
    columns = [pa.array([k[0] for k in keys], pa.binary()), pa.array([k[1] for k in keys], pa.int32())]
    shared, numbers = _buckets(pa.RecordBatch.from_arrays(columns, ["partition", "bucket"]))
    assert [tuple(shared[number]) for number in numbers] == keys
    assert len(shared) == len(set(keys))


def test_garbage_is_collected_again_whatever_happens_meanwhile() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="no"), collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("no")
    assert gc.isenabled()
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


# ------------------------------------------------------------------------------------------- made when they are asked


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    schema = pa.schema([("p", pa.string()), ("i", pa.int64())])
    return pp.Table.create(tmp_path_factory.mktemp("asked") / "t", schema, partition_by=["p"])


def entries_of(table: pp.Table, files: list[tuple[str, int, str, int, int, int | None]]) -> pa.RecordBatch:
    stats = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    types = [field.type for field in table.schema.partition_fields]
    return entries_to_batch([
        ManifestEntry(
            0, encode_row([partition], types), bucket, -1,
            DataFile(
                file_name=name, file_size=size, row_count=rows, min_key=EMPTY_ROW, max_key=EMPTY_ROW, key_stats=stats,
                value_stats=stats, min_sequence_number=0, max_sequence_number=rows, schema_id=0, first_row_id=row_id,
            ),
        )
        for partition, bucket, name, size, rows, row_id in files
    ])  # fmt: skip


_FILES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b/ä", ""]),
        st.sampled_from([0, 1, -2]),
        st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=9).filter(
            lambda name: name not in (".", "..") and not name.endswith(".orc")
        ),
        st.integers(0, 100) | st.integers(0, 2**63 - 1),
        st.integers(0, 100) | st.integers(0, 2**63 - 1),
        st.none() | st.integers(0, 9),
    ),
    max_size=12,
)


@settings(max_examples=examples(10))
@given(_FILES, st.integers(0, 300), st.integers(0, 60), st.integers(1, 5), st.data())
def test_files_are_the_same_whenever_they_are_made(
    table: pp.Table, drawn: list[tuple[str, int, str, int, int, int | None]], size: int, cost: int, most: int,
    data: st.DataObject,
) -> None:  # fmt: skip
    entries = entries_of(table, drawn)
    at_once = tuple(planned_files(table._store, table.schema, entries))

    def asked() -> Files:
        found = files_when_asked(table._store, table.schema, entries)
        assert found is not None
        return found

    assert asked().made == at_once and len(asked()) == len(at_once)
    assert pickle.loads(pickle.dumps(asked())) == Files(at_once) == asked()
    plan = replace(table.scan().plan(), target_split_size=size, open_file_cost=cost)
    one, other = replace(plan, found=asked(), _splits=[]), replace(plan, found=Files(at_once), _splits=[])
    for of_plan in (
        ScanPlan.pack, lambda p: p.pack(max_splits=most), lambda p: p.pack(target_size=size // 2, cut=True),
        lambda p: [(s.row_count, s.size, repr(s)) for s in p.splits], repr,
        lambda p: pickle.loads(pickle.dumps(p.splits)), lambda p: p.live_row_count, lambda p: p.paths,
    ):  # fmt: skip
        assert of_plan(one) == of_plan(other)
    start, stop, limit = (data.draw(st.integers(0, 12)) for _ in range(3))
    assert asked().part(start, stop).made == at_once[start:stop]
    assert asked().part(0, stop).part(start, stop + 1).made == at_once[:stop][start : stop + 1]
    assert asked().first(limit) == Files(at_once).first(limit)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a.parquet", "a\0.parquet"])
@pytest.mark.parametrize("before", [0, 30_000])
def test_names_that_leave_the_directory_are_refused_before(table: pp.Table, name: str, before: int) -> None:
    usual = entries_of(table, [("a", 0, "data-0.parquet", 1, 1, None)]).take(pa.array([0] * before, pa.int64()))
    entries = pa.Table.from_batches([usual, entries_of(table, [("a", 0, name, 1, 1, None)])])
    with pytest.raises(SecurityError, match="leaves its directory"):
        files_when_asked(table._store, table.schema, entries.combine_chunks().to_batches()[0])


@pytest.mark.parametrize("options", [{"limit": 3}, {"limit": 0}, {"limit": 100}, {"filter": "p = 'a'"}, {}])
def test_a_plan_has_the_files_of_its_explanation(tmp_path: Path, options: dict[str, object]) -> None:
    """An explanation asks statistics of all files, and makes them at once."""
    schema = pa.schema([("p", pa.string()), ("i", pa.int64())])
    table = pp.Table.create(tmp_path / "t", schema, partition_by=["p"])
    for number in range(3):
        table.append([{"p": p, "i": number} for p in "ab"])
    scan = table.scan(**options)  # type: ignore[arg-type]
    explained = scan._planned(replace(scan.request, explain=True))
    assert scan.plan().files == explained.files
    assert scan.plan().spec.schemas == explained.spec.schemas
