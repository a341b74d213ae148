"""The options of ``spark.read`` and ``df.write``, as Spark hands them over: texts, with their names in lower case.

Besides those listed here, every option of Paimon is taken: on reading it applies to the scan, on writing to the write,
and to the table when that is created. A name that nothing knows is refused, with the nearest one that exists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import RedactedDict
from paimon_pyds.base.text import whole_number
from paimon_pyds.errors import OptionError
from paimon_pyds.spark.location import (
    CATALOG_PREFIXES,
    OF_CATALOGS,
    STORAGE_PREFIXES,
    options_of_catalog,
    table_location,
)
from paimon_pyds.sql.predicate.argument import one_condition

if TYPE_CHECKING:
    from paimon_pyds.metadata.store import TableStore

WHERE = ("path", "warehouse", "database", "table", "branch")
OF_SCANS = ("timezone", "read-optimized")
READ = ("where", "filter", "columns", "limit", "topn", "metadata-columns", "pushdown", "explain", *OF_SCANS)
WRITE = (
    "create-if-missing", "if-exists", "partition-by", "partition", "primary-key", "comment", "overwrite-partition",
    "dynamic-partition-overwrite", "rowkind-column", "missing-columns", "operation", "operation-keys",
    "assigned-buckets", "commit-user", "commit-identifier",
)  # fmt: skip
OF_STREAMS = (
    "read.stream.maxfilespertrigger", "read.stream.maxbytespertrigger", "read.stream.maxrowspertrigger",
    "read.stream.minrowspertrigger", "read.stream.maxtriggerdelayms", "read.changelog", "other-row-kinds",
)  # fmt: skip
TRAVEL = (
    "scan.snapshot-id", "scan.tag-name", "scan.timestamp", "scan.timestamp-millis", "scan.version", "scan.watermark",
    "incremental-between", "incremental-between-timestamp", "incremental-between-scan-mode",
)  # fmt: skip
BUCKET_COLUMN = "__paimon_bucket"
_READ_ONLY = (
    "where", "filter", "columns", "limit", "topn", "metadata-columns", "read-optimized", "explain", *OF_STREAMS,
    *TRAVEL,
)  # fmt: skip
"""What makes a view of a table something that can't be written to."""
_OF_SPARK = frozenset({"paths", "provider", "owner", "location", "serialization.format"})
"""What Spark adds by itself (`CREATE TABLE … USING`, a list of paths)."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a ``spark.read``.

    Attributes:
        path: the table.
        columns: the text of the option, or None for all columns.
        top_n: the option ``topn``: sort columns and a number of rows, as in ``amount desc nulls last, 10``.
        metadata_columns: names of hidden columns to add.
        pushdown: whether Spark's filters are taken.
        explain: ``log``, or the path of a ``.txt``, ``.html`` or ``.json`` file.
        scan: options of Paimon for the scan, ``timezone`` and ``read-optimized``.
        storage: credentials, endpoints, and what is allowed of external paths; they are not shown.
        system: the name of a system table of the table, or with `SYSTEM_OF_WAREHOUSE` one of the warehouse at ``path``.
        catalog: options of the catalog in which ``path`` is the table's name; None where it is a path.
        store: the table, in tasks, which can't reach the catalog.
        kind_column: the column that a stream adds for the kind of each row; None for rows without kinds.
        stream: options of streams only.
    """

    path: str = field(repr=False)  # an address may hold credentials, until it is opened and refused
    branch: str | None = None
    where: str | None = None
    columns: str | None = None
    limit: int | None = None
    top_n: str | None = None
    metadata_columns: tuple[str, ...] = ()
    pushdown: bool = False
    explain: str | None = None
    scan: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)
    system: str | None = None
    catalog: Mapping[str, str] | None = None
    store: TableStore | None = None
    kind_column: str | None = None
    stream: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _redact_catalog(self)
        object.__setattr__(self, "scan", RedactedDict(self.scan))
        object.__setattr__(self, "storage", RedactedDict(self.storage))

    @property
    def travels(self) -> bool:
        """Whether a state of the table is named; else it is the latest."""
        return any(key in self.scan for key in TRAVEL)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a ``df.write``.

    Attributes:
        path: the table.
        create: create the table when it does not exist.
        if_exists: ``append``; or ``error`` or ``ignore`` where the table has a snapshot: what Spark's modes of these
            names do, which it refuses for Python data sources.
        partition_by: partition columns; None when the option was not given.
        primary_key: columns of the primary key; None when the option was not given.
        row_kinds: the column that holds the kind of each row, and is not stored; None for rows that are added.
        missing: what becomes of columns that the data does not have: ``null`` or ``refuse``; None where the option was
            not given.
        partition: the partitions that an overwrite replaces; None for all.
        dynamic: an overwrite replaces the partitions that the data has rows in.
        operation: ``delete`` or ``upsert``; None to write the rows as they are.
        keys: the columns that find the rows of an operation; None when the option was not given.
        commit: the user and the number of the commit, by which it is made once; None where it has no name.
        assigned: the index manifest by which `paimon_pyds.spark.write` gave rows their dynamic buckets, "" for none.
            They bring them along in `BUCKET_COLUMN`. None where writers find the buckets.
        table: options of Paimon.
        catalog: as in `ReadOptions`.
        storage: credentials, endpoints, and what is allowed of external paths; they are not shown.
    """

    path: str = field(repr=False)  # an address may hold credentials, until it is opened and refused
    branch: str | None = None
    create: bool = True
    if_exists: str = "append"
    partition_by: tuple[str, ...] | None = None
    primary_key: tuple[str, ...] | None = None
    row_kinds: str | None = None
    missing: str | None = None
    comment: str | None = None
    partition: Mapping[str, str | None] | None = None
    dynamic: bool = False
    operation: str | None = None
    keys: tuple[str, ...] | None = None
    commit: tuple[str, int] | None = None
    assigned: str | None = None
    table: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        _redact_catalog(self)
        object.__setattr__(self, "table", RedactedDict(self.table))
        object.__setattr__(self, "storage", RedactedDict(self.storage))

    @property
    def not_stored(self) -> tuple[str, ...]:
        """Columns of the data that describe rows and are not stored."""
        bucket = None if self.assigned is None else BUCKET_COLUMN
        return tuple(name for name in (self.row_kinds, bucket) if name is not None)


def parse_read_options(options: Mapping[str, str], *, pushdown: bool = False) -> ReadOptions:
    """The options of a read.

    ``options``: as Spark gives them. ``pushdown``: what holds when the option is not given.

    Raises:
        OptionError: an unknown name, a value that does not parse, or no table named.
        UnsupportedError: an option that is not built.
    """
    given = _checked(options)
    path, branch, system = table_location(given)
    _if_exists(given)  # a view may have options for what is inserted into it
    metadata = _names(given, "metadata-columns") or ()
    scan = _of_paimon(given) | {name: given[name] for name in OF_SCANS if name in given}
    if system == "ro":
        scan["read-optimized"] = "true"
    elif system == "row_tracking":
        metadata = tuple(dict.fromkeys((*metadata, "_ROW_ID", "_SEQUENCE_NUMBER")))
    return ReadOptions(
        path=path,
        branch=branch,
        where=one_condition(given.get("where"), given.get("filter")),
        columns=given.get("columns"),
        limit=_count(given, "limit"),
        top_n=given.get("topn"),
        metadata_columns=metadata,
        pushdown=_flag(given, "pushdown", pushdown),
        explain=_log_or_path(given),
        scan=scan,
        storage=_of_storage(given),
        catalog=options_of_catalog(given),
        system=None if system in ("ro", "row_tracking") else system,
        kind_column=given.get("rowkind-column", "rowkind" if _flag(given, "read.changelog", False) else None),
        stream={name: given[name] for name in OF_STREAMS if name in given},
    )


def parse_write_options(options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """The options of a write.

    Raises:
        OptionError: an unknown name, a value that does not parse, options that contradict each other.
        UnsupportedError: an option that is not built.
    """
    given = _checked(options)
    reading = [name for name in _READ_ONLY if name in given]
    if reading:
        raise OptionError(
            f"{reading[0]} is an option of reading, it has no meaning for a write",
            hint="write through a view or DataFrameWriter without it",
        )
    operation = _operation(given, overwrite)
    if "partition-by" in given and "partition" in given:
        raise OptionError("partition-by and partition say the same, and both are set")
    dynamic = _flag(given, "dynamic-partition-overwrite", False)
    partition = _partition(given)
    if not overwrite and (partition is not None or dynamic):
        name = "overwrite-partition" if partition is not None else "dynamic-partition-overwrite"
        if partition is not None or "dynamic-partition-overwrite" in given:
            raise OptionError(f"{name} needs mode('overwrite'), and this is an append")
    if partition is not None and dynamic:
        raise OptionError("an overwrite is dynamic or of named partitions, not both")
    path, branch, system = table_location(given)
    if system is not None:
        raise OptionError(f"{system} is a system table, which can't be written", hint="name the table")
    _flag(given, "pushdown", False)  # a view may have it for what is read
    if_exists = _if_exists(given)
    if if_exists != "append" and (overwrite or operation):
        raise OptionError(f"if-exists={if_exists} needs mode('append') without an operation")
    return WriteOptions(
        path=path,
        branch=branch,
        if_exists=if_exists,
        create=_flag(given, "create-if-missing", True),
        partition_by=_names(given, "partition" if "partition" in given else "partition-by"),
        primary_key=_names(given, "primary-key"),
        row_kinds=given.get("rowkind-column"),
        missing=given.get("missing-columns"),
        comment=given.get("comment"),
        partition=partition,
        dynamic=dynamic,
        operation=operation,
        keys=_names(given, "operation-keys"),
        commit=_commit(given),
        assigned=given.get("assigned-buckets"),
        table=_of_paimon(given),
        storage=_of_storage(given),
        catalog=options_of_catalog(given),
    )


def _if_exists(given: Mapping[str, str]) -> str:
    found = given.get("if-exists", "append").strip().lower()
    if found not in ("append", "error", "ignore"):
        raise OptionError(f"if-exists is append, error or ignore, not {given['if-exists']!r}")
    return found


def _operation(given: Mapping[str, str], overwrite: bool) -> str | None:
    text = given.get("operation")
    if text is None:
        if "operation-keys" in given:
            raise OptionError("operation-keys needs the option operation, which is delete or upsert")
        return None
    operation = text.strip().lower()
    if operation not in ("delete", "upsert"):
        raise OptionError(f"operation is delete or upsert, not {text!r}")
    if overwrite:
        raise OptionError(f"operation={operation} needs mode('append'), and this is an overwrite")
    shaping = [name for name in ("partition-by", "partition", "primary-key", "comment") if name in given]
    if shaping:
        raise OptionError(f"{shaping[0]} has no meaning for operation={operation}: the table already exists")
    if "missing-columns" in given:
        raise OptionError(f"missing-columns has no meaning for operation={operation}: new versions have all columns")
    return operation


def _commit(given: Mapping[str, str]) -> tuple[str, int] | None:
    if ("commit-user" in given) != ("commit-identifier" in given):
        raise OptionError("commit-user and commit-identifier name a commit together, and one of them is missing")
    if "commit-user" not in given:
        return None
    from paimon_pyds.ops.stream_writer import checked_identifier, checked_user

    number = whole_number(given["commit-identifier"])
    if number is None:
        raise OptionError(f"commit-identifier must be a whole number, not {given['commit-identifier']!r}")
    return checked_user(given["commit-user"]), checked_identifier(number)


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name)
    if text is None:
        return default
    word = text.strip().lower()
    if word in ("true", "on", "yes", "1"):
        return True
    if word in ("false", "off", "no", "0"):
        return False
    raise OptionError(f"{name} is on or off (true or false), not {text!r}")


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    value = whole_number(text)
    if value is None or value < 0:
        raise OptionError(f"{name} must be a number of rows, not {text!r}")
    return value


def _names(given: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    from paimon_pyds.spark.projection import split_names

    text = given.get(name)
    if text is None:
        return None
    try:
        return tuple(".".join(path) for path in split_names(text)) if text.strip() else ()
    except OptionError as error:
        raise OptionError(f"{name}: {error.message}") from None


_PARTITION = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^=,`']+?))\s*=\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<value>[^,']*?))\s*(?:,|\Z)"
)


def _partition(given: Mapping[str, str]) -> dict[str, str | None] | None:
    """``dt=2024-01-01,hh=1``; a value in single quotes may hold commas; NULL without quotes is the NULL partition."""
    text = given.get("overwrite-partition")
    if text is None:
        return None
    found: dict[str, str | None] = {}
    at = 0
    while at < len(text) or not found:
        match = _PARTITION.match(text, at)
        name = None if match is None else match["name"] or match["quoted"].replace("``", "`")
        if match is None or name is None or name in found:
            raise OptionError(
                f"overwrite-partition must look like dt=2024-01-01,hh=1, not {text!r}",
                hint="one value for each partition column, 'in quotes' when it holds a comma",
            )
        plain = match["value"]
        found[name] = match["text"].replace("''", "'") if plain is None else None if plain.upper() == "NULL" else plain
        at = match.end()
    return found


def _redact_catalog(options: ReadOptions | WriteOptions) -> None:
    if options.catalog is not None:
        object.__setattr__(options, "catalog", RedactedDict(options.catalog))


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    """The options under the names they are documented with. Raises OptionError for one that nothing knows."""
    if "paths" in {name.lower() for name in options}:
        raise OptionError("one table at a time: load takes one path", hint="union the DataFrames of several loads")
    given = {}
    for name, value in options.items():
        key = name.lower()
        if key in _OF_SPARK:
            continue
        if key not in _OWN and not key.startswith(_PREFIXES):
            key = _paimon_name(key)
        given[key] = value
    return given


def _log_or_path(given: Mapping[str, str]) -> str | None:
    where = given.get("explain")
    if where is not None and where != "log" and not re.search(r"[^/]\.(txt|html|json)\Z", where.lower()):
        raise OptionError(f"explain is log, or the path of a .txt, .html or .json file, not {where!r}")
    return where


_OWN = frozenset((*WHERE, *OF_CATALOGS, *READ, *OF_STREAMS, *WRITE))
_PREFIXES = (*STORAGE_PREFIXES, *CATALOG_PREFIXES)


def _paimon_name(key: str) -> str:
    """Paimon's own spelling of a lower-cased key. Raises OptionError for a key that is no option."""
    from paimon_pyds.base.options import OPTIONS, option_of
    from paimon_pyds.errors import suggest

    for name in OPTIONS:
        if name.lower() == key:
            return name
    if option_of(key) is None:
        raise OptionError(f"there is no option {key}", hint=suggest(key, [*OPTIONS, *_OWN], "options"))
    return key


def _of_paimon(given: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in given.items() if k not in _OWN and not k.startswith(_PREFIXES)}


def _of_storage(given: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in given.items() if k.startswith(STORAGE_PREFIXES)}
