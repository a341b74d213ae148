"""Files that differ from others in scattered rows: values are replaced in pages, of which everything else stays."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.types import DataField
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import by_name
from paimon_pyds.format.parquet.index_runs import encode_indices, index_places, indices_at, replace_packed
from paimon_pyds.format.protocols import RowReplacer
from paimon_pyds.storage.local import LocalFileIO
from support.data_files import fields_of, read_file, table_of, write_file
from support.effort import SEED

PARQUET, IO = by_name("parquet"), LocalFileIO()
OPTIONS = {"parquet.page.row.count.limit": "100"}
ROWS = 10_000
AT = np.arange(7, ROWS, 150)
"""A row of nearly every second page, and never the first one of a page."""


def chunk_of(path: Path) -> Any:
    metadata = pq.ParquetFile(path).metadata
    assert metadata.num_row_groups == 1
    return metadata.row_group(0).column(0)


class Patched:
    """A file of one column, and what replaces the values of the rows `AT`."""

    def __init__(self, directory: Path, type_: str, values: list[Any], options: dict[str, str] = OPTIONS) -> None:
        self.fields: tuple[DataField, ...] = fields_of(type_)
        self.values, self.options = values, options
        self.path, self.new = directory / "old.parquet", directory / "new.parquet"
        write_file(self.path, self.fields, table_of(self.fields, values), options)

    @property
    def replacer(self) -> RowReplacer | None:
        place = str(self.path), self.path.stat().st_size
        return PARQUET.row_replacer(IO, place, self.fields, self.options, AT)

    def write(self, fresh: list[Any]) -> pa.Table:
        """The rows of the new file, which all readers read."""
        replacer = self.replacer
        assert replacer is not None
        assert replacer.rows.tolist() == AT.tolist()
        rows = table_of(self.fields, fresh)
        expected = list(self.values)
        for row, value in zip(AT.tolist(), fresh, strict=True):
            expected[row] = value
        assert replacer.write(rows.to_batches(), str(self.new)) == self.new.stat().st_size
        table = read_file(self.new, self.fields)
        assert repr(table["c0"].to_pylist()) == repr(table_of(self.fields, expected)["c0"].to_pylist())
        assert repr(pq.read_table(self.new)["c0"].to_pylist()) == repr(table["c0"].to_pylist())
        return table


def test_pages_and_their_dictionary_stay(tmp_path: Path) -> None:
    patched = Patched(tmp_path, "STRING", [f"name {n * n % 13}" for n in range(ROWS)])
    patched.write(["name 12"] * len(AT))
    old, new = chunk_of(patched.path), chunk_of(patched.new)
    assert new.encodings == old.encodings
    assert new.has_dictionary_page
    assert abs(new.total_compressed_size - old.total_compressed_size) < 1_000


def test_a_value_that_the_dictionary_lacks_is_added(tmp_path: Path) -> None:
    patched = Patched(tmp_path, "STRING", [f"name {n * n % 13}" for n in range(ROWS)])  # 4 bits have 3 places left
    patched.write(["new", "newer"] * (len(AT) // 2) + ["new"] * (len(AT) % 2))
    assert chunk_of(patched.new).statistics.max == "newer"
    dictionary = pq.read_table(patched.new, read_dictionary=["c0"])["c0"].chunk(0).dictionary.to_pylist()
    assert {"new", "newer"} <= set(dictionary)
    assert len(dictionary) == len(set(dictionary))


def test_more_values_than_the_indices_have_bits_for(tmp_path: Path) -> None:
    values = [f"name {n * n % 16}" for n in range(ROWS)]
    patched = Patched(tmp_path, "STRING", values)
    patched.write([f"other {n}" for n in range(len(AT))])
    assert chunk_of(patched.new).statistics.max == f"other {len(AT) - 1 if len(AT) <= 10 else 9}"


@pytest.mark.parametrize("type_", ["INT", "BIGINT NOT NULL", "DOUBLE", "DECIMAL(30, 3)", "TIMESTAMP(6)"])
def test_plain_values_of_fixed_width(type_: str, tmp_path: Path) -> None:
    patched = Patched(tmp_path, type_, list(range(ROWS)), {**OPTIONS, "parquet.enable.dictionary": "false"})
    patched.write(list(range(-len(AT), 0)))
    assert "RLE_DICTIONARY" not in chunk_of(patched.new).encodings


def test_texts_that_are_stored_plain_are_encoded_anew(tmp_path: Path) -> None:
    assert Patched(tmp_path, "STRING", [f"name {n}" for n in range(ROWS)]).replacer is None


def test_a_null_has_no_place_in_a_page(tmp_path: Path) -> None:
    patched = Patched(tmp_path, "INT", [n * n % 13 for n in range(ROWS)])
    patched.write([None, *([5] * (len(AT) - 1))])
    assert chunk_of(patched.new).statistics.null_count == 1


def test_pages_with_nulls_are_encoded_anew(tmp_path: Path) -> None:
    assert Patched(tmp_path, "INT", [None if n % 150 == 8 else n % 13 for n in range(ROWS)]).replacer is None


def test_zeros_keep_their_signs_and_nan_takes_the_bounds(tmp_path: Path) -> None:
    patched = Patched(tmp_path, "DOUBLE", [float(n % 13 + 1) for n in range(ROWS)])
    patched.write([-0.0, 0.0] * (len(AT) // 2) + [0.0] * (len(AT) % 2))
    assert math.copysign(1, chunk_of(patched.new).statistics.min) == -1
    patched.new.unlink()
    patched.write([math.nan] * len(AT))
    assert not chunk_of(patched.new).statistics.has_min_max


def test_a_nan_leaves_the_bounds_of_other_row_groups(tmp_path: Path) -> None:
    values = [float(n * n % 1_000) for n in range(ROWS)]
    patched = Patched(tmp_path, "DOUBLE", values, {**OPTIONS, "file.block-size": "16 KB"})
    patched.write([math.nan, *([-5.0] * (len(AT) - 1))])
    metadata = pq.ParquetFile(patched.new).metadata
    found = [metadata.row_group(i).column(0).statistics for i in range(metadata.num_row_groups)]
    assert len(found) > 2
    assert [each.has_min_max for each in found] == [False] + [True] * (len(found) - 1)
    assert {each.min for each in found[1:]} == {-5.0}


def test_bounds_follow_the_values_that_go(tmp_path: Path) -> None:
    values = [n * n % 1_000 for n in range(ROWS)]
    for row in AT[:4].tolist():
        values[row] = 5_000
    patched = Patched(tmp_path, "INT", values)
    assert chunk_of(patched.path).statistics.max == 5_000
    patched.write([1] * len(AT))
    assert chunk_of(patched.new).statistics.max < 1_000


def test_pages_that_all_lose_a_bound_are_encoded_anew(tmp_path: Path) -> None:
    changed = set(AT.tolist())
    assert Patched(tmp_path, "INT", [9 if n in changed else n % 5 for n in range(ROWS)]).replacer is None


def test_columns_of_two_values(tmp_path: Path) -> None:
    patched = Patched(tmp_path, "STRING", ["no" if n % 3 else "yes" for n in range(ROWS)])
    patched.write(["yes"] * len(AT))
    patched.new.unlink()
    patched.write(["done"] * len(AT))
    assert chunk_of(patched.new).statistics.min == "done"


def test_pages_that_are_one_run_are_encoded_anew(tmp_path: Path) -> None:
    assert Patched(tmp_path, "INT", [n // 5_000 for n in range(ROWS)]).replacer is None


def test_a_few_pages_with_runs(tmp_path: Path) -> None:
    values = [n * n % 13 for n in range(ROWS)]
    values[100:200], values[450:480] = [3] * 100, [5] * 30
    Patched(tmp_path, "INT", values).write([n % 13 for n in range(len(AT))])


def test_both_zeros_are_one_bound(tmp_path: Path) -> None:
    changed = set(AT.tolist())
    values = [(-0.0 if n % 4_000 == 107 else 0.0) if n in changed else float(n % 50 + 1) for n in range(ROWS)]
    values[101], values[102] = -0.0, 0.0
    patched = Patched(tmp_path, "DOUBLE", values)
    if patched.replacer is not None:
        patched.write([5.0] * len(AT))


def test_a_damaged_dictionary_gives_no_wrong_rows(tmp_path: Path) -> None:
    patched = Patched(tmp_path, "INT", [n * n % 13 for n in range(ROWS)])
    data, chunk = patched.path.read_bytes(), chunk_of(patched.path)
    for place in range(chunk.dictionary_page_offset, chunk.data_page_offset):
        patched.path.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        try:
            patched.write([5] * len(AT))
        except CorruptFileError:
            assert not patched.new.exists()
        else:  # a byte that says nothing, as whether the values are sorted
            patched.new.unlink()


def test_indices_are_encoded_as_they_are_found() -> None:
    rng = np.random.default_rng(SEED)
    for width in (0, 1, 3, 8, 10, 17, 31):
        for repeats in (1, 3, 40):
            values = rng.integers(0, 1 << width, 300).repeat(rng.integers(1, repeats + 1, 300))
            page = encode_indices(values, width)
            bodies = np.frombuffer(b"\xff" * 3 + page + b"\xff" * 9, np.uint8).copy()
            start, end, rows = np.array([3]), np.array([3 + len(page)]), np.arange(len(values))
            pages = np.zeros(len(values), np.int64)
            found = indices_at(bodies, start, end, pages, rows)
            if found is None:  # it has more runs than are looked through
                assert repeats == 40
                continue
            assert found.tolist() == values.tolist()
            places = index_places(bodies, start, end, pages, rows)
            assert places is not None
            fresh = rng.integers(0, 1 << width, len(values))
            replace_packed(bodies, places, fresh, places.packed)
            again = indices_at(bodies, start, end, pages, rows)
            assert again is not None
            assert again.tolist() == np.where(places.packed, fresh, values).tolist()
            assert bodies[:3].tolist() == [255] * 3
            assert bodies[-9:].tolist() == [255] * 9
