"""Faults are counted: requests come in the same order each time."""

from __future__ import annotations

import pytest

from paimon_pyds.engine.write import writer


@pytest.fixture(autouse=True)
def one_bucket_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers finish buckets side by side otherwise."""
    monkeypatch.setattr(writer, "PARALLEL_BUCKETS", 1)
