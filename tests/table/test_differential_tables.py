"""Random tables, histories and filters against a model in plain Python: with every index and statistic on, with indexes
off, and brute force give the same rows."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from pyarrow import orc
from pyarrow import parquet as pq

from paimon_pyds.scan import Scan
from support.effort import LONG
from support.random_world import random_world
from support.table_model import Row, as_text, evaluate, to_arrow, to_sql, to_tree
from support.table_world import ID, POOLS, SEEDS, Pools, World

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

FILTERS = 12
_EXAMPLES = settings(max_examples=3000 if LONG else 6, phases=[Phase.generate])
"""A shrunken seed is no smaller a case."""


def check_filters(w: World) -> None:
    model, table = w.model, w.table
    assert as_text(table.scan().to_arrow()) == as_text(to_arrow(model.rows, model.columns))
    for _ in range(FILTERS):
        tree = w.random.random() < 0.5
        condition = w.condition(w.pick([2, 3, 4]), micros=not tree)
        kept = [row for row in model.rows if evaluate(condition, row)]
        expected = as_text(to_arrow(kept, model.columns))
        filter_ = to_tree(condition) if tree else to_sql(condition)
        w.log.append(f"filter {to_sql(condition)}, {'tree' if tree else 'text'}")
        assert as_text(table.scan(filter_).to_arrow()) == expected
        off = table.scan(filter_, options={"file-index.read.enabled": "false"})
        assert as_text(off.to_arrow()) == expected
        assert table.scan(filter_).count() == len(kept)


@_EXAMPLES
@given(POOLS, SEEDS)
def test_filters(pools: Pools, seed: int) -> None:
    with random_world(pools, seed) as w:
        check_filters(w)


def check_history(w: World) -> None:
    """Every snapshot is read as it was, by number and time; what was added in between too (`incremental-between`)."""
    table, states = w.table, w.model.states
    assert [s.id for s in table.snapshots.list()] == list(range(1, len(states) + 1))
    for id_, state in enumerate(states, 1):
        expected = as_text(to_arrow(state.rows, state.columns))
        assert as_text(table.scan(snapshot=id_).to_arrow()) == expected
        assert as_text(table.scan(options={"scan.version": str(id_)}).to_arrow()) == expected
        assert table.scan(snapshot=id_).count() == len(state.rows)
        moment = table._store.snapshot(id_).time_millis
        last = max(s.id for s in table.snapshots.list() if s.time_millis == moment)
        assert table.scan(timestamp=moment).snapshot_id == last
    condition = w.condition(2, micros=False)
    w.log.append(f"filter {to_sql(condition)}, tree")
    for start, end in combinations(range(len(states) + 1), 2):
        added = [row for state in states[start:end] for row in state.added or ()]
        between = {"incremental-between": f"{start},{end}"}
        assert as_text(table.scan(options=between).to_arrow()) == as_text(to_arrow(added, w.model.columns))
        kept = [row for row in added if evaluate(condition, row)]
        found = table.scan(to_tree(condition), options=between).to_arrow()
        assert as_text(found) == as_text(to_arrow(kept, w.model.columns))


@_EXAMPLES
@given(POOLS, SEEDS)
def test_history(pools: Pools, seed: int) -> None:
    with random_world(pools, seed) as w:
        check_history(w)


def check_shapes(w: World) -> None:
    """Projections, limits, batches and the hidden columns, with and without a filter."""
    model, table = w.model, w.table
    for condition in (None, w.condition(2, micros=False), w.condition(1, micros=False)):
        filter_ = None if condition is None else to_tree(condition)
        kept = [row for row in model.rows if condition is None or evaluate(condition, row)]
        columns = w.some(model.columns, 0, len(model.columns))
        names = [c.name for c in columns]
        w.log.append(f"filter {condition and to_sql(condition)}, columns {names}")
        found = table.scan(filter_, columns=names).to_arrow()
        assert found.schema.names == names
        assert found.num_rows == len(kept)
        assert not columns or as_text(found) == as_text(to_arrow(kept, columns))
        limit = w.random.randint(0, len(kept) + 2)
        some = table.scan(filter_, columns=["id", *names] if ID not in columns else names, limit=limit)
        ids = {row.get(ID) for row in kept}
        taken = some.to_arrow()
        assert taken.num_rows == min(limit, len(kept)) == some.count()
        assert ids.issuperset(taken["id"].to_pylist())
        assert len(set(taken["id"].to_pylist())) == taken.num_rows
        small = Scan(table._store, where=filter_, batch_rows=2)
        batches = list(small.to_batches())
        assert all(0 < b.num_rows <= 2 for b in batches)
        assert in_order(pa.Table.from_batches(batches, small.arrow_schema)) == in_order(table.scan(filter_).to_arrow())
        check_places(w, table.scan(filter_, columns=["id", *METADATA]).to_arrow(), kept)


def in_order(found: pa.Table) -> list[str]:
    return list(map(repr, found.to_pylist()))


METADATA = ["__paimon_file_path", "__paimon_row_index", "__paimon_partition", "__paimon_bucket"]


def check_places(w: World, found: pa.Table, kept: list[Row]) -> None:
    """The row at each place of each file is the one that is said to be there, in the bucket that the path names."""
    assert sorted(found["id"].to_pylist()) == sorted(row.get(ID) for row in kept)
    if w.format == "row" or (w.table.options["file.compression"] == "snappy" and w.format == "avro"):
        return  # no other library reads these here
    files: dict[str, list[int]] = {}
    for id_, path, position, partition, bucket in zip(*(c.to_pylist() for c in found.columns), strict=True):
        if path not in files:
            files[path] = ids_of_file(path)
        assert files[path][position] == id_
        assert [k for k, _ in partition] == list(w.model.partition_by)
        assert f"/bucket-{bucket}/" in path


def ids_of_file(path: str) -> list[int]:
    """The column `id` of a data file, read by other libraries."""
    if path.endswith(".parquet"):
        return list(pq.ParquetFile(path).read(["id"])["id"].to_pylist())
    if path.endswith(".orc"):
        return list(orc.ORCFile(path).read(["id"])["id"].to_pylist())
    with open(path, "rb") as file:
        return [record["id"] for record in fastavro.reader(file)]  # type: ignore[call-overload, index]


@_EXAMPLES
@given(POOLS, SEEDS)
def test_shapes(pools: Pools, seed: int) -> None:
    with random_world(pools, seed) as w:
        check_shapes(w)


LARGE = {
    "target-file-row-num": ["9000"],
    "parquet.page.row.count.limit": ["100", "700"],
    "parquet.block.size": ["30000"],
}


def check_large(w: World) -> None:
    """Files of many pages and row groups, read in two passes; rows repeat, so that the model asks each kind once."""
    if len(w.model.columns) == 1:
        return
    options = {key: w.pick(choices) for key, choices in LARGE.items() if w.random.random() < 0.7}
    w.table.alter(options, [key for key in LARGE if key in w.table.options and key not in options])
    kinds = w.rows(12, 12)
    order = arranged(w, len(kinds), w.pick([2500, 12_000]))
    whole = (
        w.arrow(kinds)
        .take(pa.array(order))
        .set_column(
            w.arrow([]).schema.get_field_index("id"), w.arrow([]).schema.field("id"), pa.array(np.arange(len(order)))
        )
    )
    w.log.append(f"overwrite with {len(order)} rows of {w.arrow(kinds).to_pylist()}, {options}")
    w.table.overwrite([whole.slice(0, 5000), whole.slice(5000)])
    for _ in range(6):
        condition = without_id(w, 2)
        w.log.append(f"filter {to_sql(condition)}")
        hit = np.array([evaluate(condition, row) is True for row in kinds])
        expected = np.flatnonzero(hit[order])
        columns = None if w.random.random() < 0.5 else ["id", *w.some([c.name for c in w.model.columns[1:]], 0, 2)]
        columns = columns and list(dict.fromkeys(columns))
        found = w.table.scan(to_tree(condition), columns=columns).to_arrow().sort_by("id")
        assert found["id"].to_pylist() == expected.tolist()
        again = whole.take(pa.array(expected)).select(found.schema.names)
        assert bits(found) == bits(again)
        assert w.table.scan(to_tree(condition)).count() == len(expected)
        low = w.random.randrange(len(order))
        part = w.table.scan(to_tree(condition)).where(f"id >= {low} AND id < {low + 40}").to_arrow()
        assert sorted(part["id"].to_pylist()) == [i for i in expected.tolist() if low <= i < low + 40]


def arranged(w: World, kinds: int, rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Which kind each row is: mixed, sorted, in runs, or one kind but for a few rows."""
    rng = np.random.default_rng(w.random.randrange(2**32))
    match w.pick(["mixed", "sorted", "runs", "rare"]):
        case "sorted":
            return np.sort(rng.integers(0, kinds, rows))
        case "runs":
            return np.repeat(rng.integers(0, kinds, rows // 50 + 1), 50)[:rows]
        case "rare":
            return np.where(rng.random(rows) < 0.999, 0, rng.integers(0, kinds, rows))
    return rng.integers(0, kinds, rows)


def without_id(w: World, depth: int) -> Any:
    """A condition on other columns than the counter."""
    while True:
        condition = w.condition(depth, micros=False)
        if "`id`" not in to_sql(condition):
            return condition


def bits(table: pa.Table) -> pa.Table:
    """Floats as integers, so that NaN equals NaN; in one chunk."""
    columns = [c.combine_chunks() for c in table.columns]
    as_integers = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    return pa.table(
        [c.view(as_integers.get(c.type, c.type)) if c.type in as_integers else c for c in columns], table.schema.names
    )


@_EXAMPLES
@given(POOLS, SEEDS)
def test_large_files(pools: Pools, seed: int) -> None:
    with random_world(pools, seed) as w:
        check_large(w)
