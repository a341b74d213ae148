"""Maintenance of a table on a Spark session: what `Table` does, with the work on Spark's executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from paimon_pyds.compact.options import CompactOptions
from paimon_pyds.options.arguments import keywords_of
from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_pyds.compact.compact import CompactSummary
    from paimon_pyds.index_tools.rewrite import RewriteSummary

__all__ = ["compact", "rewrite_file_index"]


@keywords_of(CompactOptions)
def compact(
    spark: SparkSession,
    path: str,
    *positional: Any,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
    **named: Any,
) -> CompactSummary:
    """Merge a table's small files, and drop deleted rows: see `paimon_pyds.Table.compact`.

    Args:
        spark: a session, classic or Connect; its workers read and write the data files.
        path: where the table is.
        branch: another branch than main.
        storage_options: of the storage that the table is on.
        progress: called with the rows written so far.
        *positional: the options in their order.
        **named: the options by name: see `CompactOptions`.
    """
    table = Table.open(path, branch, storage_options)
    return table.compact(*positional, executor=SparkExecutor(spark), progress=progress, **named)


def rewrite_file_index(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str,
    where: str | None = None,
    *,
    rebuild: bool = False,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> RewriteSummary:
    """Build the file indexes that a table's options ask for: see `paimon_pyds.Table.rewrite_file_index`.

    Args:
        spark: a session, classic or Connect; its workers read the data files and write the indexes.
        path: where the table is.
        where: a condition on partition columns.
        rebuild: build every index anew, as after a change of an index's own options.
        branch: a branch of the table; the main one by default.
        storage_options: credentials and endpoints of the storage.
        progress: called with the rows of the files that are done so far.
    """
    table = Table.open(path, branch, storage_options)
    return table.rewrite_file_index(where, rebuild=rebuild, executor=SparkExecutor(spark), progress=progress)
