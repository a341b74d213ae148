"""Writers that commit to one table side by side, as threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from paimon_pyds.table import Table

PATIENT = {"commit.max-retries": "1000", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "50 ms"}
"""Options of a table with which none of them gives up."""


def append_side_by_side(
    opened: Callable[[], Table], rows: Callable[[int], pa.Table], writers: int, commits: int
) -> None:
    """Append ``rows(0)``, ``rows(1)`` and so on, ``commits`` by each of some writers.

    Args:
        opened: the table, opened anew for each writer.
        rows: of a commit, by its number.
        writers: how many.
        commits: of each.
    """

    def write(writer: int) -> None:
        table = opened()
        for number in range(commits):
            table.append(rows(writer * commits + number))

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
