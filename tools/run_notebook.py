"""Execute notebooks/quickstart.ipynb in place, so that the outputs in it are real: ``python tools/run_notebook.py``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
PATH = ROOT / "notebooks" / "quickstart.ipynb"
KEPT_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(path: Path, directory: Path, timeout: int = 600) -> nbformat.NotebookNode:
    """The notebook, executed by this interpreter in that directory. A failing cell raises CellExecutionError."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # this checkout, whether it is installed or not
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(directory)}}
    )
    client.execute()
    return notebook


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        notebook = execute(PATH, Path(scratch))
    notebook.metadata = nbformat.from_dict(KEPT_METADATA)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":  # what a terminal's standard error says is no result
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    nbformat.write(notebook, PATH)
    print(f"{PATH.relative_to(ROOT)}: {sum(c.cell_type == 'code' for c in notebook.cells)} cells executed")


if __name__ == "__main__":
    main()
