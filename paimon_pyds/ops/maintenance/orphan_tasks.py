"""The search for orphan files as tasks: they list directories, and read the names of files in manifests.

Workers that can send data to one another compare both by a hash of the names (`Search`): no machine holds all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, empty_table, from_numpy, one_array, pc
from paimon_pyds.base.options.option import is_utf8
from paimon_pyds.base.row import hash_rows
from paimon_pyds.base.types import parse_type
from paimon_pyds.errors import NotFoundError
from paimon_pyds.format.blob.references import MANAGED_SUFFIX
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.metadata.unknown_members import names_among
from paimon_pyds.ops.iceberg.leftovers import WRITTEN
from paimon_pyds.storage import FileIO

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}-[0-9a-f-]{27}(\.tmp)?")
"""What files are called until they get their names: as Java Paimon and this package do it."""
_PATTERNS = {"temporary": TEMPORARY.fullmatch, "iceberg": WRITTEN.fullmatch}
"""Which files count, in directories where others have written, too."""
FILES = pa.schema(
    [("path", pa.string()), ("kind", pa.string()), ("size", pa.int64()), ("modified", pa.timestamp("ms", "UTC"))]
)
_NAMES = pa.schema([("name", pa.string())])
_NEEDED, _THERE, _GONE = b"n", b"t", b"g"
"""The first byte of what goes from worker to worker: names that are needed, files that are there, or manifests that are
gone."""


@dataclass(frozen=True)
class Directories:
    """Directories of one kind. ``left_over``: nothing needs them as such."""

    kind: str
    paths: tuple[str, ...]
    left_over: bool = False


@dataclass(frozen=True)
class Needed:
    """Names of files that are needed, and manifests with their sizes, which name more."""

    names: tuple[str, ...] = ()
    manifests: tuple[tuple[str, int | None], ...] = ()


def files_in(io: FileIO, before: int, directories: Directories) -> pa.Table:
    """The files of some directories that were changed last before a time, in milliseconds since the epoch."""
    found = [
        status
        for directory in directories.paths
        for status in io.list(directory)
        if not status.is_dir
        and is_utf8(status.path)  # Paimon writes no other names, and a column of texts can't have them
        and 0 < status.modified_ms < before
        and (directories.left_over or directories.kind not in _PATTERNS or _PATTERNS[directories.kind](status.name))
        and not status.name.endswith(MANAGED_SUFFIX)  # values of rows, which no manifest names
    ]
    columns: dict[str, list[object]] = {
        "path": [status.path for status in found],
        "kind": [directories.kind] * len(found),
        "size": [status.size for status in found],
        "modified": [status.modified_ms for status in found],
    }
    return pa.Table.from_arrays([array(columns[f.name], f.type) for f in FILES], schema=FILES)


def names_of(files: pa.Table) -> pa.ChunkedArray:
    """The last parts of the files' paths."""
    return pc.replace_substring_regex(files["path"], r"(?s)^.*/", "")


def names_needed(store: TableStore, needed: Needed) -> tuple[pa.Array, list[str]]:
    """The names, with those of all files that the manifests name; and which of the manifests are gone."""
    try:
        return _names_of_files(store, needed.names, needed.manifests), []
    except NotFoundError:
        names, gone = array(needed.names, pa.string()), list[str]()
    for manifest in needed.manifests:
        try:
            names = pa.concat_arrays([names, _names_of_files(store, (), [manifest])])
        except NotFoundError:
            gone.append(manifest[0])
    return pc.unique(names), gone


def _names_of_files(
    store: TableStore, names: Sequence[str], manifests: Sequence[tuple[str, int | None]]
) -> pa.Array:  # fmt: skip
    parts = [array(names, pa.string())]
    for batch in store.read_manifests(manifests, ("file_name", "extra_files", "unknown")):
        others = array(sorted(names_among(batch["unknown"])), pa.string())
        parts += [batch["file_name"], batch["extra_files"].flatten(), others]
    return pc.unique(pa.concat_arrays(parts))


@dataclass(frozen=True)
class Search:
    """What all tasks of a search share: the table, the time before which a file must have been changed last, and the
    number of parts that names are cut into."""

    store: TableStore
    before: int
    parts: int

    def split(self, task: Directories | Needed) -> Iterator[tuple[int, bytes]]:
        """What a task finds, by the part that the names belong to (`ShufflingExecutor.shuffle`)."""
        if isinstance(task, Directories):
            rows, kind = files_in(self.store.io, self.before, task).combine_chunks(), _THERE
            names = one_array(names_of(rows))
        else:
            names, gone = names_needed(self.store, task)
            yield from ((0, _GONE + name.encode()) for name in gone)
            kind = _NEEDED
            rows = pa.Table.from_arrays([names], schema=_NAMES)
        part = hash_rows([names], [parse_type("STRING")]).view(np.uint32) % self.parts
        order = np.argsort(part, kind="stable")
        found, starts = np.unique(part[order], return_index=True)
        ordered = rows.take(from_numpy(order))
        for number, start, end in zip(found.tolist(), starts, np.append(starts, len(order))[1:], strict=True):
            (batch,) = ordered.slice(start, end - start).combine_chunks().to_batches()
            yield number, kind + batch.serialize().to_pybytes()

    def gather(self, part: int, pieces: Iterator[bytes]) -> tuple[pa.Table, int, list[str]]:
        """The files of a part that are not needed, how many were looked at, and manifests that are gone; what is needed
        comes first."""
        needed, found, count, gone = [array([], pa.string())], [empty_table(FILES)], 0, list[str]()
        for piece in pieces:
            if piece[:1] == _GONE:
                gone.append(piece[1:].decode())
                continue
            body = pa.py_buffer(piece)[1:]
            if piece[:1] == _NEEDED:
                needed.append(pa.ipc.read_record_batch(body, _NAMES).column(0))
                continue
            if len(needed) > 1:
                needed = [pa.concat_arrays(needed)]
            files = pa.Table.from_batches([pa.ipc.read_record_batch(body, FILES)])
            count += files.num_rows
            found.append(files.filter(pc.invert(pc.is_in(names_of(files), needed[0]))))
        return pa.concat_tables(found), count, gone
