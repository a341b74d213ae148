"""Row groups of several files in one: what the footer and the indexes say of each column stays, positions move."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.format.parquet.page_index import decode_locations
from paimon_pyds.format.parquet.stitching import Stitcher
from paimon_pyds.format.parquet.thrift import Struct, decode_struct

_POSITIONS = ("data_page_offset", "dictionary_page_offset", "file_offset")
_BOUNDS = ("has_min_max", "min", "max")


@pytest.mark.parametrize("rows", [(7,), (50, 1), (1, 300, 20)])
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_footers_say_what_they_said_and_positions_move(rows: tuple[int, ...], columns: int) -> None:
    random = np.random.default_rng()
    files = [_file(random, count, columns) for count in rows]
    out = io.BytesIO()
    stitcher = Stitcher(out)
    for file in files:
        stitcher.add(file, ["x0"])
    stitcher.finish()
    whole = pa.py_buffer(out.getvalue())
    assert pq.ParquetFile(whole).read() == pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    after = pq.ParquetFile(whole).metadata
    for number, file in enumerate(files):
        before, [group] = pq.ParquetFile(file).metadata, _groups(file)
        shifts = set()
        for leaf in range(before.num_columns):
            one, other = (m.row_group(at).column(leaf).to_dict() for m, at in ((before, 0), (after, number)))
            unbounded = one["path_in_schema"] == "x0"
            shifts |= {other[key] - one[key] for key in _POSITIONS if one[key]}
            assert _without(one, unbounded) == _without(other, unbounded)
            assert not (unbounded and other["statistics"]["has_min_max"])
            there = _groups(whole)[number][1][1][1][leaf]
            assert 4 in there and (6 in there) != unbounded  # the places of its indexes
            [a], [b] = (decode_locations([_index(*pair)]) for pair in ((file, group[1][1][1][leaf]), (whole, there)))
            shifts |= set((b[0] - a[0]).tolist())
            assert all((x == y).all() for x, y in zip(a[1:], b[1:], strict=True))
        assert len(shifts) == 1


def _file(random: np.random.Generator, rows: int, columns: int) -> pa.Buffer:
    kinds = (
        lambda: pa.array(random.random(rows)),
        lambda: pa.array(
            [None if n % 5 == 0 else f"text {n}" for n in random.integers(0, 90, rows).tolist()], pa.string()
        ),
        lambda: pa.array([[n, n] for n in random.integers(0, 9, rows).tolist()]),
    )
    table = pa.table({f"x{i}": kinds[i % 3]() for i in range(columns)})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, use_dictionary=["x1"], write_page_index=True, write_page_checksum=True, max_rows_per_page=20,
        write_batch_size=10,
    )  # fmt: skip
    return sink.getvalue()


def _groups(file: pa.Buffer) -> list[Struct]:
    data = file.to_pybytes()
    groups: list[Struct] = decode_struct(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])[0][4][1][1]
    return groups


def _index(file: pa.Buffer, chunk: Struct) -> bytes:
    at, length = chunk[4][1], chunk[5][1]
    return file.slice(at, length).to_pybytes()


def _without(chunk: dict[str, Any], unbounded: bool) -> dict[str, Any]:
    found = {key: value for key, value in chunk.items() if key not in _POSITIONS}
    if unbounded:
        found["statistics"] = {key: value for key, value in found["statistics"].items() if key not in _BOUNDS}
    return found
