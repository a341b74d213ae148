"""Conventions of the package that ruff has no rule for."""

from __future__ import annotations

import re
from pathlib import Path

import paimon_pyds


def test_only_packages_list_their_names() -> None:
    """In a module a leading underscore says what is private; only a package that gives out names of its modules lists them."""
    modules = [path for path in Path(paimon_pyds.__file__).parent.rglob("*.py") if path.name != "__init__.py"]
    assert [path.name for path in modules if re.search(r"^__all__\b", path.read_text(encoding="utf-8"), re.M)] == []
