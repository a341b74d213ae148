"""Windows of sorted runs: whole keys, in order, few batches in memory; runs that are not sorted are refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.keys.merge import windows as windows_module
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.keys.merge.windows import SortedBatches, windows
from paimon_pyds.metadata.schema import TableSchema
from support.engine_model import KIND, SEQ, rank
from support.strategies import values

_Key = tuple[Any, ...]


def _batches(keys: Sequence[_Key], types: Sequence[pa.DataType], run: int, rows: int) -> list[pa.RecordBatch]:
    """Batches of a run: its keys, and where each row came from."""
    names = [f"k{i}" for i in range(len(types))]
    columns = [pa.array([key[i] for key in keys], type_) for i, type_ in enumerate(types)]
    table = pa.table([*columns, pa.array([run] * len(keys), pa.int32())], names=[*names, "run"])
    return table.to_batches(max_chunksize=rows) if keys else []


def _ranks(key: Sequence[Any]) -> list[Any]:
    return [rank(value) for value in key]


_TYPES = [
    ((pa.int64(),), st.tuples(st.integers(-3, 30))),
    ((pa.string(), pa.int16()), st.tuples(st.sampled_from(["", "a", "ab", "é"]), st.integers(0, 5))),
    ((pa.float64(),), st.tuples(st.sampled_from([-1.0, -0.0, 2.5, float("inf"), float("nan")]))),
    ((pa.decimal128(38, 10),), st.tuples(values("DECIMAL(38, 10)"))),
    ((pa.bool_(), pa.binary()), st.tuples(st.booleans(), st.binary(max_size=2))),
    ((pa.int64(), pa.string()), st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from(["", "b"]))),
]


@pytest.mark.parametrize(("types", "keys"), _TYPES, ids=[str(types) for types, _ in _TYPES])
@pytest.mark.parametrize("repeats", [False, True])
@given(data=st.data())
def test_windows_hold_whole_keys_in_order(
    types: Sequence[pa.DataType], keys: st.SearchStrategy[_Key], repeats: bool, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.lists(keys, max_size=20), max_size=5))
    runs = [sorted(run if repeats else {repr(_ranks(k)): k for k in run}.values(), key=_ranks) for run in drawn]
    rows = data.draw(st.integers(1, 5))
    names = [f"k{i}" for i in range(len(types))]
    found = list(
        windows(
            [SortedBatches(_batches(run, types, i, rows), f"run {i}", repeats) for i, run in enumerate(runs)], names
        )
    )
    seen: list[Any] = []
    for window in found:
        assert window.num_rows
        inside = [_ranks([row[name] for name in names]) for row in window.to_pylist()]
        assert not seen or max(seen) < min(inside)
        seen += inside
        assert window.column("run").to_pylist() == sorted(window.column("run").to_pylist())
    every = [(_ranks(key), i) for i, run in enumerate(runs) for key in run]
    given_out = [(_ranks([row[n] for n in names]), row["run"]) for window in found for row in window.to_pylist()]
    assert sorted(given_out) == sorted(every)


def test_runs_of_like_keys_have_windows_as_large_as_their_batches_together() -> None:
    """None of the few rows that are left of one batch or another: each window costs time."""
    rows, batches, runs = 100, 10, 4
    keys = [[(i * runs + (i + run) % runs,) for i in range(rows * batches)] for run in range(runs)]
    sorted_runs = [SortedBatches(_batches(run, [pa.int64()], i, rows), f"{i}") for i, run in enumerate(keys)]
    found = list(windows(sorted_runs, ["k0"]))
    assert sum(window.num_rows for window in found) == rows * batches * runs
    assert len(found) <= batches + 1


def test_a_run_is_read_batch_by_batch() -> None:
    alive: list[int] = []

    def reading(run: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, 1000, 10):
            alive.append(run)
            keys = pa.array(range(start + run, start + run + 10))
            yield pa.record_batch([keys], names=["k"])

    given_out = 0
    for window in windows([SortedBatches(reading(run), str(run)) for run in range(4)], ["k"]):
        given_out += window.num_rows
        assert 10 * len(alive) - given_out <= 4 * 2 * 10
    assert given_out == 4000


@pytest.mark.parametrize(
    "batches",
    [[[1, 3, 2]], [[1, 2], [2, 3]], [[1, 1]], [[5], [], [4]], [[3, 4], [1, 9]]],
)
def test_a_run_that_is_not_sorted_is_refused(batches: list[list[int]]) -> None:
    run = SortedBatches([pa.record_batch([pa.array(keys, pa.int32())], names=["k"]) for keys in batches], "bucket-0/f")
    other = SortedBatches([pa.record_batch([pa.array([0, 7], pa.int32())], names=["k"])], "bucket-0/g")
    with pytest.raises(CorruptFileError, match=r"sorted run .*bucket-0/f") as refused:
        list(windows([other, run], ["k"]))
    assert "field k" in str(refused.value)


def test_a_composite_key_is_compared_column_after_column() -> None:
    wrong = pa.record_batch([pa.array([1, 1, 2]), pa.array(["b", "a", "c"])], names=["a", "b"])
    right = pa.record_batch([pa.array([1, 1, 2]), pa.array(["a", "b", "a"])], names=["a", "b"])
    assert sum(window.num_rows for window in windows([SortedBatches([right], "f")], ["a", "b"])) == 3
    with pytest.raises(CorruptFileError, match="not sorted"):
        list(windows([SortedBatches([wrong], "f")], ["a", "b"]))


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update"])
def test_very_many_versions_of_one_key_take_little_memory(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_module, "FOLD_ROWS", 100)
    merger = RowMerger(TableSchema(0, (), 0, primary_keys=("k",), options={"merge-engine": engine}))

    def reading(parity: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, 20_000, 40):
            numbers = pa.array(range(start + parity, start + 40, 2), pa.int64())
            keys = pa.array([7 if start else 6, *[7] * 19])
            yield pa.record_batch([keys, numbers, pa.array([0] * 20, pa.int8())], names=["_KEY_k", SEQ, KIND])

    found, largest = [], 0
    runs = [SortedBatches(reading(parity), str(parity), repeats=True) for parity in range(2)]
    for window in windows(runs, merger.keys, merger.needed):
        largest = max(largest, window.num_rows)
        found += [(row["_KEY_k"], row[SEQ]) for row in merger.merge(window).to_pylist()]
    assert found == ([(6, 0), (7, 2)] if engine == "first-row" else [(6, 1), (7, 19_999)])
    assert largest < 500
