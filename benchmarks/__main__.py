"""`make bench`: every figure of the README's table, measured in one run on this machine.

Each measurement is a process of its own; engines take turns (A B A B …), the median ratio counts, peak memory is the
process's. ``--rows`` scales the large table down for a quick look.

Sources are compiled to bytecode first, as pip does when it installs them: otherwise every process of a checkout that
`make` runs would compile what it imports, which no user's does.
"""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import tempfile
from pathlib import Path

from benchmarks.before import BeforeBench
from benchmarks.bench import Bench

_PACKAGES = ("paimon_pyds", "pyspark_paimon", "pyspark_paimon_pyds", "benchmarks")
_METHODS = {"rows": "row_changes"}
_GROUPS = (
    "writing", "scanning", "points", "index", "rows", "evolution", "keys", "layout", "planning", "partitions", "small",
    "formats", "stores", "hdfs", "blobs", "variant", "first", "importing", "sql", "spark", "streams",
)  # fmt: skip
_BY_NAME_ONLY = ("maintenance", "commits")
"""Groups that are run where ``--only`` names them: 1,000 snapshots and 10,000 commits take minutes."""


def _compile(checkout: Path) -> None:
    for name in _PACKAGES:
        compileall.compile_dir(checkout / name, quiet=2)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default=",".join(_GROUPS))
    parser.add_argument("--before", type=Path, help="another checkout: compare with its cases instead of the peers'")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if unknown := sorted({*names} - {*_GROUPS, *_BY_NAME_ONLY}):
        parser.error(f"no group is called {', '.join(unknown)}; there are {', '.join((*_GROUPS, *_BY_NAME_ONLY))}")
    _compile(Path(__file__).parents[1])
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
        f"medians of {arguments.pairs} pairs\n"
    )
    print("| what | ours | peer | ratio | target | peak memory |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="paimon-bench-") as directory:
        if arguments.before is None:
            bench = Bench(Path(directory), arguments.rows, arguments.pairs)
        else:
            _compile(arguments.before)
            bench = BeforeBench(Path(directory), arguments.rows, arguments.pairs, arguments.before.resolve())
        for name in names:
            getattr(bench, _METHODS.get(name, name))()


if __name__ == "__main__":
    main()
