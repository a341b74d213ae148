"""The data source ``paimon``: a façade that parses options and hands over.

Spark starts a Python process to plan each query and imports this module there, so nothing heavy is imported until a
method needs it: no pyarrow, no pandas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pyspark.sql.datasource import DataSource

from paimon_pyds.errors import UnsupportedError
from paimon_pyds.spark.clear_errors import clear_errors

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceWriter
    from pyspark.sql.types import StructType

    from paimon_pyds.spark.options import ReadOptions
    from paimon_pyds.spark.state import Loaded

__all__ = [
    "PaimonDataSource",
    "PaimonPushdownDataSource",
    "PaimonPydsDataSource",
    "PaimonPydsPushdownDataSource",
]


class PaimonDataSource(DataSource):  # type: ignore[misc]
    """Paimon tables as ``spark.read.format("paimon")`` and ``df.write.format("paimon")``.

    The columns are those of the load. The rows are those of the newest snapshot when Spark plans a query, unless the
    options name a state; see `paimon_pyds.spark.refresh` for Spark 4.1 to 4.3, which plan a DataFrame or view once.
    """

    pushdown: ClassVar[bool] = False
    """Whether Spark's filters are taken when the option ``pushdown`` does not say."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self._loaded: Loaded | None = None

    @classmethod
    def name(cls) -> str:
        """The short name of the format."""
        return "paimon"

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles a source right after it was made, even when ``schema`` was not called: that is the load."""
        if self._loaded is None:
            from paimon_pyds.spark.state import try_load

            self._loaded = try_load(self.options)
        return self.__dict__

    @clear_errors
    def schema(self) -> StructType:
        """The columns as Spark's types. What does not fit the table is refused here, and not in the first query."""
        from paimon_pyds.spark.state import open_state, state_schema

        options = self._read_options()
        state = open_state(options, self._loaded)
        self._loaded = state.loaded
        state.scan()
        return state_schema(state, options)

    @clear_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of these columns; a user's ``.schema(…)`` arrives here as a projection by name."""
        from paimon_pyds.spark import compat, reader

        options = self._read_options()
        if options.pushdown and compat.SUPPORTS_PUSHDOWN:
            # Spark plans again for each filter, and nothing else is right with pushdown on.
            reader.warn_of_leak()
            return reader.PaimonPushdownReader(schema, options, self._loaded)
        if compat.plans_once() and not options.travels:
            from paimon_pyds.spark.refresh import RefreshingReader

            return RefreshingReader(schema, options, self._loaded)
        return reader.PaimonReader(schema, options, self._loaded)

    @clear_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of rows with these columns, which makes the table when it is missing.

        With the option ``operation`` one that deletes rows, or puts new versions in their place.
        """
        from paimon_pyds.spark.options import parse_write_options

        options = parse_write_options(self.options, overwrite=overwrite)
        if options.operation is not None:
            from paimon_pyds.spark.row_writer import open_row_writer

            return open_row_writer(schema, options)
        from paimon_pyds.spark.writer import open_writer

        return open_writer(schema, options, overwrite=overwrite)

    @clear_errors
    def streamReader(self, schema: StructType) -> NoReturn:
        """Raises UnsupportedError: there is no streaming read."""
        raise UnsupportedError(
            "tables can't be read as streams yet",
            hint="spark.read with the option incremental-between reads what came between two snapshots",
        )

    @clear_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raises UnsupportedError: there is no streaming write."""
        raise UnsupportedError(
            "tables can't be written as streams yet",
            hint="writeStream.foreachBatch hands over DataFrames, which df.write.format('paimon') appends",
        )

    def _read_options(self) -> ReadOptions:
        from paimon_pyds.spark.options import parse_read_options

        return parse_read_options(self.options, pushdown=self.pushdown)


class PaimonPydsDataSource(PaimonDataSource):
    """The same under a second name, for sessions where Paimon's jar holds ``paimon``."""

    @classmethod
    def name(cls) -> str:
        """The short name of the format."""
        return "paimon_pyds"


class PaimonPushdownDataSource(PaimonDataSource):
    """``paimon`` as ``register(spark, pushdown=True)`` makes it."""

    pushdown = True


class PaimonPydsPushdownDataSource(PaimonPydsDataSource):
    """``paimon_pyds`` as ``register(spark, pushdown=True)`` makes it."""

    pushdown = True
