"""A scan as a lazy frame of Daft, which says what it needs: columns, and a condition that it applies itself, too.

(Source: Daft's documentation, "DataSource".)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrow_conditions import COMPARABLE, as_condition
from paimon_pyds.base.lazy_polars import comparable, narrowed
from paimon_pyds.base.row_stream import library


def frame(scan: Any, tasks: Callable[[Any], Sequence[Any]]) -> Any:
    """A lazy frame. ``tasks``: gives those of a scan, which pickle, are called, and give Arrow tables."""
    daft, source = library("daft"), library("daft.io.source")
    record_batch = library("daft.recordbatch").RecordBatch

    def schema_of(schema: pa.Schema) -> Any:
        return daft.Schema.from_pyarrow_schema(schema)

    class Task(source.DataSourceTask):  # type: ignore[misc,name-defined]
        """A split."""

        def __init__(self, read: Any) -> None:
            self._read = read

        @property
        def schema(self) -> Any:
            return schema_of(self._read.schema)

        async def read(self) -> AsyncIterator[Any]:
            for table in self._read():
                yield record_batch.from_arrow_table(table)

    class Rows(source.DataSource):  # type: ignore[misc,name-defined]
        """A scan."""

        @property
        def name(self) -> str:
            return "Paimon"

        @property
        def schema(self) -> Any:
            return schema_of(scan.arrow_schema)

        async def get_tasks(self, pushdowns: Any) -> AsyncIterator[Any]:
            for task in tasks(_narrowed(scan, pushdowns)):
                yield Task(task)

    return Rows().read()


def _narrowed(scan: Any, pushdowns: Any) -> Any:
    columns, sql = pushdowns.columns, None
    if pushdowns.filters is not None:
        try:
            expression = pushdowns.filters.to_arrow_expr()
        except Exception:  # Daft raises what its parts raise; it applies the condition itself  # noqa: BLE001
            expression = None
        sql = None if expression is None else as_condition(expression, comparable(scan, COMPARABLE)).sql
        if columns is not None:
            columns = [*columns, *(set(pushdowns.filter_required_column_names()) - set(columns))]
    return narrowed(scan, columns, sql)
