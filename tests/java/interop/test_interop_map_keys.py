"""Indexes on map keys that Java Paimon built: keys of any text, and a column named like one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from support.oracle import Oracle, requires_java_oracle

pytestmark = [pytest.mark.java, requires_java_oracle]

STRINGS = {"type": "MAP", "key": "STRING NOT NULL", "value": "STRING"}
NUMBERS = {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"}
KEYS = ["a.b", "a[b]", "]", "'q'", '"', "é中😀", "a b", "A", "a", "", "x=y", "%", "\\", "k1].k2["]


def fields(**types: Any) -> list[DataField]:
    return [DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate(types.items())]


def rows(key: str) -> list[dict[str, Any]]:
    """Row i % 5: a value, another one, NULL, only other keys, a NULL map."""
    others = [k for k in KEYS if k != key]
    made = []
    for i in range(40):
        text, number = [["v1", 1], ["v2", -1], [None, None]][i % 5] if i % 5 < 3 else [None, None]
        there = [] if i % 5 > 2 else [key]
        m: Any = [[k, text] for k in there] + [[k, "v1"] for k in others[: i % 3]]
        n: Any = [[k, number] for k in there] + [[k, 7] for k in others[: i % 3]]
        made.append({"id": i, "m": None if i % 5 == 4 else m, "n": None if i % 5 == 4 else n})
    return made


def test_keys_of_any_text(oracle: Oracle, tmp_path: Path) -> None:
    with oracle.batch() as batch:
        for number, key in enumerate(KEYS):
            options = {
                "file-index.in-manifest-threshold": "1 b" if number % 2 else "1 mb",
                "file-index.bitmap.columns": f"m[{key}]",
                "file-index.range-bitmap.columns": f"n[{key}]",
            }
            batch.create(tmp_path, f"db.t{number}", fields(id="INT", m=STRINGS, n=NUMBERS), options=options)
            batch.write(tmp_path, f"db.t{number}", rows(key))
    for number, key in enumerate(KEYS):
        table = pp.Table.open(tmp_path / "db.db" / f"t{number}")
        quoted = key.replace("\\", "\\\\").replace("'", "\\'")
        for condition, kept in (
            (f"m['{quoted}'] = 'v1'", {0}),
            (f"m['{quoted}'] <> 'v1'", {1}),
            (f"m['{quoted}'] IS NULL", {2, 3, 4}),
            (f"n['{quoted}'] < 1", {1}),
            (f"n['{quoted}'] IS NOT NULL AND m['{quoted}'] IN ('v1', 'v2')", {0, 1}),
        ):
            answer = table.scan(condition).answer.count()
            assert answer.source != "data", (key, condition)
            assert answer.value == 8 * len(kept)
            found = table.scan(condition, columns=["id"]).to_arrow().column("id").to_pylist()
            assert found == [i for i in range(40) if i % 5 in kept], (key, condition)


def test_a_column_named_like_a_key_loses_no_rows(oracle: Oracle, tmp_path: Path) -> None:
    """Java indexes the key, and asks that index about the column; nothing in the file tells which of both it is of."""
    options = {
        "file-index.bitmap.columns": "m[k]",
        "file-index.in-manifest-threshold": "1 mb",
        "deletion-vectors.enabled": "true",
    }
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields(id="INT", m=STRINGS, **{"m[k]": "STRING"}), options=options)
        batch.write(tmp_path, "db.t", [{"id": i, "m": [["k", f"x{i}"]], "m[k]": f"p{i}"} for i in range(9)])
    table = pp.Table.open(tmp_path / "db.db" / "t")
    for condition in ("m['k'] = 'x3'", "`m[k]` = 'p3'", "m['k'] = 'x3' AND `m[k]` = 'p3'"):
        assert table.scan(condition).to_arrow().column("id").to_pylist() == [3]
        assert table.count(condition) == 1
    assert table.count("`m[k]` <> 'p3'") == 8
    assert table.max("m[k]") == "p8"
    table.delete("`m[k]` = 'p3' OR m['k'] = 'x5'")
    assert table.scan().to_arrow().column("id").to_pylist() == [0, 1, 2, 4, 6, 7, 8]


def test_values_of_a_wider_type(oracle: Oracle, tmp_path: Path) -> None:
    """Java widens the values of a MAP; old files have indexes of the old type."""
    high = 2**31 - 1
    old: list[Any] = [None, [["k", 1]], [["k", None]], [["l", 2]], [["k", high]], [["k", -high - 1]]]
    new: list[Any] = [[["k", 2**40]], [["k", 1]], None]
    kinds = ("bitmap", "range-bitmap", "bsi")
    with oracle.batch() as batch:
        for kind in kinds:
            options = {f"file-index.{kind}.columns": "m[k]", "file-index.in-manifest-threshold": "1 mb"}
            batch.create(tmp_path, f"db.{kind}", fields(id="INT", m={**NUMBERS, "value": "INT"}), options=options)
            batch.write(tmp_path, f"db.{kind}", [{"id": i, "m": m} for i, m in enumerate(old)])
            batch.alter(tmp_path, f"db.{kind}", {"op": "type", "name": ["m", "value"], "type": "BIGINT"})
            batch.write(tmp_path, f"db.{kind}", [{"id": 6 + i, "m": m} for i, m in enumerate(new)])
    for kind in kinds:
        table = pp.Table.open(tmp_path / "db.db" / kind)
        for condition, kept in {
            "m['k'] = 1": [1, 7],
            "m['k'] > 2147483646": [4, 6],
            "m['k'] >= 2147483648": [6],
            "m['k'] < -2147483648": [],
            "m['k'] <> 1": [4, 5, 6],
            "m['k'] IN (1, 1099511627776)": [1, 6, 7],
            "m['k'] NOT IN (1, 99999999999)": [4, 5, 6],
            "m['k'] IS NULL": [0, 2, 3, 8],
        }.items():
            assert sorted(table.scan(condition).to_arrow().column("id").to_pylist()) == kept, (kind, condition)
            assert table.count(condition) == len(kept), (kind, condition)
