"""Sorting more rows than the buffer holds: the same order as in memory, in bounded memory, and nothing left on disk."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.sort import external as module
from paimon_pyds.base.sort.external import RowSorter, SortSpec, merge_sorted, sorted_batches
from paimon_pyds.base.sort.keys import SortKeys
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import StorageError
from support.tiny_disk import mounted

FIELDS = (
    DataField(0, "at", parse_type("BIGINT NOT NULL")),
    DataField(1, "key", parse_type("INT")),
    DataField(2, "name", parse_type("STRING")),
    DataField(3, "tags", parse_type({"type": "ARRAY", "element": "INT"})),
)
KEYS = FIELDS[1:3]


@pytest.fixture(autouse=True)
def _spill_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    scratch = tmp_path / "spill"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    yield
    assert list(scratch.iterdir()) == []


def _batches(table: pa.Table, fields: tuple[DataField, ...], size: int = 500) -> Iterator[pa.RecordBatch]:
    yield from table.select([f.name for f in fields]).to_batches(max_chunksize=size)


def _table(keys: list[Any], names: list[Any]) -> pa.Table:
    n = len(keys)
    columns = [list(range(n)), keys, names, [None if i % 3 else [i] for i in range(n)]]
    schema = arrow_schema(FIELDS)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _sorted(table: pa.Table, spec: SortSpec) -> pa.Table:
    batches = sorted_batches(lambda fields: _batches(table, fields), FIELDS, table.num_rows, spec)
    return pa.Table.from_batches(batches, table.schema)


@cache
def _spread(kind: str, n: int = 12_000) -> pa.Table:
    chance = np.random.default_rng(1)
    keys: list[Any] = {
        "even": lambda: chance.integers(-(10**6), 10**6, n).tolist(),
        "few": lambda: chance.integers(0, 3, n).tolist(),
        "one": lambda: [7] * n,
        "null": lambda: [None if v else v for v in chance.integers(0, 2, n).tolist()],
        "heavy": lambda: [5 if v < 9 else v for v in chance.integers(0, 10_000, n).tolist()][: n // 2] + [5] * (n // 2),
        "sorted": lambda: list(range(n)),
        "reversed": lambda: list(range(n, 0, -1)),
    }[kind]()
    return _table(keys, [None if v % 50 == 0 else f"n{v % 7}" for v in chance.integers(0, 1000, n).tolist()])


@cache
def _in_memory(kind: str, n: int = 12_000) -> pa.Table:
    """The same rows in their order."""
    whole = _sorted(_spread(kind, n), SortSpec(KEYS))
    rows = whole.to_pylist()
    keys = [(r["key"] is not None, r["key"] or 0, r["name"] is not None, r["name"] or "", r["at"]) for r in rows]
    assert keys == sorted(keys)
    return whole


@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("kind", ["even", "few", "one", "null", "heavy", "sorted", "reversed"])
def test_spilled_rows_come_in_the_order_that_memory_gives(kind: str, compression: str) -> None:
    assert _sorted(_spread(kind), SortSpec(KEYS, buffer=1, compression=compression)).equals(_in_memory(kind))


@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
@pytest.mark.parametrize("kind", ["even", "few", "one", "heavy"])
def test_curves_lose_no_row_when_they_spill(kind: str, strategy: str) -> None:
    table = _spread(kind)
    spilled = _sorted(table, SortSpec(KEYS, strategy=strategy, buffer=1))
    assert sorted(spilled["at"].to_pylist()) == list(range(table.num_rows))
    assert spilled.sort_by("at").equals(table)


@pytest.mark.parametrize("most", [2, 3, 5])
@pytest.mark.parametrize("kind", ["even", "few", "one", "reversed"])
def test_more_runs_than_are_merged_at_once(monkeypatch: pytest.MonkeyPatch, kind: str, most: int) -> None:
    monkeypatch.setattr(module, "MAX_RUNS", most)
    merged: list[int] = []
    merge = module.merge_sorted

    def counted(sources: Any, keys_of: Any) -> Iterator[pa.RecordBatch]:
        merged.append(len(sources))
        return merge(sources, keys_of)

    monkeypatch.setattr(module, "merge_sorted", counted)
    assert _sorted(_spread(kind, 30_000), SortSpec(KEYS, buffer=1)).equals(_in_memory(kind, 30_000))
    assert len(merged) > 2
    assert max(merged) == most


def test_rows_may_come_without_being_known_before() -> None:
    """As a write buffer gets them: batch by batch, once, of any size; rows with equal keys in the order they came."""
    chance = np.random.default_rng(5)
    table = _spread("few")
    with RowSorter(SortSpec(KEYS, buffer=1), SortKeys("order")) as sorter:
        at = 0
        while at < table.num_rows:
            size = int(chance.integers(0, 900))
            for batch in table.slice(at, size).to_batches():
                sorter.add(batch)
            at += size
        found = pa.Table.from_batches(sorter.sorted(), table.schema)
    assert found.equals(_in_memory("few"))


def test_no_rows() -> None:
    for spec in (SortSpec(KEYS), SortSpec(KEYS, strategy="hilbert")):
        assert _sorted(_spread("even").slice(0, 0), spec).num_rows == 0


def test_a_merge_holds_one_batch_of_each_source_and_gives_no_larger_ones() -> None:
    read: list[int] = []

    def source(number: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, 1000, 10):
            read.append(number)
            yield pa.record_batch({"k": list(range(start, start + 10)), "from": [number] * 10})

    given_ = 0
    rows = []
    for batch in merge_sorted([source(n) for n in range(5)], lambda batch: [batch.column(0)]):
        given_ += batch.num_rows
        assert batch.num_rows <= 50
        assert len(read) * 10 <= given_ + 50
        rows += list(zip(batch["k"].to_pylist(), batch["from"].to_pylist(), strict=True))
    assert rows == [(k, n) for k in range(1000) for n in range(5)]


def test_texts_that_are_not_utf_8_are_merged_by_their_bytes() -> None:
    texts = [b"\xff\xfe", b"a", b"\xc3\x28", b"b", b"\xed\xa0\x80"]
    column = pa.array([texts[i % 5] for i in range(5000)], pa.binary()).view(pa.string())
    field = DataField(0, "name", parse_type("STRING"))
    batches = pa.table({"name": column}).to_batches(max_chunksize=100)
    with RowSorter(SortSpec((field,), buffer=1), SortKeys("order")) as sorter:
        for batch in batches * 4:
            sorter.add(batch)
        found = pa.Table.from_batches(sorter.sorted())["name"].cast(pa.binary()).to_pylist()
    assert found == sorted(texts * 4000)


@given(
    st.lists(st.tuples(st.none() | st.integers(-2, 2), st.none() | st.text("ab", max_size=2)), max_size=60),
    st.integers(1, 7),
)
def test_any_rows(rows: list[tuple[int | None, str | None]], size: int) -> None:
    table = _table([r[0] for r in rows], [r[1] for r in rows])
    limit = type(SortSpec(KEYS)).limit
    try:
        SortSpec.limit = property(lambda _: 300)  # type: ignore[assignment,method-assign]
        read = lambda fields: _batches(table, fields, size)  # noqa: E731
        found = pa.Table.from_batches(sorted_batches(read, FIELDS, table.num_rows, SortSpec(KEYS)), table.schema)
    finally:
        SortSpec.limit = limit  # type: ignore[method-assign]
    assert found.equals(_sorted(table, SortSpec(KEYS)))


def test_a_sort_that_is_given_up_leaves_nothing() -> None:
    table = _spread("even")
    batches = sorted_batches(lambda f: _batches(table, f), FIELDS, table.num_rows, SortSpec(KEYS, buffer=1))
    next(batches)
    batches.close()  # type: ignore[attr-defined]


def test_an_error_of_the_source_comes_through() -> None:
    table = _spread("even")

    def read(fields: tuple[DataField, ...]) -> Iterator[pa.RecordBatch]:
        yield from list(_batches(table, fields))[:50]
        if fields == FIELDS:
            raise OSError("the table's own disk")

    with pytest.raises(OSError, match="the table's own disk"):
        list(sorted_batches(read, FIELDS, table.num_rows, SortSpec(KEYS, buffer=1)))


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mounted(tmp_path, kib=64) as mount:
        monkeypatch.setattr(tempfile, "tempdir", str(mount))
        with pytest.raises(StorageError, match=r"can't spill the rows of a sort.*TMPDIR"):
            _sorted(_spread("even"), SortSpec(KEYS, buffer=1))
        assert list(mount.iterdir()) == []


_PEAK = """
import sys, tempfile
import pyarrow as pa
import paimon_pyds as pp

path, buffer, tempfile.tempdir = sys.argv[1:4]
pa.set_memory_pool(pa.system_memory_pool())
table = pp.Table.open(path)
options = {"parquet.block.size": "1048576", "compaction.force-rewrite-all-files": "true"}
ordered = {} if buffer == "none" else {"order_by": "key"}
summary = table.compact(**ordered, options=options if buffer == "none" else options | {"write-buffer-size": buffer})
assert summary.rows == 1_200_000, summary
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_memory_stays_bounded_by_the_buffer(tmp_path: Path) -> None:
    """Data of fifteen times the buffer: ordering it takes little more memory than rewriting it as it is."""
    schema = pa.schema([("key", pa.int64()), ("text", pa.string())])
    table = pp.Table.create(tmp_path / "t", schema)
    chance = np.random.default_rng(0)
    for _ in range(2):
        keys = chance.integers(0, 2**60, 600_000)
        texts = pa.array(keys % 1000).cast(pa.string())
        text = pa.compute.binary_join_element_wise("a text of some length that compresses well", texts, "-")
        table.append(pa.table([pa.array(keys), text], schema=schema))
    assert sum(batch.nbytes for batch in table.scan().to_batches()) > 15 * (4 << 20)

    def peak(buffer: str) -> int:
        arguments = [str(tmp_path / "t"), buffer, str(tmp_path / "spill")]
        done = subprocess.run([sys.executable, "-c", _PEAK, *arguments], capture_output=True, text=True, check=True)
        return int(done.stdout)

    plain = peak("none")
    assert peak("4 mb") - plain < (peak("1 gb") - plain) / 2
    keys = pp.Table.open(tmp_path / "t").scan(columns=["key"]).to_arrow()["key"].to_numpy()
    assert (np.diff(keys) >= 0).all()
