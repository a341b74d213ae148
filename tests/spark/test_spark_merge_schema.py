"""`write.merge-schema` in Spark: columns and types that DataFrames bring, in each way to write one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.spark import foreach_batch, merge, write
from support.effort import LONG, SEED, sampled
from support.growing_world import WIDEN, GrowingWorld

pytestmark = pytest.mark.spark

_MERGE = {"write.merge-schema": "true", "write.merge-schema.type-widening": "true"}


def _types(path: Path) -> dict[str, str]:
    return {field.name: str(field.type) for field in pp.Table.open(path).schema.fields}


@pytest.mark.slow
def test_every_write_brings_columns(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"

    def save(sql: str, **options: object) -> None:
        named = {name.replace("_", "-"): str(value) for name, value in options.items()}
        spark.sql(sql).write.format("paimon_pyds").mode("append").options(**_MERGE, **named).save(str(path))

    pp.Table.create(path, "id INT, s ROW<a INT>").append([{"id": 1, "s": {"a": 1}}])
    with pytest.raises(Exception, match=r"no column 'b'.*write\.merge-schema=true"):
        spark.sql("SELECT 2 AS id, 'x' AS b").write.format("paimon_pyds").mode("append").save(str(path))
    save("SELECT 2L AS id, 'x' AS b, named_struct('z', array(1.5D), 'a', 5000000000L) AS s")
    assert _types(path) == {"id": "BIGINT", "s": "ROW<a BIGINT, z ARRAY<DOUBLE>>", "b": "STRING"}
    write(spark.sql("SELECT 3 AS ID, DATE'2026-01-31' AS d, CAST(NULL AS INT) AS n"), str(path), options=_MERGE)
    save("SELECT id, s, b, d, n, TRUE AS up FROM paimon_pyds.`x`".replace("paimon_pyds.`x`", "VALUES "
         "(3L, named_struct('a', 1L, 'z', array(0.5D)), 'y', DATE'2026-02-01', 1) AS t(id, s, b, d, n)"),
         operation="upsert", operation_keys="id")  # fmt: skip
    source = spark.sql("SELECT 4L AS id, 0.5D AS m")
    merge(spark, str(path), source, "id", when_matched="update", when_not_matched="insert", options=_MERGE)
    assert list(_types(path)) == ["id", "s", "b", "d", "n", "up", "m"]
    rows = {row["id"]: row for row in pp.Table.open(path).to_arrow().to_pylist()}
    assert [rows[id_]["up"] for id_ in (1, 2, 3, 4)] == [None, None, True, None]
    assert rows[1]["s"] == {"a": 1, "z": None} and rows[2]["s"] == {"a": 5_000_000_000, "z": [1.5]}
    spark.range(1).write.format("paimon_pyds").mode("append").options(**_MERGE).save(str(tmp_path / "new"))
    assert pp.Table.open(tmp_path / "new").options.keys().isdisjoint(_MERGE)  # they were of that write
    assert rows[4]["m"] == 0.5 and rows[4]["b"] is None and rows[3]["n"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("sink", sampled(["sink", "foreach_batch"], 1))
def test_streams_bring_columns(spark: Any, tmp_path: Path, sink: str) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT", ["id"], options={"bucket": "1"})
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "c": [5]}), tmp_path / "in" / "1.parquet")
    frame = spark.readStream.schema("id INT, c BIGINT").parquet(str(tmp_path / "in"))
    stream = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    if sink == "sink":
        query = stream.format("paimon_pyds").options(**_MERGE).start(str(tmp_path / "t"))
    else:
        query = stream.foreachBatch(foreach_batch(str(tmp_path / "t"), name="s", options=_MERGE)).start()
    query.awaitTermination(120)
    assert table.to_arrow().to_pylist() == [{"id": 1, "c": 5}]


@pytest.mark.slow
@pytest.mark.parametrize("keyed", sampled([False, True], 1), ids="keyed={}".format)
def test_random_columns_come_widen_and_go(spark: Any, tmp_path: Path, keyed: bool) -> None:
    path = ""

    def save(rows: pa.Table) -> None:
        pq.write_table(rows, tmp_path / "rows.parquet")
        frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
        frame.write.format("paimon_pyds").mode("append").options(**WIDEN).save(path)

    for seed in sampled(range(SEED, SEED + 60), 1):
        path = str(tmp_path / f"t{seed}")
        world = GrowingWorld(seed, Path(path), "parquet", keyed, save)
        for _ in range(5 if LONG else 4):
            world.step()
            world.check()
            world.check(spark.read.format("paimon_pyds").load(path).toArrow())
