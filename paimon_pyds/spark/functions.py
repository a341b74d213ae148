"""Functions that take a DataFrame or a session: what `Table` does, with the work on Spark's executors.

Spark itself gives Python data sources no DELETE, UPDATE or MERGE. (Source: Spark's Python Data Source API, which has
reads, appends and overwrites only.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.progress import phase, shown
from paimon_pyds.engine.write.conform import SPARK
from paimon_pyds.errors import CommitConflictError, OptionError
from paimon_pyds.spark.catalogs import given_table
from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.spark.refresh import note_change
from paimon_pyds.spark.table_calls import does
from paimon_pyds.spark.write_shuffle import Prepared, prepared
from paimon_pyds.sql.predicate.argument import one_condition
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import DataFrame, SparkSession

    from paimon_pyds.engine.compact.compact import CompactSummary
    from paimon_pyds.engine.rowlevel.changes import RowSummary
    from paimon_pyds.typing import (
        Condition,
        Inserts,
        OptionValues,
        Order,
        Progress,
        RowChanges,
        Rows,
        UnmatchedChanges,
        WriteMode,
        WriteSettings,
    )

_NAME_LISTS = frozenset({"partition_by", "primary_key", "operation_keys"})
_MOST_KEYS = 20_000
"""Keys that are sent to each task of a delete."""


def write(
    df: DataFrame,
    path: str,
    mode: WriteMode = "append",
    options: Mapping[str, Any] | None = None,
    **settings: Unpack[WriteSettings],
) -> None:
    """Write a DataFrame into the table at a path, which is made when it is missing.

    It is ``df.write.format("paimon_pyds").mode(mode).option(…).save(path)`` with Python values: True instead of "true",
    lists of columns, a mapping for ``overwrite_partition``. Rows are shuffled by bucket first, for dynamic buckets by
    key before that, and each bucket gets one file, where a plain ``df.write`` makes one a task and bucket. Where a
    primary key does not hold all partition columns, rows are joined with where their keys are (of a DataFrame that is
    cached, only keys between its least and greatest are read), and a plain ``df.write`` is refused; where another
    commit has written some of the keys meanwhile, Spark computes and writes the rows again. The buckets that it
    wrote to of a table with a primary key are compacted by the workers, a task for each; a plain ``df.write`` leaves
    that to the process that commits. A client of Spark Connect that can't open the table of a catalog writes plainly,
    and a warning says so.

    Args:
        df: classic or Connect; the format must be known to its session (see `paimon_pyds.register`).
        path: where the table is; or its name, with options of a catalog.
        mode: ``append``, ``overwrite``, or what is done where the table has a snapshot: ``error`` or ``ignore``.
        options: options by their own names, such as ``{"file-index.bitmap.columns": "carrier"}``.
        settings: options spelled the Python way: ``partition_by=["month"]`` is ``partition-by``.

    Raises:
        OptionError: another mode, or a value that is no option's value. What the write itself refuses comes from Spark.
    """
    if mode == "error" or mode == "errorifexists" or mode == "ignore":
        settings["if_exists"] = "ignore" if mode == "ignore" else "error"
        mode = "append"
    if mode not in ("append", "overwrite"):
        raise OptionError(f"mode is 'append', 'overwrite', 'error' or 'ignore', not {mode!r}")
    named = {name.replace("_", "-"): _option_text(name, value) for name, value in settings.items() if value is not None}
    given = {name: _option_text(name, value) for name, value in (options or {}).items() if value is not None}
    twice = sorted(named.keys() & given.keys())
    if twice:
        raise OptionError(f"{twice[0]} is given twice")
    with shown("write"):
        ready = _saved(df, path, mode, {**named, **given})
        if ready.changed is not None:
            note_change(df.sparkSession, ready.changed, ready.changed.latest_snapshot_id())
        if ready.table is not None:
            from paimon_pyds.ops.after_commit import after_commit

            store, executor = ready.table._store, SparkExecutor(df.sparkSession)
            latest = store.latest_snapshot_id()
            if latest is not None:
                after_commit(store, latest, ready.own, write_only_since=ready.before, executor=executor)


def _saved(df: DataFrame, path: str, mode: str, options: Mapping[str, str]) -> Prepared:
    """Write the rows; again where keys had to be looked for, and another commit has written some of them meanwhile."""
    from paimon_pyds.engine.commit.publisher import Retries

    retries = Retries(TableOptions(options))
    while True:
        ready = prepared(df, {**options, "path": path}, mode)
        writer = ready.rows.write.format("paimon_pyds").mode(mode)
        for name, value in {**options, **ready.options}.items():
            writer = writer.option(name, value)
        try:
            with phase("writing"), ready.unmade_on_failure():
                writer.save(path)
            return ready
        except Exception as error:
            if not ready.places_keys or CommitConflictError.__name__ not in str(error) or retries.exhausted:
                raise
        retries.next()


def _option_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Mapping):
        return ",".join(f"{_quoted(str(key))}={_partition_value(part)}" for key, part in value.items())
    if isinstance(value, Iterable):
        parts = [str(part) for part in value]
        if name in _NAME_LISTS:
            parts = [_quoted(part) for part in parts]
        return ",".join(parts)
    raise OptionError(f"{name}: {type(value).__name__} is not a value of an option", hint="give text, numbers or lists")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`" if set(name) & set(",.`=' ") else name


def _partition_value(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + str(value).replace("'", "''") + "'"


@does(Table.compact)
def compact(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str | Table,
    where: str | None = None,
    order_by: str | Sequence[str] | None = None,
    *,
    order: Order = "order",
    full: bool = False,
    dry_run: bool = False,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    options: OptionValues | None = None,
    filter: str | None = None,
) -> CompactSummary:
    """Merge a table's small files, and drop deleted rows: see `paimon_pyds.Table.compact`."""
    return given_table(path, branch, storage_options).compact(
        one_condition(where, filter),
        order_by,
        order=order,
        full=full,
        dry_run=dry_run,
        executor=SparkExecutor(spark),
        progress=progress,
        options=options,
    )


@does(
    Table.delete,
    matching=(
        "keys, as `paimon_pyds.Table.delete` takes them, or a DataFrame of them, which is collected: "
        "20,000 different ones at most."
    ),
)
def delete(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str | Table,
    where: Condition | None = None,
    *,
    matching: DataFrame | Rows | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    options: OptionValues | None = None,
    filter: Condition | None = None,
) -> RowSummary:
    """Delete the rows for which a condition is true: see `paimon_pyds.Table.delete`.

    Raises:
        OptionError: no condition, a Column of Spark, or a DataFrame with more keys.
    """
    table, where = given_table(path, branch, storage_options), one_condition(where, filter)
    where, keys, executor = _checked_sql(where), _few_keys(matching), SparkExecutor(spark)
    done = table.delete(where, matching=keys, executor=executor, progress=progress, options=options)
    note_change(spark, table._store, done.snapshot_id)
    return done


def _few_keys(keys: DataFrame | Rows | None) -> Rows | None:
    """Keys of a DataFrame, collected; others as they are."""
    if type(keys).__name__ != "DataFrame" or not _is_of_spark(keys):
        return cast("Rows | None", keys)
    found = cast("DataFrame", keys).distinct().limit(_MOST_KEYS + 1).toArrow()
    if found.num_rows > _MOST_KEYS:
        raise OptionError(
            f"a DataFrame of keys has more than {_MOST_KEYS:,} different ones, and is not collected",
            hint="merge it: paimon.merge(spark, path, df, on=[…], when_matched='delete')",
        )
    return cast("Rows", found)


@does(
    Table.update,
    set="new values by column: Spark SQL text over the old values, or plain values that are not texts.",
)
def update(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str | Table,
    set: Mapping[str, Any],
    where: Condition | None = None,
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    options: OptionValues | None = None,
    filter: Condition | None = None,
) -> RowSummary:
    """Set columns of the rows for which a condition is true: see `paimon_pyds.Table.update`.

    Raises:
        OptionError: nothing to set, or a Column of Spark.
    """
    table, where = given_table(path, branch, storage_options), one_condition(where, filter)
    values = {name: _checked_sql(value) for name, value in set.items()}
    executor = SparkExecutor(spark)
    done = table.update(values, _checked_sql(where), executor=executor, progress=progress, options=options)
    note_change(spark, table._store, done.snapshot_id)
    return done


@does(
    Table.merge,
    source=(
        "a DataFrame of Spark, which is collected to the driver (changes, not a second table), or what "
        "`paimon_pyds.Table.merge` takes."
    ),
    options=(
        'over the table\'s own, such as ``{"deletion-vectors.enabled": "false"}`` to have files rewritten; and '
        "``timezone`` for dates, times and literals without a zone (that of the session by default)."
    ),
)
def merge(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str | Table,
    source: DataFrame | Rows,
    on: str | Sequence[str],
    *,
    when_matched: RowChanges = None,
    when_not_matched: Inserts = None,
    when_not_matched_by_source: UnmatchedChanges = None,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    options: OptionValues | None = None,
) -> RowSummary:
    """Bring rows of a source into a table: see `paimon_pyds.Table.merge` for the clauses."""
    table = given_table(path, branch, storage_options)
    rows: Any = source
    if _is_of_spark(source):
        rows = rows.toArrow().replace_schema_metadata({SPARK: ""})
    done = table.merge(
        rows,
        _checked_sql(on),
        when_matched=when_matched,
        when_not_matched=when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
        executor=SparkExecutor(spark),
        progress=progress,
        options=options,
    )
    note_change(spark, table._store, done.snapshot_id)
    return done


def _is_of_spark(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "pyspark"


def _checked_sql(value: Any) -> Any:
    if _is_of_spark(value):
        raise OptionError(
            f"conditions and values are SQL text here, not {type(value).__name__} objects of Spark",
            hint="such as \"color = 'red'\", or the text that you would give to F.expr",
        )
    return value
