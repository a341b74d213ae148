"""VARIANT columns that go round: Java, pypaimon and pypaimon-rust read what is written here, and write on."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.oracle import Oracle, requires_java_oracle
from support.peers import Pypaimon, Rust
from support.values import lines
from support.variants import same

_VALUES: list[Any] = [
    {"a": 1, "b": [1, "x", None], "long": "y" * 100, "é": {"z": 2.5}},
    "text",
    None,
    list(range(300)),
    {f"k{i}": i for i in range(300)},
    -(2**40),
    True,
    {"a": None, "b": ["no number"], "é": {"z": 1, "more": {}}},
    {"a": "no number", "é": []},
]
_SHAPE = {"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "ROW", "fields": [
    {"id": 1, "name": "a", "type": "BIGINT"}, {"id": 2, "name": "b", "type": {"type": "ARRAY", "element": "INT"}},
    {"id": 3, "name": "é", "type": {"type": "ROW", "fields": [{"id": 4, "name": "z", "type": "DECIMAL(9, 3)"}]}},
    {"id": 5, "name": "round", "type": "INT"},
]}}]}  # fmt: skip
_GIVEN = {"variant.shreddingSchema": json.dumps(_SHAPE)}
_INFERRED = {"variant.inferShreddingSchema": "true", "parquet.variant.inferShreddingSchema": "true"}


def _rows(first: int, values: list[Any]) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + len(values))), "v": pp.variant_array(values)})


def _meant(rows: list[str]) -> list[Any]:
    """Rows with the values of VARIANT in place of bytes: the order of parts in these is free."""

    def decoded(value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {"value", "metadata"}:
            return same(pp.variant_values(pa.array([{k: bytes.fromhex(v) for k, v in value.items()}]))[0])
        if isinstance(value, dict):
            return {key: decoded(member) for key, member in value.items()}
        return list(map(decoded, value)) if isinstance(value, list) else value

    return [decoded(json.loads(row)) for row in rows]


def _read(rows: pa.Table) -> dict[int, Any]:
    return dict(zip(rows["id"].to_pylist(), map(same, pp.variant_values(rows["v"])), strict=True))


@pytest.mark.java
@requires_java_oracle
@pytest.mark.parametrize("shredding", [{}, _GIVEN, _INFERRED], ids=["whole", "given", "inferred"])
@pytest.mark.parametrize("keyed", [False, True])
def test_java_reads_what_is_written_here(
    tmp_path: Path, oracle: Oracle, keyed: bool, shredding: dict[str, str]
) -> None:
    options = ({"bucket": "1"} if keyed else {}) | shredding
    columns = "id BIGINT NOT NULL, v VARIANT, r ROW<y VARIANT, n INT>, l ARRAY<VARIANT>"
    table = pp.Table.create(tmp_path / "db.db" / "t", columns, primary_key="id" if keyed else None, options=options)
    table.append(_rows(0, _VALUES[:2]), options={"missing-columns": "null"})
    table.append(_rows(2, _VALUES[2:]), options={"missing-columns": "null"})
    pair = pp.variant_array([{"in": [1]}])[0].as_py()
    rows = [{"id": 50, "v": pair, "r": {"y": pair, "n": 1}, "l": [pair, None]}]
    table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    with oracle.batch() as batch:
        java = batch.read(tmp_path, "db.t")
        some = batch.read(tmp_path, "db.t", filter={"op": "isnull", "field": "v"})
        batch.write(tmp_path, "db.t", [{"id": 60, "v": {"json": '{"from": ["java", 1.5, {}]}'}}])
        if keyed:
            batch.compact(tmp_path, "db.t")
    assert _meant(lines(table.scan("id < 60").to_arrow())) == _meant(java.lines)
    assert [row["id"] for row in some.values] == [2]
    METADATA_CACHE.clear()
    assert _read(pp.Table.open(table.path).scan("id >= 60").to_arrow()) == {
        60: same({"from": ["java", Decimal("1.5"), {}]})
    }
    table.compact(full=True)
    with oracle.batch() as batch:
        java = batch.read(tmp_path, "db.t")
    assert _meant(lines(pp.Table.open(table.path).scan().to_arrow())) == _meant(java.lines)


@pytest.mark.parametrize("shredding", [{}, _GIVEN, _INFERRED], ids=["whole", "given", "inferred"])
def test_ten_rounds_with_both_peers(tmp_path: Path, pypaimon: Pypaimon, shredding: dict[str, str]) -> None:
    table = pp.Table.create(tmp_path / "w" / "db.db" / "t", "id BIGINT, v VARIANT", options=shredding)
    rust = Rust(tmp_path / "w")
    expected: dict[int, Any] = {}
    for number in range(10):
        values = [*_VALUES[:3], *_VALUES[-2:], {"round": number}]
        if shredding and number % 2:  # pypaimon loses some values where it shreds (see findings)
            values = [{"round": number, "b": [1, 2], "s": "x"}, "text", {"a": 2**40}]
        rows = _rows(10 * number, values)
        if number % 2:
            pypaimon.append("t", rows)
        else:
            table.append(rows)
        expected |= {10 * number + i: same(value) for i, value in enumerate(values)}
        METADATA_CACHE.clear()
        if number % 5 == 4:
            table.compact(full=True)
        if number % 3 == 0:
            assert _read(pypaimon.read("t")) == expected
            assert _read(rust.read("t")) == expected
        assert _read(table.scan().to_arrow()) == expected
