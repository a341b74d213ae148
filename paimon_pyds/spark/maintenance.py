"""Housekeeping of a table by Spark's workers: as ``table.maintenance`` of Python."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING

from paimon_pyds.spark.catalogs import given_table
from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.spark.session_zone import in_session_zone
from paimon_pyds.sql.predicate.argument import one_condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_pyds.ops.maintenance.orphans import OrphanFiles
    from paimon_pyds.ops.rescale.rescale import RescaleSummary
    from paimon_pyds.table import Table
    from paimon_pyds.typing import OptionValues, Progress

__all__ = ["remove_orphan_files", "rescale"]


@in_session_zone
def rescale(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str | Table,
    bucket_num: int | None = None,
    where: str | None = None,
    *,
    dry_run: bool = False,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    options: OptionValues | None = None,
    filter: str | None = None,
) -> RescaleSummary:
    """Write partitions anew with another number of buckets: see ``table.maintenance.rescale``.

    Args:
        spark: a session, classic or Connect; its workers read and write the data files.
        path: where the table is; or a `paimon_pyds.Table`, such as one of a catalog.
        bucket_num: how many buckets; as many as the option ``bucket`` says when None.
        where: a condition on partition columns; all partitions when None.
        dry_run: only report what would be written anew, and change nothing; False by default.
        branch: another branch than main.
        storage_options: of the storage that the table is on.
        progress: as for `paimon_pyds.Table.append`; Spark runs on, the driver shows it.
        options: table options for this run.
        filter: another name for ``where``.
    """
    table, executor = given_table(path, branch, storage_options), SparkExecutor(spark)
    where = one_condition(where, filter)
    return table.maintenance.rescale(
        bucket_num, where, dry_run=dry_run, executor=executor, progress=progress, options=options
    )


@in_session_zone
def remove_orphan_files(
    spark: SparkSession,
    path: str | Table,
    older_than: timedelta | date | str | int = "1 day",
    dry_run: bool = False,
    *,
    external: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> OrphanFiles:
    """Find, and remove, files that nothing of a table names: see ``table.maintenance.remove_orphan_files``.

    Args:
        spark: a session, classic or Connect; its workers list directories, read manifests, compare both, and remove the
            orphans. The driver holds what snapshots name of metadata, and the orphans.
        path: where the table is; or a `paimon_pyds.Table`, such as one of a catalog.
        older_than: an age, or the time of the last change.
        dry_run: only find them, and change nothing; False by default.
        external: also look in the directories of ``data-file.external-paths``.
        storage_options: of the storage that the table is on.
    """
    table = given_table(path, None, storage_options)
    return table.maintenance.remove_orphan_files(older_than, dry_run, external=external, executor=SparkExecutor(spark))
