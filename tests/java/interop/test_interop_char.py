"""CHAR values that end in blanks: ORC files hold none, whoever wrote them; Parquet and Avro keep them.

Java's indexes and buckets are of the values as they were written, not as they are read from ORC. Its predicates know
nothing of blanks; those of Spark, and ours, compare values as if filled with them.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import UnsupportedError
from support.effort import sampled
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

pytestmark = [pytest.mark.java, requires_java_oracle]

FIELDS = [
    DataField(0, "id", parse_type("INT NOT NULL")),
    DataField(1, "c", parse_type("CHAR(4)")),
    DataField(2, "v", parse_type("VARCHAR(4)")),
    DataField(3, "l", parse_type({"type": "ARRAY", "element": "CHAR(4)"})),
    DataField(4, "m", parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": "CHAR(4)"})),
]
VALUES = ["ab", "ab ", "ab  ", " a", "    ", "abcd", "", None, "a\tb", "a\t", "ac  "]
SHORT = [None if v is None else v.rstrip(" ") for v in VALUES]
LITERALS = ["ab", "ab ", "", "a\t", "ac"]
OPERATORS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
INDEXES = {
    "file-index.bloom-filter.columns": "c,m[k]",
    "file-index.bitmap.columns": "c,v,m[k]",
    "file-index.range-bitmap.columns": "c",
}
STORED = [
    {},
    INDEXES | {"file-index.in-manifest-threshold": "1 mb"},
    INDEXES | {"file-index.in-manifest-threshold": "1 b"},
]


def _rows(values: list[str | None]) -> pa.Table:
    columns: list[Any] = [range(len(values)), values, VALUES, [[v] for v in values], [[("k", v)] for v in values]]
    schema = arrow_schema(FIELDS)
    return pa.Table.from_arrays([pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema=schema)


def _where(table: pp.Table, filter_: str) -> list[int]:
    return sorted(table.scan(filter_, columns=["id"]).to_arrow().column("id").to_pylist())


def _kept(column: str, operator: str, literal: str, fill: int = 0) -> list[int]:
    """The rows that a comparison keeps, with blanks behind both sides up to a length; Java's predicates add none."""
    literal = literal.ljust(fill)
    tests = {
        "=": lambda v: v == literal, "<>": lambda v: v != literal, "<": lambda v: v < literal,
        "<=": lambda v: v <= literal, ">": lambda v: v > literal, ">=": lambda v: v >= literal,
    }  # fmt: skip
    values = VALUES if column == "v" else SHORT
    return [i for i, v in enumerate(values) if v is not None and tests[operator](v.ljust(fill))]


def _check_answers(table: pp.Table) -> None:
    for column, operator, literal in sampled(product(("c", "v", "m['k']"), OPERATORS.values(), LITERALS), 5):
        expected = _kept(column, operator, literal, 0 if column == "v" else 4)
        filter_ = f"{column} {operator} '{literal}'"
        assert _where(table, filter_) == expected, filter_
        assert table.count(filter_) == len(expected), filter_
    assert (table.min("c"), table.max("c")) == ("", "ac")
    assert sorted(filter(None, table.scan().answer.distinct("c").value.column(0).to_pylist())) == sorted(
        {v for v in SHORT if v}
    )
    first = table.scan(columns=["c"], top_n="c nulls last, 2").to_arrow()
    assert first.column("c").to_pylist() == ["", ""]
    assert table.update({"v": "'new'"}, where="c = 'a\\t'").rows_updated == 1
    assert table.delete("c = 'ab' OR m['k'] = 'ac'").rows_deleted == 4
    left = table.scan(columns=["id"]).to_arrow().column("id").to_pylist()
    assert sorted(left) == sorted(set(range(len(VALUES))) - {*_kept("c", "=", "ab"), *_kept("c", "=", "ac")})


@pytest.mark.parametrize("options", STORED, ids=["plain", "embedded", "side"])
def test_what_is_written_here(options: dict[str, str], tmp_path: Path, oracle: Oracle) -> None:
    """Both sides read the same, and Java finds the same rows by statistics and indexes as by reading all."""
    path = tmp_path / "db.db" / "t"
    table = pp.Table.create(path, FIELDS, options=options | {"file.format": "orc"})
    for i in range(len(VALUES)):
        table.append(_rows(VALUES).slice(i, 1))
    table.compact(full=True)
    cells = sampled(product(OPERATORS, LITERALS), 12, str(options))
    filters: list[dict[str, Any]] = [{"op": op, "field": "c", "literals": [literal]} for op, literal in cells]
    with oracle.batch() as batch:
        whole = batch.read(tmp_path, "db.t")
        found = [batch.read(tmp_path, "db.t", filter=filter_) for filter_ in filters]
    assert lines(table.scan().to_arrow()) == whole.lines == lines(_rows(SHORT))
    for filter_, reply in zip(filters, found, strict=True):
        operator, literal = OPERATORS[filter_["op"]], filter_["literals"][0]
        assert sorted(row["id"] for row in reply.values) == _kept("c", operator, literal), filter_
    _check_answers(table)


@pytest.mark.parametrize(
    "options", [*STORED, {"bucket": "3", "bucket-key": "c"}], ids=["plain", "embedded", "side", "buckets"]
)
def test_what_java_wrote(options: dict[str, str], tmp_path: Path, oracle: Oracle) -> None:
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", FIELDS, options=options | {"file.format": "orc"})
        batch.write(tmp_path, "db.t", _rows(VALUES).slice(0, 6))
        batch.write(tmp_path, "db.t", _rows(VALUES).slice(6))
        whole = batch.read(tmp_path, "db.t")
    table = pp.Table.open(tmp_path / "db.db" / "t")
    assert lines(table.scan().to_arrow()) == whole.lines == lines(_rows(SHORT))
    _check_answers(table)


@pytest.mark.parametrize("format_", ["parquet", "avro"])
def test_blanks_are_kept(format_: str, tmp_path: Path, oracle: Oracle) -> None:
    table = pp.Table.create(tmp_path / "db.db" / "t", FIELDS, options={"file.format": format_} | INDEXES)
    table.append(_rows(VALUES))
    with oracle.batch() as batch:
        whole = batch.read(tmp_path, "db.t")
        found = batch.read(tmp_path, "db.t", filter={"op": "eq", "field": "c", "literals": ["ab "]})
    assert lines(table.scan().to_arrow()) == whole.lines == lines(_rows(VALUES))
    assert [row["id"] for row in found.values] == [1]
    assert _where(table, "c = 'ab '") == [0, 1, 2]


@pytest.mark.parametrize("formats", ["0:orc", "5:orc", "0:avro,5:orc"])
def test_keys_are_the_same_on_levels_of_every_format(formats: str, tmp_path: Path, oracle: Oracle) -> None:
    """Blanks that one level keeps and another one does not would make two keys of one."""
    options = {"bucket": "1", "file.format.per.level": formats}
    fields = [DataField(0, "k", parse_type("CHAR(3) NOT NULL")), DataField(1, "v", parse_type("INT"))]
    table = pp.Table.create(tmp_path / "db.db" / "t", fields, primary_key=["k"], options=options)
    for number, keys in enumerate((["a", "ab "], ["a  ", "b"], ["a ", "abc", "b  "])):
        table.append(pa.table([keys, [10 * number + i for i in range(len(keys))]], arrow_schema(fields)))
        if not number:
            table.compact(full=True)
    with oracle.batch() as batch:
        before = batch.read(tmp_path, "db.t")
    assert before.lines == lines(table.scan().to_arrow())
    table.compact(full=True)
    table.append(pa.table([["abc"], [30]], arrow_schema(fields)))
    with oracle.batch() as batch:
        after = batch.read(tmp_path, "db.t")
    assert after.lines == lines(table.scan().to_arrow())
    assert [(row["k"], row["v"]) for row in after.values] == [("a", 20), ("ab", 1), ("abc", 30), ("b", 22)]


@pytest.mark.parametrize("keys", [["a", "a  "], ["a\x1f", "a "]])
def test_keys_that_orc_would_mix_up_are_not_compacted_into_it(keys: list[str], tmp_path: Path) -> None:
    fields = [DataField(0, "k", parse_type("CHAR(3) NOT NULL")), DataField(1, "v", parse_type("INT"))]
    options = {"bucket": "1", "write-only": "true"}
    table = pp.Table.create(tmp_path / "t", fields, primary_key=["k"], options=options)
    for number, key in enumerate(keys):
        table.append(pa.table([[key], [number]], arrow_schema(fields)))
    rows = lines(table.scan().to_arrow())
    assert len(rows) == 2
    with pytest.raises(UnsupportedError, match="blanks at the end of CHAR"):
        table.compact(full=True, options={"file.format": "orc"})
    assert lines(table.scan().to_arrow()) == rows
    table.compact(full=True)
    assert lines(table.scan().to_arrow()) == rows


@pytest.mark.parametrize(
    "formats", [{"file.format": "orc"}, {"file.format.per.level": "0:orc"}, {"file.format": "parquet"}]
)
def test_changes_meet_keys_that_java_filled_with_blanks(
    formats: dict[str, str], tmp_path: Path, oracle: Oracle
) -> None:
    """The ranges in manifests are of the keys with their blanks, and rows of ORC files have none."""
    fields = [DataField(0, "k", parse_type("CHAR(3) NOT NULL")), DataField(1, "v", parse_type("INT"))]
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields, primary_keys=["k"], options={"bucket": "1", **formats})
        batch.write(tmp_path, "db.t", [{"k": key, "v": v} for v, key in enumerate(("a  ", "b  ", "c  ", "d"))])
    table = pp.Table.open(tmp_path / "db.db" / "t")
    assert table.delete("k = 'a'").rows_deleted == 1
    assert table.update({"v": "9"}, "k = 'c'").rows_updated == 1
    expected = [("b", 1), ("c", 9), ("d", 3)]
    for _ in range(2):
        with oracle.batch() as batch:
            read = batch.read(tmp_path, "db.t")
        assert read.lines == lines(table.scan().to_arrow())
        assert [(row["k"].rstrip(" "), row["v"]) for row in read.values] == expected
        assert not table.maintenance.verify().findings
        table.compact(full=True)
