"""How much memory reading a file takes: its batches, and what Parquet needs beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.format import HELD_BATCH_BYTES, ReadCounters, ReadHints, by_path
from paimon_pyds.format.parquet import reader as parquet_reader
from paimon_pyds.format.parquet.page_picks import Estimate
from paimon_pyds.format.parquet.wide import LEAST_WIDE
from paimon_pyds.format.protocols import FormatReader
from paimon_pyds.storage.local import LocalFileIO
from support.data_files import write_file

_ROWS = 2_000_000
_SIZE = 2 * 8 * _ROWS


def _reader(path: Path, hints: ReadHints | int | None) -> FormatReader:
    hints = hints if isinstance(hints, ReadHints) else ReadHints(read_ahead=hints)
    return by_path(str(path)).open_reader(LocalFileIO(), str(path), path.stat().st_size, ReadCounters(), hints)


@pytest.mark.parametrize("read_ahead", [None, 1 << 20])
def test_a_row_group_is_not_held_where_that_is_more_than_may_be_read_ahead(
    tmp_path: Path, read_ahead: int | None
) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({name: rng.integers(0, 2**62, _ROWS) for name in ("a", "b")})
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, row_group_size=_ROWS, use_dictionary=False, compression="none")
    reader = _reader(path, read_ahead)
    before = pa.total_allocated_bytes()
    most, start = 0, 0
    for batch in reader.read(from_arrow_schema(table.schema), RowSelection.ALL, 10_000):
        assert batch.equals(table.slice(start, batch.num_rows).combine_chunks().to_batches()[0])
        start += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    reader.close()
    assert start == _ROWS
    assert (most < _SIZE // 2) == (read_ahead is not None)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("dropped", [0, 9])
def test_long_rows_that_are_short_in_the_file_are_decoded_some_at_a_time(
    tmp_path: Path, dictionary: bool, dropped: int
) -> None:
    numbers = pa.array([0, None] * 5_000, pa.int32())
    texts = pa.DictionaryArray.from_arrays(numbers, pa.array(["x" * 20_000]))
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": texts}), path, use_dictionary=dictionary, compression="zstd")
    reader = _reader(path, 4 << 20)
    before, most, rows, batches = pa.total_allocated_bytes(), 0, 0, 0
    selection = RowSelection.of(range(dropped, 10_000)) if dropped else RowSelection.ALL
    for batch in reader.read(from_arrow_schema(pa.schema({"a": pa.string()})), selection, 65_536):
        rows, batches = rows + batch.num_rows, batches + 1
        assert batch.nbytes <= 5 << 20
        most = max(most, pa.total_allocated_bytes() - before)
    reader.close()
    assert rows == 10_000 - dropped
    assert batches < 60
    assert most < 32 << 20


@given(st.data())
@settings(max_examples=10)
def test_rows_that_are_held_are_the_same_in_fewer_batches(data: st.DataObject) -> None:
    rows, group = data.draw(st.integers(6, 1_500)), data.draw(st.integers(300, 1_000))
    texts = data.draw(st.sampled_from([1, 7, rows]))
    table = pa.table({
        "n": pa.array([None if i % 5 == 3 else i for i in range(rows)]),
        "t": pa.array([f"text {i % texts}" for i in range(rows)]),
        **{f"c{i}": pa.array(range(i, i + rows)) for i in range(data.draw(st.sampled_from([0, LEAST_WIDE])))},
    })  # fmt: skip
    dropped = data.draw(st.lists(st.integers(0, rows - 1), max_size=5, unique=True))
    selection = RowSelection.of([i for i in range(rows) if i not in dropped]) if dropped else RowSelection.ALL
    with TemporaryDirectory() as directory:
        path = Path(directory, "f.parquet")
        pq.write_table(table, path, row_group_size=group)
        held, streamed = (
            list(reader.read(from_arrow_schema(table.schema), selection, 100))
            for hints in (ReadHints(most_bytes=HELD_BATCH_BYTES), ReadHints())
            if (reader := _reader(path, hints))
        )
    wanted = table.take(pa.array(selection.to_array(rows)))
    assert pa.Table.from_batches(held) == pa.Table.from_batches(streamed) == wanted
    assert all(batch.num_rows <= 100 for batch in streamed)
    if not dropped:
        assert len(held) == -(-rows // group)


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_rows_before_the_wanted_ones_are_decoded_many_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    """How long they are shows that few at a time are not needed, though none of them is wanted."""
    rows, sizes = 200_000, list[int]()
    table = pa.table({"a": pa.array([f"{i % 500:020d}" for i in range(rows)])})
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, compression=codec, write_page_index=True)
    monkeypatch.setattr(parquet_reader, "choose", lambda picks, _: (frozenset(), Estimate(0, 0)))
    wanted_of = parquet_reader.ParquetReader._wanted_of

    def watched(reader: Any, decoded: Iterator[pa.RecordBatch], *rest: Any) -> Iterator[pa.RecordBatch]:
        return wanted_of(reader, (sizes.append(batch.num_rows) or batch for batch in decoded), *rest)  # type: ignore[func-returns-value]

    monkeypatch.setattr(parquet_reader.ParquetReader, "_wanted_of", watched)
    reader = _reader(path, 1 << 20)
    (batch,) = reader.read(from_arrow_schema(table.schema), RowSelection.of([rows - 1]), 65_536)
    reader.close()
    assert batch.column(0).to_pylist() == table["a"].to_pylist()[-1:]
    assert sizes[0] < 100
    assert sum(sizes) == rows
    assert len(sizes) < 20


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("rows", [range(1_000), range(3, 1_000), range(0, 1_000, 2)])
def test_batches_of_long_rows_are_short(tmp_path: Path, format_: str, rows: range) -> None:
    texts = pa.record_batch({"n": pa.array(range(1_000)), "a": pa.array(["x" * 10_000] * 1_000)})
    fields = from_arrow_schema(texts.schema)
    path = tmp_path / f"f.{format_}"
    write_file(path, fields, pa.Table.from_batches([texts]))
    reader = _reader(path, 1 << 20)
    selection = RowSelection.ALL if len(rows) == 1_000 else RowSelection.of(rows)
    batches = list(reader.read(fields, selection, 65_536))
    reader.close()
    assert pa.Table.from_batches(batches).equals(pa.Table.from_batches([texts]).take(pa.array(rows)))
    assert all(batch.nbytes <= 3 << 19 for batch in batches)
    assert len(batches) <= 20
