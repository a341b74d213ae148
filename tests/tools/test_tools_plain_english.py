"""Words of the old dialect become fewer: tools/plain_english.py counts them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_TOOL = _ROOT / "tools" / "plain_english.py"
MOST = 10
"""It may only fall: new sentences use the glossary's words."""


def _run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, str(_TOOL), *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_dialect_does_not_grow() -> None:
    total = int(_run().splitlines()[-1].split()[0])
    assert total <= MOST, "python tools/plain_english.py PATH shows each place; the glossary is in CONTRIBUTING.md"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("# The index tells which rows match.", "tell"),
        ("# The file is asked first.", "ask"),
        ('"""Who calls it waits."""', "who"),
        ('x = "the files lie there"', "lie"),
        ("# Values are kept by path.", "kept"),
        ("# What is left of it.", "what"),
    ],
)
def test_each_word_is_found_in_comments_and_texts(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "module.py"
    file.write_text(f"{text}\n")
    assert f"module.py:1: {word}: " in _run(str(file))


def test_names_and_code_blocks_are_not_sentences(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text('kept = {"kept": 1}\n')
    (tmp_path / "page.md").write_text("Text.\n\n```python\nkept = 1  # kept\n```\n")
    assert _run(str(tmp_path)) == ""
