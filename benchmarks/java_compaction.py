"""A full compaction by Java Paimon: ``python -m benchmarks.java_compaction TABLE`` prints its CPU seconds as JSON.

Java is the program of ../shared/oracle, with all of its compilers on. It compacts a copy of the table before the clock
runs, so that it is warm.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.java_server import java_server
from benchmarks.registry import copy_of


def compaction(path: str) -> dict[str, Any] | None:
    """CPU seconds, elapsed seconds and peak memory of the JVM; None where Java Paimon is not at hand."""
    with tempfile.TemporaryDirectory() as directory, java_server() as java:
        if java is None:
            return None
        for number in range(2):
            script = Path(directory, f"{number}.jsonl")
            copied = Path(copy_of(path, f"keys_compacted_java_{number}"))
            table = f"{copied.parent.name.removesuffix('.db')}.{copied.name}"
            command = {"args": ["compact", str(copied.parent.parent), table], "allow_fail": False}
            script.write_text(json.dumps(command) + "\n", encoding="utf-8")
            before, start = java.cpu_seconds(), time.perf_counter()
            reply = json.loads(java.run(str(script)))
            if not reply["ok"]:
                raise SystemExit(reply["error"][:3000])
            seconds, elapsed = java.cpu_seconds() - before, time.perf_counter() - start
        return {"seconds": seconds, "elapsed": elapsed, "peak_mib": java.peak_mib()}


if __name__ == "__main__":
    print(json.dumps(compaction(sys.argv[1])))
