"""register: both names where they are free, the second where a jar holds the first."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from paimon_pyds import register
from support.fixtures import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]


class Session:
    """A session that knows some formats already."""

    def __init__(self, *taken: str, error: str = "DATA_SOURCE_ALREADY_EXISTS") -> None:
        self.known: list[str] = []

        def add(source):
            if source.name() in taken:
                raise ValueError(f"[{error}] Data source '{source.name()}' already exists.")
            self.known.append(source.name())

        self.dataSource = SimpleNamespace(register=add)


def test_both_names_where_they_are_free(caplog):
    session = Session()
    with caplog.at_level(logging.WARNING):
        register(session)
    assert sorted(session.known) == ["paimon", "paimon_pyds"]
    assert not caplog.records


def test_a_jar_that_holds_the_first_name(caplog):
    session = Session("paimon")
    with caplog.at_level(logging.WARNING):
        register(session)
    assert session.known == ["paimon_pyds"]
    assert "use format('paimon_pyds')" in caplog.text


def test_names_that_spark_found_on_the_path(caplog):
    session = Session("paimon", "paimon_pyds")
    with caplog.at_level(logging.WARNING):
        register(session)
    assert session.known == []
    assert not caplog.records


def test_other_errors_are_not_hidden():
    with pytest.raises(ValueError, match="NO_PERMISSION"):
        register(Session("paimon", error="NO_PERMISSION"))


def test_registering_again_is_fine(spark, frames, six):
    register(spark)
    register(spark)
    assert frames.load(six.path).count() == 6
    assert spark.read.format("paimon_pyds").load(six.path).count() == 6


QUIET = """
import sys
from pyspark.sql import SparkSession
import paimon_pyds
from paimon_pyds.spark.source import _has_formats

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(1).collect()
print("begin", file=sys.stderr, flush=True)
paimon_pyds.register(spark)
paimon_pyds.register(spark)
assert _has_formats(spark)
print("end", file=sys.stderr, flush=True)
spark.stop()
"""


@pytest.mark.long
@pytest.mark.classic
@pytest.mark.slow
def test_a_session_that_has_the_formats_is_left_alone_in_silence() -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", QUIET], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"begin\n(.*)end\n", done.stderr, re.DOTALL)[1] == ""
