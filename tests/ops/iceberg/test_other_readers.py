"""DuckDB's Iceberg extension, and Spark with Iceberg's runtime, see what Paimon's readers see."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import LONG, SEED
from support.fixtures import ROOT
from support.iceberg_reader import reading_by, runtime, texts
from support.iceberg_world import KINDS, made, shown, step
from support.peers import PYTHON


@pytest.fixture(scope="module")
def by_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], pa.Table]]:
    """Reads a table by its metadata file."""
    if not list(PYTHON.parents[1].glob("lib/*/site-packages/duckdb_ext_iceberg*")):
        (pytest.fail if os.environ.get("REQUIRE_PEERS") else pytest.skip)("needs DuckDB's extensions: make pypaimon")
    with reading_by(PYTHON, "duckdb_worker.py", tmp_path_factory.mktemp("duckdb") / "rows.arrow") as read:
        yield read


def is_shown(table: pp.Table) -> bool:
    """Whether there is a state to read. A changed schema is published with the next commit."""
    found = [json.loads(path.read_text()) for path in Path(table.path, "metadata").glob("v*.metadata.json")]
    return [metadata["current-schema-id"] for metadata in found] == [table.schema.id]


@pytest.mark.parametrize("seed", range(8 if LONG else 1))
@pytest.mark.parametrize("kind", KINDS)
def test_duckdb_sees_each_state(
    kind: str, seed: int, tmp_path: Path, by_duckdb: Callable[[Path], pa.Table]
) -> None:  # fmt: skip
    draw, done = random.Random(f"{kind} {seed} {SEED}"), list[str]()
    table = made(tmp_path, kind, **{"metadata.iceberg.manifest-compression": "snappy"})  # it knows no other codec
    for number in range(30 if LONG else 6):
        done.append(step(table, draw, number))
        if is_shown(table):
            [path] = Path(table.path, "metadata").glob("v*.metadata.json")
            expected = shown(table)
            found = by_duckdb(path).select(expected.schema.names).cast(expected.schema)
            assert texts(found) == texts(expected), done


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_spark_sees_the_same_rows(kind: str, tmp_path: Path, by_spark: Callable[[Path], pa.Table]) -> None:
    draw, done = random.Random(f"{kind} {SEED}"), list[str]()
    table = made(tmp_path, kind)
    for number in range(20):
        done.append(step(table, draw, number))
        if is_shown(table):
            expected = shown(table)
            found = by_spark(Path(table.path)).select(expected.schema.names).cast(expected.schema)
            assert texts(found) == texts(expected), done


@pytest.fixture(scope="module")
def by_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], pa.Table]]:
    """Reads a table by its directory. Iceberg has no runtime for the newest Spark."""
    python = ROOT / ".venvs" / "oldest" / "bin" / "python"
    if not python.is_file():
        pytest.skip("needs Spark 4.0: make oldest")
    rows = tmp_path_factory.mktemp("spark") / "rows.arrow"
    with reading_by(python, "iceberg_spark_worker.py", runtime(), rows) as read:
        yield read
