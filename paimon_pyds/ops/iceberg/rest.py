"""Bring a table in an Iceberg REST catalog to the Iceberg metadata that was written (Apache Iceberg, REST catalog
specification; Java Paimon 2.x, class IcebergRestMetadataCommitter).

As Java does it: the catalog has schemas of its own numbers, of which 0 is the one that it created the table with, since
it gives new ids to the columns of that one. The table is updated if the metadata follows from what the catalog has,
else it is dropped, without its files, and created with the newest snapshot alone. Here, a catalog that lags by several
snapshots gets them all, and it follows tags and expiry, too.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.core import ICEBERG_PROPERTIES, ICEBERG_REST
from paimon_pyds.base.options.iceberg import LINEAGE_VERSION, beginning_with
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import (
    AlreadyExistsError,
    NotFoundError,
    OptionError,
    PaimonError,
    SecurityError,
    StorageError,
    UnsupportedError,
)
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.iceberg.folder import FOREVER, IcebergFolder, Metadata, commit_identity, identity_of
from paimon_pyds.ops.iceberg.rest_client import IcebergCatalog, catalog_of

_MOST_TRIES = 5
"""How often one call begins anew because another process changed the catalog."""
_WINDOW_MS = 59_000
"""Iceberg refuses a snapshot that is older than the last update by more than a minute."""
_RESERVED = frozenset({
    "format-version", "uuid", "snapshot-count", "current-snapshot-summary", "current-snapshot-id",
    "current-snapshot-timestamp-ms", "current-schema", "default-partition-spec", "default-sort-order",
})  # fmt: skip
"""Names that no property of a table may have; Java leaves them out, too."""
Update = dict[str, Any]


def show_in_catalog(store: TableStore, options: TableOptions, folder: IcebergFolder, metadata: Metadata) -> None:
    """Bring the catalog that the options name to metadata that is written.

    ``metadata``: of the table's newest snapshot; where there is a newer one by now, the catalog may be ahead of it.
    Raises OptionError, SecurityError, UnsupportedError, StorageError: what the catalog refuses, or that it is not
    there; it stays at the older state.
    """
    shown = _ShownTable(store, options, folder, _for_catalog(metadata))
    for number in count(1):
        try:
            shown.update()
            return
        except AlreadyExistsError as error:  # another process was faster
            if number == _MOST_TRIES:
                what = f"others keep changing the table in Iceberg's catalog ({error.message})"
                raise StorageError(what, path=store.root) from error
        if store.latest_snapshot_id(refresh=True) != metadata["current-snapshot-id"]:
            return


@dataclass(frozen=True, slots=True)
class _Change:
    """Updates that make the catalog's table as wanted, and what they assume."""

    updates: list[Update]
    requirements: list[Update]


class _ShownTable:
    """The table in the catalog, and what it should be. ``wanted``: metadata with the catalog's numbers of schemas."""

    def __init__(self, store: TableStore, options: TableOptions, folder: IcebergFolder, wanted: Metadata) -> None:
        self._store, self._folder, self._wanted = store, folder, wanted
        self._catalog: IcebergCatalog = catalog_of(beginning_with(ICEBERG_REST, options))
        self._namespace, self._name = _identifier(store.root, options)
        self._properties = {
            **{k: v for k, v in beginning_with(ICEBERG_PROPERTIES, options).items() if k not in _RESERVED},
            "write.metadata.previous-versions-max": str(options.get("metadata.iceberg.previous-versions-max")),
            "write.metadata.delete-after-commit.enabled": str(
                options.get("metadata.iceberg.delete-after-commit.enabled")
            ).lower(),
        }

    def update(self) -> None:
        """One attempt. Raises AlreadyExistsError: another process changed the table meanwhile."""
        there = self._catalog.load(self._namespace, self._name)
        if there is None:
            self._begin_anew(exists=False)
            return
        wanted, current = self._wanted, _current(there)
        if current is None and len(there["schemas"]) == 1:  # a process stopped after it had created the table
            if not self._needs_registration():
                self._fill(there)
                return
        elif current is not None and self._extends(there, current):
            known = {s["snapshot-id"] for s in there.get("snapshots") or ()}
            first = int(current["snapshot-id"])
            self._send(there, [s for s in wanted["snapshots"] if s["snapshot-id"] > first], known)
            return
        if self._store.latest_snapshot_id(refresh=True) == wanted["current-snapshot-id"]:
            self._begin_anew(exists=True)  # else the writer of a later snapshot decides

    def _extends(self, there: Metadata, current: Metadata) -> bool:
        """Whether what is wanted follows from what the catalog has."""
        wanted = self._wanted
        if not self._is_of_this_table(current):
            return False
        if int(there.get("format-version", 1)) > wanted["format-version"]:
            return False
        added = [s for s in wanted["snapshots"] if s["snapshot-id"] > current["snapshot-id"]]
        if added and int(added[0].get("first-row-id") or 0) < int(there.get("next-row-id") or 0):
            return False
        ours = {s["schema-id"]: _shape(s) for s in wanted["schemas"]}
        theirs = {int(s["schema-id"]): _shape(s) for s in there["schemas"] if s["schema-id"] != 0}
        return theirs == {id_: ours.get(id_) for id_ in range(1, len(theirs) + 1)}

    def _is_of_this_table(self, current: Metadata) -> bool:
        """Whether a snapshot of the catalog is one that the newest has come from."""
        id_, snapshots = int(current["snapshot-id"]), self._wanted["snapshots"]
        same = next((s for s in snapshots if s["snapshot-id"] == id_), None)
        if same is not None:
            return identity_of(same) == identity_of(current)
        if id_ > int(snapshots[-1]["snapshot-id"]):
            return False
        try:
            return identity_of(current) == commit_identity(self._store.snapshot(id_))
        except NotFoundError:
            return False

    def _begin_anew(self, *, exists: bool) -> None:
        """Create the table, in place of one that ``exists``, with the newest snapshot alone."""
        if self._needs_registration():
            self._register(exists=exists)
            return
        if exists:
            self._catalog.drop(self._namespace, self._name)
        self._fill(self._create())

    def _create(self) -> Metadata:
        """An empty table, whose columns of partitions have their ids."""
        wanted = self._wanted
        fields = wanted["partition-specs"][0]["fields"]
        sources = [field["source-id"] for field in fields]
        body: dict[str, Any] = {
            "name": self._name,
            "schema": {"type": "struct", "schema-id": 0, "fields": []},
            "stage-create": False,
            "properties": {"format-version": str(wanted["format-version"])},
        }
        if sources and 0 not in sources:  # the catalog's ids begin at 1
            body["schema"]["fields"] = _columns_up_to(max(sources), self._schema(), sources)
            body["partition-spec"] = {"spec-id": 0, "fields": fields}
        try:
            return self._catalog.create(self._namespace, body)
        except (AlreadyExistsError, NotFoundError, SecurityError):
            raise
        except PaimonError:  # some catalogs choose the location themselves, and some don't
            return self._catalog.create(self._namespace, {**body, "location": _location(wanted["location"])})

    def _schema(self) -> Metadata:
        wanted = self._wanted
        found: Metadata = next(s for s in wanted["schemas"] if s["schema-id"] == wanted["current-schema-id"])
        return found

    def _fill(self, there: Metadata) -> None:
        """Give a new table its columns and the newest snapshot."""
        self._send(there, self._wanted["snapshots"][-1:], set())

    def _send(self, there: Metadata, added: Sequence[Metadata], known: set[int]) -> None:
        """Update the table. ``added``: snapshots that it gets. ``known``: numbers of those that it has."""
        change = self._change(there, added, known)
        if change.updates:
            body = {"requirements": change.requirements, "updates": change.updates}
            self._catalog.commit(self._namespace, self._name, body)

    def _change(self, there: Metadata, added: Sequence[Metadata], known: set[int]) -> _Change:
        wanted, updates = self._wanted, list[Update]()
        requirements: list[Update] = [{"type": "assert-table-uuid", "uuid": there["table-uuid"]}]
        if wanted["format-version"] > int(there.get("format-version", 1)):
            updates.append({"action": "upgrade-format-version", "format-version": wanted["format-version"]})
        updates += self._schema_updates(there, requirements)
        oldest = int(there.get("last-updated-ms") or 0) - _WINDOW_MS
        for snapshot in added:
            at = max(int(snapshot["timestamp-ms"]), oldest)
            updates.append({"action": "add-snapshot", "snapshot": {**snapshot, "timestamp-ms": at}})
        if added:
            current = _current(there) or {}
            refs = there.get("refs", {MAIN_BRANCH: current})  # what Java registers has tags alone
            before = refs.get(MAIN_BRANCH, {}).get("snapshot-id")
            requirements.append({"type": "assert-ref-snapshot-id", "ref": MAIN_BRANCH, "snapshot-id": before})
            newest = {"type": "branch", "snapshot-id": added[-1]["snapshot-id"]}
            updates.append({"action": "set-snapshot-ref", "ref-name": MAIN_BRANCH, **newest})
        updates += self._tag_updates(there, known | {int(s["snapshot-id"]) for s in added})
        gone = sorted(known - {s["snapshot-id"] for s in wanted["snapshots"]})
        if gone:
            updates.append({"action": "remove-snapshots", "snapshot-ids": gone})
        properties = there.get("properties") or {}
        if any(properties.get(name) != text for name, text in self._properties.items()):
            updates.append({"action": "set-properties", "updates": self._properties})
        return _Change(updates, requirements)

    def _schema_updates(self, there: Metadata, requirements: list[Update]) -> list[Update]:
        wanted, known = self._wanted, {int(s["schema-id"]) for s in there["schemas"]}
        added = [s for s in wanted["schemas"] if s["schema-id"] not in known]
        highest, updates = int(there["last-column-id"]), list[Update]()
        for schema in added:
            highest = max(highest, *_ids(schema))
            updates.append({"action": "add-schema", "schema": schema, "last-column-id": highest})
        if added:
            asserted = {"last-assigned-field-id": there["last-column-id"]}
            requirements.append({"type": "assert-last-assigned-field-id", **asserted})
        current = there.get("current-schema-id")
        if current != wanted["current-schema-id"]:
            requirements.append({"type": "assert-current-schema-id", "current-schema-id": current})
            is_last = bool(added) and added[-1]["schema-id"] == wanted["current-schema-id"]
            id_ = -1 if is_last else wanted["current-schema-id"]
            updates.append({"action": "set-current-schema", "schema-id": id_})
        return updates

    def _tag_updates(self, there: Metadata, known: set[int]) -> list[Update]:
        """Paimon's tags of snapshots that the catalog has. Those that Iceberg's users made stay."""
        refs = there.get("refs") or {}
        tags = {name: ref for name, ref in self._wanted["refs"].items() if ref["snapshot-id"] in known}
        gone = [name for name, ref in refs.items() if ref.get("max-ref-age-ms") == FOREVER and name not in tags]
        new = {name: ref for name, ref in tags.items() if refs.get(name, {}).get("snapshot-id") != ref["snapshot-id"]}
        return [
            *({"action": "remove-snapshot-ref", "ref-name": name} for name in gone),
            *({"action": "set-snapshot-ref", "ref-name": name, **ref} for name, ref in new.items()),
        ]

    # ------------------------------------------------------------------------------------------------- registration

    def _needs_registration(self) -> bool:
        """Whether row ids were given before the newest snapshot: a table that gets this one alone would not know."""
        newest = self._wanted["snapshots"][-1]
        return self._wanted["format-version"] >= LINEAGE_VERSION and bool(newest.get("first-row-id"))

    def _register(self, *, exists: bool) -> None:
        """Have the catalog take the metadata as it is, in place of a table that ``exists``."""
        catalog, number = self._catalog, self._wanted["current-snapshot-id"]
        if not catalog.registers:
            raise UnsupportedError(
                "the catalog takes no registered tables, and the row ids of this one do not begin at 0",
                hint="set metadata.iceberg.format-version=2, or another catalog",
            )
        path = f"{self._folder.path}/rest-register-v{number}-{uuid.uuid4()}.metadata.json"
        main = {MAIN_BRANCH: {"type": "branch", "snapshot-id": number}}
        metadata = {**self._wanted, "refs": {**self._wanted["refs"], **main}}
        self._folder.write_other(path, json.dumps(metadata).encode())
        location = self._folder.spelled(path)
        if exists:
            try:  # whether it can be done is seen before anything is dropped
                catalog.register(self._namespace, self._name, location)
                return
            except AlreadyExistsError:
                catalog.drop(self._namespace, self._name)
        catalog.register(self._namespace, self._name, location)


def _for_catalog(metadata: Metadata) -> Metadata:
    """The metadata with schemas as a catalog numbers them: from 1, and each once, as Iceberg knows them by columns."""
    numbers, schemas = dict[int, int](), list[Metadata]()
    for schema in metadata["schemas"]:
        same = next((s for s in schemas if s["fields"] == schema["fields"]), None)
        if same is None:
            same = {**schema, "schema-id": len(schemas) + 1}
            schemas.append(same)
        numbers[schema["schema-id"]] = same["schema-id"]
    snapshots = [{**s, "schema-id": numbers[s["schema-id"]]} for s in metadata["snapshots"]]
    current = numbers[metadata["current-schema-id"]]
    return {**metadata, "schemas": schemas, "current-schema-id": current, "snapshots": snapshots}


def _identifier(root: str, options: TableOptions) -> tuple[str, str]:
    """The namespace and the name of a table in the catalog."""
    directory, _, name = root.rpartition("/")
    folder = directory.rpartition("/")[2]
    namespace = options.get("metadata.iceberg.database") or ""
    if not namespace and not folder.endswith(".db"):
        raise OptionError(
            "the table's path has no database, NAME.db, by which Iceberg's catalog could know it",
            path=root,
            hint="set metadata.iceberg.database",
        )
    return namespace or folder.removesuffix(".db"), options.get("metadata.iceberg.table") or name


def _location(path: str) -> str:
    """A table's directory in the scheme that Iceberg's catalogs have for S3."""
    scheme, separator, rest = path.partition("://")
    return f"s3://{rest}" if separator and scheme in ("s3a", "s3n") else path


def _current(there: Metadata) -> Metadata | None:
    """The newest snapshot of a catalog's table; None where it has none."""
    id_ = there.get("current-snapshot-id")
    return next((s for s in there.get("snapshots") or () if s["snapshot-id"] == id_), None)


def _columns_up_to(highest: int, schema: Metadata, kept: Sequence[int]) -> list[dict[str, Any]]:
    """Columns whose ids a catalog will count from 1, so that some columns of a schema keep theirs."""
    own = {field["id"]: field for field in schema["fields"] if field["id"] in kept}
    taken = {field["name"] for field in own.values()}
    found = []
    for id_ in range(1, highest + 1):
        name = next(n for n in (f"f{id_}{'_' * more}" for more in count()) if n not in taken)
        taken.add(name)
        found.append(own.get(id_) or {"id": id_, "name": name, "required": False, "type": "boolean"})
    return found


def _shape(schema: Mapping[str, Any]) -> Any:
    """The parts of a schema that decide how files are read, as texts that servers spell alike."""
    return [_field_shape(field) for field in schema["fields"]]


def _field_shape(field: Mapping[str, Any]) -> Any:
    return field["id"], field["name"], bool(field["required"]), _type_shape(field["type"])


def _type_shape(type_: Any) -> Any:
    if isinstance(type_, str):
        return type_.replace(" ", "")
    parts = ("element-id", "element-required", "key-id", "value-id", "value-required")
    children = [_type_shape(type_[name]) for name in ("element", "key", "value") if name in type_]
    return [type_.get(name) for name in parts], children, _shape(type_) if "fields" in type_ else []


def _ids(schema: Mapping[str, Any]) -> list[int]:
    """The ids of the columns of a schema, and of what is in them."""
    found = [0]
    for field in schema["fields"]:
        found += [int(field["id"]), *_ids_in(field["type"])]
    return found


def _ids_in(type_: Any) -> list[int]:
    if isinstance(type_, str):
        return []
    own = [int(type_[name]) for name in ("element-id", "key-id", "value-id") if name in type_]
    inner = [id_ for name in ("element", "key", "value") if name in type_ for id_ in _ids_in(type_[name])]
    return [*own, *inner, *(_ids(type_) if "fields" in type_ else [])]
