"""Lazy frames of polars: exact for every condition, and narrowed where indexes and statistics can help."""

from __future__ import annotations

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.lazy_polars import as_sql

pl = pytest.importorskip("polars")

DATA = {
    "id": pa.array([*range(-5, 195)], pa.int32()),
    "s": pa.array([None if n % 7 == 0 else f"k'{n % 11}\\" for n in range(200)]),
    "v": pa.array([float("nan") if n % 13 == 0 else (None if n % 17 == 0 else (n - 100) / 4) for n in range(200)]),
    "b": pa.array([None if n % 5 == 0 else n % 2 == 0 for n in range(200)]),
    "r": pa.array([{"x": n, "y": "a"} for n in range(200)]),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    path = tmp_path_factory.mktemp("polars") / "t"
    made = pp.Table.create(path, pa.table(DATA).schema, options={"file-index.bitmap.columns": "s"})
    whole = pa.table(DATA)
    for start in range(0, 200, 50):
        made.append(whole.slice(start, 50))
    return made


c = pl.col
CONDITIONS = [
    c("id") == 7, c("id") != 7, 10 > c("id"), c("id") >= -2, c("s") == "k'3\\", c("s") > "k'4", c("v") > 1.5,
    c("v") == float("nan"), c("v") >= -0.0, c("v").is_null(), c("b"), ~c("b"), c("b").is_not_null(),
    c("id").is_in([1, 2, 500]), c("id").is_between(3, 60), c("id").is_between(3, 60, closed="none"),
    (c("id") < 20) & (c("s").str.len_chars() > 3), (c("id") < 20) | (c("s").is_in(["k'1\\"])),
    ~((c("id") < 20) | c("s").is_null()),
    (c("id") > 3.5) & (c("v") < 1e-7), c("id") + 1 == 8, c("r").struct.field("x") > 150, (c("id") == 7).not_(),
    c("id") > 2**40, c("v").is_nan(), c("s").eq_missing(None), c("id") > c("v"),
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_each_condition_is_exact(table: pp.Table, condition: pl.Expr) -> None:
    lazy, whole = table.scan().scan_polars(), table.to_polars()
    assert lazy.filter(condition).collect().equals(whole.filter(condition), null_equal=True)
    assert lazy.filter(condition).select("b").collect().equals(whole.filter(condition).select("b"))
    assert lazy.filter(condition).head(3).collect().equals(whole.filter(condition).head(3))
    assert lazy.head(30).filter(condition).collect().equals(whole.head(30).filter(condition))
    assert lazy.filter(condition).select(pl.len()).collect().item() == len(whole.filter(condition))


def test_what_is_narrowed(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    scans = []
    read = pp.scan.Scan.to_batches
    monkeypatch.setattr(pp.scan.Scan, "to_batches", lambda scan, **how: (scans.append(scan), read(scan, **how))[1])
    found = table.scan().scan_polars().filter((c("id") == 7) & (c("s").str.len_chars() > 1)).select("v").collect()
    assert len(found) == 1
    assert len(scans) == 1
    assert set(scans[0].column_names) == {"id", "s", "v"}
    assert len(scans[0].plan().files) == 1


def test_a_limit_and_an_order_are_asked_of_all_rows(table: pp.Table) -> None:
    for scan in (table.scan(limit=20), table.scan(top_n="id desc, 5"), table.scan("id > 100", limit=3)):
        whole = scan.to_polars()
        for condition in (c("id") < 10, c("id") > 150):
            assert scan.scan_polars().filter(condition).collect().equals(whole.filter(condition))
    changes = table.scan(options={"incremental-between": "1,3"})
    assert changes.scan_polars().filter(c("id") > 60).collect().equals(changes.to_polars().filter(c("id") > 60))


def test_hidden_columns(table: pp.Table) -> None:
    scan = table.scan("id > 3", columns=["id", "s", "__paimon_row_index"])
    lazy = scan.scan_polars().filter(c("__paimon_row_index") > 30).select("__paimon_row_index", "id")
    assert lazy.collect().equals(
        scan.to_polars().filter(c("__paimon_row_index") > 30).select("__paimon_row_index", "id")
    )


def test_streams_and_what_says_nothing(table: pp.Table) -> None:
    assert len(table.system.audit_log().scan_polars().filter(c("id") > 100).collect()) == 94
    assert as_sql(c("id") > 3, {}) is None
