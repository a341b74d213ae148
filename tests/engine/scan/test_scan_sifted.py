"""Plans of tables with large manifests test each manifest before they read the next one: the same plans, in the memory
of one manifest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings

import paimon_pyds as pp
from paimon_pyds.engine.scan.result import ScanPlan
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.avro import batch_decode
from paimon_pyds.metadata import manifest_codec, manifest_reader, manifest_records
from paimon_pyds.metadata import sifted_files as sifted
from paimon_pyds.metadata.manifest import live_entries
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.sifted_files import sifted_files
from support.counting_io import counted
from support.effort import LONG, sampled
from support.random_world import random_world
from support.table_model import to_sql, to_tree
from support.table_world import POOLS, SEEDS, Pools


@contextmanager
def _sifting(part: int = 1 << 14) -> Iterator[None]:
    """Plans sift each manifest, so many records at a time."""
    METADATA_CACHE.clear()
    with (
        mock.patch.object(manifest_reader, "MANY_MANIFEST_BYTES", 0),
        mock.patch.object(manifest_codec, "PART_RECORDS", part),
    ):
        yield


def _same_plan(table: pp.Table, where: Any, part: int = 1 << 14, **scan: Any) -> ScanPlan:
    whole = table.scan(where, **scan).plan()
    with _sifting(part):
        sifted = table.scan(where, **scan).plan()
    assert list(sifted.files) == list(whole.files)
    assert sifted.spec == whole.spec
    assert sifted.rows_in_doubt == whole.rows_in_doubt
    assert sifted.steps[-1].files == whole.steps[-1].files
    first, expected = sifted.steps[0], whole.steps[0]
    if first.name == expected.name:
        assert (first.files, first.rows, first.bytes) == (expected.files, expected.rows, expected.bytes)
    return sifted


@pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")
@settings(max_examples=300 if LONG else 8, phases=[Phase.generate])
@given(POOLS, SEEDS)
def test_random_tables_have_the_same_plans(pools: Pools, seed: int) -> None:
    with random_world(pools, seed | 1) as w:
        for _ in range(6):
            condition = w.condition(2, micros=False)
            w.log.append(f"filter {to_sql(condition)}")
            _same_plan(w.table, to_tree(condition), w.pick([1, 3, 1 << 14]))


@pytest.mark.parametrize("seed", range(40 if LONG else 1))
def test_random_key_tables_have_the_same_plans(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    options = {"bucket": choose.choice(["1", "3"]), "deletion-vectors.enabled": choose.choice(["true", "false"])}
    columns = {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "v": "INT", "s": "STRING"}
    table = pp.Table.create(tmp_path / "t", columns, primary_key=["p", "k"], partition_by="p", options=options)
    for step in range(5):
        ids = {choose.randrange(60) for _ in range(choose.randint(1, 40))}
        rows = [{"p": i % 5, "k": i, "v": step, "s": choose.choice(["a", None, "bc"])} for i in ids]
        table.append(pa.Table.from_pylist(rows, table.arrow_schema))
        if choose.random() < 0.4:
            table.compact(full=choose.random() < 0.5)
        if step == 2:
            table.alter(change_types={"v": "BIGINT"}, add_columns={"more": "DATE"})
    for where in ("v > 2", "s = 'a' AND p <> 1", "more IS NULL AND k < 30", "k = 7", "p = 3", "p = 99"):
        _same_plan(table, where, choose.choice([1, 4, 1 << 14]))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """Some hundred files of two schemas, with dense statistics and without; a few are rewritten."""
    columns = {"id": "BIGINT", "x": "DOUBLE", "s": "STRING", "p": "INT"}
    made = pp.Table.create(tmp_path_factory.mktemp("w") / "t", columns, partition_by="p")

    def rows(first: int, **more: Any) -> pa.Table:
        found = [{"id": i, "x": i / 2, "s": f"v{i:04}", "p": i % 60, **more} for i in range(first, first + 60)]
        return pa.Table.from_pylist(found, made.arrow_schema)

    made.append(rows(0))
    made.alter({"metadata.stats-mode": "none", "fields.id.stats-mode": "full"})
    made.append(rows(60))
    made.alter(add_columns={"late": "INT"}, change_types={"id": "DECIMAL(20, 0)"}, rename_columns={"s": "text"})
    made.append(pa.Table.from_pylist([{"id": i, "text": "w", "p": 1, "late": i} for i in range(9)], made.arrow_schema))
    made.delete("id BETWEEN 10 AND 20")
    made.compact(where="p = 1")
    return made


_FILTERS = (
    "id = 7", "id > 90 AND p < 50", "x >= 29.5", "late IS NOT NULL", "text < 'v0003' OR late = 3", "p IN (1, 7)",
    "id = 15", "p = 61",
)  # fmt: skip


def test_manifests_stay_in_memory_from_the_second_filter_on(table: pp.Table) -> None:
    def kept() -> int:
        return len(table.scan("id > 90 AND p < 50").plan().files)

    METADATA_CACHE.clear()
    with mock.patch.object(manifest_reader, "LARGE_BYTES", 0):
        first, after_first = kept(), METADATA_CACHE.weight
        assert kept() == first
        after_second = METADATA_CACHE.weight
        assert kept() == first
    assert after_first < after_second == METADATA_CACHE.weight


@pytest.mark.parametrize("part", [1, 50, 1 << 14])
@pytest.mark.parametrize("where", sampled([*_FILTERS, None], 2))
def test_the_plan_is_that_of_all_entries(table: pp.Table, where: str, part: int) -> None:
    plan = _same_plan(table, where, part)
    assert plan.steps[0].name in ("table", "manifests")


def test_removed_files_do_not_come_back(table: pp.Table) -> None:
    with _sifting():
        assert table.scan("id = 15").to_arrow().num_rows == 0
        assert table.scan("id = 9 OR id = 21").to_arrow().num_rows == 2


def test_manifests_with_removals_are_read_once_as_far_as_memory_allows(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifests here begin with the same letters as manifest lists do, which are read once in any case."""
    for bound, most in ((sifted.HELD_BYTES, 1), (0, 2)):
        monkeypatch.setattr(sifted, "HELD_BYTES", bound)
        store, io = counted(table.path)
        with _sifting():
            assert pp.Table(store).scan("id = 15 OR id = 21").plan().files
        reads = Counter(name for name, _ in io.read if name.startswith("manifest-"))
        assert max(reads.values()) == most


def test_columns_of_other_files_are_not_made(table: pp.Table) -> None:
    made: list[int] = []
    original = batch_decode.to_arrow

    def to_arrow(capture: Any, type_: pa.DataType, data: Any, rows: Any = None) -> pa.Array:
        found = original(capture, type_, data, rows)
        if type_ == pa.string():
            made.append(len(found))
        return found

    store = table._store
    base = ManifestReader(store).manifests(store.latest_snapshot())
    without = [m for m in base if not m.num_deleted_files and m.num_added_files > 48]
    assert without
    with mock.patch.object(manifest_records, "to_arrow", to_arrow):
        found = sifted_files(
            ManifestReader(store), without, ("file_name", "bucket"), lambda e: e.column("row_count").to_numpy() < 0
        )
    assert found is not None
    assert (found.entries.num_rows, found.entries.schema.names) == (0, ["bucket", "file_name"])
    assert found.files == sum(m.num_added_files for m in without)
    assert sum(made) == 0


def test_nothing_stays_in_memory(table: pp.Table) -> None:
    with _sifting():
        table.scan("id = 7").plan()
        keys = [*METADATA_CACHE._small._entries, *METADATA_CACHE._large._entries]
        names = [key[1] for key in keys if isinstance(key, tuple) and len(key) == 4]
        assert not [name for name in names if "/manifest-" in name and "-list-" not in name]


def test_totals_are_those_of_live_files(table: pp.Table) -> None:
    store = table._store
    reader = ManifestReader(store)
    manifests = reader.manifests(store.latest_snapshot())
    alive = live_entries([reader.entries(manifests)])
    found = sifted_files(reader, manifests, ("file_name",), lambda entries: entries.column("bucket").to_numpy() > 5)
    assert found is not None
    sums = [sum(alive[name].to_pylist()) for name in ("row_count", "file_size")]
    assert found[1:] == (alive.num_rows, *sums)
    assert found.entries.num_rows == 0


def test_manifests_whose_list_hides_removals_are_read_whole(table: pp.Table) -> None:
    store = table._store
    reader = ManifestReader(store)
    manifests = [
        replace(m, num_added_files=m.num_added_files + m.num_deleted_files, num_deleted_files=0)
        for m in reader.manifests(store.latest_snapshot())
    ]
    assert sifted_files(reader, manifests, ("file_name", "bucket"), lambda e: e.column("bucket").to_numpy() > 5) is None
    with _sifting(), mock.patch.object(ManifestReader, "manifests", return_value=manifests):
        assert table.scan("id = 15").to_arrow().num_rows == 0


def test_a_manifest_of_other_length_than_its_list_says_is_corrupt(table: pp.Table) -> None:
    store = table._store
    reader = ManifestReader(store)
    first, *rest = reader.manifests(store.latest_snapshot())
    wrong = [replace(first, num_added_files=first.num_added_files + 1), *rest]
    with pytest.raises(CorruptFileError, match="its manifest list says"):
        sifted_files(reader, wrong, ("file_name",), lambda e: e.column("kind").to_numpy() == 0)


def test_entries_on_this_disk_are_sifted_as_well(table: pp.Table, tmp_path: Path) -> None:
    cache = {"local-cache.enabled": "true", "local-cache.dir": str(tmp_path / "cache")}
    again = pp.Table.open(table.path, storage_options=cache)
    with mock.patch("paimon_pyds.metadata.manifest_store.MIN_CACHED_BYTES", 1):
        for where in _FILTERS:
            _same_plan(again, where)
            with _sifting():
                first, second = (list(again.scan(where).plan().files) for _ in range(2))
            assert first == second
    assert list((tmp_path / "cache").iterdir())
