"""How much tests try: by default a sample, new at each run and the same in CI; everything in `make test-long`."""

from __future__ import annotations

import os
import random
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")

LONG = settings().max_examples > 100
"""Whether this is `make test-long`."""

FEW = settings().max_examples < 12
"""Whether this is `make test-oldest`: it shows what older dependencies do differently, and not all else once more."""

SEED = int(os.environ.get("PAIMON_PYDS_SEED") or (0 if os.environ.get("CI") else random.randrange(1_000_000)))
"""What the samples are drawn by. pytest prints it first; PAIMON_PYDS_SEED sets it."""


def examples(count: int) -> int:
    """This number of examples of hypothesis; in long runs the default number of tests."""
    return settings().max_examples if LONG else count


def sampled(cases: Iterable[Case], count: int, drawer: str = "") -> list[Case]:
    """So many of the cases, in their order; all of them in long runs. ``drawer``: whose sample it is, where several
    tests of the same cases should have different ones."""
    every = list(cases)
    if LONG or len(every) <= count:
        return every
    drawn = random.Random(f"{SEED} {drawer}" if drawer else SEED).sample(range(len(every)), count)
    return [every[i] for i in sorted(drawn)]


def covering(cells: Sequence[Sequence[Hashable]]) -> list[int]:
    """Positions of cells of a matrix, in their order, among which is each value of each axis; all in long runs."""
    if LONG or not cells or len(cells[0]) < 2:
        return list(range(len(cells)))
    values = [set(enumerate(cell)) for cell in cells]
    missing = set().union(*values)
    order = random.Random(SEED).sample(range(len(cells)), len(cells))
    chosen = []
    while missing:
        chosen.append(max(order, key=lambda at: len(values[at] & missing)))
        missing -= values[chosen[-1]]
    return sorted(chosen)
