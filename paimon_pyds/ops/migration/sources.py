"""Which files a directory or a table of another kind consists of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from urllib.parse import unquote

from paimon_pyds.errors import NotFoundError, SchemaError, StorageError, UnsupportedError
from paimon_pyds.metadata.paths import ALLOW, lies_below
from paimon_pyds.ops.migration.common_types import Source, SourceFile
from paimon_pyds.ops.migration.iceberg import HINT, METADATA_SUFFIX, read_iceberg
from paimon_pyds.storage import FileIO, FileStatus

_HIVE_NULL = frozenset({"__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"})
_LEVELS = 32
_OTHERS = {
    "_delta_log": "Delta",
    ".hoodie": "Hudi",
    ".hoodie_partition_metadata": "Hudi",
    "_spark_metadata": "Spark streaming",
}
"""Names in directories of tables of other kinds, whose metadata decides which files are live."""
_ACID = re.compile(r"(base_\d{7,}|(delete_)?delta_\d{7,}_\d{7,}(_\d+)?)(_v\d+)?", re.ASCII)
"""Directories of Hive's transactional tables."""
_STEP = re.compile(r"([^=]+)=(.*)", re.DOTALL)


def read_source(io: FileIO, root: str, allowed: Sequence[str] = ()) -> Source:
    """The data files of a directory, or the live ones of a Delta or Iceberg table.

    ``allowed``: directories outside of it that may hold its files, as `normalise_location` spells them.

    Raises:
        SecurityError: the table's metadata names a file in another directory.
        NotFoundError: there is nothing.
        UnsupportedError: a table of a kind, or with a feature, of which files alone don't give the rows.
        SchemaError: partitions of unlike columns.
    """
    if root.endswith(METADATA_SUFFIX):
        return read_iceberg(io, root, allowed)
    names = {entry.name for entry in io.list(root)}
    if "_delta_log" in names:
        from paimon_pyds.ops.migration.delta import read_delta

        return read_delta(io, root, allowed)
    _check_no_part(io, root)
    if "metadata" in names and any(e.name.endswith((HINT, METADATA_SUFFIX)) for e in io.list(f"{root}/metadata")):
        return read_iceberg(io, root, allowed)
    if ".hoodie" in names:
        raise UnsupportedError(
            "Hudi tables can't be migrated: only some of their files are live",
            path=root,
            hint="read it by its own library, and append the rows",
        )
    if {"schema", "snapshot"} <= names:
        raise UnsupportedError("this is a Paimon table already", path=root, hint="clone it")
    links: list[str] = []
    files = tuple(_files(io, root, allowed, links))
    if not files:
        hint = f"links are not followed: allow the directories that they lead to by the storage option {ALLOW}"
        hint = hint if links else "give the directory that they are in"
        raise NotFoundError("no data files here", path=root, hint=hint)
    keys = [tuple(name for name, _ in file.partition) for file in files]
    for file, found in zip(files, keys, strict=True):
        if found != keys[0] or len(set(found)) != len(found):
            raise SchemaError(
                f"partitions by {', '.join(found) or 'nothing'} here, by {', '.join(keys[0]) or 'nothing'} before",
                path=file.path,
                hint="migrate one of these directories alone",
            )
    return Source("directory", files, keys[0], links=tuple(links))


def _files(
    io: FileIO,
    directory: str,
    allowed: Sequence[str],
    links: list[str],
    partition: tuple[tuple[str, str | None], ...] = (),
    level: int = 0,
) -> Iterator[SourceFile]:
    """Data files, at any depth. As in Spark and Hive, files and directories whose names begin with ``_`` or ``.`` are
    left out, unless they have the value of a partition.
    Raises UnsupportedError: files of another table, some of which may not be live.

    A link is followed only where it leads into one of the ``allowed`` directories; the others are added to ``links``.
    """
    if level > _LEVELS:
        raise UnsupportedError(f"directories in directories, {level} levels: a link that leads back?", path=directory)
    entries = io.list(directory)
    _check_all_live(directory, entries)
    for entry in entries:
        step = _STEP.fullmatch(entry.name) if entry.is_dir else None
        if entry.name.startswith(("_", ".")) and (step is None or entry.name.startswith(".")):
            continue
        if entry.is_link and not _leads_into(entry.path, allowed):
            links.append(entry.path)
        elif not entry.is_dir:
            yield SourceFile(entry.path, entry.size, partition)
        elif step is None:
            yield from _files(io, entry.path, allowed, links, partition, level + 1)
        else:
            name, text = unquote(step[1]), unquote(step[2])
            value = None if text in _HIVE_NULL else text
            yield from _files(io, entry.path, allowed, links, (*partition, (name, value)), level + 1)


def _leads_into(link: str, allowed: Sequence[str]) -> bool:
    return lies_below(f"{os.path.realpath(link)}/", [os.path.realpath(directory) for directory in allowed])


def _check_no_part(io: FileIO, root: str) -> None:
    """Raises UnsupportedError for a partition, or the data, of a table that counts some of its files as live."""
    above = root
    while _STEP.fullmatch(above.rpartition("/")[2]):
        above = above.rpartition("/")[0]
    with suppress(StorageError):  # reading the directory does not imply access to it
        if above != root:
            entries = io.list(above)
            _check_all_live(above, entries)
            if {"schema", "snapshot"} <= {entry.name for entry in entries}:
                raise UnsupportedError("this is part of a Paimon table", path=root, hint="clone it, with where=…")
        table, _, name = above.rpartition("/")
        metadata = io.list(f"{table}/metadata") if name == "data" else ()
        if any(entry.name.endswith(METADATA_SUFFIX) for entry in metadata):
            raise UnsupportedError(
                "these are files of an Iceberg table, of which only some are live", path=root, hint="migrate the table"
            )


def _check_all_live(directory: str, entries: Iterable[FileStatus]) -> None:
    for entry in entries:
        kind = _OTHERS.get(entry.name) or (
            "transactional Hive" if entry.is_dir and _ACID.fullmatch(entry.name) else None
        )
        if kind is not None:
            raise UnsupportedError(
                f"these are files of a {kind} table, of which only some are live",
                path=directory,
                hint="migrate a Delta table by its own directory; of others, append the rows",
            )
