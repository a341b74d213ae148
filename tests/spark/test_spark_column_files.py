"""Tables of data evolution in Spark, with BLOB and VECTOR columns in files of their own: read, write, update, merge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.spark import compact, merge, update

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]

OPTIONS = {
    "row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true",
    "vector.file.format": "parquet", "blob-descriptor-field": "ref",
}  # fmt: skip
COLUMNS = "id INT, name STRING, pic BLOB, v VECTOR<FLOAT, 2>, ref BLOB"
Row = tuple[Any, ...]


def row(i: int) -> Row:
    return i, f"n{i}", None if i % 3 == 0 else bytes([i]) * i, None if i % 4 == 0 else [i / 2, 1.0], None


def plain(rows: list[Any]) -> list[Row]:
    values = [tuple(bytes(v) if isinstance(v, bytearray) else v for v in each) for each in rows]
    return sorted(values, key=lambda each: each[0])


@pytest.mark.slow
def test_columns_in_files_of_their_own(spark: Any, frames: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = pp.Table.create(path, COLUMNS, options=OPTIONS)
    table.append(pa.Table.from_pylist([dict(zip(table.schema.field_names, row(i), strict=True)) for i in range(4)]))
    schema = frames.load(path).schema
    frames.save(spark.createDataFrame([row(i) for i in range(4, 8)], schema), path)
    rows = {i: row(i) for i in range(8)}
    assert update(spark, path, {"v": "array(0.5, id)", "name": "'x'"}, "id IN (1, 5)").rows_updated == 2
    source = spark.createDataFrame([(2, bytearray(b"new")), (9, bytearray(b"nine"))], "id INT, pic BINARY")
    insert = pp.Insert({"id": "source.id", "pic": "source.pic"})
    merge(spark, path, source, "id", when_matched=pp.Update({"pic": "source.pic"}), when_not_matched=insert)
    descriptor = pp.Table.open(path).scan("id = 2", columns=["pic"], options={"blob-as-descriptor": "true"}).to_arrow()
    refs = spark.createDataFrame([(4, bytearray(descriptor["pic"][0].as_py()))], "id INT, ref BINARY")
    merge(spark, path, refs, "id", when_matched=pp.Update({"ref": "source.ref"}))
    for i in (1, 5):
        rows[i] = (i, "x", row(i)[2], [0.5, float(i)], None)
    rows[2] = (*row(2)[:2], b"new", *row(2)[3:])
    rows[4] = (*row(4)[:4], b"new")
    rows[9] = (9, None, b"nine", None, None)
    compact(spark, path, full=True)
    assert plain(frames.load(path).collect()) == list(rows.values())
    found = frames.load(path).filter("pic IS NULL AND name <> 'n0'").select("id", "v")
    assert plain(found.collect()) == [(3, [1.5, 1.0]), (6, [3.0, 1.0])]
