"""What a newcomer types in the first hour, and sees: transcripts of Python, of a shell and of Spark SQL.

``>>>`` is Python (``...`` goes on), ``$`` a command, ``sql>`` a statement for Spark. What follows, to
the next prompt or blank line, is what must be seen: an ellipsis stands for anything. An error is its name and text.
Lines are added wherever they belong; each of the two transcripts runs from its top to its end in one process.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paimon_pyds.cli.main import main
from support.snippets import run_typed

HERE = Path(__file__).parent
PROMPTS = (">>> ", "$ ", "sql> ")


class Thing(NamedTuple):
    line: int
    prompt: str
    typed: str
    seen: str


def things(text: str) -> Iterator[Thing]:
    """The things of a transcript."""
    start = prompt = None
    typed: list[str] = []
    seen: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        found = next((p for p in PROMPTS if line.startswith(p)), None)
        if start is not None and (found or not line.strip()):
            yield Thing(start, prompt or "", "\n".join(typed), "\n".join(seen))
            start = None
        if found:
            start, prompt, typed, seen = number, found, [line[len(found) :]], []
        elif start is not None and line.startswith("... "):
            typed.append(line[4:])
        elif start is not None:
            seen.append(line.rstrip())


class Typist:
    """Types things, and gives back what is seen."""

    def __init__(self, spark: Any = None) -> None:
        self._names: dict[str, Any] = {} if spark is None else {"spark": spark}
        self._spark = spark

    def type(self, thing: Thing) -> str:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                {">>> ": self._python, "$ ": self._shell, "sql> ": self._sql}[thing.prompt](thing.typed)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what people see
                print(f"{type(error).__name__}: {error}")
        return out.buffer.getvalue().decode()  # type: ignore[attr-defined]

    def _python(self, typed: str) -> None:
        value = run_typed(typed, self._names)
        if value is not None:
            print(repr(value))

    def _shell(self, typed: str) -> None:
        words = shlex.split(typed)
        if words[0] != "paimon-pyds":
            raise AssertionError("only paimon-pyds is typed into the shell")
        if words[-2] == ">":
            words = [*words[:-2], "--out", words[-1]]
        with contextlib.suppress(SystemExit):
            main(words[1:])

    def _sql(self, typed: str) -> None:
        found = self._spark.sql(typed)
        if found.columns:
            print("\n".join(" | ".join(map(str, row)) for row in found.collect()))


def differences(transcript: str, typist: Typist) -> list[str]:
    wrong = []
    for thing in things((HERE / transcript).read_text(encoding="utf-8")):
        got = "\n".join(line.rstrip() for line in typist.type(thing).strip("\n").split("\n"))
        pattern = ".*".join(map(re.escape, thing.seen.split("…")))
        if not re.fullmatch(pattern, got, re.DOTALL):
            wrong.append(
                f"{transcript}:{thing.line}: {thing.prompt}{thing.typed}\nexpected {thing.seen}\n     saw {got}\n"
            )
    return wrong


@pytest.mark.smoke
def test_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(list(things((HERE / "without_spark.txt").read_text(encoding="utf-8")))) >= 60
    assert not (wrong := differences("without_spark.txt", Typist())), "\n".join(wrong)


@pytest.mark.slow
def test_with_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    typist = Typist(spark)
    typist.type(Thing(0, ">>> ", f"here = {str(tmp_path)!r}", ""))
    assert not (wrong := differences("with_spark.txt", typist)), "\n".join(wrong)


def test_a_difference_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "HERE", tmp_path)
    (tmp_path / "t.txt").write_text(
        ">>> 1 + 1\n2\n>>> 1 + 1\n3\n\ntext\n>>> if True:\n...     print('a…b')\na…\n>>> 1\n"
    )
    first, second = differences("t.txt", Typist())
    assert first.startswith("t.txt:3: >>> 1 + 1\nexpected 3\n     saw 2") and second.startswith("t.txt:10:")
