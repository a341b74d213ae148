"""Messages of a change stream in a DataFrame: the same rows as from Arrow, in the order of the messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]
FILES = Path(__file__).parent.parent / "ops" / "cdc"
ORDERS = (
    "id INT, customer STRING, price DECIMAL(10,2), day DATE, at TIMESTAMP(3), "
    "paid TIMESTAMP(6) WITH LOCAL TIME ZONE, photo BYTES"
)


def test_a_dataframe_of_messages_is_written_into_a_key_table(spark: Any, path: str, tmp_path: Path) -> None:
    messages = spark.read.text(str(FILES / "debezium_with_schema.jsonl")).where("value <> ''").coalesce(1)
    table = pp.Table.create(path, ORDERS, primary_key="id")
    rows = pp.cdc.debezium(messages, table, add_columns=True)
    assert rows.columns == [*table.arrow_schema.names, "rowkind"]
    assert "note" in rows.columns
    pp.spark.write(rows, path, options={"rowkind-column": "rowkind"})
    plain = pp.Table.create(str(tmp_path / "plain"), table.arrow_schema, primary_key="id")
    texts = [line for line in (FILES / "debezium_with_schema.jsonl").read_text().splitlines() if line]
    plain.append(pp.cdc.debezium(texts, plain), rowkind_column="rowkind")
    assert table.to_arrow().sort_by("id") == plain.to_arrow().sort_by("id")
    assert table.count() == 2


@pytest.mark.slow
def test_changes_of_a_key_in_several_partitions_are_ordered(spark: Any, path: str) -> None:
    table = pp.Table.create(path, "id INT, n INT", primary_key="id", options={"bucket": "2"})
    base = {"database": "d", "table": "t"}
    rows = [(n, json.dumps({**base, "type": "insert", "data": {"id": n % 3, "n": n}})) for n in range(60)]
    messages = spark.createDataFrame(rows, "offset bigint, json string").repartition(4, "offset")
    changes = pp.cdc.maxwell(messages, table, value="json", carry=["offset"], order_by=["offset"])
    assert changes.columns == ["id", "n", "rowkind", "offset"]
    pp.spark.write(changes.drop("offset"), path, options={"rowkind-column": "rowkind"})
    assert table.to_arrow().sort_by("id").to_pylist() == [{"id": n, "n": 57 + n} for n in range(3)]
    wrong = spark.createDataFrame([(1, '{"op": "c"}')], "offset bigint, json string")
    with pytest.raises(Exception, match="message 0: its member `after` is nothing"):
        pp.cdc.debezium(wrong, table, value="json").collect()


@pytest.mark.slow
def test_a_stream_of_messages_goes_into_the_sink(spark: Any, path: str, tmp_path: Path) -> None:
    table = pp.Table.create(path, ORDERS, primary_key="id", options={"bucket": "1"})
    folder = tmp_path / "in"
    folder.mkdir()
    texts = [line for line in (FILES / "maxwell.jsonl").read_text().splitlines() if line]
    (folder / "1.json").write_text("\n".join(texts))
    changes = pp.cdc.maxwell(spark.readStream.text(str(folder)), table, unknown_fields="ignore", zone="UTC")
    writer = changes.writeStream.format("paimon").option("rowkind-column", "rowkind")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start(path)
    assert query.awaitTermination(600)
    assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == [1, 30]
    for wrong in ({"add_columns": True}, {"order_by": ["value"]}):
        with pytest.raises(pp.errors.OptionError, match="is for DataFrames that end"):
            pp.cdc.maxwell(spark.readStream.text(str(folder)), table, **wrong)
