"""The live data files of a table, as maintenance sees them."""

from __future__ import annotations

import paimon_pyds as pp
from paimon_pyds.execution.live_files import live_of, planned_live_files
from paimon_pyds.split import PlannedFile, ReadSpec


def live_files(table: pp.Table) -> tuple[ReadSpec, list[PlannedFile]]:
    """The files of the newest snapshot, and how to read them."""
    return planned_live_files(table.store, table.schema, live_of(table.store, table.snapshot()))
