"""What is no file where a table has files: FIFOs, devices, links that lead nowhere. One clear error, at once."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import PaimonError, StorageError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.storage.local import LocalFileIO
from support.effort import sampled

IO = LocalFileIO()
_READS: dict[str, Callable[[str], object]] = {
    "read_bytes": IO.read_bytes,
    "read_range": lambda path: IO.read_range(path, 0, 1),
    "read_ranges": lambda path: IO.read_ranges(path, [(0, 1)]),
    "open_input": lambda path: IO.open_input(path).read(),
    "size": IO.size,
}


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """A read that waits for ever is ended, and fails the test."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _put(kind: str, path: str | Path) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    else:
        os.symlink("/dev/zero", path)


@pytest.mark.parametrize("kind", ["fifo", "device"])
@pytest.mark.parametrize("read", _READS.values(), ids=_READS)
def test_only_files_are_read(tmp_path: Path, kind: str, read: Callable[[str], object]) -> None:
    path = str(tmp_path / "f")
    _put(kind, path)
    with pytest.raises(StorageError, match=f"a (FIFO|device) is in the way .*{path}"):
        read(path)


@pytest.mark.parametrize("read", _READS.values(), ids=_READS)
def test_links_to_files_are_followed(tmp_path: Path, read: Callable[[str], object]) -> None:
    (tmp_path / "file").write_bytes(b"x")
    os.symlink("file", tmp_path / "link")
    assert read(str(tmp_path / "link")) in (b"x", [b"x"], 1)
    os.symlink("nothing", tmp_path / "dangling")
    with pytest.raises(FileNotFoundError):
        read(str(tmp_path / "dangling"))
    with pytest.raises(StorageError):
        read(str(tmp_path))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with every kind of file."""
    path = tmp_path_factory.mktemp("special") / "t"
    options = {
        "deletion-vectors.enabled": "true",
        "file-index.bitmap.columns": "id",
        "file-index.in-manifest-threshold": "1 b",
    }
    table = pp.Table.create(path, pa.schema([("id", pa.int64())]), options=options)
    table.append(pa.table({"id": list(range(100))}))
    table.delete("id = 7")
    return path


_FILES = [
    "schema/schema-0", "snapshot/snapshot-2", "snapshot/LATEST", "manifest/manifest-list-*-0", "manifest/manifest-*-0",
    "manifest/index-manifest-*", "index/index-*", "bucket-0/data-*.parquet", "bucket-0/data-*.index",
]  # fmt: skip


@pytest.mark.parametrize("kind", sampled(["fifo", "device"], 1))
@pytest.mark.parametrize("pattern", _FILES)
def test_a_table_with_something_else_in_the_place_of_a_file(
    prepared: Path, tmp_path: Path, pattern: str, kind: str
) -> None:
    path = tmp_path / "t"
    shutil.copytree(prepared, path)
    METADATA_CACHE.clear()
    found = sorted(path.glob(pattern))
    assert found
    for file in found:
        file.unlink()
        _put(kind, file)
    calls = (
        lambda: pp.Table.open(path).scan("id >= 5").to_arrow().num_rows,
        lambda: pp.Table.open(path).delete("id = 8").rows_deleted,
    )
    for call, expected in zip(calls, (94, 1), strict=True):
        if pattern.endswith("LATEST") or (pattern.endswith(".parquet") and expected == 1):
            assert call() == expected  # the index finds the row to delete
        else:
            with pytest.raises(PaimonError, match=r"a (FIFO|device) is in the way"):
                call()


def test_a_link_that_leads_nowhere_in_the_place_of_the_next_snapshot(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    link = Path(table._store.paths.snapshot(2))
    os.symlink("nowhere", link)
    with pytest.raises(StorageError, match=r"a link that leads nowhere is in the way.*snapshot-2 — remove the link"):
        table.append(pa.table({"id": [2]}))
    assert len(list((tmp_path / "t" / "bucket-0").iterdir())) == 1
    link.unlink()
    os.symlink(link.name, link)
    with pytest.raises(StorageError, match="symbolic links"):
        table.append(pa.table({"id": [2]}))
    link.unlink()
    table.append(pa.table({"id": [2]}))
    os.symlink("nowhere", table._store.paths.schema(1))
    with pytest.raises(StorageError, match="a link that leads nowhere"):
        table.alter(add_columns={"x": "INT"})
