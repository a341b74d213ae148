"""What an explanation says is what planning, indexes and reading do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.selection import STRIP_BINS, RowSelection
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.ops.explain.explain import Explanation, explain
from paimon_pyds.ops.explain.file import TopNVisit
from paimon_pyds.ops.explain.scan import interesting, outcome_counts
from support.effort import sampled
from support.fixtures import fixture_names, table_path


def _steps(e: Explanation) -> dict[str, tuple[int, int]]:
    return {s.name: (s.files, s.rows) for s in e.steps}


def test_every_step_tells_what_it_left(flights: pp.Table) -> None:
    e = flights.explain("month >= 2 AND id < 65000 AND dest = 'D007'", analyze=True)
    dest = flights.scan("month IN (2, 3) AND id < 65000 AND dest = 'D007'").count()
    per_file = [flights.count(f"month = {m} AND dest = 'D007'") for m in (2, 3)]
    steps = _steps(e)
    assert steps["table"] == (4, 80_000)
    assert steps["manifests"] == (3, 60_000)
    assert steps["statistics"] == (2, 40_000)
    assert steps["side index"] == (2, sum(per_file))
    assert dest <= steps["pages"][1] < sum(per_file)
    assert steps["result"] == (2, dest)
    assert outcome_counts(e) == {"manifests": 1, "statistics": 1, "read in part": 2}
    reasons = {s.path: (s.step, s.reason) for s in e.skips}
    assert sorted(reasons.values()) == [("manifests", "month >= 2"), ("statistics", "id < 65000")]
    arrow = e.to_arrow()
    assert arrow["rows_before"].to_pylist()[1:] == arrow["rows"].to_pylist()[:-1]
    assert arrow["step"].to_pylist() == list(steps)


def test_leaves_and_their_positions(flights: pp.Table) -> None:
    e = flights.explain("month = 3 AND (dest IN ('D001', 'D002') OR tail = 'nobody') AND id >= 0")
    (file,) = e.files
    said = {v.leaf: v for v in file.index_answers}
    rows = flights.scan("month = 3", columns=["dest"]).to_arrow()["dest"].to_pylist()
    wanted = [i for i, d in enumerate(rows) if d in ("D001", "D002")]
    bitmap = said["dest IN ('D001', 'D002')"]
    assert (bitmap.index, bitmap.column, bitmap.rows) == ("bitmap", "dest", len(wanted))
    assert list(bitmap.positions) == wanted[: len(bitmap.positions)] != []
    assert (said["tail = 'nobody'"].index, said["tail = 'nobody'"].rows) == ("bloom-filter", 0)
    assert said["id >= 0"].index is None
    assert file.rows_kept == len(wanted)
    assert sum(v.bytes_read for v in file.index_answers) <= file.index_bytes
    leaves = e.files_to_arrow()["leaves"].to_pylist()
    assert next(x for x in leaves[0] if x["index"] == "bitmap")["positions"] == list(bitmap.positions)


def test_embedded_indexes_tell_their_leaves_too(small: pp.Table) -> None:
    e = small.explain("color = 'red' AND id > 1", analyze=True)
    assert _steps(e)["embedded index"] == (2, 3)
    assert _steps(e)["result"] == (2, 1)
    assert {s.step for s in e.skips} == {"embedded index"}
    assert [[(v.index, v.rows) for v in s.index_answers if v.index] for s in e.skips] == [[("bitmap", 0)]]
    assert sorted(next(v.positions for v in f.index_answers if v.index) for f in e.files) == [(0,), (0, 2)]


@pytest.mark.parametrize(
    "where",
    [
        "gate = 'G3'", "gate IN ('G3', 'G190')", "dest = 'D003'", "tail = 'N2-77'", "id BETWEEN 30000 AND 30010",
        "dest <> 'D003'", "tail = 'N2-77' OR dest = 'D199'",
    ],
)  # fmt: skip
@pytest.mark.parametrize("columns", [None, ["id", "tail"]])
def test_the_choice_told_is_the_choice_made(flights: pp.Table, where: str, columns: list[str] | None) -> None:
    e = flights.explain(where, columns=columns, analyze=True)
    assert e.files
    for f in e.files:
        assert f.actual is not None
        if f.pages is None:
            assert (f.rows_kept, f.actual.rows_decoded) == (0, 0)
            continue
        assert f.actual.groups <= f.pages.groups
        if not f.pages.at_most:
            assert (f.actual.pages, f.actual.groups) == (f.pages.pages, f.pages.groups)
        assert ("pages" in f.pages.choice) == (f.pages.pages > 0)
        if f.pages.choice == "pages":
            assert f.pages.pages_micros is not None and f.pages.group_micros is not None
            assert f.pages.pages_micros < f.pages.group_micros
            assert f.pages.bytes <= f.pages.whole_bytes
    assert e.steps[-1].rows == flights.count(where) == sum(f.actual.rows for f in e.files if f.actual)


def test_bytes_told_are_the_bytes_read(flights: pp.Table) -> None:
    """Without a second pass over the file, what remains are footers, page indexes and file indexes."""
    where = "dest = 'D005'"
    e = flights.explain(where, columns=["id", "dest"])
    traces: list[pp.engine.read.FileTrace] = []
    for _ in flights.scan(where, columns=["id", "dest"]).to_batches(on_file=traces.append):
        pass
    by_path = {t.path: t.counters for t in traces}
    for f in e.files:
        counters = by_path[f.path]
        assert f.pages is not None and not f.pages.at_most
        extra = counters.bytes_read - f.pages.bytes
        assert 0 <= extra <= counters.footer_bytes + counters.index_bytes + 8


def test_nested_columns_leave_their_siblings_to_pages(flights: pp.Table) -> None:
    (file,) = flights.explain("month = 1 AND gate = 'G7'", analyze=True).files
    assert file.pages is not None and file.actual is not None
    assert (file.rows_kept, file.pages.choice, file.pages.why) == (100, "pages", "legs read whole")
    flat = len(flights.schema.fields) - 2  # without legs, and the partition's month
    assert (file.pages.pages, file.actual.pages) == (flat, flat)
    assert file.actual.rows_decoded == 20_000  # of the column that is read whole; those of pages are among them
    (file,) = flights.explain("month = 1 AND gate = 'G7'", columns=["legs"]).files
    assert file.pages is not None and file.pages.why == "legs read whole"


def test_many_columns_that_are_read_whole_are_counted(tmp_path: Path) -> None:
    """Nested columns are; pages of the others are single ones."""
    n = 40_000
    number = pa.array(np.arange(n))
    nested = pa.StructArray.from_arrays([number], ["n"])
    rows = pa.table({"key": number, **{f"c{i}": nested for i in range(8)}})
    options = {"file-index.bitmap.columns": "key", "parquet.page.row.count.limit": "1024"}
    table = pp.Table.create(tmp_path / "t", rows.schema, options=options)
    table.append(rows)
    (file,) = table.explain("key IN (7, 30000)").files
    assert file.pages is not None
    assert file.pages.why == "c0, c1 and 6 more columns read whole"


def test_without_a_filter(flights: pp.Table) -> None:
    e = flights.explain(analyze=True)
    assert _steps(e) == {"table": (4, 80_000), "pages": (4, 80_000), "result": (4, 80_000)}
    assert all(f.pages and f.pages.why == "every row is wanted" for f in e.files)
    limited = flights.explain(limit=5)
    assert _steps(limited)["limit"] == (1, 20_000)
    assert outcome_counts(limited) == {"limit": 3, "read whole": 1}


def test_first_rows_in_an_order(flights: pp.Table) -> None:
    e = flights.explain("dest = 'D001'", top_n="id desc, 3", analyze=True)
    assert "id desc" in e.order and e.order in e.text and "first rows by" in e.html
    assert e.steps[-1].rows == 3
    assert sum(f.actual.rows_decoded for f in e.files if f.actual) < 80_000
    assert outcome_counts(e) == {"not needed": 3, "read in part": 1}
    assert [f.spared for f in e.files] == [f.actual is None for f in e.files]
    assert "3 not needed" in e.text and "3 not needed" in e.html
    foreseen = flights.explain("dest = 'D001'", top_n="id desc, 3")
    assert outcome_counts(foreseen) == {"read in part": 4}


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """Three files with a range bitmap on ``score``, whose bounds overlap; those of ``id`` do not."""
    schema = pa.schema([("id", pa.int64()), ("score", pa.int64()), ("note", pa.string())])
    options = {"file-index.range-bitmap.columns": "score", "file-index.in-manifest-threshold": "1b"}
    table = pp.Table.create(tmp_path_factory.mktemp("explain") / "ranked", schema, options=options)
    for m in range(3):
        ids = np.arange(5_000) + m * 5_000
        table.append(pa.table({"id": ids, "score": ids * 7919 % 15_000, "note": [f"n{i}" for i in ids]}, schema))
    return table


def test_files_that_statistics_leave_out_of_the_first_rows(ranked: pp.Table) -> None:
    e = ranked.explain(top_n="id desc, 5", analyze=True)
    assert _steps(e)["top n"] == (1, 5_000)
    assert {s.step for s in e.skips} == {"top n"} and len(e.skips) == 2
    assert "2 by top n" in e.text and "skipped by top n" in e.html
    (file,) = e.files
    assert file.top_n == TopNVisit(1, "id = 14999", "", True)
    assert "no row before id = 14999; sort columns are read" in e.text
    assert file.pages is not None and file.pages.at_most
    assert file.pages.whole_bytes < file.size / 2, "the sort column only"


def test_files_are_asked_for_the_first_rows_in_turn(ranked: pp.Table) -> None:
    e = ranked.explain(top_n="score desc, 4", analyze=True)
    assert [f.top_n.number for f in interesting(e.files) if f.top_n] == [1, 2, 3]
    highest = [max(part.to_pylist()) for part in ranked.scan(columns=["score"]).to_arrow().column(0).chunks]
    assert sorted(f.top_n.bound for f in e.files if f.top_n) == sorted(f"score = {h}" for h in highest)
    assert all(f.top_n is not None and f.top_n.by == "range-bitmap(score)" and not f.top_n.reads for f in e.files)
    assert [f.pages for f in e.files] == [None] * 3
    given = sum(f.actual.rows for f in e.files if f.actual)
    assert given == 4, "an index that knows the best rows spares reading their sort column"
    assert "range-bitmap(score) has the best rows, no data is read for that" in e.text
    rows = e.files_to_arrow().column("top_n").to_pylist()
    assert sorted(r["number"] for r in rows) == [1, 2, 3]


def test_several_sort_columns_are_read_where_the_index_leaves_ties(ranked: pp.Table) -> None:
    e = ranked.explain("note LIKE '%7'", top_n="score desc, id, 4", limit=2)
    assert all(f.top_n is not None and f.top_n.reads and f.top_n.by == "range-bitmap(score)" for f in e.files)
    assert all(f.pages is not None and f.pages.at_most for f in e.files)
    assert e.limit == 2 and "Limit: 2 rows at most" in e.text and "2 rows at most" in e.html
    assert e.as_dict()["limit"] == 2


def test_what_the_first_rows_took_has_the_indexes_in_it(ranked: pp.Table) -> None:
    scan = ranked.scan(top_n="score desc, 4")
    OPEN_INDEXES.clear()
    explained = scan.explain(analyze=True)
    OPEN_INDEXES.clear()
    took = scan.top_rows().bytes_read
    assert explained.steps[-1].bytes == took
    data = sum(f.actual.bytes for f in explained.files if f.actual)
    assert took > data
    assert scan.top_rows().bytes_read < took, "indexes stay open"


def test_nothing_comes_first_where_nothing_matches(ranked: pp.Table) -> None:
    for filter_ in ("score = 1 AND score = 2", "id < 0", "score = 100000"):
        e = ranked.explain(filter_, top_n="score desc, 4", analyze=True)
        assert e.steps[-1].rows == 0


def test_the_first_files_in_turn_are_looked_into(ranked: pp.Table) -> None:
    scan = ranked.scan(top_n="score desc, 4")
    e = explain(scan.plan(), ranked.path, order="score desc, 4", query=scan.top_n_query(), footers=2)
    assert [f.top_n.number if f.top_n else None for f in e.files] == [1, 2, None]
    assert "2 files answered without data" in e.steps[-1].detail
    assert "1 file not looked into counts whole" in e.steps[-1].detail
    assert e.steps[-1].bytes == e.files[-1].size
    assert [f.path for f in interesting(e.files)] == [f.path for f in e.files[:2]]


def test_no_limit_is_told_of_a_scan_without(ranked: pp.Table) -> None:
    e = ranked.explain("score = 5")
    assert e.limit is None and "Limit" not in e.text and "at most" not in e.html


def test_files_beyond_the_limit_are_not_needed(flights: pp.Table) -> None:
    e = flights.explain("dest = 'D001'", limit=2, analyze=True)
    assert e.steps[-1].rows == 2
    unread = [f for f in e.files if f.actual is None]
    assert {f.outcome for f in unread} <= {"not needed"}
    assert "skipped by not needed" not in e.html


def test_what_was_added_between_snapshots(flights: pp.Table) -> None:
    e = flights.explain("month = 3", options={"incremental-between": "2,4"}, analyze=True)
    assert _steps(e)["table"] == (2, 40_000)
    assert _steps(e)["result"] == (1, 20_000)
    assert [s.reason for s in e.skips] == ["month = 3"]


def test_only_some_footers_are_looked_into(flights: pp.Table) -> None:
    plan = flights.scan("dest = 'D001'").plan()
    e = explain(plan, flights.path, footers=1)
    assert [f.pages is not None for f in e.files] == [True, False, False, False]
    assert "3 files not looked into" in e.steps[-1].detail
    assert e.steps[-1].rows == sum(f.rows_kept for f in e.files)


def test_never_written(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int32())]))
    e = table.explain("a = 1", analyze=True)
    assert e.snapshot_id is None
    assert [s.rows for s in e.steps] == [0, 0]
    assert "never written" in e.html and "(none)" in e.text
    assert e.files_to_arrow().num_rows == 0


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int32())]))
    table.append(pa.table({"a": pa.array([1, 2], pa.int32())}))
    Path(table.scan().plan().paths[0]).unlink()
    with pytest.raises(SnapshotNotFoundError, match="gone"):
        table.explain("a = 1")


def _some_filters(table: pp.Table) -> list[str]:
    rows = table.scan(limit=40).to_arrow()
    found = []
    for field in rows.schema:
        values = [v for v in rows[field.name].to_pylist() if v is not None]
        if values and pa.types.is_integer(field.type):
            found += [f"`{field.name}` = {values[-1]}", f"`{field.name}` > {values[0]}"]
        elif values and pa.types.is_string(field.type) and values[-1].isalnum():
            found.append(f"`{field.name}` = '{values[-1]}'")
    return found[:3]


JAVA_TABLES = [n for n in fixture_names() if n.startswith(("append_", "part_", "evolve_index"))]


@pytest.mark.parametrize("name", sampled(JAVA_TABLES, 3))
def test_java_tables(name: str) -> None:
    """Each step leaves at most what the one before left, every file is told of, the result is the scan's."""
    table = pp.Table.open(table_path(name))
    for where in [None, *_some_filters(table)]:
        e = table.explain(where, analyze=True)
        files, rows = [s.files for s in e.steps], [s.rows for s in e.steps]
        assert files[:-1] == sorted(files[:-1], reverse=True), e.text
        assert rows == sorted(rows, reverse=True), e.text
        assert rows[-1] == table.count(where)
        assert len(e.files) + len(e.skips) == e.steps[0].files == sum(outcome_counts(e).values())
        for step, n in outcome_counts(e).items():
            at = [s.name for s in e.steps].index(step) if not step.startswith("read") else None
            assert at is None or files[at - 1] - files[at] == n, e.text
        assert json.loads(json.dumps(e.as_dict()))["steps"][-1]["rows"] == rows[-1]


@given(
    rows=st.integers(1, 400),
    picked=st.sets(st.integers(0, 399)),
    everything=st.booleans(),
)
def test_strips(rows: int, picked: set[int], everything: bool) -> None:
    kept = [p for p in picked if p < rows]
    selection = RowSelection.ALL if everything else RowSelection.of(np.array(kept, np.uint32))
    strip = selection.strip(rows)
    assert len(strip) == STRIP_BINS
    mask = np.ones(rows, bool) if everything else np.isin(np.arange(rows), kept)
    for i in range(STRIP_BINS):
        start, stop = rows * i // STRIP_BINS, rows * (i + 1) // STRIP_BINS
        part = mask[start:stop] if stop > start and rows >= STRIP_BINS else mask[i * rows // STRIP_BINS :][:1]
        assert (strip[i] > 0) == part.any()
        assert (strip[i] == 255) == part.all()


def test_parts_of_variant_values_are_named_with_how_the_file_has_them(tmp_path: Path) -> None:
    options = {"variant.inferShreddingSchema": "true", "parquet.page.row.count.limit": "500"}
    table = pp.Table.create(tmp_path / "db.db" / "t", {"id": "INT", "v": "VARIANT"}, options=options)
    table.append([{"id": i, "v": {"a": {"b": i}, "c": f"x{i}", "m": i if i % 2 else "t"}} for i in range(3000)])

    def parts(where: str) -> Any:
        explained = table.explain(where, columns=["id"])
        (pages,) = explained.files_to_arrow()["pages"].to_pylist()
        assert not pages["variant_parts"] or pages["variant_parts"] in explained.text
        return pages["variant_parts"], pages["rows"]

    own, used = "is a column of its own", "is a column of its own, whose statistics are used"
    values = "is in the values, which are read whole"
    assert parts("v:a.b::int = 7") == (f"v $.a.b {used}", 500)
    assert parts("v:c::string = 'x9' AND v:m::int > 3") == (f"v $.c {used}; v $.m {values}", 1000)
    assert parts("v:a::string IS NOT NULL AND v:z[0] IS NULL") == (f"v $.a {own}; v $.z[0] {values}", 3000)
    assert parts("v IS NOT NULL") == parts("id >= 0") == ("", 3000)
