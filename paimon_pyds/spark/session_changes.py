"""Which tables a session has changed: a setting of the session, which Spark sends to each task of its later queries."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

from paimon_pyds.spark import compat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_pyds.metadata.store import TableStore

_log = logging.getLogger("paimon_pyds.spark")


def note_change(spark: SparkSession, store: TableStore, snapshot_id: int | None) -> None:
    """Have later queries of the session know that it changed rows of a table, or removed some.

    Args:
        spark: the session.
        store: the table.
        snapshot_id: the change; None when nothing was changed.
    """
    if snapshot_id is None or not compat.plans_once():
        return
    try:
        spark.conf.set(_setting(store), str(snapshot_id))
    except Exception as error:  # noqa: BLE001 - some services allow few settings; the change itself has succeeded
        _log.warning("%s: views that were made before go on with their rows: %s", store.root, error)


def changed_at(store: TableStore) -> int:
    """The last snapshot in which the session of the running task changed rows of a table; 0 when it changed none."""
    return int(compat.task_setting(_setting(store)) or 0)


def _setting(store: TableStore) -> str:
    return "spark.paimon_pyds.changed." + hashlib.sha256(f"{store.root}\n{store.branch}".encode()).hexdigest()[:16]
