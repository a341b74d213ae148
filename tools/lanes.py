"""Run several shell commands side by side, each one's output line by line behind its name: two cores, half the time.

    python tools/lanes.py plain="make a" spark="make b c"

Ends with 1 when one of them failed, after all have ended.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

_PRINTING = threading.Lock()


def main(arguments: list[str]) -> int:
    lanes = [argument.partition("=")[::2] for argument in arguments]
    width = max(len(name) for name, _ in lanes)
    started = time.monotonic()
    running = [(name, subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       errors="replace")) for name, command in lanes]  # fmt: skip
    readers = [threading.Thread(target=_show, args=(name.ljust(width), process)) for name, process in running]
    for reader in readers:
        reader.start()
    failed = []
    for (name, process), reader in zip(running, readers, strict=True):
        reader.join()
        if process.wait():
            failed.append(name)
    minutes = (time.monotonic() - started) / 60
    print(f"{len(lanes)} lanes in {minutes:.1f} minutes" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def _show(name: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        with _PRINTING:
            print(f"{name} | {line}", end="", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
