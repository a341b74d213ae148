"""Directories of files become tables: what they have, what is refused, and what failures leave."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import PaimonError, SchemaError, StorageError
from paimon_pyds.format.parquet.thrift import BINARY, I32
from paimon_pyds.ops.migration import migrate as module
from paimon_pyds.ops.migration.parquet_file import _Columns
from support.effort import sampled
from support.faults_io import AFTER, BEFORE, FaultyIO

_ROWS = pa.table({"k": pa.array(range(6), pa.int32()), "s": ["a", None, "c", "d", "e", "f" * 40]})


def _source(path: Path) -> Path:
    """Two files in partitions of a day."""
    for number, day in enumerate(["2024-01-31", "2024-02-01"]):
        place = path / f"day={day}"
        place.mkdir(parents=True)
        pq.write_table(_ROWS.slice(3 * number, 3), place / "part-0.parquet")
    (path / "_SUCCESS").touch()
    (path / ".hidden").write_text("?")
    return path


def _state(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("mode", ["copy", "link", "move"])
def test_modes(tmp_path: Path, mode: Any) -> None:
    source, target = _source(tmp_path / "s"), tmp_path / "t"
    before = _state(source)
    done = pp.migrate(str(source), str(target), mode=mode)
    table = pp.Table.open(target)
    assert (done.snapshot_id, done.rows, done.files.num_rows, table.partition_by) == (1, 6, 2, ("day",))
    assert table.scan(columns=["k", "s"]).to_arrow().sort_by("k").equals(_ROWS)
    assert {str(day) for day in table.scan().to_arrow()["day"].to_pylist()} == {"2024-01-31", "2024-02-01"}
    assert sorted(os.listdir(tmp_path)) == ["s", "t"]
    if mode == "move":
        assert list(_state(source)) == [".hidden", "_SUCCESS"]
        return
    assert _state(source) == before
    (first,) = (source / "day=2024-01-31").iterdir()
    assert first.stat().st_nlink == (2 if mode == "link" else 1)


def _linked_away(path: Path) -> tuple[Path, pp.Table]:
    """A directory of files in which links lead to a table, to a file elsewhere, and back into it; and the table."""
    table = pp.Table.create(path / "other", {"k": pa.array([100], pa.int32()), "s": ["x"]})
    source = path / "s"
    source.mkdir()
    pq.write_table(_ROWS, source / "own.parquet")
    pq.write_table(_ROWS, path / "elsewhere.parquet")
    (source / "table").symlink_to(path / "other" / "bucket-0")
    (source / "file.parquet").symlink_to(path / "elsewhere.parquet")
    (source / "again").symlink_to(source)
    return source, table


@pytest.mark.parametrize("mode", ["copy", "link", "move"])
def test_links_are_left_out(tmp_path: Path, mode: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Files behind them belong to others: a move removed those of a table, and the same file was there twice."""
    source, table = _linked_away(tmp_path)
    names = ("again", "file.parquet", "table")
    done = pp.migrate(str(source), str(tmp_path / "t"), mode=mode)
    assert (done.rows, done.links) == (6, tuple(str(source / name) for name in names))
    assert "3 links left out" in str(done)
    assert "3 links left out" in caplog.text
    assert done.to_dict()["links"] == done.links
    assert table.scan().count() == 1
    assert (tmp_path / "elsewhere.parquet").exists()
    assert sorted(os.listdir(source)) == sorted([*names, *(["own.parquet"] if mode != "move" else [])])


@pytest.mark.parametrize("mode", ["copy", "link", "move"])
def test_links_into_a_directory_that_is_allowed(tmp_path: Path, mode: Any) -> None:
    source, table = _linked_away(tmp_path)
    allowed = {"external-paths.allow": f"file:{tmp_path}/other/,{tmp_path}/elsewhere.parquet"}
    done = pp.migrate(str(source), str(tmp_path / "t"), mode=mode, storage_options=allowed)
    left = ("again", "file.parquet", "table") if mode == "move" else ("again",)
    assert (done.rows, done.links) == (6 if mode == "move" else 13, tuple(str(source / name) for name in left))
    assert (table.scan().count(), (tmp_path / "elsewhere.parquet").exists()) == (1, True)


def test_links_only(tmp_path: Path) -> None:
    pq.write_table(_ROWS, tmp_path / "a.parquet")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.parquet").symlink_to(tmp_path / "a.parquet")
    with pytest.raises(PaimonError, match=r"no data files here.*links are not followed.*external-paths.allow"):
        pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"))


def test_a_directory_that_becomes_a_link_while_its_files_are_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, others = _source(tmp_path / "s"), tmp_path / "others"
    made = module._made

    def swapped(*arguments: Any) -> Any:
        done = made(*arguments)
        shutil.copytree(source / "day=2024-02-01", others)
        shutil.rmtree(source / "day=2024-02-01")
        (source / "day=2024-02-01").symlink_to(others)
        return done

    monkeypatch.setattr(module, "_made", swapped)
    done = pp.migrate(str(source), str(tmp_path / "t"), mode="move")
    assert done.kept == (str(source / "day=2024-02-01/part-0.parquet"),)
    assert os.listdir(others) == ["part-0.parquet"]
    assert os.listdir(source / "day=2024-01-31") == []


def test_the_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    _source(tmp_path / "s")
    (tmp_path / "link").symlink_to(tmp_path / "s")
    done = pp.migrate(str(tmp_path / "link"), str(tmp_path / "t"), mode="move")
    assert (done.rows, done.kept, done.links) == (6, (), ())
    assert list(_state(tmp_path / "s")) == [".hidden", "_SUCCESS"]


def test_statistics_prune_and_indexes_are_built(tmp_path: Path) -> None:
    pp.migrate(str(_source(tmp_path / "s")), str(tmp_path / "t"), options={"file-index.bloom-filter.columns": "s"})
    table = pp.Table.open(tmp_path / "t")
    assert len(table.scan("k > 3").plan().files) == 1
    assert len(table.scan("s IS NULL").plan().files) == 1
    assert len(table.scan("s = 'b'").plan().files) == 1  # 'a' … 'c'
    assert table.index.build().rewritten == 2
    assert table.scan("s = 'b'").to_arrow().num_rows == 0
    assert table.scan("s = 'e'").to_arrow()["k"].to_pylist() == [4]
    table.delete("k = 0")
    table.append(pa.table({"k": pa.array([9], pa.int32()), "s": ["z"], "day": table.scan(limit=1).to_arrow()["day"]}))
    table.compact(full=True)
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3, 4, 5, 9]
    assert table.maintenance.verify(deep=True).ok


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_indexes_on_partition_columns(tmp_path: Path, format_: str) -> None:
    """Files lack the columns of their directories: an index there has the directory's value."""
    for day in ("2024-01-31", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"s/day={day}").mkdir(parents=True)
        _in_format(format_, tmp_path / f"s/day={day}/a")
    options = {"file-index.bitmap.columns": "day", "file-index.bloom-filter.columns": "k,day"}
    pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"), options=options)
    table = pp.Table.open(tmp_path / "t")
    done = table.index.build()
    assert (done.rewritten, done.built) == (2, 6)
    assert [table.scan(f"day {test}").count() for test in ("= DATE '2024-01-31'", "IS NULL")] == [2, 2]
    assert table.maintenance.verify(deep=True).ok
    assert table.index.verify().ok
    assert table.index.build().rewritten == 0
    table.index.cost()  # reads the columns, too
    table.alter(unset_options=["file-index.bloom-filter.columns"])
    assert table.index.build().rewritten == 2


def _in_format(format_: str, path: Path) -> None:
    rows = [{"k": 1}, {"k": 2}]
    if format_ == "avro":
        schema = {"type": "record", "name": "r", "fields": [{"name": "k", "type": "int"}]}
        with path.open("wb") as file:
            fastavro.writer(file, schema, rows)
    else:
        {"parquet": pq, "orc": orc}[format_].write_table(pa.Table.from_pylist(rows), path)


def test_floats_have_no_bounds_and_texts_are_cut(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    pq.write_table(pa.table({"f": [1.0, float("nan")], "s": ["x" * 20, None]}), tmp_path / "s/a.parquet")
    pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"))
    table = pp.Table.open(tmp_path / "t")
    (row,) = table.system.read("files").to_pylist()
    assert row["max_value_stats"] == f"{{f=null, s={'x' * 15}y}}"
    assert row["null_value_counts"] == "{f=0, s=1}"
    assert table.scan("f > 5").count() == 1  # NaN


def test_types_of_partitions(tmp_path: Path) -> None:
    for place in ("a=1/b=01/c=9999999999", "a=2/b=02/c=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "s" / place).mkdir(parents=True)
        orc.write_table(pa.table({"v": [1]}), tmp_path / "s" / place / "000000_0")
    planned = pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"), dry_run=True)
    assert not (tmp_path / "t").exists()
    assert [str(f.type) for f in planned.schema.fields] == ["BIGINT", "INT", "STRING", "BIGINT"]
    pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"), partition_by={"c": "STRING", "a": "BIGINT", "b": "INT"})
    table = pp.Table.open(tmp_path / "t")
    assert table.partition_by == ("c", "a", "b")
    rows = table.scan().to_arrow().sort_by("a").to_pylist()
    assert rows == [{"v": 1, "a": 1, "b": 1, "c": "9999999999"}, {"v": 1, "a": 2, "b": 2, "c": None}]
    assert table.options["file.format"] == "orc"


@pytest.mark.parametrize("type_", ["VARCHAR(2)", "CHAR(2)", "DECIMAL(3, 1)", "TINYINT"])
def test_values_of_partitions_that_their_type_can_not_hold(tmp_path: Path, type_: str) -> None:
    for value in ("12", "123"):
        (tmp_path / "s" / f"p={value}").mkdir(parents=True)
        pq.write_table(pa.table({"v": [1]}), tmp_path / "s" / f"p={value}/a.parquet")
    wider = {"TINYINT": "SMALLINT", "DECIMAL(3, 1)": "DECIMAL(4, 1)"}.get(type_, type_.replace("2", "3"))
    (tmp_path / "s/p=123").rename(tmp_path / "s/p=1234" if type_ == "TINYINT" else tmp_path / "s/p=123")
    with pytest.raises(SchemaError, match="partition p='123"):
        pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"), partition_by={"p": type_})
    assert not (tmp_path / "t").exists()
    pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"), partition_by={"p": wider})
    assert pp.Table.open(tmp_path / "t").scan().count() == 2


@pytest.mark.parametrize(
    ("beside", "kind"),
    [
        ("t/_delta_log/00000000000000000000.json", "Delta"),
        ("t/.hoodie/hoodie.properties", "Hudi"),
        ("day=1/.hoodie_partition_metadata", "Hudi"),
        ("_spark_metadata/0", "Spark streaming"),
        ("t/delta_0000002_0000002_0000/b.parquet", "transactional Hive"),
        ("t/base_0000005_v0000042/b.parquet", "transactional Hive"),
    ],
)
def test_tables_of_another_kind_further_down(beside: str, kind: str, tmp_path: Path) -> None:
    """Deleted rows would come back."""
    place = tmp_path / "s" / beside
    place.parent.mkdir(parents=True)
    place.touch()
    pq.write_table(pa.table({"a": [1]}), place.parent.with_name("a.parquet"))
    with pytest.raises(PaimonError, match=f"files of a {kind} table"):
        pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"))


@pytest.mark.parametrize(
    ("source", "beside", "message"),
    [
        ("t/day=1", "t/_delta_log/00000000000000000000.json", "files of a Delta table"),
        ("t/day=1/hour=2", "t/.hoodie/hoodie.properties", "files of a Hudi table"),
        ("t/data", "t/metadata/v1.metadata.json", "files of an Iceberg table"),
        ("t/data/day=1", "t/metadata/v1.metadata.json", "files of an Iceberg table"),
    ],
)
def test_a_part_of_a_table_of_another_kind(source: str, beside: str, message: str, tmp_path: Path) -> None:
    """Deleted rows would come back."""
    (tmp_path / source).mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), tmp_path / source / "a.parquet")
    assert pp.migrate(str(tmp_path / source), str(tmp_path / "new"), dry_run=True).rows == 1
    (tmp_path / beside).parent.mkdir()
    (tmp_path / beside).touch()
    with pytest.raises(PaimonError, match=message):
        pp.migrate(str(tmp_path / source), str(tmp_path / "new"))


def test_a_partition_of_a_paimon_table(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"id": [1], "p": ["a"]}, partition_by="p")
    table.overwrite({"id": [2], "p": ["a"]})
    with pytest.raises(PaimonError, match="part of a Paimon table"):
        pp.migrate(str(tmp_path / "t/p=a"), str(tmp_path / "new"))


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_partition_columns_of_another_type_in_the_files(format_: str, tmp_path: Path) -> None:
    """Readers, Java's too, take the partition's value, so nothing is wrong with them."""
    (tmp_path / "s/p=1").mkdir(parents=True)
    rows = [{"id": 5, "p": "x"}]
    if format_ == "avro":
        columns = [{"name": "id", "type": "long"}, {"name": "p", "type": "string"}]
        with (tmp_path / "s/p=1/a").open("wb") as out:
            fastavro.writer(out, {"type": "record", "name": "r", "fields": columns}, rows)
    else:
        {"parquet": pq, "orc": orc}[format_].write_table(pa.Table.from_pylist(rows), tmp_path / "s/p=1/a")
    pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"))
    table = pp.Table.open(tmp_path / "t")
    assert table.maintenance.verify(deep=True).findings == ()
    table.append({"id": [6], "p": [1]})
    table.compact(full=True)
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 5, "p": 1}, {"id": 6, "p": 1}]


def test_files_without_any_column_of_the_table_are_verified(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT")
    table.append({"id": [1, 2]})
    table.alter(add_columns={"name": "STRING"}, drop_columns=["id"])
    assert table.maintenance.verify(deep=True).findings == ()
    (tmp_path / "s/p=1").mkdir(parents=True)
    pq.write_table(pa.table({"p": [1]}), tmp_path / "s/p=1/a.parquet")
    pp.migrate(str(tmp_path / "s"), str(tmp_path / "m"))
    assert pp.Table.open(tmp_path / "m").maintenance.verify(deep=True).findings == ()


def test_orc_instants_are_no_clock_times(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    orc.write_table(pa.table({"t": pa.array([0], pa.timestamp("ns", "UTC"))}), tmp_path / "s/a.orc")
    with pytest.raises(PaimonError, match="must be false"):
        pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"), options={"orc.timestamp-ltz.legacy.type": "true"})
    pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"))
    assert pp.Table.open(tmp_path / "t").options["orc.timestamp-ltz.legacy.type"] == "false"


def test_empty_files_and_columns_without_values(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    pq.write_table(pa.table({"a": [1], "n": pa.nulls(1)}), tmp_path / "s/a.parquet")
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "s/b.parquet")
    done = pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"))
    assert (done.empty, done.left_out, done.files.num_rows) == (1, ("n",), 1)
    assert pp.Table.open(tmp_path / "t").scan().to_arrow().to_pylist() == [{"a": 1}]


def _write(name: str, **columns: pa.Array) -> Callable[[Path], object]:
    return lambda path: pq.write_table(pa.table(columns), path / name)


def _text(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda path: (path / name).write_bytes(data)


def _text_in(place: Path, name: str, text: str) -> None:
    place.mkdir(exist_ok=True)
    (place / name).write_text(text)


_LONG = pa.array([1])
_REFUSED: dict[str, tuple[list[Callable[[Path], object]], str]] = {
    "nothing": ([], "no data files"),
    "empty": ([_text("a.parquet", b"")], "an empty file"),
    "text": ([_text("a.csv", b"a,b\n")], "not a Parquet, ORC or Avro file"),
    "corrupt": ([_text("a.parquet", b"PAR1" + b"\0" * 20)], "a.parquet"),
    "formats": ([_write("a", a=_LONG), lambda p: orc.write_table(pa.table({"a": [1]}), p / "b")], "two formats"),
    "types": ([_write("a", a=_LONG), _write("b", a=pa.array(["x"]))], "column a is STRING in this file, and BIGINT"),
    "case": ([_write("a", a=_LONG), _write("b", A=_LONG)], "differ in case only"),
    "unsigned": ([_write("a", a=pa.array([1], pa.uint32()))], "INT32, integer 32 False"),
    "nanoseconds": ([_write("a", a=pa.array([1], pa.timestamp("ns")))], "INT64, timestamp ns False"),
    "time": ([_write("a", a=pa.array([1], pa.time64("us")))], "INT64, time us"),
    "half": ([_write("a", a=pa.array([1.0], pa.float32()).cast(pa.float16()))], "logical type 15"),
    "stream": (
        [lambda p: pq.write_table(pa.table({"a": [1.0]}), p / "a", use_dictionary=False, use_byte_stream_split=True)],
        "BYTE_STREAM_SPLIT",
    ),
    "decimals": ([_write("a", a=pa.array([Decimal(1)], pa.decimal128(19, 2)))], "more than 18 digits in a dictionary"),
    "unnamed": ([lambda p: orc.write_table(pa.table({"_col0": [1], "_col1": [2]}), p / "a")], "no names but"),
    "delta": ([lambda p: (p / "_delta_log").mkdir()], "versions are missing"),
    "hudi": ([lambda p: (p / ".hoodie").mkdir()], "Hudi tables"),
    "iceberg": ([lambda p: _text_in(p / "metadata", "v1.metadata.json", "{}")], "metadata is damaged"),
    "paimon": ([lambda p: pp.Table.create(p, pa.schema({"a": pa.int32()})).append({"a": [1]})], "Paimon table already"),
    "uneven": (
        [_write("a", a=_LONG), lambda p: (p / "k=1").mkdir(), lambda p: _write("k=1/a", a=_LONG)(p)],
        "by nothing before",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    steps, message = _REFUSED[name]
    (tmp_path / "s").mkdir()
    for step in steps:
        step(tmp_path / "s")
    with pytest.raises(PaimonError, match=message):
        pp.migrate(str(tmp_path / "s"), str(tmp_path / "t"))
    assert os.listdir(tmp_path) == ["s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"primary_key": ["k"]}, "append the rows"),
        ({"mode": "steal"}, "copy, move, link"),
        ({"format": "orc"}, "of format parquet, not orc"),
        ({"format": "csv"}, "not one of parquet"),
        ({"partition_by": []}, "partitions by day"),
        ({"partition_by": {"day": "INT"}}, "no value of INT"),
        ({"options": {"bucket": "4"}}, "bucket must be -1"),
        ({"options": {"row-tracking.enabled": "true"}}, "no row ids"),
        ({"options": {"file.format": "csv"}}, "csv"),
        ({"options": {"primary-key": "k"}}, "can't be given"),
        ({"options": {"partition": "k"}}, "given twice"),
    ],
)
def test_refused_arguments(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PaimonError, match=message):
        pp.migrate(str(_source(tmp_path / "s")), str(tmp_path / "t"), **arguments)
    assert os.listdir(tmp_path) == ["s"]


def test_targets_that_are_taken(tmp_path: Path) -> None:
    source = str(_source(tmp_path / "s"))
    (tmp_path / "empty").mkdir()
    assert pp.migrate(source, str(tmp_path / "empty")).rows == 6
    with pytest.raises(PaimonError, match="already exists"):
        pp.migrate(source, str(tmp_path / "empty"))
    with pytest.raises(PaimonError, match="inside one another"):
        pp.migrate(source, f"{source}/inside")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(PaimonError, match="not empty"):
        pp.migrate(source, str(tmp_path / "full"))


@pytest.mark.parametrize("scheme", ["file", "s3"])
def test_every_operation_fails_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """The source stays, and there is a whole table or none; then it works. On ``s3`` nothing can be renamed."""
    source = _source(tmp_path / "s")
    before = _state(source)
    monkeypatch.setattr(module, "scheme_of", lambda _: scheme)

    def run(io: FaultyIO, target: Path) -> None:
        monkeypatch.setattr(module, "open_file_io", lambda path, _: (io, path))
        pp.migrate(str(source), str(target), mode="copy")

    whole = FaultyIO()
    run(whole, tmp_path / "whole")
    for at in sampled(range(len(whole.done)), 9):
        for mode in (BEFORE, AFTER):
            target, where = tmp_path / f"t{at}{mode}", (at, whole.done[at], mode)
            try:
                run(FaultyIO(at, mode), target)
            except (PaimonError, OSError):
                left = [path for path in target.rglob("*") if path.is_file()]
                assert not left or pp.Table.open(target).scan().count() == 6, where
            assert _state(source) == before
            assert not [name for name in os.listdir(tmp_path) if name.startswith(".")], where
            if not list(target.rglob("snapshot-1")):
                shutil.rmtree(target, ignore_errors=True)
                run(FaultyIO(), target)
            assert pp.Table.open(target).scan().count() == 6


_KILLED = """
import os, sys, threading, time
import paimon_pyds as pp
from paimon_pyds.ops.migration import migrate
made = migrate.commit if sys.argv[3] == "commit" else migrate.transfer
def killed(*arguments):
    made(*arguments)
    os._exit(9)
setattr(migrate, made.__name__, killed)
pp.migrate(sys.argv[1], sys.argv[2], mode="move")
"""


@pytest.mark.parametrize("moment", ["transfer", "commit"])
def test_killed(tmp_path: Path, moment: str, caplog: pytest.LogCaptureFixture) -> None:
    source = _source(tmp_path / "s")
    before = _state(source)
    done = subprocess.run([sys.executable, "-c", _KILLED, source, tmp_path / "t", moment], check=False)
    assert done.returncode == 9
    assert _state(source) == before
    assert not (tmp_path / "t").exists()
    shutil.copytree(source, tmp_path / "other")
    assert pp.migrate(str(tmp_path / "other"), str(tmp_path / "o")).rows == 6
    (left,) = (name for name in os.listdir(tmp_path) if name.startswith(".t.migrating-"))
    shutil.copytree(tmp_path / left, tmp_path / ".t.migrating-elsewhere")
    lock = tmp_path / ".t.migrating-elsewhere" / ".migration-lock"
    lock.write_text(lock.read_text().replace('"machine": "', '"machine": "another than '))
    assert pp.migrate(str(source), str(tmp_path / "t"), mode="move").rows == 6
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == [".t.migrating-elsewhere"]
    assert "if that runs no more, remove it" in caplog.text
    assert not (tmp_path / "t" / ".migration-lock").exists()


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["migrate", str(_source(tmp_path / "s")), str(tmp_path / "t"), "--partition-by", "day=STRING"]
    assert main([*arguments, "--dry-run"]) == 0
    assert "dry run, 2 files, 6 rows" in capsys.readouterr().out
    assert main([*arguments, "--mode", "link", "--output", "json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["rows"], done["partition_by"], done["fields"][-1]["type"]) == (6, ["day"], "STRING")


def test_files_that_can_not_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = _source(tmp_path / "s")

    class Kept(FaultyIO):
        def delete(self, paths: Any) -> None:
            raise StorageError("read-only")

    monkeypatch.setattr(module, "open_file_io", lambda path, _: (Kept(), path))
    done = pp.migrate(str(source), str(tmp_path / "t"), mode="move")
    assert len(done.kept) == 2
    assert "2 files of the source could not be removed" in str(done)
    assert pp.Table.open(tmp_path / "t").scan().count() == 6


def _element(name: str, repetition: int, children: int | None = None, converted: int | None = None) -> dict[int, Any]:
    """An element of a Parquet schema: a group, or an INT32."""
    found: dict[int, Any] = {3: (I32, repetition), 4: (BINARY, name.encode())}
    found[5 if children else 1] = (I32, children or 1)
    return found if converted is None else {**found, 6: (I32, converted)}


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([_element("l", 1, 1, 3), _element("array", 2)], "lists of two levels"),
        ([_element("l", 1, 1, 3), _element("l_tuple", 2, 1), _element("x", 1)], "lists of two levels"),
        ([_element("r", 2)], "repeat without being a list"),
        ([_element("m", 1, 1, 1), _element("map", 2, 2), _element("k", 0), _element("v", 1)], "named k and v"),
        ([_element("m", 1, 1, 1), _element("map", 2, 1), _element("key", 0)], "without keys and values"),
        ([_element("i", 1, None, 21)], "converted type 21"),
    ],
)
def test_parquet_types_that_java_misreads(elements: list[Any], message: str) -> None:
    with pytest.raises(PaimonError, match=message):
        _Columns([_element("root", 0, 1), *elements], "a.parquet", instants=False).read()
