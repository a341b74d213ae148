"""The time zone of a Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_KEY = "spark.sql.session.timeZone"


@contextmanager
def zone(spark: Any, name: str) -> Iterator[None]:
    """Another one for a while."""
    before = spark.conf.get(_KEY)
    spark.conf.set(_KEY, name)
    try:
        yield
    finally:
        spark.conf.set(_KEY, before)
