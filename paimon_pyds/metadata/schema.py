"""Schema files, ``schema/schema-N``, and `SchemaStore`, those of one branch of a table (specification: Paimon
documentation, concepts/spec/schema).

Schemas are cached by number as long as the table is the same: a table that was dropped and created again has other
schemas under the same numbers, so each operation reads one of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from paimon_pyds.base.cache import ByIdentity
from paimon_pyds.base.options.option import comma_separated
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import RedactedDict, counted
from paimon_pyds.base.text import names_text, one_line
from paimon_pyds.base.types import DataField, column_named, field_from_json, field_to_json, walk_fields
from paimon_pyds.errors import (
    BranchNotFoundError,
    CommitOutcomeUnknownError,
    CorruptFileError,
    NotFoundError,
    PaimonError,
    SchemaError,
    TableNotFoundError,
    suggest,
)
from paimon_pyds.metadata.json_text import JsonObject, names_in, to_java_json
from paimon_pyds.metadata.paths import MAIN_BRANCH, TablePaths
from paimon_pyds.storage import FileIO, requests_at_once

if TYPE_CHECKING:
    from paimon_pyds.metadata.prefetch import SentRequests

CURRENT_SCHEMA_VERSION = 3
"""Version of schema files that are written."""
_MEMBERS = frozenset({
    "version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options", "comment", "timeMillis",
})  # fmt: skip
T = TypeVar("T")
_READ_AGAIN = Pauses(0.02, 0.1, factor=2.5)
"""Pauses before a schema file that is not whole yet is read again."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's schema. ``fields`` are the top-level columns in order.

    ``options`` may hold secrets that another writer stored there; they are not shown. ``unknown``: the members of the
    file that this version does not know, by name; schemas that are made of this one keep them.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    version: int = CURRENT_SCHEMA_VERSION
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", RedactedDict(self.options))

    def __repr__(self) -> str:
        columns = names_text([f"{f.name} {f.type}" for f in self.fields])
        key, partitions = names_text(self.primary_keys), names_text(self.partition_keys)
        return one_line(
            self,
            f"{self.id}: {columns or 'no column'}",
            f"primary key {key}" if key else "",
            f"partitioned by {partitions}" if partitions else "",
            counted(len(self.options), "option") if self.options else "",
        )

    def names(self) -> Iterator[str]:
        """Possible names of files in members that this version does not know: the last path parts of all texts."""
        return names_in((self.unknown, *(field.unknown for field in walk_fields(self.fields))))

    def field(self, name: str) -> DataField:
        """The column of that exact name. Raises SchemaError."""
        return column_named(name, self.fields)

    @property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns, in partition order."""
        return tuple(self.field(name) for name in self.partition_keys)

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the top-level columns, in order."""
        return tuple(f.name for f in self.fields)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without partition columns: what is unique within one partition."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def crosses_partitions(self) -> bool:
        """Whether a key may be in any partition, and moves between them: ``bucket=-1``, and the primary key does not
        hold all partition columns."""
        return self._keeps_buckets and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def has_dynamic_buckets(self) -> bool:
        """Whether hash index files say which bucket a key is in (``bucket=-1``, all partition columns in the key)."""
        return self._keeps_buckets and not self.crosses_partitions

    @property
    def _keeps_buckets(self) -> bool:
        return bool(self.primary_keys) and self.options.get("bucket", "-1").strip() == "-1"

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns that decide a row's bucket: option ``bucket-key``, else the trimmed primary key."""
        return comma_separated(self.options.get("bucket-key", "")) or self.trimmed_primary_keys


def parse_schema(data: bytes, path: str) -> TableSchema:
    """The schema in the bytes of a schema file.

    Files of Paimon 0.7 (version 1) mean ``bucket`` = 1 and files up to 0.8 (version 2) ``file.format`` = orc where
    these options are absent; they are filled in.
    Raises CorruptFileError: not JSON, a member missing or of the wrong type; UnsupportedError: a newer version.
    """
    found = _parsed(data, path)
    return replace(found, options=dict(found.options), unknown=dict(found.unknown))


@lru_cache(maxsize=4)  # a table that is opened again has the same columns, for which results are cached
def _parsed(data: bytes, path: str) -> TableSchema:
    json = JsonObject(data, path)
    version = json.version("schema", CURRENT_SCHEMA_VERSION)
    fields = _parse_fields(json)
    names = [f.name for f in fields]
    partition_keys, primary_keys = json.texts("partitionKeys"), json.texts("primaryKeys")
    for member, keys in (("partitionKeys", partition_keys), ("primaryKeys", primary_keys)):
        for key in keys:
            if key not in names:
                raise json.corrupt(f"{key!r} is not a column", member)
    options = _parse_options(json)
    if version <= 1:
        options.setdefault("bucket", "1")
    if version <= 2:
        options.setdefault("file.format", "orc")
    return TableSchema(
        id=json.integer("id"),
        fields=fields,
        highest_field_id=json.integer("highestFieldId"),
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=json.text_or_none("comment"),
        time_millis=json.integer("timeMillis", 0),
        version=version,
        unknown=json.others(_MEMBERS),
    )


def _parse_fields(json: JsonObject) -> tuple[DataField, ...]:
    fields = []
    for member in json.list_("fields"):
        if not isinstance(member, dict):
            raise json.corrupt("an array of objects was expected", "fields")
        try:
            column = field_from_json(member)
        except SchemaError as error:
            raise json.corrupt(error.message, "fields") from error
        for name, text in (("description", column.description), ("defaultValue", column.default)):
            if text is not None and not isinstance(text, str):
                raise json.corrupt("a string was expected", f"fields.{name}")
        fields.append(column)
    if len({f.name for f in fields}) != len(fields) or len({f.id for f in fields}) != len(fields):
        raise json.corrupt("two columns have the same name or id", "fields")
    return tuple(fields)


def _parse_options(json: JsonObject) -> dict[str, str]:
    options = {}
    for key, value in (json.object_or_none("options") or {}).items():
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int | float):
            value = str(value)
        elif not isinstance(value, str):
            raise json.corrupt("a string was expected", f"options.{key}")
        options[key] = value
    return options


def schema_to_json(schema: TableSchema) -> str:
    """The text of a schema file, laid out as Java Paimon does it; an empty comment is left out."""
    return to_java_json(_members(schema))


_FIELDS_AS_JSON: ByIdentity[list[dict[str, Any]]] = ByIdentity()


def _members(schema: TableSchema) -> dict[str, Any]:
    members: dict[str, Any] = {
        "version": schema.version,
        "id": schema.id,
        "fields": _FIELDS_AS_JSON.get((schema.fields,), None, lambda: [field_to_json(f) for f in schema.fields]),
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        members["comment"] = schema.comment
    members["timeMillis"] = schema.time_millis
    return {**members, **schema.unknown}


def schema_digest(schema: TableSchema) -> str:
    """A short text that is different for every schema, also for those of the same number in another table."""
    import hashlib  # OpenSSL takes 3 MiB, and few processes need it
    import json

    return hashlib.sha256(json.dumps(_members(schema)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _SchemaFile:
    """A schema, and the bytes that it was read from."""

    data: bytes
    schema: TableSchema


class SchemaStore:
    """The schemas of one branch of one table."""

    def __init__(self, io: FileIO, root: str, branch: str) -> None:
        self.io = io
        self.root = root
        self.branch = branch
        self.paths = TablePaths(root, branch)
        self._schemas: dict[int, _SchemaFile] = {}
        self._schemas_checked = False
        """Whether one of these was read again in this operation."""
        self._sent: SentRequests | None = None
        """Of a store: requests that were sent ahead."""
        if requests_at_once(io):
            from paimon_pyds.metadata.prefetch import SentRequests

            self._sent = SentRequests(io)

    def schema_ids(self) -> list[int]:
        """The numbers of all schemas, ascending; empty when there is no table."""
        return self.file_numbers(self.paths.schema_dir, "schema-")

    def latest_schema(self) -> TableSchema:
        """The schema of the highest number. Raises TableNotFoundError (BranchNotFoundError for a branch)."""
        while ids := self.schema_ids():
            self._schemas_checked = False
            try:
                return self.schema(ids[-1])
            except NotFoundError:  # a fast-forward has just taken it away, unless it is still listed
                if self.schema_ids() == ids:
                    raise
        raise self.no_table()

    def schema_read_last(self) -> TableSchema:
        """The newest schema that was read by this object, without a request: it may be old. The latest if no schema was
        read."""
        return self._schemas[max(self._schemas)].schema if self._schemas else self.latest_schema()

    def schema(self, id_: int) -> TableSchema:
        """The schema of that number.

        Raises:
            NotFoundError: the schema does not exist, or the table was dropped and created again since its first schema
                was read.
            CorruptFileError: the file is not a schema.
        """
        cached = self._schemas
        if self._schemas_checked and id_ in cached:
            return cached[id_].schema
        found = self._read_schema(id_, cached.get(id_))
        known = cached.get(id_)  # another thread may have read it in the meantime
        if known is None or known.data != found.data:
            if known is not None or not self._is_same_table(cached):
                if self._schemas_checked:
                    raise NotFoundError(
                        "the table was dropped and created again during the operation",
                        path=self.root,
                        hint="run the operation again on the table that is there now",
                    )
                cached = {}
            cached[id_] = found
        self._schemas, self._schemas_checked = cached, True
        return found.schema

    def _read_schema(self, id_: int, cached: _SchemaFile | None) -> _SchemaFile:
        path = self.paths.schema(id_)

        def parse(data: bytes, path: str) -> _SchemaFile:
            return cached if cached is not None and data == cached.data else _SchemaFile(data, parse_schema(data, path))

        try:
            found = self.parse_file(path, parse)
        except FileNotFoundError as error:
            ids = self.schema_ids()
            if not ids:
                raise self.no_table() from error
            raise NotFoundError(f"schema {id_} is not there; schemas {ids[0]} to {ids[-1]} are", path=path) from error
        if found.schema.id != id_:
            raise CorruptFileError(f"the schema says it is number {found.schema.id}", path=path, field="id")
        return found

    def is_still_there(self) -> bool:
        """Whether the table is the one of which schemas were read; it may have been dropped or renamed since."""
        return self._is_same_table(self._schemas)

    def _is_same_table(self, cached: Mapping[int, _SchemaFile]) -> bool:
        """Whether the newest of these schemas still is what it was; each holds the time when it was made."""
        if not cached:
            return True
        newest = max(cached)
        try:
            return self.io.read_bytes(self.paths.schema(newest)) == cached[newest].data
        except FileNotFoundError:
            return False

    def schemas(self) -> list[TableSchema]:
        """All schemas, oldest first."""
        return [self.schema(id_) for id_ in self.schema_ids()]

    def try_create_schema(self, schema: TableSchema) -> bool:
        """Publish a schema under its number; False when that number is taken, also by a writer that replaced it just
        now: Java Paimon on a local disk looks first and then moves.
        Raises CommitOutcomeUnknownError: the storage failed, and did not say either whether the schema is there."""
        path, data = self.paths.schema(schema.id), utf8_bytes(schema_to_json(schema), "a schema file")
        try:
            created = self.io.create_if_absent(path, data)
            with suppress(OSError):
                return created and self.io.read_bytes(path) == data
            return created
        except OSError as error:
            try:
                if self.io.read_bytes(path) == data:
                    return True  # the storage failed after all was done
            except FileNotFoundError:
                pass
            except OSError:
                raise CommitOutcomeUnknownError(
                    f"the storage did not say whether schema {schema.id} was published ({error})",
                    path=self.root,
                    hint="look at the table's schema before changing it again",
                ) from error
            raise

    def branches(self) -> list[str]:
        """The names of all branches but main, by name."""
        entries = self.io.list(self.paths.branches_dir)
        return sorted(s.name[7:] for s in entries if s.name.startswith("branch-") and s.is_dir)

    # ------------------------------------------------------------------------------------ helpers of stores

    def ask(self, method: str, path: str) -> Any:
        """What a method of the storage gives for a path; an answer to a request that was sent ahead is taken first.
        Errors are those of the storage."""
        return getattr(self.io, method)(path) if self._sent is None else self._sent.ask(method, path)

    def parse_file(self, path: str, parse: Callable[[bytes, str], T]) -> T:
        """Parse a small file. Storage without atomic creation may show it half written: look again before giving up."""
        return Retry(_READ_AGAIN, 4).call(lambda: parse(self.ask("read_bytes", path), path), CorruptFileError)

    def file_numbers(self, directory: str, prefix: str) -> list[int]:
        """The numbers of the files of a directory that are named by a prefix and a number, ascending."""
        start = len(prefix)
        names = (status.name for status in self.ask("list", directory))
        found = (name[start:] for name in names if name.startswith(prefix))
        return sorted(int(n) for n in found if n.isascii() and n.isdigit() and len(n) < 19)

    def no_table(self) -> NotFoundError:
        """The error for a location without a table, or without this branch of it."""
        main = TablePaths(self.root)
        if self.branch != MAIN_BRANCH and self.io.list(main.schema_dir):
            branches = self.branches()
            if self.branch in branches:
                return BranchNotFoundError(
                    f"branch {self.branch!r:.100} has no columns: its creation did not finish",
                    path=self.root,
                    hint="delete it, unless it is being created",
                )
            return BranchNotFoundError(
                f"the table has no branch {self.branch!r:.100}",
                path=self.root,
                hint=suggest(self.branch, branches, "branches"),
            )
        return TableNotFoundError(
            "no Paimon table is here: there is no schema/schema-N",
            path=self.root,
            hint=_missing_table_hint(self.io, self.root),
        )


def utf8_bytes(json: str, what: str) -> bytes:
    """The bytes of JSON text. Raises SchemaError for half of a surrogate pair."""
    try:
        return json.encode()
    except UnicodeEncodeError as error:
        shown = json[max(0, error.start - 40) : error.end]
        raise SchemaError(
            f"half of a surrogate pair can't be written to {what}: {shown!r}", hint="correct the text"
        ) from None


def _missing_table_hint(io: FileIO, root: str) -> str:
    """A hint with the content of a location that is not a table, and tables of a similar name nearby."""
    try:
        here = io.list(root)
        if any(entry.name.endswith(".db") and entry.is_dir for entry in here):
            return f"this is a warehouse: name a table in it, such as {root}/DATABASE.db/TABLE"
        parent, _, name = root.rpartition("/")
        table, _, part = name.partition("$")
        if part and io.exists(f"{parent}/{table}/schema"):
            branch = part.removeprefix("branch_")
            then = f"give branch {branch!r} too" if branch != part else f"read its system table {part!r}"
            return f"name the table, {parent}/{table}, and {then}"
        inside = [e.name for e in here if e.is_dir and io.exists(f"{root}/{e.name}/schema")]
        if inside:
            return suggest(name, inside, "the tables in it") or ""
        beside = [e.name for e in io.list(parent or "/")[:1000] if e.is_dir]
        tables = [n for n in beside if n != name and io.exists(f"{parent}/{n}/schema")]
        found = "there is no such directory" if not here else "the directory holds something else"
        similar = suggest(name, tables, "tables next to it")
        return f"{found}; {similar}" if similar else found
    except PaimonError as error:
        return str(error)
