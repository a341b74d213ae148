"""Typed access to a table's options; and honour or refuse: whether this package reads and writes a table with them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from paimon_pyds.base.options.core import CORE_OPTIONS, ICEBERG_PROPERTIES, ICEBERG_REST, KEYS_STAY
from paimon_pyds.base.options.engines import ENGINE_OPTIONS, key_index
from paimon_pyds.base.options.option import Kind, Option, Scope, Status, comma_separated
from paimon_pyds.base.secrets import RedactedDict, holds_secret, names_secret
from paimon_pyds.base.types import ArrayType, DataField, MapType
from paimon_pyds.base.types.kinds import Kind as TypeKind
from paimon_pyds.errors import OptionError, UnsupportedError, suggest

OPTIONS: Mapping[str, Option] = {option.key: option for option in (*CORE_OPTIONS, *ENGINE_OPTIONS)}
"""Every option of Paimon by its key; options with a column in their key come from `dynamic_option`."""

IMMUTABLE_OPTIONS = frozenset(key for key, option in OPTIONS.items() if option.immutable)
"""Options that can't change once the table has a snapshot."""

_FALLBACKS = {old: option.key for option in OPTIONS.values() for old in option.fallbacks}
_FIELD_OPTIONS: dict[str, tuple[Kind, str, Status, bool]] = {
    # suffix: kind, meaning, status, only for primary keys
    "stats-mode": (Kind.STRING, "statistics of one column", Status.HONOURED, False),
    "aggregate-function": (Kind.STRING, "aggregate of one column", Status.HONOURED, True),
    "ignore-retract": (Kind.BOOLEAN, "retractions are dropped", Status.HONOURED, True),
    "sequence-group": (Kind.STRING, "columns ordered by this one", Status.HONOURED, True),
    "distinct": (Kind.BOOLEAN, "distinct values", Status.HONOURED, True),
    "list-agg-delimiter": (Kind.STRING, "delimiter of listagg", Status.HONOURED, True),
    "nested-key": (Kind.STRING, "key of nested rows", Status.HONOURED, True),
    "nested-key-null-strategy": (Kind.STRING, "NULL in that key", Status.HONOURED, True),
    "nested-sequence-field": (Kind.STRING, "order of nested rows", Status.HONOURED, True),
    "count-limit": (Kind.INT, "most nested rows", Status.HONOURED, True),
    "ts-field": (Kind.STRING, "time of a map entry", Status.HONOURED, True),
    "map.storage-layout": (Kind.STRING, "layout of a MAP in Parquet files", Status.HONOURED, False),
    "map.shared-shredding.max-columns": (Kind.INT, "limit of shredding", Status.HONOURED, False),
    "map.shared-shredding.column-placement-policy": (Kind.STRING, "way of shredding", Status.IGNORABLE, False),
}
INDEX_TYPES = ("bloom-filter", "bitmap", "bsi", "range-bitmap")
_INDEX_COLUMNS = re.compile(r"file-index\.([a-z0-9_-]+)\.columns")
_INDEX_OPTION = re.compile(r"file-index\.([a-z0-9_-]+)\.(.+)\.([a-z0-9_-]+)")
_KEY_INDEX = re.compile(r"pk-([a-z0-9-]+)\.index\.columns")
_INDEX_KINDS = {"fpp": Kind.DOUBLE, "items": Kind.LONG, "version": Kind.INT, "index-block-size": Kind.MEMORY,
                "chunk-size": Kind.MEMORY}  # fmt: skip
_LISTS = ("bucket-key", "sequence.field", "clustering.columns", "changelog-producer.row-deduplicate-ignore-fields",
          "incremental-between", "incremental-between-timestamp")  # fmt: skip
_LISTS_OF_COLUMNS = (".sequence-group", ".nested-key", ".nested-sequence-field")
"""Options of texts that are lists: Java looks for their parts with the blanks that stand around the commas."""
_GLOBAL_INDEXES = ("ivf-flat.", "ivf-sq.", "ivf-rq.", "ivf-pq.", "diskann.", "full-text.")
_OF_VECTORS = (
    ".distance.metric", ".metric", ".nlist", ".pq.m", ".pq.bits", ".pq.code-ratio", ".pq.use-opq", ".rq.bits",
    ".target-recall", ".max-bytes-per-vector", ".build-preset", ".max-degree", ".build-search-list-size",
)  # fmt: skip
BLOB_OPTIONS = ("blob-field", "blob-descriptor-field", "blob-view-field")
"""Which columns are BLOBs of which kind. They can't be changed but with their columns."""
_PASSED_ON = ("parquet.", "orc.", "avro.", "csv.", "json.", "text.", "format-table.")


def dynamic_option(key: str) -> Option | None:
    """The option behind a key that has a column (``fields.C.…``, ``file-index.TYPE.C.…``) or a format in it."""
    if key.startswith("fields."):
        for suffix, (kind, doc, status, primary_key_only) in _FIELD_OPTIONS.items():
            if key.endswith("." + suffix) and len(key) > len("fields.." + suffix):
                why = KEYS_STAY if status is Status.IGNORABLE else ""
                return Option(key=key, kind=kind, default=None, doc=doc, status=status, why=why,
                              accepted=("default",), primary_key_only=primary_key_only)  # fmt: skip
    if key.startswith(_GLOBAL_INDEXES) or (key.startswith("fields.") and key.endswith(_OF_VECTORS)):
        return Option(key=key, kind=Kind.STRING, default=None, doc="handed to what builds global indexes",
                      status=Status.HONOURED)  # fmt: skip
    if match := _INDEX_COLUMNS.fullmatch(key):
        status, why = Status.HONOURED, ""
        if match[1] not in INDEX_TYPES:
            status, why = Status.REFUSED, f"no index of type {match[1]} can be built"
        return Option(key=key, kind=Kind.LIST, default=None, doc=f"columns with a {match[1]} index", status=status,
                      why=why, scope=Scope.WRITE)  # fmt: skip
    if match := _INDEX_OPTION.fullmatch(key):
        return Option(key=key, kind=_INDEX_KINDS.get(match[3], Kind.STRING), default=None,
                      doc=f"{match[3]} of the {match[1]} index on {match[2]}", status=Status.HONOURED)  # fmt: skip
    if match := _KEY_INDEX.fullmatch(key):
        return key_index(match[1], f"columns with a {match[1]} index")
    if key.startswith((ICEBERG_REST, ICEBERG_PROPERTIES)):
        doc = (
            "setting of the client of an Iceberg REST catalog"
            if key.startswith(ICEBERG_REST)
            else "property of its table"
        )
        return Option(key=key, kind=Kind.STRING, default=None, doc=doc, status=Status.HONOURED)
    if key.startswith(("commit.callback.", "tag.callback.")):
        return Option(key=key, kind=Kind.STRING, default=None, doc="parameter of a Java class", status=Status.IGNORABLE,
                      why="the class can't be called from here")  # fmt: skip
    if key.startswith(_PASSED_ON):
        return Option(key=key, kind=Kind.STRING, default=None, doc="handed to the file format", status=Status.IGNORABLE,
                      why="tunes the files; what the format does not know is passed over")  # fmt: skip
    return None


def option_of(key: str) -> Option | None:
    """The option of a key, older names and keys with columns included; None for a key that is not Paimon's."""
    found = OPTIONS.get(key) or OPTIONS.get(_FALLBACKS.get(key, ""))
    return found or dynamic_option(key)


@functools.lru_cache(maxsize=512)
def _default_value(key: str) -> Any:
    """The typed default of an option of `OPTIONS` or of a dynamic one."""
    option = option_of(key)
    return None if option is None else option.default_value


class TableOptions(Mapping[str, str]):
    """The options that are set, as a mapping of texts, with typed access through `get`.

    ``options["bucket"]`` is the text that is set (KeyError when not); ``options.get("bucket")`` the typed value, the
    default when it is not set.
    """

    __slots__ = ("_raw", "_typed")

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._raw = {str(k): str(v) for k, v in (options or {}).items()}
        self._typed: dict[str, Any] = {}

    def __getitem__(self, key: str) -> str:
        return self._raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, key: object) -> bool:
        return key in self._raw

    def __repr__(self) -> str:
        return f"TableOptions({RedactedDict(self._raw)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (TableOptions, (self._raw,))

    def get(self, key: str, default: Any = None) -> Any:
        """The typed value (`parse_value` lists the types): what is set, else ``default``, else the option's default.
        Raises OptionError: the text that is set is no value of that option, or Paimon has no such option."""
        if key in self._typed:
            return self._typed[key]
        option = option_of(key)
        if option is None:
            if key in self._raw:
                return self._raw[key]
            if default is not None:
                return default
            raise OptionError(f"Paimon has no option {key}", hint=suggest(key, OPTIONS, "options"))
        text = self._text(option, key)
        if text is None:
            return _default_value(option.key) if default is None else default
        value = self._typed[key] = option.parse(text)
        return value

    def is_set(self, key: str) -> bool:
        """Whether the option is set, under this name or an older one."""
        option = option_of(key)
        return key in self._raw or (option is not None and self._text(option, key) is not None)

    def _text(self, option: Option, key: str) -> str | None:
        for name in (key, option.key, *option.fallbacks):
            if name in self._raw:
                return self._raw[name]
        return None


_STORAGE = "credentials are storage options, which are stored nowhere: storage_options={…}, or --storage-option"
DIRECTORY_OPTIONS = frozenset({"partition.default-name", "partition.legacy-name"})
"""Options by which the directories of partitions are named: readers would look for files elsewhere by other values."""
_SHAPE = frozenset({"bucket", "bucket-key", "bucket-function.type", "deletion-vectors.enabled"}).union(
    IMMUTABLE_OPTIONS, DIRECTORY_OPTIONS
)
_SHAPE_OF_READS = _SHAPE - {"bucket", "partition", "primary-key"}
"""A view that also takes rows in may name those; they change nothing of what is read."""


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


def blob_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of `BLOB_OPTIONS`."""
    return {key: value for key, value in options.items() if (option := option_of(key)) and option.key in BLOB_OPTIONS}


def holds_descriptors(field: DataField, options: Mapping[str, str]) -> bool:
    """Whether data files have descriptors or views of a column's BLOBs, which are elsewhere."""
    own = comma_separated(str(TableOptions(options).get("blob-descriptor-field") or ""))
    return field.name in own or holds_views(field, options)


def holds_views(field: DataField, options: Mapping[str, str]) -> bool:
    """Whether data files say of which row of another table a column's BLOBs are."""
    return field.name in comma_separated(str(TableOptions(options).get("blob-view-field") or ""))


def is_apart_blob(field: DataField, schema: SchemaLike, options: Mapping[str, str]) -> bool:
    """Whether a column is a BLOB, or an ARRAY or MAP of them, in files of its own."""
    return not (schema.primary_keys or holds_descriptors(field, options)) and blob_is_written(field, schema, options)


def blob_is_written(field: DataField, schema: SchemaLike, options: Mapping[str, str]) -> bool:
    """Whether a column is a BLOB, or an ARRAY or MAP of them, that can be written."""
    evolves = TableOptions(options).get("data-evolution.enabled")
    if field.name in (*schema.primary_keys, *schema.partition_keys):
        return False
    if schema.primary_keys:
        return field.type.kind is TypeKind.BLOB and (holds_descriptors(field, options) or _has_packs(options))
    if not evolves:
        return False
    match field.type:
        case ArrayType(element=element):
            return element.kind is TypeKind.BLOB and not holds_descriptors(field, options)
        case MapType(key=key, value=value):
            return value.kind is TypeKind.BLOB and key.refused() is None and not holds_descriptors(field, options)
    return field.type.kind is TypeKind.BLOB


def _has_packs(options: Mapping[str, str]) -> bool:
    """Whether a table with a primary key may have BLOBs in packs. (Java: class SchemaValidation.)"""
    get = TableOptions(options).get
    return (
        get("merge-engine") in ("deduplicate", "partial-update", "first-row")
        and get("changelog-producer") == "none"
        and not get("pk-clustering-override")
        and not get("data-file.external-paths")
        and int(get("bucket")) != -2
    )


def check_writable(
    schema: SchemaLike,
    options: Mapping[str, str] | None = None,
    *,
    existing_rows: bool = False,
    metadata_only: bool = False,
) -> None:
    """Raises UnsupportedError, naming the feature or option, unless rows can be written as the table's options require.

    ``options``: of the one write, over the table's own. ``existing_rows``: the rows are in the table, and stay in their
    buckets. ``metadata_only``: no data file is written.
    """
    merged = {**schema.options, **(options or {})}
    _check(merged, (Scope.READ, Scope.WRITE), "written")
    for field in () if metadata_only else schema.fields:
        refused = field.type.refused()
        if refused is not None and not blob_is_written(field, schema, merged):
            raise UnsupportedError(
                f"column {field.name} of type {refused} can't be written",
                hint="use Java Paimon",
                feature="blob" if refused == "BLOB" else "unknown-types",
            )
    typed = TableOptions(merged)
    if (kind := typed.get("type")) != "table":
        raise UnsupportedError(
            f"a table with type={kind} can't be written",
            hint="its own engine fills it",
            feature="format-tables" if kind == "format-table" else "object-tables",
        )
    from paimon_pyds.base.options.iceberg import check_publishable

    check_publishable(schema, typed)
    zoned = zoned_partitions(schema)
    if zoned:
        raise UnsupportedError(
            f"a table with partition.legacy-name=false can't be written when {zoned[0]} is a partition column: Java "
            "names directories of TIMESTAMP WITH LOCAL TIME ZONE in its own time zone, and would not find ours",
            hint="create another table and leave partition.legacy-name out, or partition by DATE, TIMESTAMP or STRING",
        )
    if not (existing_rows and schema.primary_keys):
        _check_buckets(schema, typed)


def check_appendable(options: Mapping[str, str]) -> None:
    """Raises UnsupportedError where rows can't just be added to a table with these options."""
    _check(options, (Scope.APPEND,), "appended to")


def _check_buckets(schema: SchemaLike, options: TableOptions) -> None:
    """Also what else of a primary key can't be written."""
    bucket = options.get("bucket")
    if not schema.primary_keys:
        if bucket == 0 or bucket < -1:
            raise UnsupportedError(
                f"a table without primary key can't have bucket={bucket}", hint="bucket is -1 (none), or 1 and more"
            )
        return
    moving = not set(schema.partition_keys) <= set(schema.primary_keys)
    if moving and bucket == -2:
        raise UnsupportedError(
            f"a primary key that does not hold all partition columns, and bucket={bucket}, can't be written",
            hint="create the table with bucket=-1, or with all partition columns in the key",
        )
    if bucket == -2 and options.get("sequence.snapshot-ordering"):
        raise UnsupportedError(
            "a table with sequence.snapshot-ordering=true and bucket=-2 can't be written: rows that wait for their "
            "bucket would lose the snapshot that orders them",
            hint="create the table with bucket=-1, or with 1 and more",
            feature="snapshot-ordering",
        )
    if bucket < 1 and bucket not in (-1, -2):
        raise UnsupportedError(
            f"a table with a primary key can't have bucket={bucket}",
            hint="bucket is -1 (dynamic), -2 (given when the table is compacted), or 1 and more (fixed)",
        )


def check_without_key(schema: SchemaLike, operation: str) -> None:
    """Raises UnsupportedError for a table with a primary key. ``operation``: what is only done with other tables."""
    if schema.primary_keys:
        raise UnsupportedError(
            f"{operation} is for tables without a primary key", hint="use an append table (no primary key)"
        )


def check_whole_rows(schema: SchemaLike, operation: str) -> None:
    """Raises UnsupportedError for a table of data evolution. ``operation``: what takes files for whole rows."""
    if TableOptions(schema.options).get("data-evolution.enabled"):
        raise UnsupportedError(
            f"{operation} is not for tables with data-evolution.enabled=true, where columns of a row are in several "
            "files",
            hint="read the rows of both states, or of the table, with scan()",
            feature="data-evolution",
        )


def zoned_partitions(schema: SchemaLike) -> list[str]:
    """The partition columns whose directories Java names in the time zone of its process."""
    if not schema.partition_keys or TableOptions(schema.options).get("partition.legacy-name"):
        return []
    instants = {field.name for field in schema.fields if field.type.kind is TypeKind.TIMESTAMP_LTZ}
    return [name for name in schema.partition_keys if name in instants]


def check_branch(schema: SchemaLike, branch: str, path: str, given: Mapping[str, str] | None = None) -> None:
    """Whether a table is opened as the branch that options name.

    Args:
        schema: the table's.
        branch: the one at hand.
        path: the table's, for errors.
        given: options of one operation.

    Raises:
        UnsupportedError: the table's own option ``branch`` names another one. Java reads and writes that one, with the
            columns of this one.
        OptionError: so do those of the operation.
    """
    wanted = (given or {}).get("branch", branch)
    if wanted != branch:
        raise OptionError(
            f"option branch={wanted} does not lead from branch {branch} to another one, except for a scan",
            path=path,
            hint=f"open that branch: Table.open(path, branch={wanted!r})",
        )
    other = schema.options.get("branch", branch)
    if other != branch:
        raise UnsupportedError(
            f"the table's own option branch={other} sends readers and writers of branch {branch} to another one",
            path=path,
            hint="open that branch by its name, or alter the table: unset branch",
        )


def check_shape(schema: SchemaLike, options: Mapping[str, str], path: str, *, reads: bool = False) -> None:
    """Raises OptionError where options of one write, or of a scan (``reads``), say something else of the table's shape
    than the table at ``path``.

    What is immutable, how rows are spread over buckets, and whether deletion vectors hide rows that readers find in
    files, only a rewrite of the table may change. A scan that took another merge engine's word would give other rows.
    """
    own, wanted = TableOptions(schema.options), TableOptions(options)
    shape = _SHAPE_OF_READS if reads else _SHAPE
    for key, text in options.items():
        if key in DIRECTORY_OPTIONS and not schema.partition_keys:
            continue
        if key in shape and own.get(key) != wanted.get(key):
            raise OptionError(
                f"{key} is {text} here and {own.get(key)} in the table",
                path=path,
                hint="what shapes a table is fixed when it is created; leave the option out",
            )


def _check(options: Mapping[str, str], scopes: Sequence[Scope], action: str) -> None:
    for key, text in options.items():
        option = option_of(key)
        if option is None or option.status is not Status.REFUSED or option.scope not in scopes:
            continue
        if not option.accepts(text):
            told = f"a table with {key}={text} can't be {action}: {option.why}"
            from paimon_pyds.base.features import feature_of_option  # most tables have no such option

            raise UnsupportedError(told, hint=_remedy(option), feature=feature_of_option(option.key))


def _remedy(option: Option) -> str:
    if option.remedy:
        return option.remedy
    if option.default is None and not option.accepted:
        return "use Java Paimon for this table, or remove the option"
    default = (option.default,) if option.default is not None else ()
    return f"what works: {', '.join((*default, *option.accepted)) or 'no value'}"


def check_known(options: Iterable[str], namespace: Iterable[str] = (), *, own: bool = True) -> None:
    """Raises OptionError for a key that looks like a misspelt option: unknown, and similar to a known one.

    Other unknown keys pass: people keep properties of their own in a table. Options of a single operation have no such
    excuse: with ``own`` False each unknown key is refused. They may name the time zone of texts, ``timezone``.
    """
    names = [*OPTIONS, *(f"file-index.{index}.columns" for index in INDEX_TYPES), *namespace]
    names += [] if own else ["timezone"]
    for key in options:
        if option_of(key) is None and key not in names:
            import difflib

            folded = key.lower().replace("_", "-")
            similar = difflib.get_close_matches(folded, names, n=1, cutoff=0.8 if len(folded) < 10 else 0.85)
            if names_secret(key):
                if own:
                    continue  # `check_no_secrets` is about new ones; those that a table holds do not keep it from use
                raise OptionError(f"option {key} is a secret, which is not a table option", hint=_STORAGE)
            index = folded.startswith(("file-index.", "fields.", "bucket", "scan.", "commit.", "manifest."))
            if similar or index or not own:
                raise OptionError(f"unknown option {key}", hint=suggest(folded, names, "options"))


def stored_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options as a schema file has them, so that Java reads the same values; what is no value stays as it is."""
    return {key: _stored(key, text) for key, text in options.items()}


def _stored(key: str, text: str) -> str:
    if key in _LISTS or (key.startswith("fields.") and key.endswith(_LISTS_OF_COLUMNS)):
        return ",".join(comma_separated(text))
    if key.endswith(("stats-mode", "compression")):
        return text.strip()
    option = option_of(key)
    try:
        return text if option is None else option.stored(text)
    except OptionError:
        return text


def check_no_secrets(options: Mapping[str, str]) -> None:
    """Raises OptionError for an option of a table that is a secret: every reader of the table could read it."""
    for key, text in options.items():
        if names_secret(key) or holds_secret(text):
            what = "is a secret" if names_secret(key) else "holds a secret"
            raise OptionError(
                f"option {key} {what}, and every reader of a table can read its options",
                hint="give it to each write, options={…}" if key.startswith(ICEBERG_REST) else _STORAGE,
            )
