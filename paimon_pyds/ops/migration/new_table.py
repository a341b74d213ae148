"""Where a migrated table is built: in a directory next to its place, which one rename makes it; on storage without
directories to rename, in its place. And how the files of the source come to it."""

from __future__ import annotations

import errno
import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from paimon_pyds.engine.commit.publisher import removing_unpublished
from paimon_pyds.errors import AlreadyExistsError, StorageError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import FileIO, discard, scheme_of
from paimon_pyds.storage.claims import claim_text, is_left_over, owner_text
from paimon_pyds.storage.faults import storage_faults

_log = logging.getLogger("paimon_pyds.migration")
_LOCK = ".migration-lock"
"""The file, where a table is made, that names the process that makes it."""


def check_free(io: FileIO, root: str) -> None:
    """Raises AlreadyExistsError: something is there."""
    if TableStore(io, root).schema_ids():
        raise AlreadyExistsError("a table already exists", path=root, hint="choose another target, or append the rows")
    names = {entry.name for entry in io.list(root)}
    if _LOCK in names:
        raise AlreadyExistsError(
            f"a table is being created here, or was left unfinished, by {owner_text(io.read_bytes(f'{root}/{_LOCK}'))}",
            path=root,
            hint="if that process has ended, remove this directory with its content, and migrate again",
        )
    if names:
        raise AlreadyExistsError("the target is not empty", path=root, hint="choose another target")


def take_away_left_overs(io: FileIO, root: str, call: str) -> None:
    """Remove leftovers of the same call next to the target if it was killed on this machine; warn of others."""
    parent, _, name = root.rpartition("/")
    for entry in io.list(parent) if scheme_of(root) == "file" else ():
        if entry.name.startswith(f".{name}.migrating-") and entry.is_dir:
            place = f"{parent}/{entry.name}"
            try:
                found = io.read_bytes(f"{place}/{_LOCK}")
            except FileNotFoundError:  # it is complete but for its name
                found = b""
            if is_left_over(found, call):
                io.delete_tree(place)
            else:
                _log.warning("%s is of a migration by %s: if that runs no more, remove it", place, owner_text(found))


@contextmanager
def built(io: FileIO, root: str, call: str) -> Iterator[tuple[str, list[str]]]:
    """Where to build the table, and a list for the files that are made; on an error these are removed."""
    made: list[str] = []
    if scheme_of(root) != "file":  # there are no directories to rename
        lock = f"{root}/{_LOCK}"
        with removing_unpublished(lambda: discard(io, reversed(made))):
            made.append(lock)
            if not io.create_if_absent(lock, claim_text(call)):
                made.pop()
                raise AlreadyExistsError("another table is being created here", path=root, hint="choose another target")
            yield root, made
        discard(io, [lock])
        return
    parent, _, name = root.rpartition("/")
    place = f"{parent}/.{name}.migrating-{uuid.uuid4()}"
    try:
        io.write_bytes(f"{place}/{_LOCK}", claim_text(call))
        yield place, made
        discard(io, [f"{place}/{_LOCK}"])
        io.remove_empty_dir(root)
        io.rename(place, root)
    except BaseException:
        with suppress(OSError):
            io.delete_tree(place)
        raise


_BYTES_AT_ONCE = 8 << 20
"""Bytes that are copied at a time."""
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def transfer(source: FileIO, path: str, target: FileIO, new_path: str, mode: str) -> int:
    """Bring a file to a new path; the one that is there stays. The size in bytes of the new one.

    Args:
        source: the storage of the file.
        path: of the file.
        target: the storage that it comes to.
        new_path: where; directories are made.
        mode: ``copy``; ``link`` for a hard link; ``move`` for a link where one can be, and else a copy.

    Raises:
        StorageError: the storage refuses, also where ``link`` can't link.
    """
    local = scheme_of(path) == scheme_of(new_path) == "file"
    if mode != "copy" and local and _linked(target, path, new_path):
        return target.size(new_path)
    if mode == "link":
        raise StorageError(
            "can't link: source and target must be on one local disk that has hard links",
            path=path,
            hint="use mode=copy",
        )
    output = target.open_output(new_path)
    try:
        with storage_faults("read", path), source.open_input(path) as file:
            while chunk := file.read_buffer(_BYTES_AT_ONCE):
                if not chunk.size:
                    break
                output.sink.write(chunk)
    except BaseException:
        output.abort()
        raise
    return output.close()


def _linked(target: FileIO, path: str, new_path: str) -> bool:
    """Whether a hard link could be made; a link that is not hard is followed."""
    target.make_dir(os.path.dirname(new_path))
    with storage_faults("link", path):
        try:
            os.link(os.path.realpath(path), new_path)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
    return True
