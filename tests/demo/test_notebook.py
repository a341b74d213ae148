"""notebooks/quickstart.ipynb runs from its first cell to its last, and prints what it has been stored with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.fixtures import ROOT

pytest.importorskip("nbclient", reason="needs nbclient (the extra 'notebook')")
pytest.importorskip("ipykernel", reason="needs ipykernel (the extra 'notebook')")


_SIZE_OR_TIME = re.compile(r"\s*\d[\d,.]* (?:bytes|KiB|s)\b")


def printed(notebook: Any) -> dict[str, str]:
    """What each cell prints, but for sizes and times."""
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    texts = {c.id: "".join(o.text for o in c.outputs if o.get("name") == "stdout") for c in cells}
    return {id_: _SIZE_OR_TIME.sub("", text) for id_, text in texts.items()}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic
def test_quickstart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import nbformat
    from run_notebook import PATH, execute

    stored = printed(nbformat.read(PATH, as_version=4))
    assert len(list(filter(None, stored.values()))) >= 6 and list(stored.values())[-1] == "done\n"
    assert printed(execute(PATH, tmp_path)) == stored
