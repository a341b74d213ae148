"""A name that no column has is an UnknownColumnError, wherever it stands, and the message names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import ExpressionError, OptionError, SchemaError, UnknownColumnError
from paimon_pyds.sql.predicate.tree import ColumnRef, Leaf, Op

Call = Callable[[pp.Table], Any]
ROW = [{"id": 1}]
READS: dict[str, Call] = {
    "columns": lambda t: t.scan(columns=["idd"]),
    "a condition": lambda t: t.scan("idd = 1"),
    "a condition on rows": lambda t: t.scan("id = 1 AND upper(idd) = 'X'"),
    "a field": lambda t: t.scan("r.idd = 1"),
    "a field of a value": lambda t: t.scan("coalesce(r, r).idd = 1"),
    "a tree": lambda t: t.scan(Leaf(Op.EQ, ColumnRef("idd"), (1,))),
    "a condition more": lambda t: t.scan().where("idd = 1"),
    "an order": lambda t: t.scan(top_n="idd desc, 3"),
    "top_n": lambda t: t.top_n("idd, 3"),
    "an answer": lambda t: t.scan("idd = 1").answer,
    "an answer's column": lambda t: t.max("idd"),
    "distinct": lambda t: t.distinct("idd"),
    "a field of a scan": lambda t: t.scan().field("idd"),
    "a field of a schema": lambda t: t.schema.field("idd"),
    "a layout": lambda t: t.index.layout("idd"),
    "statistics": lambda t: t.maintenance.analyze(["idd"]),
    "a system table": lambda t: t.system.read("files", columns=["idd"]),
    "a condition on a system table": lambda t: t.system.read("files", "idd = 1"),
    "read optimized": lambda t: t.system.read("ro", columns=["idd"]),
    "kinds of rows": lambda t: t.system.audit_log(columns=["idd"]),
    "an index": lambda t: t.index.cost({"file-index.bitmap.columns": "idd"}),
    "a filter of an index": lambda t: t.index.cost({"file-index.bitmap.columns": "id"}, ["idd = 1"]),
}
WRITES: dict[str, Call] = {
    "data": lambda t: t.append({"idd": [1]}),
    "data of an overwrite": lambda t: t.overwrite({"idd": [1]}),
    "a partition": lambda t: t.overwrite({"id": [1]}, {"idd": 1}),
    "partitions to drop": lambda t: t.maintenance.drop_partitions({"idd": 1}),
    "partitions of a condition": lambda t: t.maintenance.drop_partitions("idd = 1"),
    "partitions that are done": lambda t: t.maintenance.mark_partitions_done({"idd": 1}),
    "delete": lambda t: t.delete("idd = 1"),
    "delete by Arrow": lambda t: t.delete(pc.field("idd") == 1),
    "a column to set": lambda t: t.update({"idd": 1}),
    "a value": lambda t: t.update({"id": "idd + 1"}),
    "an update's condition": lambda t: t.update({"id": 1}, "idd = 1"),
    "on": lambda t: t.merge(ROW, on="idd", when_matched="delete"),
    "on in SQL": lambda t: t.merge(ROW, on="target.idd = source.id", when_matched="delete"),
    "a source": lambda t: t.merge([{"idd": 1}], on="id", when_matched="delete"),
    "a clause's column": lambda t: t.merge(ROW, on="id", when_matched=pp.Update({"idd": "source.id"})),
    "a clause's value": lambda t: t.merge(ROW, on="id", when_matched=pp.Update({"id": "source.idd"})),
    "a clause's condition": lambda t: t.merge(ROW, on="id", when_matched=pp.Delete("source.idd = 1")),
    "compact": lambda t: t.compact("idd = 1"),
    "compact in an order": lambda t: t.compact(order_by="idd"),
    "an option": lambda t: t.alter({"file-index.bitmap.columns": "id,idd"}),
    "drop": lambda t: t.alter(drop_columns=["idd"]),
    "drop a field": lambda t: t.alter(drop_columns=["r.idd"]),
    "rename": lambda t: t.alter(rename_columns={"idd": "x"}),
    "change": lambda t: t.alter(change_types={"idd": "BIGINT"}),
    "allow NULL": lambda t: t.alter(change_nullability={"idd": True}),
    "comment": lambda t: t.alter(column_comments={"idd": "x"}),
    "default": lambda t: t.alter(column_defaults={"idd": "1"}),
    "move": lambda t: t.alter(move_columns={"idd": "first"}),
    "move behind": lambda t: t.alter(move_columns={"id": "after idd"}),
}
CREATED = {
    "primary_key": "idd", "partition_by": "idd", **{
        f"option {key}": {key: "idd", "bucket": "1"} for key in
        ("bucket-key", "sequence.field", "rowkind.field", "file-index.bitmap.columns", "fields.v.sequence-group")
    },
}  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    table = pp.Table.create(tmp_path / "t", "id BIGINT, p INT, r ROW<a INT>", partition_by="p")
    table.append({"id": [1], "p": [1], "r": [{"a": 1}]})
    return table


@pytest.mark.parametrize("call", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
def test_one_class_everywhere(call: Call, table: pp.Table) -> None:
    with pytest.raises(UnknownColumnError, match=r"idd|'id' to join on"):
        call(table)
    assert table.count() == 1 and table.schema.id == 0


@pytest.mark.parametrize("name", CREATED)
def test_names_of_a_new_table(name: str, tmp_path: Path) -> None:
    given: Any = CREATED[name]
    options = {"merge-engine": "partial-update", **given} if name.startswith("option") else {"bucket": "1"}
    own = {} if name.startswith("option") else {name: given}
    with pytest.raises(UnknownColumnError, match="idd"):
        pp.Table.create(tmp_path / "t", "id INT, v INT", options=options, **{"primary_key": "id", **own})


def test_keys_and_catalogs(tmp_path: Path) -> None:
    catalog = pp.Catalog(tmp_path)
    keyed = catalog.create_table("default.t", ROW, primary_key="id", options={"bucket": 1})
    for call in (
        lambda: keyed.lookup([{"idd": 1}]),
        lambda: keyed.lookup(1, ["idd"]),
        lambda: keyed.lookup(1, where="idd = 1"),
        lambda: catalog.system.read("sys.tables", "idd = 1"),
        lambda: catalog.system.read("sys.tables", columns=["idd"]),
    ):
        with pytest.raises(UnknownColumnError, match="idd"):
            call()


def test_it_is_caught_as_what_it_was_before(table: pp.Table) -> None:
    for kind in (SchemaError, ExpressionError, ValueError):
        with pytest.raises(kind):
            table.count("idd = 1")
    with pytest.raises(OptionError, match="'id' is no partition column"):  # a column, but not of the partitions
        table.overwrite({"id": [1]}, {"id": 1})


def test_the_command_line_says_the_same(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--columns", "idd"], ["--where", "idd = 1"], ["--top-n", "idd, 3"]):
        assert main(["scan", table.path, *words]) == 1
        assert "no column 'idd'" in (error := capsys.readouterr().err) and "did you mean id?" in error
