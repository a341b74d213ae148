"""A full compaction by Java Paimon: ``python -m benchmarks.java_compaction TABLE`` prints its CPU seconds as JSON.

Java is the program of ../shared/oracle, with all of its compilers on. It compacts a copy of the table before the clock
runs, so that it is warm.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.registry import copy_of

_ROOT = Path(__file__).parents[1]
_ORACLE = Path(os.environ.get("PAIMON_PYDS_ORACLE", _ROOT.parent / "shared" / "oracle")) / "oracle"
_SERVER = _ROOT / "tests" / "support" / "OracleServer.java"


def compaction(path: str) -> dict[str, Any] | None:
    """CPU seconds, elapsed seconds and peak memory of the JVM; None where Java Paimon is not at hand."""
    if not _ORACLE.exists():
        return None
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.submodule_search_locations
    environment = {
        **os.environ,
        "ORACLE_CACHE": str(_ROOT / ".cache" / "oracle"),
        "PYSPARK_JARS_DIR": str(Path(spark.submodule_search_locations[0]) / "jars"),
        "ORACLE_HEAP": "4g",
        "ORACLE_JAVA_OPTS": f"-XX:TieredStopAtLevel=4 {_SERVER.name}",
    }
    with tempfile.TemporaryDirectory() as directory:
        java = subprocess.Popen(
            ["bash", str(_ORACLE), "serve"], env=environment, cwd=_SERVER.parent, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert java.stdin is not None
            assert java.stdout is not None
            java.stdout.readline()  # it is ready
            for number in range(2):
                script = Path(directory, f"{number}.jsonl")
                copied = Path(copy_of(path, f"keys_compacted_java_{number}"))
                table = f"{copied.parent.name.removesuffix('.db')}.{copied.name}"
                command = {"args": ["compact", str(copied.parent.parent), table], "allow_fail": False}
                script.write_text(json.dumps(command) + "\n", encoding="utf-8")
                before, start = _cpu_seconds(java.pid), time.perf_counter()
                java.stdin.write(f"{script}\n")
                java.stdin.flush()
                reply = json.loads(java.stdout.readline())
                if not reply["ok"]:
                    raise SystemExit(reply["error"][:3000])
                seconds, elapsed = _cpu_seconds(java.pid) - before, time.perf_counter() - start
            return {"seconds": seconds, "elapsed": elapsed, "peak_mib": _peak_mib(java.pid)}
        finally:
            java.kill()
            java.wait()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    print(json.dumps(compaction(sys.argv[1])))
