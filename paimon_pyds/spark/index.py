"""File indexes of a table, built by Spark's workers: as ``table.index`` of Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_pyds.namespaces.index import Index
from paimon_pyds.spark.catalogs import given_table
from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.spark.table_calls import does
from paimon_pyds.sql.predicate.argument import one_condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_pyds.ops.index_tools.rewrite import RewriteSummary
    from paimon_pyds.ops.index_tools.verify import VerifyReport
    from paimon_pyds.table import Table
    from paimon_pyds.typing import Progress

__all__ = ["build", "verify"]


@does(Index.build)
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
    """Build the file indexes that a table's options name: see ``table.index.build``."""
    table, where = given_table(path, branch, storage_options), one_condition(where, filter)
    return table.index.build(where, rebuild=rebuild, executor=SparkExecutor(spark), progress=progress)


@does(Index.verify)
def verify(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str | Table,
    where: str | None = None,
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    filter: str | None = None,
) -> VerifyReport:
    """Compare every file index with the data: see ``table.index.verify``."""
    table, where = given_table(path, branch, storage_options), one_condition(where, filter)
    return table.index.verify(where, executor=SparkExecutor(spark), progress=progress)
