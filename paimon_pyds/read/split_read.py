"""Splits → Arrow batches: one file after the other, or several files at a time on threads, always in plan order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from paimon_pyds.read.file import DEFAULT_BATCH_ROWS, FileTrace, read_file
from paimon_pyds.scan.split import FileTask, ReadSpec, Split, result_schema

__all__ = ["read_split", "read_splits"]

_QUEUED_BATCHES = 4
"""Batches that a file may be ahead of its consumer: bounds memory to a few row groups per thread."""


def read_split(
    split: Split,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    *,
    limit: int | None = None,
    on_file: Callable[[FileTrace], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The split's surviving rows, with the schema `result_schema(split.spec)`.

    Args:
        split: what to read.
        batch_rows: rows in a batch at most.
        limit: stop after so many rows.
        on_file: called with the trace of each file when it is done.
    """
    left = limit
    for task in split.tasks:
        trace = FileTrace(task.path, task.row_count)
        for batch in read_file(split.spec, task, batch_rows=batch_rows, trace=trace):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                break
        if on_file is not None:
            on_file(trace)
        if left == 0:
            return


def read_splits(
    spec: ReadSpec,
    tasks: Sequence[FileTask],
    batch_rows: int = DEFAULT_BATCH_ROWS,
    *,
    limit: int | None = None,
    threads: int = 2,
    on_file: Callable[[FileTrace], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Surviving rows of these files in order, reading up to ``threads`` files at a time.

    Memory is bounded: each thread decodes one file and stays a few batches ahead of the consumer.
    """
    if threads <= 1 or len(tasks) <= 1 or limit is not None:
        yield from read_split(Split(spec, tuple(tasks)), batch_rows, limit=limit, on_file=on_file)
        return
    yield from _Pipeline(spec, tasks, batch_rows, min(threads, len(tasks)), on_file).run()


class _Pipeline:
    """Threads that read files ahead, each file into a short queue of its own; the consumer drains them in order."""

    def __init__(
        self,
        spec: ReadSpec,
        tasks: Sequence[FileTask],
        batch_rows: int,
        threads: int,
        on_file: Callable[[FileTrace], None] | None,
    ) -> None:
        self._spec = spec
        self._tasks = tasks
        self._batch_rows = batch_rows
        self._threads = threads
        self._on_file = on_file
        self._queues: list[queue.Queue[object]] = [queue.Queue(_QUEUED_BATCHES) for _ in tasks]
        self._next = iter(range(len(tasks)))
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self) -> Iterator[pa.RecordBatch]:
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(self._threads)]
        for worker in workers:
            worker.start()
        try:
            for number, queue_ in enumerate(self._queues):
                while True:
                    item = queue_.get()
                    if isinstance(item, FileTrace):
                        if self._on_file is not None:
                            self._on_file(item)
                        break
                    if isinstance(item, BaseException):
                        raise item
                    yield item
                self._queues[number] = queue.Queue(1)  # drop what the file held
        finally:
            self._stopped.set()
            for worker in workers:
                worker.join()

    def _work(self) -> None:
        while not self._stopped.is_set():
            with self._lock:
                number = next(self._next, None)
            if number is None:
                return
            queue_ = self._queues[number]
            try:
                trace = FileTrace(self._tasks[number].path, self._tasks[number].row_count)
                batches = read_file(self._spec, self._tasks[number], batch_rows=self._batch_rows, trace=trace)
                for batch in batches:
                    if not self._put(queue_, batch):
                        return
                self._put(queue_, trace)
            except BaseException as error:  # noqa: BLE001 - carried to the consumer, who raises it
                self._put(queue_, error)
                return

    def _put(self, queue_: queue.Queue[object], item: object) -> bool:
        while not self._stopped.is_set():
            try:
                queue_.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False


def empty_batch(spec: ReadSpec) -> pa.RecordBatch:
    """A batch of no rows with the result's schema."""
    schema = result_schema(spec)
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
