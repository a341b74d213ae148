"""A copy of one state of a table, as a table of its own: all files that the state needs, and new manifests of them.

Nothing is a table until its directory ``schema`` is there, and that comes last, in one step, by its name; in object
stores the newest schema comes first, and a reader that needs an older one meanwhile fails.
(Source: Paimon documentation, concepts/spec/overview: which file names which.)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.options import TableOptions, check_readable
from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted, human_bytes, redact, without_secrets
from paimon_pyds.base.text import Summary, summary_text
from paimon_pyds.engine.commit.manifests import ManifestWriter
from paimon_pyds.engine.commit.publisher import on_newest, removing_unfinished
from paimon_pyds.engine.execution.live_files import live_of, partition_condition
from paimon_pyds.engine.scan.other_branch import other_branch
from paimon_pyds.engine.scan.planned_files import file_locations, index_file_paths
from paimon_pyds.engine.write.rolling import PACKS_SUFFIX
from paimon_pyds.errors import AlreadyExistsError, OptionError, PaimonError, UnsupportedError
from paimon_pyds.metadata.manifest import IndexEntry
from paimon_pyds.metadata.partition import partitions_meeting
from paimon_pyds.metadata.paths import lies_below
from paimon_pyds.metadata.record_codec import encode_index_manifest, encode_manifest_list
from paimon_pyds.metadata.schema import TableSchema, schema_to_json, utf8_bytes
from paimon_pyds.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Operation, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.expire import maintenance_options
from paimon_pyds.ops.maintenance.removal import threads_of
from paimon_pyds.ops.maintenance.rollback import named_state
from paimon_pyds.sql.predicate.tree import Predicate
from paimon_pyds.storage import FileIO, discard, scheme_of
from paimon_pyds.storage.claims import claim_text, is_left_over, owner_text
from paimon_pyds.storage.concurrent import concurrent_each

if TYPE_CHECKING:
    from paimon_pyds.ops.maintenance.clone_blobs import PackedFile

_BYTES_AT_ONCE = 8 << 20
_EXTERNAL = "data-file.external-paths"
_LOCK = ".clone-lock"
"""A file in the target directory during a clone: only the process that created it may write there."""
_PARTS = frozenset({"manifest", "snapshot", "index", "statistics"})


@dataclass(frozen=True, slots=True, repr=False)
class CloneSummary(Summary):
    """The files that were, or would be, copied.

    Attributes:
        snapshot_id: the state, whose number the only snapshot of the copy has; None for a table without a snapshot.
        files: data files, with indexes, deletion vectors, BLOBs and statistics.
        bytes: of the data files, of packs of BLOBs, and of the index files of the table.
        seconds: time taken.
        dry_run: nothing was copied.
    """

    snapshot_id: int | None
    files: int
    bytes: int
    seconds: float
    dry_run: bool

    def __str__(self) -> str:
        verb = "would be copied" if self.dry_run else "copied"
        what = f"{counted(self.files, 'file')} ({human_bytes(self.bytes)}) {verb}"
        return summary_text(self.snapshot_id, [what], self.seconds)


@dataclass(frozen=True, slots=True)
class CloneOptions:
    """The arguments of ``table.maintenance.clone``, which explains them."""

    snapshot: int | str | None = None
    tag: str | None = None
    timestamp: Any = None
    dry_run: bool = False
    where: str | Predicate | None = None

    @property
    def is_newest(self) -> bool:
        """Whether no state is named."""
        return self.snapshot is None and self.tag is None and self.timestamp is None


def clone(store: TableStore, target: TableStore, how: CloneOptions) -> CloneSummary:
    """Copy a state of a table to an empty place, or one where the same call was killed on this machine.

    Raises:
        AlreadyExistsError: something is in that place.
        OptionError: the place is in the table, contradicting arguments, or a condition on other columns.
        SnapshotNotFoundError: there is no such state, or it expired while it was copied, the newest one again and
            again; nothing is left of the copy.
        StorageError: a file could not be copied; nothing is left of the copy.
        UnsupportedError: an option that is refused by name, such as one that takes rows of a branch, which the copy
            would not have.
    """
    started = time.monotonic()
    summary = (
        on_newest(store, lambda newest, _: _cloned(store, target, how))
        if how.is_newest
        else _cloned(store, target, how)
    )
    return replace(summary, seconds=time.monotonic() - started)


def _check_alone(store: TableStore) -> None:
    named = other_branch(TableOptions(store.latest_schema().options), store.branch)
    if named is not None:
        raise UnsupportedError(
            f"partitions of this table come from branch {named.name!r} too, which a copy would not have",
            path=store.root,
            hint="unset scan.fallback-branch or scan.primary-branch, and clone each branch",
            feature="branches-of-partitions",
        )


def _cloned(store: TableStore, target: TableStore, how: CloneOptions) -> CloneSummary:
    options = maintenance_options(store, None)
    check_readable(store.latest_schema())
    _check_alone(store)
    snapshot, newest = _state(store, how)
    if lies_below(f"{target.root}/", [store.root]):
        raise OptionError("the copy would be inside of the table", path=target.root, hint="name another directory")
    state = (how.snapshot, how.tag, str(how.timestamp), *([] if how.where is None else [str(how.where)]))
    call = f"clone of {redact(store.root)}, branch {store.branch}, state {state}"
    copy = _Copy(store, target, options, claim_text(call))
    if snapshot is not None:
        copy.gather(snapshot, how.where)
    if target.io.list(target.root):
        copy.take_away_left_over(call, dry_run=how.dry_run)
    if not how.dry_run:
        with removing_unfinished(copy.remove):
            copy.write(snapshot, newest)
    id_ = None if snapshot is None else snapshot.id
    return CloneSummary(id_, len(copy.files), copy.bytes, 0.0, how.dry_run)


def _state(store: TableStore, how: CloneOptions) -> tuple[Snapshot | None, int]:
    """The state, and the number of the newest schema that goes with it."""
    if how.is_newest:
        return store.latest_snapshot(), store.latest_schema().id
    snapshot, _ = named_state(store, how.snapshot, how.tag, how.timestamp)
    return snapshot, snapshot.schema_id


class _Copy:
    """Copies of files: ``files`` are the paths here and there."""

    def __init__(self, store: TableStore, target: TableStore, options: TableOptions, claim_text: bytes) -> None:
        self._store, self._target, self._options, self._claim_text = store, target, options, claim_text
        self._made: list[str] = []
        self._entries: pa.RecordBatch | None = None
        self._indexes: Sequence[IndexEntry] = ()
        self._rows: int | None = None  # of some partitions
        self._packed: dict[str, PackedFile] = {}
        self._paths: list[str] = []  # of the entries' files, in their order
        self._copied: dict[str, int] = {}  # sizes of copies
        self.files: dict[str, str] = {}
        self.bytes = 0

    def gather(self, snapshot: Snapshot, where: str | Predicate | None) -> None:
        """Find the files of a state, of the partitions that match a condition. Those outside of the table come into the
        copy."""
        store = self._store
        schema = store.schema(snapshot.schema_id)
        entries = live_of(store, snapshot)
        indexes = () if snapshot.index_manifest is None else store.read_index_manifest(snapshot.index_manifest)
        if where is not None:
            partitions = {*entries["partition"].to_pylist(), *(entry.partition for entry in indexes)}
            kept = partitions_meeting(schema, partition_condition(schema, where, "clone"))(sorted(partitions))
            entries = entries.filter(pc.is_in(entries["partition"], array(sorted(kept), pa.binary())))
            indexes = [entry for entry in indexes if entry.partition in kept]
            self._rows = pc.sum(entries["row_count"]).as_py() or 0
        at = entries.schema.get_field_index("external_path")
        inside = entries.set_column(at, entries.schema.field(at), pa.nulls(entries.num_rows, pa.string()))
        self._entries, self._paths = inside, [*file_locations(store, schema, entries).paths]
        places = zip(self._paths, file_locations(store, schema, inside).paths, strict=True)
        for number, ((path, place), beside) in enumerate(zip(places, entries["extra_files"].to_pylist(), strict=True)):
            self._add(path, place)
            for name in beside:
                self._add(store.paths.extra_file(path, name), store.paths.extra_file(place, name))
            if any(name.endswith(PACKS_SUFFIX) for name in beside) and not path.endswith(".row"):
                self._add_packed(inside.slice(number, 1), path)
        self._indexes = [replace(entry, external_path=None) for entry in indexes]
        for path, place in zip(
            index_file_paths(store, schema, indexes), index_file_paths(store, schema, self._indexes), strict=True
        ):
            self._add(path, place)
        if snapshot.statistics is not None and where is None:  # they are about all partitions
            path = store.paths.statistics(snapshot.statistics)
            self._add(path, path)
        self.bytes += (pc.sum(entries["file_size"]).as_py() or 0) + sum(entry.file_size for entry in self._indexes)

    def _add(self, path: str, place: str) -> None:
        self.files[path] = f"{self._target.root}{place[len(self._store.root) :]}"

    def _add_packed(self, entry: pa.RecordBatch, path: str) -> None:
        """A data file whose copy gets descriptors of the packs that are copied with it."""
        from paimon_pyds.ops.maintenance.clone_blobs import packed_file  # few tables have such

        schema_id, level, size = (entry[name][0].as_py() for name in ("schema_id", "level", "file_size"))
        schema, file = self._store.schema(schema_id), (path, size)
        packed = packed_file(self._store, schema, level, file, self.files[path], self._target.root)
        if packed.packs:
            self._packed[path] = packed
            self.bytes += sum(self._store.io.size(pack) for pack in packed.packs if pack not in self.files)
            self.files |= packed.packs

    def take_away_left_over(self, call: str, *, dry_run: bool) -> None:
        """Empty the place, if the same call was killed there before there was a table. Raises AlreadyExistsError."""
        io, root = self._target.io, self._target.root
        names = {entry.name for entry in io.list(root)}
        locks = [name for name in names if name.startswith(_LOCK)]
        if "schema" in names or len(locks) != 1:
            raise AlreadyExistsError("the target directory is not empty", path=root, hint="remove its files")
        lock, taken = f"{root}/{locks[0]}", f"{root}/{_LOCK}.{uuid.uuid4()}"
        made = {place[len(root) + 1 :].partition("/")[0] for place in self.files.values()}
        others = {name for name in names - made - _PARTS - {*locks} if not name.startswith(".schema.")}
        found = io.read_bytes(lock)
        if others or scheme_of(root) != "file" or not is_left_over(found, call):
            raise AlreadyExistsError(
                f"a copy is being made here, or was left unfinished, by {owner_text(found)}; there is no table yet",
                path=root,
                hint="if that process has ended, remove this directory with its content, and clone again",
            )
        if dry_run:
            return
        io.rename(lock, taken)  # one of several calls does it
        for name in sorted(names - {*locks}):
            io.delete_tree(f"{root}/{name}")
        io.delete([taken])

    def write(self, snapshot: Snapshot | None, newest: int) -> None:
        """Write all of it: files, manifests, the snapshot, the schemas."""
        lock = self._locked()
        with phase("copying", bytes=self.bytes, files=len(self.files)) as step:

            def one(pair: tuple[str, str]) -> None:
                size = self._copied[pair[0]] = self._copy(*pair)
                step.advance(files=1, bytes=size)

            concurrent_each(one, list(self.files.items()), threads_of(self._options))
        if snapshot is not None:
            data = self._snapshot(snapshot)
            if not self._target.try_create_snapshot(data):
                del self._made[-2:]  # they are of somebody else
                raise AlreadyExistsError(
                    "another table is being created in the target directory", path=self._target.root
                )
        self._write_schemas(newest)
        discard(self._target.io, [lock])

    def _locked(self) -> str:
        """The file that keeps other copies out of the place, which must be empty still."""
        io, root = self._target.io, self._target.root
        lock = f"{root}/{_LOCK}"
        try:
            created = io.create_if_absent(lock, self._claim_text)
        except BaseException:
            with suppress(PaimonError, OSError):  # its answer may be all that was lost
                if io.read_bytes(lock) == self._claim_text:
                    self._made.append(lock)
            raise
        if not created:
            raise AlreadyExistsError("another copy is being made here", path=root, hint="wait for its end")
        self._made.append(lock)
        if any(not entry.name.startswith(".") for entry in io.list(root)):
            raise AlreadyExistsError("the target directory has another table by now", path=root)
        return lock

    def _copy(self, path: str, place: str) -> int:
        listed = self._packed.get(path.removesuffix(PACKS_SUFFIX))
        if listed is not None:
            self._made.append(place)
            return (listed.write if path == listed.path else listed.write_references)(self._target.io, place)
        try:
            source = self._store.io.open_input(path)
        except FileNotFoundError as error:
            raise self._store.missing(path) from error
        with source:
            output = self._target.io.open_output(place)
            self._made.append(place)
            try:
                while chunk := source.read(_BYTES_AT_ONCE):
                    output.sink.write(chunk)
            except BaseException:
                output.abort()
                raise
            return output.close()

    def _snapshot(self, snapshot: Snapshot) -> Snapshot:
        """The only snapshot of the copy: it adds all files."""
        target, codec = self._target, str(self._options.get("manifest.compression"))
        assert self._entries is not None, "a state is gathered before it is written"
        at = self._entries.schema.get_field_index("file_size")
        sizes = array([self._copied[path] for path in self._paths], pa.int64())
        entries = self._entries.set_column(at, self._entries.schema.field(at), sizes)
        writer = ManifestWriter(target, self._options, self._store.schema(snapshot.schema_id))
        names = writer.written
        try:
            lists = []
            for number, manifests in enumerate(([], writer.write(entries))):
                data = encode_manifest_list(manifests, codec)
                lists.append(target.write_manifest_list(data, str(uuid.uuid4()), number))
                names.append(lists[-1][0])
            index_manifest = None
            if self._indexes:
                index_manifest, _ = target.write_index_manifest(encode_index_manifest(self._indexes, codec))
                names.append(index_manifest)
        finally:
            self._made += [target.paths.manifest(name) for name in names]
        paths = target.paths
        self._made += [paths.snapshot(snapshot.id), paths.latest_hint]
        is_whole = self._rows is None
        rows = snapshot.total_record_count if is_whole else self._rows
        return replace(
            snapshot,
            base_manifest_list=lists[0][0],
            base_manifest_list_size=lists[0][1],
            delta_manifest_list=lists[1][0],
            delta_manifest_list_size=lists[1][1],
            changelog_manifest_list=None,
            changelog_manifest_list_size=None,
            changelog_record_count=None,
            index_manifest=index_manifest,
            commit_user=str(uuid.uuid4()),
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            commit_kind=CommitKind.OVERWRITE,
            operation=Operation.OVERWRITE.value,
            uuid=None,
            writer_version=None,
            time_millis=max(int(time.time() * 1000), snapshot.time_millis),
            total_record_count=rows,
            delta_record_count=rows,
            statistics=snapshot.statistics if is_whole else None,
        )

    def _write_schemas(self, newest: int) -> None:
        io, paths = self._target.io, self._target.paths
        ids = [id_ for id_ in self._store.schema_ids() if id_ <= newest]
        if scheme_of(paths.schema_dir) != "file":  # directories can't be renamed: the newest schema first
            for id_ in reversed(ids):
                self._made.append(paths.schema(id_))
                if not self._target.try_create_schema(_for_another_place(self._store.schema(id_))):
                    self._made.pop()
                    raise AlreadyExistsError(
                        "another table was created in the target directory", path=self._target.root
                    )
            self._keep_all_but_lock()
            return
        temporary = f"{self._target.root}/.schema.{uuid.uuid4()}.tmp"
        try:
            for id_ in ids:
                text = schema_to_json(_for_another_place(self._store.schema(id_)))
                io.write_bytes(f"{temporary}/schema-{id_}", utf8_bytes(text, "a schema file"))
            io.rename(temporary, paths.schema_dir)
            self._keep_all_but_lock()
        except BaseException as error:
            is_renamed = _is_renamed(io, temporary, paths.schema(newest))
            if is_renamed:
                self._keep_all_but_lock()
            else:
                with suppress(PaimonError, OSError):
                    io.delete_tree(temporary)
            if not (is_renamed and isinstance(error, Exception)):
                raise

    def _keep_all_but_lock(self) -> None:
        """The copy is a table by now, whatever happens: readers may have found it."""
        del self._made[1:]

    def remove(self) -> None:
        """Remove what was written and is no table yet, and the directories that are empty then; best effort."""
        io, root = self._target.io, self._target.root
        discard(io, self._made)
        directories = {path.rpartition("/")[0] for path in self._made}
        while directories:
            above = set()
            for directory in sorted(directories, key=len, reverse=True):
                with suppress(PaimonError, OSError):
                    io.remove_empty_dir(directory)
                if len(directory) > len(root):
                    above.add(directory.rpartition("/")[0])
            directories = above


def _is_renamed(io: FileIO, temporary: str, schema: str) -> bool:
    """Whether a rename that failed was done."""
    try:
        return io.exists(schema) and not io.exists(temporary)
    except PaimonError:
        return False


def _for_another_place(schema: TableSchema) -> TableSchema:
    """Without secrets, as others may read it there, and without the options that name places of the table: where a
    schema has ``path``, Java Paimon goes by it."""
    kept = without_secrets(schema.options)
    options = {key: value for key, value in kept.items() if key != "path" and not key.startswith(_EXTERNAL)}
    return replace(schema, options=options)
