"""What Spark's Python workers look through for garbage after each task."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import pyarrow as pa

from paimon_pyds.spark.worker_memory import Modules

pytestmark = pytest.mark.spark


def test_modules_are_left_out_when_there_are_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(len(sys.modules)))
    Modules(in_worker=False).keep()
    assert not frozen
    modules = Modules(in_worker=True)
    modules.keep()
    modules.keep()
    assert len(frozen) == 1
    monkeypatch.setitem(sys.modules, "a module of the next task", sys)
    modules.keep()
    modules.keep()
    assert len(frozen) == 2


def test_a_worker_of_spark_leaves_them_out(spark: Any) -> None:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        from paimon_pyds.spark.clear_errors import clear_iterator

        for _ in clear_iterator(batches):
            yield pa.record_batch({"n": [gc.get_freeze_count()]})

    [row] = spark.range(0, 1, 1, 1).mapInArrow(count, "n long").collect()
    assert row.n > 10_000
