"""Which rows of a file live, and how exactly that is known: by its index, its deletion vector, a window."""

from __future__ import annotations

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.engine.read import read_file
from paimon_pyds.engine.read.file import ROW_INDEX
from paimon_pyds.engine.read.live_rows import LiveRows
from paimon_pyds.engine.rowlevel.tasks import matching_rows

ROWS = 500
SCHEMA = pa.schema([("id", pa.int64()), ("code", pa.int32()), ("other", pa.int32())])


@pytest.fixture(scope="module", params=["1kb", "1mb"], ids=["side file", "embedded"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    options = {
        "file-index.bitmap.columns": "code",
        "file-index.in-manifest-threshold": request.param,
        "deletion-vectors.enabled": "true",
    }
    made = pp.Table.create(str(tmp_path_factory.mktemp("live") / "t"), SCHEMA, options=options)
    columns = [range(ROWS), [i % 7 for i in range(ROWS)], [i % 3 for i in range(ROWS)]]
    made.append(pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA))
    made.delete("id % 10 = 4")
    return made


@pytest.mark.parametrize("window", [None, (100, 200)])
@pytest.mark.parametrize(
    ("filter_", "is_exact"),
    [("", True), ("code = 3", True), ("code = 3 AND other = 1", False), ("code > 90", True), ("other = 1", False)],
)
def test_candidates_are_the_live_rows_that_may_match(
    table: pp.Table, filter_: str, is_exact: bool, window: tuple[int, int] | None
) -> None:
    plan = table.scan(filter_, columns=["id", ROW_INDEX]).plan_with_bounds(())
    for file in plan.files:
        file = file._replace(window=window)
        batches = list(read_file(plan.spec, file))
        found = {row for batch in batches for row in batch.column(1).to_pylist()}
        live = LiveRows(plan.spec, file)
        candidates = set(live.candidates.to_array(ROWS).tolist())
        assert live.is_exact is is_exact or not candidates
        assert candidates >= found
        assert live.rows is None or candidates == found
        assert not any(row % 10 == 4 for row in candidates)
        assert live.trace.rows_after_deletions == len(candidates)
        assert live.trace.rows_after_index is not None
        assert live.trace.rows_after_index >= len(candidates)
        assert set(matching_rows(plan.spec, file)) == found


def test_selected_rows_are_read_whatever_metadata_says_of_the_file(table: pp.Table) -> None:
    """A file with chosen rows forgets its index, its vector and what is left of the filter."""
    plan = table.scan("code = 3", columns=["id"]).plan_with_bounds(())
    (file,) = plan.files
    spec = table.scan(columns=["id"]).plan().spec
    rows = [batch.column(0).to_pylist() for batch in read_file(spec, file.selecting(RowSelection.of([4, 5])))]
    assert rows == [[4, 5]]
