"""A model of ``write.merge-schema``: random columns that come, widen and go, and what a table then has to hold."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_pyds as pp

MERGE = {"write.merge-schema": "true", "missing-columns": "null"}
WIDEN = {**MERGE, "write.merge-schema.type-widening": "true"}
_INTS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_WIDER = (
    (pa.float32(), pa.float64()), (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(14, 4)),
    (pa.timestamp("ms"), pa.timestamp("us")), (pa.int32(), pa.int64()), (pa.int16(), pa.float64()),
)  # fmt: skip
"""Types of one column, of which each widens to the next."""
_NAMES = ("a", "b", "c", "d", "e", "f", "g", "h")


class GrowingWorld:
    """A table and what it has to hold: rows whose missing fields are NULL.

    ``write``: writes rows into the table, and brings their columns; `Table.append` by default.
    """

    def __init__(
        self, seed: int, path: Path, format: str, keyed: bool, write: Callable[[pa.Table], object] | None = None
    ) -> None:
        self._random = random.Random(seed)
        options = {"file.format": format, **({"bucket": "2"} if keyed else {})}
        self.table = pp.Table.create(path, "id INT", ["id"] if keyed else None, options=options)
        self._write = write or (lambda rows: self.table.append(rows, options=WIDEN))
        self._keyed, self._rows, self._next = keyed, dict[int, dict[str, Any]](), 0

    def step(self) -> None:
        """Drop a column, or write rows with others than the table has."""
        stored = [name for name in self.table.schema.field_names if name != "id"]
        if stored and self._random.random() < 0.25:
            gone = self._random.choice(stored)
            self.table.alter(drop_columns=[gone])
            for row in self._rows.values():
                row.pop(gone, None)
            return
        count, first = self._random.randrange(1, 4), 0 if self._keyed else self._next
        ids = self._random.sample(range(first, first + 6), count)
        self._next = max(self._next, *ids) + 1
        names = self._random.sample(_NAMES, self._random.randrange(len(_NAMES) + 1))
        columns = {"id": pa.array(ids, pa.int32())} | {name: self._column(name, count) for name in names}
        rows = pa.table(columns).select(self._random.sample([*columns], len(columns)))
        self._write(rows)
        self._rows |= {row["id"]: row for row in rows.to_pylist()}

    def _column(self, name: str, count: int) -> pa.Array:
        members = pa.struct([
            *((n, self._random.choice(_INTS)) for n in self._random.sample("xyz", 2)),
            ("v", self._random.choice(_WIDER["bcd".find(name) % 2])),
        ])  # fmt: skip
        types = {"a": self._random.choice(_INTS), "b": members, "c": pa.list_(members), "d": pa.map_("string", members)}
        types |= {own: self._random.choice(kinds) for own, kinds in zip("efgh", _WIDER, strict=False)}
        return pa.array([self._value(types[name]) for _ in range(count)], types[name])

    def _value(self, type_: pa.DataType) -> Any:
        if self._random.random() < 0.2:
            return None
        if pa.types.is_struct(type_):
            return {field.name: self._value(field.type) for field in type_}
        if pa.types.is_map(type_):
            return [(key, self._value(type_.item_type)) for key in "kl"]
        if pa.types.is_list(type_):
            return [self._value(type_.value_type) for _ in range(2)]
        if pa.types.is_integer(type_):
            return self._random.choice((1, 2 ** (type_.bit_width - 1) - 1))
        if pa.types.is_timestamp(type_):
            return dt.datetime(1965, 12, 31, 23, 59, 59, 123000 if type_.unit == "ms" else 123456)
        return self._random.choice((-1.5, 0.25, 99.0)) if pa.types.is_floating(type_) else Decimal("-7.25")

    def check(self, found: pa.Table | None = None) -> None:
        """Compare all rows. ``found``: those of another reader."""
        type_ = pa.struct(self.table.arrow_schema)
        wanted = [_filled(row, type_) for _, row in sorted(self._rows.items())]
        assert (self.table.to_arrow() if found is None else found).sort_by("id").to_pylist() == wanted


def _filled(value: Any, type_: pa.DataType) -> Any:
    """A value with NULL for members that it lacks."""
    if value is None or not pa.types.is_nested(type_):
        return value
    if pa.types.is_struct(type_):
        return {field.name: _filled(value.get(field.name), field.type) for field in type_}
    if pa.types.is_map(type_):
        return [(key, _filled(item, type_.item_type)) for key, item in value]
    return [_filled(element, type_.value_type) for element in value]
