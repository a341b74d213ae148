"""The demonstration and the notebook do what they say, with the values they show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from demo import examples, flights, story
from demo.__main__ import next_steps, run
from support.fixtures import ROOT


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


def test_what_it_says_about_going_on_can_be_typed(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "travel.db" / "flights", {"dest": ["ANC", "LAX"]})
    said = next_steps(table.path, f"{Path(sys.executable).parent}{os.sep}")
    shown = []
    for line in said.splitlines()[2:5]:
        done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    assert shown[0] == "1\n" and "LAX" in shown[2] and (tmp_path / "why.html").exists()


@pytest.mark.parametrize("target", ["demo", "package"])
def test_what_a_newcomer_makes_needs_no_environment_of_developers(target: str) -> None:
    done = subprocess.run(["make", "-n", target], capture_output=True, text=True, cwd=ROOT)
    assert f"environment.py {target}" in done.stdout and ".venvs/newest" not in done.stdout


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic
def test_whole_story(spark: Any, tmp_path: Path) -> None:
    data = flights.load(progress=False)
    story.write(spark, data.slice(0, 1000), tmp_path / "wh" / "travel.db" / "flights", progress=False)  # an earlier run
    answers = {a.filter: a for a in run(spark, tmp_path / "wh", tmp_path)}
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
