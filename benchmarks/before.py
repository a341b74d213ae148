"""`make bench ARGS="--before ../checkout"`: each case of ours beside the same case of another checkout of this project.

Each checkout works on tables that it made itself. A ratio above 1 means that this checkout is slower.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench import SPARK_TABLES, Bench, memory_text, run_module, seconds_text

_SPARK = ("large", "small")
_TIMED = ("ours_append_stream", "ours_predicates")
"""Cases that are measured alone."""


class _MissingCaseError(Exception):
    """The other checkout does not measure this."""


class BeforeBench(Bench):
    """As `Bench`, with an earlier checkout in the place of the peers.

    Args:
        checkout: the other checkout's root.
    """

    def __init__(self, directory: Path, rows: int, pairs: int, checkout: Path) -> None:
        super().__init__(directory / "now", rows, pairs)
        self._checkout = checkout
        self._tables = directory / "before" / "bench.db"
        self._tables.mkdir(parents=True)
        self._seen: set[str] = set()

    def run(self, case: str, **arguments: Any) -> dict[str, Any]:
        if not case.startswith("ours_"):
            return {}
        if case in _TIMED:
            self._compare(case, case, arguments)
        else:
            with suppress(_MissingCaseError):
                self._before(case, arguments)
        return super().run(case, **arguments)

    def compare(self, what: str, target: str, a: tuple[str, dict[str, Any]], b: tuple[str, dict[str, Any]]) -> None:
        for case, arguments in (a, b):
            key = f"{case} {arguments}"
            if case.startswith("ours_") and key not in self._seen:
                self._seen.add(key)
                self._compare(f"{what} ({case})", case, arguments)

    def _compare(self, what: str, case: str, arguments: dict[str, Any]) -> None:
        now: list[dict[str, Any]] = []
        before: list[dict[str, Any]] = []
        sides = [(now, partial(super().run, case, **arguments)), (before, partial(self._before, case, arguments))]
        with suppress(_MissingCaseError):
            for number in range(self.pairs):
                for runs, run in sides[:: -1 if number % 2 else 1]:  # memory that the first freed is cheaper to get
                    runs.append(run())
        if not before:
            return
        ratio = statistics.median(x["seconds"] / y["seconds"] for x, y in zip(now, before, strict=True))
        peer = f"before {seconds_text(before)}"
        super().add(what, seconds_text(now), peer, f"{ratio:.2f}×", "≤ 1.05×", memory_text(now, before))

    def add(self, what: str, ours: str, peer: str, ratio: str, target: str, memory: str = "") -> None:
        """Single measurements are not compared."""

    def once(self, what: str, target: str, a: dict[str, Any], peer: str, b: dict[str, Any]) -> None:
        """Not compared."""

    def pypaimon(self, case: str, **arguments: Any) -> dict[str, Any]:
        """Not run."""
        return {}

    def java_compaction(self, path: str) -> dict[str, Any] | None:
        """Not run."""

    def java_maintenance(self, operation: str, small: str, path: str) -> dict[str, Any] | None:
        """Not run."""

    def importing(self) -> None:
        """Not compared."""

    def spark(self) -> None:
        self.spark_tables()
        for name in SPARK_TABLES:
            (self._tables / f"{name}-parquet").symlink_to(f"{self.path(name)}-parquet")
        runs = []
        for _ in range(self.pairs):
            pair = []
            for root, tables in ((None, self.directory / "bench.db"), (self._checkout, self._tables)):
                paths = [str(tables / name) for name in (*SPARK_TABLES, "many")]
                pair.append(run_module("benchmarks.spark_cases", paths, root))
            runs.append(pair)
        for name in _SPARK:
            now, before = ([{"seconds": pair[i][name]["ours"]} for pair in runs] for i in (0, 1))
            ratio = statistics.median(x["seconds"] / y["seconds"] for x, y in zip(now, before, strict=True))
            peer = f"before {seconds_text(before)}"
            super().add(f"Spark: filtered query, {name} table", seconds_text(now), peer, f"{ratio:.2f}×", "≤ 1.05×")

    def _before(self, case: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return run_module("benchmarks.worker", [case, json.dumps(self._moved(arguments))], self._checkout)
        except SystemExit as error:
            if f"KeyError: '{case}'" in str(error) or "unexpected keyword argument" in str(error):
                raise _MissingCaseError from error
            raise

    def _moved(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with the other checkout's tables; those that no case makes are shared."""
        moved = dict(arguments)
        for name in ("path", "target"):
            if name in moved:
                here = Path(moved[name])
                there = self._tables / here.name
                if here.exists() and not there.exists() and here.name == "files":
                    os.symlink(here, there)
                moved[name] = str(there)
        return moved
