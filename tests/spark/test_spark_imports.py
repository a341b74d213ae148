"""What a planning process of Spark pays for importing the data source: nothing that pyspark did not import already."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp

pytest.importorskip("pyspark", reason="needs pyspark")

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "pyarrow",
    "numpy",
    "pandas",
    "fastavro",
    "pyroaring",
    "xxhash",
    "difflib",
    "concurrent.futures.thread",
    "sqlglot",
}


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=600
    )


def imported(code: str, before: str) -> set[str]:
    """Modules that ``code`` imports and ``before`` did not."""
    after = "print(json.dumps(sorted(set(sys.modules) - known)))"
    script = f"import sys, json\n{before}\nknown = set(sys.modules)\n{code}\n{after}"
    return set(json.loads(python(script).stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", ["pyspark_paimon", "pyspark_paimon_pyds", "paimon_pyds.spark.source", "paimon_pyds"])
def test_importing_the_source_costs_nothing_heavy(module):
    new = imported(f"import {module}", "import pyspark.sql.datasource")
    assert not HEAVY & new
    assert {name for name in new if not name.startswith(("paimon_pyds", "pyspark_paimon", "pyspark"))} <= {"__future__"}
    assert "paimon_pyds.base.types" not in new


def test_importing_the_package_does_not_import_pyspark():
    assert not {name for name in imported("import paimon_pyds, paimon_pyds.spark", "") if name.startswith("pyspark")}


def test_reading_a_schema_needs_no_file_format(tmp_path):
    code = f"""
import pyarrow
from paimon_pyds.spark.source import PaimonDataSource
print(PaimonDataSource({{"path": {str(tmp_path / "t")!r}}}).schema().simpleString())
"""
    pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int32())]))
    new = imported(code, "import pyspark.sql.worker.create_data_source")
    # pyarrow itself imports pandas with the first array or scalar that is made, where pandas is installed.
    assert not {"pyarrow.dataset", "pyarrow.parquet", "pyarrow.orc", "pyarrow.fs", "fastavro", "sqlglot"} & new


@pytest.mark.parametrize("module", ["pyspark_paimon", "pyspark_paimon_pyds"])
def test_a_broken_installation_does_not_break_other_sources(module):
    broken = "import sys; sys.modules['paimon_pyds.spark.source'] = None"
    code = f"{broken}; import {module}; print(hasattr({module}, 'DefaultSource'))"
    done = python(code)
    assert done.stdout.strip() == "False"
    assert "PYSPARK_PYTHON must be the interpreter" in done.stderr


@pytest.mark.parametrize(("module", "name"), [("pyspark_paimon", "paimon"), ("pyspark_paimon_pyds", "paimon_pyds")])
def test_spark_finds_the_sources_by_their_modules(module, name):
    code = f"""
from pkgutil import iter_modules
from importlib import import_module
from pyspark.sql.datasource import DataSource
assert {module!r} in [m.name for m in iter_modules()]
source = import_module({module!r}).DefaultSource
assert issubclass(source, DataSource)
print(source.name())
"""
    assert python(code).stdout.strip() == name
