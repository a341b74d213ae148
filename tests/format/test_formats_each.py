"""What holds for the data files of each format: Java's are read, and what can't be written leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import StorageError, UnsupportedError
from paimon_pyds.format import by_name
from paimon_pyds.format.parquet import writer as parquet_writer
from paimon_pyds.storage import open_file_io
from support.data_files import FullDisk, fields_of, read_file, table_of
from support.fixtures import DEV, requires_shared, table_fields, table_path
from support.values import expected_lines, lines

NAMES = ["avro", "orc", "parquet", "row"]


@requires_shared
@pytest.mark.parametrize("name", ["avro", "orc"])
def test_files_of_java(name: str) -> None:
    path = table_path(f"append_{name}")
    found = pa.concat_tables([read_file(p, table_fields(path), batch_rows=7) for p in sorted(path.rglob(f"*.{name}"))])
    assert DEV is not None
    assert lines(found) == expected_lines(DEV / f"append_{name}" / "expected" / "full.jsonl.gz")


@pytest.mark.parametrize("name", NAMES)
def test_abort(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 10)
    io, path = open_file_io(str(tmp_path / f"a.{name}"))
    writer = by_name(name).open_writer(io, path, fields_of("INT"), {})
    writer.write(table_of(fields_of("INT"), range(95)).to_batches()[0])
    writer.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("room", [0, 10, 400, 3_000, 30_000])
@pytest.mark.parametrize("name", NAMES)
def test_full_disk(name: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow's writer of ORC would end the process if it met this error while closing."""
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 1_000)
    disk, fields = FullDisk(room), fields_of("BIGINT")

    def attempt() -> None:
        writer = by_name(name).open_writer(disk, f"x.{name}", fields, {"orc.stripe.size": "1 kb"})  # type: ignore[arg-type]
        try:
            for batch in table_of(fields, np.random.default_rng(0).integers(0, 2**60, 9_000)).to_batches(500):
                writer.write(batch)
        except StorageError:
            writer.abort()
            raise
        writer.close()

    with pytest.raises(StorageError, match="no space left"):
        attempt()
    assert disk.aborted


def test_a_table_of_another_format_is_read_and_not_written(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int64())]))
    table.append({"a": [1]})
    (schema,) = (tmp_path / "t" / "schema").glob("schema-*")
    stored = json.loads(schema.read_text())
    stored["options"]["file.format"] = "lance"
    schema.write_text(json.dumps(stored))
    opened = pp.Table.open(table.path)
    with pytest.raises(UnsupportedError, match="format 'lance' are not supported"):
        opened.append({"a": [2]})
    assert opened.scan().to_arrow()["a"].to_pylist() == [1]
