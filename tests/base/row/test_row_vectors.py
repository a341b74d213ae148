"""Rows, hashes and buckets against the values that Java Paimon computed."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_pyds.base.row import decode_rows, encode_rows, hash_rows
from paimon_pyds.base.types import AtomicType, DataType, parse_type
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.bucket import bucket_of
from support.fixtures import DEV
from support.oracle_filters import arrow_column, internal_value

requires_vectors = pytest.mark.skipif(
    DEV is None or not (DEV / "hash_vectors.json").exists(), reason="needs hash_vectors.json of Java Paimon"
)

_EPOCH = datetime.datetime(1970, 1, 1)


def vectors() -> dict[str, Any]:
    assert DEV is not None
    loaded: dict[str, Any] = json.loads((DEV / "hash_vectors.json").read_text(encoding="utf-8"))
    return loaded


def fits(value: Any, type_: DataType) -> bool:
    if value is None or not isinstance(type_, AtomicType) or "TIMESTAMP" not in type_.kind.value:
        return True
    return abs(internal_value(value, type_)) < 2**63


def check(values: list[dict[str, Any]], columns: list[pa.Array], types: list[DataType]) -> int:
    rows = encode_rows(columns, types, arity=False)
    assert [row.hex() for row in rows.to_pylist()] == [v["binaryRow"] for v in values]
    assert hash_rows(columns, types).tolist() == [v["hash"] for v in values]
    for name, function in (("bucket", "default"), ("bucketMod", "mod"), ("bucketHive", "hive")):
        given = [i for i, v in enumerate(values) if v.get(name) is not None]
        for buckets in (1, 2, 5, 16):
            if not given:
                continue
            try:
                found = bucket_of([c.take(pa.array(given)) for c in columns], types, buckets, function)
            except UnsupportedError:
                assert function == "hive" and all(values[i][name][str(buckets)] == 0 for i in given)  # null timestamps
                continue
            assert found.tolist() == [values[i][name][str(buckets)] for i in given]
    decoded = decode_rows(rows, types, arity=False)
    for before, after in zip(columns, decoded, strict=True):
        assert encode_rows([after], [types[columns.index(before)]], arity=False) == encode_rows(
            [before], [types[columns.index(before)]], arity=False
        )
    return len(values)


NESTED = ("ARRAY", "MAP", "ROW")


@requires_vectors
def test_every_single_column_vector() -> None:
    checked = 0
    for entry in vectors()["types"]:
        if entry["type"].startswith(NESTED):
            continue
        type_ = parse_type(entry["type"])
        values = [v for v in entry["values"] if fits(v["value"], type_)]
        assert len(values) >= len(entry["values"]) - 3
        checked += check(values, [arrow_column([v["value"] for v in values], type_)], [type_])
    assert checked > 400


@requires_vectors
def test_every_multi_column_vector() -> None:
    for entry in vectors()["rows"]:
        types = [parse_type(f["type"]) for f in entry["fields"]]
        columns = [
            arrow_column([v["row"].get(f["name"]) for v in entry["values"]], type_)
            for f, type_ in zip(entry["fields"], types, strict=True)
        ]
        check(entry["values"], columns, types)


@pytest.mark.parametrize("text", [{"type": "ARRAY", "element": "INT"}, "VARIANT"])
def test_nested_types_are_refused(text: Any) -> None:
    with pytest.raises(UnsupportedError, match="can't be"):
        hash_rows([pa.array([None], pa.int32())], [parse_type(text)])


def test_a_million_keys_hash_in_seconds() -> None:
    import time

    keys = pa.array(np.arange(1_000_000, dtype=np.int64))
    started = time.process_time()
    hash_rows([keys], [parse_type("BIGINT")])
    assert time.process_time() - started < 5
