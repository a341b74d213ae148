"""docs/functions.md is what the code says: all functions, with values that they give."""

from __future__ import annotations

import re
import sys

from paimon_pyds.sql.expression.bound import bind_expression
from paimon_pyds.sql.expression.catalogue import PARTS, entries
from paimon_pyds.sql.expression.functions import OTHER_NAMES, WORDS, all_functions
from support.fixtures import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from functions_page import PAGE, page, value

FUNCTIONS = all_functions()
ENTRIES = [entry for text in PARTS.values() for entry in entries(text)]


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run tools/functions_page.py"


def test_each_function_is_there_once() -> None:
    signs = {name for name in FUNCTIONS if not name.isidentifier()}
    others = {other for other, name in OTHER_NAMES.items() if name not in signs}
    names = [entry.name for entry in ENTRIES]
    assert sorted(names) == sorted(FUNCTIONS.keys() - signs - others - WORDS)
    shown = PAGE.read_text(encoding="utf-8")
    assert all(f"`{other}`" in shown for other in others)


def test_an_example_uses_its_function_and_has_its_value() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| `\w+\(", line)]
    assert len(lines) == len(ENTRIES)
    for entry, line in zip(ENTRIES, lines, strict=True):
        assert line.startswith(f"| `{entry.name}(")
        assert f"{entry.name}(" in entry.example
        assert line.endswith(f"| `{value(entry.example)}` |")


def test_a_signature_has_the_arguments_that_are_taken() -> None:
    """As few as are outside of brackets, and as many as are there in all."""
    wrong = []
    for entry in ENTRIES:
        low, high = FUNCTIONS[entry.name].arity
        inside = re.sub(r"\([^()]*\) ->", "", entry.signature.partition("(")[2][:-1])
        least = re.sub(r"\[[^\[\]]*\]", "", re.sub(r"\[[^\[\]]*\]", "", inside)).replace("-> …", "")
        given = [part for part in least.split(",") if part.strip() not in ("", "…")]
        every = [part for part in re.sub(r"[\[\]]", "", inside).split(",") if part.strip()]
        several = "…" in re.sub("-> …", "", inside) or entry.name in ("aggregate", "date_add", "datediff", "decode")
        if not several and (len(given), len(every)) != (low, high):
            wrong.append(entry.signature)
    assert not wrong


def test_examples_bind_without_columns() -> None:
    assert all(bind_expression(entry.example, []).columns == () for entry in ENTRIES)


def test_pages_lead_to_it() -> None:
    for name in ("README.md", "docs/python.md", "docs/troubleshooting.md", "docs/command-line.md", "docs/spark.md"):
        assert "functions.md" in (ROOT / name).read_text(encoding="utf-8"), name
    assert re.search("^functions$", (ROOT / "docs/index.md").read_text(encoding="utf-8"), re.MULTILINE)
