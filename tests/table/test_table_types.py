"""What users mistype is found by mypy and pyright; what they write is not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from paimon_pyds.ops.system.tables import NAMES
from paimon_pyds.typing import SystemName

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "user_code"
ROOT = HERE.parents[2]
NO_NETWORK = {"PATH": "/usr/bin:/bin", "https_proxy": "http://127.0.0.1:9", "HOME": str(Path.home())}


def _mypy() -> Iterator[tuple[str, int]]:
    """With the options of `make check`, whose cache it uses."""
    command = ["-m", "mypy", "--no-error-summary", "--output=json", *map(str, sorted(HERE.glob("*.py")))]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr
    for line in done.stdout.splitlines():
        found = json.loads(line)
        yield Path(found["file"]).name, found["line"]


def _pyright() -> Iterator[tuple[str, int]]:
    command = ["-m", "pyright", "--pythonpath", sys.executable, "--outputjson", str(HERE)]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False, env=NO_NETWORK
    )
    for found in json.loads(done.stdout)["generalDiagnostics"]:
        yield Path(found["file"]).name, found["range"]["start"]["line"] + 1


def test_system_tables_are_those_there_are() -> None:
    assert get_args(SystemName) == NAMES


@pytest.mark.parametrize("checker", [_mypy, _pyright], ids=["mypy", "pyright"])
def test_mistakes_are_found_and_nothing_else(checker) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip(checker.__name__.removeprefix("_"))
    lines = (HERE / "mistakes.py").read_text(encoding="utf-8").splitlines()
    planted = {("mistakes.py", number) for number, line in enumerate(lines, 1) if line.endswith("# mistake")}
    assert len(planted) >= 20
    assert set(checker()) == planted
