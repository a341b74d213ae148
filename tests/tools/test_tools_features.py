"""docs/compatibility.md has the table that tools/features.py makes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_FILE = Path(__file__).parents[2] / "tools" / "features.py"


def test_the_page_shows_all_features() -> None:
    spec = importlib.util.spec_from_file_location("features", _FILE)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page == tool.with_table(page), "run python tools/features.py"
