"""What all operations that commit have in common: when they start over, and what they remove when they fail."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from paimon_pyds.errors import AlreadyCommittedError, CommitError, CommitOutcomeUnknownError
from paimon_pyds.options import TableOptions

__all__ = ["Retries", "pause", "removing_unfinished", "removing_unpublished"]


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
        options: for how long to wait between two tries (see `pause`), and ``commit.timeout``; None for no wait.
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

    def again(self, error: CommitError) -> None:
        """Wait, and begin the next try; raise the error, which ended this one, when there is none."""
        self.wait(error)
        self.count += 1

    def wait(self, error: CommitError) -> None:
        """Wait for the next try, which the caller counts when it begins; otherwise as `again`."""
        timeout = None if self.options is None else self.options.get("commit.timeout")
        if self.count > self.limit or (timeout is not None and (time.monotonic() - self._started) * 1000 > timeout):
            raise error
        if self.options is not None:
            pause(self.options, self.count)


def pause(options: TableOptions, tried: int) -> None:
    """Wait for a random time that grows with the number of tries so far: ``commit.min-`` to ``.max-retry-wait``."""
    low = float(options.get("commit.min-retry-wait"))
    high = float(options.get("commit.max-retry-wait"))
    ceiling = min(high, low * 2 ** min(tried, 16))
    time.sleep(random.uniform(low / 2, ceiling) / 1000)
