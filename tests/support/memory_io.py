"""Files in memory: a table of a few rows is copied, and worked on, in milliseconds."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import BinaryIO, cast

import pyarrow as pa

from paimon_pyds.errors import AlreadyExistsError, StorageError
from paimon_pyds.storage import FileStatus
from paimon_pyds.storage.byte_source import BytesSource


class MemoryIO:
    """A FileIO over a dict of contents by path.

    Args:
        files: shared by all who are to see the same files.
        prefix: what each path begins with for this user, and not in ``files``: caches by path then are its own.
    """

    def __init__(self, files: dict[str, bytes], prefix: str = "") -> None:
        self._files = files
        self._prefix = prefix

    def _key(self, path: str) -> str:
        assert path.startswith(self._prefix), path
        return path[len(self._prefix) :]

    def read_bytes(self, path: str) -> bytes:
        try:
            return self._files[self._key(path)]
        except KeyError:
            raise FileNotFoundError(2, "no such file", path) from None

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return BytesSource(self.read_bytes(path), path).read(offset, length)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return BytesSource(self.read_bytes(path), path).read_many(ranges)

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read_bytes(path))

    def open_output(self, path: str) -> _Output:
        self.write_bytes(path, b"")
        return _Output(self._files, self._key(path))

    def size(self, path: str) -> int:
        return len(self.read_bytes(path))

    def exists(self, path: str) -> bool:
        key = self._key(path)
        return key in self._files or any(name.startswith(f"{key}/") for name in self._files)

    def list(self, path: str) -> list[FileStatus]:
        start = f"{self._key(path)}/"
        found: dict[str, FileStatus] = {}
        for key, data in self._files.items():
            if key.startswith(start):
                name, _, below = key[len(start) :].partition("/")
                found[name] = FileStatus(f"{path}/{name}", name, 0 if below else len(data), bool(below), 0)
        return [found[name] for name in sorted(found)]

    def make_dir(self, path: str) -> None:
        pass

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if self._key(path) in self._files:
            return False
        self._files[self._key(path)] = data
        return True

    def write_bytes(self, path: str, data: bytes) -> None:
        if self._key(path) in self._files:
            raise StorageError("the file is there already", path=path)
        self._files[self._key(path)] = data

    def replace(self, path: str, data: bytes) -> None:
        self._files[self._key(path)] = data

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._files.pop(self._key(path), None)

    def delete_tree(self, path: str) -> None:
        for key in [key for key in self._files if key.startswith(f"{self._key(path)}/")]:
            del self._files[key]

    def remove_empty_dir(self, path: str) -> bool:
        return False

    def rename(self, source: str, target: str) -> None:
        if self._key(target) in self._files:
            raise AlreadyExistsError("the target of a rename is there already", path=target)
        old, new = self._key(source), self._key(target)
        for key in [key for key in self._files if key == old or key.startswith(f"{old}/")]:
            self._files[new + key[len(old) :]] = self._files.pop(key)


class _Output:
    """A new file that grows in the dict as it is written."""

    def __init__(self, files: dict[str, bytes], key: str) -> None:
        self._files = files
        self._key = key
        self._sink = _Sink(files, key)

    @property
    def sink(self) -> BinaryIO:
        return cast(BinaryIO, self._sink)

    def tell(self) -> int:
        return self._sink.written

    def close(self) -> int:
        return self._sink.written

    def abort(self) -> None:
        self._files.pop(self._key, None)


class _Sink(io.RawIOBase):
    def __init__(self, files: dict[str, bytes], key: str) -> None:
        super().__init__()
        self._files = files
        self._key = key
        self.written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.written

    def write(self, data: object, /) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._files[self._key] = self._files.get(self._key, b"") + piece
        self.written += len(piece)
        return len(piece)
