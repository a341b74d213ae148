"""What a caller holds goes when it lets go of it: no error that was dealt with within keeps the frames it passed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp

ROWS = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})


class Held:
    """Rows, say, of a function that asks a table for more."""


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def call(operation: Callable[[pp.Table], object], table: pp.Table) -> weakref.ref[Held]:
    held = Held()
    operation(table)
    return weakref.ref(held)


@pytest.mark.parametrize(
    "operation",
    [
        lambda table: pp.Table.open(table.path),
        lambda table: table.scan("id = 2").to_arrow(),
        lambda table: table.scan().count(),
        lambda table: table.top_n("v, 2"),
        lambda table: table.explain("id = 1"),
        lambda table: table.append(ROWS),
        lambda table: table.delete("id = 2"),
        lambda table: table.compact(full=True),
        lambda table: table.snapshots.expire(retain_max=1),
    ],
)
@pytest.mark.usefixtures("no_collection")
def test_no_operation_holds_its_caller(operation: Callable[[pp.Table], object], tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", ROWS.schema)
    table.append(ROWS)
    assert call(operation, table)() is None
