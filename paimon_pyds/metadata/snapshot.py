"""The snapshot file: ``snapshot/snapshot-N``, and the seam through which it is published (specification: Paimon
documentation, concepts/spec/snapshot)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted
from paimon_pyds.base.text import one_line, utc_text
from paimon_pyds.metadata.json_text import JsonObject, names_in, to_java_json

if TYPE_CHECKING:
    from paimon_pyds.metadata.schema import TableSchema
    from paimon_pyds.metadata.store import TableStore

BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""The commit identifier of every batch commit (Java's Long.MAX_VALUE)."""
NO_WATERMARK = -(2**63)
"""What Java writes where no event has been seen yet."""

TAG_MEMBERS = TAG_CREATED, TAG_RETAINED = "tagCreateTime", "tagTimeRetained"
"""The members that the file of a tag has besides those of its snapshot."""
_CURRENT_VERSION = 3
"""Version of snapshot files that are written."""


class CommitKind(enum.Enum):
    """What a commit did. Do not rely on it alone: a delete by deletion vectors is an OVERWRITE."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"

    @property
    def keeps_rows(self) -> bool:
        """It leaves all rows of the table as they are."""
        return self in (CommitKind.COMPACT, CommitKind.ANALYZE)


class Operation(enum.StrEnum):
    """What a snapshot's member ``operation`` says of commits that are made here (source: Java Paimon 2, class
    Snapshot)."""

    WRITE = "WRITE"
    OVERWRITE = "OVERWRITE"
    DELETE = "DELETE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One state of the table. Times are milliseconds since the epoch; absent members are None.

    ``operation`` is finer than ``commit_kind``, such as ``WRITE`` and ``MERGE``: Java Paimon 2 writes it. ``uuid``
    identifies the latest snapshot in REST catalogs. ``unknown``: the members of the file that this version does not
    know, by name. Copies of a snapshot keep them; the snapshots that follow it have none, as in Java.

    ``total_record_count`` counts stored rows, versions of one key and deleted rows included. ``row_count``, which is in
    no file, is how many a read gives, where that is known: in append tables without deletion vectors.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    base_manifest_list_size: int | None = None
    delta_manifest_list: str
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    log_offsets: dict[str, int] | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: dict[str, str] | None = None
    next_row_id: int | None = None
    writer_version: str | None = None
    operation: str | None = None
    uuid: str | None = None
    version: int = 3
    unknown: Mapping[str, Any] = field(default_factory=dict)
    row_count: int | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        what = self.commit_kind.value if self.operation is None else f"{self.commit_kind.value} ({self.operation})"
        is_exact = self.row_count is not None
        rows = (
            ""
            if self.total_record_count is None
            else counted(self.total_record_count, "row" if is_exact else "stored row")
        )
        change = f" ({self.delta_record_count:+,})" if rows and self.delta_record_count is not None else ""
        parts = (f"{self.id}: {what}", utc_text(self.time_millis), f"{rows}{change}", f"schema {self.schema_id}")
        return one_line(self, *parts)

    def names(self) -> Iterator[str]:
        """Possible names of files in members that this version does not know: the last path parts of all texts."""
        return names_in(self.unknown)

    @property
    def is_blind_append(self) -> bool:
        """It added rows, and its writer surely did not look at the table.

        A MERGE that only inserts is an APPEND too, and differs only in its operation. A commit without an operation,
        such as one of Java Paimon 1, counts as blind if it is a stream's: those have commit numbers.
        """
        if self.commit_kind is not CommitKind.APPEND:
            return False
        if self.operation is not None:
            return self.operation == Operation.WRITE
        return self.commit_identifier != BATCH_COMMIT_IDENTIFIER


def _commit_kind(json: JsonObject, member: str) -> CommitKind:
    kind = json.text(member)
    if kind not in CommitKind.__members__:
        raise json.corrupt(f"not a kind of commit: {kind!r:.40}", member)
    return CommitKind(kind)


def _object_of(kind: type[Any], json: JsonObject, member: str) -> dict[str, Any] | None:
    value = json.object_or_none(member)
    if value is not None and not all(type(v) is kind for v in value.values()):
        raise json.corrupt(f"an object of {'integers' if kind is int else 'strings'} was expected", member)
    return value


_integer, _count, _text = JsonObject.integer_or_none, JsonObject.count_or_none, JsonObject.text_or_none
_READERS: Mapping[str, Callable[[JsonObject, str], Any]] = {
    "version": lambda json, _: json.version("snapshot", _CURRENT_VERSION), "uuid": _text, "id": JsonObject.count,
    "schema_id": JsonObject.count, "base_manifest_list": JsonObject.text, "base_manifest_list_size": _count,
    "delta_manifest_list": JsonObject.text, "delta_manifest_list_size": _count, "changelog_manifest_list": _text,
    "changelog_manifest_list_size": _count, "index_manifest": _text, "commit_user": JsonObject.text,
    "writer_version": _text, "commit_identifier": JsonObject.integer, "commit_kind": _commit_kind,
    "time_millis": JsonObject.integer, "log_offsets": partial(_object_of, int), "total_record_count": _integer,
    "delta_record_count": _integer, "changelog_record_count": _integer, "watermark": _integer, "statistics": _text,
    "properties": partial(_object_of, str), "next_row_id": _count, "operation": _text,
}  # fmt: skip
"""How the members of the file are read, by the names of their attributes and in the order of Java's files."""


@cache
def _json_name(attribute: str) -> str:
    first, *others = attribute.split("_")
    return first + "".join(map(str.capitalize, others))


@cache
def _known_names() -> frozenset[str]:
    return frozenset((*map(_json_name, _READERS), *TAG_MEMBERS))


def parse_snapshot(data: bytes, path: str) -> Snapshot:
    """The snapshot in the bytes of a snapshot or tag file.
    Raises CorruptFileError: not JSON, a member missing or of the wrong type; UnsupportedError: a newer version."""
    json = JsonObject(data, path)
    members = {name: read(json, _json_name(name)) for name, read in _READERS.items()}
    return Snapshot(**members, unknown=json.others(_known_names()))


def snapshot_to_json(snapshot: Snapshot) -> str:
    """The text of a snapshot file, laid out as Java Paimon does it; members that are None are left out."""
    members = {_json_name(name): getattr(snapshot, name) for name in _READERS}
    members["commitKind"] = snapshot.commit_kind.value
    known = {name: value for name, value in members.items() if value is not None}
    return to_java_json({**known, **snapshot.unknown})


class SnapshotPublisher(Protocol):
    """Makes snapshots visible, one at a time: the file system (`paimon_pyds.engine.commit.publisher`), or another that
    decides which snapshot is a table's latest, such as a REST catalog or an object store with conditional writes.

    It pickles, as stores do.
    """

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        """Make a snapshot the latest of its branch, in one atomic step; False when another commit was faster.

        ``store``: names the table and the branch. ``snapshot``: its number is the next after ``latest``; all files that
        it names are written. ``latest``: the snapshot that it was built on; None for a table's first.
        Raises CommitOutcomeUnknownError: it may have been published; PaimonError: it was not published.
        """

    def after_publish(self, store: TableStore, snapshot: Snapshot) -> None:
        """Bring the catalog's entry of the table up to date with a published snapshot. Errors are logged.

        `publish` calls it. So does a caller that finds the snapshot published by an earlier process, which may have
        died before this.
        """

    def latest_snapshot(self, store: TableStore) -> Snapshot | None:
        """The latest snapshot of the store's branch; None when nothing was ever committed."""

    @property
    def server(self) -> TableServer | None:
        """What makes tags, branches and rollbacks; None where files are all there is."""

    def alter(self, store: TableStore, old: TableSchema, new: TableSchema) -> TableSchema | None:
        """Have a catalog make the changes that lead from one schema to another; the schema that came of it. None where
        schemas are files only."""

    def was_replaced(self, store: TableStore, snapshot: Snapshot) -> bool:
        """Whether there is another snapshot in the place of one that `publish` has published."""


class TableServer(Protocol):
    """Changes of a table that its catalog makes itself, rather than its clients by files.

    All, and `SnapshotPublisher.alter`, raise CommitOutcomeUnknownError where the change may have been made,
    UnsupportedError where the catalog has no such request, and other PaimonErrors where it refuses.
    """

    def create_tag(self, store: TableStore, name: str, snapshot: Snapshot, retained_ms: int | None) -> bool:
        """Make a tag; whether its file is there then. False where the catalog has no tags, or keeps them elsewhere."""

    def delete_tag(self, store: TableStore, name: str) -> bool:
        """Delete a tag with the files that only it needs; whether its file is gone then."""

    def create_branch(self, store: TableStore, name: str, tag: str | None) -> None:
        """Make a branch of a tag; without one it has the columns only."""

    def delete_branch(self, store: TableStore, name: str) -> None:
        """Delete a branch; files that only it needed stay."""

    def rename_branch(self, store: TableStore, name: str, new_name: str) -> None:
        """Give a branch another name."""

    def fast_forward(self, store: TableStore, name: str, target: Snapshot) -> None:
        """Put a branch, whose latest snapshot is the target, in the place of the store's."""

    def rollback(self, store: TableStore, target: Snapshot, tag: str | None) -> None:
        """Make a snapshot, or a tag with that snapshot, the latest state."""
