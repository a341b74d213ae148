"""Types of arguments, for type checkers and for code that hands arguments on; nothing here is needed to run.

    from paimon_pyds.typing import ScanArguments

Names that are not among the keys of a TypedDict are errors to mypy and pyright, as values of other types are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable

    from paimon_pyds.base.progress import ProgressEvent
    from paimon_pyds.engine.rowlevel.clauses import Delete, Insert, Update
    from paimon_pyds.sql.predicate.tree import Predicate
    from paimon_pyds.sql.text.order import TopN

__all__ = [
    "ArrowType",
    "Condition",
    "Filter",
    "Inserts",
    "Keys",
    "LookupArguments",
    "MissingColumns",
    "OptionValues",
    "Order",
    "Progress",
    "RowArguments",
    "RowChanges",
    "Rows",
    "ScanArguments",
    "StateArguments",
    "SystemArguments",
    "SystemName",
    "UnmatchedChanges",
    "WriteMode",
    "WriteSettings",
]
OptionValues: TypeAlias = Mapping[str, str | int | float | bool]
"""Options by their names, such as ``{"target-file-size": "512 mb", "write-only": True}``."""
Filter: TypeAlias = "str | Predicate | None"
"""Spark SQL text, or a predicate."""
Progress: TypeAlias = "bool | Callable[[ProgressEvent], None]"
"""Whether an operation shows how far it is, or what receives it: see `paimon_pyds.show_progress`."""
Order: TypeAlias = Literal["order", "zorder", "hilbert"]
"""How `compact` orders rows."""
WriteMode: TypeAlias = Literal["append", "overwrite", "error", "errorifexists", "ignore"]
"""What `paimon_pyds.spark.write` does where there are rows."""
MissingColumns: TypeAlias = Literal["null", "refuse"]
"""How a write treats columns that its rows lack."""
_RowChange: TypeAlias = "Literal['update', 'delete'] | Update | Delete"
RowChanges: TypeAlias = "_RowChange | Sequence[_RowChange] | None"
"""Clauses of a MERGE for rows of the table. A MERGE takes SQL too, such as ``"source.gone THEN DELETE"``; type checkers
take it for a mistyped word, and need ``Delete("source.gone")``."""
_Unmatched: TypeAlias = "Literal['delete'] | Update | Delete"
UnmatchedChanges: TypeAlias = "_Unmatched | Sequence[_Unmatched] | None"
"""The same for rows of the table that no row of the source matches."""
_Insert: TypeAlias = "Literal['insert'] | Insert"
Inserts: TypeAlias = "_Insert | Sequence[_Insert] | None"
"""Clauses of a merge for rows of the source."""
SystemName: TypeAlias = Literal[
    "snapshots", "schemas", "options", "aggregation_fields", "manifests", "partitions", "buckets", "tags", "branches",
    "table_indexes", "consumers", "statistics", "files", "file_indexes", "file_key_ranges", "audit_log", "binlog", "ro",
    "row_tracking",
]  # fmt: skip
"""The system tables of a table."""


class _ArrowExpression(Protocol):
    def to_substrait(self, *args: Any, **kwargs: Any) -> Any: ...


class ArrowType(Protocol):
    """A type of Arrow; checkers know it by its interface, as pyarrow has no annotations."""

    def __arrow_c_schema__(self) -> object: ...


Condition: TypeAlias = "str | bool | Predicate | _ArrowExpression"
"""Spark SQL text, a predicate, or an expression of `pyarrow.compute`."""


class _Stream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


class _Array(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> object: ...


class _Lazy(Protocol):
    def collect(self, *args: Any, **kwargs: Any) -> Any: ...


_Rows: TypeAlias = "_Stream | _Array | _Lazy | Mapping[str, Any]"
Rows: TypeAlias = "_Rows | Iterable[_Rows] | Iterable[Sequence[Mapping[str, Any]]]"
"""What rows can be taken from: Arrow, pandas, polars, DuckDB, a dictionary of columns, a list of dictionaries."""
_Key: TypeAlias = "str | bytes | int | float | Decimal | date | time"
Keys: TypeAlias = "Rows | _Key | tuple[_Key, ...] | Iterable[_Key | tuple[_Key, ...]]"
"""Keys to look up: rows with the columns of the key, or values alone; tuples of them where it has several columns."""


class StateArguments(TypedDict, total=False):
    """Which state of a table: see `paimon_pyds.Table.scan`."""

    snapshot: int | None
    tag: str | None
    timestamp: str | int | date | None
    options: Mapping[str, Any] | None


class LookupArguments(StateArguments, total=False):
    """The same, and a condition by either of its names."""

    where: Filter
    filter: Filter


class RowArguments(StateArguments, total=False):
    """The same, what of the rows, and the other name for ``where``."""

    filter: Filter
    columns: Sequence[str] | None
    limit: int | None


class SystemArguments(TypedDict, total=False):
    """The arguments of ``table.system.scan`` besides ``where``, and the other name for that."""

    filter: Filter
    columns: Sequence[str] | None
    limit: int | None
    options: Mapping[str, Any] | None


class ScanArguments(RowArguments, total=False):
    """The arguments of `paimon_pyds.Table.scan` besides ``where``."""

    matching: Rows | None
    top_n: str | TopN | None


class WriteSettings(TypedDict, total=False):
    """Settings of `paimon_pyds.spark.write`; table options also go into its ``options``."""

    branch: str
    create_if_missing: bool
    if_exists: Literal["append", "error", "ignore"]
    partition_by: str | Sequence[str]
    primary_key: str | Sequence[str]
    comment: str
    overwrite_partition: str | Mapping[str, Any]
    dynamic_partition_overwrite: bool
    rowkind_column: str
    missing_columns: MissingColumns
    operation: Literal["delete", "upsert"]
    operation_keys: str | Sequence[str]
    bucket: int | str
    bucket_key: str | Sequence[str]
    merge_engine: Literal["deduplicate", "first-row", "partial-update", "aggregation"]
    changelog_producer: Literal["none", "input", "lookup", "full-compaction"]
    target_file_size: int | str
    write_only: bool
    write_buffer_size: int | str
    ignore_delete: bool
