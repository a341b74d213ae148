"""notebooks/quickstart.ipynb runs from its first cell to its last, and prints what it has been stored with."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from support.fixtures import ROOT

_SIZE_OR_TIME = re.compile(r"\s*\d[\d,.]* (?:bytes|KiB|s)\b")


def printed(notebook: Any) -> dict[str, str]:
    """What each cell prints, but for sizes and times."""
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    texts = {c.id: "".join(o.text for o in c.outputs if o.get("name") == "stdout") for c in cells}
    return {id_: _SIZE_OR_TIME.sub("", text) for id_, text in texts.items()}


def test_the_first_cell_installs_what_the_others_need() -> None:
    notebook = json.loads((ROOT / "notebooks" / "quickstart.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = ast.parse("\n".join(cells).replace("%pip", "pass  # "))
    modules = {alias.name for node in ast.walk(code) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in ast.walk(code) if isinstance(node, ast.ImportFrom)}
    called = {node.attr for node in ast.walk(code) if isinstance(node, ast.Attribute)}
    used = {name.partition(".")[0] for name in modules} | ({"pandas"} if "to_pandas" in called else set())
    (needed,) = re.findall(r"^needed = (\{.*\})$", cells[0], re.MULTILINE)
    installed = set(re.findall(r'"(\w+)": ', needed)) | {"pyarrow"}  # which the package brings
    assert used - set(sys.stdlib_module_names) <= installed


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic
def test_quickstart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient", reason="needs nbclient (the extra 'notebook')")
    pytest.importorskip("ipykernel", reason="needs ipykernel (the extra 'notebook')")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import nbformat
    from run_notebook import PATH, execute

    stored = printed(nbformat.read(PATH, as_version=4))
    assert len(list(filter(None, stored.values()))) >= 6 and list(stored.values())[-1] == "done\n"
    assert printed(execute(PATH, tmp_path)) == stored
