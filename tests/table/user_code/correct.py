"""What users write, and type checkers find nothing wrong with; it is never run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import paimon_pyds as pp
from paimon_pyds import Delete, Insert, Table, Update
from paimon_pyds.errors import CommitConflictError, PaimonError
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.typing import ScanArguments


def create(path: Path, frame: pd.DataFrame) -> Table:
    catalog = pp.Catalog("/wh", {"s3.region": "eu"})
    catalog.create_database("shop", ignore_if_exists=True)
    catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]), ["id"], options={"bucket": 4})
    catalog.alter_table("shop.orders", {"write-only": True}, ["bucket-key"], comment="orders")
    pp.Table.create(path, frame, primary_key=["id"])
    return pp.Table.create(
        "/t", [{"id": 1, "s": "a"}], ("id",), partition_by=["s"], options={"bucket": -1, "write-only": False}
    )


def write(table: Table, frame: pd.DataFrame, lazy: pl.LazyFrame) -> int:
    def rows() -> Iterator[dict[str, Any]]:
        yield {"id": 1}

    for data in (pa.table({"id": [1]}), lazy, pl.DataFrame({"id": [1]}), frame):
        table.append(data, options={"target-file-size": 1_000_000})
    table.append({"id": [1], "s": ["a"]}, progress=print)
    table.append(rows())
    table.append([pl.DataFrame({"id": [1]}), pl.DataFrame({"id": [2]})])
    table.append(Table.open("/other").scan("id > 3"))
    table.append(Table.open("/other"))
    snapshot = table.overwrite(frame, {"s": "a"}, dynamic=False)
    return 0 if snapshot is None else snapshot.id


def read(table: Table, **scan: Any) -> list[object]:
    now: ScanArguments = {"timestamp": datetime(2026, 1, 31), "options": {"scan.manifest.parallelism": 2}}
    names: list[str] = pl.DataFrame(table).columns + table.to_polars().columns
    return [
        table.scan("id = 1", ["id"], limit=3, snapshot=7).to_arrow(),
        table.scan(top_n="id desc, 3", tag="t").to_pandas(types_mapper=pd.ArrowDtype),
        table.explain("id = 1", analyze=True, columns=["id"], limit=1).text,
        table.count("id = 1", **now) + table.count(**scan),
        table.exists(timestamp="2026-01-31"),
        table.lookup({"id": [1]}, ["s"], where="s = 'a'", options=None),
        table.lookup({"id": [1]}, filter="s = 'a'"),
        table.scan(where="id = 1").where("s = 'a'").count() + table.scan(filter="id = 1").count(),
        table.count(where="id = 1") + table.count(filter="id = 1", snapshot=3),
        table.top_n("id, 3", where="id = 1").num_rows + table.top_n("id, 3", filter="id = 1").num_rows,
        table.system.read("files", where="level > 0") == table.system.read("files", filter="level > 0", limit=3),
        [table.lookup(1), table.lookup("a"), table.lookup([1, 2]), table.lookup(("a", 1)), table.lookup([("a", 1)])],
        table.top_n("id desc, 3", columns=["id"]),
        table.system.read("files", "level > 0", limit=3),
        table.scan(snapshot=3).answer.max("id").value,
        [batch.num_rows for batch in table],
        names,
    ]


def change(table: Table, order_by: list[str]) -> None:
    table.delete("id = 1")
    table.delete(pc.field("id") == 1)
    table.delete(Const.TRUE)
    table.delete(filter="id = 1")
    table.update({"s": "'b'"}, filter=pc.field("id") == 1)
    table.maintenance.drop_partitions(filter="s = 'a'")
    table.maintenance.drop_partitions(where=[{"s": "a"}, {"s": None}])
    table.maintenance.rescale(4, where="s = 'a'")
    table.update({"s": "'b'", "n": 1}, "id = 2", progress=lambda rows: None)
    table.merge([{"id": 1}], on="id", when_matched="update", when_not_matched="insert")
    table.merge(
        pa.table({"id": [1]}),
        "target.id = source.id",
        when_matched=[Delete("source.gone"), Update({"s": "source.s"}, pc.field("n") > 1), "delete"],
        when_not_matched=[Insert(where="source.id > 0")],
        when_not_matched_by_source=Delete("target.id < 0"),
        options={"timezone": "UTC"},
    )
    table.alter({"bucket": 8, "write-only": True}, add_columns={"n": "INT", "t": pa.string()}, drop_columns=["s"])
    table.alter(change_types={"a": "BIGINT", "b": pa.int64(), "row": {"type": "ROW", "fields": []}})
    table.alter(add_columns=pa.schema([("x", pa.int64())]))
    table.alter(unset_options=["bucket"], move_columns={"n": "first"}, comment=None)
    table.compact("s = 'a'", order_by, order="zorder", full=True)


def on_spark(spark: SparkSession, df: DataFrame, table: Table) -> str:
    pp.register(spark, pushdown=True)
    pp.spark.write(df, "/t", "overwrite", {"file.format": "orc"}, partition_by=["s"], bucket=4)
    pp.spark.merge(spark, "/t", df, on=["id"], when_matched="update", when_not_matched=pp.Insert())
    pp.spark.compact(spark, "/t", order_by="id", order="hilbert")
    df.repartition(pp.spark.bucket(df, table))
    try:
        pp.spark.update(spark, "/t", {"s": "'b'"}, filter="id = 1")
        return str(pp.spark.delete(spark, "/t", where="id = 1"))
    except (CommitConflictError, PaimonError, pp.errors.OptionError) as error:
        return error.message
