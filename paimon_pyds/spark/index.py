"""File indexes of a table, built by Spark's workers: as ``table.index`` of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_pyds.spark.catalogs import given_table
from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.spark.session_zone import in_session_zone
from paimon_pyds.sql.predicate.argument import one_condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_pyds.ops.index_tools.rewrite import RewriteSummary
    from paimon_pyds.table import Table
    from paimon_pyds.typing import Progress

__all__ = ["build"]


@in_session_zone
def build(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str | Table,
    where: str | None = None,
    *,
    rebuild: bool = False,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    filter: str | None = None,
) -> RewriteSummary:
    """Build the file indexes that a table's options ask for: see ``table.index.build``.

    Args:
        spark: a session, classic or Connect; its workers read the data files and write the indexes.
        path: where the table is; or a `paimon_pyds.Table`, such as one of a catalog.
        where: a condition on partition columns.
        rebuild: build every index anew, as after a change of an index's own options.
        branch: a branch of the table; the main one by default.
        storage_options: credentials and endpoints of the storage.
        progress: as for `paimon_pyds.Table.append`; Spark runs on, the driver shows it.
        filter: another name for ``where``.
    """
    table, where = given_table(path, branch, storage_options), one_condition(where, filter)
    return table.index.build(where, rebuild=rebuild, executor=SparkExecutor(spark), progress=progress)
