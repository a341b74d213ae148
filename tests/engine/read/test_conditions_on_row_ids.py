"""Conditions on ``_ROW_ID`` and ``_SEQUENCE_NUMBER``: scans, counts, updates and deletes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.errors import PaimonError
from support.effort import LONG, SEED
from support.evolution_model import OPTIONS
from support.v2_fixtures import v2_table

EVOLVED = ("de_update", "de_deleted", "de_evolved", "de_java")


def rewritten(path: Path) -> pp.Table:
    """A table whose files hold row ids in columns of their own, and files whose ids follow from positions."""
    table = pp.Table.create(path, {"id": list(range(10)), "v": ["a"] * 10}, options={"row-tracking.enabled": "true"})
    table.update({"v": "'b'"}, "id > 6")
    table.append({"id": [10, 11], "v": ["c", "d"]})
    return table


def rows_of(table: pp.Table, where: str = "TRUE") -> list[dict[str, Any]]:
    columns = [*table.schema.field_names, "_ROW_ID", "_SEQUENCE_NUMBER"]
    return table.scan(where, columns=columns).to_arrow().to_pylist()


def check(table: pp.Table) -> None:
    every, rng = rows_of(table), random.Random(SEED)
    for _ in range(60 if LONG else 2):
        name = rng.choice(("_ROW_ID", "_ROW_ID", "_SEQUENCE_NUMBER"))
        number, other = rng.randrange(13), rng.randrange(6)
        tests = {
            f"{name} = {number}": lambda r: r[name] == number,  # noqa: B023 - used at once
            f"{name} < {number} AND id > {other}": lambda r: r[name] < number and r["id"] > other,  # noqa: B023
            f"{name} IN ({number}, {other})": lambda r: r[name] in (number, other),  # noqa: B023
            f"{name} >= {number} OR id = {other}": lambda r: r[name] >= number or r["id"] == other,  # noqa: B023
            f"NOT {name} = {number}": lambda r: r[name] != number,  # noqa: B023
        }
        for text, test in tests.items():
            expected = [row for row in every if test(row)]
            assert sorted(map(repr, rows_of(table, text))) == sorted(map(repr, expected)), text
            assert table.scan(text).count() == len(expected), text
            ids = [row["id"] for row in expected]
            assert table.scan(text).answer.max("id").value == max(ids, default=None), text


@pytest.mark.parametrize("name", EVOLVED)
def test_scans_of_joined_rows(name: str) -> None:
    check(pp.Table.open(v2_table(name)))


def test_scans_of_rewritten_rows(tmp_path: Path) -> None:
    check(rewritten(tmp_path / "t"))


def test_a_lookup_plans_the_files_with_these_row_ids(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"id": "INT"}, options=OPTIONS)
    for first in range(5):
        table.append({"id": [2 * first, 2 * first + 1]})
    assert len(table.scan("_ROW_ID IN (3, 8)").plan().files) == 2
    assert table.scan("_ROW_ID IN (3, 8)").to_arrow()["id"].to_pylist() == [3, 8]
    assert "row ids" in str(table.scan("_ROW_ID = 3").explain())


@pytest.mark.parametrize("evolution", [False, True])
def test_updates_and_deletes_by_row_id(evolution: bool, tmp_path: Path) -> None:
    options = OPTIONS if evolution else {"row-tracking.enabled": "true"}
    table = pp.Table.create(tmp_path / "t", {"id": [1, 2, 3], "v": ["a", "b", "c"]}, options=options)
    table.update({"v": "'x'"}, "_ROW_ID = 1")
    table.delete("_ROW_ID = 0")
    assert [(r["id"], r["v"], r["_ROW_ID"]) for r in rows_of(table)] == [(2, "x", 1), (3, "c", 2)]


def test_tables_without_row_ids_have_no_such_column(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"id": [1]})
    with pytest.raises(PaimonError, match="_ROW_ID"):
        table.scan("_ROW_ID = 0")
