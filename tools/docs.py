"""Build the API reference from docstrings: ``python tools/docs.py DIRECTORY``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pdoc
import pdoc.render

import paimon_pyds

PUBLIC = ("paimon_pyds", "paimon_pyds.spark", "paimon_pyds.types", "paimon_pyds.errors")


def main(target: Path) -> None:
    """Write the pages; names that the package imports on first use are imported before."""
    for module in map(importlib.import_module, PUBLIC):
        for name in getattr(module, "__all__", ()):
            setattr(module, name, getattr(module, name))
    pdoc.render.configure(docformat="google", show_source=False, footer_text=f"paimon_pyds {paimon_pyds.__version__}")
    modules = {name: pdoc.doc.Module(sys.modules[name]) for name in PUBLIC}
    for name, module in modules.items():
        path = target / f"{name.replace('.', '/')}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pdoc.render.html_module(module, modules), encoding="utf-8")
    (target / "index.html").write_text(pdoc.render.html_index(modules), encoding="utf-8")
    print(f"open {target / 'index.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
