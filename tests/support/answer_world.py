"""Random tables with deletions, and what a plain model says of their rows as a whole."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import Phase, settings

from support.effort import LONG
from support.random_world import random_world
from support.table_model import Column, Row, order
from support.table_world import Pools, World

UNORDERED = ("ARRAY", "MAP", "ROW", "MULTISET")
NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE")


def examples(few: int) -> Any:
    """So many tables, and 100 times as many in long runs; a shrunken seed is no smaller a case."""
    return settings(max_examples=100 * few if LONG else few, phases=[Phase.generate])


class DeletingWorld(World):
    """A random table that often has deletion vectors."""

    def table_options(self) -> dict[str, str]:
        options = super().table_options()
        if self.random.random() < 0.5:
            options["deletion-vectors.enabled"] = "true"
        return options


def world(pools: Pools, seed: int) -> AbstractContextManager[World]:
    """A table with a random history."""
    return random_world(pools, seed, DeletingWorld)


def ordered_columns(columns: Sequence[Column]) -> list[Column]:
    """Columns whose values have an order."""
    return [c for c in columns if c.kind not in UNORDERED]


def keys_of(values: pa.ChunkedArray | pa.Array, column: Column) -> list[Any]:
    """Values of an answer, as the model orders them; None for NULL."""
    plain = values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values
    if pa.types.is_time(plain.type):
        plain = plain.cast(pa.int32())
    return [None if v is None else order(v, column.type) for v in plain.to_pylist()]


def model_keys(rows: Sequence[Row], column: Column) -> list[Any]:
    """The model's values of a column, as it orders them; None for NULL."""
    return [None if (v := row.get(column)) is None else order(v, column.type) for row in rows]


def model_distinct(rows: Sequence[Row], column: Column) -> list[tuple[Any, int]]:
    """Distinct values, ascending with NULL first, and their counts."""
    counted = Counter(model_keys(rows, column))
    nulls = [(None, counted.pop(None))] if None in counted else []
    return nulls + sorted(counted.items())


def model_sum(rows: Sequence[Row], column: Column) -> Any:
    """The sum, None without values."""
    values = [v for row in rows if (v := row.get(column)) is not None]
    if not values:
        return None
    if column.kind in ("FLOAT", "DOUBLE"):
        return values
    if column.kind == "DECIMAL":
        scale = int(column.type.split(",")[1][:-1])
        return Decimal(sum(int(v.scaleb(scale, _WIDE)) for v in values)).scaleb(-scale, _WIDE)
    return sum(values)


def sums_agree(found: Any, values: Any) -> bool:
    """Whether a sum is that of the values; floats may be added in any order."""
    if not isinstance(values, list):
        return bool(found == values)
    if any(abs(v) > 1e300 for v in values if math.isfinite(v)):
        return True  # whether it overflows on the way depends on the order
    if any(math.isnan(v) for v in values) or {math.inf, -math.inf} <= set(values):
        return math.isnan(found)
    if not all(map(math.isfinite, values)):
        return bool(found == sum(v for v in values if math.isinf(v)))
    size = math.fsum(map(abs, values))
    return abs(found - math.fsum(values)) <= 1e-9 * size


def compare_rows(columns: Sequence[tuple[Column, bool, bool]]) -> Callable[[Row], Any]:
    """A sort key of rows: columns with ``descending`` and ``nulls first``."""

    def compare(a: Row, b: Row) -> int:
        for column, descending, nulls_first in columns:
            x, y = model_keys([a, b], column)
            if x == y:
                continue
            if x is None or y is None:
                return -1 if (x is None) == nulls_first else 1
            return -1 if (x > y) == descending else 1
        return 0

    return functools.cmp_to_key(compare)


def _wide() -> Any:
    from decimal import Context

    return Context(prec=80)


_WIDE = _wide()
