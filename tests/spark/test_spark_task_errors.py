"""A data file that is gone, a directory or cut off in tasks of functions: the error is a PaimonError that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
import paimon_pyds.spark as paimon
from paimon_pyds.errors import PaimonError
from paimon_pyds.spark.executor import _arrow
from support.effort import LONG, sampled

pytestmark = pytest.mark.spark

_SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])
_OPTIONS = {"file-index.bitmap.columns": "s", "bucket": "2", "bucket-key": "id"}
_DAMAGES = ["gone", "directory", "cut off"]
_FUNCTIONS: dict[str, Callable[[Any, str], Any]] = {
    "delete": lambda spark, path: paimon.delete(spark, path, "id % 7 = 1"),
    "update": lambda spark, path: paimon.update(spark, path, {"s": "concat(s, 'x')"}, "id % 7 = 1"),
    "compact": lambda spark, path: paimon.compact(spark, path, full=True),
    "index.build": lambda spark, path: paimon.index.build(spark, path, rebuild=True),
    "rescale": lambda spark, path: paimon.maintenance.rescale(spark, path, 4),
}


def _damaged(path: Path, key: str | None, damage: str) -> tuple[pp.Table, str]:
    options = _OPTIONS if key else _OPTIONS | {"deletion-vectors.enabled": "true"}
    table = pp.Table.create(path, _SCHEMA, primary_key=key, options=options)
    for start in range(0, 200, 50):
        table.append([{"id": id_, "s": f"s{id_ % 5}"} for id_ in range(start, start + 60)])
    file = Path(table.scan().plan().paths[0])
    whole = file.read_bytes()
    file.unlink()
    if damage == "directory":
        file.mkdir()
    elif damage == "cut off":
        file.write_bytes(whole[:50])
    return table, file.name


@pytest.mark.slow
@pytest.mark.parametrize("key", sampled([None, "id"], 1))
def test_the_error_names_the_file(spark: Any, tmp_path: Path, key: str | None) -> None:
    """Each error ends a worker. In long runs each function meets each damage, else they take turns."""
    for number, (name, call) in enumerate(_FUNCTIONS.items()):
        for damage in _DAMAGES if LONG else [_DAMAGES[number % len(_DAMAGES)]]:
            table, file = _damaged(tmp_path / f"t{number} {damage}", key, damage)
            with pytest.raises(PaimonError) as caught:
                call(spark, table.path)
            assert file in str(caught.value), (name, damage)


@pytest.mark.parametrize("package", ["paimon_pyds", "numpy", "pyarrow"])
def test_workers_that_lack_a_package(package: str) -> None:
    """Their interpreter may find this package in the directory of the driver, and nothing that it needs."""

    class Frame:
        def toArrow(self) -> pa.Table:
            raise RuntimeError(f"a long trace\nModuleNotFoundError: No module named '{package}'\n")

    with pytest.raises(PaimonError, match=rf"which has no {package} — set the environment variable PYSPARK_PYTHON"):
        _arrow(Frame())
