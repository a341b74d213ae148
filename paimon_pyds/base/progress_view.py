"""Progress as people see it: a bar of tqdm on a terminal or in a notebook, a line now and then in a log."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from contextvars import copy_context
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from paimon_pyds.base.secrets import human_bytes

if TYPE_CHECKING:
    from paimon_pyds.base.progress import Operation, Phase

DELAY_SECONDS = 0.7
"""Seconds for which nothing is drawn: most operations are done by then."""
_UNITS = ("files", "manifests", "tasks", "bytes", "rows", "sorted", "written")
_SUFFIXES = {"bytes": "", "sorted": " rows sorted", "written": " written"}
_drawing = threading.Lock()
"""Held by the operation that is drawn: there is one line."""


def line_of(operation: Operation) -> tuple[str, float | None]:
    """How far an operation is, and which part of the phase that began last is done; None where that is not known."""
    now = time.monotonic()
    with operation.lock:
        parts = [_text(phase, now - phase.began) for phase in operation.phases]
        shares = [share for phase in operation.phases if (share := _share(phase)) is not None]
    if not any(part.endswith(" left") for part in parts):
        parts = [*(parts or ["working"]), _clock(now - operation.began)]
    return f"{operation.name}: {', '.join(filter(None, parts))}", shares[-1] if shares else None


def _text(phase: Phase, elapsed: float) -> str:
    """As ``reading 3 of 12 files, 1.2 MiB of 5.6 MiB, 210.0 MiB/s, 0:12 left``."""
    done, total, parts = phase.done, phase.total, []
    for unit in _UNITS:
        hidden = "bytes" in total if unit == "rows" else unit == "sorted" and not done.get(unit)
        if (unit in total or done.get(unit)) and not hidden:
            of = f" of {_amount(unit, total[unit])}" if unit in total else ""
            parts.append(f"{_amount(unit, done.get(unit, 0))}{of}{_suffix(unit)}")
    measured = next((unit for unit in ("bytes", "rows", "sorted") if done.get(unit)), None)
    share = _share(phase)
    # The time for footers and indexes alone says nothing about the time for the rest.
    telling = elapsed >= 60 or (elapsed >= 1 and (share is None or share >= 0.01))
    if measured is not None and telling:
        rate = (done[measured] - phase.before.get(measured, 0)) / elapsed
        parts.append(f"{_amount(measured, int(rate))}{_suffix(measured)}/s")
    if share and share < 1 and telling:
        parts.append(f"{_clock(elapsed / share - elapsed)} left")
    return f"{phase.name} {', '.join(parts)}".strip()


def _amount(unit: str, n: int) -> str:
    return human_bytes(n) if unit in ("bytes", "written") else f"{n:,}"


def _suffix(unit: str) -> str:
    return _SUFFIXES.get(unit, f" {unit}")


def _share(phase: Phase) -> float | None:
    units = (unit for unit in ("bytes", "rows", "files", "manifests", "tasks") if phase.total.get(unit))
    return next((min(1.0, phase.done.get(unit, 0) / phase.total[unit]) for unit in units), None)


def _clock(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}" if minutes >= 60 else f"{minutes}:{left:02}"


class View(Protocol):
    """A place where progress is drawn; ``interval`` are the seconds between two drawings."""

    interval: float

    def draw(self, text: str, share: float | None) -> None:
        """Draw, in place of what was drawn before. See `line_of`."""

    def clear(self) -> None:
        """Remove what was drawn."""


class Bar:
    """A bar of tqdm: one line on a terminal, which is removed at last, or a widget in a notebook."""

    interval = 0.15

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: Any = None

    def draw(self, text: str, share: float | None) -> None:
        form, width, height = "{desc}" if share is None else "{percentage:3.0f}%|{bar:10}| {desc}", None, None
        with suppress(AttributeError, OSError, ValueError):  # in a notebook the width is its own
            width, height = os.get_terminal_size(self._stream.fileno())
            width, height = width or 80, height or 24  # tqdm draws nothing where a terminal says 0 lines
        text = text if width is None else text[: width - 1]  # tqdm cuts lines with a bar only
        if self._bar is None:
            settings = {"file": self._stream, "leave": False, "ncols": width, "nrows": height, "bar_format": form}
            self._bar = _bar_class()(total=1.0, initial=share or 0.0, desc=text, **settings)
            return
        self._bar.n, self._bar.bar_format, self._bar.ncols = share or 0.0, form, width
        self._bar.set_description_str(text)

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _bar_class() -> Any:
    """Tqdm's bar for this terminal or notebook, without threads of its own and without a lock between processes."""
    if "IPython" in sys.modules and find_spec("ipywidgets") is None:
        from tqdm import tqdm  # tqdm.auto warns where widgets are missing
    else:
        from tqdm.auto import tqdm
    bar: Any = type("Bar", (tqdm,), {"monitor_interval": 0})
    bar.set_lock(threading.RLock())
    return bar


class Log:
    """Lines that stay."""

    interval = 10.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def draw(self, text: str, share: float | None) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def clear(self) -> None:
        """See `View`."""


class Drawer:
    """Draws on a thread of its own: it goes on where the work says nothing, and what fails there harms nobody."""

    def __init__(self, view: View, operation: Operation) -> None:
        self._view = view
        self._operation = operation
        self._ended = threading.Event()
        self._paused = False
        self._drawn = False
        self._lock = threading.Lock()
        run = copy_context().run  # a notebook knows by the context which cell it is
        self._thread = threading.Thread(target=run, args=(self._run,), name="paimon-progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Remove what is drawn. A terminal that takes nothing is not waited for."""
        self._ended.set()
        self._thread.join(1.0)

    def pause(self, paused: bool) -> None:
        """Remove what is drawn, so that others may write; or go on."""
        self._paused = paused
        if paused and self._lock.acquire(timeout=1.0):
            try:
                self._clear()
            finally:
                self._lock.release()
        elif paused:
            self._ended.set()

    def _run(self) -> None:
        if self._ended.wait(DELAY_SECONDS):
            return
        try:
            while not self._ended.is_set():
                with self._lock:
                    self._draw()
                self._ended.wait(self._view.interval)
        except Exception:  # noqa: BLE001 - such as a pipe that nobody reads any more
            return
        finally:
            with self._lock:
                self._clear()

    def _draw(self) -> None:
        if not self._paused and (self._drawn or _drawing.acquire(blocking=False)):
            self._drawn = True
            self._view.draw(*line_of(self._operation))

    def _clear(self) -> None:
        if self._drawn:
            self._drawn = False
            with suppress(Exception):
                self._view.clear()
            _drawing.release()
