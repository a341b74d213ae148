"""What explanations tell of buckets: which a filter needs, and how evenly rows lie in them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from statistics import median

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_reader import ManifestReader

SCHEMA = pa.schema([("p", pa.int32()), ("id", pa.int64())])


def _table(path: Path, *, keys: bool, **options: str) -> pp.Table:
    """Two partitions, in one of which most rows have the same bucket."""
    shape = {"primary_key": ["p", "id"]} if keys else {}
    own = {} if keys else {"bucket-key": "id"}
    table = pp.Table.create(path, SCHEMA, partition_by=["p"], options={"bucket": "16", **own, **options}, **shape)
    table.append(pa.table({"p": [0] * 8, "id": range(8)}, SCHEMA))
    bucket = ManifestReader(table._store).live_files(table.snapshots.latest())["bucket"][0].as_py()
    mod = options.get("bucket-function.type") == "mod"
    ids = [*range(100), *(range(bucket, 16_000, 16) if mod else ())]
    table.append(pa.table({"p": [1] * len(ids), "id": ids}, SCHEMA))
    return table


@pytest.mark.parametrize("keys", [False, True])
def test_buckets_that_a_filter_needs(keys: bool, tmp_path: Path) -> None:
    table = _table(tmp_path / "t", keys=keys, **{"bucket-function.type": "mod"})
    details = {
        filter_: {step.name: step.detail for step in table.explain(filter_).steps}.get("buckets")
        for filter_ in ("id = 5", "id IN (5, 21, 6)", "id = 5 AND id = 6", "id > 5", "id IN (0,1,2,3,4)")
    }
    assert details["id = 5"] == "bucket 5 of 16: id = 5 (−22)"
    assert (details["id IN (5, 21, 6)"] or "").startswith("buckets 5, 6 of 16: id IN")
    assert (details["id = 5 AND id = 6"] or "").startswith("0 of 16 buckets")
    assert details["id > 5"] is None
    assert (details["id IN (0,1,2,3,4)"] or "").startswith("5 of 16 buckets")


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("filter_", [None, "id = 5", "p = 1"])
def test_how_evenly_rows_lie(keys: bool, filter_: str | None, tmp_path: Path) -> None:
    table = _table(tmp_path / "t", keys=keys, **{"bucket-function.type": "mod"})
    live = ManifestReader(table._store).live_files(table.snapshots.latest()).to_pylist()
    rows, size = {}, {}
    for file in live:
        rows[file["partition"], file["bucket"]] = file["row_count"]
        size[file["partition"], file["bucket"]] = file["file_size"]
    greatest = max(rows.values())
    one = filter_ == "p = 1"
    counts = sorted([*rows.values(), *[0] * (32 - len(rows))], reverse=True)[: 16 if one else 32]
    skew = table.explain(filter_).skew
    assert skew is not None
    assert (skew.buckets, skew.partitions, skew.profile) == (len(counts), 1 if one else 2, tuple(counts))
    assert (skew.rows.least, skew.rows.median, skew.rows.greatest) == (counts[-1], int(median(counts)), greatest)
    assert skew.rows.ratio == pytest.approx(greatest * len(counts) / sum(counts))
    assert skew.bytes.greatest == max(size.values())


def test_skew_is_told_and_drawn(tmp_path: Path) -> None:
    e = _table(tmp_path / "t", keys=True, **{"bucket-function.type": "mod"}).explain("id = 5")
    assert "Buckets: 32 in 2 partitions; rows 0 to 1,00" in e.text
    assert "× the mean; bytes 0 B to " in e.text
    assert "Distribution of rows over buckets" in e.html
    ET.fromstring(e.html)
    assert e.as_dict()["buckets"]["rows"]["greatest"] >= 1000


def test_tables_without_buckets_have_no_skew(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA, partition_by=["p"])
    assert table.explain().skew is None
    table.append(pa.table({"p": [1, 2], "id": [1, 2]}, SCHEMA))
    e = table.explain()
    assert e.skew is None and "Buckets" not in e.text


def test_partitions_of_different_numbers_of_buckets(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", keys=True)
    table.maintenance.rescale(4, where="p = 0")
    e = table.explain("id = 5")
    assert e.skew is not None and (e.skew.buckets, e.skew.partitions) == (20, 2)
    (step,) = [step for step in e.steps if step.name == "buckets"]
    assert step.detail.startswith("bucket key; partitions have 4 to 16 buckets: id = 5")
