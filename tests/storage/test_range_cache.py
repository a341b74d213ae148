"""Cached ranges of files in stores: in memory, on disk, within bounds, and never of files that may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_pyds.storage import forget
from paimon_pyds.storage.object_store import ObjectStoreFileIO
from paimon_pyds.storage.range_cache import RANGE_CACHE, CachedRanges

NAME = "s3://bucket/t/bucket-0/data-01234567-89ab-cdef-0123-456789abcdef-0.parquet.index"


class Store(ObjectStoreFileIO):
    """A store that has one file."""

    def __init__(self, data: bytes, directory: Path | str) -> None:
        super().__init__("s3://bucket/t", {"local-cache.enabled": "true", "local-cache.dir": str(directory)})
        self.data = data
        self.asked: list[tuple[int, int]] = []

    def read_start(self, path: str, length: int) -> tuple[bytes, int]:
        self.asked.append((0, length))
        return self.data[:length], len(self.data)

    def read_ranges(self, path: str, ranges: list[tuple[int, int]]) -> list[bytes]:
        self.asked += ranges
        return [self.data[offset : offset + length] for offset, length in ranges]

    def open_sized(self, path: str, size: int) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def fresh() -> None:
    RANGE_CACHE.clear()


def test_ranges_that_were_read_are_not_requested_again(tmp_path: Path) -> None:
    io = Store(bytes(range(256)) * 100, tmp_path / "c")
    first = CachedRanges(io, NAME)
    assert first.size(100) == 25_600
    assert first.read([(10, 20), (500, 10), (20_000, 4)]) == [io.data[10:30], io.data[500:510], io.data[20_000:20_004]]
    assert io.asked == [(0, 100), (500, 10), (20_000, 4)]
    assert CachedRanges(io, NAME).get(500, 10) is None  # not said to be right yet
    first.keep()
    for new_process in (False, True):
        if new_process:
            RANGE_CACHE.clear()
        io.asked.clear()
        again = CachedRanges(io, NAME)
        assert again.size(100) == 25_600 and again.read([(502, 3), (0, 100)]) == [io.data[502:505], io.data[:100]]
        assert again.ending_at(510) == io.data[500:510] and again.ending_at(509) is None
        assert not io.asked
        assert again.read([(99, 2)]) == [io.data[99:101]] and io.asked == [(99, 2)]
    forget(io, NAME)
    assert CachedRanges(io, NAME).get(0, 1) is None


def test_long_ranges_and_files_that_may_change_are_not_cached(tmp_path: Path) -> None:
    io = Store(bytes(3 << 20), tmp_path / "c")
    for name, length in ((NAME, 2 << 20), ("s3://bucket/t/bucket-0/data.parquet", 10)):
        ranges = CachedRanges(io, name)
        ranges.read([(5, 3), (0, length)])
        ranges.keep()
        RANGE_CACHE.clear()
        assert CachedRanges(io, name).get(0, length) is None
        assert (CachedRanges(io, name).get(5, 3) is None) is (name != NAME)


def test_the_cache_can_be_off_or_have_no_place(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    io = Store(bytes(100), blocked / "c")
    ranges = CachedRanges(io, NAME)
    assert ranges.whole(lambda: io.data) == io.data
    ranges.keep()
    assert CachedRanges(io, NAME).whole(lambda: b"no") == io.data  # in memory
    RANGE_CACHE.clear()
    assert CachedRanges(io, NAME).whole(lambda: b"again") == b"again"
