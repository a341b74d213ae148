"""Functions that read texts of times in the zone of a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from paimon_pyds.base.zones import session_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Function = TypeVar("_Function", bound=Callable[..., Any])


def in_session_zone(function: _Function) -> _Function:
    """Texts without a time zone are read in that of the session, which is the first argument, as Spark reads them."""

    @wraps(function)
    def wrapped(spark: SparkSession, *args: Any, **named: Any) -> Any:
        with session_zone(spark.conf.get("spark.sql.session.timeZone")):
            return function(spark, *args, **named)

    return cast(_Function, wrapped)
