"""An explanation as users hold it: data that shows itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from paimon_pyds.explain.data import ExplainedScan
from paimon_pyds.explain.html import to_html, to_page
from paimon_pyds.explain.text import to_text
from paimon_pyds.redaction import redact
from paimon_pyds.scan.result import PruneStep

__all__ = ["Explanation"]


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(ExplainedScan):
    """How a scan narrows down. ``print`` it, let a notebook show it, or take it as Arrow tables."""

    @property
    def text(self) -> str:
        """The explanation as lines of text."""
        return to_text(self)

    @property
    def html(self) -> str:
        """The explanation as a piece of HTML with inline SVG, as notebooks show it."""
        return to_html(self)

    @property
    def page(self) -> str:
        """The same as an HTML document of its own."""
        return to_page(self)

    def rendered(self, path: str) -> str:
        """What belongs into a file of this name: a page for ``.html``, JSON for ``.json``, else text."""
        suffix = path.lower().rpartition(".")[2]
        if suffix in ("html", "htm"):
            return self.page
        return f"{json.dumps(self.as_dict(), ensure_ascii=False) if suffix == 'json' else self.text}\n"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        left = self.steps[-1] if self.steps else PruneStep("table", 0, 0, 0)
        return f"Explanation({redact(self.table)!r}, {self.predicate!r}: {left.files:,} files, {left.rows:,} rows left)"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text)

    def _repr_html_(self) -> str:
        return self.html
