"""Java Paimon's maintenance: ``python -m benchmarks.java_maintenance expire|orphans SMALL TABLE`` prints its seconds as
JSON. A small table of the same kind warms the JVM."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.java_server import java_server


def maintenance(operation: str, *paths: str) -> dict[str, Any] | None:
    """Seconds and count for the last table, and peak memory of the JVM; None where Java Paimon is not at hand."""
    with tempfile.TemporaryDirectory() as directory, java_server() as java:
        if java is None:
            return None
        for path in paths:
            output = Path(directory, "output")
            reply = java.run("\t".join(("main", "Maintenance", str(output), operation, path)))
            if reply != "0":
                raise SystemExit(reply[:3000])
            count, seconds = json.loads(output.read_text(encoding="utf-8"))
        return {"seconds": seconds, "count": count, "peak_mib": java.peak_mib()}


if __name__ == "__main__":
    print(json.dumps(maintenance(*sys.argv[1:])))
