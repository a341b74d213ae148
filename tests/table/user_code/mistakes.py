"""What users mistype: each line with the comment is one mistake, which type checkers find; it is never run."""

# ruff: noqa: F401, B018
from __future__ import annotations

import polars as pl
from pyspark.sql import DataFrame, SparkSession

import paimon_pyds as pp
from paimon_pyds import Catalogue  # mistake
from paimon_pyds.spark import upsert  # mistake

pp.Tabel.open("/t")  # mistake
pp.spark.mrge  # mistake
table = pp.Table.open("/t")


def read() -> None:
    pp.Table.open("/t", brunch="main")  # mistake
    table.scan("id = 1", colums=["id"])  # mistake
    table.scan(limit="10")  # mistake
    table.count("id = 1", tga="t")  # mistake
    table.count(filter=5)  # mistake
    table.scan(fliter="id = 1")  # mistake
    table.explain("id = 1", analyse=True)  # mistake
    table.scan(snapshot="seven").answer  # mistake
    table.lookup({"id": [1]}, column=["s"])  # mistake
    table.top_n("id, 3", top_n="id, 3")  # mistake
    table.system.read("file")  # mistake
    table.scan().to_arow()  # mistake
    pl.concat([table.to_polars().fliter(True)])  # mistake


def write() -> None:
    pp.Table.create("/t", {"id": [1]}, primary_keys=["id"])  # mistake
    pp.Catalog("/wh").create_table("t", {"id": [1]}, partitioned_by=["id"])  # mistake
    pp.Catalog("/wh").alter_table("t", add_column={"n": "INT"})  # mistake
    table.append("rows.csv")  # mistake
    table.append({"id": [1]}, options={"bucket": ["4"]})  # mistake
    table.overwrite({"id": [1]}, partitions={"s": "a"})  # mistake
    table.append({"id": [1]}).idd  # mistake


def change() -> None:
    table.delete(were="id = 1")  # mistake
    table.update({"s": "'a'"}, whre="id = 1")  # mistake
    table.delete(where=5)  # mistake
    table.delete(filter=5)  # mistake
    table.merge([{"id": 1}], on=5, when_matched="update")  # mistake
    table.merge([{"id": 1}], on=None, when_matched="update")  # mistake
    table.merge([{"id": 1}], "id", when_matched="upsert")  # mistake
    table.merge([{"id": 1}], "id", when_matched=["update", "delet"])  # mistake
    table.merge([{"id": 1}], "id", when_not_matched="update")  # mistake
    table.merge([{"id": 1}], "id", when_not_matched_by_source="insert")  # mistake
    table.merge([{"id": 1}], "id", when_not_matched_by_source="update")  # mistake
    table.merge([{"id": 1}], "id", when_match="update")  # mistake
    pp.Delete(where=5)  # mistake
    table.merge([{"id": 1}], "id", when_matched=pp.Insert())  # mistake
    table.merge([{"id": 1}], "id", when_not_matched=[pp.Delete()])  # mistake
    pp.Update({"s": "source.s"}, were="source.n > 0")  # mistake
    table.alter(change_types={"a": 5})  # mistake
    table.alter(add_column={"n": "INT"})  # mistake
    table.alter(rename_columns=["old", "new"])  # mistake
    table.compact(order_by="id", order="hilbrt")  # mistake
    table.compact(ful=True)  # mistake
    raise pp.errors.SchemeError("no")  # mistake


def on_spark(spark: SparkSession, df: DataFrame) -> None:
    pp.register(spark, push_down=True)  # mistake
    pp.spark.write(df, "/t", mode="apend")  # mistake
    pp.spark.write(df, "/t", partitoin_by=["s"])  # mistake
    pp.spark.write(df, "/t", operation="merge")  # mistake
    pp.spark.delete(spark, "/t", where=5)  # mistake
    pp.spark.compact(spark, "/t", order="z-order")  # mistake
    pp.spark.merge(spark, "/t", df, on="id", when_not_matched=pp.Update())  # mistake
