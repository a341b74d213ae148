"""Tables that the writers of Paimon 2.x made, and the rows that they hold: ../shared/fixtures/v2, or what
PAIMON_PYDS_FIXTURES_V2 names, whose README.md lists them; else tests/fixtures/paimon2_tables.tar.xz.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types.arrow import is_variant
from support.fixtures import ROOT, unpacked
from support.values import dumps, expected_lines, in_order, json_values

ARCHIVE = ROOT / "tests" / "fixtures" / "paimon2_tables.tar.xz"


def _find() -> Path:
    named = os.environ.get("PAIMON_PYDS_FIXTURES_V2")
    shared = Path(named) if named else ROOT.parent / "shared" / "fixtures" / "v2"
    return shared if shared.is_dir() or not ARCHIVE.is_file() else unpacked(ARCHIVE)


FOLDER = _find()


@dataclass(frozen=True)
class Read:
    """One read of a fixture that its writer and others agree on."""

    fixture: str
    name: str
    expected: Path
    columns: list[str] | None = None
    """None: all of the newest schema, or of the snapshot's."""
    filter: str | None = None
    snapshot: int | None = None

    @property
    def rows(self) -> list[str]:
        """The rows as `support.values.lines` gives them."""
        return expected_lines(self.expected)


def v2_table(name: str) -> Path:
    """The directory of a fixture's table, which tests must leave as it is; the test is skipped where it is missing."""
    table = FOLDER / name / "table" / "db.db" / "t"
    if not table.is_dir():
        pytest.skip(f"needs ../shared/fixtures/v2/{name} (written by Paimon 2.x)")
    return table


def v2_copy(name: str, folder: Path) -> Path:
    """A copy of one fixture's table that a test may change, as ``db.db/<name>`` of a warehouse in ``folder``."""
    return Path(shutil.copytree(v2_table(name), folder / "db.db" / name))


def v2_reads(*names: str) -> list[Read]:
    """All reads of these fixtures, for `pytest.mark.parametrize`; none where the fixtures are missing."""
    return [read for name in names if (FOLDER / name / "meta.json").is_file() for read in _reads(FOLDER / name)]


def _reads(folder: Path) -> list[Read]:
    found = json.loads((folder / "meta.json").read_text(encoding="utf-8"))["reads"]
    return [Read(folder.name, read.pop("name"), folder / read.pop("expected"), **read) for read in found]


def v2_lines(rows: pa.Table) -> list[str]:
    """Rows as the expected ones are, with the values of VARIANT columns."""
    plain = [name for name in rows.column_names if not is_variant(rows.schema.field(name).type)]
    columns = {name: json_values(rows[name]) for name in plain}
    for name in set(rows.column_names).difference(plain):
        values = zip(rows[name].is_valid().to_pylist(), pp.variant_values(rows[name]), strict=True)
        columns[name] = [{"variant": _canonical(value)} if valid else None for valid, value in values]
    held = [columns[name] for name in rows.column_names]
    return in_order(dumps(dict(zip(rows.column_names, row, strict=True))) for row in zip(*held, strict=True))


def _canonical(value: Any) -> Any:
    """A value of VARIANT as the fixtures have it."""
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, Decimal):
        return f"decimal:{value.normalize():f}"
    return f"float:{value!r}" if isinstance(value, float) else value


def read_id(read: Read) -> str:
    """The name of a read's test."""
    return f"{read.fixture}-{read.name}"
