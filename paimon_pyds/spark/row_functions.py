"""DELETE, UPDATE and MERGE on a Spark session: what `Table` does, with the work on Spark's executors.

Spark itself gives Python data sources none of the three. (Source: Spark's Python Data Source API, which has reads,
appends and overwrites only.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_pyds.errors import OptionError
from paimon_pyds.options.arguments import keywords_of
from paimon_pyds.rowlevel.clauses import MergeOptions
from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_pyds.rowlevel.changes import RowSummary

__all__ = ["delete", "merge", "update"]


def delete(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str,
    where: Any,
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
    options: Mapping[str, str] | None = None,
) -> RowSummary:
    """Delete the rows for which a condition is true: see `paimon_pyds.Table.delete`.

    Args:
        spark: a session, classic or Connect; its workers find the rows, and rewrite files where there are no vectors.
        path: where the table is.
        where: Spark SQL text; ``"TRUE"`` for every row.
        branch: a branch of the table; the main one by default.
        storage_options: credentials and endpoints of the storage.
        progress: called with the rows of the files that are done so far.
        options: table options for this run.

    Raises:
        OptionError: no condition, or a Column of Spark.
    """
    table = Table.open(path, branch, storage_options)
    return table.delete(_text(where), executor=SparkExecutor(spark), progress=progress, options=options)


def update(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str,
    set: Mapping[str, Any],
    where: Any = None,
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
    options: Mapping[str, str] | None = None,
) -> RowSummary:
    """Set columns of the rows for which a condition is true: see `paimon_pyds.Table.update`.

    Args:
        spark: a session, classic or Connect; its workers find the rows and write their new versions.
        path: where the table is.
        set: new values by column: Spark SQL text over the old values, or plain values that are not texts.
        where: Spark SQL text; all rows when None.
        branch: a branch of the table; the main one by default.
        storage_options: credentials and endpoints of the storage.
        progress: called with the rows of the files that are done so far.
        options: table options for this run.

    Raises:
        OptionError: nothing to set, or a Column of Spark.
    """
    table = Table.open(path, branch, storage_options)
    values = {name: _text(value) for name, value in set.items()}
    return table.update(values, _text(where), executor=SparkExecutor(spark), progress=progress, options=options)


@keywords_of(MergeOptions)
def merge(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str,
    source: Any,
    on: str | Sequence[str],
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
    **named: Any,
) -> RowSummary:
    """Bring rows of a source into a table: see `paimon_pyds.Table.merge` for the clauses.

    Args:
        spark: a session, classic or Connect; its workers join the files of the table that the source's keys can meet.
        path: where the table is.
        source: a DataFrame of Spark, which is collected to the driver (changes, not a second table), or what
            `Table.merge` takes.
        on: Spark SQL text over ``target.…`` and ``source.…``, or the names of columns that both have.
        branch: another branch than main.
        storage_options: of the storage that the table is on.
        progress: called with the rows of the files that are looked through so far.
        **named: see `MergeOptions`.
    """
    table = Table.open(path, branch, storage_options)
    rows = source.toArrow() if _is_of_spark(source) else source
    return table.merge(rows, on, executor=SparkExecutor(spark), progress=progress, **named)


def _is_of_spark(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "pyspark"


def _text(value: Any) -> Any:
    if _is_of_spark(value):
        raise OptionError(
            f"conditions and values are SQL text here, not {type(value).__name__} objects of Spark",
            hint="such as \"color = 'red'\", or the text that you would give to F.expr",
        )
    return value
