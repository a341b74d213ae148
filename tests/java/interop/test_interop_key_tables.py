"""Tables with a primary key that are written here, and by Java in turn: both read the same, of every merge engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.metadata.manifest_reader import ManifestReader
from support.key_engines import ENGINES, SCHEMA, random_rows, write_kinds
from support.oracle import Oracle, Reply, requires_java_oracle
from support.values import lines

_OP = {"rowkind-column": "_kind"}
_LAYOUTS: Sequence[dict[str, str]] = (
    {},
    {"data-file.thin-mode": "true"},
    {"file.format": "orc"},
    {"file.format.per.level": "0:avro"},
    {"target-file-row-num": "20"},
    {"file-index.bitmap.columns": "a,c", "metadata.stats-dense-store": "false"},
)


def _data(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    listed = [{**row, "u": None if row["u"] is None else float(row["u"])} for row in rows]
    return pa.Table.from_pylist(listed, schema=pa.schema([("_kind", pa.string()), *SCHEMA]))


def _sequence_numbers(table: pp.Table) -> list[Any]:
    entries = ManifestReader(table._store).live_files(table.snapshots.latest())
    names = ["bucket", "level", "row_count", "min_sequence_number", "max_sequence_number", "delete_row_count"]
    return sorted(tuple(row.values()) for row in entries.select([*names, "min_key", "max_key"]).to_pylist())


@requires_java_oracle
@pytest.mark.java
def test_java_and_we_write_to_a_table_in_turn(oracle: Oracle, tmp_path: Path) -> None:
    """Beside it stands a table that Java alone writes, with the same rows: all that is read is the same at each step,
    and so are the numbers, keys and deletes that manifests tell of files."""
    random = Random(31)
    tables: dict[str, pp.Table] = {}
    with oracle.batch() as batch:
        for number, (name, engine) in enumerate(ENGINES.items()):
            options = {"bucket": "2", "write-only": "true", **engine}
            layout = _LAYOUTS[number % len(_LAYOUTS)]
            batch.create(tmp_path, f"db.{name}", SCHEMA, primary_keys=["k"], options={**options, **layout})
            batch.create(tmp_path, f"db.{name}_java", SCHEMA, primary_keys=["k"], options=options)
    for name in ENGINES:
        tables[name] = pp.Table.open(tmp_path / "db.db" / name)
    for turn in range(4):
        written = {name: random_rows(random) for name in ENGINES}
        # Java 1.4 leaves out the order when it merges the versions of one write; later versions don't.
        descending = written["sequence_descending"]
        written["sequence_descending"] = list({row["k"]: row for row in descending}.values())
        read: dict[str, tuple[Reply, Reply]] = {}
        if turn % 2 == 0:
            for name, rows in written.items():
                spilled = {"write-buffer-size": "1 b"} if turn == 2 else {}
                tables[name].append(_data(rows), options={**_OP, **spilled})
        with oracle.batch() as batch:
            for name, rows in written.items():
                write_kinds(batch, tmp_path, f"{name}_java", rows)
                if turn % 2:
                    write_kinds(batch, tmp_path, name, rows)
                if turn == 3:
                    batch.compact(tmp_path, f"db.{name}")
                    batch.compact(tmp_path, f"db.{name}_java")
                read[name] = batch.read(tmp_path, f"db.{name}"), batch.read(tmp_path, f"db.{name}_java")
        for name, (ours, theirs) in read.items():
            where = f"{name}, turn {turn}"
            assert ours.lines == theirs.lines, where
            assert lines(tables[name].scan().to_arrow()) == theirs.lines, where
            java = pp.Table.open(tmp_path / "db.db" / f"{name}_java")
            if "target-file-row-num" not in tables[name].options:
                assert _sequence_numbers(tables[name]) == _sequence_numbers(java), where


@requires_java_oracle
@pytest.mark.java
def test_java_reads_what_jobs_wrote_at_the_same_time(oracle: Oracle, tmp_path: Path) -> None:
    """Two jobs of two tasks each: their rows are as old as their snapshots, in files of all formats."""
    random = Random(5)
    tables = {}
    for format_ in ("parquet", "orc", "avro"):
        options = {"bucket": "2", "file.format": format_, "write-only": "true"}
        table = pp.Table.create(tmp_path / "db.db" / format_, SCHEMA, primary_key=["k"], options=options)
        jobs = []
        for _ in range(3):
            messages = []
            for task in range(2):
                with TableWriter(table.write_context(_OP), task) as writer:
                    writer.write(_data(random_rows(random)))
                    messages.append(writer.prepare_commit())
            jobs.append(messages)
        for messages in reversed(jobs):
            table.commit(messages)
        tables[format_] = table
    with oracle.batch() as batch:
        before = {name: batch.read(tmp_path, f"db.{name}") for name in tables}
        for name in tables:
            batch.compact(tmp_path, f"db.{name}")
        after = {name: batch.read(tmp_path, f"db.{name}") for name in tables}
    for name, table in tables.items():
        assert before[name].lines == after[name].lines == lines(table.scan().to_arrow()), name


@requires_java_oracle
@pytest.mark.java
def test_java_reads_the_changelog_that_is_written_here(oracle: Oracle, tmp_path: Path) -> None:
    random = Random(8)
    options = {"bucket": "2", "changelog-producer": "input", "write-only": "true"}
    with oracle.batch() as batch:
        for name in ("ours", "java"):
            batch.create(tmp_path, f"db.{name}", SCHEMA, primary_keys=["k"], options=options)
    table = pp.Table.open(tmp_path / "db.db" / "ours")
    written = [random_rows(random) for _ in range(3)]
    for rows in written:
        table.append(_data(rows), options=_OP)
    with oracle.batch() as batch:
        for rows in written:
            write_kinds(batch, tmp_path, "java", rows)
        from_start = ["--option", "scan.mode=from-snapshot", "--option", "scan.snapshot-id=1"]
        streamed = [batch.add("stream", tmp_path, f"db.{name}", *from_start) for name in ("ours", "java")]
    assert streamed[0].lines == streamed[1].lines
    assert len([line for line in streamed[0].lines if "_kind" in line]) == sum(map(len, written))


_KEYS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127, 0, -1],
    "BIGINT": [-(2**63), 2**63 - 1, 0, -1],
    "FLOAT": ["-inf", "-1.5", "0.0", "1e+30", "inf"],
    "DOUBLE": ["-1e+300", "-0.5", "0.25", "inf"],
    "DECIMAL(9, 2)": ["-100.25", "-0.01", "0.00", "99.99"],
    "DECIMAL(30, 5)": ["-100000000000000000000.25000", "-0.00001", "0.00000", "10000000000000000000000.00001"],
    "CHAR(3)": ["", "a", "ab", "b"],
    "STRING": ["", "a", "ab", "\U0001f600", "\uffee", "z" * 40],
    "BYTES": ["", "00", "7f", "80", "ff", "ff00"],
    "DATE": ["0001-01-01", "1969-12-31", "1970-01-01", "9999-12-31"],
    "TIME(3)": ["00:00:00.000000", "12:00:00.001000", "23:59:59.999000"],
    "TIMESTAMP(3)": ["1969-12-31T23:59:58.001000", "1970-01-01T00:00:00.000000", "2026-01-31T00:00:00.999000"],
    "TIMESTAMP(6)": ["1960-01-01T00:00:00.000001", "1970-01-01T00:00:00.000001", "2026-01-31T00:00:00.999999"],
    "TIMESTAMP(9)": ["1960-01-01T00:00:00.000000001", "1970-01-01T00:00:00.000000002", "2026-01-31T00:00:00.000000000"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ["1960-01-01T00:00:00.000001Z", "2026-01-31T00:00:00.999999Z"],
}


@requires_java_oracle
@pytest.mark.java
def test_keys_of_every_type(oracle: Oracle, tmp_path: Path) -> None:
    """Java writes rows, which are read here and written to another table, newer versions twice; then Java compacts."""
    names = {f"t{i}": type_ for i, type_ in enumerate(_KEYS)}
    with oracle.batch() as batch:
        for name, type_ in names.items():
            fields = [
                DataField(0, "v", parse_type("INT")),
                DataField(1, "k", parse_type(type_)),
                DataField(2, "n", parse_type("TINYINT")),
            ]
            for kind in ("source", "target"):
                options = {"bucket": "1", "write-only": "true"}
                batch.create(tmp_path, f"db.{name}_{kind}", fields, primary_keys=["n", "k"], options=options)
            rows = [{"v": v, "k": k, "n": n} for n in (1, -1) for v, k in enumerate(_KEYS[type_])]
            batch.write(tmp_path, f"db.{name}_source", rows)
    for name in names:
        rows = pp.Table.open(tmp_path / "db.db" / f"{name}_source").scan().to_arrow()
        table = pp.Table.open(tmp_path / "db.db" / f"{name}_target")
        table.append(rows.sort_by([("v", "descending")]))
        newer = rows.set_column(0, "v", pa.array([100 + v for v in rows["v"].to_pylist()], pa.int32()))
        table.append(pa.concat_tables([rows, newer]).slice(rows.num_rows // 2))
    with oracle.batch() as batch:
        before = {name: batch.read(tmp_path, f"db.{name}_target") for name in names}
        for name in names:
            batch.compact(tmp_path, f"db.{name}_target")
        after = {name: batch.read(tmp_path, f"db.{name}_target") for name in names}
    for name, type_ in names.items():
        table = pp.Table.open(tmp_path / "db.db" / f"{name}_target")
        found = lines(table.scan().to_arrow())
        assert before[name].lines == after[name].lines == found, type_
        assert len(found) == 2 * len(_KEYS[type_]), type_
        assert '"v":10' in "".join(found), type_


def test_pypaimon_rust_reads_what_is_written_here(tmp_path: Path) -> None:
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="needs pypaimon-rust")
    random = Random(12)
    for name, layout in (("plain", {}), ("thin", {"data-file.thin-mode": "true"}), ("orc", {"file.format": "orc"})):
        options = {"bucket": "2", "write-only": "true", **layout}
        table = pp.Table.create(tmp_path / "db.db" / name, SCHEMA, primary_key=["k"], options=options)
        for _ in range(3):
            table.append(_data(random_rows(random)), options=_OP)
        builder = datafusion.PaimonCatalog({"warehouse": str(tmp_path)}).get_table(f"db.{name}").new_read_builder()
        batches = builder.new_read().read(builder.new_scan().plan().splits())
        found = lines(pa.Table.from_batches(batches).cast(table.arrow_schema))
        assert found == lines(table.scan().to_arrow()), name
