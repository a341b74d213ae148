"""notebooks/quickstart.ipynb runs from its first cell to its last, and prints what it has been stored with."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from support.fixtures import ROOT
from support.snippets import run_typed

_SIZE_OR_TIME = re.compile(r"\s*\d[\d,.]* (?:bytes|KiB|s)\b")


def code_cells() -> list[Any]:
    """The cells of code, as they are stored."""
    notebook = json.loads((ROOT / "notebooks" / "quickstart.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def python_of(cell: Any) -> str:
    """A cell's text, with ``pass`` in place of what only IPython runs."""
    return "".join(cell["source"]).replace("%pip", "pass  # ")


def printed(cells: list[Any]) -> dict[str, str]:
    """What each cell prints, but for sizes and times."""
    found = {}
    for cell in cells:
        said = "".join("".join(output["text"]) for output in cell["outputs"] if output.get("name") == "stdout")
        found[cell["id"]] = _SIZE_OR_TIME.sub("", said)
    return found


def test_the_first_cell_installs_what_the_others_need() -> None:
    cells = code_cells()
    code = ast.parse("\n".join(map(python_of, cells)))
    modules = {alias.name for node in ast.walk(code) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in ast.walk(code) if isinstance(node, ast.ImportFrom)}
    called = {node.attr for node in ast.walk(code) if isinstance(node, ast.Attribute)}
    used = {name.partition(".")[0] for name in modules} | ({"pandas"} if "to_pandas" in called else set())
    (needed,) = re.findall(r"^needed = (\{.*\})$", python_of(cells[0]), re.MULTILINE)
    installed = set(re.findall(r'"(\w+)": ', needed)) | {"pyarrow"}  # which the package brings
    assert used - set(sys.stdlib_module_names) <= installed


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic
def test_quickstart(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the session of the other tests, as it takes one that is active."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: dict[str, Any] = {}
    stored = printed(code_cells())
    assert len(list(filter(None, stored.values()))) >= 6 and list(stored.values())[-1] == "done\n"
    for cell in code_cells():
        with contextlib.redirect_stdout(io.StringIO()) as out:
            shown = run_typed(python_of(cell), names)
        shows = any("text/html" in output.get("data", {}) for output in cell["outputs"])
        assert hasattr(shown, "_repr_html_") == shows and (not shows or "<table" in shown._repr_html_())
        assert _SIZE_OR_TIME.sub("", out.getvalue()) == stored[cell["id"]], cell["id"]
    assert names["spark"] is spark


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.classic
def test_quickstart_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient", reason="needs nbclient (the extra 'notebook')")
    pytest.importorskip("ipykernel", reason="needs ipykernel (the extra 'notebook')")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from run_notebook import PATH, execute

    cells = [cell for cell in execute(PATH, tmp_path).cells if cell.cell_type == "code"]
    assert printed(cells) == printed(code_cells())
