"""Answers about tables that Java wrote, by Java's indexes, equal those from the rows themselves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds import Table
from paimon_pyds.base.types import AtomicType, DataField
from paimon_pyds.engine.query.answer import Answer
from paimon_pyds.errors import PaimonError, UnsupportedError
from paimon_pyds.index.keys import order_codec
from support.effort import sampled
from support.fixtures import DEV, table_path

pytestmark = [
    pytest.mark.skipif(DEV is None, reason="needs tables written by Java Paimon"),
    pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning"),
]

INDEXED = ("file-index.bitmap.columns", "file-index.bsi.columns", "file-index.range-bitmap.columns")
COLUMNS = 4
"""Columns of a table that are asked about: those with an index first."""


def _fixtures() -> list[str]:
    if DEV is None:
        return []
    schemas = sorted(DEV.glob("*/table/db.db/t/schema/schema-0"))
    wanted = ("file-index.", "deletion-vectors")
    return [p.parents[4].name for p in schemas if any(w in p.read_text(encoding="utf-8") for w in wanted)]


def _open(name: str) -> Table:
    table = Table.open(table_path(name))
    try:
        table.scan()
    except UnsupportedError as error:
        pytest.skip(str(error))
    return table


def _columns(table: Table) -> list[DataField]:
    named = ",".join(table.options.get(key, "") for key in INDEXED).split(",")
    fields = [f for f in table.schema.fields if isinstance(f.type, AtomicType)]
    return sorted(fields, key=lambda f: f.name not in named)[:COLUMNS]


def _keys(values: pa.ChunkedArray | pa.Array, field: DataField) -> list[Any]:
    return [key for chunk in pa.chunked_array([values] if isinstance(values, pa.Array) else values).chunks
            for key in order_codec(field.type).keys(chunk)]  # fmt: skip


def _filters(table: Table, fields: list[DataField]) -> list[str | None]:
    """No filter, and one that an index on the first column may answer."""
    filters: list[str | None] = [None]
    for field in fields[:1]:
        name = "`" + field.name.replace("`", "``") + "`"
        filters.append(f"{name} IS NOT NULL")
    return filters


@pytest.mark.parametrize("name", sampled(_fixtures(), 2))
def test_answers_by_indexes_of_java(name: str) -> None:
    table = _open(name)
    fields = _columns(table)
    for filter_ in _filters(table, fields):
        rows = table.scan(filter_, options={"file-index.read.enabled": "false"}).to_arrow()
        assert table.count(filter_) == rows.num_rows
        assert table.exists(filter_) == (rows.num_rows > 0)
        for field in fields:
            _check_column(table, filter_, field, rows)


def _check_column(table: Table, filter_: str | None, field: DataField, rows: pa.Table) -> None:
    keys = _keys(rows.column(field.name), field)
    there = [k for k in keys if k is not None]
    counted = {k: keys.count(k) for k in set(keys)}
    distinct = table.distinct(field.name, filter_)
    found = zip(_keys(distinct.column(0), field), distinct.column(1).to_pylist(), strict=True)
    assert dict(found) == counted
    assert distinct.num_rows == len(counted)
    for question, choose in (("min", min), ("max", max)):
        answer: Answer[Any] = getattr(table.scan(filter_).answer, question)(field.name)
        value = pa.array([answer.value], rows.column(field.name).type)
        assert _keys(value, field) == [choose(there) if there else None]
    _check_sum(table, filter_, field)
    for direction in ("asc", "desc"):
        quoted = "`" + field.name.replace("`", "``") + "`"
        best = table.top_n(f"{quoted} {direction}, 3", filter_)
        expected = sorted(there, reverse=direction == "desc")
        nulls = [None] * (len(keys) - len(there))
        expected = nulls + expected if direction == "asc" else expected + nulls
        assert _keys(best.column(field.name), field) == expected[:3]


def _check_sum(table: Table, filter_: str | None, field: DataField) -> None:
    outcomes = []
    for options in ({}, {"file-index.read.enabled": "false"}):
        try:
            outcomes.append(repr(table.sum(field.name, filter_, options=options)))
        except PaimonError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1] or float(outcomes[0]) == pytest.approx(float(outcomes[1]))


def test_indexes_of_java_are_what_answers() -> None:
    """Without a filter, and without deletions, no data is read where Java built an index that tells values."""
    asked = 0
    for name in _fixtures():
        table = Table.open(table_path(name))
        try:
            scan = table.scan()
        except UnsupportedError:
            continue
        options = table.options
        for kind in ("bsi", "range-bitmap", "bitmap"):
            for column in options.get(f"file-index.{kind}.columns", "").split(","):
                if column and "[" not in column and len(table._store.schemas()) == 1:
                    asked += scan.answer.max(column.strip()).files_by_index
    assert asked > 10 or not asked
