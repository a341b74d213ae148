"""The demonstration and the notebook do what they say, with the values they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from demo import examples, flights, story


@pytest.mark.smoke
def test_worked_examples(tmp_path: Path) -> None:
    said: list[str] = []
    examples.run(tmp_path, said.append)
    checked = len(examples.USER_EVENTS) + len(examples.ORDERS)
    assert sum("positions [" in line for line in said) == checked


def test_flights_are_all_there() -> None:
    data = flights.load(progress=False)
    assert data.num_rows == flights.ROWS
    assert data.column("tailnum").null_count == 2512
    assert data.column("dep_time").null_count == 8255
    assert pc.count_distinct(data.column("dest")).as_py() == 105


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic
def test_whole_story(spark: Any, tmp_path: Path) -> None:
    data = flights.load(progress=False)
    path = tmp_path / "travel.db" / "flights"
    story.write(spark, data, path, progress=False)
    answers = {a.filter: a for a in story.ask(spark, data, path, lambda _: None)}
    assert len(answers) == len(story.QUERIES)
    rare = answers["dest = 'ANC'"]
    assert (rare.files_of_table, rare.rows, rare.arrow.positions) == (12, 8, 8)
    assert rare.arrow.files == 2
    assert rare.arrow.bytes_read < rare.full_scan.bytes_read / 3
    airline = answers["carrier = 'HA'"]
    assert airline.rows == airline.arrow.positions == 342
    assert answers["dest = 'XYZ'"].arrow.bytes_read < airline.full_scan.bytes_read / 100
    once = answers["tailnum = 'N136DL'"]
    assert once.rows == 1
    assert once.arrow.files < 12
    assert answers["month = 7 AND dest = 'SFO' AND dep_delay > 300"].files_planned == 1
