"""Format tables of Java Paimon: what it writes is read here, and CSV as it reads it, or not at all."""

from __future__ import annotations

import random
import shutil
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from support.effort import LONG, SEED
from support.format_tables import format_table
from support.oracle import Oracle
from support.values import lines

COLUMNS = "id INT, big BIGINT, s SMALLINT, f DOUBLE, g FLOAT, t STRING, b BOOLEAN, d DATE, ts TIMESTAMP(3), "
COLUMNS += "us TIMESTAMP(6), m DECIMAL(9, 2), w DECIMAL(30, 4), p STRING, q INT"
TEXTS = ["a", 'x "y" z', "a,b", "ä;ö", " blank ", "back\\slash", "{}", "'", "tab\there"]

PIECES = ["a", "b c", " ", "7", "-1.5", "2020-01-02", "true", "", ",", ",", '"x"', '"a,b"', '"a""\\\\"']


def _place(table: pp.Table) -> str:
    """A format table as the program opens it, with its schema outside of its directory, where Java looks for rows."""
    path = Path(table.path)
    beside = path.parent / f"{path.name}.json"
    if (path / "schema").is_dir():
        shutil.copy(path / "schema" / "schema-0", beside)
    return f"{beside},{path}"


def _row(rng: random.Random, number: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "big": rng.randint(-(2**63), 2**63 - 1), "s": rng.randint(-(2**15), 2**15 - 1), "b": rng.random() < 0.5,
        "f": rng.choice([0.5, -1e300, 3.0]), "g": rng.choice([1.5, -2e10]), "t": rng.choice(TEXTS),
        "d": date(rng.randint(1900, 2100), 5, 6), "ts": datetime(rng.randint(1900, 2100), 1, 2, 3, 4, 5, 678000),
        "us": datetime(2000, 1, 2, 3, 4, 5, rng.randint(0, 9)), "m": Decimal(rng.randint(-(10**8), 10**8)) / 100,
        "w": Decimal(rng.randint(-(10**20), 10**20)) / 10_000,
    }  # fmt: skip
    there = {name: None if rng.random() < 0.2 else value for name, value in values.items()}
    return {"id": number, **there, "p": rng.choice(["x", "a=b/c", "y z", None]), "q": rng.choice([1, None])}


@pytest.mark.parametrize("format_", ["parquet", "orc", "csv", "json"])
def test_what_java_writes(format_: str, oracle: Oracle, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    plain = pp.Table.create(tmp_path / "plain", COLUMNS)
    made = [_row(rng, number) for number in range(60)]
    if format_ == "csv":  # Java writes a backslash as it is, and reads none
        made = [{**row, "t": row["t"] and row["t"].replace("\\", "")} for row in made]
    rows = pa.Table.from_pylist(made, plain.arrow_schema)
    plain.append(rows)
    bare = str(rng.random() < 0.5).lower()
    table = format_table(
        tmp_path / "t", COLUMNS, format_, ["p", "q"], format_table__partition_path_only_value=bare,
        csv__include_header=str(rng.random() < 0.5).lower(),
    )  # fmt: skip
    oracle.program("FormatTableOracle", plain.path, _place(table))
    assert lines(table.to_arrow()) == lines(rows)
    assert len(list((tmp_path / "t").rglob(f"*.{format_}*"))) > 3


def test_text_that_java_writes(oracle: Oracle, tmp_path: Path) -> None:
    plain = pp.Table.create(tmp_path / "plain", "line STRING")
    plain.append({"line": [*TEXTS, ""]})
    table = format_table(tmp_path / "t", "line STRING", "text")
    oracle.program("FormatTableOracle", plain.path, _place(table))
    assert lines(table.to_arrow()) == lines(plain.to_arrow())


def test_lines_of_csv_are_read_as_java_reads_them_or_refused(oracle: Oracle, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    pieces = [
        '"',
        '""',
        ",",
        "\\",
        "a",
        "b c",
        " ",
        "7",
        "-1.5",
        "2020-01-02",
        "true",
        "",
        '"x"',
        '"a,b"',
        "\\\\",
        '\\"',
        "\r",
    ]
    calls, tables = [], []
    for number in range(200 if LONG else 40):
        columns = rng.choice(["a STRING", "a STRING, b STRING", "a INT, b STRING, c BOOLEAN", "a DOUBLE, d DATE"])
        table = format_table(tmp_path / f"t{number}", columns, "csv")
        text = "\n".join(
            "".join(rng.choice(pieces) for _ in range(rng.randint(0, 6))) for _ in range(rng.randint(1, 3))
        )
        (tmp_path / f"t{number}" / "a.csv").write_bytes(text.encode())
        into = pp.Table.create(tmp_path / f"out{number}", columns)
        place = _place(table)
        shutil.rmtree(tmp_path / f"t{number}" / "schema")
        calls += [place, into.path]
        tables.append((number, into, text))
    oracle.program("FormatTableOracle", *calls)
    read = 0
    for number, into, text in tables:
        (tmp_path / f"t{number}" / "schema").mkdir()
        shutil.copy(tmp_path / f"t{number}.json", tmp_path / f"t{number}" / "schema" / "schema-0")
        try:
            found = lines(pp.Table.open(tmp_path / f"t{number}").to_arrow())
        except (UnsupportedError, CorruptFileError):
            continue
        assert found == lines(into.to_arrow()), text
        read += 1
    assert read
