"""Java Paimon on the same tables of HDFS, in turn; at once in `test_interop_at_once`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import sampled
from support.oracle import Oracle, requires_java_oracle
from support.servers import MiniHdfs

pytestmark = requires_java_oracle
SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.string())])
_NUMBERS = itertools.count()


@pytest.fixture
def warehouse(mini_hdfs: MiniHdfs) -> str:
    return f"{mini_hdfs.root}/java/{next(_NUMBERS)}"


@pytest.fixture
def java(oracle: Oracle, mini_hdfs: MiniHdfs, warehouse: str, tmp_path: Path) -> Callable[..., list[str]]:
    """Java Paimon, which is given the same options."""
    options_file = tmp_path / "options"
    options = mini_hdfs.settings | {"warehouse": warehouse}
    options_file.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
    return lambda *arguments: oracle.program("CatalogOracle", options_file, *arguments)


def _rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int32()), "v": [f"python {i}" for i in ids]}, SCHEMA)


def _read(table: pp.Table) -> list[str]:
    return [f"{row['id']}\t{row['v']}" for row in table.scan().to_arrow().sort_by("id").to_pylist()]


@pytest.mark.parametrize("keyed", sampled([False, True], 1), ids="keyed={}".format)
def test_in_turn(java: Callable[..., list[str]], mini_hdfs: MiniHdfs, warehouse: str, keyed: bool) -> None:
    java("create", "shop.t", str(keyed).lower())
    java("write", "shop.t", 0, 3, 2)
    catalog = pp.Catalog(warehouse, mini_hdfs.settings)
    assert (catalog.databases(), catalog.tables("shop")) == (["default", "shop"], ["t"])
    table = catalog.table("shop.t")
    assert _read(table) == [f"{i}\tjava {i}" for i in range(6)]
    table.append(_rows(4, 4))
    table.delete("id = 1")
    table.compact(full=True)
    table.tags.create("now")
    table.branches.create("b", "now")
    java("write", "shop.t$branch_b", 30, 1, 1)
    java("write", "shop.t", 8, 2, 1)
    expected = _read(catalog.table("shop.t"))
    assert len(expected) == (9 if keyed else 11)
    assert sorted(java("read", "shop.t")) == sorted(expected)
    assert _read(catalog.table("shop.t$branch_b"))[-1] == "30\tjava 30"
    table.snapshots.expire(retain_max=1, retain_min=1)
    table.maintenance.remove_orphan_files("0 s", dry_run=False)
    assert catalog.table("shop.t").maintenance.verify(deep=True).ok
    catalog.rename_table("shop.t", "shop.u")
    assert sorted(java("read", "shop.u")) == sorted(expected)
    catalog.drop_table("shop.u")
    assert catalog.tables("shop") == []
