"""The order of a top n as text, and what statistics may and may not leave out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.query.answer import Answer
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.sql.text.order import SortColumn, TopN, parse_top_n

NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "columns", "n"),
    [
        ("a, 3", [("a", False, True)], 3),
        ("a ASC,3", [("a", False, True)], 3),
        ("a Desc , 0", [("a", True, False)], 0),
        ("a desc NULLS first,10", [("a", True, True)], 10),
        ("a nulls last, b desc, 7", [("a", False, False), ("b", True, False)], 7),
        ("`x, y` desc, `a``b` nulls first, 1", [("x, y", True, False), ("a`b", False, True)], 1),
        ("é, 1", [("é", False, True)], 1),
        ("`10` desc, `a-b`, /* all */ 1", [("10", True, False), ("a-b", False, True)], 1),
    ],
)
def test_texts(text: str, columns: list[tuple[str, bool, bool]], n: int) -> None:
    order = parse_top_n(text)
    assert order == TopN(tuple(SortColumn(*column) for column in columns), n)
    assert parse_top_n(str(order)) == order


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("", "expected a sort column or the number of rows, but the top_n ends here", 0),
        ("3", "a sort column stands before the number of rows", 0),
        ("a desc", "expected a comma, but the top_n ends here", 6),
        ("a, b", "expected a comma, but the top_n ends here", 4),
        ("a, -1", "expected a sort column or the number of rows, found -", 3),
        ("a, 1.5", "the number of rows is a whole number of at most 18 digits", 3),
        ("a, 9999999999999999999", "the number of rows is a whole number of at most 18 digits", 3),
        ("a, 3L", "the number of rows is a whole number of at most 18 digits", 3),
        ("a, 3 rows", "expected the end of the top_n, found rows", 5),
        ("a down, 3", "expected a comma, found down", 2),
        ("a nulls, 3", "expected FIRST or LAST, found ,", 7),
        ("a,, 3", "expected a sort column or the number of rows, found ,", 2),
        ("a b, 3", "expected a comma, found b", 2),
        ("a-b, 3", "expected a comma, found -", 1),
        ("`a, 3", "the quoted name that begins here is not closed", 0),
    ],
)
def test_texts_that_are_no_order(text: str, message: str, place: int) -> None:
    with pytest.raises(OptionError, match=re.escape(message)) as raised:
        parse_top_n(text)
    assert raised.value.message.split("\n")[1:] == [f"  {text}", "  " + " " * place + "^"]


def make(path: Path, type_: pa.DataType, parts: list[list[Any]], options: dict[str, str] | None = None) -> pp.Table:
    """A table with a file for each list of values of column ``v``."""
    table = pp.Table.create(path / "t", pa.schema([("id", pa.int64()), ("v", type_)]), options=options or {})
    first = 0
    for values in parts:
        table.append(pa.table({"id": range(first, first + len(values)), "v": pa.array(values, type_)}))
        first += len(values)
    return table


def values(answer: Answer[pa.Table]) -> list[Any]:
    return answer.value.column("v").to_pylist()


def test_columns_are_checked(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("Id", pa.int64()), ("m", pa.map_(pa.string(), pa.int64()))]))
    assert table.scan(top_n="ID desc, 3").to_arrow().num_rows == 0
    with pytest.raises(SchemaError, match="no column 'x'"):
        table.scan(top_n="x, 3")
    with pytest.raises(UnsupportedError, match="can't sort by 'm'"):
        table.scan(top_n="m, 3")
    with pytest.raises(OptionError, match="sorts by 'Id' twice"):
        table.scan(top_n="Id, id desc, 3")
    with pytest.raises(OptionError, match="needs a sort column"):
        table.scan(top_n=TopN((SortColumn("Id"),), -1))
    with pytest.raises(OptionError, match="has a limit or a top_n already"):
        table.scan(limit=3).answer.top_n("id, 3")


@pytest.mark.parametrize("index", ["", "range-bitmap", "bitmap"])
def test_nan_zeros_and_nulls_stand_where_spark_has_them(tmp_path: Path, index: str) -> None:
    options = {f"file-index.{index}.columns": "v"} if index else {}
    table = make(tmp_path, pa.float64(), [[1.0, None, NAN], [-0.0, 0.0, -1.0], [NAN, None, float("inf")]], options)

    def found(order: str) -> list[str]:
        return [repr(abs(v)) if v == 0 else repr(v) for v in values(table.scan().answer.top_n(order))]

    assert found("v desc, 4") == ["nan", "nan", "inf", "1.0"]
    assert found("v, 4") == ["None", "None", "-1.0", "0.0"]
    assert found("v desc nulls first, 3") == ["None", "None", "nan"]
    assert found("v nulls last, 5") == ["-1.0", "0.0", "0.0", "1.0", "inf"]
    assert found("v desc, 9")[-2:] == ["None", "None"]


def test_files_that_bounds_rule_out_are_not_opened(tmp_path: Path) -> None:
    table = make(tmp_path, pa.int32(), [list(range(i * 10, i * 10 + 10)) for i in range(8)])
    answer = table.scan().answer.top_n("v desc, 5")
    assert values(answer) == [79, 78, 77, 76, 75]
    assert answer.files_by_metadata == 7
    answer = table.scan("id < 35").answer.top_n("v desc, 2")
    assert values(answer) == [34, 33]


@pytest.mark.parametrize("mode", ["none", "counts"])
def test_missing_statistics_rule_nothing_out(tmp_path: Path, mode: str) -> None:
    table = make(tmp_path, pa.int32(), [[1, 2, 3], [50, 60]], {"metadata.stats-mode": mode})
    table.alter({"metadata.stats-mode": "full"})
    table.append(pa.table({"id": [10, 11, 12, 13], "v": pa.array([55, 54, 53, None], pa.int32())}))
    assert values(table.scan().answer.top_n("v desc, 3")) == [60, 55, 54]
    assert values(table.scan().answer.top_n("v, 2")) == [None, 1]
    assert values(table.scan().answer.top_n("v nulls last, 2")) == [1, 2]


def test_cut_statistics_are_bounds_only(tmp_path: Path) -> None:
    table = make(
        tmp_path,
        pa.string(),
        [["abcdef", "abczzz"], ["abd"], ["abcx", "abc"], ["\U0010ffff\U0010ffffz"]],
        {"metadata.stats-mode": "truncate(3)"},
    )
    assert values(table.scan().answer.top_n("v desc, 3")) == ["\U0010ffff\U0010ffffz", "abd", "abczzz"]
    assert values(table.scan().answer.top_n("v, 2")) == ["abc", "abcdef"]
    assert table.max("v") == "\U0010ffff\U0010ffffz"
    assert table.min("v") == "abc"


def test_deleted_rows_and_filtered_ones_do_not_count(tmp_path: Path) -> None:
    options = {"file-index.range-bitmap.columns": "v", "deletion-vectors.enabled": "true"}
    table = make(tmp_path, pa.int32(), [list(range(100)), list(range(100, 200))], options)
    table.delete("id >= 195 OR id = 190")
    answer = table.scan().answer.top_n("v desc, 6")
    assert values(answer) == [194, 193, 192, 191, 189, 188]
    assert answer.files_by_index == 1
    answer = table.scan("v < 150").answer.top_n("v desc, 2")
    assert values(answer) == [149, 148]
    answer = table.scan("id IN (3, 150, 170)").answer.top_n("v desc, 2")
    assert values(answer) == [170, 150]


def test_ties_are_decided_by_the_columns_that_follow(tmp_path: Path) -> None:
    table = make(tmp_path, pa.int32(), [[1, 2, 2, 2], [2, 2, 1, 3]], {"file-index.bitmap.columns": "v"})
    ids = table.scan(top_n="v desc, id desc, 4").to_arrow().column("id").to_pylist()
    assert ids == [7, 5, 4, 3]
    ids = table.scan(columns=["id"], top_n="v, id, 3").to_arrow().column("id").to_pylist()
    assert ids == [0, 6, 1]


def test_a_limit_cuts_the_order(tmp_path: Path) -> None:
    table = make(tmp_path, pa.int32(), [[5, 1, 3]])
    scan = table.scan(top_n="v, 3", limit=2)
    assert scan.to_arrow().column("v").to_pylist() == [1, 3]
    assert scan.count() == 2
    assert table.scan(top_n="v, 0").to_arrow().num_rows == 0
    assert table.scan("v > 1", top_n="v, 5").count() == 2
    assert scan.answer.sum("v").value == 4
    assert table.top_n("v desc, 1", columns=["v", "__paimon_row_index"]).to_pylist() == [
        {"v": 5, "__paimon_row_index": 0}
    ]
