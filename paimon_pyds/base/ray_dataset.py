"""Tasks that give Arrow tables as a dataset of Ray. (Source: Ray's documentation, "Custom Datasources".)"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import empty_table
from paimon_pyds.base.row_stream import library


def dataset(tasks: Sequence[Any], schema: pa.Schema) -> Any:
    """A lazy dataset; each of the tasks becomes one of Ray's. They are called, and have ``size`` and ``paths``."""
    data = library("ray.data")
    if not tasks:
        return data.from_arrow(empty_table(schema))

    class Splits(data.Datasource):  # type: ignore[misc,name-defined]
        """The tasks as those of Ray."""

        def get_name(self) -> str:
            return "Paimon"

        def estimate_inmemory_data_size(self) -> int:
            return sum(task.size for task in tasks)

        def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, *_: Any, **__: Any) -> Any:
            return [_read_task(task, schema, per_task_row_limit) for task in tasks]

    return data.read_datasource(Splits())


def _read_task(task: Any, schema: pa.Schema, row_limit: int | None) -> Any:
    from ray.data.block import BlockMetadata
    from ray.data.datasource import ReadTask

    read: Callable[[], Iterable[pa.Table]] = task
    metadata = BlockMetadata(num_rows=None, size_bytes=task.size, exec_stats=None, input_files=tuple(task.paths))
    return ReadTask(read, metadata, schema=schema, per_task_row_limit=row_limit)
