"""One fault anywhere in a write: the table is as before or as after, the error is one clear one, and nothing is left
lying around when it is known that nothing was published."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.errors import CommitOutcomeUnknownError, PaimonError, StorageError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from support.effort import sampled
from support.faults_io import (
    AFTER,
    BEFORE,
    HALF,
    FaultyIO,
    check_faults_anywhere,
    check_interrupts_anywhere,
    copies,
    fault_points,
    files_under,
    left_behind,
    opened,
    operations_of,
    rows_of_snapshots,
    texts,
)
from support.tiny_disk import mounted

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64()), ("t", pa.timestamp("us"))])
OPTIONS = {
    "file-index.bitmap.columns": "p",
    "file-index.bloom-filter.columns": "id",
    "file-index.bloom-filter.id.items": "100",
    "file-index.in-manifest-threshold": "1 b",
    "manifest.merge-min-count": "2",
    "manifest.full-compaction-threshold-size": "1 b",
}
Write = Callable[[pp.Table], object]


def _rows(start: int, n: int = 10) -> pa.Table:
    ids = list(range(start, start + n))
    values = {"id": ids, "p": [f"p{i % 2}" for i in ids], "v": [i / 2 for i in ids], "t": [i * 10**6 for i in ids]}
    return pa.table(values, SCHEMA)


def _append(table: pp.Table) -> object:
    return table.append(_rows(100))


def _overwrite(table: pp.Table) -> object:
    return table.overwrite(_rows(100), dynamic=True)


def _overwrite_named(table: pp.Table) -> object:
    rows = _rows(100)
    return table.overwrite(rows.filter(pa.compute.equal(rows["p"], "p1")), partition={"p": "p1"})


def _alter(table: pp.Table) -> object:
    return table.alter(add_columns={"w": "INT"})


def _compact(table: pp.Table) -> object:
    return table.compact(full=True, executor=LocalExecutor(1))


WRITES: dict[str, Write] = {
    "append": _append, "overwrite": _overwrite, "overwrite named": _overwrite_named, "alter": _alter,
    "compact": _compact,
}  # fmt: skip


@pytest.fixture
def write(request: pytest.FixtureRequest) -> Write:
    """One kind of write."""
    return WRITES[request.param]


@pytest.fixture
def prepared(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table with two snapshots."""
    path = tmp_path / "prepared"
    options = OPTIONS | {"file.format": request.param}
    table = pp.Table.create(path, SCHEMA, partition_by=["p"], options=options)
    for start in (0, 10):
        table.append(_rows(start))
    return path


def _state(path: Path) -> tuple[object, ...]:
    """All that can be read: every snapshot's rows, and the columns."""
    METADATA_CACHE.clear()
    table = pp.Table.open(path)
    return table.arrow_schema.names, rows_of_snapshots(table), texts(table.scan("p = 'p1'"))


CASES = [("parquet", name) for name in WRITES] + [("orc", "append"), ("avro", "append")]
THREE = [("parquet", "append"), ("parquet", "overwrite"), ("parquet", "compact")]


@pytest.mark.parametrize(
    ("prepared", "write", "mode"),
    [
        pytest.param(*case, mode, marks=() if not at or number == at % 3 else pytest.mark.long)
        for at, case in enumerate(CASES)
        for number, mode in enumerate((BEFORE, AFTER, HALF))
    ],
    indirect=["prepared", "write"],
)
def test_a_fault_anywhere(prepared: Path, tmp_path: Path, write: Write, mode: str) -> None:
    check_faults_anywhere(prepared, tmp_path, write, _state, mode)


@pytest.mark.parametrize("forever", sampled(["down", "full"], 1))
@pytest.mark.parametrize(("prepared", "write"), THREE, indirect=True, ids=map(" ".join, THREE))
def test_a_storage_that_stays_down_or_full(prepared: Path, tmp_path: Path, write: Write, forever: str) -> None:
    """Cleaning up fails too, or not: the first error is the one that is told, and the table is one of its states."""
    path = tmp_path / "t"
    done, old = operations_of(write, prepared, tmp_path / "whole"), _state(prepared)
    new = _state(tmp_path / "whole")
    for at, name in copies(prepared, path, fault_points(done)):
        known = True
        try:
            write(opened(FaultyIO(at, forever=forever), path))
            # Of a hint, of the snapshot that was published, of what may expire now, of files not needed any more.
            assert name in ("replace", "read", "list", "exists", "size", "delete")
            assert _state(path) == new
        except PaimonError as error:
            assert "No space left" in str(error), f"{name} ({at})"
            known = not isinstance(error, CommitOutcomeUnknownError)
        state = _state(path)
        assert state in (old, new), f"{name} ({at})"
        if forever == "full" and state == old and known:
            assert not left_behind(path), f"{name} ({at})"


@pytest.mark.parametrize("mode", sampled([BEFORE, AFTER], 1))
@pytest.mark.parametrize(("prepared", "write"), THREE, indirect=True, ids=map(" ".join, THREE))
def test_an_interrupt_anywhere(prepared: Path, tmp_path: Path, write: Write, mode: str) -> None:
    check_interrupts_anywhere(prepared, tmp_path, write, _state, mode)


@pytest.mark.parametrize("mode", [BEFORE, AFTER])
def test_a_fault_while_a_table_is_made(tmp_path: Path, mode: str) -> None:
    counting = FaultyIO()
    fields = from_arrow_schema(SCHEMA)
    definition = TableDefinition(fields, partition_by=["p"], options=OPTIONS)
    create_table(counting, str(tmp_path / "whole"), definition)
    for at in range(len(counting.done)):
        path = tmp_path / f"t{at}"
        made = True
        try:
            create_table(FaultyIO(at, mode), str(path), definition)
        except PaimonError:
            made = False
        assert files_under(str(path)) == ({"schema/schema-0"} if made else set())


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 384 KiB, where it can be mounted."""
    with mounted(tmp_path, kib=384) as mount:
        yield mount


@pytest.mark.parametrize("options", [{}, {"target-file-size": "64 kb"}], ids=["one file", "many files"])
@pytest.mark.parametrize("format_", sampled(["parquet", "orc", "avro"], 1))
def test_a_disk_that_fills_up(tiny_disk: Path, format_: str, options: dict[str, str]) -> None:
    """In the middle of a data file, or between two; with the index files that belong to them."""
    path = tiny_disk / "t"
    table = pp.Table.create(path, SCHEMA, partition_by=["p"], options=OPTIONS | options | {"file.format": format_})
    table.append(_rows(0))
    old, before = _state(path), files_under(str(path))
    noise = [hashlib.sha256(bytes([i % 256, i // 256])).digest() for i in range(30_000)]
    values = [int.from_bytes(n[:6], "little") for n in noise]
    rows = {"id": values, "p": ["p1"] * len(values), "v": [float(v) for v in values], "t": values}
    for write in (table.append, table.overwrite):
        with pytest.raises(StorageError, match="No space left on device") as raised:
            write(pa.table(rows, SCHEMA))
        assert raised.value.errno == errno.ENOSPC
        assert _state(path) == old
        assert files_under(str(path)) == before
    assert table.append(_rows(100)) is not None
