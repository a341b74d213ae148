"""Work spread by Spark: each task's result counts once, whatever Spark makes of the rows that carry the tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from paimon_pyds.errors import CorruptFileError, PaimonError
from paimon_pyds.spark.executor import SparkExecutor

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]


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


PARTS = 7


def shuffled() -> tuple[Callable[..., Any], ...]:
    """What is run on both sides of a shuffle; inner functions, which workers need no module of."""

    def by_part(number: int) -> Iterator[tuple[int, bytes]]:
        """Data of all parts, in two rounds: short ones, and some that need several rows to travel."""
        for turn in range(2):
            for part in reversed(range(PARTS)):
                if number == 3 and part == 2 and turn:
                    raise CorruptFileError("task 3")
                yield part, f"{number}.{turn}.{part} ".encode() * (1 if part % 2 else 5_000)
        yield PARTS - 1, b""

    def gathered(part: int, data: Iterator[bytes]) -> tuple[int, int, list[str]]:
        """What came, and where."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if part == 5:
            next(data)
            return part, context.partitionId(), []  # what it leaves is no other part's
        return part, context.partitionId(), [piece.decode().split(" ")[0] for piece in data]

    def refused(part: int, data: Iterator[bytes]) -> int:
        if part == 1:
            raise CorruptFileError("part 1")
        return part

    return by_part, gathered, refused


def test_each_part_gets_its_data_in_order_and_a_task_of_its_own(spark: Any) -> None:
    by_part, gathered, _ = shuffled()
    found = sorted(SparkExecutor(spark).shuffle(by_part, [0, 1, 2], gathered, PARTS))
    assert [part for part, _, _ in found] == list(range(PARTS))
    assert len({task for _, task, _ in found}) == PARTS
    for part, _, data in found:
        expected = [f"{number}.{turn}.{part}" for number in range(3) for turn in range(2)]
        if part == PARTS - 1:
            expected = [name for number in range(3) for name in (*expected[2 * number : 2 * number + 2], "")]
        assert data == ([] if part == 5 else expected)
    assert list(SparkExecutor(spark).shuffle(by_part, [], gathered, PARTS)) == []


def test_an_error_before_or_after_a_shuffle_comes_after_the_results(spark: Any) -> None:
    by_part, gathered, refused = shuffled()
    for number, gather, message in ((3, gathered, "task 3"), (0, refused, "part 1")):
        found = []
        with pytest.raises(CorruptFileError, match=message):
            for result in SparkExecutor(spark, 2).shuffle(by_part, [number], gather, PARTS):
                found.append(result)  # noqa: PERF402
        assert found
