"""Small cases of what Java made of random tables once."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import PaimonError
from support.oracle import Oracle
from support.values import lines

FORMATS = ["parquet", "orc", "avro"]
Asked = list[tuple[str, dict[str, Any]]]


def judge(oracle: Oracle, tables: list[pp.Table], asked: Asked) -> list[tuple[str, int]]:
    """Hold Java's rows to ours for each table and filter; the texts of the filters, and how many rows they keep."""
    with oracle.batch() as batch:
        replies = [batch.read(Path(t.path).parents[1], "db.t", filter=json) for t in tables for _, json in asked]
    kept = []
    for (table, (text, _)), reply in zip(product(tables, asked), replies, strict=True):
        ours = lines(table.scan(text).to_arrow())
        assert reply.lines == ours, (table.options["file.format"], text)
        kept.append((text, len(ours)))
    return kept


def test_java_finds_wide_decimals(oracle: Oracle, warehouse: Path) -> None:
    """Java looks its literal's shortest bytes up in a Parquet dictionary, where each value has all of its bytes."""
    types = [pa.decimal128(38, 10), pa.decimal128(19, 2), pa.decimal128(18, 4), pa.decimal128(9, 2)]
    schema = pa.schema([("id", pa.int64()), *((f"d{i}", t) for i, t in enumerate(types))])
    values = ["-0.0000000170", "-17.25", "0.0017", "17.00"]
    columns = [[None if row % 4 == 0 else Decimal(v) * (row % 3) for row in range(60)] for v in values]
    rows = pa.table([pa.array(range(60)), *map(pa.array, columns, types)], schema=schema)
    tables = []
    for format_ in FORMATS:
        tables.append(pp.Table.create(warehouse / format_ / "db.db" / "t", schema, options={"file.format": format_}))
        tables[-1].append(rows)
    asked: Asked = []
    for i, v in enumerate(values):
        cast = f"CAST('{v}' AS DECIMAL({types[i].precision}, {types[i].scale}))"
        asked.append((f"d{i} = {cast}", {"op": "eq", "field": f"d{i}", "literals": [v]}))
        asked.append((f"d{i} IN ({cast}, 5)", {"op": "in", "field": f"d{i}", "literals": [v, "5"]}))
    assert {count for _, count in judge(oracle, tables, asked)} == {15}


def test_java_finds_nan(oracle: Oracle, warehouse: Path) -> None:
    """NaN is greatest and equals itself; bounds that leave it out must not be where Java trusts them."""
    schema = pa.schema([("id", pa.int64()), ("f", pa.float32()), ("d", pa.float64()), ("plain", pa.float64())])
    nan, inf = float("nan"), float("inf")
    tables = []
    for format_ in FORMATS:
        table = pp.Table.create(warehouse / format_ / "db.db" / "t", schema, options={"file.format": format_})
        for number, values in enumerate(([nan, inf, None], [1.5, nan, None], [nan, nan, None], [-inf, 2.5, 4.0])):
            ids = list(range(10 * number, 10 * number + 3))
            table.append(pa.table([ids, values, values, [float(i) for i in ids]], schema=schema))
        tables.append(table)
    asked: Asked = [
        (f"{name} {sign} CAST('{text}' AS {kind})", {"op": op, "field": name, "literals": [text]})
        for name, kind in (("f", "FLOAT"), ("d", "DOUBLE"))
        for sign, op in (("=", "eq"), (">", "gt"), (">=", "ge"), ("<", "lt"), ("<>", "ne"))
        for text in ("nan", "inf", "2.5")
    ]
    asked.append(("plain > 20", {"op": "gt", "field": "plain", "literals": ["20.0"]}))
    kept = judge(oracle, tables, asked)
    assert kept.count(("d = CAST('nan' AS DOUBLE)", 4)) == len(FORMATS)


def test_sums_that_grow_out_of_their_decimals(oracle: Oracle, warehouse: Path) -> None:
    """Java adds decimals of up to 18 digits as 64-bit integers, and writes what their types can't hold."""
    schema = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.decimal128(18, 0)), ("w", pa.decimal128(3, 1))])
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
    rows = [{"k": k, "v": v, "w": w} for k, v, w in ((1, "9" * 18, "99.9"), (2, "5", "-99.9"), (3, None, None))]
    with oracle.batch() as batch:
        for format_ in FORMATS:
            place = warehouse / format_
            batch.create(place, "db.t", schema, primary_keys=["k"], options={**options, "file.format": format_})
            for _ in range(2):
                batch.write(place, "db.t", rows)
            batch.compact(place, "db.t")
    tables = [pp.Table.open(warehouse / format_ / "db.db" / "t") for format_ in FORMATS]
    kept = judge(oracle, tables, [("k > 0", {"op": "gt", "field": "k", "literals": [0]})])
    assert kept == [("k > 0", 3)] * len(FORMATS)
    for table in tables:
        read = table.scan().to_arrow()
        assert read["v"].null_count == (1 if table.options["file.format"] == "parquet" else 2)
        for name, of in (("v", "DECIMAL(18, 0)"), ("w", "DECIMAL(3, 1)")):
            there = [value for value in read[name].to_pylist() if value is not None]
            assert table.max(name) == max(there, default=None)
            for text, count in (
                (f"{name} IS NULL", 3 - len(there)), (f"{name} IS NOT NULL", len(there)),
                (f"{name} > CAST('20' AS {of})", sum(value > 20 for value in there)),
                (f"{name} < CAST('20' AS {of})", sum(value < 20 for value in there)),
            ):  # fmt: skip
                found = table.scan(text).to_arrow().num_rows, table.count(text)
                assert found == (count, count), (table.options["file.format"], text)


def test_names_of_formats_in_any_case(oracle: Oracle, warehouse: Path) -> None:
    """Java takes them in lower case, and names files so."""
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["x", None]})
    tables = [
        ("ORC", {"file.format": "ORC"}, ["orc", "orc"]),
        ("Avro", {"file.format": "Avro", "file.suffix.include.compression": "true"}, ["zst.avro"] * 2),
        ("levels", {"file.format.per.level": "0:AVRO", "file.format": "Parquet"}, ["avro", "avro"]),
        ("changes", {"changelog-file.format": "Orc"}, ["orc", "parquet"]),
    ]
    with oracle.batch() as batch:
        replies = []
        for name, options, _ in tables:
            own = {"bucket": "1", "changelog-producer": "input", **options}
            schema = pa.schema([pa.field("id", pa.int32(), False), ("v", pa.string())])
            pp.Table.create(warehouse / "db.db" / name, schema, "id", options=own).append(rows)
            replies.append(batch.read(warehouse, f"db.{name}"))
    for (name, _, suffixes), reply in zip(tables, replies, strict=True):
        files = (warehouse / "db.db" / name / "bucket-0").iterdir()
        assert sorted(file.name.partition(".")[2] for file in files) == suffixes, name
        assert reply.lines == lines(rows), name


@pytest.mark.parametrize("options", [{}, {"ignore-delete": "true"}, {"ignore-update-before": "true"}], ids=str)
def test_kinds_of_rows_without_a_key(options: dict[str, str], oracle: Oracle, warehouse: Path) -> None:
    """A column of kinds says the same in tables without a primary key: what is no addition is refused, or left out."""
    schema = pa.schema([("id", pa.int32()), ("kind", pa.string())])
    table = pp.Table.create(warehouse / "db.db" / "t", schema, options={"rowkind.field": "kind", **options})
    with oracle.batch() as batch:
        batch.create(warehouse, "db.theirs", schema, options={"bucket": "-1", "rowkind.field": "kind", **options})
        written = []
        for number, kinds in enumerate((["+I", "+u"], ["-U", "+I"], ["-D", "+I"], ["x"], [None])):
            rows = pa.table([[number] * len(kinds), kinds], schema=schema)
            written.append((rows, batch.write(warehouse, "db.theirs", rows, allow_fail=True)))
        read = batch.read(warehouse, "db.theirs")
    for rows, reply in written:
        if reply.ok:
            table.append(rows)
        else:
            with pytest.raises(PaimonError, match=r"takes no deletes|no row kind|can't be NULL"):
                table.append(rows)
    assert lines(table.scan().to_arrow()) == read.lines
    table.update({"kind": "'-D'"}, "id = 0")  # rows that are there are no news
    assert table.compact(full=True) is not None or table.count() == len(read.lines)
