"""Peers that tests of interoperability share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.peers import Pypaimon


@pytest.fixture
def pypaimon(tmp_path: Path) -> Iterator[Pypaimon]:
    made = Pypaimon(tmp_path / "w")
    yield made
    made.close()
