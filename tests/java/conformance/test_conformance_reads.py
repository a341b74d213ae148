"""Every table that Java wrote gives Java's rows: whole, projected, in time, on branches, for every filter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_schema
from support.effort import FEW, sampled
from support.fixtures import fixture_dir, fixture_names, json_lines, meta, table_fields, table_path
from support.oracle_sql import compares_float_zero, matches, to_sql
from support.values import dumps, expected_lines, in_order, lines

pytestmark = pytest.mark.smoke

UNORDERED = frozenset({"a_colld"})
"""Columns of arrays that are sets, which Java gives in an order of its own."""

NAMES = fixture_names()


def _ordered(rows: Iterable[str]) -> list[str]:
    """Rows as JSON texts, with arrays that are sets in one order."""
    return in_order(
        dumps({k: sorted(v) if k in UNORDERED and v is not None else v for k, v in json.loads(row).items()})
        for row in rows
    )


def _reads() -> Iterator[Any]:
    """Reads of the table itself; system tables are not this file's matter."""
    for name in NAMES:
        for read in meta(name)["reads"]:
            if "$" not in read.get("table", ""):
                yield pytest.param(name, read, id=f"{name}-{read['name']}")


def _snapshot_of_full(name: str) -> int | None:
    description = meta(name)
    return None if description.get("full_is_latest", True) else description["full_snapshot"]


def _table(name: str, branch: str | None = None) -> Any:
    return pp.Table.open(str(table_path(name)), branch=branch)


@pytest.mark.parametrize(("name", "read"), sampled(_reads(), 40 if FEW else 60))
def test_reads_as_java(name: str, read: dict[str, Any]) -> None:
    table = _table(name, read.get("branch"))
    snapshot = read.get("snapshot")
    if read["name"] in ("full", "before_l0", "proj"):
        snapshot = _snapshot_of_full(name)
    scan = table.scan(
        columns=read.get("projection"), snapshot=snapshot, tag=read.get("tag"), options=read.get("options")
    )
    rows = scan.to_arrow()
    expected = expected_lines(fixture_dir(name) / read["expected"])
    assert _ordered(lines(rows)) == _ordered(expected)
    assert scan.count() == len(expected)


@pytest.mark.parametrize("name", sampled(NAMES, 18))
def test_columns_have_the_declared_types(name: str) -> None:
    rows = _table(name).scan().to_arrow()
    assert rows.schema.equals(arrow_schema(table_fields(table_path(name))))


def _filters(name: str) -> list[dict[str, Any]]:
    file = meta(name).get("filters")
    return list(json_lines(fixture_dir(name) / file)) if file else []


WITH_FILTERS = [name for name in NAMES if _filters(name)]


def _right_rows(case: dict[str, Any], name: str, fields: tuple[DataField, ...]) -> list[str]:
    """Java's rows; where a float is compared with a zero, those of plain evaluation over Java's unfiltered rows."""
    columns = case["projection"]
    if not compares_float_zero(case["filter"], fields):
        return in_order(dumps(dict(zip(columns, row, strict=True))) for row in case["rows"])
    full = next(r["expected"] for r in meta(name)["reads"] if r["name"] == "full")
    kept = [row for row in json_lines(fixture_dir(name) / full) if matches(case["filter"], row, fields)]
    return in_order(dumps({c: row[c] for c in columns}) for row in kept)


@pytest.mark.parametrize("name", sampled(WITH_FILTERS, 27))
def test_filters_as_java(name: str) -> None:
    table = _table(name)
    fields = table_fields(table_path(name))
    snapshot = _snapshot_of_full(name)
    wrong = []
    for case in sampled(_filters(name), 3 if FEW else 4):
        text = to_sql(case["filter"], fields)
        rows = table.scan(filter=text, columns=case["projection"], snapshot=snapshot).to_arrow()
        expected = _ordered(_right_rows(case, name, fields))
        ours = _ordered(lines(rows))
        if ours != expected:
            lost, added = sorted(set(expected) - set(ours))[:5], sorted(set(ours) - set(expected))[:5]
            wrong.append(f"{case['name']}: {text}\n    lost {lost}, added {added}")
    assert not wrong, f"{len(wrong)} filters differ:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize("name", sampled(WITH_FILTERS, 15))
def test_the_plain_evaluator_agrees_with_java(name: str) -> None:
    """The judge of the cases with float zeros is itself judged by all other cases."""
    fields = table_fields(table_path(name))
    full = next(r["expected"] for r in meta(name)["reads"] if r["name"] == "full")
    rows = list(json_lines(fixture_dir(name) / full))
    wrong = []
    for case in sampled(_filters(name), 8):
        if compares_float_zero(case["filter"], fields):
            continue
        kept = [row for row in rows if matches(case["filter"], row, fields)]
        mine = in_order(dumps([row[c] for c in case["projection"]]) for row in kept)
        if mine != in_order(map(dumps, case["rows"])):
            wrong.append(case["name"])
    assert not wrong


@pytest.mark.parametrize("name", sampled(NAMES, 24))
def test_plans_the_files_that_java_plans(name: str) -> None:
    """Same files, with sizes and row counts; under a filter, no file more than Java keeps."""
    table = _table(name)
    description = meta(name)
    fields = table_fields(table_path(name))
    for other in description["others"]:
        if other["cmd"] != "files" or "--mode" in other["args"]:
            continue
        latest = description.get("files_is_latest", True) or other["expected"].endswith("_after_compact.jsonl")
        snapshot = None if latest else description["files_snapshot"]
        expected = list(json_lines(fixture_dir(name) / other["expected"]))
        if not other["args"]:
            tasks = [part for file in table.scan(snapshot=snapshot).plan().files for part in file.parts or (file,)]
            ours = sorted((Path(t.path).name, t.size, t.row_count, t.bucket, t.schema_id) for t in tasks)
            keys = ("fileName", "fileSize", "rowCount", "bucket", "schemaId")
            assert ours == sorted(tuple(f[k] for k in keys) for f in expected)
        elif "--filter" in other["args"]:
            predicate = json.loads(other["args"][other["args"].index("--filter") + 1])
            if compares_float_zero(predicate, fields):
                continue
            plan = table.scan(filter=to_sql(predicate, fields), snapshot=snapshot).plan()
            more = {Path(p).name for p in plan.paths} - {f["fileName"] for f in expected}
            assert not more, f"files kept that Java skips for {to_sql(predicate, fields)}"
