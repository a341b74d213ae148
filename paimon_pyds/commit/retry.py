"""What all operations that commit have in common: when they start over, and what they remove when they fail."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from paimon_pyds.errors import AlreadyCommittedError, CommitError, CommitOutcomeUnknownError
from paimon_pyds.options import TableOptions

__all__ = ["Retries", "removing_unfinished", "removing_unpublished"]


@contextmanager
def removing_unfinished(remove: Callable[[], None]) -> Iterator[None]:
    """Around what is written for a commit: on an error, or an interrupt, it is removed again.

    Args:
        remove: removes files, best effort; it raises nothing.
    """
    try:
        yield
    except BaseException:
        remove()
        raise


@contextmanager
def removing_unpublished(remove: Callable[[], None]) -> Iterator[None]:
    """Around a commit: when it fails and nothing was published, remove what was written for it.

    Everything stays after an unknown outcome, when the table has the files already, and after an interrupt, which may
    come a moment after the snapshot was published.

    Args:
        remove: removes files, best effort; it raises nothing.
    """
    try:
        yield
    except (AlreadyCommittedError, CommitOutcomeUnknownError):
        raise
    except Exception:
        remove()
        raise


@dataclass(slots=True)
class Retries:
    """The tries of one operation.

    Attributes:
        limit: how often it may start over.
        options: for how long to wait between two tries, and ``commit.timeout``; None for no wait.
        count: the number of the try that runs, from 1.
    """

    limit: int
    options: TableOptions | None = None
    count: int = 1
    _started: float = field(default_factory=time.monotonic)

    @staticmethod
    def of(options: TableOptions) -> Retries:
        """As often as ``commit.max-retries`` says."""
        return Retries(int(options.get("commit.max-retries")), options)

    @property
    def exhausted(self) -> bool:
        """Whether there is no further try."""
        timeout = None if self.options is None else self.options.get("commit.timeout")
        return self.count > self.limit or (timeout is not None and (time.monotonic() - self._started) * 1000 > timeout)

    def again(self, error: CommitError) -> None:
        """Wait, and begin the next try; raise the error, which ended this one, when there is none."""
        self.wait(error)
        self.count += 1

    def wait(self, error: CommitError) -> None:
        """Wait for the next try, which the caller counts when it begins; otherwise as `again`."""
        if self.exhausted:
            raise error
        self.pause()

    def pause(self) -> None:
        """Wait for a random time that grows with the tries: ``commit.min-retry-wait`` to ``commit.max-retry-wait``."""
        if self.options is not None:
            low = float(self.options.get("commit.min-retry-wait"))
            ceiling = min(float(self.options.get("commit.max-retry-wait")), low * 2 ** min(self.count, 16))
            time.sleep(random.uniform(low / 2, ceiling) / 1000)
