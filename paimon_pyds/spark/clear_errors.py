"""Errors on their way through Spark, which prints a whole traceback: ours arrive as one sentence above a short one, and
again below it. And what is said of workers that lack this package."""

from __future__ import annotations

import functools
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from copy import copy
from typing import TypeVar

from paimon_pyds.base.secrets import redact
from paimon_pyds.errors import PaimonError
from paimon_pyds.spark.worker_memory import keep_modules

T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., object])

_log = logging.getLogger("paimon_pyds.spark")


def clear_errors(method: C) -> C:
    """Raise a PaimonError without the frames inside this package and without its cause; the log keeps both (debug).

    It has itself as its cause, without a trace: that is printed first.
    """

    @functools.wraps(method)
    def clear(*args: object, **kwargs: object) -> object:
        keep_modules()
        try:
            return method(*args, **kwargs)
        except PaimonError as error:
            _log_trace(f"{method.__qualname__} failed")
            found = error
        except ModuleNotFoundError as error:  # this is a worker; `register` looks before there is one
            _log_trace(f"{method.__qualname__} failed")
            right = "the interpreter that has paimon-pyds"
            found = PaimonError(lacks_package(sys.executable, error.name or str(error), right))
        raise _without_trace(found)

    return clear  # type: ignore[return-value]


def clear_iterator(items: Iterator[T]) -> Iterator[T]:
    """The same for a generator."""
    keep_modules()
    try:
        yield from items
        return
    except PaimonError as error:
        _log_trace("reading failed")
        found = error
    raise _without_trace(found)


def _log_trace(what: str) -> None:
    """The trace of the error at hand with its causes, which other libraries worded: without secrets."""
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s\n%s", what, redact(traceback.format_exc()))


def _without_trace(error: PaimonError) -> PaimonError:
    sentence, kind = copy(error), type(error)
    members = {
        "__cause__": property(lambda _: sentence, lambda *_: None),  # Spark takes causes off
        "__reduce__": lambda _: sentence.__reduce__(),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
    }
    swallowed = issubclass(kind, NotImplementedError)  # Spark reads nothing, and says nothing, where planning raises it
    error.__class__ = type(kind.__name__, (PaimonError if swallowed else kind,), members)
    error.__context__ = None
    return error.with_traceback(None)


def lacks_package(worker: str, package: str = "paimon_pyds", right: str = sys.executable) -> str:
    """The message where the interpreter of Spark's Python workers (its path, or a name for it) lacks a package, which
    the ``right`` one has."""
    return (
        f"Spark's Python workers run {worker}, which has no {package} — set the environment variable PYSPARK_PYTHON to "
        f"{right} before the session is started, or install paimon-pyds for the workers' interpreter"
    )
