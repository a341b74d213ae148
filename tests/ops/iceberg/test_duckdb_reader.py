"""DuckDB's Iceberg extension sees what Paimon's readers see."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.effort import LONG, SEED
from support.iceberg_reader import texts
from support.iceberg_world import KINDS, made, shown, step
from support.peers import PYTHON

_WORKER = Path(__file__).parents[2] / "support" / "workers" / "duckdb_worker.py"


@pytest.fixture(scope="module")
def by_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], pa.Table]]:
    """Reads a table by its metadata file."""
    if not list(PYTHON.parents[1].glob("lib/*/site-packages/duckdb_ext_iceberg*")):
        (pytest.fail if os.environ.get("REQUIRE_PEERS") else pytest.skip)("needs DuckDB's extensions: make pypaimon")
    rows = tmp_path_factory.mktemp("duckdb") / "rows.arrow"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    process = subprocess.Popen(
        [PYTHON, _WORKER, rows], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdin is not None
    assert process.stdout is not None
    given, answers = process.stdin, process.stdout

    def read(metadata: Path) -> pa.Table:
        print(metadata, file=given, flush=True)
        answer = answers.readline().strip()
        assert answer == "ok", answer
        with pa.OSFile(str(rows)) as file:
            return pa.ipc.open_file(file).read_all()

    yield read
    process.communicate()


@pytest.mark.parametrize("seed", range(8 if LONG else 1))
@pytest.mark.parametrize("kind", KINDS)
def test_duckdb_sees_each_state(
    kind: str, seed: int, tmp_path: Path, by_duckdb: Callable[[Path], pa.Table]
) -> None:  # fmt: skip
    draw, done = random.Random(f"{kind} {seed} {SEED}"), list[str]()
    table = made(tmp_path, kind, **{"metadata.iceberg.manifest-compression": "snappy"})  # it knows no other codec
    for number in range(30 if LONG else 6):
        done.append(step(table, draw, number))
        if table.snapshots.latest() is None:
            continue
        [path] = Path(table.path, "metadata").glob("v*.metadata.json")
        if json.loads(path.read_text())["current-schema-id"] == table.schema.id:  # else the next commit publishes it
            expected = shown(table)
            found = by_duckdb(path).select(expected.schema.names).cast(expected.schema)
            assert texts(found) == texts(expected), done
