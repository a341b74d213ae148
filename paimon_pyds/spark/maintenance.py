"""Maintenance of tables with the work on Spark's executors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from paimon_pyds.spark.catalogs import given_table
from paimon_pyds.spark.executor import SparkExecutor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_pyds.maintenance.orphans import OrphanFiles
    from paimon_pyds.table import Table


def remove_orphan_files(
    spark: SparkSession,
    path: str | Table,
    older_than: timedelta | datetime | str | int = "1 day",
    dry_run: bool = True,
    *,
    external: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> OrphanFiles:
    """Find, and remove, files that nothing of a table names: see `paimon_pyds.Table.remove_orphan_files`.

    Args:
        spark: a session, classic or Connect; its workers list directories, read manifests, compare both, and remove the
            orphans. The driver holds what snapshots name of metadata, and the orphans.
        path: where the table is; or a `paimon_pyds.Table`, such as one of a catalog.
        older_than: an age, or the time of the last change.
        dry_run: only find them, which is the default.
        external: also look in the directories of ``data-file.external-paths``.
        storage_options: of the storage that the table is on.
    """
    table = given_table(path, None, storage_options)
    return table.remove_orphan_files(older_than, dry_run, external=external, executor=SparkExecutor(spark))
