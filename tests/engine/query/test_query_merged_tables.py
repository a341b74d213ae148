"""Answers about tables with a primary key that Java wrote equal those from the rows that a scan gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds import Table
from paimon_pyds.base.types import AtomicType, DataField, Kind
from paimon_pyds.base.types.kinds import INTEGER_KINDS
from paimon_pyds.engine.query import top_n_run
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.index.keys import order_codec
from support.effort import sampled
from support.fixtures import DEV, fixture_dir, json_lines, keyed_fixtures, meta, table_path
from support.oracle_sql import to_sql
from support.values import in_order, lines

pytestmark = [
    pytest.mark.skipif(DEV is None, reason="needs tables written by Java Paimon"),
    pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning"),
]

FILTERS = 3
"""Filters of a fixture that are asked about, spread over all it has."""
COLUMNS = 3


def _filters(name: str, table: Table) -> list[str | None]:
    file = meta(name).get("filters")
    cases = list(json_lines(fixture_dir(name) / file)) if file else []
    return [None, *(to_sql(case["filter"], table.schema.fields) for case in cases[:: max(1, len(cases) // FILTERS)])]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _columns(table: Table) -> list[DataField]:
    """A key column and some others."""
    fields = [f for f in table.schema.fields if isinstance(f.type, AtomicType)]
    keys = [f for f in fields if f.name in table.primary_key]
    return [*keys[-1:], *(f for f in fields if f.name not in table.primary_key)][:COLUMNS]


def _keys(values: Any, field: DataField) -> list[Any]:
    whole = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    return [key for chunk in whole.chunks for key in order_codec(field.type).keys(chunk)]


@pytest.mark.parametrize("name", sampled(keyed_fixtures(), 1))
def test_answers_are_those_of_the_rows(name: str) -> None:
    table = Table.open(table_path(name))
    for filter_ in _filters(name, table):
        rows = table.scan(filter_, options={"file-index.read.enabled": "false"}).to_arrow()
        assert table.count(filter_) == rows.num_rows
        assert table.exists(filter_) == (rows.num_rows > 0)
        assert table.count(filter_, limit=2) == table.scan(filter_, limit=2).to_arrow().num_rows == min(2, len(rows))
        for field in _columns(table):
            _check_column(table, filter_, field, rows)


def _check_column(table: Table, filter_: str | None, field: DataField, rows: pa.Table) -> None:
    column = rows.column(field.name)
    keys = _keys(column, field)
    there = [key for key in keys if key is not None]
    distinct = table.distinct(field.name, filter_)
    counts = zip(_keys(distinct.column(0), field), distinct.column(1).to_pylist(), strict=True)
    assert dict(counts) == Counter(keys)
    answer = table.scan(filter_).answer
    for value, expected in ((answer.min(field.name), min), (answer.max(field.name), max)):
        assert _keys(pa.array([value.value], column.type), field) == [expected(there) if there else None]
    if field.type.kind in INTEGER_KINDS:
        assert table.sum(field.name, filter_) == (sum(there) if there else None)
    assert in_order(lines(table.scan(filter_, [field.name]).to_arrow())) == in_order(lines(rows.select([field.name])))
    _check_order(table, filter_, field, rows)


def _check_order(table: Table, filter_: str | None, field: DataField, rows: pa.Table) -> None:
    all_rows = Counter(lines(rows))
    keys = _keys(rows.column(field.name), field)
    there = sorted(key for key in keys if key is not None)
    nulls: list[Any] = [None] * (len(keys) - len(there))
    for order, expected in (("asc", nulls + there), ("desc", there[::-1] + nulls)):
        found = table.top_n(f"{_quoted(field.name)} {order}, 3", filter_)
        assert found.schema.equals(rows.schema)
        assert _keys(found.column(field.name), field) == expected[:3]
        assert Counter(lines(found)) <= all_rows


def test_first_rows_by_several_columns_and_without_them() -> None:
    table = Table.open(table_path("pk_dedup_mor"))
    names = [f.name for f in table.schema.fields if f.type.kind in (Kind.INT, Kind.BIGINT) and f.type.nullable][:2]
    wanted = [f.name for f in table.schema.fields if f.name not in (*names, *table.primary_key)][:1]
    order = f"{_quoted(names[0])} desc nulls first, {_quoted(names[1])} asc nulls last, {_quoted('id')}, 7"
    found = table.top_n(order, columns=wanted)
    rows = table.scan().to_arrow().to_pylist()
    rows.sort(key=lambda row: (*_rank(row[names[0]], True), *_rank(row[names[1]], False), row["id"]))
    assert found.column_names == wanted
    assert found.column(0).to_pylist() == [row[wanted[0]] for row in rows[:7]]


def _rank(value: int | None, descending: bool) -> tuple[bool, int]:
    """Sorts NULL first and the greatest value next, or the least value first and NULL last."""
    return ((value is not None) == descending, 0 if value is None else -value if descending else value)


def test_rows_that_are_no_longer_among_the_first_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that come in the wrong order all seem to be among the first when they are read."""
    table = Table.open(table_path("pk_dedup_mor"))
    held = []
    hold = top_n_run._MergedRows._hold
    monkeypatch.setattr(top_n_run, "BATCH_ROWS", 8)
    monkeypatch.setattr(
        top_n_run._MergedRows, "_hold", lambda self, *rows: (hold(self, *rows), held.append(self._held))
    )
    found = table.top_n("id desc, 3")
    ids = sorted(table.scan(columns=["id"]).to_arrow().column(0).to_pylist(), reverse=True)
    assert found.column("id").to_pylist() == ids[:3]
    assert len(ids) > 40
    assert max(held) <= 24


def test_metadata_columns_that_merged_rows_do_not_have() -> None:
    table = Table.open(table_path("pk_dedup_mor"))
    with pytest.raises(UnsupportedError, match="__paimon_row_index"):
        table.scan(columns=["id", "__paimon_row_index"]).to_arrow()
    with pytest.raises(UnsupportedError, match="__paimon_file_path"):
        table.top_n("id, 3", columns=["id", "__paimon_file_path"])
    found = table.top_n("id, 3", columns=["__paimon_bucket"])
    assert found.column_names == ["__paimon_bucket"]
    everywhere = table.scan(columns=["id", "__paimon_bucket"]).to_arrow().sort_by("id").column(1).to_pylist()
    assert found.column(0).to_pylist() == everywhere[:3]


def test_a_partition_whose_rows_are_deleted_has_no_values(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.int32(), False), ("v", pa.int32())])
    table = Table.create(tmp_path / "t", schema, primary_key=["p", "k"], partition_by=["p"], options={"bucket": "1"})
    table.append(pa.table([[1, 2], [1, 1], [5, 6]], schema=schema))
    gone = pa.table({"p": pa.array([1], pa.int32()), "k": pa.array([1], pa.int32()), "op": ["-D"]})
    table.append(gone, options={"rowkind-column": "op"})
    assert (table.min("p"), table.max("p"), table.min("v")) == (2, 2, 6)
    assert table.top_n("p, 1").to_pylist() == [{"p": 2, "k": 1, "v": 6}]
    assert table.distinct("p").to_pylist() == [{"p": 2, "count": 1}]
