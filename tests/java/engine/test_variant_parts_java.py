"""Filters on parts of shredded VARIANT columns that Java wrote: the columns of these parts alone are read, and only
where bounds let rows through. The same filters on whole values are the model."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from support.effort import SEED, sampled
from support.oracle import Oracle, requires_java_oracle

pytestmark = [pytest.mark.java, requires_java_oracle]

_ROWS = 3_000
_SHAPE = {"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "ROW", "fields": [
    {"id": 0, "name": "n", "type": "BIGINT"}, {"id": 1, "name": "s", "type": "STRING"},
    {"id": 2, "name": "o", "type": {"type": "ROW", "fields": [{"id": 0, "name": "x", "type": "DOUBLE"}]}},
    {"id": 3, "name": "text", "type": "STRING"}, {"id": 4, "name": "l", "type": {"type": "ARRAY", "element": "INT"}},
]}}]}  # fmt: skip


def _value(draw: random.Random, number: int, odd: float) -> Any:
    """A value that fits the columns, but for a share of ``odd`` ones."""
    value: Any = {
        "n": number, "s": f"s{number % 50}", "o": {"x": number / 2}, "text": draw.randbytes(200).hex(),
        "l": [number % 7, 1],
    }  # fmt: skip
    if draw.random() < odd:
        value = draw.choice([
            value | {"n": str(number)}, value | {"more": [number]}, {"n": None}, {"o": 5, "s": number}, [number], None,
            {"o": {"x": "text", "y": number}}, {"s": "s1"}, value | {"o": {"x": number / 2, "z": 1}},
        ])  # fmt: skip
    return value


CONDITIONS = [
    "variant_get(v, '$.n', 'bigint') = 77", "try_variant_get(v, '$.n', 'int') BETWEEN 100 AND 120",
    "try_variant_get(v, '$.n', 'bigint') IN (5, 2990)", "v:s::string = 's7'", "v:s::string > 's48' AND id % 3 = 1",
    "try_variant_get(v, '$.o.x', 'double') < 3", "try_variant_get(v, '$.o.x', 'string') = 'text'",
    "try_variant_get(v, '$.l[0]', 'int') = 3 AND try_variant_get(v, '$.n', 'int') < 200",
    "try_variant_get(v, '$.more[0]', 'int') > 10", "v:n IS NULL", "v IS NULL", "v IS NOT NULL AND v:n IS NULL",
    "is_variant_null(v)", "is_variant_null(v:n)", "to_json(v) LIKE '%more%'", "NOT (v:s::string = 's7')",
    "try_variant_get(v, '$.o', 'struct<x double, y int>').y > 5", "try_variant_get(v, '$.missing', 'int') = 1",
    "10 > try_variant_get(v, '$.n', 'bigint') OR id = 2000",
]  # fmt: skip


@pytest.fixture(scope="module", params=sampled(["all fit", "some are odd"], 1))
def tables(request: Any, tmp_path_factory: pytest.TempPathFactory, oracle: Oracle) -> tuple[pp.Table, pp.Table]:
    """A shredded table of Java, and the same rows with whole values."""
    folder = tmp_path_factory.mktemp("w")
    draw = random.Random(SEED)
    values = [_value(draw, i, 0.0 if request.param == "all fit" else 0.05) for i in range(_ROWS)]
    fields = [DataField(0, "id", parse_type("BIGINT")), DataField(1, "v", parse_type("VARIANT"))]
    rows = [{"id": i, "v": {"json": json.dumps(value)} if i % 100 != 50 else None} for i, value in enumerate(values)]
    with oracle.batch() as batch:
        shape = {"parquet.variant.shreddingSchema": json.dumps(_SHAPE), "bucket": "-1"}
        batch.create(folder, "db.t", fields, options=shape)
        batch.write(folder, "db.t", rows[: _ROWS // 2])
        batch.write(folder, "db.t", rows[_ROWS // 2 :])
    shredded = pp.Table.open(folder / "db.db" / "t")
    whole = pp.Table.create(folder / "whole", "id BIGINT, v VARIANT")
    whole.append(shredded.scan().to_arrow())
    return shredded, whole


def _read(table: pp.Table, condition: str, columns: list[str]) -> tuple[list[Any], int]:
    found, size = [], 0

    def count(trace: Any) -> None:
        nonlocal size
        size += trace.counters.bytes_read

    for batch in table.scan(condition, columns=columns).to_batches(on_file=count):
        found += batch["id"].to_pylist()
    return sorted(found), size


@pytest.mark.parametrize("condition", sampled(CONDITIONS, 12))
def test_rows_are_those_of_whole_values(tables: tuple[pp.Table, pp.Table], condition: str) -> None:
    shredded, whole = tables
    expected, _ = _read(whole, condition, ["id"])
    assert _read(shredded, condition, ["id"])[0] == expected
    assert _read(shredded, condition, ["id", "v"])[0] == expected
    assert shredded.count(condition) == len(expected)


def test_few_bytes_are_read(tables: tuple[pp.Table, pp.Table]) -> None:
    shredded, whole = tables
    if whole.count("v:more IS NOT NULL OR is_variant_null(v)"):
        pytest.skip("some values are not in columns")
    every = _read(whole, "v:n::bigint = 77", ["id"])[1]
    few = _read(shredded, "v:n::bigint = 77", ["id"])[1]
    none = _read(shredded, "v:n::bigint = -1", ["id"])[1]
    assert none < few < every
    assert (none, few) < (every / 20, every / 20), (none, few, every)
