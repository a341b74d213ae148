"""Aggregate functions where Java Paimon 1.4 and 2.1 differ: tables of the connector 2.1, by the rules of either."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError, SchemaError
from support.fixtures import newer_fixture
from support.oracle import Oracle, requires_java_oracle

_RULES = "aggregation-rules"
_OF_14, _OF_21 = "rows by Java 1.4.2 (oracle)", "rows by Java 2.1"


def _copied(name: str, tmp_path: Path) -> tuple[pp.Table, dict[str, Any]]:
    source, expected = newer_fixture(name)
    shutil.copytree(source, tmp_path / "t")
    return pp.Table.open(tmp_path / "t"), expected


def _rows(table: pp.Table, rules: str | None = None) -> list[dict[str, Any]]:
    options = None if rules is None else {_RULES: rules}
    return table.scan(options=options).to_arrow().sort_by("k").to_pylist()


@pytest.mark.parametrize("name", ["listagg-blank", "nested-update-first-and-limit"])
def test_a_read_follows_the_rules_that_it_names(name: str, tmp_path: Path) -> None:
    table, expected = _copied(name, tmp_path)
    assert _rows(table) == expected[_OF_14]
    assert _rows(table, "1.4") == expected[_OF_14]
    assert _rows(table, "2.1") == expected[_OF_21]


@pytest.mark.parametrize("how", ["call", "table"])
@pytest.mark.parametrize("name", ["listagg-blank", "nested-update-first-and-limit"])
def test_a_compaction_follows_the_rules_of_the_call_or_the_table(name: str, how: str, tmp_path: Path) -> None:
    table, expected = _copied(name, tmp_path)
    if how == "table":
        table.alter(set_options={_RULES: "2.1"})
        assert _rows(table) == expected[_OF_21]
    table.compact(full=True, options={_RULES: "2.1"} if how == "call" else None)
    assert _rows(table, "1.4") == expected[_OF_21]


def test_an_overflow_is_refused_unless_the_rules_of_14_are_asked_for(tmp_path: Path) -> None:
    table, expected = _copied("sum-overflow", tmp_path)
    for rules in (None, "2.1"):
        with pytest.raises(SchemaError, match=r"column v: a sum leaves the range of TINYINT: 127 \+ 1"):
            _rows(table, rules)
        with pytest.raises(SchemaError, match="leaves the range"):
            table.compact(full=True, options={} if rules is None else {_RULES: rules})
    assert table.count() == 1
    assert table.scan(columns=["k"]).to_arrow().to_pylist() == [{"k": 1}]
    assert _rows(table, "1.4") == expected[_OF_14] == [{"k": 1, "v": -128}]
    for filter_, found in (("v = -128", 1), ("v > 0", 0)):
        assert table.count(filter_, options={_RULES: "1.4"}) == found
        with pytest.raises(SchemaError, match="leaves the range"):
            table.count(filter_)
    table.compact(full=True, options={_RULES: "1.4"})
    assert _rows(table) == [{"k": 1, "v": -128}]


@pytest.mark.parametrize("type_", ["SMALLINT", "BIGINT", "DECIMAL(38, 0)"])
def test_a_wider_column_takes_what_overflowed(type_: str, tmp_path: Path) -> None:
    table, _ = _copied("sum-overflow", tmp_path)
    table.alter(change_types={"v": type_})
    assert _rows(table) == [{"k": 1, "v": 128}]


def test_by_the_rules_of_21_a_value_that_comes_late_is_what_merging_begins_with(tmp_path: Path) -> None:
    """Java gives a row behind a newer one of its sequence group as the accumulator, which it does not put in order."""
    one, other = [{"i": 1, "w": "a"}], [{"i": 1, "w": "b"}, {"i": 1, "w": "c"}]
    types = pa.struct([("i", pa.int32()), ("w", pa.string())])
    schema = pa.schema([("k", pa.int32()), ("s", pa.int32()), ("v", pa.string()), ("l", pa.list_(types))])
    options = {
        "bucket": "1", "write-only": "true", "merge-engine": "partial-update", "fields.s.sequence-group": "v,l",
        "fields.v.aggregate-function": "listagg", "fields.l.aggregate-function": "nested_update",
        "fields.l.nested-key": "i", _RULES: "2.1",
    }  # fmt: skip
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["k"], options=options)
    commits = [
        [(1, 9, "a", one), (2, 9, None, None), (3, 9, None, None), (4, 5, " ", other)],
        [(1, 5, " ", other), (2, 5, " ", other), (3, 9, " ", other), (4, 9, None, None)],
    ]
    for rows in commits:
        table.append([dict(zip(schema.names, row, strict=True)) for row in rows])
    found = {row["k"]: (row["v"], row["l"]) for row in _rows(table)}
    assert found == {1: ("a", one), 2: (" ", other), 3: (None, other[1:]), 4: (None, other[1:])}


def test_other_rules_are_refused(tmp_path: Path) -> None:
    table, _ = _copied("sum-overflow", tmp_path)
    with pytest.raises(OptionError, match=r"one of 1\.4, 2\.1"):
        _rows(table, "1.3")


@requires_java_oracle
@pytest.mark.java
def test_java_reads_and_writes_tables_that_hold_the_option(oracle: Oracle, warehouse: Path) -> None:
    """Java passes over options that it does not know."""
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum", _RULES: "1.4"}
    path = warehouse / "db.db" / "t"
    table = pp.Table.create(path, "k INT NOT NULL, v TINYINT", primary_key=["k"], options=options)
    table.append([{"k": 1, "v": 127}])
    with oracle.batch() as batch:
        batch.write(warehouse, "db.t", [{"k": 1, "v": 1}])
        read = batch.read(warehouse, "db.t")
        batch.compact(warehouse, "db.t")
    assert read.values == [{"k": 1, "v": -128}]
    assert _rows(table) == read.values
    assert table.options[_RULES] == "1.4"
