"""The differences between two states of a table: schema, options, files, and rows (`diff_rows`), which are read on
demand.

Rows are compared by the columns of the newer schema, as scans of both states by that schema give them: columns are
matched by field id, and one that a state did not have yet is NULL there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.options import TableOptions, check_branch, check_readable, check_whole_rows
from paimon_pyds.base.options.option import integer
from paimon_pyds.base.options.times import time_ms
from paimon_pyds.base.progress import shown as progress_shown
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row_stream import RowStream
from paimon_pyds.base.secrets import counted, human_bytes, shown, visible
from paimon_pyds.base.text import one_line, whole_number
from paimon_pyds.base.types import DataField, DataType, RowType, arrow_schema
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.engine.scan.planned_files import file_locations, renewed_files
from paimon_pyds.engine.scan.travel import TableState, resolve_state
from paimon_pyds.errors import ArgumentTypeError, SnapshotNotFoundError
from paimon_pyds.keys.merge.key_values import ROW_KINDS, ROWKIND, VALUE_KIND
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.diff_rows import States

if TYPE_CHECKING:
    from paimon_pyds.typing import Progress

StateName: TypeAlias = "int | str | datetime"
_COLUMNS = (
    "kind", "partition", "bucket", "level", "file_name", "row_count", "file_size", "schema_id", "extra_files",
    "external_path",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs, as text; None where a state has no such thing.

    Attributes:
        what: ``column``, ``column name``, ``type``, ``comment``, ``order of columns`` or ``option``.
        name: of the column, as ``a.b`` for one inside of a ROW, or of the option.
        before: what it was.
        after: what it is.
    """

    what: str
    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        subject = visible(f"{self.what} {self.name}".strip())
        if self.before is None:
            return f"{subject} added: {visible(self.after or '')}"
        if self.after is None:
            return f"{subject} removed: {visible(self.before)}"
        return f"{subject}: {visible(self.before)} -> {visible(self.after)}"


@dataclass(frozen=True)
class DiffSummary:
    """What two states differ by, in numbers.

    Attributes:
        before, after: the states.
        schema, options: changes of columns and of options.
        rows_inserted, rows_deleted, rows_updated: rows; those of a table without a primary key are never updated.
        files_added, files_removed: data files, with their ``bytes_added`` and ``bytes_removed``.
        vectors_changed: data files of both states that have other deletion vectors.
        seconds: time taken.
    """

    before: str
    after: str
    schema: tuple[Change, ...]
    options: tuple[Change, ...]
    rows_inserted: int
    rows_deleted: int
    rows_updated: int
    files_added: int
    bytes_added: int
    files_removed: int
    bytes_removed: int
    vectors_changed: int
    seconds: float

    @property
    def differs(self) -> bool:
        """Whether rows, columns or options differ; other files with the same rows are no difference."""
        return bool(self.schema or self.options or self.rows_inserted or self.rows_deleted or self.rows_updated)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.before} to {self.after}: {self._rows}, {self._files}"

    @property
    def _rows(self) -> str:
        numbers = {"inserted": self.rows_inserted, "deleted": self.rows_deleted, "updated": self.rows_updated}
        found = [f"{n:,} {what}" for what, n in numbers.items() if n]
        return f"rows: {', '.join(found)}" if found else "the same rows"

    @property
    def _files(self) -> str:
        vectors = f", {counted(self.vectors_changed, 'other deletion vector')}" if self.vectors_changed else ""
        added, removed = human_bytes(self.bytes_added), human_bytes(self.bytes_removed)
        return f"files: {self.files_added:,} added ({added}), {self.files_removed:,} removed ({removed}){vectors}"

    def __str__(self) -> str:
        changes = map(str, (*self.schema, *self.options))
        return "\n".join([f"{self.before} to {self.after}", *changes, self._rows, self._files])

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {**asdict(self), "differs": self.differs}

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict())


class TableDiff(RowStream):
    """What makes one state of a table of another one: see ``table.snapshots.diff``.

    As a stream it gives the rows, in bounded memory: the column ``rowkind``, and those of the newer schema. ``+I`` is a
    row that the second state has and the first has not, ``-D`` the other way round; ``-U`` and the ``+U`` that follows
    it are what a row of a primary key was and is. Files that both states have as they are stay unread.

    Attributes:
        before, after: the states: a snapshot (None where the table was never written) and its schema.
        schema: the newer one of the two.
        schema_changes, option_changes: what differs of columns and of options.

    Raises:
        SnapshotNotFoundError, TagNotFoundError: there is no such state.
        UnsupportedError: a table or option that is refused by name.
    """

    def __init__(self, store: TableStore, a: StateName, b: StateName | None = None) -> None:
        latest = store.latest_schema()
        check_branch(latest, store.branch, store.root)
        check_readable(latest)
        check_whole_rows(latest, "comparing states")
        self._store = store
        self.before, self.after = (_state(store, latest, name) for name in (a, b))
        self._names = _shown_state(a), _shown_state(b)
        self.schema = max(self.before.schema, self.after.schema, key=lambda schema: schema.id)
        self.schema_changes = tuple(_schema_changes(self.before.schema.fields, self.after.schema.fields))
        self.option_changes = tuple(_option_changes(self.before.schema, self.after.schema))
        if self.after.snapshot is None and self.before.snapshot is not None:
            raise SnapshotNotFoundError("the table has no snapshot", path=store.root, hint="name another state")
        self._options = TableOptions(latest.options)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches. Raises UnsupportedError for a column of a type that can't be read."""
        return arrow_schema([ROWKIND, *self.schema.fields])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that differ, in bounded memory."""
        schema, states = self.arrow_schema, self._states
        texts = array(ROW_KINDS, pa.string())
        for batch in states.changes() if states is not None else ():
            if batch.num_rows:
                columns = [texts.take(batch.column(VALUE_KIND)), *map(batch.column, self.schema.field_names)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    @cached_property
    def _states(self) -> States | None:
        after = self.after.snapshot
        if after is None or after == self.before.snapshot:
            return None
        return States(self._store, self.before.snapshot, after, self.schema, self._options)

    @cached_property
    def files(self) -> pa.Table:
        """Data files that one state alone has, or that have other deletion vectors: ``change`` (``added``, ``removed``,
        ``deletion vector``), ``partition``, ``bucket``, ``level``, ``file_path``, ``record_count``,
        ``file_size_in_bytes``."""
        states = [live_of(self._store, state.snapshot, _COLUMNS) for state in (self.before, self.after)]
        old, new = (entries.column("file_name") for entries in states)
        schema = self.schema
        renewed = renewed_files(self._store, schema, self.before.snapshot, self.after.snapshot)
        kept = pc.and_(pc.is_in(new, value_set=old), pc.is_in(new, value_set=array(sorted(renewed), pa.string())))
        parts = (
            ("removed", states[0].filter(pc.invert(pc.is_in(old, value_set=new)))),
            ("added", states[1].filter(pc.invert(pc.is_in(new, value_set=old)))),
            ("deletion vector", states[1].filter(kept)),
        )
        return pa.concat_tables(self._file_rows(change, entries) for change, entries in parts)

    def _file_rows(self, change: str, entries: pa.RecordBatch) -> pa.Table:
        located = file_locations(self._store, self.schema, entries)
        paths = self._store.paths.with_options(self.schema.options)
        directories = PartitionDirectories(self._store.io, self.schema, paths)
        columns = {
            "change": array([change] * entries.num_rows, pa.string()),
            "partition": array([directories.of_file(*key[0], key[1]) for key in located.file_keys()], pa.string()),
            "bucket": entries.column("bucket"),
            "level": entries.column("level"),
            "file_path": array(located.paths, pa.string()),
            "record_count": entries.column("row_count"),
            "file_size_in_bytes": entries.column("file_size"),
        }
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    def summary(self, progress: Progress | None = None) -> DiffSummary:
        """All differences in numbers, which ``print`` shows. Rows are counted, by reading them where metadata is not
        enough. ``progress`` as for `paimon_pyds.Table.append`."""
        started = time.monotonic()
        states, files = self._states, self.files
        with progress_shown("diff", progress):
            rows = (0, 0, 0) if states is None else states.counts()
        kinds, sizes = to_numpy(files["change"]), to_numpy(files["file_size_in_bytes"])
        return DiffSummary(
            before=self._names[0],
            after=self._names[1],
            schema=self.schema_changes,
            options=self.option_changes,
            rows_inserted=rows[0],
            rows_deleted=rows[1],
            rows_updated=rows[2],
            files_added=int((kinds == "added").sum()),
            bytes_added=int(sizes[kinds == "added"].sum()),
            files_removed=int((kinds == "removed").sum()),
            bytes_removed=int(sizes[kinds == "removed"].sum()),
            vectors_changed=int((kinds == "deletion vector").sum()),
            seconds=time.monotonic() - started,
        )

    def __repr__(self) -> str:
        changes = len(self.schema_changes) + len(self.option_changes)
        return one_line(
            self,
            self._store.root,
            f"{self._names[0]} to {self._names[1]}",
            counted(changes, "change") + " of columns and options" if changes else "",
        )


def _state(store: TableStore, latest: TableSchema, name: StateName | None) -> TableState:
    if isinstance(name, bool) or not isinstance(name, int | str | datetime | None):
        raise ArgumentTypeError(
            f"a state is the number of a snapshot, the name of a tag, or a time, not {type(name).__name__}"
        )
    if name is None:
        return resolve_state(store, latest, {})
    if isinstance(name, int):
        return resolve_state(store, latest, {"scan.snapshot-id": str(integer("snapshot", name))})
    if isinstance(name, str):
        return resolve_state(store, latest, {"scan.version": name})
    return resolve_state(store, latest, {"scan.timestamp-millis": str(time_ms("state", name))})


def _shown_state(name: StateName | None) -> str:
    if name is None:
        return "the newest state"
    kind = "snapshot " if isinstance(name, int) else "" if isinstance(name, datetime) else "tag "
    if isinstance(name, str) and whole_number(name) is not None:
        kind = ""
    return visible(f"{kind}{name}"[:200])


def _schema_changes(before: Sequence[DataField], after: Sequence[DataField]) -> Iterator[Change]:
    old, new = dict(_columns(before)), dict(_columns(after))
    for id_ in dict.fromkeys((*old, *new)):
        if id_ not in old or id_ not in new:
            name, field = new.get(id_) or old[id_]
            text = str(field.type)
            yield Change("column", name, None if id_ not in old else text, None if id_ not in new else text)
            continue
        (was, one), (name, two) = old[id_], new[id_]
        if one.name != two.name:
            yield Change("column name", name, was, name)
        nested = any(True for type_ in (one.type, two.type) for _ in _inside(type_))
        if str(one.type) != str(two.type) and (not nested or one.type.kind is not two.type.kind):
            yield Change("type", name, str(one.type), str(two.type))
        if one.description != two.description:
            yield Change("comment", name, one.description, two.description)
    orders = [[field.name for field in fields if field.id in old and field.id in new] for fields in (before, after)]
    ids = [[field.id for field in fields if field.id in old and field.id in new] for fields in (before, after)]
    if ids[0] != ids[1]:
        yield Change("order of columns", "", ", ".join(orders[0]), ", ".join(orders[1]))


def _columns(fields: Sequence[DataField], above: str = "") -> Iterator[tuple[int, tuple[str, DataField]]]:
    """All columns by their ids, those inside of others with the names of these."""
    for field in fields:
        name = f"{above}{field.name}"
        yield field.id, (name, field)
        yield from _columns(list(_inside(field.type)), f"{name}.")


def _inside(type_: DataType) -> Iterator[DataField]:
    """The fields of the outermost ROWs in a type."""
    if isinstance(type_, RowType):
        yield from type_.fields
    else:
        for child in type_.children():
            yield from _inside(child)


def _option_changes(before: TableSchema, after: TableSchema) -> Iterator[Change]:
    for key in sorted({*before.options, *after.options}):
        one, two = before.options.get(key), after.options.get(key)
        if one != two:
            yield Change("option", key, *(None if value is None else shown(key, value) for value in (one, two)))
    if before.comment != after.comment:
        yield Change("comment", "", before.comment, after.comment)
