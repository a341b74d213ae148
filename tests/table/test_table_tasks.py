"""Scans as a dataset of Ray and a frame of Daft. Both are large: tests run where they are installed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp

# Ray warns of its own options.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
ROWS = {"p": [1, 1, 2, 3], "id": [1, 2, 3, 4], "v": ["a", None, "c", "d"]}


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    made: pp.Table = pp.Table.create(
        tmp_path / "t", ROWS, partition_by=["p"], options={"source.split.target-size": "1 b"}
    )
    made.append({"p": [1], "id": [5], "v": ["e"]})
    made.delete("id = 2")
    return made


def test_tasks_pickle_and_have_each_row_once(table: pp.Table) -> None:
    scan = table.scan("id <> 3", columns=["id", "v"])
    tasks = pickle.loads(pickle.dumps(scan._read_tasks()))
    assert len(tasks) > 1
    found = pa.concat_tables([part for task in tasks for part in task()])
    assert found.schema == scan.arrow_schema
    assert found.sort_by("id") == scan.to_arrow().sort_by("id")
    assert not table.scan("false")._read_tasks()


@pytest.fixture(scope="module")
def ray() -> Any:
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("given", [{}, {"where": "id > 2", "columns": ["v", "id"]}, {"limit": 2}, {"where": "id > 9"}])
def test_ray(given: dict[str, Any], table: pp.Table, ray: Any) -> None:
    scan = table.scan(**given)
    rows = scan.to_ray().take_all()
    assert sorted(rows, key=lambda row: row["id"]) == scan.to_arrow().sort_by("id").to_pylist()


def test_rows_of_ray_are_appended(table: pp.Table, ray: Any) -> None:
    table.append(table.scan("id = 4").to_ray())
    assert table.count("id = 4") == 2


@pytest.mark.parametrize("given", [{}, {"where": "id > 2", "columns": ["v", "id"]}, {"limit": 2}, {"where": "id > 9"}])
def test_daft(given: dict[str, Any], table: pp.Table) -> None:
    pytest.importorskip("daft")
    scan = table.scan(**given)
    assert scan.to_daft().to_arrow().sort_by("id").to_pylist() == scan.to_arrow().sort_by("id").to_pylist()


def test_daft_reads_what_a_query_needs(table: pp.Table) -> None:
    daft = pytest.importorskip("daft")
    [gone] = set(table.scan("p = 2").plan().paths)
    Path(gone).unlink()
    found = table.scan().to_daft().where((daft.col("p") == 1) & (daft.col("v") != "x")).select("id")
    assert sorted(found.to_pydict()["id"]) == [1, 5]
    assert table.scan("p = 3").to_daft().count_rows() == 1
    table.append(table.scan("p = 3").to_daft())
    assert table.count("p = 3") == 2
