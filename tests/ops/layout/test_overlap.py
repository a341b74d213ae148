"""Layouts of files, held against a model that looks at every pair of them."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError, SchemaError, SnapshotNotFoundError, UnsupportedError
from support.fixtures import table_path

_NUMBERS = pa.schema([
    ("i", pa.int32()), ("d", pa.float64()), ("n", pa.decimal128(20, 2)), ("day", pa.date32()),
    ("t", pa.timestamp("us")), ("b", pa.bool_()),
])  # fmt: skip
_PAIRS = {"target-file-row-num": "2"}
"""Each two rows are a file: its bounds."""


def _table(path: Path, data: pa.Table, options: dict[str, str] | None = None, **create: Any) -> pp.Table:
    table = pp.Table.create(path, data.schema, options=_PAIRS | (options or {}), **create)
    table.append(data)
    return table


def _files(values: Sequence[Any], key: Any = lambda value: value) -> list[tuple[Any, Any]]:
    """The bounds of each two values that are not NULL."""
    pairs = [[key(v) for v in values[i : i + 2] if v is not None] for i in range(0, len(values), 2)]
    return [(min(pair), max(pair)) for pair in pairs if pair]


def _exact(files: Sequence[tuple[Any, Any]]) -> tuple[int, float]:
    """The greatest depth, and the share of files that overlap another."""
    deepest = max(sum(low <= value <= high for low, high in files) for value in itertools.chain(*files))
    pairs = list(enumerate(files))
    overlapping = sum(any(a[0] <= b[1] and b[0] <= a[1] for j, b in pairs if i != j) for i, a in pairs)
    return deepest, overlapping / len(files)


def _average(files: Sequence[tuple[float, float]]) -> float:
    """The depth of values that are spread evenly between the bounds of their file; files have as many rows each."""
    ends = sorted(set(itertools.chain(*files)))
    total = 0.0
    for low, high in files:
        if low == high:
            total += sum(a <= low <= b for a, b in files)
        for x, y in itertools.pairwise(end for end in ends if low <= end <= high):
            total += (y - x) / (high - low) * sum(a <= x and y <= b for a, b in files)
    return total / len(files)


def _number(value: Any) -> float:
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1)
    return float(value.toordinal() if isinstance(value, datetime.date) else value)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_the_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    width = (3, 40, 400, 5)[seed]
    data: dict[str, list[Any]] = {name: [] for name in _NUMBERS.names}
    for number in range(30):
        for _ in range(2):
            value = chance.randint(0, width) + number * chance.choice((0, 7))
            data["i"].append(value)
            data["d"].append(value / 4 - 3)
            data["n"].append(decimal.Decimal(value) / 4)
            data["day"].append(datetime.date(2024, 1, 1) + datetime.timedelta(value))
            data["t"].append(datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=value))
            data["b"].append(None if seed == 3 and number % 3 == 0 else value % 2 == 0)
    table = _table(tmp_path / "t", pa.table(data, _NUMBERS))
    layout = table.index.layout()
    assert (layout.files, layout.rows, [c.column for c in layout.columns]) == (30, 60, _NUMBERS.names)
    for column in layout.columns:
        files = _files(data[column.column], _number)
        deepest, share = _exact(files)
        assert (column.max_depth, column.overlap_share) == (deepest, share), column
        assert column.average_depth == column.point_files == pytest.approx(_average(files)), column
        assert column.files_with_statistics == 30
        assert column.files_of_nulls == 30 - len(files)
        assert 1 <= column.range_files <= deepest + len(files) / 5
        assert len(column.depths) == 100
        assert max(column.depths) <= deepest


def test_nan_is_the_greatest_value(tmp_path: Path) -> None:
    values = [1.0, math.nan, 2.0, 3.0, math.nan, math.nan, -0.0, 0.0, -math.inf, 0.0, None, None]
    table = _table(tmp_path / "t", pa.table({"d": pa.array(values, pa.float64())}))
    (column,) = table.index.layout().columns
    deepest, share = _exact(_files(values, lambda v: (1, 0.0) if math.isnan(v) else (0, v)))
    assert (column.max_depth, column.overlap_share) == (deepest, share) == (2, 1.0)
    assert (column.low, column.high, column.files_of_nulls) == ("-inf", "nan", 1)
    assert 1 <= column.average_depth <= 2


@pytest.mark.parametrize("far", [1e300, -math.inf, 5e-324])
def test_values_that_lie_far_from_all_others(tmp_path: Path, far: float) -> None:
    values = [float(i) for i in range(40)] + [-far, far]
    (column,) = _table(tmp_path / "t", pa.table({"d": values})).index.layout().columns
    assert column.max_depth == 2
    assert 1 <= column.average_depth <= 2
    assert 1 <= min(column.depths) <= max(column.depths) <= column.max_depth


def test_texts_are_compared_as_far_as_statistics_go(tmp_path: Path) -> None:
    """Bounds are cut to 16 characters: what differs later only lies in the same files for a filter, too."""
    words = [f"{'same beginning ' if i % 3 else ''}{i:03}" for i in range(40)]
    table = _table(tmp_path / "t", pa.table({"s": words, "b": pa.array([w.encode() for w in words])}))

    def cut(pair: tuple[str, str]) -> tuple[str, str]:
        low, high = pair
        return low[:16], high if len(high) <= 16 else high[:15] + chr(ord(high[15]) + 1)

    (column,) = table.index.layout("s").columns
    deepest, share = _exact([cut(pair) for pair in _files(words)])
    assert (column.max_depth, column.overlap_share) == (deepest, share)
    kept = [len(table.scan(f"s = '{word}'").plan().files) for word in words]
    assert max(kept) == deepest
    assert column.point_files == pytest.approx(sum(kept) / len(kept), rel=0.35)


def test_disjoint_files_and_files_of_all_values(tmp_path: Path) -> None:
    data = pa.table({"own": range(400), "all": [i % 2 for i in range(400)], "one": [7] * 400})
    by_name = {c.column: c for c in _table(tmp_path / "t", data).index.layout().columns}
    own, every, one = (by_name[name] for name in ("own", "all", "one"))
    assert (own.average_depth, own.max_depth, own.overlap_share, set(own.depths)) == (pytest.approx(1.0), 1, 0.0, {1})
    assert 2 <= own.range_files <= 4
    for column in (every, one):
        assert (column.average_depth, column.max_depth, column.range_files, column.overlap_share) == (200, 200, 200, 1)


def test_files_without_statistics_are_read_by_every_filter(tmp_path: Path) -> None:
    data = pa.table({"a": range(20), "b": range(20), "s": pa.array([{"x": i} for i in range(20)])})
    table = _table(tmp_path / "t", data, {"fields.b.stats-mode": "none"})
    layout = table.index.layout()
    a, b = layout.columns  # what has no order is left out
    assert (a.files_with_statistics, a.point_files) == (10, pytest.approx(1.0))
    assert (b.files, b.files_with_statistics, b.point_files, b.range_files, b.depths) == (10, 0, 10.0, 10.0, ())
    assert "10" in layout.text.splitlines()[-1]
    table.alter(set_options={"fields.b.stats-mode": "full"})
    table.append(data.slice(0, 4))
    (b,) = table.index.layout(["b"]).columns
    assert (b.files_with_statistics, b.point_files) == (2, pytest.approx(11.0))


def test_columns_of_older_schemas(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", pa.table({"a": pa.array(range(8), pa.int32())}))
    table.alter(change_types={"a": "BIGINT"}, add_columns={"late": "INT"})
    table.append(pa.table({"a": [2**40, 2**40 + 1], "late": pa.array([1, 2], pa.int32())}))
    a, late = table.index.layout().columns
    assert (a.max_depth, a.files_with_statistics, a.low, a.high) == (1, 5, "0", str(2**40 + 1))
    assert (late.files_with_statistics, late.files_of_nulls, late.max_depth) == (5, 4, 1)


def test_partitions_and_keys(tmp_path: Path) -> None:
    data = pa.table({"p": [0, 0, 1, 1, None, None], "v": range(6)})
    table = _table(tmp_path / "p", data, partition_by=["p"])
    p, v = table.index.layout().columns
    assert (p.max_depth, p.files_of_nulls, p.average_depth, v.max_depth) == (1, 1, pytest.approx(1.0), 1)
    assert table.index.layout("v", where="p = 1").files == 1
    table = pp.Table.create(tmp_path / "k", data.schema, primary_key=["v"], options={"bucket": "1"})
    table.append(data)
    layout = table.index.layout()
    assert [c.column for c in layout.columns] == ["v"]
    assert "merged" in layout.text


def test_tables_that_java_wrote() -> None:
    variant = pp.Table.open(table_path("append_variant")).index.layout()
    assert variant.files > 0
    assert "VARIANT" not in {c.type for c in variant.columns}
    with pytest.raises(UnsupportedError, match=r"layout of files is not for tables with data-evolution"):
        pp.Table.open(table_path("data_evolution")).index.layout()


def test_a_table_without_files(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int32())]))
    layout = table.index.layout()
    assert layout.text.endswith("no data file")
    assert (layout.files, layout.to_arrow().to_pylist()[0]["depths"]) == (0, [])
    assert "<svg" in layout.page
    table.append(pa.table({"a": pa.array([1], pa.int32())}))
    assert layout.compare(table.index.layout()).to_arrow()["before_files"].to_pylist() == [0]


def test_before_and_after_a_compaction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = list(range(200))
    random.Random(5).shuffle(values)
    table = _table(tmp_path / "t", pa.table({"a": values, "<b>": ["x"] * 200}))
    before = table.index.layout()
    table.compact(order_by="a")
    comparison = before.compare(table.index.layout())
    first = comparison.text.splitlines()[0]
    assert "snapshot 1 and 2: one value of a was in " in first
    assert first.endswith("of 100 files, and is in 1.0 of 100")
    (a, b) = comparison.to_arrow().to_pylist()
    assert a["before_average_depth"] > 20
    assert (a["after_average_depth"], a["after_overlap_share"], b["after_point_files"]) == (
        pytest.approx(1.0),
        0.0,
        pytest.approx(100.0),
    )
    for page in (before.page, comparison.page):
        assert page.startswith("<!DOCTYPE html>")
        assert "&lt;b&gt;" in page
        assert '<b>"' not in page
    again = table.index.layout(snapshot=1)
    assert again == before
    page = tmp_path / "page.html"
    assert main(["index", "layout", table.path, "--before", "1", "--columns", "a", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == first
    assert "<svg" in page.read_text(encoding="utf-8")
    assert main(["index", "layout", table.path, "--snapshot", "1", "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns"][0]["average_depth"] == before.columns[0].average_depth
    assert found["sizes"]["total"] == before.sizes.total > 0


def test_what_makes_no_sense_is_said(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", pa.table({"a": [1], "l": [[1]]}))
    with pytest.raises(SchemaError, match="no column 'b'"):
        table.index.layout("a, b")
    with pytest.raises(OptionError, match="no bounds of 'l', a column of type ARRAY"):
        table.index.layout(["l"])
    with pytest.raises(OptionError, match="partition columns"):
        table.index.layout(where="a = 1")
    with pytest.raises(SnapshotNotFoundError):
        table.index.layout(snapshot=9)
