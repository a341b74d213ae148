"""Rows whose columns are in several files (data evolution), as pypaimon, pypaimon-rust and Java 2.1 wrote them."""

from __future__ import annotations

import pickle
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.read import FileTrace, read_split
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.clustered import edit_newest_entry
from support.effort import LONG, SEED, sampled
from support.evolution_model import OPTIONS
from support.v2_fixtures import Read, read_id, v2_copy, v2_reads, v2_table
from support.values import lines

NAMES = ("de_update", "de_deleted", "de_renamed", "de_evolved", "de_rust", "de_java", "de_sidecar")


def opened(name: str) -> pp.Table:
    return pp.Table.open(v2_table(name))


def options_of(read: Read) -> dict[str, str]:
    return {} if read.snapshot is None else {"scan.snapshot-id": str(read.snapshot)}


@pytest.mark.parametrize("read", v2_reads(*NAMES), ids=read_id)
def test_the_rows_are_those_of_the_writer(read: Read) -> None:
    scan = opened(read.fixture).scan(read.filter, columns=read.columns, options=options_of(read))
    assert lines(scan.to_arrow()) == read.rows
    assert scan.count() == len(read.rows)


@pytest.mark.parametrize("read", v2_reads("blob"), ids=read_id)
def test_blob_files_do_not_change_the_other_columns(read: Read) -> None:
    if read.name == "without_blobs":
        assert lines(opened("blob").scan(read.filter, columns=read.columns).to_arrow()) == read.rows


@pytest.mark.parametrize("name", NAMES)
def test_splits_read_the_same_after_pickling(name: str) -> None:
    plan = opened(name).scan().plan()
    splits = plan.pack(target_size=1)
    batches = [batch for split in splits for batch in read_split(pickle.loads(pickle.dumps(split)))]
    assert lines(pa.Table.from_batches(batches)) == lines(opened(name).to_arrow())
    assert len(splits) == len(plan.files)


def plain_copy(table: pp.Table, folder: Path) -> pp.Table:
    """The same rows in one file without row ids."""
    rows = table.to_arrow()
    schema = {field.name: str(field.type) for field in table.schema.fields}
    copy = pp.Table.create(folder / "plain", schema, partition_by=list(table.schema.partition_keys))
    copy.append(rows)
    return copy


def literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def condition(rng: random.Random, rows: pa.Table, depth: int = 2) -> str:
    """A condition on values that the rows have, or nearly have."""
    if depth and rng.random() < 0.5:
        both = (condition(rng, rows, depth - 1) for _ in range(2))
        return f"({rng.choice((' AND ', ' OR ')).join(both)})"
    name = rng.choice(rows.column_names)
    values = [value for value in rows[name].to_pylist() if value is not None]
    if rng.random() < 0.2 or not values:
        return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
    value = rng.choice(values)
    if not isinstance(value, str) and not isinstance(value, float) and rng.random() < 0.3:
        value += rng.choice((-1, 1))
    if rng.random() < 0.2:
        return f"{name} IN ({literal(value)}, {literal(rng.choice(values))})"
    return f"{name} {rng.choice(('=', '<', '<=', '>', '>=', '<>'))} {literal(value)}"


@pytest.mark.parametrize("name", sampled(NAMES, 2))
def test_filters_and_projections_give_what_a_plain_table_gives(name: str, tmp_path: Path) -> None:
    joined = opened(name)
    plain, rows = plain_copy(joined, tmp_path), joined.to_arrow()
    rng = random.Random(SEED)
    for _ in range(300 if LONG else 4):
        where = condition(rng, rows)
        columns = rng.sample(rows.column_names, rng.randint(1, rows.num_columns))
        expected = lines(plain.scan(where, columns=columns).to_arrow())
        assert lines(joined.scan(where, columns=columns).to_arrow()) == expected, where
        assert joined.scan(where).count() == len(expected), where
        for column in columns:
            ours, theirs = joined.scan(where).answer, plain.scan(where).answer
            assert ours.min(column).value == theirs.min(column).value, (where, column)
            assert ours.max(column).value == theirs.max(column).value, (where, column)
            assert lines(ours.distinct(column).value) == lines(theirs.distinct(column).value), (where, column)
            order = f"{column} DESC"
            first = joined.scan(where, top_n=f"{order}, 2").to_arrow()[column].to_pylist()
            assert first == plain.scan(where, top_n=f"{order}, 2").to_arrow()[column].to_pylist(), (where, column)


@pytest.mark.parametrize("name", NAMES)
def test_every_query_is_explained(name: str) -> None:
    table = opened(name)
    column = table.schema.field_names[-1]
    explained = table.scan(f"{column} IS NOT NULL").explain(analyze=True)
    assert column in str(explained)


def test_an_explanation_counts_a_group_as_one_file() -> None:
    table = opened("de_update")
    groups = len(table.scan().plan().files)
    explained = table.scan("id = 1").explain()
    assert explained.steps[0].files == groups
    assert explained.steps[0].rows == table.count()


def test_only_files_of_wanted_columns_are_opened(tmp_path: Path) -> None:
    table = pp.Table.open(v2_copy("de_update", tmp_path))
    files = table.scan().plan().files
    of_c = {part.path for file in files for part in file.parts if "c" in (part.write_cols or ())}
    for file in files:
        for part in file.parts or (file,):
            if part.path not in of_c and file.parts:
                Path(part.path).unlink()
    first = files[0]
    assert first.parts
    traces: list[FileTrace] = []
    rows = list(table.scan("c >= 0", columns=["c"]).to_batches(on_file=traces.append))
    assert sum(batch.num_rows for batch in rows) == table.count() == 5
    assert [trace.rows for trace in traces] == [file.row_count for file in files]


def test_a_limit_plans_whole_groups() -> None:
    table = opened("de_update")
    files = table.scan(limit=1).plan().files
    assert len(files) == 1
    assert table.scan(limit=1).to_arrow().num_rows == 1


def test_a_column_file_of_other_rows_is_refused(tmp_path: Path) -> None:
    table = pp.Table.open(v2_copy("de_update", tmp_path))
    part = table.scan().plan().files[0].parts[0]
    others = [each.path for each in table.scan().plan().files if each.path != part.path]
    Path(part.path).write_bytes(Path(others[-1]).read_bytes())
    with pytest.raises((CorruptFileError, UnsupportedError)):
        table.to_arrow()


RANGES: list[dict[str, Any]] = [
    {"first_row_id": -3}, {"first_row_id": 1}, {"first_row_id": 2**63 - 2}, {"first_row_id": -(2**63)},
    {"row_count": 3}, {"row_count": 0}, {"row_count": -4}, {"row_count": 10**9}, {"row_count": 2**63 - 1},
]  # fmt: skip


HOSTILE = [(column, changed) for column in "nbv" for changed in RANGES]
HOSTILE += [(column, {"write_cols": names}) for column in "bv" for names in (None, ["b", "v"])]


@pytest.mark.parametrize(("column", "changed"), sampled(HOSTILE, 4), ids=str)
def test_hostile_ranges_of_row_ids(column: str, changed: dict[str, Any], tmp_path: Path) -> None:
    """The newest file has a column of the first of two groups; its entry says something else of it."""
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "vector.file.format": "parquet"}
    table = pp.Table.create(tmp_path / "t", "id INT, name STRING, n INT, b BLOB, v VECTOR<INT, 1>", options=options)
    for ids in (range(4), range(4, 8)):
        rows = [{"id": i, "name": "", "n": i, "b": bytes([i]), "v": [i]} for i in ids]
        table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    table.update({column: {"n": "0", "b": "CAST('x' AS BINARY)", "v": "array(0)"}[column]}, "id < 4")
    edit_newest_entry(tmp_path / "t", lambda name: changed)
    METADATA_CACHE.clear()
    hostile = pp.Table.open(tmp_path / "t")
    whole = column == "v" and changed.get("write_cols")  # the file has this column, and the others have files as well
    for call in (
        lambda: hostile.scan("id = 6", columns=["id"]).to_arrow()["id"].to_pylist() == [6],
        lambda: hostile.scan(f"id = 2 AND {column} IS NOT NULL").count() == 1,
        lambda: hostile.update({"name": "'x'"}, "id = 6").rows_updated == 1,
        lambda: hostile.compact(full=True).files_before,
    ):
        with suppress(CorruptFileError):
            assert call()
    if whole:
        assert hostile.to_arrow().num_rows == 8
    else:
        with pytest.raises(CorruptFileError):
            hostile.to_arrow()


def test_differences_of_two_states_are_refused_by_name() -> None:
    options = {"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}
    with pytest.raises(UnsupportedError, match=r"data-evolution.enabled=true can't be compared"):
        opened("de_update").scan(options=options).to_arrow()


def test_what_takes_files_for_whole_rows_is_refused_by_name() -> None:
    table = opened("de_update")
    for call in (table.index.layout, lambda: table.snapshots.diff(1), table.index.advise_partition):
        with pytest.raises(UnsupportedError, match=r"is not for tables with data-evolution\.enabled=true"):
            call()


def test_added_rows_are_read_and_changed_columns_refused() -> None:
    table = opened("de_update")
    added = table.scan(options={"incremental-between": "0,2"}).to_arrow()
    assert lines(added) == lines(table.scan(options={"scan.snapshot-id": "2"}).to_arrow())
    for between in ("2,3", "0,3", "3,4"):
        with pytest.raises(UnsupportedError, match="changed columns of rows that were there before") as refused:
            table.scan(options={"incremental-between": between}).to_arrow()
        assert f"scan.mode=latest-full begins a stream with it), or start at snapshot {int(between[-1]) + 1}" in str(
            refused.value
        )


@pytest.mark.parametrize("name", sampled(NAMES, 2))
def test_system_tables_have_files_and_row_ids(name: str) -> None:
    table = opened(name)
    files = table.system.read("files")
    assert files.num_rows >= len(table.scan().plan().files)
    tracked = table.system.read("row_tracking")
    assert lines(tracked.drop_columns(["_ROW_ID", "_SEQUENCE_NUMBER"])) == lines(table.to_arrow())
    assert len(set(tracked["_ROW_ID"].to_pylist())) == tracked.num_rows


def test_filters_on_parts_of_variant_values_use_their_columns_in_joined_files(tmp_path: Path) -> None:
    options = {**OPTIONS, "variant.inferShreddingSchema": "true", "parquet.page.row.count.limit": "500"}
    table = pp.Table.create(tmp_path / "db.db" / "t", {"id": "INT", "v": "VARIANT", "n": "INT"}, options=options)
    table.append([{"id": i, "v": {"a": i, "m": i if i % 2 else "t"}, "n": i} for i in range(3000)])
    table.update({"n": "n + 1"}, "id = 5")
    table.alter(rename_columns={"v": "w"})
    for where, ids in (
        ("w:a::int = 1234", [1234]),
        ("w:a::int BETWEEN 498 AND 502 AND w:m::string = 't'", [498, 500, 502]),
        ("try_variant_get(w, '$.m', 'int') = 7 OR n = 6", [5, 6, 7]),
        ("w IS NULL", []),
    ):
        assert table.scan(where, columns=["id"]).to_arrow()["id"].to_pylist() == ids
        found = table.scan(where, columns=["w", "id"]).to_arrow()
        assert found["id"].to_pylist() == ids
    explained = table.explain("w:a::int = 1234", columns=["id"], analyze=True)
    (file,) = explained.files_to_arrow().to_pylist()
    assert file["pages"]["rows"] == 500
    assert file["pages"]["variant_parts"] == "w $.a is a column of its own, whose statistics are used"
    assert file["actual"]["rows"] == 1
