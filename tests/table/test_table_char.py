"""CHAR(n) columns of tables: conditions don't see blanks at the end of values, whatever files and indexes hold."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from support.effort import sampled

FORMATS = ["parquet", "avro", "orc"]
INDEXES: dict[str, dict[str, str]] = {
    "none": {},
    **{name: {f"file-index.{name}.columns": "c"} for name in ("bloom-filter", "bitmap", "range-bitmap")},
    "all": {f"file-index.{name}.columns": "c" for name in ("bloom-filter", "bitmap", "range-bitmap")},
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "buckets": {"options": {"bucket": "5", "bucket-key": "c"}},
    "partitions": {"partition_by": ["c"]},
}
COMPARE = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
texts = st.text("ab \t", max_size=3)


def fields(*more: DataField) -> list[DataField]:
    return [
        DataField(0, "id", parse_type("INT")),
        DataField(1, "c", parse_type("CHAR(3)")),
        DataField(2, "d", parse_type("CHAR(5)")),
        DataField(3, "s", parse_type("STRING")),
        *more,
    ]


def made(path: Path, values: list[str | None], options: dict[str, str], layout: dict[str, Any]) -> pp.Table:
    """A table with these values in two files for each bucket and partition."""
    given = {"options": {**options, **layout.get("options", {})}, "partition_by": layout.get("partition_by", [])}
    table = pp.Table.create(path, fields(), **given)
    rows = pa.table([range(len(values)), values, values, values], schema=arrow_schema(fields()))
    table.append(rows.slice(0, len(values) // 2))
    table.append(rows.slice(len(values) // 2))
    return table


def ids(table: pp.Table, condition: str) -> list[int]:
    return sorted(table.scan(condition, columns=["id"]).to_arrow().column(0).to_pylist())


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("file_format", FORMATS)
@settings(max_examples=max(settings().max_examples // 10, 4))
@given(data=st.data())
def test_every_way_of_asking_sees_values_as_if_filled_with_blanks(tmp_path_factory, data, file_format, layout):
    values = data.draw(st.lists(st.none() | texts, min_size=2, max_size=12))
    options = INDEXES[data.draw(st.sampled_from(sorted(INDEXES)))]
    if data.draw(st.booleans()):
        options = options | {"file-index.in-manifest-threshold": "1 b"}
    table = made(tmp_path_factory.mktemp("t") / "t", values, options | {"file.format": file_format}, layout)
    for _ in range(4):
        sign, literal = data.draw(st.sampled_from(sorted(COMPARE))), data.draw(texts)
        expected = [n for n, v in enumerate(values) if v is not None and COMPARE[sign](v.ljust(9), literal.ljust(9))]
        condition = f"c {sign} '{literal}'"
        assert ids(table, condition) == expected, condition
        assert table.count(condition) == len(expected), condition
        assert table.exists(condition) == bool(expected), condition
        assert table.explain(condition, analyze=True).steps[-1].rows == len(expected), condition
        listed = f"c IN ('{literal}', 'b')"
        inside = {literal.ljust(9), "b".ljust(9)}
        assert ids(table, listed) == [n for n, v in enumerate(values) if v is not None and v.ljust(9) in inside], listed


VALUES = ["ab", "ab ", "a\t", "b", "b  ", "", "   ", None]
"""Equal ones are 0 and 1, 3 and 4, 5 and 6."""


@pytest.fixture(params=sampled(FORMATS, 2))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pp.Table:
    return made(tmp_path / "t", VALUES, {"file.format": request.param, "file-index.bitmap.columns": "c"}, {})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("CASE c WHEN 'ab' THEN id < 9 END", [0, 1]),
        ("if(c = 'ab ', true, false)", [0, 1]),
        ("c IN ('b', 'x') AND length(s) > 0", [3, 4]),
        ("coalesce(c < 'a', false)", [2, 5, 6]),
        ("coalesce(c <= 'a\\t', false)", [2, 5, 6]),
        ("coalesce(c > 'a', false)", [0, 1, 3, 4]),
        ("c = d", [0, 1, 2, 3, 4, 5, 6]),
        ("nullif(c, 'b') IS NULL", [3, 4, 7]),
        ("c <=> 'ab'", [0, 1]),
        ("NOT (c <=> 'ab')", [2, 3, 4, 5, 6, 7]),
        ("coalesce(c, 'x') || '' = 'x'", [7]),
    ],
)
def test_conditions_that_are_expressions(table, condition, expected):
    left = [n for n in range(len(VALUES)) if n not in expected]
    assert table.delete(condition).rows_deleted == len(expected)
    assert ids(table, "id >= 0") == left


def test_rows_change_by_values_with_and_without_blanks(table):
    assert table.update({"s": "'new'"}, "c = 'ab'").rows_updated == 2
    assert ids(table, "s = 'new'") == [0, 1]
    assert table.delete("c = 'b' OR d IN ('')").rows_deleted == 4
    assert ids(table, "id >= 0") == [0, 1, 2, 7]


@pytest.mark.parametrize("stored", ["ab", "ab ", "ab   "])
@pytest.mark.parametrize("given_", ["ab", "ab  "])
def test_keys_of_a_merge_match_with_and_without_blanks(tmp_path, stored, given_):
    table = made(tmp_path / "t", ["x", None, "y", "a"], {}, {})
    table.append(pa.table([[9], ["z"], [stored], ["old"]], schema=arrow_schema(fields())))
    changes = pa.table([[9, 10], ["z", "w"], [given_, "q"], ["new", "new"]], schema=arrow_schema(fields()))
    found = table.merge(changes, on=["d"], when_matched="update", when_not_matched="insert")
    assert (found.rows_updated, found.rows_inserted) == (1, 1)
    assert ids(table, "s = 'new'") == [9, 10]
    by_condition = table.merge(changes, on="target.d = source.d AND target.id = source.id", when_matched="delete")
    assert by_condition.rows_deleted == 2


def test_keys_of_a_long_type_match_without_a_list_of_them(tmp_path):
    """Listed with every number of blanks they would be too many: all files are read then."""
    table = pp.Table.create(tmp_path / "t", [DataField(0, "c", parse_type("CHAR(5000)"))])
    keys = pa.table({"c": [f"k{n}" for n in range(9)]})
    table.append(pa.table({"c": [f"k{n}  " for n in range(5, 12)]}))
    found = table.merge(keys, on=["c"], when_matched="delete", when_not_matched="insert")
    assert (found.rows_deleted, found.rows_inserted, table.count()) == (4, 5, 8)


def test_a_part_of_a_row_and_a_value_of_a_map(tmp_path):
    row = parse_type({"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "CHAR(4)"}]})
    of_map = parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": "CHAR(4)"})
    columns = fields(DataField(4, "r", row), DataField(5, "m", of_map))
    table = pp.Table.create(tmp_path / "t", columns, options={"file-index.bitmap.columns": "m[k]"})
    values = ["ab", "ab  ", "abc"]
    given_ = [range(3), values, values, values, [{"x": v} for v in values], [[("k", v)] for v in values]]
    schema = arrow_schema(columns)
    arrays = [pa.array(v, t) for v, t in zip([range(3), ["a"] * 3, *given_[2:]], schema.types, strict=True)]
    table.append(pa.Table.from_arrays(arrays, schema=schema))
    for condition in ("r.x = 'ab '", "m['k'] = 'ab'", "coalesce(r.x = 'ab', false)", "if(m['k'] = 'ab ', true, false)"):
        assert table.delete(condition + " AND id > 5").rows_deleted == 0, condition
    assert ids(table, "r.x = 'ab '") == ids(table, "m['k'] = 'ab'") == [0, 1]
    assert table.delete("coalesce(r.x = 'ab', false) AND coalesce(m['k'] <= 'ab', false)").rows_deleted == 2


def test_a_column_that_was_char_or_becomes_it(tmp_path):
    """Files written before hold what they hold: conditions go by the type that the column has now."""
    table = made(tmp_path / "t", ["ab", "ab ", "b"], {"file-index.bitmap.columns": "c"}, {})
    table.alter(change_types={"c": "STRING"})
    table.append(pa.table([[3, 4], ["ab", "ab "], ["", ""], ["", ""]], schema=table.arrow_schema))
    assert ids(table, "c = 'ab'") == [0, 3]
    assert ids(table, "c <> 'ab'") == [1, 2, 4]
    assert ids(table, "c < 'ab '") == [0, 3]
