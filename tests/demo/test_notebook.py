"""notebooks/quickstart.ipynb runs from its first cell to its last; its cells assert the values they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fixtures import ROOT

pytest.importorskip("nbclient", reason="needs nbclient (the extra 'notebook')")
pytest.importorskip("ipykernel", reason="needs ipykernel (the extra 'notebook')")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic
def test_quickstart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from run_notebook import PATH, execute

    cells = [c for c in execute(PATH, tmp_path).cells if c.cell_type == "code"]
    assert sum(c.source.count("assert ") for c in cells) >= 10
    assert cells[-1].outputs[0]["text"] == "done\n"
