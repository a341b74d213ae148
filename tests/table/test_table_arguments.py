"""Arguments of another Python type are refused by name before anything is asked, read or written."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import ArgumentTypeError, PaimonError, PredicateError, SnapshotNotFoundError

Call = Callable[[Any], Any]
SCHEMA = pa.schema([("id", pa.int64()), ("color", pa.string())])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    made = pp.Table.create(tmp_path_factory.mktemp("arguments") / "t", SCHEMA)
    made.append(pa.table({"id": [1, 2, 3], "color": ["red", "blue", None]}))
    return made


def test_options_may_be_numbers_and_booleans(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"id": [1]}, options={"write-only": True})
    assert table.options["write-only"] == "true"
    table.alter({"write-only": False})
    assert table.options == {"write-only": "false"}
    table.append({"id": [2]}, options={"target-file-size": 1 << 20, "write-only": True, "bucket": None})
    table.overwrite({"id": [1, 2]}, options={"target-file-size": 1 << 20})
    table.compact(full=True, options={"target-file-size": 1 << 20, "write-only": False})
    table.update({"id": 3}, "id = 2", options={"target-file-size": 1 << 20})
    table.index.cost({"file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.items": 100})
    assert table.scan(options={"read-optimized": True}).count() == 2
    with pytest.raises(ArgumentTypeError, match="options takes a dictionary"):
        table.append({"id": [2]}, options=["write-only"])  # type: ignore[arg-type]


def test_calling_the_class_says_what_to_call(table: pp.Table) -> None:
    with pytest.raises(ArgumentTypeError, match=r"Table\.open\(path\) opens one, Table\.create\(path"):
        pp.Table(table.path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.scan(5), "where takes a condition as Spark SQL text, not 5 (int)"),
        (lambda t: t.scan(["id = 1"]), "where takes a condition as Spark SQL text, not ['id = 1'] (list)"),
        (lambda t: t.count(True), "where takes a condition as Spark SQL text, not True (bool)"),
        (lambda t: t.scan().where(1.5), "where takes a condition as Spark SQL text, not 1.5 (float)"),
        (lambda t: t.scan(limit="3"), "limit takes an integer, not '3' (str)"),
        (lambda t: t.scan(limit=3.0), "limit takes an integer, not 3.0 (float)"),
        (lambda t: t.scan(limit=True), "limit takes an integer, not True (bool)"),
        (lambda t: t.scan(columns=5), "columns takes a list of names, not 5 (int)"),
        (lambda t: t.scan(columns=["id", 5]), "columns: each takes a text, not 5 (int)"),
        (lambda t: t.scan(options="a=b"), "options takes a dictionary, not 'a=b' (str)"),
        (lambda t: t.scan(top_n=("id", 5)), "top_n takes a text, not ('id', 5) (tuple)"),
        (lambda t: t.top_n(None), "order takes an order such as 'id desc, 10', not None (NoneType)"),
        (lambda t: t.min(None), "column takes a text, not None (NoneType)"),
        (lambda t: t.distinct(["id"]), "column takes a text, not ['id'] (list)"),
        (lambda t: t.explain("id = 1", limit="x" * 200), "limit takes an integer, not 'xxx"),
        (lambda t: t.index.build(5), "where takes a condition"),
        (lambda t: t.index.dump(5), "where takes a condition"),
        (lambda t: t.index.verify(5), "where takes a condition"),
        (lambda t: t.index.cost("x"), "options takes a dictionary, not 'x' (str)"),
        (lambda t: t.index.cost(filters=[5]), "filters: each takes a condition"),
        (lambda t: t.index.cost(files="3"), "files takes an integer, not '3' (str)"),
        (lambda t: t.index.advise([5]), "recorded takes a text, not 5 (int)"),
        (lambda t: t.compact(where=5), "where takes a condition"),
        (lambda t: t.compact(order_by=5), "order_by takes a list of names, not 5 (int)"),
        (lambda t: t.update("id = 1"), "set takes a dictionary, not 'id = 1' (str)"),
        (lambda t: t.system.read(5), "name takes a text, not 5 (int)"),
        (lambda t: t.update({5: "1"}), "set takes a text, not 5 (int)"),
        (lambda t: t.overwrite({"id": [1]}, 5), "partition takes a dictionary, not 5 (int)"),
        (lambda t: t.overwrite({"id": [1]}, []), "partition takes a dictionary, not [] (list)"),
        (lambda t: t.maintenance.mark_partitions_done(5), "partitions takes a list, not 5 (int)"),
        (
            lambda t: pp.Catalog({"warehouse": "/nowhere"}),
            "Catalog(warehouse) takes a path; Catalog.open takes options",
        ),
        (lambda t: pp.Catalog(5), "warehouse takes a path, not 5 (int)"),
        (lambda t: t.alter(["a"]), "set_options takes a dictionary, not ['a'] (list)"),
        (lambda t: t.alter(unset_options=5), "unset_options takes a list of names, not 5 (int)"),
        (lambda t: t.system.audit_log(columns=5), "columns takes a list of names, not 5 (int)"),
        (lambda t: t.system.audit_log(columns=["id", 5]), "columns: each takes a text, not 5 (int)"),
        (lambda t: t.system.binlog(columns=[["id"]]), "columns: each takes a text, not ['id'] (list)"),
        (lambda t: t.index.cost(filters=5), "filters takes a list, not 5 (int)"),
        (lambda t: t.index.advise(5), "recorded takes a list, not 5 (int)"),
        (lambda t: t.index.layout(snapshot="x"), "snapshot takes an integer, not 'x' (str)"),
        (lambda t: t.branches.create("b", tag=5), "tag takes a text, not 5 (int)"),
        (lambda t: t.tags.rename(5, "b"), "tag takes a text, not 5 (int)"),
        (lambda t: t.tags.delete(["b"]), "tag takes a text, not ['b'] (list)"),
        (lambda t: t.branches.rename(5, "b"), "name takes a text, not 5 (int)"),
        (lambda t: t.branches.delete(None), "name takes a text, not None (NoneType)"),
        (lambda t: t.branches.fast_forward(5), "name takes a text, not 5 (int)"),
        (lambda t: t.maintenance.clone("/nowhere", storage_options=5), "storage_options takes a dictionary"),
        (lambda t: t.maintenance.repair("all"), "plan takes a repair plan or what verify() found, not 'all' (str)"),
        (lambda t: pp.Table.open(None), "path takes a path, not None (NoneType)"),
        (lambda t: pp.Table.open(t.path, branch=5), "branch takes a text, not 5 (int)"),
        (lambda t: pp.Table.open(t.path, storage_options="x"), "storage_options takes a dictionary"),
        (lambda t: pp.Table.create("/nowhere", ["a"]), "schema takes an Arrow schema, such as pa.schema"),
        (lambda t: pp.Table.create("/nowhere", SCHEMA, options=["a"]), "options takes a dictionary"),
        (lambda t: pp.Table.create("/nowhere", SCHEMA, partition_by=5), "partition_by takes a list of names"),
    ],
)
def test_wrong_types_are_told_by_name(table: pp.Table, call: Call, message: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        call(table)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value)) < 200
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, PaimonError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert table.count() == 3


def test_types_that_stand_for_the_right_ones(table: pp.Table, tmp_path: Path) -> None:
    assert table.scan(limit=np.int64(2)).to_arrow().num_rows == 2  # type: ignore[arg-type]
    assert table.scan(columns=("id",)).to_arrow().column_names == ["id"]
    assert table.scan(columns="id, color").to_arrow().column_names == ["id", "color"]
    assert table.scan("  ").count() == table.scan(None).count() == 3
    assert table.scan(snapshot="1").count() == 3  # type: ignore[arg-type]
    assert table.index.advise("id = 1").filters == 1
    assert pp.Table.open(Path(table.path), branch=None, storage_options=None).count() == 3
    made = pp.Table.create(Path(table.path).parent / "none", {"id": [1]}, primary_key=None, partition_by=None)
    assert made.primary_key == made.partition_by == ()


def test_times_without_a_snapshot_are_told_as_times(table: pp.Table) -> None:
    with pytest.raises(
        SnapshotNotFoundError, match=r"as old as 2001-01-01T00:00:00.000Z \(978307200000 ms\)"
    ) as caught:
        table.scan(timestamp="2001-01-01 00:00:00")
    assert f"{table.snapshots.list()[0].time_millis} ms" in str(caught.value)


def test_brackets_and_names_that_do_not_exist_say_the_next_step(tmp_path: Path) -> None:
    table: Any = pp.Table.create(tmp_path / "t", {"id": [1]})
    for holder, name, suggestion in (
        (table, "expalin", "explain"),
        (table.scan(), "colum_names", "column_names"),
        (pp.Catalog(tmp_path), "tabels", "tables"),
        (pp, "Tabel", "Table"),
    ):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
            getattr(holder, name)
        assert suggestion in dir(caught.value.obj) and caught.value.name == name  # Python suggests similar names of it
    assert not hasattr(table, "shape") and not hasattr(table.scan(), "shape")
    for rows in (table, table.scan()):
        with pytest.raises(ArgumentTypeError, match=r"takes no \['id'\] — .* table\.scan\(columns='id'\)"):
            rows["id"]
        with pytest.raises(ArgumentTypeError, match=r"takes no \[0\] — table\.head\(n\) gives"):
            rows[0]
        assert rows and len(list(rows)) == 1 and np.asarray(rows, object).shape == ()
    with pytest.raises(ArgumentTypeError, match=r"Table\.open\(path\) opens one"):
        pp.Table("/wh/t")  # type: ignore[arg-type]
    with pytest.raises(PredicateError, match="there are: id; a text is written 'red'"):
        table.scan("id = red")


def test_unknown_arguments_are_told_of_the_method_that_was_called(tmp_path: Path) -> None:
    table: Any = pp.Table.create(tmp_path / "t", {"id": [1]}, primary_key="id", options={"bucket": "1"})
    for call, message in {
        lambda: table.explain(
            "id = 1", analyse=True
        ): r"explain\(\) takes no argument 'analyse' — did you mean analyze\?",
        lambda: table.count("id = 1", progress=False): r"count\(\) takes no argument 'progress' — it takes: columns, ",
        lambda: table.exists(snapsot=1): r"exists\(\) takes no argument 'snapsot' — did you mean snapshot\?",
        lambda: table.max("id", colum="s"): r"max\(\) takes no argument 'colum' — did you mean column",
        lambda: table.top_n("id, 1", top_n="id, 1"): r"top_n\(\) takes no argument 'top_n' — it takes: ",
        lambda: table.lookup(1, colums="id"): r"lookup\(\) takes no argument 'colums' — did you mean columns\?",
    }.items():
        with pytest.raises(ArgumentTypeError, match=rf"Table\.{message}"):
            call()
    assert table.lookup(1, filter="id > 1").num_rows == 0 and table.count(columns="id", options=None) == 1


def test_names_are_lists_or_texts(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "day": ["x"], "v": [2]})
    table = pp.Table.create(tmp_path / "t", rows, primary_key="id, day", partition_by="day")
    assert (table.schema.primary_keys, table.schema.partition_keys) == (("id", "day"), ("day",))
    assert table.scan(columns="v, id").to_arrow().column_names == ["v", "id"]
    table.alter({"write-only": "true"})
    table.alter(unset_options="write-only")
    assert "write-only" not in table.options


def test_names_of_catalogs_are_texts(tmp_path: Path) -> None:
    catalog: Any = pp.Catalog(tmp_path)
    for call in (catalog.table, catalog.create_database, catalog.drop_table, catalog.system.read, catalog.path):
        for wrong in (5, None, ["a"], b"a"):
            with pytest.raises(ArgumentTypeError, match="takes a text, not "):
                call(wrong)
    with pytest.raises(ArgumentTypeError, match="storage_options takes a dictionary"):
        pp.Table.create(tmp_path / "t", SCHEMA, storage_options=5)  # type: ignore[arg-type]


def test_pages_are_named_by_paths(table: pp.Table) -> None:
    explanation = table.explain()
    assert explanation.rendered(Path("why.html")) == explanation.rendered("why.HTM") == explanation.page
    with pytest.raises(ArgumentTypeError, match="path takes a path, not 5"):
        explanation.rendered(5)  # type: ignore[arg-type]
