"""How far an operation is: what works says it, and a terminal, a notebook or a function of the caller's shows it.

What users call begins an operation: ``with shown("delete", progress):``. Within it, the code that works opens phases,
``with phase("reading", files) as step:``, and reports its progress: ``step.advance([file])``. It does not know whether
progress is shown; if it is not, nothing is counted.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Protocol, TypeVar

from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import OptionError

if TYPE_CHECKING:
    from paimon_pyds.base.progress_view import Drawer, View
    from paimon_pyds.typing import Progress

T = TypeVar("T")
VARIABLE = "PAIMON_PYDS_PROGRESS"
EVENT_INTERVAL_SECONDS = 0.1
"""Seconds between two events of progress: more often than a person can read would only cost time."""


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """Where an operation is.

    Attributes:
        operation: such as ``delete``.
        phase: such as ``planning``, ``reading`` or ``committing``; of the last event ``finished`` or ``failed``.
        done: what the phase has done so far, by unit: ``files``, ``rows`` and ``bytes`` of files, ``manifests``,
            ``tasks`` of Spark; ``sorted`` are rows, ``written`` bytes of new files: of the whole operation so far.
        total: what it has to do, as far as that is known.
        seconds: since the operation began.
    """

    operation: str
    phase: str
    done: Mapping[str, int]
    total: Mapping[str, int]
    seconds: float


class _File(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def row_count(self) -> int: ...
    @property
    def size(self) -> int: ...


_setting: Progress | None = None
current: ContextVar[Operation | None] = ContextVar("paimon_pyds_operation", default=None)
"""The operation that runs and somebody looks at."""


def show_progress(show: Progress | None) -> None:
    """Say for this process whether operations show how far they are, unless ``progress=`` says it for one of them.

    Args:
        show: None: on terminals and in notebooks, unless the environment variable ``PAIMON_PYDS_PROGRESS`` is ``off``
            (``on`` stands for True). True: always; where standard error is no terminal as a line now and then. False:
            never. A function: receives a `ProgressEvent` a few times a second, from any thread; nothing is drawn.
    """
    global _setting
    _setting = _checked(show)


def setting() -> Progress | None:
    """What `show_progress` was called with last."""
    return _setting


def _checked(show: Progress | None) -> Progress | None:
    if show is not None and not isinstance(show, bool) and not callable(show):
        raise OptionError(f"progress is True, False, None or a function, not {type(show).__name__}")
    return show


# ------------------------------------------------------------------------------------------------- for what does work


class Phase:
    """A part of an operation; open it as a context."""

    def __init__(
        self,
        operation: Operation | None,
        name: str,
        total: dict[str, int],
        files: Mapping[str, _File] | None = None,
        *,
        by_reading: bool = True,
    ) -> None:
        self._operation = operation
        self.name = name
        self.total = total
        self.files = files or {}
        self.by_reading = by_reading
        self._parts: dict[str, dict[str, int]] = {}
        self.before: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.began = time.monotonic()

    @property
    def is_seen(self) -> bool:
        """Whether anybody looks."""
        return self._operation is not None

    def advance(self, files: Iterable[_File] = (), /, **done: int) -> None:
        """Count what was done, by unit. ``files``: those that are done. ``done``: other units."""
        if self._operation is not None:
            with self._operation.lock:
                parts = [self.part(file) for file in files]
                sums = {unit: sum(part[unit] for part in parts) for unit in parts[0]} if parts else {}
                self._operation.add(self, {**done, **sums})

    def part(self, file: _File, share: float = 1.0) -> dict[str, int]:
        """The progress since the last call, if ``share`` of a file is done; the caller holds the operation's lock."""
        before = self._parts.get(file.path, {})
        now = {"files": int(share), "rows": int(file.row_count * share), "bytes": int(file.size * share)}
        self._parts[file.path] = {unit: max(n, before.get(unit, 0)) for unit, n in now.items()}
        return {unit: n - before.get(unit, 0) for unit, n in self._parts[file.path].items()}

    def reach(self, unit: str, done: int, total: int) -> None:
        """Say what is done by now, where others count."""
        if self._operation is not None:
            self.total[unit] = total
            self._operation.add(self, {unit: done - self.done.get(unit, 0)})

    def __enter__(self) -> Phase:
        if self._operation is not None:
            self._operation.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._operation is not None:
            self._operation.end(self)


_UNSEEN = Phase(None, "", {})


def phase(name: str = "", files: Iterable[_File] = (), /, *, by_reading: bool = True, **total: int | None) -> Phase:
    """A phase of the operation that runs.

    Args:
        name: what is done, such as ``reading``; none, or the same, where it is a part of the phase that runs.
        files: those that it is done to.
        by_reading: how much of a file is read says how far it is.
        **total: how much of other units there is to do; None where that is not known.
    """
    operation = current.get()
    if operation is None:
        return _UNSEEN
    known = {unit: n for unit, n in total.items() if n is not None}
    by_path = {file.path: file for file in files}
    return Phase(operation, name, {**known, **_sizes(by_path.values())}, by_path, by_reading=by_reading)


def counted(items: Iterable[T], name: str = "", **total: int) -> Iterator[T]:
    """The items, which are counted as they come. ``items``: what is done, one after the other. ``total``: how many
    there are, by their unit."""
    with phase(name, by_reading=True, **total) as step:
        for item in items:
            step.advance(**dict.fromkeys(total, 1))
            yield item


def count(**done: int) -> None:
    """Count what was done within the phase that began first, such as bytes that are ``written``."""
    operation = current.get()
    if operation is not None:
        operation.add(None, done)


def worked(path: str, share: float = 1.0, *, reading: bool = False) -> None:
    """Report the share of a file that is done, from within a task, so that progress does not jump at the file's end.

    ``path``: of the file; it counts only if a running phase has this file. ``share``: 0 to 1. ``reading``: the share
    was read, not yet processed.
    """
    operation = current.get()
    if operation is not None:
        operation.work(path, share, reading=reading)


def _sizes(files: Iterable[_File]) -> dict[str, int]:
    sizes = [(file.row_count, file.size) for file in files]
    if not sizes:
        return {}
    return {"files": len(sizes), "rows": sum(rows for rows, _ in sizes), "bytes": sum(size for _, size in sizes)}


# ------------------------------------------------------------------------------------------------ for what users call


@contextmanager
def shown(operation: str, show: Progress | None = None) -> Iterator[None]:
    """Surrounds an operation, and shows its progress as ``show`` says. An operation within another one is a part of it.

    ``operation``: what is done, such as ``delete``. ``show``: see `show_progress`.

    Raises:
        OptionError: ``show`` is not one of these.
    """
    show = _setting if _checked(show) is None else show
    if current.get() is not None:
        yield
        return
    listener = show if callable(show) else None
    view = None if callable(show) else _view(show)
    if listener is None and view is None:
        yield
        return
    running = Operation(operation, listener)
    token = current.set(running)
    drawer, ended = None, "failed"
    try:
        drawer = running.drawer = None if view is None else _drawer(view, running)
        yield
        ended = "finished"
    finally:
        current.reset(token)
        if drawer is not None:
            drawer.stop()
        running.tell(ended)


def followed(operation: str, items: Iterator[T]) -> Iterator[T]:
    """The items, as an operation that is shown while the caller waits for the next item. The caller's own work on an
    item is not part of it: it may print, and begin operations of its own.

    ``items``: a generator, which is closed in the end.
    """
    context, around, end = copy_context(), shown(operation), object()
    context.run(around.__enter__)
    running = context.run(current.get)
    if running is None or running is current.get():
        yield from items
        return
    try:
        while (item := context.run(next, items, end)) is not end:
            running.pause(True)
            yield item  # type: ignore[misc]
            running.pause(False)
    except GeneratorExit:  # no more items are wanted
        context.run(items.close)  # type: ignore[attr-defined]
        context.run(around.__exit__, None, None, None)
        raise
    except BaseException as error:
        context.run(around.__exit__, type(error), error, error.__traceback__)
        raise
    context.run(around.__exit__, None, None, None)


class Operation:
    """An operation that somebody looks at. All its threads may use it.

    Attributes:
        phases: those that run, in the order in which they began; to be looked at with ``lock`` held.
        drawer: what draws it, if anything does.
    """

    drawer: Drawer | None = None

    def __init__(self, name: str, listener: Callable[[ProgressEvent], None] | None) -> None:
        self.name = name
        self._listener = listener
        self.began = time.monotonic()
        self._reported = 0.0
        self.phases: list[Phase] = []
        self._sums: dict[str, int] = {}
        self.lock = threading.RLock()

    def begin(self, phase: Phase) -> None:
        with self.lock:
            if any(phase.name == other.name for other in self.phases):
                phase.name = ""
            phase.name = phase.name or ("" if self.phases else "planning")
            phase.before = dict(self._sums)
            self.phases.append(phase)
            self.tell(phase.name, phase)

    def end(self, phase: Phase) -> None:
        with self.lock:
            self.tell(phase.name, phase)
            self.phases.remove(phase)

    def add(self, phase: Phase | None, done: Mapping[str, int]) -> None:
        with self.lock:
            sums = self._sums if phase is None else phase.done  # what tasks count goes on from phase to phase
            phase = phase or next(iter(self.phases), None)
            for unit, n in done.items():
                sums[unit] = sums.get(unit, 0) + n
            if phase is None:
                return
            phase.done |= {unit: sums[unit] for unit in done}
            if time.monotonic() - self._reported >= EVENT_INTERVAL_SECONDS:
                self.tell(phase.name, phase)

    def work(self, path: str, share: float, *, reading: bool) -> None:
        with self.lock:
            phase = next((phase for phase in reversed(self.phases) if path in phase.files), None)
            if phase is not None and (phase.by_reading or not reading):
                self.add(phase, phase.part(phase.files[path], share))

    def pause(self, paused: bool) -> None:
        """Draw nothing for a while, as it is not this that is waited for; or go on."""
        if self.drawer is not None:
            self.drawer.pause(paused)

    def tell(self, name: str, phase: Phase = _UNSEEN) -> None:
        """Call the listener. What it runs itself is no part of the operation, and its errors do not end that."""
        if self._listener is None:
            return
        self._reported = time.monotonic()
        name = name or next((p.name for p in reversed(self.phases) if p.name), "")
        event = ProgressEvent(self.name, name, dict(phase.done), dict(phase.total), self._reported - self.began)
        token = current.set(None)
        try:
            self._listener(event)
        except Exception as error:  # noqa: BLE001 - raised, it would undo a commit that may be published
            import logging

            self._listener = None
            log = logging.getLogger("paimon_pyds.progress")
            log.warning("progress is not reported any more, as its receiver failed: %r", error)
        finally:
            current.reset(token)


def _view(show: bool | None) -> View | None:
    """Where progress is drawn; None where it is not."""
    if show is None:
        named = os.environ.get(VARIABLE, "").strip().lower()
        show = {"on": True, "1": True, "true": True, "off": False, "0": False, "false": False}.get(named)
    if show is False:
        return None
    stream, terminal, notebook = sys.stderr, False, False
    with suppress(AttributeError, KeyError):
        notebook = sys.modules["IPython"].get_ipython().kernel is not None
    with suppress(AttributeError, OSError, ValueError):  # it does not exist, or is closed
        terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    if not (notebook or terminal or (show and stream is not None)):
        return None
    from paimon_pyds.base.progress_view import Bar, Log  # seldom

    return Bar(stream) if notebook or terminal else Log(stream)


def _drawer(view: View, operation: Operation) -> Drawer | None:
    from paimon_pyds.base.progress_view import Drawer

    with suppress(RuntimeError):  # no thread can be started
        return Drawer(view, operation)
    return None
