"""Many partitions at once: rows keep their order, memory stays bounded by closing files early."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.write import rolling, writer
from support.effort import SEED
from support.oracle import Oracle


def test_rows_of_many_partitions_and_buckets(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.int32()), ("q", pa.string()), ("v", pa.int64())])
    options = {"bucket": "3", "bucket-key": "v"}
    table = pp.Table.create(tmp_path / "t", schema, partition_by=["p", "q"], options=options)
    rows = pa.table(
        {"p": [i % 7 for i in range(3000)], "q": [None if i % 5 == 0 else "x" for i in range(3000)], "v": range(3000)}
    )
    table.append([rows.slice(i, 100) for i in range(0, 3000, 100)])
    back = table.scan().to_arrow()
    assert back.sort_by("v")["v"].to_pylist() == list(range(3000))
    assert len({str(p.parent) for p in Path(table.path).rglob("data-*.parquet")}) == 7 * 2 * 3
    for p in range(7):
        ours = table.scan(f"p = {p} AND q IS NULL").to_arrow()["v"].to_pylist()
        assert sorted(ours) == [i for i in range(3000) if i % 7 == p and i % 5 == 0]


def test_open_files_are_closed_early_when_they_hold_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GATHER_ROWS", 50)
    monkeypatch.setattr(writer, "OPEN_BYTES", 20_000)
    monkeypatch.setattr(writer, "ROUTE_BYTES", 1)
    table = pp.Table.create(tmp_path / "t", pa.schema([("p", pa.int32()), ("v", pa.int64())]), partition_by=["p"])
    held = []
    write = rolling.RollingWriter.write
    context = table.write_context()

    with writer.TableWriter(context) as out:
        monkeypatch.setattr(
            rolling.RollingWriter,
            "write",
            lambda self, batch: (write(self, batch), held.append(sum(w.held_bytes for w in out._writers.values()))),
        )
        for i in range(100):
            out.write(pa.table({"p": [i % 10] * 100, "v": range(i * 100, i * 100 + 100)}))
        message = out.prepare_commit()
    table.commit([message])
    assert max(held) <= 20_000 + 2 * 100 * 12
    assert message.file_count > 10
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == list(range(10_000))


@pytest.mark.parametrize("single", [True, False])
def test_java_finds_the_partitions_of_floats_that_are_not_refused(tmp_path: Path, oracle: Oracle, single: bool) -> None:
    """Of all magnitudes, with few bits and with many: Java before 19 spells some of them in its own way."""
    draw, kind = random.Random(SEED), np.float32 if single else np.float64
    powers = [2.0 ** draw.randrange(-120 if single else -1000, 120 if single else 1000) for _ in range(20)]
    bits = [draw.choice([1.0, 1.5, draw.uniform(1, 2)]) for _ in powers]
    values = [float(kind(b * p)) for b, p in zip(bits, powers, strict=True)]
    whole = [float(kind(draw.randrange(2**62))) for _ in range(10)]
    table = pp.Table.create(tmp_path / "db.db" / "t", f"f {'FLOAT' if single else 'DOUBLE'}, v INT", partition_by=["f"])
    written = 0
    for value in dict.fromkeys([*values, *whole, 1e-40, 0.1, -0.0, float("nan"), float("inf"), 1e7]):
        try:
            table.append(pa.table({"f": pa.array([value], pa.from_numpy_dtype(kind)), "v": [written]}))
            written += 1
        except pp.errors.UnsupportedError as error:
            assert "Java before 19 and later ones look for it" in str(error)
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
    assert sorted(row["v"] for row in read.values) == list(range(written)) and written > 5
    with pytest.raises(pp.errors.UnsupportedError, match="directories of different names"):
        table.append({"f": [2.0**57 + 2**40], "v": [1]})
