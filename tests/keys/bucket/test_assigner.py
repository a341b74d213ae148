"""Bucket assigners: numbers of buckets, and how many a partition has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import EMPTY_ROW
from paimon_pyds.engine.write.router import Router
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.bucket import PartitionedRows, bucket_assigner, bucket_of

_ROWS = pa.record_batch({"p": [3, 1, 3, None, 1, 3], "k": pa.array(range(6), pa.int64())})


def _table(path: Path, **options: str) -> pp.Table:
    return pp.Table.create(path, _ROWS.schema, partition_by=["p"], options=options)


def _codes() -> PartitionedRows:
    return PartitionedRows(_ROWS, [EMPTY_ROW], np.zeros(6, np.int64))


def test_tables_without_buckets(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    assigner = bucket_assigner(table.schema, TableOptions(table.options))
    assert assigner.one_bucket
    assert assigner.assign(_codes()).tolist() == [0] * 6
    assert assigner.total_buckets(EMPTY_ROW) == -1


@pytest.mark.parametrize("function", ["default", "mod"])
def test_fixed_buckets(tmp_path: Path, function: str) -> None:
    table = _table(tmp_path / "t", bucket="4", **{"bucket-key": "k", "bucket-function.type": function})
    assigner = bucket_assigner(table.schema, TableOptions(table.options))
    types = [table.schema.field("k").type]
    assert not assigner.one_bucket
    assert assigner.assign(_codes()).tolist() == bucket_of([_ROWS["k"]], types, 4, function).tolist()
    assert assigner.total_buckets(EMPTY_ROW) == 4


@pytest.mark.parametrize("bucket", ["0", "-3", "-7"])
def test_other_buckets_are_refused(tmp_path: Path, bucket: str) -> None:
    table = _table(tmp_path / "t")
    with pytest.raises(UnsupportedError, match=f"bucket={bucket} is not supported"):
        bucket_assigner(table.schema, TableOptions({"bucket": bucket}))


class _Scattered:
    """An assigner whose buckets are neither few nor counted from 0, as those of postponed buckets."""

    one_bucket = False

    def assign(self, batch: PartitionedRows) -> np.ndarray:
        partitions = np.array([len(batch.partitions) - code for code in batch.codes], np.int32)
        return np.where(batch.rows["k"].to_numpy() % 2 == 0, np.int32(-2), partitions * 1000)

    def total_buckets(self, partition: bytes) -> int:
        return -2


def test_rows_go_where_an_assigner_sends_them(tmp_path: Path) -> None:
    router = Router(_table(tmp_path / "t").schema, _Scattered())
    pieces = list(router.route(_ROWS))
    assert len({key for key, _ in pieces}) == len(pieces)
    found = {}
    for (partition, bucket), rows in pieces:
        assert len({(p, k % 2) for p, k in zip(*rows.to_pydict().values(), strict=True)}) == 1
        assert rows["k"].to_pylist() == sorted(rows["k"].to_pylist())
        assert (bucket == -2) == (rows["k"][0].as_py() % 2 == 0)
        found.setdefault(partition, []).extend(rows["p"].to_pylist())
    assert sorted(map(set, found.values()), key=str) == [{1}, {3}, {None}]
    assert sum(len(values) for values in found.values()) == 6
