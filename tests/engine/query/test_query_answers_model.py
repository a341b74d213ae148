"""Answers about random tables equal those of a plain model: all types, NULL, NaN, deletions, evolution, any index."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from paimon_pyds.engine.query.answer import Answer
from paimon_pyds.errors import SchemaError
from paimon_pyds.scan import Scan
from support.answer_world import (
    NUMBERS,
    examples,
    keys_of,
    model_distinct,
    model_keys,
    model_sum,
    ordered_columns,
    sums_agree,
    world,
)
from support.table_model import Column, Row, evaluate, to_arrow, to_sql, to_tree
from support.table_world import POOLS, SEEDS, Pools, World

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

FILTERS = 5


@examples(5)
@given(POOLS, SEEDS)
def test_answers_are_those_of_the_model(pools: Pools, seed: int) -> None:
    with world(pools, seed) as w:
        for number in range(FILTERS):
            condition = None if number == 0 else w.condition(2, micros=False)
            kept = [row for row in w.model.rows if condition is None or evaluate(condition, row)]
            w.log.append(f"filter {condition and to_sql(condition)}")
            filter_ = None if condition is None else to_tree(condition)
            for options in ({}, {"file-index.read.enabled": "false"}):
                check_scan(w, w.table.scan(filter_, options=options), kept)


def check_scan(w: World, scan: Scan, kept: list[Row]) -> None:
    count = scan.answer.count()
    accounted(count, scan)
    assert count.value == scan.count() == len(kept)
    assert scan.answer.exists().value is bool(kept)
    columns = ordered_columns(w.model.columns)
    for column in w.some(columns, 1, 3):
        w.log.append(f"column {column.name}")
        check_column(scan, kept, column)


def check_column(scan: Scan, kept: list[Row], column: Column) -> None:
    distinct = scan.answer.distinct(column.name)
    accounted(distinct, scan)
    assert distinct.value.schema.names == [column.name, "count"]
    found = zip(keys_of(distinct.value.column(0), column), distinct.value.column(1).to_pylist(), strict=True)
    assert list(found) == model_distinct(kept, column)
    assert distinct.value.column(0).type == to_arrow([], [column]).schema.field(0).type
    values = [key for key in model_keys(kept, column) if key is not None]
    for name, choose in (("min", min), ("max", max)):
        extreme: Answer[Any] = getattr(scan.answer, name)(column.name)
        accounted(extreme, scan)
        assert scalar_key(extreme.value, column) == (choose(values) if values else None)
    if column.kind in NUMBERS:
        check_sum(scan, kept, column)


def check_sum(scan: Scan, kept: list[Row], column: Column) -> None:
    expected = model_sum(kept, column)
    if isinstance(expected, int) and not -(2**63) <= expected < 2**63:
        with pytest.raises(SchemaError, match="does not fit BIGINT"):
            scan.answer.sum(column.name)
        return
    if column.type == "DECIMAL(38, 10)" and expected is not None and expected.copy_abs() >= 10**28:
        with pytest.raises(SchemaError, match=r"does not fit DECIMAL\(38, 10\)"):
            scan.answer.sum(column.name)
        return
    total = scan.answer.sum(column.name)
    accounted(total, scan)
    assert (total.value is None) == (expected is None)
    assert expected is None or sums_agree(total.value, expected)


def scalar_key(value: Any, column: Column) -> Any:
    """A value of `min` or `max` as the model orders it."""
    if value is None:
        return None
    type_ = to_arrow([], [column]).schema.field(0).type
    return keys_of(pa.array([value], type_), column)[0]


def accounted(answer: Answer[Any], scan: Scan) -> None:
    """No file is counted that the plan does not have, and none is forgotten."""
    counted = answer.files_by_metadata + answer.files_by_index + answer.files_read
    assert counted == len(scan.plan().files)
    assert answer.files_read == 0 or answer.source == "data"
    assert answer.source != "metadata" or answer.bytes_read == 0
