"""Global indexes of the type btree, written by Java Paimon and read here, and the other way round."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_pyds.base.types import parse_type
from paimon_pyds.index.global_index.btree_writer import write_btree
from paimon_pyds.index.global_index.range_meta import read_key_range, write_key_range
from paimon_pyds.index.global_index.reader import open_global_index
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.probe import make_probe
from paimon_pyds.sql.predicate.tree import Op
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import SEED
from support.oracle import Oracle

ROWS = 3000
VALUES: dict[str, Any] = {
    "BIGINT": lambda rng: rng.choice([rng.randrange(-(2**63), 2**63), rng.randrange(-200, 200)]),
    "DOUBLE": lambda rng: rng.choice([rng.uniform(-9, 9), 0.0, -0.0, float(rng.randrange(5))]),
    "STRING": lambda rng: "".join(rng.choice("abé😀") for _ in range(rng.randrange(1, 5))),
    "TIMESTAMP(6)": lambda rng: rng.randrange(-(10**15), 10**15),
    "DECIMAL(9, 2)": lambda rng: Decimal(rng.randrange(-99999, 99999)).scaleb(-2),
}


def column(type_: str, values: list[Any]) -> pa.Array:
    if type_.startswith("TIMESTAMP"):
        return pa.array(values, pa.int64()).cast(pa.timestamp("us"))
    return pa.array(values, {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string()}.get(type_))


@pytest.mark.parametrize("type_", sorted(VALUES))
def test_both_read_the_same_rows(type_: str, oracle: Oracle, tmp_path: Path) -> None:
    rng = random.Random(f"{type_} {SEED}")
    values = [None if rng.random() < 0.05 else VALUES[type_](rng) for _ in range(ROWS)]
    array = column(type_, values)
    if type_.startswith("DECIMAL"):
        array = array.cast(pa.decimal128(9, 2))
    ours = write_btree(array, np.arange(ROWS), parse_type(type_))
    (tmp_path / "ours").write_bytes(b"".join(ours.pieces))
    lines = oracle.program("BTreeOracle", "read", type_, tmp_path / "ours", write_key_range(ours.bounds).hex())
    rows = "".join(
        f"{text}\t{row}\n" for text, ids in (line.split("\t") for line in lines) for row in ids[1:-1].split(", ")
    )
    by_java = {int(row): text for text, row in (line.split("\t") for line in rows.splitlines())}
    assert sorted(by_java) == list(range(ROWS))
    assert [by_java[row] == "" for row in range(ROWS)] == [value is None for value in values]
    (tmp_path / "rows").write_text(rows, encoding="utf-8")  # in the order of Java's keys
    (bounds,) = oracle.program("BTreeOracle", "write", type_, tmp_path / "rows", tmp_path / "theirs")
    assert read_key_range(bytes.fromhex(bounds)) == ours.bounds
    index = open_global_index("btree", BytesSource((tmp_path / "theirs").read_bytes()), parse_type(type_), ROWS)
    codec = key_codec(parse_type(type_))
    for value in rng.sample([value for value in values if value is not None], 40):
        for op in (Op.EQ, Op.LT, Op.GE):
            compared = {Op.EQ: "__eq__", Op.LT: "__lt__", Op.GE: "__ge__"}[op]
            wanted = [row for row, each in enumerate(values) if each is not None and getattr(each, compared)(value)]
            found = index.candidates(make_probe(op, [value], codec))
            assert found is not None
            assert found.tolist() == wanted
    found = index.candidates(make_probe(Op.IS_NULL, [], codec))
    assert found is not None
    assert found.tolist() == [row for row, value in enumerate(values) if value is None]
