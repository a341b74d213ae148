"""Java Paimon and paimon_pyds write to a table with dynamic buckets in turn: each finds the keys of the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.dynamic_buckets import bucket_keys
from support.effort import LONG
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

_SCHEMA = pa.schema([pa.field("k", pa.string(), False), ("v", pa.int64())])
_OPTIONS = {"dynamic-bucket.target-row-num": "20"}


def _rows(values: Mapping[str, int]) -> pa.Table:
    return pa.table([pa.array(values.keys(), pa.string()), pa.array(values.values(), pa.int64())], schema=_SCHEMA)


@requires_java_oracle
@pytest.mark.java
def test_keys_stay_in_their_bucket_whoever_writes(oracle: Oracle, tmp_path: Path) -> None:
    """Not with partitions: Java is driven here by a program that looks keys up with their partition columns."""
    random = Random(15)
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", _SCHEMA, primary_keys=["k"], options=_OPTIONS)
    table, model = pp.Table.open(tmp_path / "db.db" / "t"), {}
    for turn in range(20 if LONG else 4):
        rows = {f"{random.randrange(90)}": turn for _ in range(30)}
        model.update(rows)
        arrow = _rows(rows)
        with oracle.batch() as batch:
            if turn % 2:
                batch.write(tmp_path, "db.t", arrow)
            else:
                table.append(arrow)
            reply = batch.read(tmp_path, "db.t")
        table = pp.Table.open(table.path)
        assert reply.lines == lines(_rows(model))
        _check(table, model)


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (p)"])
def test_pypaimon_rust_and_we_write_in_turn(tmp_path: Path, by: str) -> None:
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="needs pypaimon-rust")
    random = Random(16)
    context = datafusion.SQLContext()
    context.register_catalog("paimon", {"warehouse": str(tmp_path)})
    context.sql("CREATE SCHEMA paimon.db")
    context.sql(
        "CREATE TABLE paimon.db.t (p INT NOT NULL, k STRING NOT NULL, v BIGINT, PRIMARY KEY (p, k)) "
        f"{by} WITH ('bucket'='-1', 'dynamic-bucket.target-row-num'='20')"
    )
    model: dict[str, int] = {}
    for turn in range(20):
        rows = {f"{random.randrange(20 + 10 * turn)}": turn for _ in range(30)}
        model.update(rows)
        data = _rows(rows).add_column(
            0, pa.field("p", pa.int32(), False), pa.array([int(k) % 2 for k in rows], pa.int32())
        )
        if turn % 2:
            table = datafusion.PaimonCatalog({"warehouse": str(tmp_path)}).get_table("db.t")
            builder = table.new_batch_write_builder()
            writer = builder.new_write()
            writer.write_arrow(data.combine_chunks().to_batches()[0])
            builder.new_commit().commit(writer.prepare_commit())
        else:
            pp.Table.open(tmp_path / "db.db" / "t").append(data)
        _check(pp.Table.open(tmp_path / "db.db" / "t"), model)


def _check(table: pp.Table, model: Mapping[str, int]) -> None:
    assert lines(table.scan(columns=["k", "v"]).to_arrow()) == lines(_rows(model))
    found = bucket_keys(table)
    assert max(map(len, found.values())) <= 20
    assert sum(map(len, found.values())) == len(model)
