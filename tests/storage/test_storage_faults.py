from __future__ import annotations

import errno
import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.errors import StorageError
from paimon_pyds.storage.local import LocalFileIO
from paimon_pyds.storage.object_files import IN_MEMORY_BYTES, NewObject
from support.tiny_disk import mounted

IO = LocalFileIO()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, where it can be mounted."""
    with mounted(tmp_path, kib=256) as mount:
        yield mount


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tiny_disk: Path) -> None:
    big = bytes(range(256)) * 4096
    for call in (
        lambda: IO.create_if_absent(str(tiny_disk / "s"), big),
        lambda: IO.write_bytes(str(tiny_disk / "w"), big),
        lambda: IO.replace(str(tiny_disk / "r"), big),
    ):
        with pytest.raises(StorageError, match=r"No space left on device.*free some space") as caught:
            call()
        assert caught.value.errno == errno.ENOSPC
        assert os.listdir(tiny_disk) == []


def test_a_disk_that_fills_up_while_parquet_is_written(tiny_disk: Path) -> None:
    output = IO.open_output(str(tiny_disk / "data.parquet"))
    table = pa.table({"a": pa.array(os.urandom(8) for _ in range(200_000))})
    with pytest.raises(StorageError, match="No space left"):
        pq.write_table(table, output.sink, compression="none", use_dictionary=False)
        output.close()
    output.abort()
    assert os.listdir(tiny_disk) == []


def test_a_disk_that_fills_up_with_what_waits_to_be_sent(tiny_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tiny_disk))
    new = NewObject(lambda *_: None, lambda _: None, "s3://b/f")
    with pytest.raises(StorageError, match=r"No space left on device.*free some space"):
        new.sink.write(bytes(IN_MEMORY_BYTES + 1))
        new.close()
    new.abort()


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "device"),
        (errno.ESTALE, "try again"),
    ],
)
def test_failing_writes_are_storage_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, hint: str
) -> None:
    output = IO.open_output(str(tmp_path / "o"))
    output.sink.write(b"buffered")

    def fail(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", fail)
    for call in (
        lambda: IO.create_if_absent(str(tmp_path / "s"), b"x"),
        lambda: IO.write_bytes(str(tmp_path / "w"), b"x"),
        output.close,
    ):
        with pytest.raises(StorageError, match=hint) as caught:
            call()
        assert caught.value.errno == code
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


def test_short_writes_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:7])))
    IO.write_bytes(str(tmp_path / "w"), b"0123456789" * 10)
    output = IO.open_output(str(tmp_path / "o"))
    output.sink.write(b"0123456789" * 10)
    assert output.close() == 100
    assert (tmp_path / "w").read_bytes() == (tmp_path / "o").read_bytes() == b"0123456789" * 10


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_read_only_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="permissions"):
            IO.create_if_absent(str(tmp_path / "s"), b"x")
    finally:
        tmp_path.chmod(0o700)


def test_a_file_in_the_way_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "t").touch()
    with pytest.raises(StorageError, match="in the way"):
        IO.write_bytes(str(tmp_path / "t" / "snapshot" / "s"), b"x")


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, offset: real(fd, n, offset)[:4] if offset < 4 else b"")
    with pytest.raises(StorageError, match="shorter"):
        IO.read_range(str(path), 0, 10)


def test_paths_too_long_say_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="too long"):
        IO.write_bytes(str(tmp_path / ("p=" + "x" * 300) / "f"), b"x")
