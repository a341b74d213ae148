"""Write the table of docs/compatibility.md: ``python tools/features.py``."""

from __future__ import annotations

from pathlib import Path

from paimon_pyds.base.features import FEATURES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "compatibility.md"
BEGIN = "<!-- Made of paimon_pyds/base/features.py by `python tools/features.py`: edit there. -->\n"
END = "<!-- end of the table -->\n"


def with_table(page: str) -> str:
    """The page with the table as it should be."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} lacks the lines that the table is between")
    lines = ["| | read | write | since Paimon |", "| --- | --- | --- | --- |"]
    lines += [f"| {one.name} | {one.read} | {one.write} | {one.since} |" for one in FEATURES]
    return f"{before}{begin}\n{chr(10).join(lines)}\n\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
