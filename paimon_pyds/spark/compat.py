"""Every difference between Spark versions (4.0 to 4.3), in one place. Found by looking, not by comparing versions.

Importing this module costs nothing over pyspark's own data source API: no pyarrow, no pandas.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

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


def version_text() -> str:
    """The version of pyspark as people write it."""
    return str(pyspark.__version__)


def pushdown_leaks() -> bool:
    """Whether Spark applies the filters of one scan to the other scans of the same DataFrame (SPARK-58551; below 5)."""
    return plans_once()


def plans_once() -> bool:
    """Whether Spark keeps the partitions of a loaded DataFrame or view for all its queries (4.1 to 4.3).

    Spark 4.0 asks for them in each query. They are kept where filters are (SPARK-58551), which ends with 5.
    """
    return SUPPORTS_PUSHDOWN and spark_version() < (5,)


def target_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark wants batches of these columns to have, exactly."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, **_timezone_argument())


def task_index() -> int | None:
    """The index of the running task among those of its job; None outside of one."""
    from pyspark.taskcontext import TaskContext

    context = TaskContext.get()
    return None if context is None else context.partitionId()


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
