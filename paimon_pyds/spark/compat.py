"""Every difference between Spark versions (4.0 to 4.3), in one place. Found by looking, not by comparing versions.

Importing this module costs nothing over pyspark's own data source API: no pyarrow, no pandas.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    ArrowFunction = Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]


def _stream_arrow_writer() -> type:
    """The class of stream writers that get Arrow batches; in 4.0 one of a stream that is one of Arrow batches, too: its
    workers look at the second only. (Source: pyspark/sql/worker/write_into_data_source.py.)"""
    from pyspark.sql import datasource

    known: type | None = getattr(datasource, "DataSourceStreamArrowWriter", None)
    if known is not None:
        return known

    class Both(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):  # type: ignore[misc]
        pass

    return Both


StreamArrowWriter: type = _stream_arrow_writer()
"""The base class of stream writers."""
SUPPORTS_PUSHDOWN: bool = hasattr(DataSourceReader, "pushFilters")
"""Whether readers can be handed filters (from 4.1)."""


def spark_version() -> tuple[int, ...]:
    """The version of pyspark as numbers, (4, 3, 0) for example; what is not a number ends it."""
    numbers = []
    for part in pyspark.__version__.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def plans_once() -> bool:
    """Whether Spark keeps the partitions of a loaded DataFrame or view for all its queries (4.1 to 4.3), and applies
    the filters of one of its scans to the others (SPARK-58551). Spark 4.0 plans them in each query, as 5 will."""
    return SUPPORTS_PUSHDOWN and spark_version() < (5,)


def target_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark wants batches of these columns to have, exactly."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, **_timezone_argument())


@lru_cache(maxsize=1)
def available_now() -> type:
    """The class of stream readers that end where the newest snapshot was when they began; before 4.2 Spark has none."""
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        return object
    return SupportsTriggerAvailableNow  # type: ignore[no-any-return]


def default_read_limit(**limits: int | None) -> Any:
    """What Spark hands to `latestOffset` as the limit of a reader (from 4.2): the first that is set of ``max_files``,
    ``max_bytes``, ``max_rows`` and ``min_rows``."""
    from pyspark.sql.streaming import datasource

    for name, limit in limits.items():
        if limit is not None:
            return getattr(datasource, f"Read{name.title().replace('_', '')}")(limit)
    return datasource.ReadAllAvailable()


def takes_all(limit: Any) -> bool:
    """Whether Spark wants all that is there, whatever limits a reader has."""
    return type(limit).__name__ == "ReadAllAvailable"


def task_index() -> int | None:
    """The index of the running task among those of its job; None outside of one."""
    from pyspark.taskcontext import TaskContext

    context = TaskContext.get()
    return None if context is None else context.partitionId()


def task_setting(name: str) -> str | None:
    """A setting of the session whose query the running task belongs to; None where it has none."""
    from pyspark.taskcontext import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


@lru_cache(maxsize=1)
def _timezone_argument() -> dict[str, Any]:
    """``timezone`` came after 4.0, which always gives UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def time_type(precision: int) -> Any | None:
    """Spark's TIME(precision), or None where Spark has no such type (4.0). Spark's precision ends at 6."""
    from pyspark.sql import types

    kind = getattr(types, "TimeType", None)
    return None if kind is None else kind(min(precision, 6))


def arrow_column(
    function: ArrowFunction, arguments: Sequence[tuple[Column, DataType]], returns: str, *, deterministic: bool = True
) -> Column:
    """A function of Arrow arrays over columns of Spark.

    Spark 4.0 has only functions of pandas, whose numbers can't be NULL and whose timestamps end in 2262: there each
    argument that is a number travels as 64 bits and whether it is NULL.

    Args:
        function: gets the rows of a task, batch by batch, as arrays of the arguments' types; gives one for each batch.
        arguments: columns and their types.
        returns: the type of the result, as Spark writes it.
        deterministic: whether a row's result depends on that row only.
    """
    from pyspark.sql import functions as F

    if hasattr(F, "arrow_udf"):
        import pyarrow as pa

        def of_arrow(batches: Iterator[Any]) -> Iterator[Any]:
            return function(batch if isinstance(batch, tuple) else (batch,) for batch in batches)

        of_arrow.__name__ = function.__name__  # queries show it
        several = Iterator[tuple[pa.Array, ...]] if len(arguments) > 1 else Iterator[pa.Array]
        of_arrow.__annotations__ = {"batches": several, "return": Iterator[pa.Array]}
        made = F.arrow_udf(of_arrow, returns)
        return (made if deterministic else made.asNondeterministic())(*(column for column, _ in arguments))
    from pyspark.sql.types import StructField, StructType

    fields = [StructField(str(i), type_) for i, (_, type_) in enumerate(arguments)]
    sent = [part for column, type_ in arguments for part in (_without_nulls(column, type_), F.isnull(column))]
    made = _pandas_function(function, target_schema(StructType(fields)).types, returns)
    return (made if deterministic else made.asNondeterministic())(*sent)


def _without_nulls(column: Column, type_: DataType) -> Column:
    """Numbers, and days and microseconds since 1970 for what isn't text, bytes or a decimal."""
    from pyspark.sql import functions as F
    from pyspark.sql import types

    if isinstance(type_, types.DateType):
        column = F.unix_date(column)
    elif isinstance(type_, types.TimestampType):
        column = F.unix_micros(column)
    elif isinstance(type_, types.TimestampNTZType):
        seconds = (
            F.unix_date(column.cast("date")).cast("bigint") * 86_400 + F.hour(column) * 3600 + F.minute(column) * 60
        )
        column = seconds * 1_000_000 + (F.extract(F.lit("SECOND"), column) * 1_000_000).cast("bigint")
    elif isinstance(type_, types.BooleanType):
        return F.coalesce(column, F.lit(False))
    elif not isinstance(type_, types.IntegralType | types.FractionalType) or isinstance(type_, types.DecimalType):
        return column
    return F.coalesce(column, F.lit(0))


def _pandas_function(function: ArrowFunction, wanted: Sequence[pa.DataType], returns: str) -> Any:
    import pyarrow as pa
    from pandas import Series  # noqa: TID251 - Spark 4.0 has no other functions of columns
    from pyspark.sql import functions as F

    stored = [pa.int64() if pa.types.is_timestamp(t) else pa.int32() if pa.types.is_date(t) else t for t in wanted]

    def arrays(series: tuple[Any, ...]) -> tuple[pa.Array, ...]:
        parts = zip(series[::2], series[1::2], stored, wanted, strict=True)
        return tuple(
            pa.array(values.to_numpy(), storage, mask=nulls.to_numpy(), from_pandas=False).view(type_)  # noqa: TID251
            for values, nulls, storage, type_ in parts
        )

    def of_pandas(batches: Iterator[Any]) -> Iterator[Any]:
        return (Series(found.to_numpy(zero_copy_only=False)) for found in function(map(arrays, batches)))

    of_pandas.__name__ = function.__name__
    of_pandas.__annotations__ = {"batches": Iterator[tuple[Series, ...]], "return": Iterator[Series]}
    return F.pandas_udf(of_pandas, returns)


def local_interpreter(spark: Any) -> str | None:
    """The interpreter of the Python workers of a session that runs on this machine; None of others, Connect's too."""
    context = getattr(spark, "_sc", None)
    if context is None or not str(context.master).startswith("local"):
        return None
    return str(context.pythonExec)


def is_connect(df: DataFrame) -> bool:
    """Whether a DataFrame is of Spark Connect, whose server may see other files than this process."""
    return ".connect." in type(df).__module__


@contextmanager
def telling_tasks(spark: SparkSession, report: Callable[[int, int], None]) -> Iterator[None]:
    """While queries run, call a function with how many of Spark's tasks are done, of how many that are known.

    Only Spark Connect reports progress: classic Spark offers the numbers by py4j only.
    """
    if ".connect." not in type(spark).__module__:
        yield
        return

    def handler(stages: Iterable[Any] | None = None, **_: Any) -> None:
        known = list(stages or ())
        if known:
            report(sum(stage.num_completed_tasks for stage in known), sum(stage.num_tasks for stage in known))

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


def repartition_by_number(df: DataFrame, partitions: int, number: Column) -> DataFrame:
    """The rows shuffled so that those of each number, 0 … partitions-1, are in one partition; from 4.1 just these."""
    if hasattr(df, "repartitionById"):
        return df.repartitionById(partitions, number)
    return df.repartition(partitions, number)
