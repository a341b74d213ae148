"""Plans kept in the planning process: EXPLAIN plans a query too, and Spark 4.0 plans a query several times."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from paimon_pyds.caching import ByteLimitedCache

if TYPE_CHECKING:
    from paimon_pyds.metadata.snapshot import Snapshot
    from paimon_pyds.scan.result import ScanPlan
    from paimon_pyds.spark.state import ReadState
    from paimon_pyds.table_scan import Scan

__all__ = ["planned"]

_FILE_WEIGHT = 600
_PLANS = ByteLimitedCache(64 << 20)


def planned(state: ReadState, scan: Scan) -> ScanPlan:
    """The plan of a scan of this state, made or remembered: those of the newest snapshots."""
    if state.options.travels or scan.snapshot is None:
        return scan.plan()
    return _PLANS.get_or_load(_key(state, scan, scan.snapshot), scan.plan, _weigh)


def _key(state: ReadState, scan: Scan, snapshot: Snapshot) -> Hashable:
    """All that a plan depends on. A snapshot is known by its manifest lists: its number can come again."""
    store, options = state.table.store, state.options
    return (
        store.root,
        store.branch,
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        scan.schema.id,
        state.loaded,
        tuple(scan.arrow_schema.names),
        repr(scan.predicate),
        options.limit,
        tuple(sorted(options.scan.items())),
        tuple(sorted(options.storage.items())),
    )


def _weigh(plan: ScanPlan) -> int:
    selections = sum(len(file.selection or b"") for file in plan.files)
    return _FILE_WEIGHT * (1 + len(plan.files) + len(plan.skips)) + selections
