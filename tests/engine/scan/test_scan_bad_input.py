"""A damaged or missing table gives one clear error, and never wrong rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import (
    CorruptFileError,
    NotFoundError,
    OptionError,
    PaimonError,
    PredicateError,
    SchemaError,
    SnapshotNotFoundError,
    StorageError,
    TableNotFoundError,
    TagNotFoundError,
)
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.copies import copied

_OPTIONS = {"file-index.bitmap.columns": "c", "file-index.in-manifest-threshold": "1b"}


@copied("t")
def table(path: Path) -> pp.Table:
    table = pp.Table.create(path, pa.schema([("id", pa.int64()), ("c", pa.int32())]), options=_OPTIONS)
    for start in (0, 100):
        table.append(pa.table({"id": range(start, start + 100), "c": [i % 7 for i in range(100)]}))
    METADATA_CACHE.clear()
    return table


def _files(table: pp.Table, pattern: str) -> list[Path]:
    return sorted(Path(table.path).rglob(pattern))


@pytest.mark.parametrize(
    "pattern", ["snapshot-2", "manifest-list-*", "manifest-[0-9a-f]*", "*.index", "data-*.parquet", "schema-0"]
)
@pytest.mark.parametrize("damage", ["empty", "half", "flipped", "removed"])
def test_damaged_files(table: pp.Table, pattern: str, damage: str) -> None:
    for file in _files(table, pattern):
        data = file.read_bytes()
        match damage:
            case "empty":
                file.write_bytes(b"")
            case "half":
                file.write_bytes(data[: len(data) // 2])
            case "flipped":
                file.write_bytes(bytes(b ^ 0xFF for b in data))
            case "removed":
                file.unlink()
    if damage == "removed" and pattern == "snapshot-2":
        assert pp.Table.open(table.path).scan("c = 3").to_arrow().num_rows == 14
        return
    with pytest.raises((CorruptFileError, NotFoundError, StorageError)) as raised:
        pp.Table.open(table.path).scan("c = 3").to_arrow()
    assert table.path in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unknown_states(table: pp.Table) -> None:
    with pytest.raises(SnapshotNotFoundError, match="1 to 2"):
        table.scan(snapshot=7)
    with pytest.raises(TagNotFoundError):
        table.scan(tag="v1")
    with pytest.raises(SnapshotNotFoundError):
        table.scan(timestamp=1)
    with pytest.raises(OptionError, match="only one of"):
        table.scan(snapshot=1, tag="v1")
    with pytest.raises(OptionError):
        table.scan(options={"incremental-between": "1"})
    with pytest.raises(OptionError):
        table.scan(limit=-1)


def test_bad_filters_and_columns(table: pp.Table) -> None:
    with pytest.raises(PredicateError, match=r"\^"):
        table.scan("c = = 3")
    with pytest.raises(PredicateError, match="d"):
        table.scan("d = 3")
    with pytest.raises(SchemaError, match="no column 'd'"):
        table.scan(columns=["d"])
    with pytest.raises(SchemaError, match="no column 'd'"):
        table.scan(top_n="d desc, 3")


def test_a_table_that_is_not_there(tmp_path: Path, table: pp.Table) -> None:
    with pytest.raises(TableNotFoundError, match="no Paimon table"):
        pp.Table.open(tmp_path / "nope")
    scan = table.scan("c = 3")
    shutil.rmtree(table.path)
    with pytest.raises((TableNotFoundError, NotFoundError, StorageError)):
        scan.to_arrow()


def test_a_table_deleted_between_plan_and_read(table: pp.Table) -> None:
    scan = table.scan("c = 3")
    scan.plan()
    shutil.rmtree(Path(table.path, "bucket-0"))
    with pytest.raises(PaimonError) as raised:
        scan.to_arrow()
    assert table.path in str(raised.value)
