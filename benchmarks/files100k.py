"""A table of very many data files that are not there: manifests only, for planning and maintenance."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import EMPTY_ROW, encode_row, encode_rows
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.manifest import DataFile

PARTITIONS = 100
SCHEMA = pa.schema([("p", pa.int32()), *[(f"c{i}", pa.int64()) for i in range(8)], ("s", pa.string())])


def make(path: str, files: int, options: dict[str, str] | None = None) -> None:
    """A table of ``files`` data files in 100 partitions, ten statistics columns each."""
    shutil.rmtree(path, ignore_errors=True)
    table = pp.Table.create(path, SCHEMA, partition_by=["p"], options=options)
    rng = np.random.default_rng(5)
    buckets = [bucket(path, p, range(files // PARTITIONS), rng) for p in range(PARTITIONS)]
    commit(table._store, Changes([Increment(added=buckets)]), TableOptions(table.options))


def bucket(path: str, p: int, numbers: range, rng: np.random.Generator) -> BucketFiles:
    """New files of a partition, whose names have these numbers."""
    types = [f.type for f in from_arrow_schema(SCHEMA)]
    each = len(numbers)
    low = rng.integers(0, 1 << 40, (8, each))
    names = pa.array([f"key-{v:012d}" for v in rng.integers(0, 10**9, each)])
    columns = [pa.array(np.full(each, p, np.int32))]
    minimum = encode_rows([*columns, *map(pa.array, low), names], types, arity=True).to_pylist()
    maximum = encode_rows([*columns, *map(pa.array, low + 1000), names], types, arity=True).to_pylist()
    metas = tuple(
        DataFile(
            file_name=f"data-{p:08d}-1111-4111-8111-{number:012d}-0.parquet",
            file_size=1 << 20,
            row_count=10_000,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=SimpleStats(EMPTY_ROW, EMPTY_ROW, ()),
            value_stats=SimpleStats(minimum[i], maximum[i], (0,) * len(types)),
            min_sequence_number=0,
            max_sequence_number=9_999,
            schema_id=0,
            creation_time=1_700_000_000_000,
            delete_row_count=0,
            file_source=0,
        )
        for i, number in enumerate(numbers)
    )
    return BucketFiles(encode_row([p], [types[0]]), 0, -1, f"{path}/p={p}/bucket-0", metas)
