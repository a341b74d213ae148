"""Few file descriptors: rows of more buckets than files may be open are written, changed, compacted and read."""

from __future__ import annotations

import errno
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.base.sort.spill import SpillFile
from paimon_pyds.engine.write import TableWriter, writer
from paimon_pyds.errors import StorageError
from support.effort import sampled

_WORK = """
import resource, sys
import numpy as np, pyarrow as pa, pyarrow.compute as pc
import paimon_pyds as pp
from paimon_pyds.engine.write import writer

writer.BUFFER_BYTES, writer.ROUTE_BYTES = 300_000, 60_000
path, format, vectors = sys.argv[1:]
options = {"bucket": "2", "bucket-key": "id", "file.format": format, "file-index.bitmap.columns": "v"}
options["deletion-vectors.enabled"] = vectors
schema = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("v", pa.int32()), ("at", pa.timestamp("us"))])
table = pp.Table.create(path, schema, partition_by=["p"], options=options)

def rows(p, ids):
    return pa.table([pa.array(p, pa.int32()), ids, pa.array(ids % 7, pa.int32()), pa.array(ids).cast(schema[3].type)],
                    schema=schema)

ids = np.arange(4_000)
data = rows(ids % 26, ids)
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
table.append(data.slice(at, 500) for at in range(0, 4_000, 500))
table.append(data)
table.update({"v": "v + 10"}, "id % 5 = 0")
table.delete("v = 3")
table.merge(rows(range(26), np.arange(90_000, 90_026)), on=["p", "id"], when_not_matched="insert")
table.alter(set_options={"file-index.bloom-filter.columns": "id"})
table.index.build()
table.compact(full=True)
kept = table.scan().to_arrow()
left = ids[(ids % 5 == 0) | (ids % 7 != 3)].tolist()
assert sorted(kept["id"].to_pylist()) == sorted(left + left) + list(range(90_000, 90_026))
assert table.count("v = 1") == pc.sum(pc.equal(kept["v"], 1)).as_py()
assert table.top_n("id desc, 3").num_rows == 3
assert "result" in str(table.explain("v = 1", analyze=True))
"""


@pytest.mark.parametrize(("format_", "vectors"), sampled([("parquet", "true"), ("orc", "false")], 1))
def test_more_buckets_than_descriptors(tmp_path: Path, format_: str, vectors: str) -> None:
    command = [sys.executable, "-c", _WORK, str(tmp_path / "t"), format_, vectors]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def _table(path: Path, **options: str) -> tuple[pp.Table, pa.Table]:
    rows = pa.table({"p": [i * i % 31 for i in range(20_000)], "v": range(20_000)})
    return pp.Table.create(path, rows.schema, partition_by=["p"], options=options), rows


def _written(table: pp.Table, rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Files written, and how many were open at once, where little fits the memory."""
    monkeypatch.setattr(writer, "BUFFER_BYTES", 30_000)
    monkeypatch.setattr(writer, "ROUTE_BYTES", 5_000)
    most = 0
    with TableWriter(table.write_context()) as out:
        for at in range(0, rows.num_rows, 100):
            out.write(rows.slice(at, 100))
            most = max(most, sum(w._rolling._open is not None for w in out._writers.values()))
        message = out.prepare_commit()
    table.commit([message])
    return message.file_count, most


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none", "lzo"])
def test_a_bucket_gets_one_file_and_its_rows_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    table, rows = _table(tmp_path / "t", **{"write-max-writers-to-spill": "3", "spill-compression": compression})
    files, most = _written(table, rows, monkeypatch)
    assert (files, most) == (len(set(rows["p"].to_pylist())), 3)
    back = table.scan().to_arrow()
    assert back.sort_by("v").equals(rows)
    for p in set(rows["p"].to_pylist()):
        values = table.scan(f"p = {p}").to_arrow()["v"].to_pylist()
        assert all(a < b for a, b in pairwise(values))


def test_rows_in_order_of_partitions_go_to_one_file_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rows = _table(tmp_path / "t", **{"write-max-writers-to-spill": "2"})
    files, most = _written(table, rows.sort_by([("p", "ascending"), ("v", "ascending")]), monkeypatch)
    assert (files, most) == (len(set(rows["p"].to_pylist())), 2)
    assert table.scan().to_arrow().sort_by("v").equals(rows)


@pytest.mark.parametrize("open_", ["1", "2", "5"])
def test_partitions_that_come_and_go_keep_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_: str
) -> None:
    """A bucket that was spilled gets a file while others still spill, and some come back after theirs is closed."""
    chance = np.random.default_rng(7)
    near = np.repeat(np.arange(40) // 2 + np.arange(40) % 3 * 5, 500)
    rows = pa.table({"p": near + chance.integers(0, 6, len(near)), "v": np.arange(len(near))})
    table = pp.Table.create(
        tmp_path / "t", rows.schema, partition_by=["p"], options={"write-max-writers-to-spill": open_}
    )
    _, most = _written(table, rows, monkeypatch)
    assert most <= int(open_)
    assert table.scan().to_arrow().sort_by("v").equals(rows)
    for p in (0, 7, 20):
        values = table.scan(f"p = {p}").to_arrow()["v"].to_pylist()
        assert sorted(values) == pc.filter(rows["v"], pc.equal(rows["p"], p)).to_pylist()


def test_spilled_rows_are_taken_and_added_in_turns() -> None:
    spill = SpillFile[tuple[bytes, int]]("zstd", "rows")
    kept: dict[tuple[bytes, int], list[int]] = {}
    for number in range(200):
        key = (b"", number * number % 7)
        values = list(range(number * 10, number * 10 + number % 5 + 1))
        spill.add(key, pa.record_batch({"v": pa.array(values, pa.int64())}))
        kept.setdefault(key, []).extend(values)
        taken = (b"", number % 7)
        if number % 3 == 0:
            assert [v for batch in spill.take(taken) for v in batch["v"].to_pylist()] == kept.pop(taken, [])
    assert sorted(spill.keys) == sorted(kept)
    for key, values in kept.items():
        assert [v for batch in spill.take(key) for v in batch["v"].to_pylist()] == values
    spill.close()


def test_what_is_spilled_keeps_to_the_disk_it_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"write-max-writers-to-spill": "1", "write-buffer-spill.max-disk-size": "40 kb"}
    table, rows = _table(tmp_path / "t", **options)
    sizes = []
    add = writer.SpillFile.add
    monkeypatch.setattr(writer.SpillFile, "add", lambda self, *rest: (add(self, *rest), sizes.append(self.size))[0])
    files, _ = _written(table, rows, monkeypatch)
    assert files > len(set(rows["p"].to_pylist()))
    assert 0 < max(sizes) < 40_960 + 60_000
    assert table.scan().to_arrow().sort_by("v").equals(rows)


def test_a_place_that_takes_no_spilled_rows_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rows = _table(tmp_path / "t", **{"write-max-writers-to-spill": "1"})

    def full(**_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StorageError, match=r"can't spill rows of many buckets: No space left on device.*TMPDIR"):
        _written(table, rows, monkeypatch)
    assert not list(Path(table.path).rglob("data-*"))


def test_rows_that_do_not_come_back_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rows = _table(tmp_path / "t", **{"write-max-writers-to-spill": "1"})
    monkeypatch.setattr(writer.SpillFile, "take", lambda self, key: iter([]) if self._messages.pop(key, None) else [])
    with pytest.raises(StorageError, match="20,000 rows were taken"):
        _written(table, rows, monkeypatch)
    assert not list(Path(table.path).rglob("data-*"))
