"""The law of pruning on whole files: every container of random tables against the rows of its data file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings

from paimon_pyds import format as formats
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import arrow_schema
from paimon_pyds.engine.execution.live_files import index_source
from paimon_pyds.format import ReadCounters
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.metadata.split import PlannedFile, ReadSpec
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from support.effort import LONG
from support.live_files import live_files
from support.random_world import random_world
from support.table_model import to_sql, to_tree
from support.table_world import POOLS, SEEDS, Pools, World

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

QUESTIONS = 15
DEPTH = 4


def rows_of(spec: ReadSpec, file: PlannedFile) -> pa.RecordBatch:
    """All rows of a data file, deleted ones too."""
    reader = formats.by_path(file.path).open_reader(spec.io, file.path, file.size, ReadCounters())
    try:
        batches = list(reader.read(spec.fields_of(file), RowSelection.ALL, 100_000))
    finally:
        reader.close()
    return pa.Table.from_batches(batches, arrow_schema(spec.fields_of(file))).combine_chunks().to_batches()[0]


def check_containers(w: World) -> int:
    """Ask each container of the latest schema; how often an answer claimed to be exact."""
    exact_claims = 0
    spec, files = live_files(w.table)
    for file in files:
        source = index_source(spec.io, file)
        if source is None or file.schema_id != w.table.schema.id:
            continue
        index, batch = FileIndex.open(source), rows_of(spec, file)
        for _ in range(QUESTIONS):
            condition = w.condition(DEPTH, micros=False)
            bound = bind(to_tree(condition), spec.fields_of(file))
            wanted = set(np.flatnonzero(matches(bound, batch).to_numpy(zero_copy_only=False)).tolist())
            for extended in (True, False):
                result = index.evaluate(bound, batch.num_rows, extended=extended)
                kept = set(result.selection.to_array(batch.num_rows).tolist())
                assert wanted <= kept, to_sql(condition)
                assert not result.exact or wanted == kept, to_sql(condition)
                exact_claims += result.exact
    return exact_claims


def test_containers() -> None:
    claims: list[int] = []

    @settings(max_examples=3000 if LONG else 8, phases=[Phase.generate])
    @given(POOLS, SEEDS)
    def check(pools: Pools, seed: int) -> None:
        with random_world(pools, seed) as w:
            claims.append(check_containers(w))

    check()
    assert sum(claims) > len(claims)  # the law has teeth: many answers do claim to be exact
