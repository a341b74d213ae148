"""NaN in files of writers whose statistics leave it out: Java's ORC files, and all that pypaimon-rust writes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import sampled
from support.oracle import Oracle, requires_java_oracle

SCHEMA = pa.schema([("id", pa.int64()), ("f", pa.float32()), ("d", pa.float64())])
FILES = ([1.0, math.nan, None], [math.nan, 2.0, -math.inf], [math.nan, math.nan, None], [-2.5, -1.0, 4.0])
FILTERS = {
    "{} > 5": [1, 10, 20, 21],
    "{} >= 4": [1, 10, 20, 21, 32],
    "{} = CAST('NaN' AS DOUBLE)": [1, 10, 20, 21],
    "{} IN (1, CAST('NaN' AS DOUBLE))": [0, 1, 10, 20, 21],
    "{} < -2": [12, 30],
    "{} <= 2": [0, 11, 12, 30, 31],
    "{} < CAST('NaN' AS DOUBLE)": [0, 11, 12, 30, 31, 32],
    "{} BETWEEN 1.5 AND 3": [11],
    "{} <> 2": [0, 1, 10, 12, 20, 21, 30, 31, 32],
    "NOT ({} <= 4)": [1, 10, 20, 21],
}


def rows(number: int) -> pa.Table:
    values = FILES[number]
    return pa.table([range(10 * number, 10 * number + 3), values, values], schema=SCHEMA)


def check(table: pp.Table) -> None:
    """Filters, answers and the first rows by an order, all of which go by statistics."""
    for column in ("f", "d"):
        for text, expected in FILTERS.items():
            where = text.format(column)
            assert sorted(table.scan(where).to_arrow()["id"].to_pylist()) == expected, where
            assert table.count(where) == len(expected), where
        assert math.isnan(table.max(column))
        assert table.min(column) == -math.inf
        assert sorted(table.top_n(f"{column} desc, 4")["id"].to_pylist()) == [1, 10, 20, 21]
        assert table.top_n(f"{column} asc nulls last, 2")["id"].to_pylist() == [12, 30]
        assert table.distinct(column)["count"].to_pylist() == [2, 1, 1, 1, 1, 1, 1, 4]
    table.delete("d <= 4")  # statistics don't prove it of a whole file
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 10, 20, 21, 22]


@requires_java_oracle
@pytest.mark.java
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_files_of_java(oracle: Oracle, warehouse: Path, file_format: str) -> None:
    with oracle.batch() as batch:
        batch.create(warehouse, "db.t", SCHEMA, options={"file.format": file_format})
        for number in range(len(FILES)):
            batch.write(warehouse, "db.t", rows(number))
    check(pp.Table.open(warehouse / "db.db" / "t"))


def test_files_of_pypaimon_rust(warehouse: Path) -> None:
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="pypaimon-rust is not installed")
    pp.Table.create(warehouse / "db.db" / "t", SCHEMA)
    for number in range(len(FILES)):
        builder = datafusion.PaimonCatalog({"warehouse": str(warehouse)}).get_table("db.t").new_batch_write_builder()
        writer = builder.new_write()
        for batch in rows(number).to_batches():
            writer.write_arrow(batch)
        builder.new_commit().commit(writer.prepare_commit())
    check(pp.Table.open(warehouse / "db.db" / "t"))


@requires_java_oracle
@pytest.mark.java
@pytest.mark.parametrize("bits", sampled([32, 64], 1))
@pytest.mark.parametrize(
    ("primary", "partition", "options"),
    [
        ("", "", {"bucket": "7", "bucket-key": "x"}),
        ("", "x", {}),
        ("x", "", {"bucket": "7"}),
        ("x", "", {"bucket": "-1"}),
        ("id, x", "x", {"bucket": "1"}),
    ],
    ids=str,
)
def test_every_nan_places_rows_as_one(
    primary: str, partition: str, options: dict[str, str], bits: int, oracle: Oracle, warehouse: Path
) -> None:
    """0.0 / 0.0 has another sign bit than NaN has, and would be hashed, and called a partition, apart."""
    signed = np.array([-(2 ** (bits - 1)) | int(np.array(np.nan, f"f{bits // 8}").view(f"i{bits // 8}"))])
    other = signed.astype(f"i{bits // 8}").view(f"f{bits // 8}")
    values = np.array([np.nan, other[0], 1.5], other.dtype)
    assert len(set(values.view(f"i{bits // 8}").tolist())) == 3
    rows = pa.table({"id": pa.array([1, 1, 2], pa.int32()), "x": values})
    table = pp.Table.create(
        warehouse / "db.db" / "t", rows.schema, primary or (), partition_by=partition or (), options=options
    )
    for part in (rows.slice(0, 1), rows.slice(1)):
        table.append(part)
    expected = [1] if primary else [1, 1]
    with oracle.batch() as batch:
        found = batch.read(warehouse, "db.t", filter={"op": "eq", "field": "x", "literals": ["nan"]})
    assert [row["id"] for row in found.values] == expected
    assert table.scan("isnan(x)").to_arrow()["id"].to_pylist() == expected
    assert table.count() == len(expected) + 1
    assert len(table.system.read("partitions")) == (2 if partition else 1)
    assert not table.maintenance.verify(deep=True).findings
    if partition:
        table.overwrite(rows.slice(1, 1), dynamic=True)
        assert table.count("isnan(x)") == 1
