"""Tables whose partitions come from two branches: scan.fallback-branch and scan.primary-branch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.engine.read import read_split
from paimon_pyds.errors import (
    BranchNotFoundError,
    OptionError,
    SchemaError,
    TagNotFoundError,
    UnsupportedError,
)
from support.effort import examples
from support.v2_fixtures import Read, read_id, v2_copy, v2_reads, v2_table
from support.values import lines

_COLUMNS = "dt STRING NOT NULL, id INT NOT NULL, v STRING"
_ALONE = {"scan.fallback-branch": "", "scan.primary-branch": ""}


@pytest.mark.parametrize("read", v2_reads("fallback_branch"), ids=read_id)
def test_rows_that_spark_reads(read: Read) -> None:
    table = pp.Table.open(v2_table("fallback_branch"))
    assert lines(table.scan(read.filter, columns=read.columns).to_arrow()) == read.rows
    assert table.count(read.filter) == len(read.rows)


def _tables(path: Path, options: dict[str, str]) -> tuple[pp.Table, pp.Table]:
    """A table, and its branch ``b``, in which no option names a branch."""
    table = pp.Table.create(path, _COLUMNS, primary_key="dt, id", partition_by="dt", options={"bucket": "1"})
    table.branches.create("b")
    table.alter(options)
    return pp.Table.open(path), pp.Table.open(path, branch="b")


_DAYS = ("d1", "d2", "d3", "d4")
_OPERATIONS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["append", "delete", "drop", "compact"]), st.sampled_from(_DAYS),
              st.lists(st.integers(0, 4), min_size=1, max_size=3)),
    max_size=10,
)  # fmt: skip
_FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "dt = 'd2'": lambda row: row["dt"] == "d2", "id = 3": lambda row: row["id"] == 3,
    "v LIKE 'b%'": lambda row: row["v"].startswith("b"),
    "dt > 'd1' AND id < 2": lambda row: row["dt"] > "d1" and row["id"] < 2,
    "dt = 'd3' OR v LIKE 'm%'": lambda row: row["dt"] == "d3" or row["v"].startswith("m"),
}  # fmt: skip


@settings(max_examples=examples(8))
@given(
    _OPERATIONS,
    st.sampled_from(["scan.fallback-branch", "scan.primary-branch"]),
    st.sampled_from([*_FILTERS]),
    st.booleans(),
)
def test_each_partition_comes_from_one_branch(
    tmp_path_factory: pytest.TempPathFactory,
    operations: list[tuple[bool, str, str, list[int]]],
    option: str,
    where: str,
    vectors: bool,
) -> None:
    path = tmp_path_factory.mktemp("t") / "t"
    table, branch = _tables(path, {option: "b"})
    if vectors:  # rows that wait for a compaction don't make a partition
        for each in (table, branch):
            each.alter({"deletion-vectors.enabled": "true", "write-only": "true"})
    models: list[dict[str, dict[int, str]]] = [{}, {}]
    visible: list[dict[str, dict[int, str]]] = [{}, {}]
    for number, (in_branch, what, day, ids) in enumerate(operations):
        changed, model = (branch, models[1]) if in_branch else (table, models[0])
        if what == "append":
            value = f"{'b' if in_branch else 'm'}{number}"
            changed.append([{"dt": day, "id": id_, "v": value} for id_ in sorted(set(ids))])
            model.setdefault(day, {}).update(dict.fromkeys(ids, value))
        elif what == "delete" and not vectors:  # the partition keeps its files
            changed.delete(f"dt = '{day}'")
            model.get(day, {}).clear()
        elif what == "drop":
            changed.maintenance.drop_partitions(f"dt = '{day}'")
            model.pop(day, None)
            visible[in_branch].pop(day, None)
        elif what == "compact":
            changed.compact(full=True)
            if not vectors:
                for gone in [day for day, rows in model.items() if not rows]:
                    del model[gone]
            visible[in_branch] = {day: dict(rows) for day, rows in model.items()}
    first, second = visible if vectors else models
    if option == "scan.primary-branch":
        first, second = second, first
    rows = [
        {"dt": day, "id": id_, "v": v} for day, held in {**second, **first}.items() for id_, v in held.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["dt"], row["id"]))
    table = pp.Table.open(path)
    schema, some = table.scan().arrow_schema, list(filter(_FILTERS[where], rows))
    assert table.to_arrow().sort_by([("dt", "ascending"), ("id", "ascending")]).to_pylist() == rows
    assert table.scan(where).to_arrow().sort_by([("dt", "ascending"), ("id", "ascending")]).to_pylist() == some
    assert (table.count(), table.count(where), table.exists(where)) == (len(rows), len(some), bool(some))
    assert (table.min("v"), table.max("v")) == (
        min((r["v"] for r in rows), default=None),
        max((r["v"] for r in rows), default=None),
    )
    assert table.distinct("dt")["dt"].to_pylist() == sorted({row["dt"] for row in rows})
    assert table.scan(limit=3).to_arrow().num_rows == min(3, len(rows))
    assert table.scan(where, limit=2).count() == min(2, len(some))
    best = sorted(rows, key=lambda row: (row["dt"], row["id"]), reverse=True)[:3]
    assert table.top_n("dt desc, id desc, 3").to_pylist() == best
    assert table.scan(columns=["v"], top_n="dt desc, id desc, 2").to_arrow().to_pylist() == [
        {"v": r["v"]} for r in best[:2]
    ]
    keys = [(day, id_) for day in _DAYS for id_ in range(5)]
    found = table.lookup(keys)
    assert found.schema.equals(schema)
    assert found.to_pylist() == rows
    assert table.scan(options=_ALONE).count() == sum(map(len, (visible if vectors else models)[0].values()))


def test_a_branch_with_a_key_beside_one_without(tmp_path: Path) -> None:
    """As in Paimon's documentation: streams write to a branch with a primary key, batches to the main one."""
    table = pp.Table.create(tmp_path / "t", _COLUMNS, partition_by="dt")
    table.branches.create("b")
    (schema,) = (tmp_path / "t/branch/branch-b/schema").glob("schema-*")
    members = json.loads(schema.read_text())
    schema.write_text(json.dumps({**members, "primaryKeys": ["dt", "id"], "options": {"bucket": "1"}}))
    branch = pp.Table.open(tmp_path / "t", branch="b")
    table.append([{"dt": "d1", "id": 1, "v": "m"}, {"dt": "d1", "id": 1, "v": "m"}])
    branch.append([{"dt": "d1", "id": 1, "v": "b"}, {"dt": "d2", "id": 2, "v": "b"}])
    branch.append([{"dt": "d2", "id": 2, "v": "b2"}])
    table.alter({"scan.fallback-branch": "b"})
    table = pp.Table.open(tmp_path / "t")
    assert sorted(table.to_arrow()["v"].to_pylist()) == ["b2", "m", "m"]
    assert (table.count(), table.count("id = 2"), table.max("id"), table.sum("id")) == (3, 1, 2, 4)
    with pytest.raises(UnsupportedError, match="without a primary key"):
        table.lookup(("d1", 1))
    branch.alter({"scan.fallback-branch": "main"})
    branch = pp.Table.open(tmp_path / "t", branch="b")
    assert sorted(branch.to_arrow()["v"].to_pylist()) == ["b", "b2"]
    table.append([{"dt": "d3", "id": 1, "v": "m"}])
    with pytest.raises(UnsupportedError, match="whose primary key is another one: keys can't be looked up"):
        pp.Table.open(tmp_path / "t", branch="b").lookup(("d1", 1))


def test_states_of_another_time(tmp_path: Path) -> None:
    table, branch = _tables(tmp_path / "t", {"scan.fallback-branch": "b"})
    table.append([{"dt": "d1", "id": 1, "v": "m1"}])
    time.sleep(0.01)
    between = int(time.time() * 1000)
    time.sleep(0.01)
    branch.append([{"dt": "d2", "id": 1, "v": "b1"}])
    time.sleep(0.01)
    table.append([{"dt": "d1", "id": 1, "v": "m2"}])
    branch.append([{"dt": "d2", "id": 1, "v": "b2"}])
    table.tags.create("now")

    def values(**state: Any) -> list[str]:
        return sorted(table.scan(**state).to_arrow()["v"].to_pylist())

    assert values() == ["b2", "m2"]
    assert values(snapshot=2) == ["b1", "m2"]
    assert values(snapshot=1) == ["b1", "m1"]  # nothing is as old there: its first snapshot, as in Java
    assert values(timestamp=between) == ["m1"]
    with pytest.raises(UnsupportedError, match=r"scan\.version=2 names a snapshot of one branch"):
        values(options={"scan.version": "2"})
    with pytest.raises(TagNotFoundError, match="branch b has no tag"):
        values(tag="now")
    branch.tags.create("now")
    assert values(tag="now") == values(options={"scan.version": "now"}) == ["b2", "m2"]
    branch.append([{"dt": "d3", "id": 1, "v": "b3"}])
    assert values(tag="now") == ["b2", "m2"]


def test_what_concerns_both_branches_as_a_whole_is_refused(tmp_path: Path) -> None:
    table, branch = _tables(tmp_path / "t", {"scan.fallback-branch": "b"})
    table.append([{"dt": "d1", "id": 1, "v": "m"}])
    branch.append([{"dt": "d2", "id": 1, "v": "b"}])
    for run in (table.system.audit_log, table.system.binlog):
        with pytest.raises(UnsupportedError, match="come from two branches can't be") as caught:
            run()
        assert "scan.fallback-branch" in str(caught.value.hint)
    with pytest.raises(UnsupportedError, match="what was added between two states can't be read"):
        table.scan(options={"incremental-between": "0,1"})
    with pytest.raises(UnsupportedError, match=r"partitions of this table come from branch 'b' too"):
        table.maintenance.clone(tmp_path / "copy")
    alone = table.scan(options=_ALONE)
    assert (len(alone.plan().files), alone.count(), len(alone.explain().files)) == (1, 1, 1)


def test_plans_and_explanations_are_of_both_branches(tmp_path: Path) -> None:
    table, branch = _tables(tmp_path / "t", {"scan.fallback-branch": "b"})
    table.append([{"dt": "d1", "id": 1, "v": "m"}])
    branch.append([{"dt": day, "id": id_, "v": "b"} for day in ("d1", "d2", "d3") for id_ in (1, 2)])
    scan = table.scan("dt < 'd3'")
    plan = scan.plan()
    assert [path.split("/")[-3] for path in plan.paths] == ["dt=d1", "dt=d2"]
    assert sum(batch.num_rows for split in plan.splits for batch in read_split(split)) == 3
    explained = scan.explain(analyze=True)
    assert {file.path for file in explained.files} == set(plan.paths)
    assert [(step.files, step.rows) for step in (explained.steps[0], explained.steps[-1])] == [(2, 3), (2, 3)]
    best = table.scan(top_n="id desc, v, 2").explain(analyze=True)
    assert (best.order[:7], best.steps[-1].name, best.steps[-1].rows) == ("id desc", "result", 2)
    assert "2 files" in table.explain("dt < 'd3'").text


def test_changes_are_made_in_the_branch_itself(tmp_path: Path) -> None:
    table, branch = _tables(tmp_path / "t", {"scan.fallback-branch": "b"})
    table.append([{"dt": "d1", "id": 1, "v": "m"}])
    branch.append([{"dt": "d2", "id": 1, "v": "b"}])
    assert table.delete("id = 1").rows_deleted == 1
    assert table.to_arrow().to_pylist() == branch.to_arrow().to_pylist() == [{"dt": "d2", "id": 1, "v": "b"}]
    assert table.maintenance.analyze() is not None
    assert table.count() == 1
    assert table.update({"v": "'x'"}, "dt = 'd2'").rows_updated == 0


def test_contradictions(tmp_path: Path) -> None:
    table, branch = _tables(tmp_path / "t", {})
    with pytest.raises(OptionError, match="can't both be set"):
        table.alter({"scan.fallback-branch": "b", "scan.primary-branch": "b"})
    with pytest.raises(BranchNotFoundError):
        table.alter({"scan.fallback-branch": "c"})
    with pytest.raises(OptionError, match="a new table has no branch"):
        pp.Table.create(tmp_path / "new", _COLUMNS, options={"scan.primary-branch": "b"})
    with pytest.raises(BranchNotFoundError):
        table.scan(options={"scan.fallback-branch": "c"})
    branch.alter(add_columns={"n": "INT"})
    with pytest.raises(SchemaError, match="from branch 'b' too, whose columns are others: 3 columns here, 4 there"):
        table.alter({"scan.fallback-branch": "b"})
    table.alter(add_columns={"n": "BIGINT"})
    with pytest.raises(SchemaError, match="n BIGINT here, n INT there"):
        table.scan(options={"scan.fallback-branch": "b"})


def test_a_branch_names_itself(tmp_path: Path) -> None:
    path = v2_copy("fallback_branch", tmp_path)
    branch = pp.Table.open(path, branch="fb")
    before = branch.to_arrow()
    assert branch.scan(options={"scan.fallback-branch": "fb"}).to_arrow().equals(before)
    assert branch.scan().plan().files


def test_null_of_the_other_branch_in_a_column_that_has_none(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "dt STRING NOT NULL, v STRING NOT NULL", partition_by="dt")
    table.branches.create("b")
    branch = pp.Table.open(tmp_path / "t", branch="b")
    branch.alter(change_nullability={"v": True}, set_options={"alter-column-null-to-not-null.disabled": "false"})
    branch.append([{"dt": "d1", "v": "x"}])
    table.alter({"scan.fallback-branch": "b"})
    table = pp.Table.open(tmp_path / "t")
    assert table.to_arrow().equals(pa.table({"dt": ["d1"], "v": ["x"]}, table.scan().arrow_schema))
    branch.append([{"dt": "d2", "v": None}])
    with pytest.raises(SchemaError, match="'v' is NOT NULL, and rows of the other branch have NULL"):
        table.to_arrow()


def test_the_branches_of_a_chain_table(tmp_path: Path) -> None:
    """Each is a table of its own."""
    table = pp.Table.create(tmp_path / "t", _COLUMNS, primary_key="dt, id", partition_by="dt", options={"bucket": "1"})
    for name in ("full", "delta"):
        table.branches.create(name)
        pp.Table.open(tmp_path / "t", branch=name).append([{"dt": name, "id": 1, "v": name}])
    chain = {
        "chain-table.enabled": "true",
        "scan.fallback-snapshot-branch": "full",
        "scan.fallback-delta-branch": "delta",
    }
    for schema in (tmp_path / "t").rglob("schema-*"):
        members = json.loads(schema.read_text())
        schema.write_text(json.dumps({**members, "options": {**members["options"], **chain}}))
    for name in ("full", "delta"):
        branch = pp.Table.open(tmp_path / "t", branch=name)
        assert branch.to_arrow()["v"].to_pylist() == [name]
        assert branch.lookup((name, 1))["v"].to_pylist() == [name]
        with pytest.raises(UnsupportedError, match=r"chain-table\.enabled=true can't be written"):
            branch.append([{"dt": name, "id": 2, "v": "x"}])
    for read in (pp.Table.open(tmp_path / "t").to_arrow, pp.Table.open(tmp_path / "t").count):
        with pytest.raises(UnsupportedError, match=r"partition\.timestamp-pattern left out can't be read as a chain"):
            read()
