"""Functions of VARIANT against Spark's own, on random values, paths and types."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_expression
from support.effort import LONG, SEED

pytestmark = pytest.mark.spark
pytest.importorskip("pyspark", reason="needs pyspark")

_VALUES = 10_000 if LONG else 200
_PATHS = ("$", "$.a", "$.b", "$[0]", "$.a[1]", "$.a.b", "$['c d']", "$.b[0].a")
_TYPES = (
    "boolean", "tinyint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,10)", "string", "binary",
    "date", "timestamp", "timestamp_ntz", "variant", "array<int>", "array<string>", "map<string,string>",
    "struct<a int, b string>", "array<struct<a double>>",
)  # fmt: skip
_TEXTS = (
    "", "1", " 12 ", "-7", "1.5", "1e3", "true", "no", "abc", "2020-01-02", "2020-01-02 03:04:05.678", "é",
    "99999999999999999999", "NaN", "2020-13-01", "0x1F", "1d",
)  # fmt: skip


def _scalar(draw: random.Random) -> Any:
    choice = draw.randrange(12)
    moment = dt.datetime(draw.choice([1583, 1970, 2024, 9999]), 3, 4, 5, 6, draw.randrange(60), draw.randrange(10**6))
    if choice < 2:
        return draw.choice([None, True, False])
    if choice < 4:
        return draw.choice([0, 1, -1, 127, 128, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, draw.randrange(-1000, 1000)])
    if choice < 6:
        return draw.choice([0.0, -0.5, 1.5, 1e10, 1e300, -1e-7, float("inf"), float("nan"), draw.random() * 100])
    if choice < 8:
        digits = draw.choice([3, 9, 18, 38])
        return Decimal(draw.randrange(-(10**digits) + 1, 10**digits)).scaleb(-draw.randrange(0, min(digits, 12)))
    if choice == 8:
        return draw.choice([moment, moment.replace(tzinfo=dt.UTC), moment.date()])
    return draw.choice([b"", b"bytes", "é".encode()]) if choice == 9 else draw.choice(_TEXTS)


def _value(draw: random.Random, level: int = 0) -> Any:
    choice = draw.random()
    if level > 3 or choice < 0.35:
        return _scalar(draw)
    if choice < 0.6:
        return [_value(draw, level + 1) for _ in range(draw.randrange(4))]
    return {draw.choice(["a", "b", "c d", "é"]): _value(draw, level + 1) for _ in range(draw.randrange(4))}


def _shown(text: str) -> str:
    """An expression as it is compared: dates and times as texts, as Python has not all of them."""
    if "'variant'" in text:
        return f"to_json({text})"
    if "'timestamp'" in text:
        return f"unix_micros({text})"
    return f"CAST({text} AS STRING)" if "'date'" in text or "'timestamp_ntz'" in text else text


def _ours(text: str, rows: pa.RecordBatch, fields: Any) -> list[Any]:
    found = bind_expression(text, [Scope((), fields)], timezone="Europe/Berlin").evaluate(rows)
    return [_plain(value) for value in found.to_pylist()]


def _plain(value: Any) -> Any:
    """A value of Spark or of Arrow as both have it."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat()
    if hasattr(value, "asDict"):
        return {k: _plain(v) for k, v in value.asDict().items()}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()} or []
    if isinstance(value, list):
        if value and all(type(v) is tuple for v in value):
            return {k: _plain(v) for k, v in value}
        return [_plain(v) for v in value]
    return value


@pytest.fixture
def berlin(spark: Any) -> Any:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.slow  # Spark 4.0 makes a DECIMAL of a timestamp by way of a double
def test_parts_of_values(berlin: Any, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    table = pp.Table.create(tmp_path / "t", "id BIGINT, v VARIANT")
    values = [_value(draw) for _ in range(_VALUES)]
    table.append({"id": list(range(len(values))), "v": values})
    rows = table.scan().to_arrow().combine_chunks().to_batches()[0]
    berlin.read.format("paimon").load(str(tmp_path / "t")).cache().createOrReplaceTempView("variants")
    asked = [f"try_variant_get(v, {json.dumps(p)}, '{t}')" for p in _PATHS for t in _TYPES]
    asked = asked if LONG else draw.sample(asked, 30)
    asked += [
        "to_json(v)",
        "is_variant_null(v)",
        "schema_of_variant(v)",
        "to_json(try_variant_get(v, '$.a'))",
        "try_cast(v AS STRING)",
    ]
    asked = list(map(_shown, asked))
    theirs = berlin.sql(f"SELECT id, {', '.join(f'{text} AS c{n}' for n, text in enumerate(asked))} FROM variants")
    columns = list(zip(*sorted(map(tuple, theirs.collect())), strict=True))[1:]
    wrong = []
    for text, column in zip(asked, columns, strict=True):
        ours = _ours(text, rows, table.schema.fields)
        for value, a, b in zip(values, ours, column, strict=True):
            if a != _plain(b):
                wrong.append(f"{text} of {value!r:.300}: {a!r}, by Spark {_plain(b)!r}")
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong[:40])


_SHAPE = {"type": "ROW", "fields": [{"name": "v", "type": {"type": "ROW", "fields": [
    {"name": "a", "type": "BIGINT"}, {"name": "b", "type": {"type": "ARRAY", "element": "STRING"}},
    {"name": "c d", "type": {"type": "ROW", "fields": [{"name": "a", "type": "DOUBLE"}, {"name": "b", "type": "INT"}]}},
    {"name": "é", "type": "DECIMAL(18, 3)"},
]}}]}  # fmt: skip


@pytest.mark.slow  # Spark 4.0 reads no shredded files
def test_spark_reads_files_that_its_tasks_wrote_shredded(spark: Any, tmp_path: Path) -> None:
    """By its own Parquet reader, which takes filters on members to their columns."""
    draw = random.Random(SEED)
    whole = pp.Table.create(tmp_path / "whole", "id BIGINT, v VARIANT")
    values: list[Any] = [{key: _value(draw, 2) for key in ("a", "b", "c d", "é", "n", "o")} for _ in range(_VALUES)]
    values = [v | {"n": n, "o": {"x": n % 7}} for n, v in enumerate(values)]
    values[::7] = [_value(draw) for _ in values[::7]]
    whole.append({"id": list(range(len(values))), "v": values})
    rows = spark.read.format("paimon").load(str(whole.path))
    parts = ("$.a', 'bigint", "$.b[0]', 'string", "$.o.x', 'int", "$.é', 'string")
    columns = (
        "id",
        "to_json(v)",
        "schema_of_variant(v)",
        "v:n IS NULL",
        *(f"try_variant_get(v, '{p}')" for p in parts),
    )
    expected = rows.selectExpr(*columns).orderBy("id").collect()
    given = {"variant.shreddingSchema": json.dumps(_SHAPE)}
    for name, options in (("given", given), ("inferred", {"variant.inferShreddingSchema": "true"})):
        table = pp.Table.create(tmp_path / name, "id BIGINT, v VARIANT")
        some = rows if name == "given" else rows.where("id % 7 <> 0")
        some.write.format("paimon").options(**options).mode("append").save(str(table.path))
        assert any("typed_value" in str(pq.read_schema(path).field("v").type) for path in _paths(table))
        files = spark.read.schema("id BIGINT, v VARIANT").parquet(f"{table.path}/bucket-0")
        found = files.selectExpr(*columns).orderBy("id").collect()
        assert found == [row for row in expected if name == "given" or row[0] % 7]
    assert files.where("v:o.x::int = 3").count() == table.count("v:o.x::int = 3") > 0


def _paths(table: pp.Table) -> list[str]:
    return [row["file_path"] for row in table.system.read("files").to_pylist()]
