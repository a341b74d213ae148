"""Spark as an `Executor`: tasks travel as rows of a DataFrame, and one function runs over them by mapInArrow.

Neither a SparkContext nor an RDD is touched, so that it runs on Spark Connect too. The workers need this package.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from paimon_pyds.errors import OptionError, PaimonError, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

_TASKS = pa.schema([("number", pa.int32()), ("task", pa.binary())])
_RESULTS = "number int, ok boolean, result binary"


class SparkExecutor:
    """Runs tasks on the workers of a Spark session.

    Args:
        spark: classic or Connect.
        partitions: Spark tasks to spread the work over at most; one per task by default, 1,000 at most.
    """

    def __init__(self, spark: SparkSession, partitions: int | None = None) -> None:
        if partitions is not None and partitions < 1:
            raise OptionError(f"an executor needs at least one partition, not {partitions}")
        self._spark = spark
        self._partitions = partitions or 1000

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """See `paimon_pyds.execution.executor.Executor`. Results come when all tasks are done.

        What a task says of the data (PaimonError) comes back as it is and ends the work; other errors, and those of the
        storage, are Spark's to try again.

        Raises:
            PaimonError: Spark lost or doubled tasks, as it may when it repeats a shuffle that is not sorted.
        """
        if not tasks:
            return
        rows = [pa.array(range(len(tasks)), pa.int32()), pa.array([pickle.dumps(t) for t in tasks], pa.binary())]
        frame = self._spark.createDataFrame(pa.Table.from_arrays(rows, schema=_TASKS))
        spread = frame.repartition(min(self._partitions, len(tasks)))
        done = spread.mapInArrow(partial(_run_tasks, function), _RESULTS).toArrow()
        failure: BaseException | None = None
        for ok, result in zip(done["ok"].to_pylist(), done["result"].to_pylist(), strict=True):
            value = pickle.loads(result)  # noqa: S301 - made by the tasks of this very call
            if ok:
                yield value
            else:
                failure = failure or value
        if failure is not None:
            raise failure
        _check_once(done["number"], len(tasks))


def _check_once(numbers: pa.ChunkedArray, tasks: int) -> None:
    found = numbers.unique()
    if len(found) != tasks or len(numbers) != tasks:
        doubled = len(numbers) - len(found)
        raise PaimonError(
            f"Spark ran {len(found)} of {tasks} tasks" + (f", and {doubled} of them more than once" if doubled else ""),
            hint="run it again, with spark.sql.execution.sortBeforeRepartition on (the default)",
        )


def _run_tasks(function: Callable[[Any], Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What each Spark task runs: the function over its rows, until it fails."""
    for batch in batches:
        for number, task in zip(batch.column("number"), batch.column("task"), strict=True):
            ok = True
            try:
                value = function(pickle.loads(task.as_py()))  # noqa: S301 - made on the driver for this task
            except StorageError:
                raise
            except PaimonError as error:
                ok, value = False, error
            columns = [
                pa.array([number.as_py()], pa.int32()),
                pa.array([ok]),
                pa.array([pickle.dumps(value)], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, names=["number", "ok", "result"])
            if not ok:
                return
