"""Imported modules, and the garbage that Spark's Python workers look for.

A worker looks through all of its objects after each task, planning or commit. Most belong to modules, which stay, and
cost 30 ms of CPU time each time: a large part of a small query, or of a micro-batch. (Source: pyspark/daemon.py.)
"""

from __future__ import annotations

import gc
import sys


class Modules:
    """Imported modules that the garbage collector passes over."""

    def __init__(self, in_worker: bool) -> None:
        self._in_worker = in_worker
        self._known = 0

    def keep(self) -> None:
        """Have the garbage collector pass over all objects, if modules were imported since the last call.

        Called where a task begins, and so just after the worker has looked for garbage: few objects are of other kinds.
        """
        if self._in_worker and self._known != len(sys.modules):
            self._known = len(sys.modules)
            gc.freeze()


keep_modules = Modules("pyspark.daemon" in sys.orig_argv).keep
