"""Something that happens to local files between two I/O calls of an operation: gone, renamed, of another type."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from paimon_pyds.storage.local import LocalFileIO

_READS = ("read_bytes", "read_range", "read_ranges", "read_joined", "open_input", "size", "exists", "version")
_WRITES = ("open_output", "write_bytes", "create_if_absent", "replace")
_OTHERS = ("list", "make_dir", "delete", "delete_tree", "remove_empty_dir", "rename")
_CONTENTS = (b"", b"\xff\x00\x80", b"null", b"[1]", b'"text"', b'{"id": []}', b'{"version": 3, "id": {}, "fields": 7}')


def _gone(path: Path, chance: random.Random) -> None:
    """Not there any more."""
    _remove(path)


def _renamed(path: Path, chance: random.Random) -> None:
    """Called otherwise, as backups are."""
    if os.path.lexists(path):
        path.rename(f"{path}{chance.choice(['.old', '-2', '~'])}")


def _other_type(path: Path, chance: random.Random) -> None:
    """A directory where a file was, a file where a directory was."""
    was_directory = path.is_dir()
    _remove(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        if was_directory:
            path.write_bytes(b"x")
        else:
            path.mkdir()


def _other_bytes(path: Path, chance: random.Random) -> None:
    """Something else in the same file; of a directory, in one of its files."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
        if not files:
            return
        path = chance.choice(files)
    if path.is_file():
        size = path.stat().st_size
        path.write_bytes(chance.choice([*_CONTENTS, chance.randbytes(size), path.read_bytes()[: size // 2]]))


def _other_child(path: Path, chance: random.Random) -> None:
    """One of a directory's children is of the other type."""
    if path.is_dir() and (children := sorted(path.iterdir())):
        _other_type(chance.choice(children), chance)


def _without_parent(path: Path, chance: random.Random) -> None:
    """Its directory is gone."""
    _remove(path.parent)


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "gone": _gone,
    "renamed": _renamed,
    "other type": _other_type,
    "other bytes": _other_bytes,
    "other child": _other_child,
    "without parent": _without_parent,
}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


class Meddler:
    """Counts the calls to local storage below a directory; before, or after, one of them it damages its file.

    Attributes:
        calls: names of methods and paths so far.
    """

    def __init__(self, root: Path, at: int | None = None, damage: str = "", seed: int = 0, after: bool = False) -> None:
        self._root = str(root)
        self._at, self._damage, self._after = at, damage, after
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []

    def _next(self, method: str, path: str) -> bool:
        with self._lock:
            self.calls.append((method, path))
            return len(self.calls) - 1 == self._at

    def around(self, method: str, path: str, effect: Callable[[], Any]) -> Any:
        """Do what is asked, and the damage if it is due."""
        if not path.startswith(self._root) or not self._next(method, path):
            return effect()
        if self._after:
            try:
                return effect()
            finally:
                self._meddle(path)
        self._meddle(path)
        return effect()

    def _meddle(self, path: str) -> None:
        if os.path.normpath(path) != self._root:  # without the directory of the tests nothing works
            DAMAGES[self._damage](Path(path), self._chance)


_active: list[Meddler] = []


@contextmanager
def meddling(meddler: Meddler) -> Iterator[Meddler]:
    """Within, local storage goes through it."""
    _active.append(meddler)
    try:
        yield meddler
    finally:
        _active.remove(meddler)


def _through(method: str) -> Callable[..., Any]:
    original = getattr(LocalFileIO, method)

    def call(self: LocalFileIO, path: Any, *args: Any) -> Any:
        if not _active:
            return original(self, path, *args)
        if method == "delete":
            return _each_deleted(self, original, list(path))
        return _active[0].around(method, path, lambda: original(self, path, *args))

    return call


def _each_deleted(io: LocalFileIO, original: Callable[..., Any], paths: Sequence[str]) -> None:
    for path in paths:
        _active[0].around("delete", path, lambda path=path: original(io, [path]))


HOOKS = {method: _through(method) for method in (*_READS, *_WRITES, *_OTHERS)}
"""What stands for the methods of `LocalFileIO` in the tests."""
