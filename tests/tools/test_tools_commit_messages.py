"""The check of commit messages in tools/commit_messages.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

_FILE = Path(__file__).parents[2] / "tools" / "commit_messages.py"


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("commit_messages", _FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "subject",
    ["Add tags to branches", "Pass the limit on", "Bring servers for tests", "Need less memory", "Speed up plans"],
)
def test_an_imperative_subject_with_a_body_passes(subject: str) -> None:
    assert _tool().faults(f"{subject}\n\nReaders asked for it.\n") == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("Add " + "x" * 69 + "\n\nWhy.", "73 characters"),
        ("Added tags\n\nWhy.", "imperative"),
        ("Adding tags\n\nWhy.", "imperative"),
        ("Adds tags\n\nWhy.", "imperative"),
        ("add tags\n\nWhy.", "capital"),
        ("Merge branch 'hd'\n\nWhy.", "imperative"),
        ("Add tags.\n\nWhy.", "full stop"),
        ("Add tags\n", "body"),
        ("Add tags\nat once\nand more", "body"),
        ("", "imperative"),
    ],
)
def test_another_message_is_refused_by_its_fault(message: str, fault: str) -> None:
    assert any(fault in found for found in _tool().faults(message))


def test_comments_of_the_editor_are_no_body() -> None:
    assert any("body" in found for found in _tool().faults("Add tags\n\n# Please enter the message\n"))


def test_a_file_with_a_bad_message_fails_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text("fixed it\n")
    assert _tool().main([str(file)]) == 1
    assert str(file) in capsys.readouterr().err
    file.write_text("Fix it\n\nIt was broken.\n")
    assert _tool().main([str(file)]) == 0
