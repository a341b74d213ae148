"""docs/functions.md: the functions of expressions by their lines of the page, with an example and its value."""

from __future__ import annotations

import re
from typing import NamedTuple

from support.fixtures import ROOT

PAGE = ROOT / "docs" / "functions.md"


class Entry(NamedTuple):
    """A function as the page shows it."""

    signature: str
    about: str
    example: str
    value: str

    @property
    def name(self) -> str:
        """The function's name."""
        return self.signature.partition("(")[0]


def entries() -> list[Entry]:
    """All functions of the page, in its order."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if re.match(r"\| `\w+\(", line):
            signature, about, example, value = (
                cell.replace("\\|", "|")
                for cell in re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |"))
            )
            found.append(Entry(signature.strip("`"), about, example.strip("`"), value.strip("`")))
    return found
