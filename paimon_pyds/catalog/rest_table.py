"""Changes of a table that a REST catalog makes itself: columns, options, tags, branches, rollbacks.

Java's tables make tags by files whatever their catalog is, and some servers know only those made by a request:
tags made here are both. Snapshots expire by files, as in Java.
(Source: Paimon documentation, concepts/rest/rest-api, its OpenAPI description; Java Paimon 1.4, classes SchemaChange,
CatalogBranchManager and RESTApi.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from paimon_pyds.base.json_http import MissingResourceError, NoSuchRequestError, UnansweredError
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    type_to_json,
)
from paimon_pyds.catalog.rest_client import segment
from paimon_pyds.catalog.rest_publisher import RestPublisher
from paimon_pyds.engine.commit.publisher import FileSystemPublisher
from paimon_pyds.errors import (
    AlreadyExistsError,
    BranchNotFoundError,
    CommitOutcomeUnknownError,
    NotFoundError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    TagNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.alter import renamed_options

_MISSING: dict[str, type[NotFoundError]] = {
    "TABLE": TableNotFoundError,
    "BRANCH": BranchNotFoundError,
    "TAG": TagNotFoundError,
    "SNAPSHOT": SnapshotNotFoundError,
}
_PAUSES = Pauses(0.5, 20.0, factor=4.0)
"""Between tries of a change where the server is busy, and does not say for how long."""
_RENAMED = ("fields.", "bucket-key", "sequence.field")


class RestTable(RestPublisher):
    """A table of a REST catalog: its `SnapshotPublisher`, and its `TableServer`."""

    @property
    def server(self) -> RestTable:
        return self

    def alter(self, store: TableStore, old: TableSchema, new: TableSchema) -> TableSchema | None:
        changes = list(schema_changes(old, new))
        if changes:
            self._send(store, "", {"changes": changes}, lambda: _described(store.latest_schema()) == _described(new))
        return store.latest_schema()

    def create_tag(self, store: TableStore, name: str, snapshot: Snapshot, retained_ms: int | None) -> bool:
        if name in store.tag_names():
            return False
        retained = None if retained_ms is None else f"{retained_ms} ms"
        body = {"tagName": name, "snapshotId": snapshot.id, "timeRetained": retained}
        try:
            self._send(store, "/tags", body, lambda: name in store.tag_names())
        except UnsupportedError:
            return False
        except AlreadyExistsError:
            if name in store.tag_names():
                raise  # else the file is what an earlier try did not come to
        return name in store.tag_names() and store.tag(name) == snapshot

    def delete_tag(self, store: TableStore, name: str) -> bool:
        with suppress(UnsupportedError, TagNotFoundError):
            self._send(store, f"/tags/{segment(name)}", None, lambda: name not in store.tag_names())
        return name not in store.tag_names()

    def create_branch(self, store: TableStore, name: str, tag: str | None) -> None:
        self._send(store, "/branches", {"branch": name, "fromTag": tag}, lambda: name in store.branches())

    def delete_branch(self, store: TableStore, name: str) -> None:
        self._send(store, f"/branches/{segment(name)}", None, lambda: name not in store.branches())

    def rename_branch(self, store: TableStore, name: str, new_name: str) -> None:
        path = f"/branches/{segment(name)}/rename"
        self._send(store, path, {"toBranch": new_name}, lambda: name not in store.branches())

    def fast_forward(self, store: TableStore, name: str, target: Snapshot) -> None:
        self._send(store, f"/branches/{segment(name)}/forward", {}, lambda: store.latest_snapshot() == target)

    def rollback(self, store: TableStore, target: Snapshot, tag: str | None) -> None:
        instant = {"type": "snapshot", "snapshotId": target.id} if tag is None else {"type": "tag", "tagName": tag}
        self._send(store, "/rollback", {"instant": instant}, lambda: store.latest_snapshot() == target)

    def _send(self, store: TableStore, path: str, body: dict[str, Any] | None, done: Callable[[], bool]) -> None:
        """POST, or DELETE without a body, once: sent again, it might undo what others did in between. Only where
        a server said that it is busy, and did not do it, the request is repeated.

        ``path``: after that of the table. ``body``: of the request. ``done``: looks whether it was done after all,
        where the answer got lost.

        Raises:
            CommitOutcomeUnknownError: nobody knows.
            UnsupportedError: the server has no such request.
            PaimonError: it refuses.
        """
        client = self._connected(store)
        retry = Retry(_PAUSES, attempts=5)
        while True:
            try:
                if body is None:
                    client.delete(self._path(store) + path)
                else:
                    client.post(self._path(store) + path, body, tries=1)
            except NoSuchRequestError as error:
                raise _too_old(store) from error
            except UnansweredError as error:
                if done():
                    return
                if retry.exhausted or not error.busy:
                    raise CommitOutcomeUnknownError(
                        f"the catalog did not say whether it changed the table ({error})",
                        path=store.root,
                        hint="look at the table's columns, branches and snapshots before doing it again",
                    ) from error
                retry.next(error.pause)
            except MissingResourceError as error:
                if not error.resource:
                    raise _too_old(store) from error
                raise _MISSING.get(error.resource, NotFoundError)(error.message, path=store.root) from error
            else:
                return


class ExternalRestTable(FileSystemPublisher, RestTable):
    """A table of a REST catalog whose files are not the server's: that changes its columns and options only."""

    server = None  # type: ignore[assignment]

    def alter(self, store: TableStore, old: TableSchema, new: TableSchema) -> TableSchema | None:
        """See `SnapshotPublisher`; a server may leave the file to its clients."""
        made = RestTable.alter(self, store, old, new)
        return None if made == old else made


def _too_old(store: TableStore) -> UnsupportedError:
    text = "the catalog has no request for this change"
    return UnsupportedError(text, path=store.root, hint="its server may be too old")


def _described(schema: TableSchema) -> tuple[Any, ...]:
    """What users see of a schema: the server numbers new columns itself."""
    columns = [(f.name, str(f.type), f.description, f.default) for f in schema.fields]
    return columns, schema.options, schema.comment


def schema_changes(old: TableSchema, new: TableSchema) -> Iterator[dict[str, Any]]:
    """What makes one schema of another, as Java's SchemaChange in JSON. Columns are identified by their ids.

    Raises SchemaError where columns swap their names.
    """
    yield from _field_changes([], old.fields, new.fields)
    by_id = {field.id: field.name for field in new.fields}
    options = renamed_options(old.options, {f.name: by_id[f.id] for f in old.fields if f.id in by_id})
    options = {k: v for k, v in options.items() if k.startswith(_RENAMED)}  # these the server renames itself
    options |= {k: v for k, v in old.options.items() if not k.startswith(_RENAMED)}
    for key in options.keys() - new.options.keys():
        yield {"action": "removeOption", "key": key}
    for key, value in new.options.items():
        if options.get(key) != value:
            yield {"action": "setOption", "key": key, "value": value}
    if old.comment != new.comment:
        yield {"action": "updateComment", "comment": new.comment}


def _field_changes(path: list[str], old: Sequence[DataField], new: Sequence[DataField]) -> Iterator[dict[str, Any]]:
    """The changes of the fields of a ROW, or of a table's columns."""
    before = {field.id: field for field in old}
    stay = {field.id: field for field in new if field.id in before}
    yield from (_change("dropColumn", path, f.name) for f in old if f.id not in stay)
    yield from _renames(path, [f for f in old if f.id in stay], stay)
    if path:
        for field in new:
            if field.id not in stay:
                yield _added(path, field, None)
    else:
        yield from _places([stay[f.id].name for f in old if f.id in stay], new, stay)
    for field in new:
        was = before.get(field.id)
        if was is not None:
            yield from _type_changes([*path, field.name], was.type, field.type)
        if was is not None and was.description != field.description:
            yield _change("updateColumnComment", path, field.name, newComment=field.description)
        if (None if was is None else was.default) != field.default:
            yield _change("updateColumnDefaultValue", path, field.name, newDefaultValue=field.default)


def _renames(path: list[str], old: list[DataField], stay: dict[int, DataField]) -> Iterator[dict[str, Any]]:
    """New names, in an order in which each is free."""
    taken = {field.name for field in old}
    waiting = [field for field in old if stay[field.id].name != field.name]
    while waiting:
        free = [field for field in waiting if stay[field.id].name not in taken]
        if not free:
            names = ", ".join(field.name for field in waiting)
            raise SchemaError(f"columns of a REST catalog can't swap their names ({names})", hint="alter it twice")
        field = free[0]
        waiting.remove(field)
        taken = taken - {field.name} | {stay[field.id].name}
        yield _change("renameColumn", path, field.name, newName=stay[field.id].name)


def _places(names: list[str], new: Sequence[DataField], stay: dict[int, DataField]) -> Iterator[dict[str, Any]]:
    """New columns, and moves: from the first place on, each goes behind the one before it.

    ``names``: of the columns that stay, in their order, which this changes. ``new``: all columns in their order.
    ``stay``: those that are not new, by id.
    """
    for i, field in enumerate(new):
        if names[i : i + 1] == [field.name]:
            continue
        where: dict[str, Any] = {"fieldName": field.name, "referenceFieldName": None, "type": "FIRST"}
        if i:
            where.update(referenceFieldName=new[i - 1].name, type="AFTER")
        if field.id in stay:
            names.remove(field.name)
            yield {"action": "updateColumnPosition", "move": where}
        else:
            yield _added([], field, where)
        names.insert(i, field.name)


def _added(path: list[str], field: DataField, move: dict[str, Any] | None) -> dict[str, Any]:
    type_ = type_to_json(field.type)
    return _change("addColumn", path, field.name, dataType=type_, comment=field.description, move=move)


def _type_changes(path: list[str], old: DataType, new: DataType) -> Iterator[dict[str, Any]]:
    match old, new:
        case RowType(), RowType():
            yield from _field_changes(path, old.fields, new.fields)
        case ArrayType() | MultisetType(), ArrayType() | MultisetType():
            yield from _type_changes([*path, "element"], old.element, new.element)
        case MapType(), MapType():
            yield from _type_changes([*path, "value"], old.value, new.value)
        case AtomicType(), AtomicType():
            if old.with_nullable(True) != new.with_nullable(True):
                type_ = type_to_json(new.with_nullable(old.nullable))
                yield _change("updateColumnType", path[:-1], path[-1], newDataType=type_, keepNullability=True)
    if old.nullable != new.nullable:
        yield _change("updateColumnNullability", path[:-1], path[-1], newNullability=new.nullable)


def _change(action: str, path: Sequence[str], name: str, **more: Any) -> dict[str, Any]:
    return {"action": action, "fieldNames": [*path, name], **more}
