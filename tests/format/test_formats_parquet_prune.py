"""Pruning by Parquet's own statistics: what is kept is a superset of what matches."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import PredicateError
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.parquet import writer
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.tree import ColumnRef, Leaf, Op
from support.data_files import fields_of, open_reader, write_file
from support.predicate_model import FIELDS, conditions, rows, to_arrow, to_text

WRITER = pq.ParquetWriter.__init__.__code__.co_varnames
row_limits = pytest.mark.skipif("max_rows_per_page" not in WRITER, reason="this pyarrow can't limit a page's rows")


def _write(path: Path, fields: tuple[DataField, ...], table: pa.Table, group: int, page: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "GROUP_ROWS", group)
        write_file(path, fields, table, {"parquet.page.row.count.limit": str(page)})


def _kept(path: Path, text: str, fields: tuple[DataField, ...], counters: ReadCounters | None = None) -> list[int]:
    reader = open_reader(path, counters)
    predicate = bind(parse_filter(text), fields)
    found: list[int] = reader.prune(predicate).to_array(reader.row_count).tolist()
    return found


@given(found=rows(1, 24), condition=conditions(), group=st.integers(1, 25), page=st.integers(1, 8), other=st.booleans())
def test_pruning_keeps_what_matches(
    found: list[dict[str, Any]],
    condition: Any,
    group: int,
    page: int,
    other: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """For our files, and for such as other writers make: statistics without page index, no dictionary, pages v2."""
    batch = to_arrow(found)
    path = tmp_path_factory.mktemp("prune") / "a.parquet"
    if other:
        table = pa.Table.from_batches([batch]).drop_columns(["ns"])
        pq.write_table(table, path, row_group_size=group, data_page_version="2.0", use_dictionary=False)
    else:
        _write(path, FIELDS, pa.Table.from_batches([batch]), group, page)
    try:
        predicate = bind(parse_filter(to_text(condition)), FIELDS)
    except PredicateError:
        return
    exact = np.flatnonzero(np.asarray(pc.cast(matches(predicate, batch), pa.uint8())))
    reader = open_reader(path)
    kept = set(reader.prune(predicate).to_array(len(found)).tolist())
    assert kept >= set(exact.tolist())
    within = RowSelection.of(range(0, len(found), 2))
    kept = set((reader.prune(predicate, within) & within).to_array(len(found)).tolist())
    assert kept >= {row for row in exact.tolist() if row % 2 == 0}


@row_limits
def test_pages_of_two_columns_are_joined(tmp_path: Path) -> None:
    """AND and OR over pages that are cut at different rows."""
    n = 100_000
    fields = fields_of("BIGINT", "STRING")
    table = pa.table({"c0": np.arange(n), "c1": [f"{i:06d}" + "x" * (i % 200) for i in range(n)]})
    path = tmp_path / "a.parquet"
    _write(path, fields, table, 40_000, 4096)
    assert open_reader(path).groups() == [(0, 40_000), (40_000, 80_000), (80_000, 100_000)]
    kept = _kept(path, "c0 between 50000 and 50010 and c1 >= '050005'", fields)
    assert set(range(50_005, 50_011)) <= set(kept)
    assert len(kept) <= 4096
    either = _kept(path, "c0 = 3 or c1 = '099999'", fields)
    assert {3} <= set(either)
    assert len(either) <= 2 * 4096
    assert _kept(path, "c0 > 100000", fields) == []
    assert _kept(path, "c1 is null", fields) == []
    assert len(_kept(path, "c0 >= 0", fields)) == n


def test_few_rows_at_stake_read_no_page_index(tmp_path: Path) -> None:
    n = 50_000
    fields = fields_of("BIGINT")
    path = tmp_path / "a.parquet"
    table = pa.table({"c0": np.random.default_rng(0).permutation(n)})
    _write(path, fields, table, n, 1024)
    counters = ReadCounters()
    reader = open_reader(path, counters)
    predicate = bind(parse_filter("c0 = 7"), fields)
    assert reader.prune(predicate, RowSelection.of([1, 2, 3])).is_all
    assert counters.index_bytes == 0


def test_zeros_and_nan(tmp_path: Path) -> None:
    fields = fields_of("DOUBLE", "FLOAT")
    values = [0.0, 0.0, -0.0, -0.0, float("nan"), 1.0, float("nan"), float("nan")]
    table = pa.table({"c0": pa.array(values), "c1": pa.array(values, pa.float32())})
    path = tmp_path / "a.parquet"
    _write(path, fields, table, 2, 2)
    for column in ("c0", "c1"):
        assert set(_kept(path, f"{column} = 0.0", fields)) >= {0, 1, 2, 3}
        assert set(_kept(path, f"{column} = -0.0", fields)) >= {0, 1, 2, 3}
        assert set(_kept(path, f"{column} = double('NaN')", fields)) >= {4, 6, 7}
        assert set(_kept(path, f"{column} > 5", fields)) >= {4, 6, 7}
        assert set(_kept(path, f"{column} <> 1", fields)) >= {0, 1, 2, 3, 4, 6, 7}


@row_limits
@pytest.mark.parametrize("type_", ["DOUBLE", "FLOAT"])
def test_pages_of_floats_are_cut_off_on_both_sides(type_: str, tmp_path: Path) -> None:
    """NaN may lie in any page, and is greater than any number; but it is no number of a range that ends."""
    n = 50_000
    fields = fields_of(type_)
    path = tmp_path / "a.parquet"
    values = np.arange(n, dtype=np.float32 if type_ == "FLOAT" else np.float64)
    _write(path, fields, pa.table({"c0": values}), n, 1024)
    for text in (
        "c0 = 40000D",
        "c0 IN (40000D, 40001D)",
        "c0 >= 40000D AND c0 < 40100D",
        "c0 BETWEEN 40000D AND 40001D",
    ):
        assert len(_kept(path, text, fields)) <= 2048, text
    assert len(_kept(path, "c0 >= 49999D", fields)) == n


def test_bounds_of_integers(tmp_path: Path) -> None:
    fields = fields_of("BIGINT", "INT", "STRING")
    path = tmp_path / "a.parquet"
    table = pa.table({"c0": pa.array([3, None, -(2**60), 9], pa.int64()), "c1": pa.array([5, 6, 7, 8], pa.int32())})
    _write(path, fields, table.append_column("c2", pa.array(list("abcd"))), 2, 10)
    reader = open_reader(path)
    assert [reader.bounds(field) for field in fields] == [(-(2**60), 9), (5, 8), None]
    assert reader.bounds(DataField(9, "other", fields[0].type)) is None
    pq.write_table(table, path, write_statistics=False)
    assert open_reader(path).bounds(fields[0]) is None


@row_limits
def test_pages_of_nulls(tmp_path: Path) -> None:
    n = 4096
    fields = fields_of("INT")
    values = [None] * n + list(range(n)) + [None, 5] * (n // 2)
    path = tmp_path / "a.parquet"
    _write(path, fields, pa.table({"c0": pa.array(values, pa.int32())}), 10**6, 1024)
    assert _kept(path, "c0 is null", fields)[:n] == list(range(n))
    assert not set(_kept(path, "c0 is null", fields)) & set(range(n, 2 * n))
    assert set(_kept(path, "c0 = 5", fields)) & set(range(n)) == set()
    assert set(_kept(path, "c0 is not null", fields)) == set(range(n, 3 * n))


def test_shortened_bounds(tmp_path: Path) -> None:
    """A bound may be cut: a maximum rounded up, a minimum down, cut inside a character even."""
    path = tmp_path / "a.parquet"
    fields = fields_of("STRING")
    table = pa.table({"c0": ["ä" * 30, "ö" * 30]})
    pq.write_table(table, path, write_page_index=True)
    assert _kept(path, "c0 like 'ä%'", fields) == [0, 1]
    assert _kept(path, "c0 like 'zz%'", fields) == []
    assert _kept(path, "c0 > 'ü'", fields) == []


@pytest.mark.parametrize("op", list(Op))
def test_statistics_of_another_order_are_not_used(op: Op, tmp_path: Path) -> None:
    """Unsigned integers, other units and scales, INT96: nothing is known but NULLs."""
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "c0": pa.array([1, 2**63 + 5], pa.uint64()),
            "c1": pa.array([1, 2], pa.timestamp("us")),
            "c2": pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal128(5, 1)),
            "c3": pa.array(["a", "b"]),
        }
    )
    pq.write_table(table, path)
    values = {"BIGINT": 9, "TIMESTAMP(3)": 9, "DECIMAL(5, 2)": Decimal(9), "INT": 9}
    for i, (text, value) in enumerate(values.items()):
        type_ = parse_type(text)
        literals = () if op in (Op.IS_NULL, Op.IS_NOT_NULL) else (value, "\\") if "LIKE" in op.value else (value,)
        leaf = Leaf(op, ColumnRef(f"c{i}", (), type_, i), literals)
        kept = open_reader(path).prune(leaf)
        assert kept.is_none if op is Op.IS_NULL else kept.is_all


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path)
    leaf = Leaf(Op.EQ, ColumnRef("gone", (), parse_type("INT"), 3), (1,))
    assert open_reader(path).prune(leaf).is_all
    with pytest.raises(ValueError, match="column 'gone'"):
        list(open_reader(path).read([DataField(3, "gone", parse_type("INT"))], RowSelection.ALL, 10))
    assert arrow_schema([DataField(0, "x", parse_type("BIGINT"))]).names == ["x"]
