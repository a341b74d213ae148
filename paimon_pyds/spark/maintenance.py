"""Maintenance of tables with the work on Spark's executors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_pyds.maintenance.orphans import OrphanFiles


def remove_orphan_files(
    spark: SparkSession,
    path: str,
    older_than: timedelta | datetime | str | int = "1 day",
    dry_run: bool = True,
    *,
    external: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> OrphanFiles:
    """Find, and remove, files that nothing of a table names: see `paimon_pyds.Table.remove_orphan_files`.

    Args:
        spark: a session, classic or Connect; its workers list directories and read manifests. The driver holds the
            names of all old files, compares them, and removes the orphans.
        path: where the table is.
        older_than: an age, or the time of the last change.
        dry_run: only find them, which is the default.
        external: also look in the directories of ``data-file.external-paths``.
        storage_options: of the storage that the table is on.
    """
    table = Table.open(path, None, storage_options)
    return table.remove_orphan_files(older_than, dry_run, external=external, executor=SparkExecutor(spark))
