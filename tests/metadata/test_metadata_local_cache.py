"""Decoded manifests on disk: the next process plans by them, and by nothing that is damaged, old or another's."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.row import EMPTY_ROW
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.errors import OptionError, SnapshotNotFoundError
from paimon_pyds.metadata.manifest import DataFile, ManifestEntry
from paimon_pyds.metadata.manifest_codec import entries_to_batch
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.storage import disk_cache as local_cache
from paimon_pyds.storage.disk_cache import LocalCache
from paimon_pyds.storage.local import LocalFileIO
from paimon_pyds.storage.object_store import ObjectStoreFileIO

NAME = "manifest-01234567-89ab-cdef-0123-456789abcdef-0"
ON = {"local-cache.enabled": "true"}
OPTIONS = {"metadata.stats-mode": "full", "manifest.compression": "null"}
LONG = "x" * (80 << 10)
"""A value of which statistics make a manifest large."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    METADATA_CACHE.clear()
    monkeypatch.setattr(local_cache, "_given_up", set())
    monkeypatch.setattr(local_cache, "_written", {})


def entries_of(number: int) -> pa.RecordBatch:
    stats = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    file = DataFile(
        file_name=f"data-{number}.parquet", file_size=1, row_count=number, min_key=EMPTY_ROW, max_key=EMPTY_ROW,
        key_stats=stats, value_stats=stats, min_sequence_number=0, max_sequence_number=0, schema_id=0,
        embedded_index=b"index", write_cols=("a", "b"),
    )  # fmt: skip
    return entries_to_batch([ManifestEntry(0, EMPTY_ROW, 0, 1, file)] * 3)


def write(cache: LocalCache, key: bytes, entries: pa.RecordBatch) -> None:
    cache.remove(key)
    cache.batch(key, entries.schema, lambda: entries)


def read(cache: LocalCache, key: bytes) -> pa.RecordBatch | None:
    data = cache.read(key)
    return None if data is None else pa.ipc.open_stream(data).read_next_batch()


def kept_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*")) if directory.is_dir() else []


def table_of(path: Path, cache: Path, **options: str) -> pp.Table:
    """A table with one file, whose manifest is large."""
    schema = pa.schema([("i", pa.int64()), ("s", pa.string())])
    if not path.exists():
        pp.Table.create(path, schema, options=OPTIONS).append([{"i": 1, "s": LONG}, {"i": 2, "s": LONG}])
    METADATA_CACHE.clear()
    return pp.Table.open(path, storage_options={**ON, "local-cache.dir": str(cache), **options})


def manifest_of(path: Path) -> Path:
    return next(p for p in (path / "manifest").iterdir() if "list" not in p.name)


def decodes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that are decoded from now on."""
    from paimon_pyds.metadata import manifest_codec

    decode, seen = manifest_codec.decode_manifest, []

    def counted(data: bytes, path: str, *more: Any, **named: Any) -> pa.RecordBatch:
        seen.append(path)
        return decode(data, path, *more, **named)

    monkeypatch.setattr(manifest_codec, "decode_manifest", counted)
    return seen


def test_a_second_process_plans_without_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "t", tmp_path / "cache" / "mine"
    seen = decodes(monkeypatch)
    first = table_of(path, cache).scan("i = 1").plan()
    assert len(seen) == 1 and len(kept_files(cache)) == 2  # where files lie, and their statistics
    assert cache.stat().st_mode & 0o777 == 0o700 and kept_files(cache)[0].stat().st_mode & 0o777 == 0o600
    assert table_of(path, cache).scan("i = 1").plan().files == first.files
    assert table_of(path, cache).scan("i = 1").to_arrow()["i"].to_pylist() == [1]
    assert len(seen) == 1
    table_of(path, cache).compact(full=True)
    assert table_of(path, cache).scan().to_arrow()["i"].to_pylist() == [1, 2]


def test_a_plan_reads_what_it_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "t", tmp_path / "cache"
    seen = decodes(monkeypatch)
    files = table_of(path, cache).scan().plan().files
    assert len(seen) == 1 and len(kept_files(cache)) == 1
    (places,) = kept_files(cache)
    assert places.stat().st_size < 16 << 10 < len(LONG)
    table = table_of(path, cache)
    assert table.scan("i = 1").plan().files == files and not table.scan("i > 2").plan().files
    assert len(seen) == 2 and len(kept_files(cache)) == 2
    places.unlink()
    METADATA_CACHE.clear()
    assert table.scan("i = 1").plan().files == files and not table.scan("i > 2").plan().files
    assert len(seen) == 3 and len(kept_files(cache)) == 2
    whole = table._store.read_manifest(manifest_of(path).name)  # a commit's, not by the cache on disk
    some = [*whole.schema.names[::-3], *whole.schema.names[1::3]]
    assert table._store.read_manifest(manifest_of(path).name, some).equals(whole.select(some))
    METADATA_CACHE.clear()
    assert table.scan("i = 1").plan().files == files
    parts = table._store.read_manifest(manifest_of(path).name, some, manifest_of(path).stat().st_size)
    assert parts.equals(whole.select(some)) and len(seen) == 4


def test_small_manifests_and_what_is_no_plan_stay_away_from_it(tmp_path: Path) -> None:
    path, cache = tmp_path / "t", tmp_path / "cache"
    table = table_of(path, cache)
    table.maintenance.verify()
    assert not cache.exists()
    small = pp.Table.create(tmp_path / "s", pa.schema([("i", pa.int64())]))
    small.append([{"i": 1}])
    options = {**ON, "local-cache.dir": str(cache)}
    assert pp.Table.open(small.path, storage_options=options).scan().to_arrow().num_rows == 1
    assert not cache.exists()


@pytest.mark.parametrize("off", [{"local-cache.enabled": "false"}, {"local-cache.max-size": "0 b"}, None])
def test_it_can_be_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: dict[str, str] | None) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PAIMON_PYDS_LOCAL_CACHE", "off" if off is None else "1 GB")
    path = tmp_path / "t"
    table_of(path, tmp_path / "cache", **ON if off is None else off)
    METADATA_CACHE.clear()
    pp.Table.open(path, storage_options=off).scan().plan()
    assert not (tmp_path / "xdg").exists() and not (tmp_path / "cache").exists()
    monkeypatch.setenv("PAIMON_PYDS_LOCAL_CACHE", "1 GB")
    METADATA_CACHE.clear()
    pp.Table.open(path).scan().plan()
    assert len(kept_files(tmp_path / "xdg" / "paimon-pyds")) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"local-cache.size": "1"},
        {"local-cache.max-size": "much"},
        {"local-cache.enabled": "si"},
        {"local-cache.dir": "d"},
    ],
)
def test_options_are_honoured_or_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="local-cache"):
        LocalCache.of(options)


def test_the_environment_gives_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, size in (("off", 0), ("on", 1 << 30), ("", 1 << 30), ("2 mb", 2 << 20)):
        monkeypatch.setenv("PAIMON_PYDS_LOCAL_CACHE", text)
        assert LocalCache.of().max_size == size
    monkeypatch.setenv("PAIMON_PYDS_LOCAL_CACHE", "big")
    with pytest.raises(OptionError, match="PAIMON_PYDS_LOCAL_CACHE"):
        LocalCache.of()


# ------------------------------------------------------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalCache, Path, bytes]:
    cache = LocalCache(str(tmp_path_factory.mktemp("sound") / "cache"), 1 << 20)
    write(cache, b"k" * 32, entries_of(1))
    (path,) = kept_files(Path(str(cache.directory)))
    return cache, path, path.read_bytes()


@given(data=st.data())
def test_damaged_files_count_as_absent(sound: tuple[LocalCache, Path, bytes], data: st.DataObject) -> None:
    cache, path, whole = sound
    change = data.draw(st.sampled_from(["flip", "cut", "more", "zero", "move"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    bad = {
        "flip": lambda: whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :],
        "cut": lambda: whole[:at],
        "more": lambda: whole + b"\0" * (at + 1),
        "zero": lambda: whole[:at] + b"\0" * (len(whole) - at),
        "move": lambda: whole[at:] + whole[:at] if at else whole[1:],
    }[change]()
    path.write_bytes(bad)
    found = read(cache, b"k" * 32)
    if bad == whole:  # what was cut off were zeros
        assert found is not None and found.equals(entries_of(1))
    else:
        assert found is None and not path.exists()


def test_entries_of_another_manifest_are_not_taken(sound: tuple[LocalCache, Path, bytes]) -> None:
    cache, path, whole = sound
    other = path.with_name(f"{(b'o' * 32).hex()}.kept")
    other.write_bytes(whole)
    assert read(cache, b"o" * 32) is None
    assert read(cache, b"n" * 32) is None


def test_a_plan_over_damaged_files_decodes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = tmp_path / "t", tmp_path / "cache"
    expected = table_of(path, cache).scan().plan().files
    (kept,) = kept_files(cache)
    kept.write_bytes(kept.read_bytes()[:-9])
    seen = decodes(monkeypatch)
    assert table_of(path, cache).scan().plan().files == expected
    assert table_of(path, cache).scan().plan().files == expected
    assert len(seen) == 1


# --------------------------------------------------------------------------------------------------------------- keys


def test_keys_tell_manifests_apart(tmp_path: Path) -> None:
    cache, io = LocalCache(str(tmp_path), 1 << 20), LocalFileIO()
    path = tmp_path / NAME
    path.write_bytes(b"1")
    first = cache.key(io, str(path), 1)
    assert first == cache.key(io, str(path), 1) != cache.key(io, str(path), 2)
    os.utime(path, ns=(5, 5))
    assert cache.key(io, str(path), 1) != first
    for name in ("manifest-1-0", "snapshot-1", "schema-0", "LATEST"):
        (tmp_path / name).write_bytes(b"1")
        assert cache.key(io, str(tmp_path / name), 1) is None
    assert cache.key(io, str(tmp_path / "gone" / NAME), 1) is None
    assert cache.key(object(), str(path), 1) is None  # type: ignore[arg-type]


def test_keys_of_stores_have_the_endpoint_and_no_secret(tmp_path: Path) -> None:
    cache, path = LocalCache(str(tmp_path), 1 << 20), f"s3://bucket/t/manifest/{NAME}"

    def key(**options: str) -> bytes | None:
        io = ObjectStoreFileIO("s3://bucket/t", {f"s3.{k.replace('_', '-')}": v for k, v in options.items()})
        assert "hush" not in io.version(path)
        return cache.key(io, path, 1)

    a = key(endpoint="http://a", access_key="hush1", secret_key="hush2")
    assert a == key(endpoint="http://a", access_key="hush3", secret_key="hush4", session_token="hush5")
    assert a != key(endpoint="http://b", access_key="hush1", secret_key="hush2")


def test_a_manifest_that_is_gone_is_gone(tmp_path: Path) -> None:
    path, cache = tmp_path / "t", tmp_path / "cache"
    table_of(path, cache).scan().plan()
    manifest_of(path).unlink()
    with pytest.raises(SnapshotNotFoundError):
        table_of(path, cache).scan().plan()


def test_a_table_created_anew_is_another(tmp_path: Path) -> None:
    import shutil

    path, cache = tmp_path / "t", tmp_path / "cache"
    table_of(path, cache).scan().plan()
    shutil.rmtree(path)
    pp.Table.create(path, pa.schema([("i", pa.int64())]), options=OPTIONS).append([{"i": 7}])
    assert table_of(path, cache).scan().to_arrow().to_pylist() == [{"i": 7}]


# -------------------------------------------------------------------------------------------------------- the directory


def _link(directory: Path) -> None:
    (directory.parent / "elsewhere").mkdir(mode=0o700)
    directory.symlink_to(directory.parent / "elsewhere")


@pytest.mark.parametrize(
    "make",
    [_link, lambda d: d.mkdir(mode=0o755), lambda d: d.write_text("")],
    ids=["link", "open", "file"],
)
def test_a_directory_of_others_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Callable[[Path], Any]
) -> None:
    directory = tmp_path / "cache"
    make(directory)
    cache = LocalCache(str(directory), 1 << 20)
    with caplog.at_level(logging.INFO, "paimon_pyds.cache"):
        for _ in range(2):
            write(cache, b"k" * 32, entries_of(1))
            assert read(cache, b"k" * 32) is None
    assert len(caplog.records) == 1 and "0700" in caplog.text
    assert not kept_files(directory)


def test_the_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = LocalCache(str(tmp_path / "cache"), 1 << 20)
    write(cache, b"k" * 32, entries_of(1))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert read(cache, b"k" * 32) is None
    monkeypatch.setattr(LocalCache, "_opened", lambda self, create: self.directory)  # replaced after it was looked at
    assert read(cache, b"k" * 32) is None


@pytest.mark.parametrize("call", ["mkdir", "makedirs", "rename", "open"])
def test_disks_that_refuse_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(28, "no space")

    cache = LocalCache(str(tmp_path / "cache"), 1 << 20)
    monkeypatch.setattr(local_cache.os, call, refuse)
    with caplog.at_level(logging.INFO, "paimon_pyds.cache"):
        for number in range(3):
            write(cache, bytes([number]) * 32, entries_of(1))
    monkeypatch.undo()
    assert len(caplog.records) == 1 and "No space" in caplog.text
    assert not kept_files(tmp_path / "cache")


def test_there_may_be_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(os.path, "expanduser", lambda _: "~")
    cache = LocalCache.of(ON)
    assert cache.directory is None
    write(cache, b"k" * 32, entries_of(1))
    assert read(cache, b"k" * 32) is None


def test_the_least_recently_used_goes(tmp_path: Path) -> None:
    cache = LocalCache(str(tmp_path / "cache"), 1 << 20)
    keys = [bytes([n]) * 32 for n in range(6)]
    write(cache, keys[0], entries_of(0))
    (first,) = kept_files(tmp_path / "cache")
    small = LocalCache(cache.directory, 3 * local_cache.held_bytes(first.stat()) + 100)
    left = first.with_name(f"{keys[5].hex()}.kept.{'0' * 32}")  # by a process that was killed long ago
    left.write_bytes(b"half")
    stranger = first.with_name("notes.txt")
    stranger.write_text("not ours")
    for path, seconds in ((left, 1), (first, 1_000)):
        os.utime(path, (seconds, seconds))
    for number in (1, 2, 3):
        write(small, keys[number], entries_of(number))
        assert read(small, keys[0]) is not None or number == 3
        os.utime(first, (2_000, 2_000)) if number < 3 else None
        os.utime(first.with_name(f"{keys[number].hex()}.kept"), (3_000 + number, 3_000 + number))
    assert read(small, keys[0]) is None and read(small, keys[3]).equals(entries_of(3))
    held = [local_cache.held_bytes(p.stat()) for p in kept_files(tmp_path / "cache") if p != stranger]
    assert sum(held) <= small.max_size
    assert stranger.exists() and not left.exists()
    write(LocalCache(cache.directory, 100), keys[4], entries_of(4))
    assert read(small, keys[4]) is None


def test_very_many_files_are_not_listed_at_each_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, listed = LocalCache(str(tmp_path / "cache"), 1 << 20), []
    listing = os.scandir
    monkeypatch.setattr(local_cache.os, "scandir", lambda path: listed.append(path) or listing(path))
    for number in range(60):
        write(cache, bytes([number]) * 32, entries_of(number))
    assert 1 < len(listed) < 20


# ------------------------------------------------------------------------------------------------------------ processes

_WRITER = """
import sys
sys.path[:0] = {paths!r}
import test_metadata_local_cache as t
cache = t.LocalCache({directory!r}, {size})
print("go", flush=True)
for n in range({rounds}):
    key = bytes([n % 7]) * 32
    found = t.read(cache, key)
    assert found is None or found.equals(t.entries_of(n % 7)), n
    t.write(cache, key, t.entries_of(n % 7))
assert not t.local_cache._given_up
"""


def writer(directory: Path, size: int, rounds: int) -> subprocess.Popen[bytes]:
    here = Path(__file__).parent
    code = _WRITER.format(paths=[str(here), str(here.parents[1])], directory=str(directory), size=size, rounds=rounds)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


def test_two_processes_share_it(tmp_path: Path) -> None:
    size = 25_000
    both = [writer(tmp_path / "cache", size, 60) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    for process in both:
        process.stdout.close()
    found = [p.name for p in kept_files(tmp_path / "cache")]
    assert found and all(name.endswith(".kept") for name in found)


def test_a_process_that_is_killed_leaves_nothing_wrong(tmp_path: Path) -> None:
    process = writer(tmp_path / "cache", 1 << 20, 10**9)
    process.stdout.readline()
    try:
        process.wait(0.1)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    cache = LocalCache(str(tmp_path / "cache"), 1 << 20)
    for number in range(7):
        found = read(cache, bytes([number]) * 32)
        assert found is None or found.equals(entries_of(number))
        write(cache, bytes([number]) * 32, entries_of(number))
        assert read(cache, bytes([number]) * 32).equals(entries_of(number))


def test_a_forked_child_reads_and_writes(tmp_path: Path) -> None:
    cache = LocalCache(str(tmp_path / "cache"), 1 << 20)
    write(cache, b"p" * 32, entries_of(1))
    child = os.fork()
    if child == 0:
        fine = read(cache, b"p" * 32) is not None
        write(cache, b"c" * 32, entries_of(2))
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert read(cache, b"c" * 32).equals(entries_of(2))
