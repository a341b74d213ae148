"""The options of Java 1.4.2: each has an entry here, and those that would make Java misread a table are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import IMMUTABLE_OPTIONS, Status, option_of
from paimon_pyds.errors import OptionError, UnsupportedError
from support.oracle import Oracle
from support.values import lines

ROWS = pa.table({"id": pa.array([1], pa.int32()), "v": ["x"]})
LATER = {"postpone.default-bucket-num": None, "global-index.thread-num": 32}
"""Defaults that a later version has changed."""


def test_every_option_of_java_has_an_entry(oracle: Oracle) -> None:
    """Honoured, or with a reason why it is refused or without effect; and with Java's default and older names."""
    listed = [line.split("\t") for line in oracle.program("OptionsOracle")]
    assert len(listed) > 270
    unknown = [key for key, *_ in listed if option_of(key) is None]
    assert unknown == []
    for key, default, immutable, older in listed:
        option = option_of(key)
        assert option is not None
        assert option.status is Status.HONOURED or option.why, key
        own = LATER.get(key, option.parse(default) if default else option.default_value)
        assert option.default_value == own, key
        assert default or option.default in (None, "") or key in LATER, key
        assert immutable == "false" or key in IMMUTABLE_OPTIONS, key
        others = [name for name in older.split() if option_of(name) is not option]
        assert others == (["file.compression"] if key == "format-table.file.compression" else []), key


def test_java_passes_over_the_order_of_snapshots(oracle: Oracle, tmp_path: Path) -> None:
    """Java 1.4.2 keeps the option and merges by the numbers in files; what is compacted here it reads as it is."""
    assert "sequence.snapshot-ordering" not in {line.split("\t")[0] for line in oracle.program("OptionsOracle")}
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.string())])
    options = {"bucket": "1", "write-only": "true", "sequence.snapshot-ordering": "true"}
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", schema, primary_keys=("id",), options=options)
        for v in ("old", "new"):
            batch.write(tmp_path, "db.t", [{"id": 1, "v": v}, {"id": 2, "v": v}])
    table = pp.Table.open(tmp_path / "db.db" / "t")
    table.append([{"id": 1, "v": "newest"}])
    after = [{"id": 1, "v": "newest"}, {"id": 2, "v": "new"}]
    assert table.to_arrow().sort_by("id").to_pylist() == after
    table.compact(full=True)
    assert table.to_arrow().sort_by("id").to_pylist() == after
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
    assert read.lines == lines(table.to_arrow())
    for change in ({"set_options": {"sequence.snapshot-ordering": "false"}}, {"unset_options": list(options)[2:]}):
        with pytest.raises(OptionError, match=r"sequence\.snapshot-ordering can't be (changed|reset)"):
            table.alter(**change)
    with pytest.raises(OptionError, match=r"sequence\.snapshot-ordering is false here and True in the table"):
        table.scan(options={"sequence.snapshot-ordering": "false"})


def _operations(table: pp.Table) -> dict[str, Callable[[], object]]:
    return {
        "read": lambda: table.scan().to_arrow(), "count": table.count, "append": lambda: table.append(ROWS),
        "overwrite": lambda: table.overwrite(ROWS), "delete": lambda: table.delete("id = 1"),
        "compact": table.compact, "alter": lambda: table.alter(add_columns={"n": "INT"}),
    }  # fmt: skip


@pytest.mark.parametrize("format_", ["orc", "parquet"])
@pytest.mark.parametrize("key", [(), ("id",)], ids=["append", "key"])
def test_manifests_that_are_not_avro(format_: str, key: tuple[str, ...], oracle: Oracle, tmp_path: Path) -> None:
    """Java's tables stay Java's: nothing is read, and nothing is written that Java would take for damage."""
    options = {"manifest.format": format_, "bucket": "1" if key else "-1"}
    with oracle.batch() as batch:
        for name in ("db.empty", "db.full"):
            batch.create(tmp_path, name, ROWS.schema, primary_keys=key, options=options)
        batch.write(tmp_path, "db.full", ROWS)
    for name in ("empty", "full"):
        table = pp.Table.open(tmp_path / "db.db" / name)
        before = {path for path in Path(table.path).rglob("*") if path.is_file()}
        for operation, run in _operations(table).items():
            with pytest.raises(UnsupportedError, match=rf"manifest\.format={format_} can't be.*Java") as caught:
                run()
            assert operation in ("read", "count", "alter") or "written" in str(caught.value)
        assert {path for path in Path(table.path).rglob("*") if path.is_file()} == before
    for change in ({"set_options": {"manifest.format": "avro"}}, {"unset_options": ["manifest.format"]}):
        with pytest.raises(OptionError, match=r"manifest\.format can't be"):
            table.alter(**change)
    assert {finding.kind for finding in table.maintenance.verify().findings} == {"unsupported"}
    with pytest.raises(UnsupportedError, match="where one of Avro should be"):
        table.system.read("files")
    with oracle.batch() as batch:
        batch.write(tmp_path, "db.full", [{"id": 2, "v": "y"}])
        read = batch.read(tmp_path, "db.full")
    assert read.lines == ['{"id":1,"v":"x"}', '{"id":2,"v":"y"}']


@pytest.mark.parametrize("key", [(), ("id",)], ids=["append", "key"])
def test_a_table_is_not_given_other_manifests(key: tuple[str, ...], tmp_path: Path) -> None:
    for format_ in ("orc", "parquet"):
        with pytest.raises(UnsupportedError, match=f"manifest.format={format_}"):
            pp.Table.create(tmp_path / "t", ROWS.schema, key, options={"manifest.format": format_})
    table = pp.Table.create(tmp_path / "t", ROWS.schema, key, options={"manifest.format": "Avro"})
    with pytest.raises(UnsupportedError, match=r"manifest\.format=orc"):
        table.alter({"manifest.format": "orc"})
    with pytest.raises(OptionError, match=r"manifest\.format is orc here"):
        table.append(ROWS, options={"manifest.format": "orc"})
    table.append(ROWS)
    with pytest.raises(OptionError, match=r"manifest\.format can't be changed"):
        table.alter({"manifest.format": "orc"})
    assert table.count() == 1


def test_java_reads_what_is_altered_beside_options_of_its_engines(oracle: Oracle, tmp_path: Path) -> None:
    """Flink keeps options of its own in a table: they are no one's misspelling, unless they are new."""
    options = {"scan.parallelism": "2", "commit.custom-listeners": "x", "bucket": "-1"}
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", ROWS.schema, options=options)
        batch.write(tmp_path, "db.t", ROWS)
    table = pp.Table.open(tmp_path / "db.db" / "t")
    table.alter({"file.format": "orc"}, add_columns={"n": "INT"})
    for change in ({"scan.parallelism": "3"}, {"scan.parallelsm": "3"}):
        with pytest.raises(OptionError, match=r"unknown option scan\.parallel"):
            table.alter(change)
    table.alter(unset_options=["commit.custom-listeners"])
    assert dict(table.options) == {"scan.parallelism": "2", "bucket": "-1", "file.format": "orc"}
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
    assert read.lines == lines(table.scan().to_arrow()) == ['{"id":1,"v":"x","n":null}']


SPELLINGS: list[tuple[str, str, str]] = [
    ("merge-engine", "Partial_Update", "partial-update"),
    ("merge-engine", " partial-update ", "partial-update"),
    ("merge-engine", "PARTIAL-UPDATE", "PARTIAL-UPDATE"),
    ("changelog-producer", "full_compaction", "full-compaction"),
    ("scan.mode", "latest_full", "latest-full"),
    ("bucket", " 2 ", "2"),
    ("write-only", " TRUE ", "TRUE"),
    ("compaction.delete-ratio-threshold", " 10e-2", "10e-2"),
    ("snapshot.num-retained.min", " 5", "5"),
    ("scan.snapshot-id", " 1", "1"),
    ("incremental-between", "0, 1", "0,1"),
    ("bucket-key", " id, p ", "id,p"),
    ("sequence.field", "v, w", "v,w"),
    ("file-index.bitmap.columns", "v, w", "v, w"),
    ("snapshot.time-retained", "90000000000 us", "90000000000 micro"),
    ("file.compression.per.level", "0:lz4,, 5 : ZSTD,", "0:lz4,5:ZSTD"),
    ("file.format", "ORC", "ORC"),
    ("target-file-size", " 1 mb", "1 mb"),
    ("metadata.stats-mode", " full", "full"),
    ("fields.v.stats-mode", "counts ", "counts"),
    ("file.compression", " zstd", "zstd"),
]


@pytest.mark.parametrize("how", ["create", "alter"])
def test_options_are_stored_as_java_reads_them(how: str, oracle: Oracle, tmp_path: Path) -> None:
    """Spellings that are understood here, and that Java takes for errors, which leave it no way into the table."""
    columns = [pa.field("id", pa.int32(), nullable=False), pa.field("p", pa.int32(), nullable=False)]
    schema = pa.schema([*columns, ("v", pa.int32()), ("w", pa.int32())])
    row = {"id": 1, "p": 1, "v": 1, "w": 1}
    with oracle.batch() as batch:
        for number, (key, text, _) in enumerate(SPELLINGS):
            options = {"bucket": "2"} | ({key: text} if how == "create" else {})
            table = pp.Table.create(tmp_path / "db.db" / f"t{number}", schema, ["id", "p"], options=options)
            if how == "alter":
                table.alter({key: text})
            table.append(pa.Table.from_pylist([row], schema))
            batch.read(tmp_path, f"db.t{number}")
            batch.write(tmp_path, f"db.t{number}", [row | {"id": 2}])
    for number, (key, _, stored) in enumerate(SPELLINGS):
        table = pp.Table.open(tmp_path / "db.db" / f"t{number}")
        assert table.options[key] == stored
        schemas = table._store.schema_ids()
        table.alter({key: SPELLINGS[number][1]})
        assert table._store.schema_ids() == schemas  # the same value again changes nothing
