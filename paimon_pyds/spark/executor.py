"""Spark as an `Executor`: tasks travel as rows of a DataFrame, and one function runs over them by mapInArrow.

Neither a SparkContext nor an RDD is touched, so that it runs on Spark Connect too. The workers need this package.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.progress import phase
from paimon_pyds.base.row.encode import hash_ints
from paimon_pyds.errors import OptionError, PaimonError, StorageError
from paimon_pyds.spark import compat
from paimon_pyds.spark.clear_errors import lacks_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

_PIECE_BYTES = 16 << 10
"""Bytes of a row that carries data: Spark hands 10,000 rows to Python at a time, unless it is set otherwise."""
_PIECES = pa.schema(
    [("slot", pa.int32()), ("part", pa.int32()), ("source", pa.int32()), ("number", pa.int64()), ("last", pa.bool_()),
     ("data", pa.binary())]
)  # fmt: skip
_PIECES_DDL = "slot int, part int, source int, number long, last boolean, data binary"
_FAILED = -1
"""The part of an error."""
_MISSING = re.compile(r"No module named '(paimon_pyds|numpy|pyarrow|pyroaring|obstore)\b")
_STORAGE = re.compile(r"^paimon_pyds\.errors\.StorageError: (.+)$", re.MULTILINE)
_TASKS = pa.schema([("number", pa.int32()), ("task", pa.binary())])
_RESULTS = "number int, ok boolean, result binary"


class SparkExecutor:
    """Runs tasks on the workers of a Spark session.

    ``spark``: classic or Connect. ``partitions``: Spark tasks to spread the work over at most; one per task by default,
    1,000 at most.
    """

    def __init__(self, spark: SparkSession, partitions: int | None = None) -> None:
        if partitions is not None and partitions < 1:
            raise OptionError(f"an executor needs at least one partition, not {partitions}")
        self._spark = spark
        self._partitions = partitions or 1000

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """See `paimon_pyds.engine.execution.executor.Executor`. Results come when all tasks are done.

        What a task says of the data (PaimonError) comes back as it is and ends the work; other errors, and those of the
        storage, are Spark's to try again.
        Raises PaimonError: Spark lost or doubled tasks, as it may when it repeats a shuffle that is not sorted.
        """
        if not tasks:
            return
        done = self._collected(self._spread(tasks).mapInArrow(partial(_run_tasks, function), _RESULTS))
        yield from _results(done)
        _check_once(done["number"], len(tasks))

    def shuffle(
        self,
        split: Callable[[T], Iterator[tuple[int, bytes]]],
        tasks: Sequence[T],
        gather: Callable[[int, Iterator[bytes]], R],
        parts: int,
    ) -> Iterator[R]:
        """See `paimon_pyds.engine.execution.executor.ShufflingExecutor`. Results come when all parts are done.

        The data travels as rows of 16 KiB at most, which Spark sorts, and spills where it must.

        ``split``: cuts what a task reads. ``tasks``: plain data. ``gather``: makes a result of a part.
        """
        if not tasks:
            return
        slots = _slots(min(parts, self._partitions))
        pieces = self._spread(tasks).mapInArrow(partial(_split_tasks, split, slots), _PIECES_DDL)
        gathered = pieces.repartition(len(slots), "slot").sortWithinPartitions("part", "source", "number")
        yield from _results(self._collected(gathered.mapInArrow(partial(_gather_parts, gather), _RESULTS)))

    def _collected(self, results: DataFrame) -> pa.Table:
        """All results; meanwhile progress shows how many tasks are done, where Spark reports it."""
        with phase() as step:
            if not step.is_seen:
                return _arrow(results)
            with compat.telling_tasks(self._spark, lambda done, total: step.reach("tasks", done, total)):
                return _arrow(results)

    def _spread(self, tasks: Sequence[Any]) -> DataFrame:
        rows = [array(range(len(tasks)), pa.int32()), array([pickle.dumps(t) for t in tasks], pa.binary())]
        frame = self._spark.createDataFrame(pa.Table.from_arrays(rows, schema=_TASKS))
        return frame.repartition(min(self._partitions, len(tasks)))


def _arrow(frame: DataFrame) -> pa.Table:
    """The rows of a frame. Raises PaimonError where Spark's workers lack this package, or one that it needs;
    StorageError where Spark has given up on a task whose storage failed."""
    try:
        return frame.toArrow()
    except Exception as error:
        missing, failed = _MISSING.search(str(error)), _STORAGE.search(str(error))
        if missing is None and failed is None:
            raise
    if missing is None and failed is not None:
        raise StorageError(failed[1])
    raise PaimonError(lacks_package("another interpreter", missing[1] if missing else "paimon_pyds"))


def _results(done: pa.Table) -> Iterator[Any]:
    """What tasks gave; then the first error is raised. Raises PaimonError: of a task."""
    failure: BaseException | None = None
    for ok, result in zip(done["ok"].to_pylist(), done["result"].to_pylist(), strict=True):
        value = pickle.loads(result)  # noqa: S301 - made by the tasks of this very call
        if ok:
            yield value
        else:
            failure = failure or value
    if failure is not None:
        raise failure


def _slots(count: int) -> npt.NDArray[np.int64]:
    """A number for each partition whose hash in Spark is that partition: each partition gets exactly one."""
    candidates = 16 * count
    while True:
        partitions = hash_ints(np.arange(candidates, dtype=np.int32)).astype(np.int64) % count
        found, first = np.unique(partitions, return_index=True)
        if len(found) == count:
            return first
        candidates *= 2


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
            ok, value = _attempt(function, pickle.loads(task.as_py()))  # noqa: S301 - made on the driver
            yield _result(number.as_py(), ok, value)
            if not ok:
                return


def _attempt(work: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """Whether work ended well, and what came of it: its result, or what it says of the data."""
    try:
        return True, work(*arguments)
    except StorageError:
        raise
    except PaimonError as error:
        return False, error


def _result(number: int, ok: bool, value: object) -> pa.RecordBatch:
    columns = [array([number], pa.int32()), array([ok]), array([pickle.dumps(value)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["number", "ok", "result"])


def _split_tasks(
    split: Callable[[Any], Iterator[tuple[int, bytes]]], slots: npt.NDArray[np.int64], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Before the shuffle: the data of tasks, cut into rows that Spark can hold many of."""
    for batch in batches:
        for source, task in zip(batch.column("number").to_pylist(), batch.column("task").to_pylist(), strict=True):
            number = 0
            data = split(pickle.loads(task))  # noqa: S301 - made on the driver for this task
            while True:
                ok, found = _attempt(next, data, None)
                if found is None:
                    break
                part, whole = found if ok else (_FAILED, pickle.dumps(found))
                pieces = [whole[at : at + _PIECE_BYTES] for at in range(0, max(1, len(whole)), _PIECE_BYTES)]
                count = len(pieces)
                columns = [
                    array([int(slots[part % len(slots)])] * count, pa.int32()),
                    array([part] * count, pa.int32()),
                    array([source] * count, pa.int32()),
                    array(range(number, number + count), pa.int64()),
                    array([False] * (count - 1) + [True]),
                    array(pieces, pa.binary()),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=_PIECES)
                number += count
                if not ok:
                    return


def _gather_parts(
    gather: Callable[[int, Iterator[bytes]], Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """After the shuffle: a result for each part, until one fails."""
    names = ("part", "last", "data")
    rows = (row for batch in batches for row in zip(*(batch.column(n).to_pylist() for n in names), strict=True))
    for part, pieces in groupby(rows, itemgetter(0)):
        data = _joined(pieces)
        if part == _FAILED:
            yield _result(part, False, pickle.loads(next(data)))  # noqa: S301 - made by a task of this very call
            return
        ok, value = _attempt(gather, part, data)
        yield _result(part, ok, value)
        if not ok:
            return


def _joined(pieces: Iterator[tuple[int, bool, bytes]]) -> Iterator[bytes]:
    whole: list[bytes] = []
    for _, last, data in pieces:
        whole.append(data)
        if last:
            yield b"".join(whole)
            whole.clear()
