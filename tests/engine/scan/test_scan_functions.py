"""Functions in the filters and conditions of every operation: the right rows, and the rest of a filter still prunes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import PredicateError
from support.copies import copied

SCHEMA = pa.schema([
    ("id", pa.int64()), ("day", pa.string()), ("tags", pa.list_(pa.string())),
    ("attrs", pa.map_(pa.string(), pa.int32())), ("ts", pa.timestamp("us", "UTC")), ("doc", pa.string()),
    ("day_text", pa.string()),
])  # fmt: skip
FILTERS = [
    "array_contains(tags, 'red')",
    "exists(tags, t -> t LIKE 'b%')",
    "size(tags) > 1",
    "NOT array_contains(tags, 'red') OR tags IS NULL",
    "element_at(attrs, 'x') = 1",
    "map_contains_key(attrs, 'y')",
    "exists(map_keys(attrs), k -> k = 'x') AND size(attrs) = 1",
    "date_format(ts, 'yyyy-MM') = '2024-02'",
    "to_date(date_format(ts, 'dd/MM/yyyy'), 'dd/MM/yyyy') >= DATE '2024-02-01'",
    "to_date(day_text, 'dd/MM/yyyy') >= DATE '2024-02-01'",
    "to_date(ts, 'dd/MM/yyyy') >= DATE '2024-02-01'",
    "dateadd(DAY, 40, ts) < TIMESTAMP '2024-03-01 00:00:00'",
    "date_add(MONTH, 1, ts) < TIMESTAMP '2024-03-01 00:00:00'",
    "datediff(DAY, ts, TIMESTAMP '2024-03-01 00:00:00') > 30",
    "date_part('second', ts) = 0 AND extract(DOW_ISO FROM ts) = 1",
    "unix_timestamp(ts) > 1706745600",
    "split(doc, ',')[0] = 'a'",
    "regexp_like(doc, '^a.[0-9]$')",
    "get_json_object(doc, '$.k') = '3'",
    "pmod(hash(id), 2) = 0",
    "struct(id % 2, day) IN (struct(1L, 'mon'), struct(0L, 'tue'))",
    "typeof(tags) = 'array<string>' AND id = 3",
]


def rows(start: int) -> list[dict[str, Any]]:
    tags = [["red"], ["blue", "red"], [], None, ["black", None], [None]]
    docs = ["a,1", "b,2", '{"k":3}', None, "a-5", ""]
    return [
        {
            "id": n, "day": "mon" if start < 100 else "tue", "tags": tags[n % 6],
            "attrs": [{"x": 1}, {"y": 2}, {}, None, {"x": None, "y": 1}, {"x": 2}][n % 6],
            "ts": dt.datetime(2024, 1 + n % 3, 1 + n % 28, n % 24, tzinfo=dt.UTC), "doc": docs[n % 6],
            "day_text": f"{1 + n % 28:02}/{1 + n % 3:02}/2024",
        }
        for n in range(start, start + 24)
    ]  # fmt: skip


ROWS = [*rows(0), *rows(100)]
ARROW = pa.Table.from_pylist(
    [{**row, "attrs": None if row["attrs"] is None else list(row["attrs"].items())} for row in ROWS], SCHEMA
)


@copied("t")
def table(path: Path) -> pp.Table:
    found = pp.Table.create(path, SCHEMA, partition_by=["day"], options={"file-index.bitmap.columns": "id"})
    for start in (0, 24):
        found.append(ARROW.slice(start, 24))
    return found


def rows_alone(condition: str) -> list[int]:
    """The rows for which the condition is true, each of them evaluated alone."""
    from paimon_pyds.base.types import from_arrow_schema
    from paimon_pyds.sql.expression.bind import Scope
    from paimon_pyds.sql.expression.bound import bind_condition

    bound = bind_condition(condition, [Scope((), from_arrow_schema(SCHEMA))], timezone="UTC")
    found = []
    for n, row in enumerate(ROWS):
        batch = ARROW.slice(n, 1).combine_chunks().to_batches()[0]
        if bound.matches(batch)[0].as_py():
            found.append(row["id"])
    return found


@pytest.mark.parametrize("condition", FILTERS)
def test_scans_and_counts(table: pp.Table, condition: str) -> None:
    expected = rows_alone(condition)
    assert 0 < len(expected) < len(ROWS)
    assert sorted(table.scan(condition, columns=["id"]).to_arrow()["id"].to_pylist()) == expected
    assert table.count(condition) == len(expected)


@pytest.mark.parametrize("condition", FILTERS)
def test_the_rest_of_a_filter_prunes(table: pp.Table, condition: str) -> None:
    """A partition, statistics and an index leave files out beside a function."""
    expected = [n for n in rows_alone(condition) if n >= 100]
    for rest in ("day = 'tue'", "id >= 100"):
        scan = table.scan(f"({condition}) AND {rest}")
        assert len([file for split in scan.plan().splits for file in split.files]) <= 1
        assert sorted(scan.to_arrow()["id"].to_pylist()) == expected
    assert table.scan(f"({condition}) AND id = 50").to_arrow().num_rows == 0


def test_the_explanation_says_which_part_is_evaluated_on_rows(table: pp.Table) -> None:
    text = str(table.scan("array_contains(tags, 'red') AND day = 'tue'").explain())
    assert "array_contains(tags, 'red')" in text


def test_update_delete_and_merge(table: pp.Table) -> None:
    red = rows_alone("array_contains(tags, 'red')")
    table.update({"doc": "array_join(transform(tags, t -> upper(t)), '+')"}, "array_contains(tags, 'red')")
    found = {row["id"]: row["doc"] for row in table.scan().to_arrow().to_pylist()}
    assert {id_ for id_, doc in found.items() if doc in ("RED", "BLUE+RED")} == set(red)
    table.update({"tags": "array_append(coalesce(tags, array()), 'new')"}, "id = 3")
    assert table.scan("id = 3").to_arrow()["tags"].to_pylist() == [["new"]]
    table.delete("exists(tags, t -> t = 'red')")
    assert table.count() == len(ROWS) - len(red)
    source = [{"id": 2, "words": "x y"}, {"id": 1000, "words": "z"}]
    table.merge(
        source,
        on="id",
        when_matched="AND size(split(source.words, ' ')) > 1 THEN UPDATE SET tags = split(source.words, ' ')",
        when_not_matched="INSERT (id, day, tags) VALUES (source.id, 'wed', split(source.words, ' '))",
    )
    assert table.scan("array_contains(tags, 'y') OR id = 1000").to_arrow()["tags"].to_pylist() == [["x", "y"], ["z"]]


def test_the_command_line(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", table.path, "--filter", "exists(tags, t -> t = 'red')"]) == 0
    assert int(capsys.readouterr().out.replace(",", "")) == len(rows_alone("array_contains(tags, 'red')"))
    assert main(["count", table.path, "--filter", "array_contain(tags, 'red')"]) != 0
    shown = capsys.readouterr().err
    assert "did you mean array_contains" in shown
    assert "docs/functions.md" in shown
    assert "^" in shown
    assert main(["delete", table.path, "--where", "element_at(attrs, 'x') = 1"]) == 0
    assert table.count("element_at(attrs, 'x') = 1") == 0


def test_errors_of_rows_name_the_condition(table: pp.Table) -> None:
    with pytest.raises(PredicateError, match=r"element_at\(tags, 9\).*has no element 9"):
        table.scan("element_at(tags, 9) = 'a'").to_arrow()
