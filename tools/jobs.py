"""Run shell commands, four at a time, each one's output line by line behind its name, and say what each one cost.

That keeps two cores busy, as each job waits now and then, for the disk or for another process.

    python tools/jobs.py plain="make a" spark="make b" rest="make c"

They start in the order given, the next one whenever one has ended. Ends with 1 when one of them failed, after all
have ended; the last lines of those that failed are repeated at the end, where whoever reads only that looks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

_AT_ONCE = 4
_REPEATED_LINES = 300
_MEMORY = "/dev/shm"
_ROOM = 4 << 30
_PRINTING = threading.Lock()


def main(arguments: list[str]) -> int:
    jobs = [argument.partition("=")[::2] for argument in arguments]
    width = max(len(name) for name, _ in jobs)
    started = time.monotonic()
    with _scratch() as environment, ThreadPoolExecutor(_AT_ONCE) as pool:
        done = list(pool.map(lambda job: _run(job[0].ljust(width), job[1], environment), jobs))
    failed = {name: lines for (name, _), (code, lines) in zip(jobs, done, strict=True) if code}
    for name, lines in failed.items():
        print(f"\n==== {name} failed; its last {len(lines)} lines:\n{''.join(lines)}")
    minutes = (time.monotonic() - started) / 60
    print(f"{len(jobs)} jobs in {minutes:.1f} minutes" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


@contextmanager
def _scratch() -> Iterator[dict[str, str]]:
    """The jobs' environment: their files lie in memory where there is room for them and programs among them may run,
    as a disk is waited for at each file that replaces another. TMPDIR names another place."""
    environment = dict(os.environ)
    if "TMPDIR" in environment or not _has_room():
        yield environment
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY, prefix="jobs-", ignore_cleanup_errors=True) as directory:
        yield {**environment, "TMPDIR": directory}


def _has_room() -> bool:
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return False
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= _ROOM


def _run(name: str, command: str, environment: dict[str, str]) -> tuple[int, deque[str]]:
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    )
    assert process.stdout is not None
    last: deque[str] = deque(maxlen=_REPEATED_LINES)
    for line in process.stdout:
        last.append(line)
        _show(name, line)
    _, status, used = os.wait4(process.pid, 0)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    minutes, busy = (time.monotonic() - started) / 60, (used.ru_utime + used.ru_stime) / 60
    _show(name, f"ended with {code} after {minutes:.1f} minutes and {busy:.1f} processor minutes\n")
    return code, last


def _show(name: str, line: str) -> None:
    with _PRINTING:
        print(f"{name} | {line}", end="", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
