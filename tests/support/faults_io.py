"""A FileIO that fails at the k-th thing asked of it, or from there on: before the effect, after it, or half way."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CommitOutcomeUnknownError, PaimonError, StorageError
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.scan import Scan
from paimon_pyds.storage import FileIO, FileStatus, OutputFile
from paimon_pyds.storage.local import LocalFileIO
from support.effort import sampled
from support.live_files import table_files
from support.maintenance import files_there

BEFORE, AFTER, HALF, DOWN = "before", "after", "half", "down"
HARMLESS = frozenset({"read", "open", "input", "size", "exists", "list"})
"""What leaves nothing behind, however it fails."""


def fault_points(done: Sequence[str]) -> list[tuple[int, str]]:
    """Where the operations fail, with their names: before and after each that publishes, and at a sample of the others;
    all of them in long runs."""
    publishing = {at + i for at, name in enumerate(done) if name == "create_if_absent" for i in (0, 1)}
    chosen = publishing.union(sampled(range(len(done)), 3))
    return [(at, name) for at, name in enumerate(done) if at in chosen]


def opened(io: FileIO, path: Path) -> pp.Table:
    """A table through this FileIO, nothing of which is in memory."""
    METADATA_CACHE.clear()
    OPEN_INDEXES.clear()
    return pp.Table(TableStore(io, str(path)))


def operations_of(change: Callable[[pp.Table], object], prepared: Path, path: Path) -> list[str]:
    """Make a change in a copy of a table without any fault; the names of the operations on storage that it took."""
    change(opened(counting := FaultyIO(), Path(shutil.copytree(prepared, path))))
    return counting.done


def copies(prepared: Path, path: Path, points: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """A copy of a table at ``path`` for each of some places where an operation fails."""
    for at, name in points:
        shutil.copytree(prepared, path)
        yield at, name
        shutil.rmtree(path)


def check_faults_anywhere(
    prepared: Path, directory: Path, change: Callable[[pp.Table], object], state: Callable[[Path], object], mode: str
) -> None:
    """A change that fails leaves the table as before or as after, and nothing else where it was not published; the
    same object goes on as if nothing had been."""
    whole, path = directory / "whole", directory / "t"
    done, old, new = operations_of(change, prepared, whole), state(prepared), state(whole)
    assert old != new
    assert not left_behind(whole)
    for at, name in copies(prepared, path, fault_points(done)):
        if mode != BEFORE and name in HARMLESS:
            continue
        table, allowed = opened(io := FaultyIO(at, mode), path), (new,)
        try:
            change(table)
        except PaimonError as error:
            assert "\n" not in str(error), io.failed
            allowed = (old, new) if isinstance(error, CommitOutcomeUnknownError) else (old,)
        assert io.failed == name
        found = state(path)
        assert found in allowed, f"{name} ({at})"
        if found == old:
            assert not left_behind(path), f"{name} ({at})"
            change(table)
        assert state(path) == new


def check_interrupts_anywhere(
    prepared: Path, directory: Path, change: Callable[[pp.Table], object], state: Callable[[Path], object], mode: str
) -> None:
    """Ctrl-C in a notebook: what was published a moment before stays whole."""
    whole, path = directory / "whole", directory / "t"
    done, old, new = operations_of(change, prepared, whole), state(prepared), state(whole)
    published = False
    for at, name in copies(prepared, path, fault_points(done)):
        with pytest.raises(KeyboardInterrupt):
            change(opened(FaultyIO(at, mode, lambda _: KeyboardInterrupt()), path))
        found = state(path)
        published |= found == new
        assert found in (old, new), f"{name} ({at})"
    assert published


def full_disk(operation: str = "") -> BaseException:
    """What a FileIO raises when there is no space."""
    error = StorageError("can't write: No space left on device", path="/somewhere", hint="free some space")
    error.errno = errno.ENOSPC
    return error


class FaultyIO:
    """Local files, or those of another FileIO; operation ``at`` (from 0) fails, and with ``forever`` all that come
    after it: ``"down"`` every one, as in the mode `DOWN` (all that a killed process does), ``"full"`` those that write.

    Attributes:
        done: the names of the operations so far.
        failed: the name of the operation that failed, None before.
    """

    def __init__(
        self,
        at: int | None = None,
        mode: str = BEFORE,
        error: Callable[[str], BaseException] = full_disk,
        forever: str | None = None,
        io: FileIO | None = None,
    ) -> None:
        self._io = io or LocalFileIO()
        self._at = at
        self._mode = mode
        self._error = error
        self._forever = DOWN if mode == DOWN else forever
        self.done: list[str] = []
        self.failed: str | None = None

    def _do(self, name: str, effect: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        number = len(self.done)
        self.done.append(name)
        if not self._fails(number, name):
            return effect()
        self.failed = self.failed or name
        if self._mode == AFTER:
            with suppress(FileNotFoundError):  # this answer is lost, too
                effect()
        elif self._mode == HALF and half is not None:
            half()
        raise self._error(name)

    def _fails(self, number: int, name: str) -> bool:
        if self._at is None or number < self._at:
            return False
        if number == self._at or self._forever == "down":
            return True
        return self._forever == "full" and name not in HARMLESS | {"delete"}

    def read_bytes(self, path: str) -> bytes:
        return self._do("read", lambda: self._io.read_bytes(path))  # type: ignore[no-any-return]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._do("read", lambda: self._io.read_range(path, offset, length))  # type: ignore[no-any-return]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._do("read", lambda: self._io.read_ranges(path, ranges))  # type: ignore[no-any-return]

    def open_input(self, path: str) -> pa.NativeFile:
        return self._do("open", lambda: pa.PythonFile(_FaultyInput(self, self._io.open_input(path)), mode="r"))

    def open_output(self, path: str) -> OutputFile:
        made: OutputFile = self._do("create", lambda: self._io.open_output(path))
        return _FaultyOutput(self, made)

    def size(self, path: str) -> int:
        return self._do("size", lambda: self._io.size(path))  # type: ignore[no-any-return]

    def exists(self, path: str) -> bool:
        return self._do("exists", lambda: self._io.exists(path))  # type: ignore[no-any-return]

    def list(self, path: str) -> list[FileStatus]:
        return self._do("list", lambda: self._io.list(path))  # type: ignore[no-any-return]

    def make_dir(self, path: str) -> None:
        self._do("make_dir", lambda: self._io.make_dir(path))

    def create_if_absent(self, path: str, data: bytes) -> bool:
        return self._do("create_if_absent", lambda: self._io.create_if_absent(path, data))  # type: ignore[no-any-return]

    def write_bytes(self, path: str, data: bytes) -> None:
        self._do(
            "write",
            lambda: self._io.write_bytes(path, data),
            lambda: self._io.write_bytes(path, data[: len(data) // 2]),
        )

    def replace(self, path: str, data: bytes) -> None:
        self._do("replace", lambda: self._io.replace(path, data))

    def delete(self, paths: Iterable[str]) -> None:
        listed = list(paths)
        self._do("delete", lambda: self._io.delete(listed), lambda: self._io.delete(listed[: len(listed) // 2]))

    def delete_tree(self, path: str) -> None:
        def half() -> None:
            files = sorted(str(file) for file in Path(path).rglob("*") if file.is_file())
            self._io.delete(files[: len(files) // 2])

        self._do("delete_tree", lambda: self._io.delete_tree(path), half)

    def remove_empty_dir(self, path: str) -> bool:
        return self._do("remove_empty_dir", lambda: self._io.remove_empty_dir(path))  # type: ignore[no-any-return]

    def rename(self, source: str, target: str) -> None:
        self._do("rename", lambda: self._io.rename(source, target))


class _FaultyOutput:
    def __init__(self, io: FaultyIO, output: OutputFile) -> None:
        self._io = io
        self._output = output
        self._sink = _FaultySink(io, output.sink)

    @property
    def sink(self) -> BinaryIO:
        return self._sink  # type: ignore[return-value]

    def tell(self) -> int:
        return self._output.tell()

    def close(self) -> int:
        return self._io._do("close", self._output.close)  # type: ignore[no-any-return]

    def abort(self) -> None:
        self._output.abort()


class _FaultySink:
    def __init__(self, io: FaultyIO, sink: BinaryIO) -> None:
        self._io = io
        self._sink = sink

    def write(self, data: Any) -> int:
        whole = bytes(data)
        half = whole[: len(whole) // 2]
        return self._io._do("sink", lambda: self._sink.write(whole), lambda: self._sink.write(half))  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)


class _FaultyInput:
    """What pyarrow reads a file through; each read may fail."""

    def __init__(self, io: FaultyIO, file: pa.NativeFile) -> None:
        self._io = io
        self._file = file

    def read(self, size: int = -1) -> bytes:
        return self._io._do("input", lambda: self._file.read(None if size < 0 else size))  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def files_under(path: str) -> set[str]:
    """Every file below a directory, relative to it."""
    return {os.path.relpath(os.path.join(d, f), path) for d, _, names in os.walk(path) for f in names}


def left_behind(path: Path) -> set[str]:
    """The files that no state of the table needs."""
    return files_there(path) - set(table_files(pp.Table.open(path)._store))


def rows_of_snapshots(table: pp.Table) -> list[list[str]]:
    """What each snapshot holds; their numbers have no gap."""
    snapshots = table.snapshots.list()
    assert [s.id for s in snapshots] == list(range(1, len(snapshots) + 1))
    return [texts(table.scan(snapshot=s.id)) for s in snapshots]


def texts(scan: Scan) -> list[str]:
    """The rows of a scan, comparable, in an order of their own."""
    return sorted(map(str, scan.to_arrow().to_pylist()))
