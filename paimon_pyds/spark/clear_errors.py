"""Errors on their way through Spark, which prints a whole traceback: ours arrive as one sentence under a short one."""

from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Callable, Iterator
from typing import TypeVar

from paimon_pyds.errors import PaimonError
from paimon_pyds.redaction import redact

T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., object])

_log = logging.getLogger("paimon_pyds.spark")


def clear_errors(method: C) -> C:
    """Raise a PaimonError without the frames inside this package and without its cause; the log keeps both (debug)."""

    @functools.wraps(method)
    def clear(*args: object, **kwargs: object) -> object:
        try:
            return method(*args, **kwargs)
        except PaimonError as error:
            _log_trace(f"{method.__qualname__} failed")
            found = error
        raise _without_trace(found)

    return clear  # type: ignore[return-value]


def clear_iterator(items: Iterator[T]) -> Iterator[T]:
    """The same for a generator."""
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
    error.__cause__ = None
    error.__context__ = None
    return error.with_traceback(None)
