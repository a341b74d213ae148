"""What receives progress in tests."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from paimon_pyds import ProgressEvent


class Seen:
    """Keeps the events of operations."""

    def __init__(self) -> None:
        self.events: list[ProgressEvent] = []

    def __call__(self, event: ProgressEvent) -> None:
        self.events.append(event)

    @property
    def phases(self) -> list[str]:
        """In their order; one that goes on is there once."""
        return [name for name, _ in groupby(event.phase for event in self.events)]

    def done(self, phase: str, unit: str = "rows") -> int:
        """What a phase has done at its end; all of the files that it was about."""
        counts = [(e.done.get(unit, 0), e.total.get(unit)) for e in self.events if e.phase == phase and unit in e.total]
        done, total = counts[-1]
        assert done == total, (done, total)
        return done


def once(phase: str, action: Callable[[], object]) -> Callable[[ProgressEvent], None]:
    """Acts when the first file, row or byte of a phase is done."""
    acted: list[str] = []

    def receive(event: ProgressEvent) -> None:
        if event.phase == phase and event.done and not acted:
            acted.append(phase)
            action()

    return receive
