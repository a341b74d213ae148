"""Tables that are made once for a module, and copied for each test, which may change its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp


def copied(at: str) -> Callable[[Callable[[Path], object]], Any]:
    """Of a function that makes a table at a path: a fixture with a copy of it, at this place below ``tmp_path``."""

    def fixture_of(make: Callable[[Path], object]) -> Any:
        prepared: list[Path] = []

        @pytest.fixture(name=make.__name__)
        def copy(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
            if not prepared:
                path = tmp_path_factory.mktemp("prepared") / at
                make(path)
                prepared.append(path)
            shutil.copytree(prepared[0], tmp_path / at)
            return pp.Table.open(tmp_path / at)

        return copy

    return fixture_of
