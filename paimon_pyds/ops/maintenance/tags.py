"""Tags: names that keep a snapshot readable after it has expired.

The creation of a tag writes it first, and then checks that its snapshot stays; expiry announces itself first, by the
hint EARLIEST, and then reads the tags. The deletion of a tag removes the files that nothing else needs. With
``tag.create-success-file`` a file announces each new tag to waiting jobs. (Sources: Paimon documentation,
maintenance/manage-tags; Java Paimon 1.4, classes TagManager, TagTimeExpire, SuccessFileTagCallback.)
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.option import integer, parse_duration_ms, text
from paimon_pyds.base.options.times import past_ms, time_ms
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.commit.publisher import on_newest
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitError,
    NotFoundError,
    OptionError,
    SnapshotNotFoundError,
    StorageError,
    TagNotFoundError,
)
from paimon_pyds.metadata.intents import expiring_before, is_purged_now, purged_now
from paimon_pyds.metadata.json_text import JsonObject, to_java_json
from paimon_pyds.metadata.snapshot import TAG_CREATED, TAG_MEMBERS, TAG_RETAINED, Snapshot, parse_snapshot
from paimon_pyds.metadata.store import TableStore, is_file_name
from paimon_pyds.ops.maintenance.expire import maintenance_options, merged
from paimon_pyds.ops.maintenance.references import (
    Reference,
    ReferencedFiles,
    changelog_references,
    has_changelog,
    references_elsewhere,
    settling,
    tag_references,
)
from paimon_pyds.ops.maintenance.removal import Removal, RemovalSummary, threads_of
from paimon_pyds.ops.maintenance.success_file import SUCCESS, write_success_file
from paimon_pyds.storage import discard, is_file, scheme_of

_CHANGELOG = frozenset({"changelogManifestList", "changelogManifestListSize", "changelogRecordCount"})
_TRIES = 10
"""How often it starts over after other processes changed the same files: more often is no accident."""


@dataclass(frozen=True, slots=True)
class TagOptions:
    """The arguments of ``table.tags.create``, which explains them."""

    snapshot: int | None = None
    timestamp: date | str | int | None = None
    retain: str | timedelta | None = None
    replace: bool = False
    dry_run: bool = False


def create_tag(store: TableStore, name: str, how: TagOptions) -> Snapshot:
    """Make a tag; the snapshot that it keeps.

    Raises:
        AlreadyExistsError: there is a tag of this name.
        SnapshotNotFoundError: the snapshot does not exist, or is expiring; no tag is made then.
        CommitError: the table is purged just now; no tag is made.
        OptionError: not a name for a tag, or contradicting arguments.
        StorageError: the tag was created, but not its success file; replace the tag.
    """
    check_tag_name(name)
    if how.snapshot is not None and how.timestamp is not None:
        raise OptionError("a tag is made of a snapshot or of a time, not of both")
    options = maintenance_options(store, None)

    def once(*_: object) -> tuple[Snapshot, Snapshot | None]:
        return _created(store, name, how, options)

    newest = how.snapshot is None and how.timestamp is None
    source, replaced = on_newest(store, once) if newest else once()
    if not how.dry_run and options.get("tag.create-success-file"):
        write_success_file(store, _success_file(store, name))
    if replaced is not None and replaced != source:
        _remove_state(store, replaced, options)
    return source


def _created(store: TableStore, name: str, how: TagOptions, options: TableOptions) -> tuple[Snapshot, Snapshot | None]:
    """The snapshot of a new tag, and the tag's former one. Raises as `create_tag`."""
    source, path = _source(store, how.snapshot, how.timestamp)
    retained_ms = _retained_ms(how.retain, options)
    data, target = tag_file(store, path, retained_ms), store.paths.tag(name)
    taken = AlreadyExistsError(
        f"there is a tag {name!r}", path=store.root, hint="replace it, delete it first, or take another name"
    )
    before = None
    if how.replace and name in store.tag_names():
        with suppress(FileNotFoundError):  # deleted since it was listed
            before = store.io.read_bytes(target)
    if how.dry_run:
        if before is None and name in store.tag_names():
            raise taken
        return source, None
    if before is not None:
        store.io.replace(target, data)
    elif not _made_by_server(store, name, source, path, retained_ms) and not _create(store, target, data):
        raise taken
    purged = is_purged_now(store)
    if purged or not _stays(store, source, path, target):
        _put_back(store, target, before)
        if purged:
            raise purged_now(store)
        raise SnapshotNotFoundError(
            f"snapshot {source.id} is expiring and can't be tagged", path=store.root, hint="tag a newer one"
        )
    return source, None if before is None else parse_snapshot(before, target)


def _put_back(store: TableStore, target: str, before: bytes | None) -> None:
    """Take away a tag again: it is as it was, unless it was deleted meanwhile, with its files."""
    if before is None or not is_file(store.io, target):
        return store.io.delete([target])
    store.io.replace(target, before)
    if not is_file(store.io, store.paths.manifest(parse_snapshot(before, target).base_manifest_list)):
        store.io.delete([target])


def _success_file(store: TableStore, name: str) -> str:
    return f"{store.paths.tag_dir}/tag-success-file/{name}{SUCCESS}"


def discard_success_files(store: TableStore, names: Sequence[str]) -> None:
    """Remove the success files of tags that are gone."""
    if TableOptions(store.schema_read_last().options).get("tag.create-success-file"):
        discard(store.io, [_success_file(store, name) for name in names])


def check_tag_name(name: str) -> None:
    """Raises OptionError for what can't be the name of a tag."""
    if not text("name", name).strip() or not is_file_name(name):
        raise OptionError(f"{name!r:.100} is no name for a tag", hint="a name is not blank and has no slash")


def _retained_ms(retain: str | timedelta | None, options: TableOptions) -> int | None:
    if retain is None:
        default = options.get("tag.default-time-retained")
        return None if default is None else int(default)
    if isinstance(retain, timedelta):
        return int(retain.total_seconds() * 1000)
    return parse_duration_ms(text("retain", retain), "retain")


def _source(store: TableStore, id_: int | None, timestamp: Any) -> tuple[Snapshot, str]:
    """The snapshot to tag, and the file that has it: the snapshot's own, or that of another tag."""
    if timestamp is not None:
        found: Snapshot | None = store.snapshot_at(time_ms("timestamp", timestamp))
    elif id_ is None:
        found = store.latest_snapshot()
    else:
        return numbered_state(store, integer("snapshot", id_))
    if found is None:
        raise SnapshotNotFoundError("there is nothing to tag: nothing was committed to the table yet", path=store.root)
    return found, store.paths.snapshot(found.id)


def numbered_state(store: TableStore, id_: int) -> tuple[Snapshot, str]:
    """The snapshot of a number, and the file that has it: its own, or that of a tag which has outlived it.

    Raises SnapshotNotFoundError.
    """
    if not store.snapshot_exists(id_):
        for name, tagged in store.tags().items():
            if tagged.id == id_:
                return tagged, store.paths.tag(name)
    return store.snapshot(id_), store.paths.snapshot(id_)


def tag_file(store: TableStore, path: str, retained_ms: int | None) -> bytes:
    """The content of a tag: without a retention, that of the snapshot file, as older readers know nothing else.
    ``path``: of the snapshot file, or of another tag. ``retained_ms``: for how long the tag lives."""
    try:
        members = JsonObject(store.io.read_bytes(path), path).members
    except FileNotFoundError as error:
        raise store.missing(path) from error
    for member in TAG_MEMBERS:
        members.pop(member, None)
    if retained_ms is not None:
        now = datetime.now()  # on this machine's clock, as Java has it
        members[TAG_CREATED] = [now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond * 1000]
        members[TAG_RETAINED] = retained_ms / 1000
    return to_java_json(members).encode()


def snapshot_file(store: TableStore, path: str) -> bytes:
    """The snapshot file made from a tag. Tags keep no changelog: if it went with the first snapshot, this one has
    none."""
    data = tag_file(store, path, None)
    if has_changelog(store, parse_snapshot(data, path)):
        return data
    members = json.loads(data)
    members |= dict.fromkeys(_CHANGELOG & members.keys())
    return to_java_json(members).encode()


def _create(store: TableStore, path: str, data: bytes) -> bool:
    try:
        return store.io.create_if_absent(path, data)
    except StorageError:
        if store.io.exists(path) and store.io.read_bytes(path) == data:
            return True  # the storage failed after all was done
        raise


def _made_by_server(store: TableStore, name: str, source: Snapshot, path: str, retained_ms: int | None) -> bool:
    """Whether the table's catalog has made the tag, and its file; it knows snapshots only, no other tags' ones."""
    server = store.server if path == store.paths.snapshot(source.id) else None
    return server is not None and server.create_tag(store, name, source, retained_ms)


def _stays(store: TableStore, snapshot: Snapshot, path: str, target: str) -> bool:
    """Whether the files of a snapshot that was just tagged are surely still there, and will be."""
    if path != store.paths.snapshot(snapshot.id):
        return path == target or store.io.exists(path)
    return expiring_before(store) <= snapshot.id and store.snapshots_among([snapshot.id]) == [snapshot]


def rename_tag(store: TableStore, name: str, new_name: str, *, dry_run: bool = False) -> Snapshot:
    """Give a tag another name, or only look whether it can be done; the snapshot that it keeps.

    Raises:
        TagNotFoundError: there is no such tag.
        AlreadyExistsError: the new name is taken.
        OptionError: it is no name for a tag.
    """
    check_tag_name(new_name)
    snapshot = store.tag(text("tag", name))
    if new_name in store.tag_names():
        raise AlreadyExistsError(f"there is a tag {new_name!r}", path=store.root, hint="delete it first")
    if not dry_run:
        _rename(store, name, new_name)
        if maintenance_options(store, None).get("tag.create-success-file"):
            write_success_file(store, _success_file(store, new_name))
            discard_success_files(store, [name])
    return snapshot


def _rename(store: TableStore, name: str, new_name: str) -> None:
    old, new = store.paths.tag(name), store.paths.tag(new_name)
    gone = TagNotFoundError(f"the tag {name!r} was deleted or renamed just now", path=store.root)
    try:
        if scheme_of(old) == "file":
            store.io.rename(old, new)
            return
        # In a store the new name comes first, and never in the place of a tag that was made meanwhile
        made = store.io.create_if_absent(new, store.io.read_bytes(old))
    except FileNotFoundError as error:
        raise gone from error
    if not made:
        raise AlreadyExistsError(f"there is a tag {new_name!r}", path=store.root, hint="delete it first")
    if not is_file(store.io, old):
        store.io.delete([new])
        raise gone
    store.io.delete([old])


def delete_tag(store: TableStore, name: str, *, dry_run: bool = False, without: Collection[str] = ()) -> RemovalSummary:
    """Delete a tag, and the files that only it needed. ``without``: tags that a dry run takes for gone already.

    Raises TagNotFoundError, with similar names; NotFoundError where other tags or branches are damaged.
    """
    started = time.monotonic()
    options = maintenance_options(store, None)
    snapshot = store.tag(text("tag", name))
    removal = _unneeded(store, snapshot, threads_of(options), {name, *without})  # fails before anything is gone
    if not dry_run and (store.server is None or not store.server.delete_tag(store, name)):
        store.io.delete([store.paths.tag(name)])
        discard_success_files(store, [name])
        removal = _remove_state(store, snapshot, options)
    return replace(removal.summary(tags=(name,)), seconds=time.monotonic() - started, dry_run=dry_run)


def _others(store: TableStore, snapshot: Snapshot, except_tags: Collection[str] = ()) -> list[Reference]:
    """The states that may need files of a tagged snapshot: its neighbours, earlier changelogs, and other branches."""
    tags = [tag for tag in tag_references(store) if tag.tag not in except_tags]
    same = [tag for tag in tags if tag.snapshot.id == snapshot.id]
    before = [tag for tag in tags if tag.snapshot.id < snapshot.id][-1:]
    after = [tag for tag in tags if tag.snapshot.id > snapshot.id][:1]
    ids = store.snapshot_ids()
    neighbours = [id_ for id_ in ids if id_ <= snapshot.id][-1:] + [id_ for id_ in ids if id_ > snapshot.id][:1]
    found = (s for id_ in neighbours for s in store.snapshots_between(id_, id_))
    snapshots = [Reference(store.branch, f"snapshot {s.id}", s, True) for s in found]
    earlier = changelog_references(store, snapshot.id)
    return [*same, *before, *after, *snapshots, *earlier, *references_elsewhere(store)]


def _unneeded(store: TableStore, snapshot: Snapshot, threads: int, except_tags: Collection[str] = ()) -> Removal:
    """The files of a state that nothing else needs."""
    settled = settling()
    for _ in range(_TRIES):
        removal, others = Removal(store, threads), _others(store, snapshot, except_tags)
        if any(other.snapshot == snapshot and not other.is_changelog for other in others):
            return removal
        removal.add_live(snapshot)
        removal.add_metadata([snapshot], changelogs=False)
        try:
            removal.keep(ReferencedFiles(store, others))
        except NotFoundError as error:
            failure = error
        else:
            if _others(store, snapshot, except_tags) == others:
                return removal
            continue
        begun = expiring_before(store)
        if begun > snapshot.id:  # an expiry that has begun has left older snapshots in part
            first = [id_ for id_ in store.snapshot_ids() if id_ >= begun][:1]
            staying = [Reference(store.branch, f"snapshot {s.id}", s, True) for s in store.snapshots_among(first)]
            with suppress(NotFoundError):
                if staying:
                    kept = [o for o in others if not o.is_snapshot or o.branch != store.branch]
                    removal.keep(ReferencedFiles(store, [*kept, *staying]))
                    return removal
        if _others(store, snapshot, except_tags) == others:
            settled.again(failure)
    raise CommitError(
        "tags, branches or snapshots changed again and again during the deletion of a tag",
        path=store.root,
        hint="try again later; if the tag is gone, the files that only it needed are orphan files now",
    )


def _remove_state(store: TableStore, snapshot: Snapshot, options: TableOptions) -> Removal:
    """Remove the files of a state that no tag names any more, as far as nothing else needs them."""
    removal = _unneeded(store, snapshot, threads_of(options))
    removal.delete()
    removal.delete_directories(options)
    return removal


def expire_tags(
    store: TableStore, older_than: timedelta | date | str | int | None = None, *, dry_run: bool = False
) -> RemovalSummary:
    """Delete the tags that have lived for as long as they were made for, and those that are older than a time.

    ``older_than``: milliseconds since the epoch, or a time; a tag that does not say when it was made is as old as
    its file.
    """
    started, total = time.monotonic(), RemovalSummary(dry_run=dry_run)
    limit = None if older_than is None else past_ms("older_than", older_than)
    changed = {status.name: status.modified_ms for status in store.io.list(store.paths.tag_dir)}
    for name in store.tag_names():
        path = store.paths.tag(name)
        try:
            made, seconds = tag_times(store.io.read_bytes(path), path)
            created = changed.get(f"tag-{name}", 0) if made is None else made.timestamp() * 1000
            ends = made is not None and seconds is not None and time.time() * 1000 > created + seconds * 1000
            if ends or (limit is not None and created < limit):
                total = merged(total, delete_tag(store, name, dry_run=dry_run, without=total.tags))
        except (FileNotFoundError, TagNotFoundError):  # deleted meanwhile
            continue
    return replace(total, seconds=time.monotonic() - started)


def tag_times(data: bytes, path: str) -> tuple[datetime | None, float | None]:
    """The creation time of a tag, by its creator's clock, and its retention in seconds; None if the file does not have
    them. Raises CorruptFileError: the file is not JSON, or a member is not a time."""
    json = JsonObject(data, path)
    parts, seconds = json.any_or_none(TAG_CREATED), json.any_or_none(TAG_RETAINED)
    created = None
    if parts is not None:  # Jackson's LocalDateTime: [year, month, day, hour, minute, second?, nanosecond?]
        if not isinstance(parts, list) or not 5 <= len(parts) <= 7 or not all(type(part) is int for part in parts):
            raise json.corrupt("a date and time was expected", TAG_CREATED)
        try:
            created = datetime(*[*parts[:6], *(nanos // 1000 for nanos in parts[6:])])
        except (ValueError, OverflowError) as error:
            raise json.corrupt("a date and time was expected", TAG_CREATED) from error
    if seconds is not None and (type(seconds) not in (int, float) or not 0 <= seconds < 1e15):
        raise json.corrupt("a duration in seconds was expected", TAG_RETAINED)
    return created, seconds
