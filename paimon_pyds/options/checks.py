"""Honour or refuse: whether this package reads and writes a table with these options, and the report that says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from paimon_pyds.errors import OptionError, UnsupportedError, suggest
from paimon_pyds.options.option import Option, Scope, Status
from paimon_pyds.options.table_options import IMMUTABLE_OPTIONS, INDEX_TYPES, OPTIONS, TableOptions, option_of
from paimon_pyds.redaction import holds_secret, names_secret, shown
from paimon_pyds.types import REFUSED_KINDS, DataField, DataType, Kind

if TYPE_CHECKING:
    import pyarrow as pa

_STORAGE = "credentials are storage options, which are stored nowhere: storage_options={…}, or --storage-option"
_BUCKETS = frozenset({"bucket", "bucket-key", "bucket-function.type"})
_WRITTEN_BY_KEY = {
    "primary-key.nullable": (False,),
}
"""Values of options that tables with a primary key are written with."""


class SchemaLike(Protocol):
    """What the checks need of a table schema."""

    @property
    def fields(self) -> tuple[DataField, ...]: ...
    @property
    def partition_keys(self) -> tuple[str, ...]: ...
    @property
    def primary_keys(self) -> tuple[str, ...]: ...
    @property
    def options(self) -> Mapping[str, str]: ...


def check_readable(schema: SchemaLike, options: Mapping[str, str] | None = None) -> None:
    """Raises UnsupportedError, naming the feature or option, unless rows of this table can be read rightly.

    ``options`` are those of the one read, over the table's own.
    """
    _check({**schema.options, **(options or {})}, (Scope.READ,), "read")


def check_writable(
    schema: SchemaLike, options: Mapping[str, str] | None = None, *, existing_rows: bool = False
) -> None:
    """Raises UnsupportedError, naming the feature or option, unless rows can be written as the table asks for.

    Args:
        schema: the table's.
        options: of the one write, over the table's own.
        existing_rows: the rows are in the table, and stay in their buckets.
    """
    for field in schema.fields:
        refused = refused_kind(field.type)
        if refused is not None:
            raise UnsupportedError(f"column {field.name} of type {refused} can't be written", hint="use Java Paimon")
    merged = {**schema.options, **(options or {})}
    _check(merged, (Scope.READ, Scope.WRITE), "written")
    typed = TableOptions(merged)
    if typed.get("type") != "table":
        raise UnsupportedError(f"a table with type={typed['type']} can't be written", hint="its own engine fills it")
    zoned = zoned_partitions(schema)
    if zoned:
        raise UnsupportedError(
            f"a table with partition.legacy-name=false can't be written when {zoned[0]} is a partition column: Java "
            "names directories of TIMESTAMP WITH LOCAL TIME ZONE in its own time zone, and would not find ours",
            hint="create another table and leave partition.legacy-name out, or partition by DATE, TIMESTAMP or STRING",
        )
    if not (existing_rows and schema.primary_keys):
        _check_buckets(schema, typed)
    if typed.get("file.format").lower() not in ("parquet", "orc", "avro"):
        raise UnsupportedError(
            f"a table with file.format={typed['file.format']} can't be written", hint="parquet, orc and avro can"
        )


def _check_buckets(schema: SchemaLike, options: TableOptions) -> None:
    """Also what else of a primary key can't be written."""
    bucket = options.get("bucket")
    if not schema.primary_keys:
        if bucket == 0 or bucket < -1:
            raise UnsupportedError(
                f"a table without primary key can't have bucket={bucket}", hint="bucket is -1 (none), or 1 and more"
            )
        return
    if bucket < 1:
        raise UnsupportedError(
            f"a table with a primary key and bucket={bucket} can't be written yet",
            hint="tables with a fixed number of buckets can: bucket is 1 or more; or use Java Paimon",
        )
    for key, values in _WRITTEN_BY_KEY.items():
        if options.get(key) not in values:
            works = ", ".join(str(value).lower() for value in values)
            raise UnsupportedError(
                f"a table with a primary key and {key}={options[key]} can't be written yet",
                hint=f"what works: {works}; or use Java Paimon for this table",
            )


def check_compactable(options: TableOptions) -> None:
    """Raises UnsupportedError for options of tables with a primary key that a compaction would have to honour."""
    for key in options:
        index = key.startswith("pk-") and key.endswith(".index.columns")
        if index or (key == "primary-key.nullable" and options.get(key)):
            raise UnsupportedError(
                f"{key}: a compaction would have to honour it", hint="compact this table with Java Paimon"
            )


def check_without_key(schema: SchemaLike, operation: str) -> None:
    """Raises UnsupportedError for a table with a primary key. ``operation``: what is only done with other tables."""
    if schema.primary_keys:
        raise UnsupportedError(
            f"{operation} is for tables without a primary key",
            hint="use an append table (no primary key)",
        )


def zoned_partitions(schema: SchemaLike) -> list[str]:
    """The partition columns whose directories Java names in the time zone of its process."""
    if not schema.partition_keys or TableOptions(schema.options).get("partition.legacy-name"):
        return []
    instants = {field.name for field in schema.fields if field.type.kind is Kind.TIMESTAMP_LTZ}
    return [name for name in schema.partition_keys if name in instants]


def check_branch(schema: SchemaLike, branch: str, path: str) -> None:
    """Raises UnsupportedError where the table's own option ``branch`` names another branch than the one at hand.

    Java reads and writes that one, with the columns of this one.
    """
    other = schema.options.get("branch", branch)
    if other != branch:
        raise UnsupportedError(
            f"the table's own option branch={other} sends readers and writers of branch {branch} to another one",
            path=path,
            hint="open that branch by its name, or alter the table: unset branch",
        )


def check_shape(schema: SchemaLike, options: Mapping[str, str], path: str) -> None:
    """Raises OptionError where options of one write say something else of the table's shape than the table at ``path``.

    What is immutable, and how rows are spread over buckets, only a rewrite of the table may change.
    """
    own, wanted = TableOptions(schema.options), TableOptions(options)
    for key, text in options.items():
        if key in IMMUTABLE_OPTIONS | _BUCKETS and own.get(key) != wanted.get(key):
            raise OptionError(
                f"{key} is {text} here and {own.get(key)} in the table",
                path=path,
                hint="what shapes a table is fixed when it is created; leave the option out",
            )


def refused_kind(type_: DataType) -> str | None:
    """The name of a type that is not supported (VARIANT, BLOB, VECTOR), here or anywhere inside; None when all are."""
    if type_.kind in REFUSED_KINDS:
        return type_.kind.value
    return next((name for child in type_.children() if (name := refused_kind(child)) is not None), None)


def _check(options: Mapping[str, str], scopes: Sequence[Scope], action: str) -> None:
    for key, text in options.items():
        option = option_of(key)
        if option is None or option.status is not Status.REFUSED or option.scope not in scopes:
            continue
        if not option.accepts(text):
            raise UnsupportedError(f"a table with {key}={text} can't be {action}: {option.why}", hint=_remedy(option))


def _remedy(option: Option) -> str:
    if option.default is None and not option.accepted:
        return "use Java Paimon for this table, or remove the option"
    default = (option.default,) if option.default is not None else ()
    return f"what works: {', '.join((*default, *option.accepted)) or 'no value'}"


def check_known(options: Iterable[str], namespace: Iterable[str] = (), *, own: bool = True) -> None:
    """Raises OptionError for a key that looks like a misspelt option: unknown, and similar to a known one.

    Other unknown keys pass: people keep properties of their own in a table. Options of a single operation have no such
    excuse: with ``own`` False each unknown key is refused.
    """
    import difflib

    names = [*OPTIONS, *(f"file-index.{index}.columns" for index in INDEX_TYPES), *namespace]
    for key in options:
        if option_of(key) is None and key not in names:
            folded = key.lower().replace("_", "-")
            similar = difflib.get_close_matches(folded, names, n=1, cutoff=0.85)
            if names_secret(key):
                if own:
                    continue  # `check_no_secrets` is about new ones; those that a table holds do not keep it from use
                raise OptionError(f"option {key} is a secret, which is not a table option", hint=_STORAGE)
            index = folded.startswith(("file-index.", "fields.", "bucket", "scan.", "commit.", "manifest."))
            if similar or index or not own:
                raise OptionError(f"unknown option {key}", hint=suggest(folded, names, "options"))


def check_no_secrets(options: Mapping[str, str]) -> None:
    """Raises OptionError for an option of a table that is a secret: everyone who reads the table could read it."""
    for key, text in options.items():
        if names_secret(key) or holds_secret(text):
            what = "is a secret" if names_secret(key) else "holds a secret"
            raise OptionError(
                f"option {key} {what}, and everyone who can read a table can read its options", hint=_STORAGE
            )


def describe_options(schema: SchemaLike) -> pa.Table:
    """Every option of Paimon and every key that the table sets, as an Arrow table.

    Columns: key, value (what is set, else the default), default, set (bool), status (honoured, ignorable, refused or
    unknown, of that value), why. Keys that are set come first; secrets that the table holds are blanked.
    """
    import pyarrow as pa

    rows = list(_described(schema))
    names = ("key", "value", "default", "set", "status", "why")
    types = (pa.string(), pa.string(), pa.string(), pa.bool_(), pa.string(), pa.string())
    columns = [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]
    return pa.table(columns, names=list(names))


def _described(schema: SchemaLike) -> Iterator[tuple[str, str | None, str | None, bool, str, str]]:
    typed = TableOptions(schema.options)
    for key in sorted(typed):
        option = option_of(key)
        if option is None:
            why = "no option of Paimon; it is kept, and has no effect"
            if names_secret(key) or holds_secret(typed[key]):
                why = "a secret that every reader of the table can read: unset it, and give it as a storage option"
            yield key, shown(key, typed[key]), None, True, Status.UNKNOWN.value, why
        else:
            status, why = _status(option, typed[key], schema)
            yield key, shown(key, typed[key]), option.default, True, status.value, why
    for key in sorted(OPTIONS):
        if key not in typed:
            option = OPTIONS[key]
            status, why = _status(option, option.default, schema)
            yield key, option.default, option.default, False, status.value, why


def _status(option: Option, text: str | None, schema: SchemaLike) -> tuple[Status, str]:
    if option.primary_key_only and not schema.primary_keys:
        return Status.IGNORABLE, "matters for tables with a primary key only"
    written = _WRITTEN_BY_KEY.get(option.key) if schema.primary_keys else None
    try:
        value = None if text is None else option.parse(text)
    except OptionError as error:
        return Status.REFUSED, error.message
    if option.status is not Status.REFUSED and written is None:
        return option.status, option.why
    reads = text is None or option.accepts(text)
    writes = written is None or text is None or value in written
    if reads and writes:
        return Status.HONOURED, f"other values are refused: {option.why or 'a table is not written with them yet'}"
    why = option.why or "not supported yet"
    return Status.REFUSED, f"{why} (when {'reading' if not reads and option.scope is Scope.READ else 'writing'})"


def restore_case(options: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """Options whose keys were lower-cased on the way (Spark does it), with the case of Paimon's keys and of columns.

    Raises:
        OptionError: a key could mean two columns.
    """
    by_key = {key.lower(): key for key in OPTIONS}
    by_column: dict[str, list[str]] = {}
    for name in columns:
        by_column.setdefault(name.lower(), []).append(name)
    restored = {}
    for key, value in options.items():
        lower = key.lower()
        if lower in by_key:
            restored[by_key[lower]] = value
        else:
            restored[_restored(key, by_column)] = value
    return restored


def _restored(key: str, columns: Mapping[str, Sequence[str]]) -> str:
    """A key with a column in it (``fields.C.opt``, ``file-index.type.C.opt``) with that column's own case."""
    parts = key.split(".")
    start = 1 if parts[0].lower() == "fields" else 2 if parts[0].lower() == "file-index" else len(parts)
    for stop in range(len(parts) - 1, start, -1):
        inner = ".".join(parts[start:stop])
        name, bracket, rest = inner.partition("[")
        candidates = columns.get(name.lower(), ())
        if len(candidates) > 1 and name not in candidates:
            raise OptionError(f"option {key} could mean column {' or '.join(candidates)}", hint="rename one of them")
        if candidates:
            own = name if name in candidates else candidates[0]
            return ".".join((*parts[:start], own + bracket + rest, *parts[stop:]))
    return key
