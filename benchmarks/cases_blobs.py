"""Large values in files of their own: writing a GiB of them, reading all, and reading one (section ``blobs``)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.clock import computed
from benchmarks.registry import case, ours

if TYPE_CHECKING:
    import pyarrow as pa

    from benchmarks.bench import Bench

VALUE_BYTES = 1 << 20
COUNTS = (128, 1024)
AT_ONCE = 16
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def section(bench: Bench) -> None:
    """All rows of the section."""
    paths = {count: bench.path(f"blobs_{count}") for count in COUNTS}
    few, many = (bench.run("ours_blobs_write", path=path, count=count) for count, path in paths.items())
    bench.once(f"append {COUNTS[1]:,} BLOBs of 1 MiB, CPU time, against {COUNTS[0]}", "≤ 10×", many, "ours", few)
    few, many = (bench.run("ours_blobs_read", path=path, count=count) for count, path in paths.items())
    bench.once(f"read {COUNTS[1]:,} BLOBs of 1 MiB, CPU time, against {COUNTS[0]}", "≤ 10×", many, "ours", few)
    read = bench.run("ours_blobs_one", path=paths[COUNTS[1]])["mib_read"]
    bench.add(
        f"one of {COUNTS[1]:,} BLOBs of 1 MiB: MiB read of .blob files", f"{read:.2f}", "1.00", f"{read:.2f}×", "≤ 1.1×"
    )


def _batches(count: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(7)
    for start in range(0, count, AT_ONCE):
        values = [random.bytes(VALUE_BYTES) for _ in range(AT_ONCE)]
        yield pa.RecordBatch.from_pydict({"id": list(range(start, start + AT_ONCE)), "value": values}, schema=schema)


@case
def ours_blobs_write(path: str, count: int) -> dict[str, Any]:
    import pyarrow as pa

    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    table = pp.Table.create(path, "id INT, value BLOB", options=OPTIONS)
    schema = table.arrow_schema
    seconds, _ = computed(lambda: table.append(pa.RecordBatchReader.from_batches(schema, _batches(count, schema))))
    return {"seconds": seconds}


@case
def ours_blobs_read(path: str, count: int) -> dict[str, Any]:
    seconds, size = computed(lambda: sum(batch.nbytes for batch in ours(path).scan().to_batches()))
    assert size >= count * VALUE_BYTES, size
    return {"seconds": seconds}


@case
def ours_blobs_one(path: str) -> dict[str, Any]:
    from paimon_pyds.storage.local import LocalFileIO

    read = 0

    class Counting(LocalFileIO):
        def read_range(self, path: str, offset: int, length: int) -> bytes:
            nonlocal read
            read += length if path.endswith(".blob") else 0
            return super().read_range(path, offset, length)

        def read_ranges(self, path: str, ranges: Any) -> list[bytes]:
            nonlocal read
            read += sum(length for _, length in ranges) if path.endswith(".blob") else 0
            return super().read_ranges(path, ranges)

    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.table import Table

    table = Table(TableStore(Counting(), path))
    seconds, rows = computed(lambda: table.scan("id = 77").to_arrow())
    assert len(rows["value"][0].as_py()) == VALUE_BYTES
    return {"seconds": seconds, "mib_read": read / 2**20}
