"""Many small files are decoded together: the same rows, in the same order, as file by file."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.orc as arrow_orc
import pytest
from hypothesis import Phase, given, settings

import paimon_pyds as pp
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.engine.read import small_files
from paimon_pyds.engine.read.file import read_file
from paimon_pyds.engine.read.live_rows import FileTrace
from paimon_pyds.engine.read.small_files import joined_files
from paimon_pyds.engine.read.split_read import read_splits
from paimon_pyds.errors import CorruptFileError, SnapshotNotFoundError, UnsupportedError
from paimon_pyds.format.avro.small_files import SmallFiles as AvroSmallFiles
from paimon_pyds.format.orc.small_files import SmallFiles as OrcSmallFiles
from paimon_pyds.format.parquet.small_files import SmallFiles
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec, result_schema, sections
from support.data_files import fields_of, table_of, write_file
from support.effort import LONG, sampled
from support.random_world import random_world
from support.table_model import to_sql, to_tree
from support.table_world import POOLS, SEEDS, Pools

_COLUMNS = {
    "id": "BIGINT NOT NULL", "s": "STRING", "d": "DECIMAL(20, 3)", "ts": "TIMESTAMP(9)", "at": "TIMESTAMP_LTZ(3)",
    "tags": "ARRAY<STRING>", "m": "MAP<STRING, INT>", "r": "ROW<a INT, b STRING>", "p": "STRING", "q": "INT",
}  # fmt: skip


def _row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "s": None if i % 5 == 0 else f"v{i % 7}",
        "d": None if i % 11 == 0 else Decimal(i) / 8,
        "ts": dt.datetime(2024, 1, 1) + dt.timedelta(hours=i),
        "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=i),
        "tags": None if i % 3 == 0 else [f"t{i}", None],
        "m": [("k", i)] if i % 2 else [],
        "r": {"a": i, "b": None},
        "p": None if i % 13 == 0 else f"p{i % 4}",
        "q": i % 3,
    }


@pytest.fixture(scope="module", params=sampled(["parquet", "orc", "avro"], 2))
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """Some sixty files of few rows in partitions, of three schemas."""
    options = {"file.format": request.param}
    columns = _COLUMNS if request.param != "avro" else {**_COLUMNS, "ts": "TIMESTAMP(6)"}
    made = pp.Table.create(tmp_path_factory.mktemp("w") / "t", columns, partition_by=["p", "q"], options=options)
    schema = made.arrow_schema
    made.append(pa.Table.from_pylist([_row(i) for i in range(40)], schema))
    made.alter(add_columns={"late": "INT"}, rename_columns={"s": "text"})
    schema = made.arrow_schema
    made.append(pa.Table.from_pylist([{**_row(i), "text": f"v{i}", "late": i} for i in range(40, 70)], schema))
    made.alter(change_types={"late": "BIGINT"})
    schema = made.arrow_schema
    made.append(pa.Table.from_pylist([{**_row(i), "text": None, "late": -i} for i in range(70, 90)], schema))
    return made


def _plan(table: pp.Table, where: str | None, columns: Sequence[str] | None) -> tuple[ReadSpec, list[PlannedFile]]:
    plan = table.scan(where, columns=columns).plan()
    return plan.splits[0].spec, list(plan.files)


def _alone(spec: ReadSpec, files: Sequence[PlannedFile]) -> pa.Table:
    batches = [batch for file in files for batch in read_file(spec, file)]
    return pa.Table.from_batches(batches, result_schema(spec)).combine_chunks()


@pytest.mark.parametrize("columns", [None, ["id"], ["p"], ["late", "q"], ["r", "m", "id", "ts"]])
def test_the_rows_are_those_of_the_files_one_by_one(table: pp.Table, columns: list[str] | None) -> None:
    filters = [None, "id % 2 = 0", "text = 'v3' OR late > 50", "q = 1 AND id < 60", "d IS NULL"]
    for where, threads in sampled([(where, threads) for where in filters for threads in (1, 2)], 3):
        spec, files = _plan(table, where, columns)
        assert max(map(len, joined_files(spec, sections(files)))) > 1
        traces: list[FileTrace] = []
        batches = list(read_splits(spec, files, threads=threads, on_file=traces.append))
        together = pa.Table.from_batches(batches, result_schema(spec)).combine_chunks()
        assert together.equals(_alone(spec, files))
        assert sum(trace.rows_returned for trace in traces) == together.num_rows
        assert {trace.path for trace in traces} == {file.path for file in files}
        if columns is not None and "ts" not in columns:  # timestamps of 96 bits are read file by file
            assert len(batches) < len(files)


def test_a_trace_counts_the_rows_of_its_file(table: pp.Table) -> None:
    spec, files = _plan(table, "id % 3 = 0", None)
    traces: list[FileTrace] = []
    list(read_splits(spec, files, on_file=traces.append))
    alone = {file.path: sum(batch.num_rows for batch in read_file(spec, file)) for file in files}
    assert {trace.path: trace.rows_returned for trace in traces} == alone
    assert all(trace.counters.bytes_read > 0 and trace.rows_after_pages == trace.rows for trace in traces)


@pytest.fixture(params=sampled(["parquet", "orc", "avro"], 2))
def flat(request: pytest.FixtureRequest, tmp_path: Path) -> pp.Table:
    options = {"file.format": request.param}
    made = pp.Table.create(tmp_path / "t", {"id": "BIGINT", "p": "INT"}, partition_by="p", options=options)
    made.append(pa.table({"id": range(20), "p": pa.array(range(20), pa.int32())}))
    return made


def _paths(table: pp.Table) -> list[Path]:
    return [Path(file.path) for file in table.scan().plan().files]


def test_a_file_that_is_gone_is_named(flat: pp.Table) -> None:
    scan = flat.scan()
    path = _paths(flat)[7]
    path.unlink()
    with pytest.raises(SnapshotNotFoundError, match=path.name):
        scan.to_arrow()


def test_damage_never_gives_other_rows(flat: pp.Table) -> None:
    expected = flat.scan().to_arrow()
    path = _paths(flat)[11]
    whole = path.read_bytes()
    for at in sampled(range(len(whole)), 15):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            found = flat.scan().to_arrow()
        except (CorruptFileError, UnsupportedError) as error:  # the codec of ORC is a number
            assert path.name in str(error)
        else:
            assert found.equals(expected), at


def test_a_file_of_other_rows_than_its_manifest_says_is_corrupt(flat: pp.Table) -> None:
    paths = _paths(flat)
    other = pp.Table.create(Path(flat.path).parent / "other", flat.arrow_schema, options=dict(flat.options))
    other.append(pa.table({"id": range(3), "p": pa.array([1, 1, 1], pa.int32())}))
    paths[3].write_bytes(_paths(other)[0].read_bytes())
    with pytest.raises(CorruptFileError, match=paths[3].name):
        flat.scan().to_arrow()


def test_a_value_that_an_avro_column_cannot_have_names_its_file(tmp_path: Path) -> None:
    """The columns of many files are made together."""
    decoder, found = AvroSmallFiles(fields_of("INT NOT NULL")), []
    for name, value in (("one", 1), ("two", None), ("three", 3)):
        path = tmp_path / f"{name}.avro"
        write_file(path, fields_of("INT"), table_of(fields_of("INT"), [value]))
        found.append(decoder.decode(path.read_bytes(), 1, name))
    with pytest.raises(CorruptFileError, match="NOT NULL") as caught:
        decoder.joined(found, "one")
    assert caught.value.path == "two"
    assert decoder.joined([found[0], found[2]], "one").column(0).to_pylist() == [1, 3]


def test_orc_files_that_only_the_reader_reads(tmp_path: Path) -> None:
    """Timestamps that nanoseconds don't hold, a dot in a name, files without checksums."""
    columns = {"id": "BIGINT", "a.b": "INT", "ts": "TIMESTAMP(3)", "p": "INT"}
    table = pp.Table.create(tmp_path / "t", columns, partition_by="p", options={"file.format": "orc"})
    years = [1, 1677, 1970, 2024, 2263, 9999]
    table.append([{"id": year, "a.b": 1, "ts": dt.datetime(year, 5, 6), "p": year} for year in years])
    for columns_read in (None, ["id"], ["id", "ts"], ["a.b"]):
        spec, files = _plan(table, None, columns_read)
        traces = [FileTrace(file.path, file.row_count) for file in files]
        found = pa.Table.from_batches(small_files.read_small_files(spec, files, traces, 9)).combine_chunks()
        assert found.equals(_alone(spec, files))
        assert [trace.rows_returned for trace in traces] == [1] * len(years)
    fields = table.schema.fields[:1]
    for path in _paths(table):
        plain = tmp_path / "plain.orc"
        arrow_orc.write_table(arrow_orc.read_table(path, columns=["id"]), plain)
        assert OrcSmallFiles(fields).decode(path.read_bytes(), 1, "f") is not None
        assert OrcSmallFiles(fields).decode(plain.read_bytes(), 1, "f") is None


def test_a_small_file_of_very_long_texts_is_left_to_the_reader_with_bounded_memory(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"s": "STRING"})
    table.append({"s": ["x" * 20_000] * 4_000})
    (path,) = _paths(table)
    data = path.read_bytes()
    assert len(data) < 128 << 10
    assert SmallFiles(table.schema.fields).decode(data, 4_000, str(path)) is None
    table.append({"s": ["y"]})
    assert sum(batch.num_rows for batch in table.scan("s = 'y'").to_batches()) == 1


def test_files_are_joined_up_to_a_bound(flat: pp.Table) -> None:
    spec, files = _plan(flat, None, None)
    assert [len(group) for group in joined_files(spec, sections(files))] == [1, 4, 15]
    assert [len(group) for group in joined_files(spec, sections(files * 20))] == [1, 4, 16, 64, 256, 59]


def test_rows_of_vectors_and_of_plans_are_picked_from_joined_files(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "id"}
    table = pp.Table.create(tmp_path / "t", {"id": "BIGINT", "p": "INT"}, partition_by="p", options=options)
    table.append(pa.table({"id": range(60), "p": pa.array([i % 6 for i in range(60)], pa.int32())}))
    table.delete("id = 5 or p = 3")
    spec, files = _plan(table, None, None)
    assert [len(group) for group in joined_files(spec, sections(files))] == [1, 4]
    traces: list[FileTrace] = []
    rows = pa.Table.from_batches(read_splits(spec, files, on_file=traces.append))
    assert sorted(rows["id"].to_pylist()) == [i for i in range(60) if i != 5 and i % 6 != 3]
    assert sorted(trace.rows_after_deletions or 0 for trace in traces) == [9, 10, 10, 10, 10]
    selecting = [file.selecting(RowSelection.of([number])) for number, file in enumerate(files)]
    rows = pa.Table.from_batches(read_splits(spec, selecting))
    assert rows.equals(_alone(spec, selecting))
    windows = [file._replace(window=(2, 6)) for file in files]
    rows = pa.Table.from_batches(read_splits(spec, windows))
    assert rows.combine_chunks().equals(_alone(spec, windows))
    assert rows.num_rows in (19, 20)


def test_indexes_of_joined_files_are_used(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "id", "file-index.in-manifest-threshold": "1 b"}
    table = pp.Table.create(tmp_path / "t", {"id": "BIGINT", "p": "INT"}, partition_by="p", options=options)
    table.append(pa.table({"id": range(40), "p": pa.array([i % 4 for i in range(40)], pa.int32())}))
    table.append(pa.table({"id": range(1000, 1040), "p": pa.array([i % 4 for i in range(40)], pa.int32())}))
    spec, files = _plan(table, "id % 2 = 1 AND id <> 5 AND id NOT IN (1001, 1003)", None)
    assert [len(group) for group in joined_files(spec, sections(files))] == [1, 4, 3]
    traces: list[FileTrace] = []
    found = pa.Table.from_batches(read_splits(spec, files, on_file=traces.append))
    assert found.combine_chunks().equals(_alone(spec, files))
    assert all(len(trace.index_results) == 1 for trace in traces)
    without = [trace for trace in traces if not trace.rows_after_index]
    assert not any(trace.counters.row_groups_read for trace in without)
    assert all(trace.counters.index_bytes for trace in traces)


def _as_files_alone(read: Callable[[], pa.Table]) -> None:
    """The same rows in the same order, whether files are joined or each is read by itself."""
    together = read()
    with mock.patch.object(small_files, "MOST_ROWS", 0):
        alone = read()
    assert together.schema.equals(alone.schema)
    assert list(map(repr, together.to_pylist())) == list(map(repr, alone.to_pylist()))


@pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")
@settings(max_examples=300 if LONG else 4, phases=[Phase.generate])
@given(POOLS, SEEDS)
def test_random_tables_read_as_files_alone(pools: Pools, seed: int) -> None:
    with random_world(pools, seed | 1) as w:
        for condition in (None, *(w.condition(2, micros=False) for _ in range(6))):
            filter_ = None if condition is None else to_tree(condition)
            names = [column.name for column in w.some(w.model.columns, 1, len(w.model.columns))]
            limit = w.pick([None, None, 1, 5])
            w.log.append(f"filter {condition and to_sql(condition)}, columns {names}, limit {limit}")
            _as_files_alone(w.table.scan(filter_, columns=names, limit=limit).to_arrow)


@pytest.mark.parametrize("seed", range(40 if LONG else 1))
def test_random_key_tables_read_as_files_alone(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    options = {"bucket": choose.choice(["1", "3"]), "deletion-vectors.enabled": choose.choice(["true", "false"])}
    columns = {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "v": "INT", "s": "STRING"}
    table = pp.Table.create(tmp_path / "t", columns, primary_key=["p", "k"], partition_by="p", options=options)
    for step in range(5):
        ids = [choose.randrange(60) for _ in range(choose.randint(1, 40))]
        rows = [{"p": i % 5, "k": i, "v": step, "s": choose.choice(["a", None, "bc"])} for i in set(ids)]
        table.append(pa.Table.from_pylist(rows, table.arrow_schema))
        if choose.random() < 0.4:
            table.compact(full=choose.random() < 0.5)
        if choose.random() < 0.3:
            table.delete(f"k % 7 = {step}")
        if step == 2:
            table.alter(change_types={"v": "BIGINT"}, add_columns={"more": "DATE"})
    table.compact(where="p < 3", full=True)
    for where in (None, "v > 2", "s = 'a' AND p <> 1", "more IS NULL AND k < 30", "k = 7"):
        for limit in (None, 3):
            _as_files_alone(table.scan(where, limit=limit).to_arrow)
        assert table.count(where) == table.scan(where).to_arrow().num_rows
