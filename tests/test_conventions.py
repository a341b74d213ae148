"""Conventions of the package that ruff has no rule for."""

from __future__ import annotations

import re
from pathlib import Path

import paimon_pyds


def test_only_packages_list_their_names() -> None:
    """A leading underscore says what a module keeps to itself; packages list the names that they give out."""
    modules = [path for path in Path(paimon_pyds.__file__).parent.rglob("*.py") if path.name != "__init__.py"]
    assert [path.name for path in modules if re.search(r"^__all__\b", path.read_text(encoding="utf-8"), re.M)] == []
