"""System tables in Spark: ``table`` option ``db.t$files``, a path that ends with ``$files``, or ``sys.tables`` of a
warehouse. One task reads them, as they are then, in bounded memory; ``audit_log`` and ``binlog`` of a state, or of
changes, that is named are read by a task for each split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_pyds.catalog import Catalog
from paimon_pyds.errors import OptionError
from paimon_pyds.ops.system.scan import SystemScan
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import conform_batch
from paimon_pyds.spark.catalogs import open_table
from paimon_pyds.spark.clear_errors import clear_errors, clear_iterator
from paimon_pyds.spark.location import SYSTEM_OF_WAREHOUSE
from paimon_pyds.spark.projection import resolve_schema, select_columns, split_names
from paimon_pyds.spark.refresh import for_tasks
from paimon_pyds.spark.types import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_pyds.spark.options import ReadOptions


def system_schema(options: ReadOptions) -> StructType:
    """Spark's schema of a system table: of all its columns, or the ones that the option ``columns`` names."""
    fields = _scan(options, None).table_fields
    if options.columns is not None:
        names = [".".join(path) for path in split_names(options.columns)]
        fields = select_columns(fields, [(name,) for name in names])
    return spark_schema(fields)


class SystemPartition(InputPartition):  # type: ignore[misc]
    """What the one task reads: a system table, and some of its columns."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        super().__init__(0)
        self.options = options
        self.columns = tuple(columns)

    def __repr__(self) -> str:
        return f"SystemPartition({self.options.system})"


class SystemPart(InputPartition):  # type: ignore[misc]
    """What one of several tasks reads: a part of the rows."""

    def __init__(self, scan: SystemScan) -> None:
        super().__init__(0)
        self.scan = scan


class SystemReader(DataSourceReader):  # type: ignore[misc]
    """Reads a system table. ``schema`` is what Spark wants, the user's projection included."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    @clear_errors
    def partitions(self) -> Sequence[InputPartition]:
        """The one partition, or several of rows of a state that is named; filter and columns are checked here."""
        columns = resolve_schema(_scan(self._options, None).table_fields, compat.target_schema(self._schema))
        scan = _scan(self._options, columns)
        parts = scan.in_parts() if self._options.travels else []  # else tasks look at the state as it is then
        if len(parts) > 1:
            return [SystemPart(part) for part in parts]
        store = None if self._options.catalog is None else open_table(self._options)._store
        return [SystemPartition(for_tasks(self._options, store), columns)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows, in exactly the schema that Spark wants. Runs in a task."""
        return clear_iterator(self._batches(partition))

    def _batches(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SystemPartition):
            scan = _scan(partition.options, partition.columns)
        elif isinstance(partition, SystemPart):
            scan = partition.scan
        else:
            return
        target = compat.target_schema(self._schema)
        for batch in scan.to_batches():
            yield conform_batch(batch, target)


def _scan(options: ReadOptions, columns: Sequence[str] | None) -> SystemScan:
    """The query that the options describe. Raises OptionError for one that system tables do not take."""
    given = {"topn": options.top_n, "metadata-columns": options.metadata_columns, "explain": options.explain}
    for name, value in given.items():
        if value:
            raise OptionError(f"the option {name} is not for system tables", hint="leave it out")
    system: Any = options.system or ""
    if system.startswith(SYSTEM_OF_WAREHOUSE):
        found = Catalog(options.path, options.storage).system.scan(
            system, options.where, columns=columns, limit=options.limit, options=options.scan
        )
    else:
        table = open_table(options)
        found = table.system.scan(system, options.where, columns=columns, limit=options.limit, options=options.scan)
    assert isinstance(found, SystemScan)  # others are options of a read of the table itself
    return found
