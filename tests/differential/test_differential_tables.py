"""Random tables, histories and filters against a model in plain Python: with every index and statistic on, with indexes
off, and brute force give the same rows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from differential_model import as_text, evaluate, to_arrow, to_sql, to_tree
from differential_world import POOLS, SEEDS, Pools, World
from hypothesis import Phase, given, note, settings

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

FILTERS = 12
LONG = settings().max_examples > 100
EXAMPLES = settings(max_examples=3000 if LONG else 60, phases=[Phase.generate])
"""A shrunken seed is no smaller a case."""


@contextmanager
def world(pools: Pools, seed: int) -> Iterator[World]:
    """A table with a random history."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        log: list[str] = []
        try:
            made = World(pools, seed, Path(directory, "t"), log)
            for _ in range(made.random.randint(1, 6)):
                made.step()
            yield made
        except BaseException:
            note("\n".join(log))
            raise


def check_filters(w: World) -> None:
    model, table = w.model, w.table
    assert as_text(table.scan().to_arrow()) == as_text(to_arrow(model.rows, model.columns))
    for _ in range(FILTERS):
        tree = w.random.random() < 0.5
        condition = w.condition(3, micros=not tree)
        kept = [row for row in model.rows if evaluate(condition, row)]
        expected = as_text(to_arrow(kept, model.columns))
        filter_ = to_tree(condition) if tree else to_sql(condition)
        w.log.append(f"filter {to_sql(condition)}, {'tree' if tree else 'text'}")
        assert as_text(table.scan(filter_).to_arrow()) == expected
        off = table.scan(filter_, options={"file-index.read.enabled": "false"})
        assert as_text(off.to_arrow()) == expected
        assert table.scan(filter_).count() == len(kept)


@EXAMPLES
@given(POOLS, SEEDS)
def test_filters(pools: Pools, seed: int) -> None:
    with world(pools, seed) as w:
        check_filters(w)
