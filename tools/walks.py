"""How many modules an operation passes.

``python tools/walks.py`` counts them; with read, append, delete or explain behind it, it lists those of one operation.

Each runs once before it is watched, so that imports and caches are not part of it.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import paimon_pyds as pp

PACKAGE = f"{Path(pp.__file__).parent}/"
METHODS_OF_RECORDS = "base/records.py"  # what `dataclass` gives to the records of other modules
FUNCTION = 1  # CO_OPTIMIZED: the bodies of classes and modules run at import
ROWS = 20_000


def modules_of(operation: Callable[[], object]) -> list[str]:
    """The modules of which a function is called."""
    seen: set[str] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & FUNCTION and code.co_filename.startswith(PACKAGE):
            seen.add(code.co_filename[len(PACKAGE) :])

    operation()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        operation()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(seen - {METHODS_OF_RECORDS})


def operations(path: str) -> dict[str, Callable[[], object]]:
    """The operations on a new table with an index and deletion vectors."""
    ids = list(range(ROWS))
    data = pa.table({"id": ids, "s": [f"a{i % 100}" for i in ids], "v": [i / 7 for i in ids]})
    options = {"file-index.bitmap.columns": "s", "deletion-vectors.enabled": "true"}
    pp.Table.create(path, data.schema, options=options).append(data)
    steps = iter((1_000, 10_000))
    where = "s = 'a7' AND id > 100"
    return {
        "read": lambda: pp.Table.open(path).scan(where).to_arrow(),
        "append": lambda: pp.Table.open(path).append(data),
        "delete": lambda: pp.Table.open(path).delete(f"s = 'a9' AND id > {ROWS - next(steps)}"),
        "explain": lambda: str(pp.Table.open(path).explain(where)),
    }


def main() -> None:
    """Print the number of modules of each operation, or the modules of the one that is named."""
    with tempfile.TemporaryDirectory() as directory:
        found = operations(f"{directory}/t")
        for name in sys.argv[1:2] or found:
            modules = modules_of(found[name])
            print(name, len(modules))
            if sys.argv[1:]:
                print(*modules, sep="\n")


if __name__ == "__main__":
    main()
