"""``python -m paimon_pyds`` and the command ``paimon-pyds``: see `paimon_pyds.cli.main`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run one command; the exit status.

    Ctrl-C ends the process at once while it imports, as it does when there is no more to do; a command that runs tidies
    up. Either way it is silent, and the exit status is 130.
    """
    signal.signal(signal.SIGINT, _leave)
    from paimon_pyds.cli.main import main

    try:
        return main(ready=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    except KeyboardInterrupt:
        return 130
    finally:
        signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: object) -> None:
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
