"""The first rows in an order, of random tables, equal those of a plain model."""

from __future__ import annotations

import pytest
from hypothesis import given

from paimon_pyds.sql.text.order import SortColumn, TopN
from support.answer_world import compare_rows, examples, model_keys, ordered_columns, world
from support.table_model import as_text, evaluate, to_arrow, to_sql, to_tree
from support.table_world import ID, POOLS, SEEDS, Pools, World

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

ORDERS = 8


@examples(9)
@given(POOLS, SEEDS)
def test_top_n_is_that_of_the_model(pools: Pools, seed: int) -> None:
    with world(pools, seed) as w:
        for _ in range(ORDERS):
            check_order(w)


def check_order(w: World) -> None:
    model = w.model
    condition = None if w.random.random() < 0.4 else w.condition(1, micros=False)
    chosen = w.some(ordered_columns(model.columns), 1, 1 if w.random.random() < 0.6 else 3)
    order = [(column, w.random.random() < 0.5, w.random.random() < 0.5) for column in chosen]
    n = w.random.randint(0, len(model.rows) + 2) if w.random.random() < 0.3 else w.random.randint(1, 4)
    top_n = TopN(tuple(SortColumn(c.name, descending, first) for c, descending, first in order), n)
    w.log.append(f"filter {condition and to_sql(condition)}, top {top_n}")
    kept = [row for row in model.rows if condition is None or evaluate(condition, row)]
    expected = sorted(kept, key=compare_rows(order))[:n]
    options = {} if w.random.random() < 0.8 else {"file-index.read.enabled": "false"}
    filter_ = None if condition is None else to_tree(condition)
    found = w.table.scan(filter_, top_n=str(top_n) if w.random.random() < 0.5 else top_n, options=options).to_arrow()
    ids = found.column("id").to_pylist()
    by_id = {row.get(ID): row for row in kept}
    assert len(set(ids)) == len(ids) == len(expected)
    rows = [by_id[i] for i in ids]
    for column, _, _ in order:
        assert model_keys(rows, column) == model_keys(expected, column)
    assert as_text(found) == as_text(to_arrow(rows, model.columns))
