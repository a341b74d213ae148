"""Java Paimon, pypaimon-rust and paimon_pyds write to a table with dynamic buckets in turn: each finds all keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import chain, cycle, islice, permutations
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.dynamic_buckets import bucket_keys
from support.effort import LONG
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

_SCHEMA = pa.schema([pa.field("p", pa.int32(), False), pa.field("k", pa.string(), False), ("v", pa.int64())])
_OPTIONS = {"bucket": "-1", "dynamic-bucket.target-row-num": "20"}
_partitioned = pytest.mark.parametrize("by", [(), ("p",)], ids=["whole", "partitioned"])


class _Turns:
    """A table at ``WAREHOUSE/db.db/t`` and the rows that it has to have."""

    def __init__(self, warehouse: Path, random: Random) -> None:
        self.warehouse = warehouse
        self.path = warehouse / "db.db" / "t"
        self.random = random
        self.turn = 0
        self.rows: dict[tuple[int, str], int] = {}

    def next(self, write: Callable[[pa.Table], object], keys: int) -> None:
        """Write 30 rows with some of so many keys, in both partitions."""
        rows = {(self.random.randrange(2), str(self.random.randrange(keys))): self.turn for _ in range(30)}
        self.turn += 1
        self.rows.update(rows)
        write(_table(rows))

    def check(self) -> None:
        """No key is in two buckets, none is lost, and all that is here reads the rows."""
        table, expected = pp.Table.open(self.path), lines(_table(self.rows))
        assert lines(table.scan().to_arrow()) == expected
        if find_spec("pypaimon_rust"):
            builder = self._rust().new_read_builder()
            batches = builder.new_read().read(builder.new_scan().plan().splits())
            assert lines(pa.Table.from_batches(batches).cast(_SCHEMA)) == expected
        found = bucket_keys(table)
        assert max(map(len, found.values())) <= 20
        assert sum(map(len, found.values())) == len(self.rows)

    def write_here(self, rows: pa.Table) -> None:
        pp.Table.open(self.path).append(rows)

    def write_with_rust(self, rows: pa.Table) -> None:
        builder = self._rust().new_batch_write_builder()
        writer = builder.new_write()
        writer.write_arrow(rows.combine_chunks().to_batches()[0])
        builder.new_commit().commit(writer.prepare_commit())

    def _rust(self):
        from pypaimon_rust.datafusion import PaimonCatalog

        return PaimonCatalog({"warehouse": str(self.warehouse)}).get_table("db.t")


def _table(rows: dict[tuple[int, str], int]) -> pa.Table:
    columns = [[p for p, _ in rows], [k for _, k in rows], list(rows.values())]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)


@requires_java_oracle
@pytest.mark.java
@_partitioned
def test_keys_stay_in_their_bucket_whoever_writes(oracle: Oracle, tmp_path: Path, by: Sequence[str]) -> None:
    turns = _Turns(tmp_path, Random(15))
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", _SCHEMA, partition_keys=by, primary_keys=["p", "k"], options=_OPTIONS)
    source = pp.Table.create(tmp_path / "db.db" / "source", _SCHEMA)

    def write_with_java(rows: pa.Table) -> None:
        source.overwrite(rows)
        oracle.program("DynamicBucketOracle", turns.path, source.path, turns.random.randint(1, 3))

    rust = [turns.write_with_rust] if find_spec("pypaimon_rust") else []
    orders = permutations([write_with_java, turns.write_here, *rust])
    for write in islice(cycle(chain.from_iterable(orders)), 20 if LONG else 4):
        turns.next(write, 60)
        with oracle.batch() as batch:
            reply = batch.read(tmp_path, "db.t")
        assert reply.lines == lines(_table(turns.rows))
        turns.check()


@_partitioned
def test_pypaimon_rust_and_we_write_in_turn(tmp_path: Path, by: Sequence[str]) -> None:
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="needs pypaimon-rust")
    turns, context = _Turns(tmp_path, Random(16)), datafusion.SQLContext()
    context.register_catalog("paimon", {"warehouse": str(tmp_path)})
    context.sql("CREATE SCHEMA paimon.db")
    context.sql(
        "CREATE TABLE paimon.db.t (p INT NOT NULL, k STRING NOT NULL, v BIGINT, PRIMARY KEY (p, k)) "
        f"{'PARTITIONED BY (p)' if by else ''} WITH ('bucket'='-1', 'dynamic-bucket.target-row-num'='20')"
    )
    for turn in range(10 if LONG else 4):
        for write in (turns.write_here, turns.write_with_rust):
            turns.next(write, 20 + 20 * turn)
            turns.check()
