"""What ``operation=delete`` and ``operation=upsert`` refuse, most of it before any task: no row is lost or doubled."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.pandas.types import from_arrow_schema

import paimon_pyds as pp
from paimon_pyds.errors import (
    CardinalityError,
    CommitConflictError,
    OptionError,
    PaimonError,
    SchemaError,
)
from paimon_pyds.spark.source import PaimonDataSource

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]

PLACE = ["__paimon_file_path", "__paimon_row_index"]
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.string())])


def made(path: str, **options: str) -> pp.Table:
    table = pp.Table.create(path, SCHEMA, options={k.replace("_", "-"): v for k, v in options.items()})
    table.append([{"id": 1, "x": "a"}, {"id": 2, "x": "b"}, {"id": 3, "x": "c"}])
    return table


def writer(table: pp.Table, data: pa.Table, operation: str, **options: str) -> Any:
    given = {"path": table.path, "operation": operation, **options}
    return PaimonDataSource(given).writer(from_arrow_schema(data.schema, prefer_timestamp_ntz=True), False)


def save(table: pp.Table, *tasks: pa.Table, operation: str, **options: str) -> None:
    made = writer(table, tasks[0], operation, **options)
    messages = [pickle.loads(pickle.dumps(made)).write(iter(task.to_batches())) for task in tasks]
    pickle.loads(pickle.dumps(made)).commit(pickle.loads(pickle.dumps(messages)))


def rows(table: pp.Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["x"]) for row in table.scan().to_arrow().to_pylist())


def files(table: pp.Table) -> set[str]:
    return {f.name for f in Path(table.path).rglob("data-*")}


_FLOAT = pa.scalar(0.1, pa.float32()).as_py()
ABC = [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("change", ["update", "delete"])
def test_rows_to_delete_that_have_moved_are_not_taken_for_deleted(path: str, change: str) -> None:
    table = made(path, **{"deletion-vectors.enabled": "true"})
    there = table.scan("id >= 2", columns=["id", *PLACE]).to_arrow()
    if change == "update":
        table.update({"x": "'new'"}, "id = 2")
    else:
        table.delete("id = 2")
    before = rows(table)
    with pytest.raises(CommitConflictError, match=r"1 of the rows .* are gone"):
        save(table, there, operation="delete")
    assert rows(table) == before


@pytest.mark.parametrize("table_has", [[], [(7, "old")]])
@pytest.mark.parametrize("split", [False, True])
def test_an_upsert_names_each_key_once(path: str, table_has: list[tuple[int, str]], split: bool) -> None:
    table = made(path)
    if table_has:
        table.append([{"id": id, "x": x} for id, x in table_has])
    news = pa.table({"id": [7, 8, 7], "x": ["p", "q", "r"]}, schema=SCHEMA)
    tasks = [news.slice(0, 2), news.slice(2)] if split else [news]
    with pytest.raises(CardinalityError, match="key"):
        save(table, *tasks, operation="upsert", **{"operation-keys": "id"})
    assert rows(table) == [*ABC, *table_has]


def test_keys_without_a_value_are_no_duplicates(path: str) -> None:
    table = pp.Table.create(path, SCHEMA)
    news = pa.table({"id": [None, None, 1], "x": ["p", "q", "r"]}, schema=SCHEMA)
    save(table, news, operation="upsert", **{"operation-keys": "id"})
    assert sorted(table.scan().to_arrow()["x"].to_pylist()) == ["p", "q", "r"]


def test_an_upsert_drops_no_column(path: str) -> None:
    table = made(path)
    news = pa.table({"id": [1], "x": ["new"], "y": [1.5]})
    with pytest.raises(SchemaError, match="the table has no column 'y'"):
        writer(table, news, "upsert", **{"operation-keys": "id"})
    there = table.scan("id = 1", columns=["id", "x", *PLACE]).to_arrow()
    with pytest.raises(SchemaError, match="the table has no column 'y'"):
        writer(table, there.append_column("y", pa.array([1.5])), "upsert")
    with_more = table.scan("id = 1", columns=["id", "x", *PLACE, "__paimon_bucket"]).to_arrow()
    save(table, with_more.set_column(1, "x", pa.array(["new"])), operation="upsert")
    assert rows(table) == [(1, "new"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("operation", ["delete", "upsert"])
@pytest.mark.parametrize(
    "options",
    [{"bucket": "4", "bucket-key": "id"}, {"row-tracking.enabled": "true"}, {"merge-engine": "first-row"}],
)
def test_an_operation_does_not_shape_the_table(path: str, operation: str, options: dict[str, str]) -> None:
    table = pp.Table.create(path, SCHEMA)
    news = pa.table({"id": [1], "x": ["a"]}, schema=SCHEMA)
    with pytest.raises(OptionError, match=r"here and .* in the table"):
        writer(table, news, operation, **{"operation-keys": "id"}, **options)


def test_rows_with_ids_are_refused_before_a_task_writes_them(path: str) -> None:
    table = made(path, **{"row-tracking.enabled": "true"})
    there = table.scan(columns=["id", "x", *PLACE]).to_arrow()
    with pytest.raises(PaimonError, match="new row ids"):
        writer(table, there, "upsert")


def test_an_upsert_by_a_part_of_the_primary_key(path: str) -> None:
    table = pp.Table.create(path, SCHEMA, primary_key=["id", "x"], options={"bucket": "1"})
    news = pa.table({"id": [1], "x": ["a"]}, schema=table.arrow_schema)
    with pytest.raises(OptionError, match=r"part of the primary key.*leave the option out"):
        writer(table, news, "upsert", **{"operation-keys": "id"})
    save(table, news, operation="upsert", **{"operation-keys": "X,id"})
    assert rows(table) == [(1, "a")]


def test_keys_that_can_not_be_compared(path: str) -> None:
    schema = pa.schema([("id", pa.list_(pa.int64())), ("x", pa.string())])
    table = pp.Table.create(path, schema)
    table.append([{"id": [1], "x": "a"}])
    keys = pa.table({"id": [[1], [1]]}, schema=pa.schema([schema.field("id")]))
    with pytest.raises(PaimonError, match="rows can't be found by column 'id'"):
        save(table, keys, operation="delete")


@pytest.mark.parametrize(
    ("stored", "type_", "keys"),
    [
        ([0, 1], pa.timestamp("ms"), pa.array([999, 1000, None], pa.timestamp("us"))),
        (
            [0.25, 0.1],
            pa.float32(),
            pa.array([0.25 + 2**-40, _FLOAT, None], pa.float64()),
        ),
        ([1, 2], pa.decimal128(10, 0), pa.array([1.25, 2.0, None], pa.float64())),
        ([float("inf"), float("nan")], pa.float32(), pa.array([1.0, float("nan"), None], pa.float64())),
    ],
)
def test_a_delete_by_keys_does_not_round_them(path: str, stored: list[Any], type_: pa.DataType, keys: pa.Array) -> None:
    schema = pa.schema([("id", pa.int64()), ("k", type_)])
    table = pp.Table.create(path, schema)
    table.append(pa.table({"id": [1, 2], "k": pa.array(stored, type_)}, schema=schema))
    save(table, pa.table({"k": keys}), operation="delete")
    assert table.scan().to_arrow()["id"].to_pylist() == [1]


def test_rows_of_a_table_with_a_primary_key(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("x", pa.string())])
    options = {"bucket": "2", "changelog-producer": "input"}
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["id"], options=options)
    table.append(pa.table({"id": [1, 2, 3], "x": ["a", "b", "c"]}))
    save(table, pa.table({"id": [2], "x": ["B"]}), pa.table({"id": [9], "x": ["z"]}), operation="upsert")
    save(table, pa.table({"id": [1, 7]}), operation="delete")
    assert rows(table) == [(2, "B"), (3, "c"), (9, "z")]
    changes = table.system.audit_log(options={"incremental-between": "1,3"}).to_arrow()
    assert sorted(zip(changes["rowkind"].to_pylist(), changes["id"].to_pylist(), strict=True)) == [
        ("+I", 9), ("+U", 2), ("-D", 1),
    ]  # fmt: skip
    places = pa.table({name: pa.array([], pa.string() if "path" in name else pa.int64()) for name in PLACE})
    with pytest.raises(PaimonError, match="for tables without a primary key"):
        writer(table, places, "delete")
