"""Housekeeping of a table by Spark's workers: as ``table.maintenance`` of Python."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING

from paimon_pyds.namespaces.maintenance import Maintenance
from paimon_pyds.spark.catalogs import given_table
from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.spark.table_calls import does
from paimon_pyds.sql.predicate.argument import one_condition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_pyds.ops.maintenance.findings import RepairPlan, Verification
    from paimon_pyds.ops.maintenance.orphans import OrphanFiles
    from paimon_pyds.ops.maintenance.repair import Repair
    from paimon_pyds.ops.rescale.rescale import RescaleSummary
    from paimon_pyds.table import Table
    from paimon_pyds.typing import OptionValues, Progress

__all__ = ["remove_orphan_files", "repair", "rescale", "verify"]


@does(Maintenance.rescale)
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
    """Write partitions anew with another number of buckets: see ``table.maintenance.rescale``."""
    table, executor = given_table(path, branch, storage_options), SparkExecutor(spark)
    where = one_condition(where, filter)
    return table.maintenance.rescale(
        bucket_num, where, dry_run=dry_run, executor=executor, progress=progress, options=options
    )


@does(
    Maintenance.remove_orphan_files,
    spark=(
        "a session, classic or Connect; its workers list directories, read manifests, compare both, and "
        "remove the orphans. The driver holds what snapshots name of metadata, and the orphans."
    ),
)
def remove_orphan_files(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str | Table,
    older_than: timedelta | date | str | int = "1 day",
    dry_run: bool = False,
    *,
    external: bool = False,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> OrphanFiles:
    """Find, and remove, files that nothing of a table names: see ``table.maintenance.remove_orphan_files``."""
    table = given_table(path, None, storage_options)
    return table.maintenance.remove_orphan_files(
        older_than, dry_run, external=external, executor=SparkExecutor(spark), progress=progress
    )


@does(Maintenance.verify)
def verify(
    spark: SparkSession,
    path: str | Table,
    deep: bool = False,
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Look for damage, and change nothing: see ``table.maintenance.verify``."""
    table = given_table(path, branch, storage_options)
    return table.maintenance.verify(deep, executor=SparkExecutor(spark), progress=progress)


@does(Maintenance.repair)
def repair(  # noqa: PLR0913 - named arguments that users type
    spark: SparkSession,
    path: str | Table,
    plan: RepairPlan | Verification | None = None,
    *,
    dry_run: bool = False,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Repair | RepairPlan:
    """Mend what can be mended without a guess: see ``table.maintenance.repair``."""
    table = given_table(path, branch, storage_options)
    return table.maintenance.repair(plan, dry_run=dry_run, executor=SparkExecutor(spark), progress=progress)
