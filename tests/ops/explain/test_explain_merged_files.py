"""Explanations of tables with a primary key: sections, sorted runs, levels, what is merged and what is read raw."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.ops.explain.explain import Explanation
from paimon_pyds.ops.explain.scan import interesting
from support.effort import sampled
from support.fixtures import DEV, fixture_names, table_path

pytestmark = pytest.mark.skipif(DEV is None, reason="needs tables written by Java Paimon")


def _table(name: str) -> pp.Table:
    return pp.Table.open(table_path(name))


def _details(e: Explanation) -> dict[str, str]:
    return {step.name: step.detail for step in e.steps}


def _lines(e: Explanation) -> Counter[str]:
    """The lines about single files, in the middle of which are blanks for columns."""
    return Counter(" ".join(line.split()) for line in e.text.splitlines() if line.startswith("    "))


def test_sections_whose_rows_are_merged() -> None:
    e = _table("pk_dedup_mor").explain("id BETWEEN 10 AND 20 AND v > 3")
    assert _details(e)["sections"] == "3 sections merged (12 files, 12 sorted runs)"
    lines = _lines(e)
    assert lines["level 0, section 2 merged: 4 files in 4 sorted runs may have versions of one row"] == 4
    assert lines["filter before merging id >= 10 AND id <= 20 on keys: all versions of a row agree"] == 12
    assert lines["filter after merging v > 3 all versions are merged: too many rows may make the filter true"] == 12
    assert [f.run.section for f in interesting(e.files) if f.run] == [1] * 4 + [2] * 4 + [3] * 4
    run = e.files_to_arrow()["run"].to_pylist()[0]
    assert run == {
        "level": 0, "section": 1, "files": 4, "runs": 4, "merged": True, "before": "id >= 10 AND id <= 20",
        "after": "v > 3", "search": "all versions are merged: too many rows may make the filter true",
    }  # fmt: skip
    assert "all versions are merged: too many rows" in e.html
    assert json.loads(json.dumps(e.as_dict()))["files"][0]["run"] == run


def test_sections_that_are_read_raw() -> None:
    e = _table("pk_dv32").explain("v > 3")
    assert _details(e)["sections"] == "2 sections read raw (2 files, 2 sorted runs)"
    assert _lines(e)["level 5, section 1 read raw: no other file has its keys"] == 1
    assert not any(line.startswith("filter") for line in _lines(e))
    assert [(f.run.before, f.run.after) for f in e.files if f.run] == [("v > 3", ""), ("v > 3", "")]


def test_levels_above_0_are_one_sorted_run_each() -> None:
    e = _table("pk_dedup_levels").explain()
    assert sorted((f.run.level, f.run.runs) for f in e.files if f.run) == [(2, 2), (3, 2)]


def _level_0(table: pp.Table) -> tuple[int, pp.Table]:
    """A snapshot that holds files that batch reads don't see, and how many these are."""
    for snapshot in reversed(table.snapshots.list()):
        files = table.scan(snapshot=snapshot.id).plan().steps[0].files
        seen = len(table.scan(snapshot=snapshot.id).plan().files)
        if seen < files:
            return snapshot.id, table
    raise AssertionError("no snapshot has files of level 0")


@pytest.mark.parametrize("name", ["pk_dv32", "pk_first_row"])
def test_files_that_are_not_compacted_yet(name: str) -> None:
    snapshot, table = _level_0(_table(name))
    e = table.explain(snapshot=snapshot)
    step = next(step for step in e.steps if step.name == "not compacted")
    hidden = [skip for skip in e.skips if skip.step == "not compacted"]
    assert len(hidden) == e.steps[0].files - step.files > 0
    assert sum(skip.row_count for skip in hidden) == e.steps[0].rows - step.rows
    assert {skip.reason for skip in hidden} == {"hidden from batch reads until it is compacted"}
    assert f"hidden from batch reads until it is compacted (−{len(hidden)})" in step.detail
    assert f"{len(hidden)} not compacted" in e.html


def test_statistics_that_merging_keeps_from_leaving_out_files() -> None:
    table = _table("pk_dedup_mor")
    values = [f"v = {v}" for v in table.distinct("v").column(0).to_pylist() if v is not None]
    details = [_details(table.explain(value)).get("statistics", "") for value in values[:10]]
    assert any("more could go, but are merged with others" in detail for detail in details)


def _read(file: dict[str, Any]) -> tuple[int, int]:
    return file["actual"]["rows"], file["actual"]["rows_decoded"]


@pytest.mark.parametrize("name", sampled([n for n in fixture_names() if n.startswith("pk_")], 4))
def test_what_was_read_is_told(name: str) -> None:
    table = _table(name)
    e = table.explain(analyze=True)
    assert e.steps[-1].rows == table.scan().to_arrow().num_rows
    files = e.files_to_arrow().to_pylist()
    read = [file for file in files if file["actual"] is not None]
    raw = sum(_read(file)[0] for file in read if not file["run"]["merged"])
    versions = sum(_read(file)[0] for file in read if file["run"]["merged"])
    assert raw <= e.steps[-1].rows <= raw + versions
    assert ("versions of rows merged" in e.steps[-1].detail) == (versions > 0)
    assert e.text and e.page


def test_first_rows_are_found_among_merged_ones() -> None:
    e = _table("pk_partitioned").explain(top_n="id desc, 3", analyze=True)
    assert e.steps[-1].rows == 3
    turns = [f.top_n.number for f in e.files if f.top_n]
    assert turns == list(range(1, len(e.files) + 1))
    asked = [line for line in _lines(e) if line.startswith("top n visited as number 1:")]
    assert asked and asked[0].endswith("rows are merged before they are compared")
