"""The directory of a table's Iceberg metadata: where it is, and its files (Apache Iceberg specification, File System
Tables; names as Java Paimon 1.4 has them, class IcebergPathFactory)."""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.iceberg import STORAGE
from paimon_pyds.errors import CorruptFileError, PaimonError, UnsupportedError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.iceberg import manifests as avro
from paimon_pyds.ops.iceberg.manifests import Manifest
from paimon_pyds.storage import discard, normalise_location

Metadata: TypeAlias = dict[str, Any]
_HINT = "version-hint.text"
_ROLLED_BACK = "retire-pending"
"""Java Paimon 2 leaves this file when it rolls back, as there may be metadata of later snapshots then."""
_VERSION = re.compile(r"v(\d{1,18})\.metadata\.json", re.ASCII)
_IDENTITY = "paimon-commit-identity"
_LIST = "manifests of Iceberg"
_WEIGHT = 2_000
"""Bytes of a manifest's record in memory, about."""
FOREVER = 2**63 - 1
"""For how long Iceberg may keep a tag: Paimon deletes it."""


def commit_identity(snapshot: Snapshot) -> str:
    """The text by which a snapshot differs from another one of its number, after a rollback, as in Java Paimon 2."""
    return snapshot.uuid or f"{snapshot.commit_user}:{snapshot.commit_identifier}:{snapshot.time_millis}"


def describes(metadata: Metadata, snapshot: Snapshot) -> bool:
    """Whether the metadata's newest state is that of a Paimon snapshot. What Java Paimon 1 wrote has no identity,
    and is believed."""
    newest = metadata["snapshots"][-1]
    return newest["snapshot-id"] == snapshot.id and identity_of(newest) in (None, commit_identity(snapshot))


def identity_of(metadata_snapshot: Metadata) -> str | None:
    """The identity that Iceberg's record of a snapshot has."""
    found: str | None = (metadata_snapshot.get("summary") or {}).get(_IDENTITY)
    return found


def identity_summary(snapshot: Snapshot) -> dict[str, str]:
    """The entry of a summary that names the Paimon snapshot."""
    return {_IDENTITY: commit_identity(snapshot)}


class IcebergFolder:
    """The Iceberg metadata of a table.

    Raises UnsupportedError: the directory is that of a catalog, and the table is in no directory of a database.
    """

    def __init__(self, store: TableStore, options: TableOptions) -> None:
        self._io = store.io
        self._root = store.root
        self._legacy = bool(options.get("metadata.iceberg.manifest-legacy-version"))
        self.codec = str(options.get("metadata.iceberg.manifest-compression"))
        self.version = int(options.get("metadata.iceberg.format-version"))
        self.path = _directory(store.root, options)
        self.location = store.root
        """The table's directory as metadata spells it: that of other writers, where there are any."""
        self._unique, self._numbers = uuid.uuid4(), itertools.count(1)
        self.written: list[str] = []
        """Manifests and lists that no published version names yet."""

    def spelled(self, path: str) -> str:
        """A path as the metadata spells it: Java compares texts, and may write ``file:`` in front."""
        pairs = zip(reversed(self._root), reversed(self.location), strict=False)
        shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        ours, theirs = self._root[: len(self._root) - shared], self.location[: len(self.location) - shared]
        return theirs + path[len(ours) :] if path.startswith(ours) else path

    def version_path(self, number: int) -> str:
        """The metadata of a snapshot."""
        return f"{self.path}/v{number}.metadata.json"

    def read(self, number: int) -> Metadata | None:
        """The metadata of a snapshot; None where the file is missing or damaged."""
        path = self.version_path(number)
        try:
            found = json.loads(self._io.read_bytes(path))
            _check(found, path)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, PaimonError):
            return None
        found["snapshots"] = [s for s in found["snapshots"] if s["snapshot-id"] <= found["current-snapshot-id"]]
        return found if found["snapshots"] else None

    def hint(self) -> int | None:
        """The version that readers begin at."""
        try:
            return int(self._io.read_bytes(f"{self.path}/{_HINT}").strip())
        except (FileNotFoundError, ValueError):
            return None

    def show(self, number: int, *, alone: bool) -> None:
        """Let readers begin at a version. ``alone``: no version of a later snapshot is there. Else readers would find
        it from this one, so later ones are removed; a file says so until then, for the case that this process dies."""
        later = [] if alone else self._after(number)
        if later:
            self._io.replace(f"{self.path}/{_ROLLED_BACK}", b"")
        self._io.replace(f"{self.path}/{_HINT}", str(number).encode())
        if not alone:
            self._retire(later)

    def versions(self) -> list[int]:
        """The numbers of all versions, ascending."""
        names = (_VERSION.fullmatch(status.name) for status in self._io.list(self.path))
        return sorted(int(name[1]) for name in names if name)

    def was_rolled_back(self) -> bool:
        """Whether Java has rolled back since the newest version."""
        return self._io.exists(f"{self.path}/{_ROLLED_BACK}")

    def create(self, number: int, metadata: Metadata) -> bool:
        """Publish a version; False if another process has published it."""
        self._io.make_dir(self.path)
        return self._io.create_if_absent(self.version_path(number), _text(metadata))

    def replace(self, number: int, metadata: Metadata) -> None:
        """Replace a version that is published."""
        self._io.replace(self.version_path(number), _text(metadata))

    def retire_after(self, number: int) -> None:
        """Remove versions of later snapshots, which a rollback has left; readers would find them."""
        self._retire(self._after(number))

    def _after(self, number: int) -> list[int]:
        return [version for version in self.versions() if version > number]

    def _retire(self, versions: Iterable[int]) -> None:
        self._io.delete([self.version_path(version) for version in versions])
        discard(self._io, [f"{self.path}/{_ROLLED_BACK}"])

    def remove_versions(self, numbers: Iterable[int]) -> None:
        """Remove versions, best effort."""
        discard(self._io, [self.version_path(number) for number in numbers])

    def remove(self, paths: Iterable[str]) -> None:
        """Remove manifests and lists, best effort. ``paths``: as the metadata has them."""
        discard(self._io, [self._here(path) for path in paths])

    def read_bytes(self, path: str) -> bytes:
        """A manifest or list. ``path``: as the metadata has it; the file is in this directory."""
        return self._io.read_bytes(self._here(path))

    def manifests(self, metadata_snapshot: Metadata) -> list[Manifest]:
        """The manifests of an Iceberg snapshot."""
        path = metadata_snapshot["manifest-list"]
        held = self._cached(path, lambda: avro.decode_list(self.read_bytes(path), path))
        return [dict(manifest) for manifest in held]

    def write_manifest(self, data: bytes) -> str:
        """Write a manifest; its path as metadata has it."""
        return self._write(f"{self._unique}-m{next(self._numbers)}.avro", data)

    def write_list(self, manifests: list[Manifest]) -> str:
        """Write a manifest list; its path as metadata has it."""
        data = avro.encode_list(manifests, self.version, self.codec, legacy=self._legacy)
        path = self._write(f"snap-{next(self._numbers)}-{self._unique}.avro", data)
        self._cached(path, lambda: list(map(dict, manifests)))  # the next commit of this process begins with it
        return path

    def write_other(self, path: str, data: bytes) -> None:
        """Write a file in this directory that is no manifest."""
        self._io.make_dir(self.path)
        self._io.write_bytes(path, data)

    def _write(self, name: str, data: bytes) -> str:
        path = f"{self.path}/{name}"
        self._io.make_dir(self.path)
        self._io.write_bytes(path, data)
        self.written.append(path)
        return self.spelled(path)

    def _cached(self, path: str, load: Callable[[], list[Manifest]]) -> list[Manifest]:
        """The manifests of a list, which never changes. None of them may be changed."""
        return METADATA_CACHE.get_or_load((self._io, self._here(path), _LIST), load, lambda m: _WEIGHT * (1 + len(m)))

    def _here(self, path: str) -> str:
        name = path.rsplit("/", 1)[-1]
        return f"{self.path}/{name}"


def _check(metadata: Metadata, path: str) -> None:
    """Raises what `IcebergFolder.read` takes for metadata that can't be followed."""
    if normalise_location(metadata["location"]) == "" or not isinstance(metadata["schemas"], list):
        raise CorruptFileError("no table metadata of Iceberg", path=path)
    int(metadata["last-column-id"])
    str(metadata["table-uuid"])
    for snapshot in metadata["snapshots"]:
        int(snapshot["snapshot-id"])
        str(snapshot["manifest-list"])
        dict(snapshot["summary"])


def _text(metadata: Metadata) -> bytes:
    return json.dumps(metadata).encode()


def _directory(root: str, options: TableOptions) -> str:
    database, _, name = root.rpartition("/")
    where = options.get("metadata.iceberg.storage-location")
    if where is None:
        where = "table-location" if options.get(STORAGE) == "table-location" else "catalog-location"
    if where == "table-location":
        return f"{root}/metadata"
    warehouse, _, folder = database.rpartition("/")
    if not folder.endswith(".db"):
        raise UnsupportedError(
            f"{STORAGE}={options.get(STORAGE)} needs a table in the directory of a database, NAME.db",
            path=root,
            hint="set metadata.iceberg.storage-location=table-location",
        )
    return f"{warehouse}/iceberg/{folder.removesuffix('.db')}/{name}/metadata"
