"""Where the constants of `paimon_pyds.format.parquet.page_picks` come from: ``python -m benchmarks.page_cost``.

Parquet files of one row group, one column each, with pages of two lengths, are read at more and more scattered rows:
by single pages whatever that costs, and by row group. Each figure is the median of alternating runs, on one thread
(user and system time), files in the page cache. In each page one row is wanted, which is then cut out of it, or an
eighth of them, and the page is decoded. From the figures, least squares give the constants: microseconds to decompress
a byte, to decode a number and a text, a page, and what a page costs on top that is read by itself, or from which few
rows are cut out. The last column shows what the rule chooses with the constants in the code, and how much longer that
takes than the better way.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.format import ReadCounters, by_name
from paimon_pyds.format.parquet.page_picks import choose
from paimon_pyds.storage import open_file_io

ROWS = 600_000
PAGE_ROWS = (1_024, 6_144)
SHARES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95)
"""Of the pages that hold a wanted row."""
MANY = 8
"""One row of a page is wanted, or one in so many."""
_READER = "paimon_pyds.format.parquet.reader"


@dataclass(frozen=True, slots=True)
class Figure:
    """One case: what both ways took and were estimated to take, in microseconds."""

    column: str
    page_rows: int
    thin: bool
    row_bytes: float
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


def _rows(page_rows: int, share: float, thin: bool, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Rows in some pages, picked from all over the file."""
    pages = -(-ROWS // page_rows)
    wanted = np.sort(rng.choice(pages, max(1, round(pages * share)), replace=False)) * page_rows
    if thin:
        return np.minimum(wanted + rng.integers(0, page_rows, len(wanted)), ROWS - 1)
    rows = (wanted[:, None] + np.arange(0, page_rows, MANY)).ravel()
    return rows[rows < ROWS]


def _forced(by_pages: bool) -> Any:
    """Reads by pages or by row groups, whatever that costs."""
    return mock.patch(
        f"{_READER}.choose",
        lambda picks, rows: (frozenset(picks if by_pages else ()), choose(picks, rows)[1]),
    )


def _read(path: Path, field: DataField, selection: RowSelection, by_pages: bool) -> float:
    """Microseconds of processor time to read the rows, the footer and the page index being read before."""
    io, name = open_file_io(str(path))
    with _forced(by_pages):
        reader = by_name("parquet").open_reader(io, name, path.stat().st_size, ReadCounters())
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
            row_bytes = pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size / ROWS
            io, file = open_file_io(str(path))
            for share, thin in product(SHARES, (True, False)):
                selection = RowSelection.of(_rows(page_rows, share, thin, rng))
                reader = by_name("parquet").open_reader(io, file, path.stat().st_size, ReadCounters())
                with _forced(True):
                    (plan,) = reader.plan([field], selection)
                assert plan.pages_micros is not None and plan.group_micros is not None
                runs = [
                    (_read(path, field, selection, True), _read(path, field, selection, False)) for _ in range(repeats)
                ]
                by_pages, by_group = (statistics.median(run[i] for run in runs) for i in (0, 1))
                yield Figure(
                    name, page_rows, thin, row_bytes, plan.pages, plan.pages_total, by_pages, by_group,
                    plan.pages_micros, plan.group_micros,
                )  # fmt: skip


def fitted(figures: list[Figure]) -> str:
    """The constants by least squares of relative errors, as text; the fixed cost is that of one read, either way."""
    rows, spent = [], []
    for f in figures:
        covered = f.wanted_pages * f.page_rows
        decoded, cut = (0, f.wanted_pages) if f.thin else (covered, 0)
        rows.append([covered * f.row_bytes, *_by_kind(f, decoded), 0, f.wanted_pages, cut, 1])
        rows.append([ROWS * f.row_bytes, *_by_kind(f, ROWS), f.pages, 0, 0, 1])
        spent += [f.by_pages, f.by_group]
    weights = 1 / np.array(spent)
    found, *_ = np.linalg.lstsq(np.array(rows, float) * weights[:, None], np.ones(len(spent)), rcond=None)
    byte, number, text, page, single, cut, fixed = found.tolist()
    return (
        f"µs: {byte:.5f} a byte, {number:.4f} a number, {text:.4f} a text, {page:.1f} a page, {single:.1f} if single,"
        f" {cut:.1f} if cut out, {fixed:.0f} fixed"
    )


def _by_kind(figure: Figure, rows: int) -> tuple[int, int]:
    return (0, rows) if figure.column in ("text", "dictionary") else (rows, 0)


def main() -> None:
    """Measure, and print the figures and the constants."""
    parser = argparse.ArgumentParser(description="Measure the cost rule of Parquet page reads.")
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as directory:
        figures = []
        print(f"{'column':<12}{'page rows':>10}{'pages':>12}{'wanted':>8}{'by pages':>12}{'row group':>12}   rule")
        for f in measure(Path(directory), repeats):
            figures.append(f)
            share, few = f"{f.wanted_pages}/{f.pages}", "one" if f.thin else f"1/{MANY}"
            print(
                f"{f.column:<12}{f.page_rows:>10,}{share:>12}{few:>8}{f.by_pages / 1000:>9.2f} ms"
                f"{f.by_group / 1000:>9.2f} ms   {f.chosen}, loses {100 * f.regret:.0f} %"
            )
    print(fitted(figures))
    total = sum(min(f.by_pages, f.by_group) for f in figures)
    lost = sum(f.regret * min(f.by_pages, f.by_group) for f in figures)
    print(f"the rule loses {100 * lost / total:.1f} % against always knowing the better way")


if __name__ == "__main__":
    main()
