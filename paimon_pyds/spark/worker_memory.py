"""Imported modules, and the garbage that Spark's Python workers look for.

A worker looks through all of its objects after each task, planning or commit. Most belong to modules, which stay, and
cost 30 ms of CPU time each time: a large part of a small query, or of a micro-batch. (Source: pyspark/daemon.py.)
"""

from __future__ import annotations

import gc
import sys


class Modules:
    """What the garbage collector has been told of."""

    def __init__(self, in_worker: bool) -> None:
        self._in_worker = in_worker
        self._known = 0

    def keep(self) -> None:
        """Take what is there out of the garbage collector's sight, where modules were imported since the last time.

        Called where a task begins, and so just after the worker has looked for garbage: little but modules is there.
        """
        if self._in_worker and self._known != len(sys.modules):
            self._known = len(sys.modules)
            gc.freeze()


keep_modules = Modules("pyspark.daemon" in sys.orig_argv).keep
