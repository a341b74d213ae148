"""Tables with a primary key: faults anywhere, a full disk, files that break the order of keys. One clear error, and the
table is as it was."""

from __future__ import annotations

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.engine.write import key_writer, small_key_files
from paimon_pyds.errors import CommitOutcomeUnknownError, CorruptFileError, PaimonError, StorageError
from paimon_pyds.keys.merge.key_values import VALUE_KIND
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.snapshot import CommitKind
from support.effort import sampled
from support.faults_io import (
    AFTER,
    BEFORE,
    HALF,
    HARMLESS,
    FaultyIO,
    copies,
    fault_points,
    files_under,
    left_behind,
    opened,
    operations_of,
    rows_of_snapshots,
)
from support.tiny_disk import mounted

pytestmark = pytest.mark.filterwarnings("ignore:the rows are committed")
_SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), ("t", pa.string())])
_OPTIONS = {
    "bucket": "1",
    "file-index.bitmap.columns": "v",
    "file-index.in-manifest-threshold": "1 b",
    "num-sorted-run.compaction-trigger": "3",
    "target-file-row-num": "6",
    "changelog-producer": "input",
}
_ONE = LocalExecutor(1)


def _rows(*keys: int, value: int = 0) -> pa.Table:
    return pa.table([keys, [value] * len(keys), ["x"] * len(keys)], schema=_SCHEMA)


def _spilled(table: pp.Table) -> object:
    """Rows that take more than the buffer: they go to the local disk, sorted, and come back merged."""
    rows = _rows(*range(10), *range(5), value=7)
    return table.append([rows.slice(at, 3) for at in range(0, 15, 3)], options={"write-buffer-size": "1 b"})


_WRITES: dict[str, Callable[[pp.Table], object]] = {
    "append": lambda table: table.append(_rows(1, 3, 20, value=9)),
    "spilled": _spilled,
    "overwrite": lambda table: table.overwrite(_rows(1, 30, value=9)),
    "minor": lambda table: table.compact(executor=_ONE),
    "full": lambda table: table.compact(full=True, executor=_ONE),
    "delete": lambda table: table.delete("v = 1", executor=_ONE),
    "rescale": lambda table: table.maintenance.rescale(3, executor=_ONE),
    "update": lambda table: table.update({"v": "v + 10"}, "k > 3", executor=_ONE),
}


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A table of a compacted run, and three on level 0."""
    table = pp.Table.create(tmp_path / "prepared", _SCHEMA, primary_key=["k"], options=_OPTIONS)
    table.append(_rows(*range(12)))
    table.compact(full=True, executor=_ONE)
    for value in (1, 2, 3):
        table.append(_rows(*range(value, 12, 3), value=value), options={"write-only": "true"})
    return tmp_path / "prepared"


def _state(path: Path) -> list[list[str]]:
    """The rows of every snapshot, and whether all of their files are there."""
    METADATA_CACHE.clear()
    return rows_of_snapshots(pp.Table.open(path))


def _tried(write: Callable[[pp.Table], object], io: FaultyIO, path: Path) -> bool | None:
    """Whether it wrote; None when it can't tell."""
    try:
        write(opened(io, path))
    except CommitOutcomeUnknownError:
        return None
    except PaimonError as error:
        assert "\n" not in str(error)
        return False
    return True


@pytest.mark.parametrize(("name", "mode"), sampled(product(_WRITES, [BEFORE, AFTER, HALF]), 1))
def test_a_fault_anywhere(prepared: Path, tmp_path: Path, name: str, mode: str) -> None:
    """What was published stays, be it the write or a compaction after it; else nothing lies around."""
    write, old = _WRITES[name], _state(prepared)
    done, path = operations_of(write, prepared, tmp_path / "whole"), tmp_path / "t"
    new = _state(tmp_path / "whole")
    assert len(new) > len(old)
    for at, operation in copies(prepared, path, fault_points(done)):
        if mode != BEFORE and operation in HARMLESS:
            continue
        wrote = _tried(write, FaultyIO(at, mode), path)
        state = _state(path)
        assert state == new[: len(state)], f"{operation} ({at})"
        assert wrote is not True or len(state) > len(old), f"{operation} ({at})"
        if state == old:
            assert wrote is not True, f"{operation} ({at})"
            assert wrote is None or not left_behind(path), f"{operation} ({at})"
            write(pp.Table.open(path))
            assert _state(path) == new


@pytest.mark.parametrize(("name", "forever"), sampled(product(["spilled", "minor", "full"], ["down", "full"]), 1))
def test_a_storage_that_stays_down_or_full(prepared: Path, tmp_path: Path, name: str, forever: str) -> None:
    write, old = _WRITES[name], _state(prepared)
    done, path = operations_of(write, prepared, tmp_path / "whole"), tmp_path / "t"
    new = _state(tmp_path / "whole")
    for at, operation in copies(prepared, path, fault_points(done)):
        wrote = _tried(write, FaultyIO(at, forever=forever), path)
        state = _state(path)
        assert len(old) <= len(state), f"{operation} ({at})"
        assert state == new[: len(state)], f"{operation} ({at})"
        if forever == "full" and state == old and wrote is not None:
            assert not left_behind(path), f"{operation} ({at})"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB, where it can be mounted."""
    with mounted(tmp_path, kib=512) as mount:
        yield mount


def _noise(count: int, start: int = 0) -> pa.Table:
    """Rows of which no one can make less than 64 bytes each."""
    texts = [hashlib.sha512(i.to_bytes(8, "big")).hexdigest() for i in range(start, start + count)]
    return pa.table([range(count), [start] * count, texts], schema=_SCHEMA)


@pytest.mark.parametrize("options", sampled([{}, {"target-file-size": "16 kb"}], 1), ids=str)
def test_a_disk_that_fills_up(tiny_disk: Path, options: dict[str, str]) -> None:
    """In a write, and in a compaction: that needs as much room as what it merges."""
    path = tiny_disk / "t"
    own = {**_OPTIONS, **options, "target-file-row-num": "1000000", "write-only": "true"}
    table = pp.Table.create(path, _SCHEMA, primary_key=["k"], options=own)
    for start in (0, 1):
        table.append(_noise(1_000, start), options={"changelog-producer": "none"})
    old, before = _state(path), files_under(str(path))
    works: list[Callable[[], Any]] = [
        lambda: table.append(_noise(8_000)),
        lambda: table.overwrite(_noise(8_000)),
        lambda: table.append(_noise(8_000), options={"write-buffer-size": "64 kb"}),
    ]
    filler = tiny_disk / "filler"
    for work in [*works, lambda: table.compact(full=True)]:
        if work not in works:
            filler.write_bytes(b"\1" * max(0, _free(tiny_disk) - (40 << 10)))
        with pytest.raises(StorageError, match="No space left on device") as raised:
            work()
        assert raised.value.errno == errno.ENOSPC
        assert _state(path) == old
        assert files_under(str(path)) == before
    filler.unlink()
    assert table.compact(full=True).snapshot_id is not None
    assert _state(path)[-1] == old[-1]


def _free(path: Path) -> int:
    return shutil.disk_usage(path).free


# ------------------------------------------------------------------------------------------- files that break the order


class _Unordered(RowMerger):
    """What a writer does who knows nothing of sorted runs."""

    picks = (0, 1, 2)

    def merge(self, rows: pa.Table | pa.RecordBatch, columns: Any = None) -> pa.RecordBatch:
        return super().merge(rows, columns).take(pa.array(self.picks))


def _refuse(table: pp.Table, message: str) -> None:
    """Every way to read the rows, and to write them again, ends in one error; the table stays as it is."""
    files = files_under(table.path)
    works: dict[str, Callable[[], Any]] = {
        "scan": lambda: table.scan().to_arrow(),
        "filter": lambda: table.scan("v >= 0").to_arrow(),
        "count": table.count,
        "top": lambda: table.top_n("v, 1"),
        "compact": lambda: table.compact(full=True),
        "delete": lambda: table.delete("v >= 0"),
    }
    for name, work in works.items():
        with pytest.raises(CorruptFileError, match=message) as raised:
            pytest.fail(f"{name} gave {work()}")
        assert str(raised.value).count("\n") == 0
        assert "_KEY_" not in str(raised.value)
        assert files_under(table.path) == files


@pytest.mark.parametrize(("picks", "message"), [((2, 0, 1), "not sorted by its keys"), ((0, 1, 1), "a key twice")])
def test_files_that_are_no_sorted_runs(
    prepared: Path, monkeypatch: pytest.MonkeyPatch, picks: tuple[int, ...], message: str
) -> None:
    table = pp.Table.open(prepared)
    with monkeypatch.context() as patch:
        patch.setattr(_Unordered, "picks", picks)
        for writer in (key_writer, small_key_files):
            patch.setattr(writer, "RowMerger", _Unordered)
        table.append(_rows(2, 4, 6, value=1), options={"write-only": "true", "changelog-producer": "none"})
    _refuse(table, message)


class _OfNoKind(RowMerger):
    """A writer that has another row kind."""

    def merge(self, rows: pa.Table | pa.RecordBatch, columns: Any = None) -> pa.RecordBatch:
        merged = super().merge(rows, columns)
        at = merged.schema.get_field_index(VALUE_KIND)
        kinds = pa.array([0, 9, 0][: merged.num_rows], pa.int8())
        return merged.set_column(at, merged.schema.field(at), kinds)


def test_row_kinds_that_are_none(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pp.Table.open(prepared)
    with monkeypatch.context() as patch:
        for writer in (key_writer, small_key_files):
            patch.setattr(writer, "RowMerger", _OfNoKind)
        table.append(_rows(2, 4, 6, value=1), options={"write-only": "true", "changelog-producer": "none"})
    _refuse(table, "invalid row kind")


def test_a_level_that_overlaps(prepared: Path) -> None:
    table = pp.Table.open(prepared)
    entries = live_of(table._store, table.snapshots.latest())
    entries = entries.filter(pc.equal(entries["level"], 0))
    at = entries.schema.get_field_index("level")
    lifted = entries.set_column(at, entries.schema.field(at), pa.array([2] * entries.num_rows, pa.int32()))
    change = Increment(kind=CommitKind.COMPACT, deleted=entries, replacements=lifted)
    assert commit(table._store, Changes([change]), TableOptions(table.options))
    _refuse(table, "not sorted by its keys|a key twice")
