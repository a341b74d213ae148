"""Waiting between two tries of a commit."""

from __future__ import annotations

import random
import time

from paimon_pyds.options import TableOptions

__all__ = ["pause"]


def pause(options: TableOptions, tried: int) -> None:
    """Wait for a random time that grows with the number of tries so far: ``commit.min-`` to ``.max-retry-wait``."""
    low = float(options.get("commit.min-retry-wait"))
    high = float(options.get("commit.max-retry-wait"))
    ceiling = min(high, low * 2 ** min(tried, 16))
    time.sleep(random.uniform(low / 2, ceiling) / 1000)
