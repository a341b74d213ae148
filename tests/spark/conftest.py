"""What the tests of the Spark room share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a test's table goes."""
    return str(tmp_path / "wh" / "db.db" / "t")


class Frames:
    """Short forms of what nearly every test does with a session."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    def load(self, path: str, **options: object) -> Any:
        """A DataFrame of a table; option names with _ for - and __ for a dot."""
        reader = self.spark.read.format("paimon")
        for name, value in options.items():
            reader = reader.option(name.replace("__", ".").replace("_", "-"), str(value))
        return reader.load(path)

    def save(self, frame: Any, path: str, mode: str = "append", **options: object) -> None:
        """Write a DataFrame, or the result of a query."""
        if isinstance(frame, str):
            frame = self.spark.sql(frame)
        writer = frame.write.format("paimon").mode(mode)
        for name, value in options.items():
            writer = writer.option(name.replace("__", ".").replace("_", "-"), str(value))
        writer.save(path)

    def rows(self, frame: Any) -> list[tuple[Any, ...]]:
        """All rows as tuples, sorted by their texts."""
        if isinstance(frame, str):
            frame = self.spark.sql(frame)
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    def ids(self, frame: Any) -> list[Any]:
        """The first column, sorted."""
        return sorted(row[0] for row in (self.spark.sql(frame) if isinstance(frame, str) else frame).collect())


@pytest.fixture
def frames(spark: Any) -> Frames:
    """Short forms over the session."""
    return Frames(spark)


@pytest.fixture
def time_type(spark: Any) -> Iterator[bool]:
    """Whether Spark has TIME; it is switched on, for Connect refuses to send such columns while it is off."""
    from paimon_pyds.spark import compat

    if compat.time_type(6) is None:
        yield False
        return
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield True
    spark.conf.unset("spark.sql.timeType.enabled")


def people() -> pa.Table:
    """Six rows: ids 1 to 6, two colours and NULL, sizes with NULL."""
    return pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5, 6], pa.int32()),
            "color": ["red", "green", None, "red", "green", "blue"],
            "size": pa.array([1.5, None, 2.5, 3.5, None, 0.5]),
        }
    )


@pytest.fixture
def six(path: str) -> pp.Table:
    """A table with the rows of `people`, in two snapshots."""
    table = pp.Table.create(path, people().schema)
    table.append(people().slice(0, 4))
    table.append(people().slice(4))
    return table
