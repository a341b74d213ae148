"""Entries of manifests become planned files: each in its bucket, all of a bucket sharing the object that names it."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.caching import collection_paused
from paimon_pyds.scan.planned_files import _buckets

_BUCKETS = st.sampled_from([-(1 << 31), -2, -1, 0, 1, 5, (1 << 31) - 1])


@given(st.lists(st.tuples(st.binary(max_size=2), _BUCKETS), max_size=20))
def test_each_entry_is_of_its_partition_and_bucket(keys: list[tuple[bytes, int]]) -> None:
    columns = [pa.array([k[0] for k in keys], pa.binary()), pa.array([k[1] for k in keys], pa.int32())]
    shared, numbers = _buckets(pa.RecordBatch.from_arrays(columns, ["partition", "bucket"]))
    assert [tuple(shared[number]) for number in numbers] == keys
    assert len(shared) == len(set(keys))


def test_garbage_is_collected_again_whatever_happens_meanwhile() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="no"), collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("no")
    assert gc.isenabled()
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
