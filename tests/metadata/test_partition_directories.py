"""Partitions of floats that Java before 19 and later ones spell differently: files are found, and written, where they
are. A table as Java leaves it is made by a directory that is there before the first row, or that is renamed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.row import encode_row
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from paimon_pyds.storage import FileStatus
from support.live_files import table_files
from support.memory_io import MemoryIO

OLD, NEW = "f=1.10000005E10", "f=1.1E10"
VALUE = 11_000_000_512.0
"""1.1E10 as a FLOAT."""
TABLES = {
    "append": ((), {"bucket": "-1"}),
    "vectors": ((), {"deletion-vectors.enabled": "true", "index-file-in-data-file-dir": "true"}),
    "key": (("f", "id"), {"bucket": "2"}),
    "dynamic": (("f", "id"), {"bucket": "-1", "deletion-vectors.enabled": "true"}),
    "evolution": ((), {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}),
}


class _Noting(MemoryIO):
    """Notes the directories that are listed."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.listed: list[str] = []

    def list(self, path: str) -> list[FileStatus]:
        self.listed.append(path)
        return super().list(path)


def _table(files: dict[str, bytes], kind: str = "append", **types: str) -> pp.Table:
    key, options = TABLES[kind]
    columns = types or {"f": "FLOAT NOT NULL", "id": "INT NOT NULL", "v": "STRING"}
    fields = [DataField(number, name, parse_type(text)) for number, (name, text) in enumerate(columns.items())]
    definition = TableDefinition(fields, key, [name for name in columns if name in "fg"], options)
    return pp.Table(create_table(MemoryIO(files), "/t", definition))


def _opened(files: dict[str, bytes]) -> pp.Table:
    METADATA_CACHE.clear()
    return pp.Table(TableStore(MemoryIO(files), "/t"))


def _rows(ids: Sequence[int], value: float = VALUE) -> pa.Table:
    columns = {"f": pa.array([value] * len(ids), pa.float32()), "id": pa.array(ids, pa.int32())}
    return pa.table(columns | {"v": [f"v{i}" for i in ids]})


def _made(files: dict[str, bytes], kind: str = "append", directory: str = OLD) -> pp.Table:
    """A table with six rows, three of them in the partition in question."""
    table = _table(files, kind)
    table.append(_rows([1, 2, 3], 0.5))
    files[f"/t/{directory}/bucket-0/.there"] = b""
    table.append(_rows([4, 5, 6]))
    del files[f"/t/{directory}/bucket-0/.there"]
    return _opened(files)


def _ids(table: pp.Table, where: str | None = None) -> list[int]:
    return sorted(table.scan(where).to_arrow()["id"].to_pylist())


def _directories(files: dict[str, bytes]) -> set[str]:
    return {name.split("/")[2] for name in files if name.startswith("/t/f=")}


@pytest.mark.parametrize("directory", [OLD, NEW])
@pytest.mark.parametrize("kind", TABLES)
def test_rows_are_read_and_changed_where_they_are(kind: str, directory: str) -> None:
    files: dict[str, bytes] = {}
    table = _made(files, kind, directory)
    assert _directories(files) == {directory, "f=0.5"}
    assert _ids(table) == [1, 2, 3, 4, 5, 6] and _ids(table, f"f = {VALUE}") == [4, 5, 6]
    table.append(_rows([7, 8]))
    if kind != "evolution":
        table.delete("id IN (2, 5)")
    else:
        table.update({"v": "'new'"}, "id IN (2, 5)")
    table.update({"v": "'w'"}, "id = 4")
    table.compact(full=True)
    table = _opened(files)
    left = [1, 2, 3, 4, 5, 6, 7, 8] if kind == "evolution" else [1, 3, 4, 6, 7, 8]
    assert _ids(table) == left and table.count("v = 'w'") == 1
    assert not table.maintenance.verify(deep=True).findings
    assert not table.maintenance.remove_orphan_files(timedelta(0)).files.num_rows
    assert set(table_files(table._store)) <= set(files)
    table.snapshots.expire(retain_max=1, retain_min=1)
    assert _ids(_opened(files)) == left and _directories(files) == {directory, "f=0.5"}
    live = {path for path in table_files(table._store) if "/bucket-" in path}
    assert {name for name in files if "/bucket-" in name} == live  # expiry took the others


@pytest.mark.parametrize("kind", TABLES)
def test_files_in_directories_of_both_names_are_found_and_no_more_are_written(kind: str) -> None:
    files: dict[str, bytes] = {}
    table = _made(files, kind)
    table.append(_rows([9]))
    newest = [path for path in files if f"/{OLD}/" in path][-1]
    files[newest.replace(OLD, NEW)] = files.pop(newest)
    table = _opened(files)
    assert _ids(table) == [1, 2, 3, 4, 5, 6, 9]
    for change in (lambda: table.append(_rows([7])), lambda: table.compact(full=True)):
        with pytest.raises(UnsupportedError, match="names, and the table has both"):
            change()
    assert _ids(_opened(files)) == [1, 2, 3, 4, 5, 6, 9]


def test_a_new_partition_is_refused_also_where_names_are_alike() -> None:
    files = {"/t/f=1.10000005E10x/bucket-0/a": b"", "/t/f=11000000000/bucket-0/a": b"", "/t/f=1.2E10/bucket-0/a": b""}
    table = _table(files)
    with pytest.raises(UnsupportedError, match="names, and the table has neither"):
        table.append(_rows([1]))
    table.append(_rows([1], 1e10))
    assert _ids(table) == [1]


def test_directories_are_listed_for_such_values_only_and_once() -> None:
    files: dict[str, bytes] = {}
    _made(files)
    io = _Noting(files)
    METADATA_CACHE.clear()
    table = pp.Table(TableStore(io, "/t"))
    table.scan("id < 3").to_arrow()
    before = list(io.listed)
    assert "/t" not in before
    table.append(_rows([10], 0.25))
    assert "/t" not in io.listed
    for _ in range(3):
        table.append(_rows([11]))
    io.listed.clear()
    assert _ids(table, "id > 3") == [4, 5, 6, 10, 11, 11, 11]
    assert io.listed.count("/t") == 1 and not any("/bucket-" in path for path in io.listed)


def test_each_of_several_columns_is_looked_for() -> None:
    files: dict[str, bytes] = {}
    table = _table(files, f="DOUBLE", g="FLOAT", id="INT")
    double, single = 2.0**57 + 2**20, 7.3866076e25
    inner = "f=1.44115188076904448E17/g=7.3866077E25/bucket-0"  # both as Java 17 spells them
    files[f"/t/{inner}/.there"] = b""
    rows = pa.table({"f": [double], "g": pa.array([single], pa.float32()), "id": pa.array([1], pa.int32())})
    table.append(rows)
    assert [name for name in files if name.startswith(f"/t/{inner}/data-")]
    assert _ids(_opened(files)) == [1]
    more = pa.table({"f": [double], "g": pa.array([0.5], pa.float32()), "id": pa.array([2], pa.int32())})
    with pytest.raises(UnsupportedError, match="the table has neither"):
        table.append(more)


def test_partitions_are_dropped_and_marked_in_their_directory() -> None:
    files: dict[str, bytes] = {}
    table = _made(files)
    assert table.maintenance.mark_partitions_done({"f": VALUE}) == (OLD,)
    assert f"/t/{OLD}/_SUCCESS" in files and _directories(files) == {OLD, "f=0.5"}
    found = table.snapshots.diff(1, 2).files
    assert set(found["partition"].to_pylist()) == {OLD}
    assert table.maintenance.drop_partitions({"f": VALUE}).partitions == (OLD,)
    assert _ids(_opened(files)) == [1, 2, 3]


def test_names_are_those_of_the_directory() -> None:
    files: dict[str, bytes] = {}
    table = _made(files)
    store = table._store
    found = PartitionDirectories(store.io, store.latest_schema(), store.paths)
    types = [field.type for field in store.latest_schema().partition_fields]
    assert found.names(encode_row([VALUE], types)) == {"f": "1.10000005E10"}
    assert found.names(encode_row([0.5], types)) == {"f": "0.5"}


def test_migrations_do_not_make_such_partitions(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "s" / "f=1.1E10").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "s" / "f=1.1E10" / "a.parquet")
    with pytest.raises(UnsupportedError, match="directories of different names"):
        pp.migrate(tmp_path / "s", tmp_path / "t", partition_by={"f": "float"})
    assert not (tmp_path / "t").exists()
