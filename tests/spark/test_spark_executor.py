"""Work spread by Spark: each task's result counts once, whatever Spark makes of the rows that carry the tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from paimon_pyds.errors import CorruptFileError, PaimonError
from paimon_pyds.spark.executor import SparkExecutor

pytestmark = pytest.mark.spark


class Session:
    """What the executor asks of a session; ``spread`` stands for the shuffle that gives tasks to partitions."""

    def __init__(self, spread: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
        self._spread = spread
        self._rows: pa.Table = None
        self._run: Any = None

    def createDataFrame(self, rows: pa.Table) -> Session:
        self._rows = rows
        return self

    def repartition(self, count: int) -> Session:
        self._rows = self._spread(self._rows)
        return self

    def mapInArrow(self, function: Any, schema: str) -> Session:
        self._run = function
        return self

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches(self._results())

    def _results(self) -> Iterator[pa.RecordBatch]:
        for batch in self._rows.to_batches(max_chunksize=1):
            yield from self._run(iter([batch]))


def double(number: int) -> int:
    if number < 0:
        raise CorruptFileError(f"task {number}")
    return 2 * number


def given(session: Session, tasks: list[int], error: type[Exception], match: str) -> list[int]:
    """The results that come before an error."""
    found = []
    with pytest.raises(error, match=match):
        for result in SparkExecutor(session).map(double, tasks):  # type: ignore[arg-type]
            found.append(result)  # noqa: PERF402 - the list is looked at after the error
    return found


def test_each_result_comes_once() -> None:
    assert sorted(SparkExecutor(Session()).map(double, range(5))) == [0, 2, 4, 6, 8]  # type: ignore[arg-type]


def test_a_task_that_fails_comes_last() -> None:
    assert sorted(given(Session(), [1, -1, 3], CorruptFileError, "task -1")) == [2, 6]


def test_a_task_that_a_repeated_shuffle_lost_is_missed() -> None:
    session = Session(lambda rows: rows.take([0, 2]))
    assert sorted(given(session, [1, 2, 3], PaimonError, "ran 2 of 3 tasks")) == [2, 6]


def test_a_task_that_a_repeated_shuffle_doubled_is_noticed() -> None:
    session = Session(lambda rows: rows.take([0, 1, 1, 2]))
    found = given(session, [1, 2, 3], PaimonError, "1 of them more than once")
    assert sorted(found) == [2, 4, 4, 6]  # all of them: who wrote files removes both
