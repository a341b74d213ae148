"""What tests of streams share."""

from __future__ import annotations

from typing import Any

import paimon_pyds as pp
from paimon_pyds.engine.stream import NO_LIMITS, ChangeStream, Limits, StreamPosition


def stream_of(table: pp.Table, **given: Any) -> ChangeStream:
    """A stream of a table as it is now."""
    return ChangeStream(table._store, **given)


def rows_between(
    stream: ChangeStream, start: StreamPosition, end: StreamPosition, **how: Any
) -> list[tuple[int, dict[str, Any]]]:
    """The rows of a step, each with the number of its snapshot."""
    return [
        (int(number), row)
        for split in stream.splits(start, end, **how)
        for batch, numbers in split.numbered()
        for number, row in zip(numbers, batch.to_pylist(), strict=True)
    ]


def read_all(
    stream: ChangeStream, start: StreamPosition, limits: Limits = NO_LIMITS
) -> tuple[list[tuple[int, dict[str, Any]]], StreamPosition]:
    """The rows of all steps, and the position after them."""
    rows: list[tuple[int, dict[str, Any]]] = []
    while (end := stream.end(start, limits)) != start:
        rows += rows_between(stream, start, end)
        start = end
    return rows, start
