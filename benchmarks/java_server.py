"""One JVM with Java Paimon, all of its compilers on: the program of ../shared/oracle behind the tests' OracleServer."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_ORACLE = Path(os.environ.get("PAIMON_PYDS_ORACLE", _ROOT.parent / "shared" / "oracle")) / "oracle"
_SERVER = _ROOT / "tests" / "support" / "OracleServer.java"


class JavaServer:
    """A JVM that runs a line of OracleServer's at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._reply()  # it is ready

    def run(self, line: str) -> str:
        """The reply to a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._reply()

    def _reply(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def cpu_seconds(self) -> float:
        """What it has computed so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mib(self) -> float:
        """The most memory that it held at once."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


@contextmanager
def java_server() -> Iterator[JavaServer | None]:
    """A JVM until the end of the context; None where Java Paimon is not at hand. Programs are of this directory."""
    if not _ORACLE.exists():
        yield None
        return
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.submodule_search_locations
    environment = {
        **os.environ,
        "ORACLE_CACHE": str(_ROOT / ".cache" / "oracle"),
        "PYSPARK_JARS_DIR": str(Path(spark.submodule_search_locations[0]) / "jars"),
        "ORACLE_HEAP": "4g",
        "ORACLE_JAVA_OPTS": f"-XX:TieredStopAtLevel=4 {os.path.relpath(_SERVER, Path(__file__).parent)}",
    }
    process = subprocess.Popen(
        ["bash", str(_ORACLE), "serve"], env=environment, cwd=Path(__file__).parent, encoding="utf-8",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield JavaServer(process)
    finally:
        process.kill()
        process.wait()
