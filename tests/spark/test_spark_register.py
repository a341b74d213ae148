"""register: both names where they are free, the second where a jar holds the first."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from paimon_pyds import register

pytestmark = pytest.mark.spark


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
