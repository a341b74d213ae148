"""All tables of Paimon 2.x that the fixtures have, with random filters and projections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, Kind
from paimon_pyds.errors import UnsupportedError
from support.effort import LONG, SEED, sampled
from support.v2_fixtures import FOLDER, v2_lines, v2_reads, v2_table
from support.values import dumps, in_order

NAMES = sorted(path.parent.name for path in FOLDER.glob("*/meta.json"))
_TEXTS = (Kind.VARCHAR, Kind.CHAR)
_INTEGERS = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
_READS = 200 if LONG else 8


class _Filter:
    """A random condition: its SQL, and what it says of one row of JSON values."""

    def __init__(self, random: Random, fields: list[DataField], rows: list[Mapping[str, Any]], depth: int = 2) -> None:
        self.parts = [_Filter(random, fields, rows, depth - 1) for _ in range(2)] if random.random() < depth / 4 else []
        self.op = random.choice(["AND", "OR"] if self.parts else ["IS NULL", "IS NOT NULL"])
        self.field = random.choice(fields)
        self.values: list[Any] = []
        if not self.parts and self.field.type.kind in _TEXTS + _INTEGERS and random.random() < 0.8:
            self.op = random.choice(["=", "<>", "<", ">=", "IN"])
            held = [row[self.field.name] for row in rows if row[self.field.name] is not None]
            others: list[Any] = ["", "m", "zz"] if self.field.type.kind in _TEXTS else [0, 7, 100]
            self.values = [random.choice(held * 2 + others) for _ in range(3 if self.op == "IN" else 1)]

    @property
    def sql(self) -> str:
        if self.parts:
            return f"({self.parts[0].sql} {self.op} {self.parts[1].sql})"
        if not self.values:
            return f"`{self.field.name}` {self.op}"
        texts = [
            "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value) for value in self.values
        ]
        return f"`{self.field.name}` {self.op} " + (f"({', '.join(texts)})" if self.op == "IN" else texts[0])

    def matches(self, row: Mapping[str, Any]) -> bool | None:
        if self.parts:
            found = [part.matches(row) for part in self.parts]
            decides = self.op == "OR"
            return decides if decides in found else None if None in found else not decides
        value = row[self.field.name]
        if not self.values:
            return (value is None) == (self.op == "IS NULL")
        if value is None:
            return None
        low = self.values[0]
        by_op = {"=": value == low, "<>": value != low, "IN": value in self.values}
        return by_op[self.op] if self.op in by_op else bool(value < low) == (self.op == "<")


@pytest.mark.parametrize("name", sampled(NAMES, 6))
def test_random_filters_and_projections(name: str) -> None:
    table = pp.Table.open(v2_table(name))
    random = Random(f"{SEED} {name}")
    rows = [json.loads(line) for line in next(read for read in v2_reads(name) if read.name == "full").rows]
    fields = list(table.scan().schema.fields)
    try:
        table.to_arrow()
    except UnsupportedError as error:
        assert name == "mosaic" and "mosaic" in str(error)
        return
    for _ in range(_READS):
        where = _Filter(random, fields, rows)
        columns = [field.name for field in random.sample(fields, random.randint(1, len(fields)))]
        kept = [row for row in rows if where.matches(row)]
        expected = in_order(dumps({column: row[column] for column in columns}) for row in kept)
        assert v2_lines(table.scan(where.sql, columns=columns).to_arrow()) == expected, (where.sql, columns)
        assert table.count(where.sql) == len(kept), where.sql
