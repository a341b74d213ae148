"""Planning a query does without pandas, and often without pyarrow.compute, which take longer to import than most plans
to make."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp

_PLAN = """
import json, sys
import paimon_pyds as pp
for where in json.loads(sys.argv[2]):
    plan = pp.Table.open(sys.argv[1]).scan(where).plan()
    assert "pandas" not in sys.modules
    print(len(plan.files), sum(len(split.files) for split in plan.splits), "pyarrow.compute" in sys.modules)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("pandas")
    root = str(tmp_path_factory.mktemp("imports") / "t")
    schema = pa.schema([("p", pa.int32()), ("q", pa.string()), ("n", pa.int64()), ("s", pa.string())])
    table = pp.Table.create(root, schema, partition_by=["p", "q"], options={"bucket": "2", "bucket-key": "n"})
    rows = [{"p": i % 3, "q": f"q{i % 2}", "n": i, "s": f"text {i}"} for i in range(60)]
    table.append(pa.Table.from_pylist(rows, schema))
    return root


_BY_PARTITION = ("", "p = 1", "q = 'q1' AND p >= 1", "p IN (0, 2) AND q <> 'q1'")


_OTHERS = ("q LIKE 'q%' OR n < 4", "n = 17", "s > 'text 3' AND p IS NOT NULL")


def test_planning_imports_no_pandas(path: str) -> None:
    filters = [*_BY_PARTITION, *_OTHERS]
    command = [sys.executable, "-c", _PLAN, path, json.dumps(filters)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for filter_, line in zip(filters, done.stdout.splitlines(), strict=True):
        files, in_splits, computed = line.split()
        assert int(files) == int(in_splits) == len(pp.Table.open(path).scan(filter_).plan().files), filter_
        assert computed == "False" or filter_ not in _BY_PARTITION, filter_


def test_a_first_read_of_joined_files_imports_no_compute(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = pp.Table.create(tmp_path / "t", "id INT, n INT", options=options)
    table.append([{"id": 1, "n": 2}])
    table.update({"n": "3"})
    code = (
        "import sys; import paimon_pyds as pp; rows = pp.Table.open(sys.argv[1]).scan().to_arrow(); "
        "print(rows.to_pylist(), {'pyarrow.compute', '_hashlib', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, table.path], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[{'id': 1, 'n': 3}] set()", done.stderr


_UNUSED = {
    "base.absent_fields", "base.frames", "base.options.describe", "base.options.iceberg", "base.python_values",
    "base.row.encode", "base.sort", "engine.query.blob_views", "engine.read.merged_files",
    "engine.read.metadata_columns", "format.avro.batch_decode", "format.avro.encode", "format.blob.references",
    "format.parquet.gather_values", "format.parquet.index_runs", "format.parquet.sorted_column", "format.protocols",
    "format.shared_maps", "index", "keys.merge.files_to_merge", "keys.merge.key_set", "keys.merge.merger",
    "metadata.column_files", "metadata.manifest_records", "sql.expression.functions", "sql.predicate.among",
    "sql.predicate.compare", "sql.predicate.disjunction", "sql.predicate.like", "sql.predicate.literal_bounds",
    "sql.text.casts", "sql.text.intervals", "storage.local_writes", "storage.object_store",
}  # fmt: skip
"""Modules that a filter by one value of a plain table has no need of."""
_READING = {"engine.read.file", "engine.read.split_read", "format.parquet.reader", "pyarrow._parquet"}

_ANSWER = """
import sys
import paimon_pyds as pp
scan = pp.Table.open(sys.argv[1]).scan("n = 17")
scan.plan()
print(*sys.modules)
rows = scan.to_arrow().num_rows
print(*sys.modules)
print(rows)
"""


def test_a_first_answer_loads_only_what_it_uses(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"n": [*range(60)], "s": [f"text {i}" for i in range(60)]})
    done = subprocess.run([sys.executable, "-c", _ANSWER, table.path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    planned, read, rows = done.stdout.splitlines()
    assert rows == "1"
    loaded = [{name.removeprefix("paimon_pyds.") for name in line.split()} for line in (planned, read)]
    assert _UNUSED & loaded[1] == set()
    assert (_UNUSED | _READING) & loaded[0] == set()
    assert loaded[1] >= _READING
