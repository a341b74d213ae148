"""Where the constants of `paimon_pyds.formats.parquet.cost` come from: ``python -m benchmarks.page_cost``.

Parquet files of one row group, one column each, with pages of two lengths, are read at more and more scattered rows:
by single pages whatever that costs, and by row group. Each figure is the median of alternating runs, on one thread
(user and system time), files in the page cache. From the figures, least squares give the three constants: microseconds
a decoded row, a decoded page, and what a page that is read by itself costs on top. The last columns show what the rule
chooses with the constants in the code, and how much longer that takes than the better way.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_pyds.formats.base import ReadCounters
from paimon_pyds.formats.parquet import ParquetFormat
from paimon_pyds.selection import RowSelection
from paimon_pyds.storage import open_file_io
from paimon_pyds.types import DataField, parse_type

ROWS = 600_000
PAGE_ROWS = (1_024, 6_144)
SHARES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95)
"""Of the pages that hold a wanted row."""
_READER = "paimon_pyds.formats.parquet.reader"


@dataclass(frozen=True, slots=True)
class Figure:
    """One case: what both ways took and were estimated to take, in microseconds."""

    column: str
    page_rows: int
    wanted_pages: int
    pages: int
    by_pages: float
    by_group: float
    estimated_pages: float
    estimated_group: float

    @property
    def chosen(self) -> str:
        return "pages" if self.estimated_pages < self.estimated_group else "row group"

    @property
    def regret(self) -> float:
        """How much longer the chosen way takes than the better one."""
        chosen = self.by_pages if self.chosen == "pages" else self.by_group
        return chosen / min(self.by_pages, self.by_group) - 1


def _columns(rng: np.random.Generator) -> dict[str, tuple[str, pa.Array, bool]]:
    return {
        "bigint": ("BIGINT", pa.array(rng.integers(0, 2**40, ROWS)), False),
        "double": ("DOUBLE", pa.array(rng.random(ROWS)), False),
        "text": ("STRING", pa.array([f"customer {i:07d}" for i in rng.integers(0, 10**7, ROWS)]), False),
        "dictionary": ("STRING", pa.array([f"kind {i}" for i in rng.integers(0, 500, ROWS)]), True),
    }


def _rows(pages: int, page_rows: int, share: float, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """One row in each of some pages, picked from all over the file."""
    wanted = np.sort(rng.choice(pages, max(1, round(pages * share)), replace=False))
    return np.minimum(wanted * page_rows + rng.integers(0, page_rows, len(wanted)), ROWS - 1)


def _read(path: Path, field: DataField, selection: RowSelection, by_pages: bool) -> float:
    """Microseconds of processor time to read the rows, the footer and the page index being read before."""
    io, name = open_file_io(str(path))
    with mock.patch(f"{_READER}.pages_pay_off", return_value=by_pages):
        reader = ParquetFormat().open_reader(io, name, path.stat().st_size, ReadCounters())
        list(reader.plan([field], selection))
        start = time.process_time()
        rows = sum(batch.num_rows for batch in reader.read([field], selection, 65_536))
        spent = time.process_time() - start
        reader.close()
    assert rows == selection.count(ROWS)
    return spent * 1e6


def measure(directory: Path, repeats: int) -> Iterator[Figure]:
    """All cases."""
    rng = np.random.default_rng(11)
    for name, (type_, values, dictionary) in _columns(rng).items():
        field = DataField(0, "c", parse_type(type_))
        for page_rows in PAGE_ROWS:
            path = directory / f"{name}-{page_rows}.parquet"
            pq.write_table(
                pa.table({"c": values}), path, row_group_size=ROWS, use_dictionary=dictionary, compression="zstd",
                write_page_index=True, write_batch_size=page_rows, data_page_size=1,
            )  # fmt: skip
            io, file = open_file_io(str(path))
            for share in SHARES:
                selection = RowSelection.of(_rows(-(-ROWS // page_rows), page_rows, share, rng))
                (plan,) = (
                    ParquetFormat().open_reader(io, file, path.stat().st_size, ReadCounters()).plan([field], selection)
                )
                assert plan.pages_micros is not None and plan.group_micros is not None
                times = [
                    (_read(path, field, selection, True), _read(path, field, selection, False)) for _ in range(repeats)
                ]
                by_pages, by_group = (statistics.median(t[i] for t in times) for i in (0, 1))
                yield Figure(
                    name, page_rows, selection.count(ROWS), plan.pages_total, by_pages, by_group,
                    plan.pages_micros, plan.group_micros,
                )  # fmt: skip


def fitted(figures: list[Figure]) -> tuple[float, float, float, float]:
    """Microseconds a row, a page and a single page, and the fixed cost of a read, by least squares."""
    rows, spent = [], []
    for f in figures:
        rows.append([f.wanted_pages * f.page_rows, f.wanted_pages, f.wanted_pages, 1])
        spent.append(f.by_pages)
        rows.append([ROWS, f.pages, 0, 1])
        spent.append(f.by_group)
    weights = 1 / np.array(spent)  # relative errors count
    found, *_ = np.linalg.lstsq(np.array(rows, float) * weights[:, None], np.ones(len(spent)), rcond=None)
    return tuple(found.tolist())


def main() -> None:
    """Measure, and print the figures and the constants."""
    parser = argparse.ArgumentParser(description="Measure the cost rule of Parquet page reads.")
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as directory:
        figures = []
        print(
            f"{'column':<12}{'page rows':>10}{'pages':>14}{'by pages':>12}{'row group':>12}   "
            f"{'rule takes':<12}{'loses':>7}"
        )
        for f in measure(Path(directory), repeats):
            figures.append(f)
            share = f"{f.wanted_pages} of {f.pages}"
            print(
                f"{f.column:<12}{f.page_rows:>10,}{share:>14}{f.by_pages / 1000:>9.2f} ms{f.by_group / 1000:>9.2f} ms"
                f"   {f.chosen:<12}{100 * f.regret:>5.0f} %"
            )
    for name in dict.fromkeys(f.column for f in figures):
        row, page, single, fixed = fitted([f for f in figures if f.column == name])
        print(f"{name:<12} {row:.4f} µs a row, {page:.1f} a page, {single:.1f} a single page, {fixed:.0f} fixed")
    row, page, single, fixed = fitted(figures)
    print(f"{'all':<12} {row:.4f} µs a row, {page:.1f} a page, {single:.1f} a single page, {fixed:.0f} fixed")
    total = sum(min(f.by_pages, f.by_group) for f in figures)
    lost = sum(f.regret * min(f.by_pages, f.by_group) for f in figures)
    print(f"the rule loses {100 * lost / total:.1f} % against always knowing the better way")


if __name__ == "__main__":
    main()
