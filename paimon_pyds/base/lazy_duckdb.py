"""Rows as an Arrow dataset for DuckDB, which says what a query needs: columns, and a condition.

DuckDB trusts the dataset to apply the condition, an expression of pyarrow. As far as it means the same in SQL, the scan
applies it; the rest is applied to the rows that are read.
(Source: DuckDB's documentation, "SQL on Apache Arrow".)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrow_conditions import COMPARABLE, Condition, as_condition
from paimon_pyds.base.lazy_polars import comparable, narrowed, takes_conditions


@functools.cache
def _source_class() -> type[Any] | None:
    """The class by which DuckDB 2 reads a dataset, with a method for the number of rows; None with other versions."""
    try:
        from duckdb._sources.pyarrow import PyArrowDatasetSource as source
    except ImportError:
        return None
    return source if hasattr(source, "rows") and hasattr(source, "declared_schema") else None


def knows_row_counts() -> bool:
    """Whether DuckDB knows the sizes of these datasets, which it needs for an order of joins with other tables: it
    takes one of unknown size for a single row."""
    return _source_class() is not None


@functools.cache
def _dataset_class() -> type[Any]:
    import pyarrow.dataset as ds  # noqa: TID251 - DuckDB says what it needs to nothing else

    source = _source_class()
    bases = (ds.Dataset,) if source is None else (ds.Dataset, source)

    class Rows(*bases):  # type: ignore[misc]
        """DuckDB takes what is a dataset, and calls these members of it alone."""

        def __init__(self, rows: Any, seen: Callable[[Any], None] | None) -> None:
            self._rows, self._seen = rows, seen
            self._declared = None

        @property
        def obj(self) -> Any:
            return self

        @property
        def schema(self) -> pa.Schema:
            return self._rows.arrow_schema

        def rows(self) -> int | None:
            """An estimate."""
            return getattr(self._rows, "estimated_rows", None)

        def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> Any:
            return _Scanner(self._rows, columns, filter, self._seen)

    return Rows


def dataset(rows: Any, seen: Callable[[Any], None] | None = None) -> Any:
    """The rows as a `pyarrow.dataset.Dataset` that only DuckDB reads. ``seen``: called with what is read of them."""
    return _dataset_class()(rows, seen)


class _Scanner:
    def __init__(
        self, rows: Any, columns: list[str] | None, condition: Any, seen: Callable[[Any], None] | None
    ) -> None:
        self._rows, self._condition, self._seen = rows, condition, seen
        self._columns = rows.arrow_schema.names if columns is None else columns

    def to_reader(self) -> pa.RecordBatchReader:
        schema = self._rows.arrow_schema
        result = pa.schema([schema.field(name) for name in self._columns])
        return pa.RecordBatchReader.from_batches(result, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        known = Condition(None)
        if self._condition is not None:
            known = as_condition(self._condition, comparable(self._rows, COMPARABLE))
        left = None if known.is_exact and takes_conditions(self._rows) else self._condition
        needed: frozenset[str] | list[str] = frozenset()
        if left is not None:
            needed = schema.names if known.columns is None else known.columns
        read = [name for name in schema.names if name in self._columns or name in needed]
        found = narrowed(self._rows, read or None, known.sql)
        if self._seen is not None:
            self._seen(found)
        for batch in found:
            if left is None:
                yield batch if batch.schema.names == self._columns else batch.select(self._columns)
                continue
            yield from pa.Table.from_batches([batch]).filter(left).select(self._columns).to_batches()
