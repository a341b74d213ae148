"""The local time zone of this process, for a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def in_local_zone(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Within it, ``TZ`` names this zone, and the process goes by it."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield name
    time.tzset()
