"""VARIANT columns: conditions on their NULLs, and what asks for an order that they have not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError, PredicateError, UnsupportedError
from paimon_pyds.ops.system.tables import SYSTEM_TABLES
from support.fixtures import requires_shared, table_path
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

ROW = {"type": "ROW", "fields": [{"id": 6, "name": "x", "type": "INT"}, {"id": 7, "name": "y", "type": "VARIANT"}]}
OPTIONS = {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "s", "bucket": "-1"}


def _fields() -> list[DataField]:
    types: list[tuple[str, Any]] = [("id", "BIGINT"), ("va", "VARIANT"), ("s", "STRING"), ("p", "INT"), ("r", ROW)]
    return [DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate(types)]


def _row(i: int) -> dict[str, Any]:
    value = {"json": f'{{"a": {i}}}'}
    return {"id": i, "va": value if i % 4 else None, "s": f"s{i % 3}", "p": i % 2, "r": {"x": i, "y": value}}


ANSWERED: dict[str, tuple[Callable[[pp.Table], Any], Any]] = {
    "count": (lambda t: t.count(), 19),
    "count of an index": (lambda t: t.count("s = 's1'"), 7),
    "count of rows": (lambda t: t.count("id > 5 AND s <> 's0'"), 9),
    "count of a partition": (lambda t: t.count("p = 1"), 9),
    "count of a scan": (lambda t: t.scan("id > 5").count(), 14),
    "count with a limit": (lambda t: t.scan(limit=4).count(), 4),
    "exists": (lambda t: (t.exists("id = 7"), t.exists("id = 3")), (True, False)),
    "min and max": (lambda t: (t.min("id"), t.max("s"), t.max("id", "s = 's0'")), (0, "s2", 18)),
    "sum": (lambda t: t.sum("id", "id < 5"), 7),
    "distinct": (lambda t: t.distinct("p").to_pylist(), [{"p": 0, "count": 10}, {"p": 1, "count": 9}]),
    "top n": (lambda t: t.top_n("id desc, 2", columns=["s", "id"])["id"].to_pylist(), [19, 18]),
    "limit": (lambda t: t.scan("id > 5", columns=["id"], limit=3).to_arrow().num_rows, 3),
    "no column": (lambda t: t.scan("id > 5", columns=[]).to_arrow().num_rows, 14),
    "row index": (lambda t: t.scan("id = 5", columns=["__paimon_row_index"]).to_arrow().num_rows, 1),
    "explain": (lambda t: t.explain("id > 5", columns=["id"], analyze=True).to_arrow()["rows"][-1].as_py(), 14),
    "advice": (lambda t: t.index.advise(["id > 3"]).files, 2),
    "verify": (lambda t: t.index.verify().findings, ()),
    "NULLs": (lambda t: t.scan("va IS NULL", columns=["id"]).to_arrow()["id"].to_pylist(), [0, 4, 8, 12, 16]),
    "count of NULLs": (lambda t: (t.count("va IS NULL"), t.count("VA IS NOT NULL")), (5, 14)),
    "NULLs with others": (lambda t: t.count("va IS NOT NULL AND (s = 's1' OR r.y IS NULL)"), 5),
    "inside a ROW": (lambda t: (t.count("r.y IS NOT NULL"), t.count("r IS NULL"), t.count("r.x > 16")), (19, 0, 3)),
    "explain NULLs": (
        lambda t: t.explain("va IS NULL", columns=["id"], analyze=True).to_arrow()["rows"][-1].as_py(),
        5,
    ),
}


@requires_java_oracle
def test_the_other_columns_are_read_and_counted(tmp_path: Path, oracle: Oracle) -> None:
    """With partitions, an index, deleted rows and a column of another name than in the file."""
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", _fields(), partition_keys=["p"], options=OPTIONS)
        batch.write(tmp_path, "db.t", [_row(i) for i in range(20)])
        batch.delete(tmp_path, "db.t", {"op": "eq", "field": "id", "literals": [3]})
        names = ["s", "id", "p"]
        java = batch.read(tmp_path, "db.t", columns=names)
    table = pp.Table.open(tmp_path / "db.db" / "t")
    assert lines(table.scan(columns=names).to_arrow()) == java.lines
    for name, (ask, expected) in ANSWERED.items():
        assert ask(table) == expected, name
    with oracle.batch() as batch:
        batch.alter(tmp_path, "db.t", {"op": "rename", "name": "s", "to": "text"}, {"op": "drop", "name": "va"})
        later = batch.read(
            tmp_path, "db.t", columns=["text", "id"], filter={"op": "gt", "field": "id", "literals": [9]}
        )
    assert lines(table.scan("id > 9", columns=["text", "id"]).to_arrow()) == later.lines
    assert table.count("text = 's1'") == 7
    table.alter(unset_options=["file-index.bitmap.columns"], add_columns={"w": "INT"})
    table.maintenance.compact_manifests()
    with oracle.batch() as batch:
        again = batch.read(tmp_path, "db.t", columns=["text", "id", "w"])
    assert lines(table.scan(columns=["text", "id", "w"]).to_arrow()) == again.lines


@requires_java_oracle
@pytest.mark.parametrize("shape", ["append", "merge", "vectors"])
def test_nulls_of_a_variant_are_found(tmp_path: Path, oracle: Oracle, shape: str) -> None:
    """The newest version of a row counts, whatever older files have."""
    keyed = shape != "append"
    options = {"bucket": "1" if keyed else "-1", "deletion-vectors.enabled": str(shape == "vectors").lower()}
    versions = [[{"id": i, "va": {"json": "[1]"} if i % 3 else None, "n": i} for i in range(9)]]
    if keyed:
        versions.append([{"id": i, "va": {"json": "{}"} if i % 2 else None, "n": -i} for i in range(4, 12)])
    fields = [DataField(0, "id", parse_type("BIGINT NOT NULL")), DataField(1, "va", parse_type("VARIANT"))]
    fields.append(DataField(2, "n", parse_type("BIGINT")))
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields, primary_keys=["id"] if keyed else [], options=options)
        for rows in versions:
            batch.write(tmp_path, "db.t", rows)
        if shape == "vectors":
            batch.compact(tmp_path, "db.t")
    newest = {row["id"]: row for rows in versions for row in rows}
    null = sorted(i for i, row in newest.items() if row["va"] is None)
    table = pp.Table.open(tmp_path / "db.db" / "t")
    found = table.scan("va IS NULL", columns=["id", "n"]).to_arrow().sort_by("id")
    assert found.to_pydict() == {"id": null, "n": [newest[i]["n"] for i in null]}
    assert table.count("va IS NOT NULL AND n <> 7") == len(newest) - len(null) - (shape == "append")


@requires_shared
def test_its_values_have_no_order_and_no_filters() -> None:
    table = pp.Table.open(table_path("append_variant"))
    for answer in (table.min, table.max, table.distinct, table.sum):
        with pytest.raises(UnsupportedError, match="VARIANT"):
            answer("va")
    for ask in (lambda: table.top_n("va, 3"), lambda: table.index.layout("va")):
        with pytest.raises((UnsupportedError, OptionError), match="VARIANT"):
            ask()
    for condition in ("va = 1", "va IN (1, 2)", "va LIKE 'a%'"):
        with pytest.raises(PredicateError, match="column va is of type VARIANT; only IS NULL and IS NOT NULL apply"):
            table.count(condition)
    for name in SYSTEM_TABLES:
        assert table.system.read(name).num_columns


@requires_shared
def test_commands_and_advice_take_the_other_columns(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(table_path("append_variant"))
    table = pp.Table.open(path)
    for words in (["count"], ["count", "--where", "va IS NULL"], ["max", "id"], ["scan", "--columns", "id"]):
        assert main([words[0], path, *words[1:]]) == 0, words
    printed = capsys.readouterr().out.split()
    assert printed[:3] == [str(n) for n in (table.count(), table.count("va IS NULL"), table.max("id"))]
    assert table.index.advise(["va IS NULL", "id = 3"]).files == table.index.advise(["id = 3"]).files
