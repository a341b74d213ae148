from __future__ import annotations

import ctypes
import errno
import itertools
import os
import pickle
import signal
import stat
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds import storage
from paimon_pyds.errors import AlreadyExistsError, CorruptFileError, StorageError
from paimon_pyds.storage import FileIO, local_writes, read_coalesced
from paimon_pyds.storage import local as local_module
from paimon_pyds.storage.byte_source import FileSource
from paimon_pyds.storage.local import LocalFileIO

IO = LocalFileIO()


def test_it_is_a_file_io_and_pickles() -> None:
    assert isinstance(IO, FileIO)
    assert pickle.loads(pickle.dumps(IO)) == IO


def test_read_and_size(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    Path(path).write_bytes(b"0123456789")
    assert IO.read_bytes(path) == b"0123456789"
    assert IO.read_range(path, 3, 4) == b"3456"
    assert IO.read_range(path, 10, 0) == b""
    assert IO.size(path) == 10
    assert IO.exists(path) and IO.exists(str(tmp_path))
    with IO.open_input(path) as file:
        file.seek(8)
        assert file.read() == b"89"
    source = FileSource(IO, path)
    assert source.size == 10 and source.read(0, 2) == b"01" and source.bytes_read == 2


@pytest.mark.parametrize(("offset", "length"), [(5, 6), (11, 0), (-1, 2), (0, -1), (0, 1 << 62), (1 << 62, 1)])
def test_ranges_outside_the_file_are_corruption(tmp_path: Path, offset: int, length: int) -> None:
    path = str(tmp_path / "f")
    Path(path).write_bytes(b"0123456789")
    with pytest.raises(CorruptFileError, match="the file has 10"):
        IO.read_range(path, offset, length)
    with pytest.raises(CorruptFileError):
        IO.read_ranges(path, [(0, 1), (offset, length)])


@pytest.mark.parametrize("others_read", [True, False])
def test_very_many_ranges_wait_for_their_turn_but_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others_read: bool
) -> None:
    path, data = str(tmp_path / "f"), os.urandom(1 << 20)
    Path(path).write_bytes(data)
    ranges = [(start, 100) for start in range(0, 1 << 20, 1 << 13)]
    turns, seen, pread = local_module._turns(), set[bool](), os.pread
    monkeypatch.setattr(os, "pread", lambda *a: (seen.add(turns.locked()), pread(*a))[1])
    with turns if others_read else nullcontext():
        assert IO.read_ranges(path, ranges) == [data[start : start + size] for start, size in ranges]
        assert turns.locked() is others_read
    assert seen == {True}


def test_missing_files_are_told_as_such(tmp_path: Path) -> None:
    for missing in (str(tmp_path / "no"), str(tmp_path / "file" / "below")):
        (tmp_path / "file").touch()
        for call in (
            lambda m=missing: IO.read_bytes(m),
            lambda m=missing: IO.read_range(m, 0, 1),
            lambda m=missing: IO.read_ranges(m, [(0, 1)]),
            lambda m=missing: IO.size(m),
            lambda m=missing: IO.open_input(m),
        ):
            with pytest.raises(FileNotFoundError):
                call()
        assert not IO.exists(missing)
        assert IO.list(missing) == []
        IO.delete([missing])
        IO.delete_tree(missing)


def test_reading_a_directory_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="can't read"):
        IO.read_bytes(str(tmp_path))


@given(
    data=st.binary(min_size=1, max_size=300),
    picks=st.lists(st.tuples(st.integers(0, 299), st.integers(0, 60)), max_size=12),
    gap=st.integers(0, 64),
    max_request=st.integers(1, 300),
)
def test_coalesced_ranges_are_the_ranges(data: bytes, picks: list[tuple[int, int]], gap: int, max_request: int) -> None:
    ranges = [(min(o, len(data)), min(n, len(data) - min(o, len(data)))) for o, n in picks]
    requests: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        requests.append((offset, length))
        assert offset >= 0 and offset + length <= len(data)
        return data[offset : offset + length]

    assert read_coalesced(read, ranges, gap, max_request) == [data[o : o + n] for o, n in ranges]
    longest = max((n for _, n in ranges), default=0)
    assert all(n <= max(max_request, longest) for _, n in requests)
    assert len(requests) <= max(1, len(ranges))
    one_by_one, requests = requests, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "MANY_RANGES", 0)
        assert read_coalesced(read, ranges, gap, max_request) == [data[o : o + n] for o, n in ranges]
    assert sorted(requests) == sorted(one_by_one)


def test_near_ranges_are_one_request() -> None:
    requests = []

    def read(offset: int, length: int) -> bytes:
        requests.append((offset, length))
        return bytes(length)

    read_coalesced(read, [(100, 10), (0, 10), (20, 10)], gap=10, max_request=1000)
    assert requests == [(0, 30), (100, 10)]


def test_list_is_by_name_and_skips_what_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).write_bytes(b"xy")
    (tmp_path / "d").mkdir()
    entries = IO.list(str(tmp_path))
    assert [(e.name, e.size, e.is_dir) for e in entries] == [
        ("a", 2, False),
        ("b", 2, False),
        ("c", 2, False),
        ("d", 0, True),
    ]
    assert entries[0].path == str(tmp_path / "a") and entries[0].modified_ms > 1_600_000_000_000
    original = local_module._status

    def vanishing(entry: os.DirEntry[str]) -> Any:
        if entry.name == "b":
            raise FileNotFoundError
        return original(entry)

    monkeypatch.setattr(local_module, "_status", vanishing)
    assert [e.name for e in IO.list(str(tmp_path))] == ["a", "c", "d"]


def test_write_bytes_makes_directories_and_refuses_to_replace(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b" / "f")
    IO.write_bytes(path, b"one")
    with pytest.raises(StorageError, match="exists"):
        IO.write_bytes(path, b"two")
    assert IO.read_bytes(path) == b"one"


def test_replace_is_atomic_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "hint")
    IO.replace(path, b"1")
    IO.replace(path, b"22")
    assert IO.read_bytes(path) == b"22"
    monkeypatch.setattr(os, "replace", _raising(errno.EACCES))
    with pytest.raises(StorageError, match="permissions"):
        IO.replace(path, b"3")
    assert IO.read_bytes(path) == b"22" and os.listdir(tmp_path) == ["hint"]


def test_files_get_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        IO.create_if_absent(str(tmp_path / "s"), b"x")
        IO.write_bytes(str(tmp_path / "w"), b"x")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(os.stat(tmp_path / n).st_mode) for n in ("s", "w")} == {0o644}


def test_output_file(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "f.parquet")
    output = IO.open_output(path)
    table = pa.table({"a": range(1000)})
    with pq.ParquetWriter(output.sink, table.schema) as writer:
        writer.write_table(table)
    assert output.tell() > 0
    size = output.close()
    assert size == os.path.getsize(path) == output.close() == output.tell()
    assert pq.read_table(path).equals(table)
    with pytest.raises(StorageError, match="exists"):
        IO.open_output(path)


def test_aborted_output_is_gone_and_abort_never_raises(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    output = IO.open_output(path)
    output.sink.write(b"x" * 3_000_000)
    output.abort()
    output.abort()
    assert os.listdir(tmp_path) == []
    late = IO.open_output(path)
    os.unlink(path)
    late.abort()


def test_delete_tree_and_rename(tmp_path: Path) -> None:
    (tmp_path / "t" / "x").mkdir(parents=True)
    (tmp_path / "t" / "x" / "f").touch()
    (tmp_path / "other").mkdir()
    with pytest.raises(AlreadyExistsError):
        IO.rename(str(tmp_path / "t"), str(tmp_path / "other"))
    IO.rename(str(tmp_path / "t"), str(tmp_path / "u"))
    with pytest.raises(FileNotFoundError):
        IO.rename(str(tmp_path / "t"), str(tmp_path / "v"))
    assert IO.exists(str(tmp_path / "u" / "x" / "f"))
    IO.delete_tree(str(tmp_path / "u"))
    assert not IO.exists(str(tmp_path / "u"))
    IO.make_dir(str(tmp_path / "m" / "n"))
    IO.make_dir(str(tmp_path / "m" / "n"))
    assert IO.list(str(tmp_path / "m"))[0].is_dir


def test_rename_without_the_system_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_writes, "rename_noreplace", lambda source, target: False)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(AlreadyExistsError):
        IO.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    IO.rename(str(tmp_path / "a"), str(tmp_path / "c"))
    assert IO.exists(str(tmp_path / "c"))


# ------------------------------------------------------------------------------------------------------- publishing


def _raising(code: int) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def _without_links(monkeypatch: pytest.MonkeyPatch, *, rename: bool) -> None:
    monkeypatch.setattr(os, "link", _raising(errno.EPERM))
    if not rename:
        _without_renameat2(monkeypatch, errno.ENOTSUP)


def _without_renameat2(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> int:
        ctypes.set_errno(code)
        return -1

    monkeypatch.setattr(local_writes, "_libc", lambda: SimpleNamespace(renameat2=refuse))


@pytest.mark.parametrize("kind", ["links", "renameat2", "lock"])
def test_create_if_absent_publishes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    if kind != "links":
        _without_links(monkeypatch, rename=kind == "renameat2")
    path = str(tmp_path / "snapshot" / "snapshot-1")
    assert IO.create_if_absent(path, b"first")
    assert not IO.create_if_absent(path, b"second")
    assert IO.read_bytes(path) == b"first"
    assert os.listdir(tmp_path / "snapshot") == ["snapshot-1"]


@pytest.mark.parametrize("kind", ["links", "renameat2", "lock"])
def test_a_rival_between_look_and_leap_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The target appears after the first look: the atomic step itself has to notice."""
    if kind != "links":
        _without_links(monkeypatch, rename=kind == "renameat2")
    path = str(tmp_path / "s")
    Path(path).write_bytes(b"rival")
    monkeypatch.setattr(os.path, "lexists", lambda p: False)
    assert not IO.create_if_absent(path, b"ours")
    assert IO.read_bytes(path) == b"rival" and os.listdir(tmp_path) == ["s"]


@pytest.mark.parametrize("kind", ["renameat2", "lock"])
def test_a_rename_of_a_file_replaces_none_that_came_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    _without_links(monkeypatch, rename=kind == "renameat2")
    source, target = tmp_path / "tag-a", tmp_path / "tag-b"
    source.write_bytes(b"ours")
    target.write_bytes(b"rival")
    monkeypatch.setattr(os.path, "lexists", lambda p: False)
    with pytest.raises(AlreadyExistsError):
        IO.rename(str(source), str(target))
    assert target.read_bytes() == b"rival" and sorted(os.listdir(tmp_path)) == ["tag-a", "tag-b"]


@pytest.mark.parametrize("rename", [errno.EPERM, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS])
@pytest.mark.parametrize("link", [errno.EPERM, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS])
def test_without_links_and_renameat2_whole_files_get_their_names_under_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: int, rename: int
) -> None:
    monkeypatch.setattr(os, "link", _raising(link))
    _without_renameat2(monkeypatch, rename)
    path, real, seen = str(tmp_path / "s"), os.rename, []

    def watched(source: str, target: str) -> None:
        seen.append((sorted(os.listdir(tmp_path)), Path(source).read_bytes()))
        real(source, target)

    monkeypatch.setattr(os, "rename", watched)
    assert IO.create_if_absent(path, b"x" * 100_000)
    ((names, content),) = seen
    assert content == b"x" * 100_000 and ".s.lock" in names and "s" not in names
    assert not IO.create_if_absent(path, b"second") and os.listdir(tmp_path) == ["s"]


@pytest.mark.parametrize("call", ["open", "lstat", "rename"])
def test_a_failure_under_the_lock_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    _without_links(monkeypatch, rename=False)
    real = os.open

    def full(path: str, flags: int, *mode: int) -> int:
        return _raising(errno.ENOSPC)() if path.endswith(".lock") else real(path, flags, *mode)

    monkeypatch.setattr(os, call, full if call == "open" else _raising(errno.EACCES))
    with pytest.raises(StorageError):
        IO.create_if_absent(str(tmp_path / "s"), b"x")
    assert os.listdir(tmp_path) == []


def test_a_writer_waits_for_the_lock_and_sees_who_won(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_links(monkeypatch, rename=False)
    path, lock = tmp_path / "s", tmp_path / ".s.lock"
    lock.touch()
    monkeypatch.setattr(time, "sleep", lambda _: path.write_bytes(b"rival"))
    assert not IO.create_if_absent(str(path), b"ours")
    assert path.read_bytes() == b"rival" and lock.exists()
    path.unlink()
    monkeypatch.setattr(time, "sleep", lambda _: lock.unlink())
    assert IO.create_if_absent(str(path), b"ours")
    assert os.listdir(tmp_path) == ["s"]


@pytest.mark.parametrize("before", [True, False])
def test_a_writer_that_is_killed_at_any_step_leaves_a_whole_file_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    _without_links(monkeypatch, rename=False)
    monkeypatch.setattr(local_writes, "LOCK_SECONDS", 0.0)
    ours, outcomes = b"ours" * 1000, []
    for step in range(100):
        directory = tmp_path / str(step)
        directory.mkdir()
        path, lock = directory / "snapshot-1", directory / ".snapshot-1.lock"
        if not _killed(str(path), ours, step, before):
            break
        if path.exists():
            outcomes.append("published")
            assert path.read_bytes() == ours
        elif lock.exists():
            outcomes.append("locked")
            holder = r"process \d+ on \S+ since \d+" if lock.read_bytes() else "an unknown process"
            with pytest.raises(StorageError, match=rf"{holder}.* remove {lock} and write again"):
                IO.create_if_absent(str(path), b"next")
            lock.unlink()
        else:
            outcomes.append("nothing")
        assert IO.create_if_absent(str(path), b"next") == (outcomes[-1] != "published")
        assert path.read_bytes() in (ours, b"next")
    assert list(dict.fromkeys(outcomes)) == ["nothing", "locked", "published"]


def _killed(path: str, data: bytes, step: int, before: bool) -> bool:
    """Publish in a process that is killed at one of its calls; False when it ended before that."""
    pid = os.fork()
    if pid == 0:
        calls = itertools.count()

        def counted(call: Any) -> Any:
            def run(*arguments: Any) -> Any:
                last = next(calls) == step
                if last and before:
                    os.kill(os.getpid(), signal.SIGKILL)
                result = call(*arguments)
                if last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result

            return run

        try:
            for name in ("open", "write", "fsync", "close", "rename", "unlink"):
                setattr(os, name, counted(getattr(os, name)))
            IO.create_if_absent(path, data)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def test_a_table_is_read_while_a_dead_writer_holds_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_links(monkeypatch, rename=False)
    rows = pa.table({"a": [1, 2]})
    table = pp.Table.create(str(tmp_path / "t"), rows.schema)
    table.append(rows)
    lock = tmp_path / "t" / "snapshot" / ".snapshot-2.lock"
    lock.write_text("process 7 on elsewhere since 2026-01-01 00:00:00Z")
    monkeypatch.setattr(local_writes, "LOCK_SECONDS", 0.0)
    with pytest.raises(StorageError, match="process 7 on elsewhere since 2026"):
        table.append(rows)
    assert table.scan().to_arrow().num_rows == 2
    lock.unlink()
    table.append(rows)
    assert pp.Table.open(str(tmp_path / "t")).scan().to_arrow().num_rows == 4


def test_a_link_that_was_made_counts_whatever_the_file_system_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def lying(source: str, target: str) -> None:
        real(source, target)
        raise OSError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", lying)
    assert IO.create_if_absent(str(tmp_path / "s"), b"ours")
    assert os.listdir(tmp_path) == ["s"]


def test_the_content_is_complete_and_synced_before_the_name_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "s")
    seen: list[str] = []
    real_sync, real_link = os.fsync, os.link

    def sync(fd: int) -> None:
        seen.append("sync")
        real_sync(fd)

    def link(source: str, target: str) -> None:
        assert Path(source).read_bytes() == b"x" * 100_000
        assert not os.path.exists(path)
        seen.append("link")
        real_link(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    assert IO.create_if_absent(path, b"x" * 100_000)
    assert seen == ["sync", "link", "sync"]


def test_ranges_are_read_into_one_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, data = str(tmp_path / "f"), os.urandom(100_000)
    Path(path).write_bytes(data)
    offsets = np.array([500, 0, 99_000, 40_000, 7], np.int64)
    lengths = np.array([10, 3, 1_000, 0, 30_000], np.int64)
    wanted = b"".join(data[at : at + n] for at, n in zip(offsets, lengths, strict=True))
    assert IO.read_joined(path, offsets, lengths) == wanted
    assert IO.read_joined(path, offsets[:0], lengths[:0]) == b""
    many = np.arange(0, 99_000, 99)
    assert IO.read_joined(path, many, np.full(len(many), 50)) == b"".join(data[at : at + 50] for at in many)
    whole = os.preadv
    with monkeypatch.context() as short:  # as Linux does of more than 2 GiB
        short.setattr(os, "preadv", lambda fd, views, at: whole(fd, [view[: len(view) // 2] for view in views], at))
        assert IO.read_joined(path, offsets, lengths) == wanted
    monkeypatch.delattr(os, "preadv")
    assert IO.read_joined(path, offsets, lengths) == wanted


@pytest.mark.parametrize(
    ("offset", "length"), [(5, 6), (11, 0), (-1, 2), (0, -1), (0, 1 << 62), (1 << 62, 1), (1 << 62, 1 << 62)]
)
def test_joined_ranges_outside_the_file_are_corruption(tmp_path: Path, offset: int, length: int) -> None:
    path = str(tmp_path / "f")
    Path(path).write_bytes(b"0123456789")
    with pytest.raises(CorruptFileError, match="the file has 10"):
        IO.read_joined(path, np.array([0, offset]), np.array([1, length]))
