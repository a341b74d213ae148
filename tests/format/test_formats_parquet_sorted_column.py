"""Values that are looked for in a sorted column are found where a search of the whole column finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.format import FoundRows, ReadCounters
from support.data_files import open_reader
from support.effort import sampled

ROWS = 9_000
RNG = np.random.default_rng(7)
NUMBERS = np.sort(RNG.integers(-20_000, 20_000, ROWS))


def _find(path: Path, column: pa.Array, values: pa.Array, **settings: Any) -> tuple[FoundRows | None, ReadCounters]:
    table = pa.table({"other": np.arange(len(column)), "k": column})
    arguments = {"row_group_size": 4_000, "compression": "zstd", "use_dictionary": False, "write_page_index": True}
    pq.write_table(table, path, data_page_size=1, write_batch_size=100, **(arguments | settings))
    reader = open_reader(path, counters := ReadCounters())
    found = reader.find(from_arrow_schema(table.schema)[1], values)
    reader.close()
    return found, counters


def _check(found: FoundRows | None, column: pa.Array, values: pa.Array) -> None:
    assert found is not None
    places = {value: number for number, value in enumerate(values.to_pylist())}
    expected = [(row, places[value]) for row, value in enumerate(column.to_pylist()) if value in places]
    assert list(zip(found.positions.tolist(), found.numbers.tolist(), strict=True)) == expected


@pytest.mark.parametrize("compression", sampled(["zstd", "none", "snappy"], 1))
@pytest.mark.parametrize(
    "type_", [pa.int64(), pa.int32(), pa.int16(), pa.date32(), pa.timestamp("us"), pa.timestamp("ms", "UTC")]
)
@pytest.mark.parametrize("count", [0, 1, 40, 3_000])
def test_every_value_is_found(tmp_path: Path, type_: pa.DataType, compression: str, count: int) -> None:
    step = 1 if type_ == pa.int16() else 1_000_003 if type_.bit_width == 64 else 7
    numbers, wanted = NUMBERS * step, np.unique(RNG.integers(-20_100, 20_100, count)) * step
    column, values = (
        pa.array(n.astype("i2" if type_ == pa.int16() else "i8")).cast(pa.int32()).cast(type_)
        if type_.bit_width < 64
        else pa.array(n).cast(type_)
        for n in (numbers, wanted)
    )
    found, counters = _find(tmp_path / "a.parquet", column, values, compression=compression)
    _check(found, column, values)
    assert counters.pages_total == 90
    assert counters.pages_read <= min(90, 2 * count)


def test_values_that_can_not_be_searched(tmp_path: Path) -> None:
    """Columns that are not sorted, within a page or from page to page, have NULLs, or no page index."""
    values, path = pa.array([1, 5]), tmp_path / "a.parquet"
    for column in (
        pa.array(np.concatenate([NUMBERS[:50], NUMBERS[49::-1], NUMBERS[100:]])),
        pa.array(NUMBERS[::-1]),
        pa.array(NUMBERS, mask=NUMBERS > 19_000),
    ):
        everything = pa.array(np.unique(NUMBERS))
        assert _find(path, column, everything)[0] is None
    assert _find(path, pa.array(NUMBERS), values, write_page_index=False)[0] is None
    assert _find(path, pa.array(NUMBERS.astype(str)), values.cast(pa.string()))[0] is None
