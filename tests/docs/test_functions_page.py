"""docs/functions.md has all functions, with values that they give."""

from __future__ import annotations

import re

import pyarrow as pa

from paimon_pyds.base.types.kinds import BINARY_KINDS
from paimon_pyds.sql.expression.bound import bind_expression
from paimon_pyds.sql.expression.functions import OTHER_NAMES, WORDS, all_functions
from support.fixtures import ROOT
from support.functions_page import entries

FUNCTIONS = all_functions()
SIGNS = {name for name in FUNCTIONS if not name.isidentifier()}
OTHERS = {other: name for other, name in OTHER_NAMES.items() if name not in SIGNS}
ENTRIES = entries()


def _value(example: str) -> str:
    """The value of an example as a text, in UTC."""
    bound = bind_expression(example, [], timezone="UTC")
    binary = bound.type is not None and bound.type.kind in BINARY_KINDS
    shown = f"hex({example})" if binary else f"CAST({example} AS STRING)"
    row = pa.record_batch({"": [None]})
    found = bind_expression(shown, [], timezone="UTC").evaluate(row)[0].as_py()
    return "NULL" if found is None else f"X'{found}'" if binary else str(found)


def test_each_function_is_there_once() -> None:
    names = [entry.name for entry in ENTRIES]
    assert sorted(names) == sorted(FUNCTIONS.keys() - SIGNS - OTHERS.keys() - WORDS)


def test_other_names_are_in_the_line_of_their_function() -> None:
    about = {entry.name: entry.about for entry in ENTRIES}
    for other, name in OTHERS.items():
        assert re.search(rf"\(also [^)]*`{other}`", about[name]), other


def test_an_example_uses_its_function_and_has_its_value() -> None:
    for entry in ENTRIES:
        assert f"{entry.name}(" in entry.example
        assert entry.value == _value(entry.example), entry.example


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
