"""Claims: a file in a directory names the process that works there. It distinguishes the remains of a killed process
from the work of a running one, if both ran on the same machine."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid


def claim_text(call: str) -> bytes:
    """The content of such a file, which no other one has.

    ``call``: what is done, so that the same call knows it again.
    """
    at = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
    who = {"call": call, "process": os.getpid(), "host": socket.gethostname(), "machine": _machine(), "since": at}
    return json.dumps({**who, "id": uuid.uuid4().hex}).encode()


def is_left_over(data: bytes, call: str) -> bool:
    """Whether the same call wrote this file, in a process of this machine that surely is no more."""
    found, machine = _parsed(data), _machine()
    process = found.get("process")
    if machine is None or (found.get("call"), found.get("machine")) != (call, machine) or type(process) is not int:
        return False
    return not os.path.exists(f"/proc/{process}")


def owner_text(data: bytes) -> str:
    """The process that wrote the file, for messages."""
    found = _parsed(data)
    if "process" not in found:  # not whole, or not there any more
        return "an unknown process"
    return f"process {found.get('process')} on {found.get('host')} since {found.get('since')} ({found.get('call')})"


def _parsed(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _machine() -> str | None:
    """This start of this machine, and where processes have the numbers that this one sees; None where nobody says."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None
