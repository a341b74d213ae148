"""Tables with upsert-key: a plain append would double keys that Paimon's Spark connector merges, and is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from support.oracle import Oracle

REFUSED = r"upsert-key=id can't be appended to.*Table\.merge"


def _rows(*ids: int, v: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array([v] * len(ids), pa.string())})


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    made = pp.Table.create(tmp_path / "t", _rows().schema, options={"upsert-key": "id"})
    made.overwrite(_rows(1, 2))
    return made


def _content(table: pp.Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in table.scan().to_arrow().to_pylist())


def _files(table: pp.Table) -> set[Path]:
    return {path for path in Path(table.path).rglob("*") if path.is_file()}


def test_appends_are_refused_and_leave_nothing(table: pp.Table) -> None:
    before = _files(table)
    with pytest.raises(UnsupportedError, match=REFUSED):
        table.append(_rows(2, 3))
    with TableWriter(table.write_context()) as writer:
        writer.write(_rows(2, 3).to_batches()[0])
        message = writer.prepare_commit()
    with pytest.raises(UnsupportedError, match=REFUSED):
        table.commit([message])
    assert _files(table) == before


def test_an_option_of_the_write_counts_as_in_java(table: pp.Table, tmp_path: Path) -> None:
    table.append(_rows(3), options={"upsert-key": ""})
    assert [id_ for id_, _ in _content(table)] == [1, 2, 3]
    other = pp.Table.create(tmp_path / "other", _rows().schema)
    with pytest.raises(UnsupportedError, match=REFUSED):
        other.append(_rows(3), options={"upsert-key": "id"})


def test_everything_else_works(table: pp.Table) -> None:
    table.merge(_rows(2, 3, v="new"), on=["id"], when_matched="update", when_not_matched="insert")
    table.update({"v": "'one'"}, "id = 1")
    assert _content(table) == [(1, "one"), (2, "new"), (3, "new")]
    table.delete("id = 3")
    table.compact(full=True)
    assert _content(table) == [(1, "one"), (2, "new")]
    table.overwrite(_rows(7, 7))  # as Java does: nothing is merged
    assert _content(table) == [(7, "x"), (7, "x")]


def test_the_command_says_what_to_do(table: pp.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = str(tmp_path / "rows.parquet")
    pq.write_table(_rows(2, 3, v="new"), rows)
    assert main(["append", table.path, rows]) == 1
    assert "upsert-key=id can't be appended to" in capsys.readouterr().err
    missing = tmp_path / "new"
    assert main(["append", str(missing), rows, "--create", "--option", "upsert-key=id"]) == 1
    assert not missing.exists()
    clauses = ["--when-matched", "update", "--when-not-matched", "insert"]
    assert main(["merge", table.path, "--source", rows, "--on", "id", *clauses]) == 0
    assert _content(table) == [(1, "x"), (2, "new"), (3, "new")]


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (SchemaError, "upsert-key names 'no'", {"options": {"upsert-key": "no"}}),
        (SchemaError, "upsert-key names ' v'", {"options": {"upsert-key": "id, v"}}),
        (OptionError, "upsert-key is not for", {"options": {"upsert-key": "id"}, "primary_key": ["id"]}),
        (OptionError, "must not be nested", {"options": {"upsert-key": "a"}}),
    ],
)
def test_what_java_does_not_allow(
    error: type[Exception], message: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    columns = pa.schema({"id": pa.int32(), "v": pa.string(), "a": pa.list_(pa.int32())})
    with pytest.raises(error, match=message):
        pp.Table.create(tmp_path / "t", columns, **arguments)


def test_java_opens_and_alters_what_is_made_here(oracle: Oracle, tmp_path: Path) -> None:
    """Also after a renaming, which Java's own leaves the option behind in; and with sequence.field beside it."""
    options = {"upsert-key": "id,p", "sequence.field": "v"}
    columns = pa.schema([(name, pa.int32()) for name in ("id", "p", "v")])
    table = pp.Table.create(tmp_path / "db.db" / "t", columns, partition_by=["p"], options=options)
    table.alter(rename_columns={"id": "k", "v": "w"})
    assert dict(table.options) == {"upsert-key": "k,p", "sequence.field": "w"}
    with oracle.batch() as batch:
        batch.alter(tmp_path, "db.t", {"op": "set", "key": "write-only", "value": "true"})
        batch.write(tmp_path, "db.t", [{"k": 1, "p": 1, "w": 1}])
        read = batch.read(tmp_path, "db.t")
    assert read.lines == ['{"k":1,"p":1,"w":1}']
