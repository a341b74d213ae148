"""Files that a condition covers, as statistics say: deletes drop them by metadata alone, updates read no filter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.retry import Retry
from paimon_pyds.engine.rowlevel.changes import publish
from paimon_pyds.engine.rowlevel.target import RemovedRows, RowEdits, RowTarget
from paimon_pyds.storage.local import LocalFileIO
from support.progress import Seen

_SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("x", pa.float64())])
_VECTORS = {"deletion-vectors.enabled": "true"}
_MODES = {"rewrite": {}, "32": _VECTORS, "64": _VECTORS | {"deletion-vectors.bitmap64": "true"}}


class _Opened:
    """The data files that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        for method in ("read_range", "read_ranges", "read_bytes", "open_input"):
            original = getattr(LocalFileIO, method)

            def spied(io: Any, path: str, *rest: Any, original: Any = original, **more: Any) -> Any:
                if "/data-" in path:
                    self.names.add(path.rpartition("/")[2])
                return original(io, path, *rest, **more)

            monkeypatch.setattr(LocalFileIO, method, spied)


def _table(path: Path, options: dict[str, str]) -> pp.Table:
    """Files of ids 0 to 9, 10 to 19, and so on, with the last one NULL."""
    table = pp.Table.create(path, _SCHEMA, options=options)
    for start in (0, 10, 20, 30):
        ids: list[int | None] = list(range(start, start + 10))
        if start == 30:
            ids[-1] = None
        table.append(pa.table([ids, [f"s{i}" for i in ids], [float(i or 0) for i in ids]], schema=_SCHEMA))
    return table


def _ids(table: pp.Table) -> list[Any]:
    return sorted(table.scan().to_arrow()["id"].to_pylist(), key=lambda i: (i is None, i or 0))


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_covered_files_go_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, format_: str) -> None:
    table = _table(tmp_path / "t", _MODES[mode] | {"file.format": format_})
    table.delete("id = 3")
    first = {t.name for t in table.scan("id >= 10 AND id < 20").plan().files}
    opened = _Opened(monkeypatch)
    seen = Seen()
    summary = table.delete("id < 20 OR s = 'zz'", progress=seen)
    assert (summary.rows_deleted, summary.files_removed, summary.files_added, summary.bytes_written) == (19, 2, 0, 0)
    assert "reading" not in seen.phases or not any(e.total for e in seen.events if e.phase == "reading")
    assert opened.names == set()
    assert first
    assert _ids(table) == [*range(20, 39), None]


@pytest.mark.parametrize("mode", _MODES)
def test_files_that_may_hold_other_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    table = _table(tmp_path / "t", _MODES[mode])
    opened = _Opened(monkeypatch)
    summary = table.delete("id >= 15 AND id % 1 = 0")  # a part that statistics don't know
    assert (summary.rows_deleted, summary.files_removed) == (24, 3 if mode == "rewrite" else 1)
    assert len(opened.names) == 3
    opened.names.clear()
    assert table.delete("id >= 0 OR x > 1000").rows_deleted == 15
    assert len(opened.names) == 1  # the one with the NULL
    assert _ids(table) == [None]


def test_without_statistics_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t", _VECTORS | {"metadata.stats-mode": "none"})
    opened = _Opened(monkeypatch)
    assert table.delete("id < 20").rows_deleted == 20
    assert len(opened.names) == 4
    assert _ids(table) == [*range(20, 39), None]


def test_nan_is_no_number_below_another(tmp_path: Path) -> None:
    """NaN is the greatest value, and statistics may leave it out."""
    table = pp.Table.create(tmp_path / "t", _SCHEMA, options=_VECTORS)
    table.append(pa.table([[1, 2, 3], ["a", "b", "c"], [1.0, float("nan"), 2.0]], schema=_SCHEMA))
    assert table.delete("x <= 2.0").rows_deleted == 2
    assert _ids(table) == [2]


def test_columns_that_changed_their_type(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _VECTORS)
    table.alter(change_types={"id": "STRING"})
    assert table.delete("id <= '19'").rows_deleted == 12  # 0, 1, 10 to 19
    table.alter(change_types={"x": "STRING"})
    assert table.delete("x >= '0'").rows_deleted == 28


@pytest.mark.parametrize("mode", _MODES)
def test_updates_of_covered_files_read_no_filter(tmp_path: Path, mode: str) -> None:
    table = _table(tmp_path / "t", _MODES[mode])
    table.delete("id = 12")
    summary = table.update({"x": "-1"}, "id >= 10 AND id <= 19")
    assert (summary.rows_updated, summary.files_removed, summary.files_added) == (9, 1, 1)
    assert table.count("x = -1") == 9
    assert table.count("x = -1 AND id BETWEEN 10 AND 19") == 9


@pytest.mark.parametrize("mode", ["32", "64"])
def test_a_file_whose_rows_are_all_deleted_is_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Here such a file goes; other writers may leave it with a vector of all its rows."""
    table = _table(tmp_path / "t", _MODES[mode] | {"file-index.bitmap.columns": "s"})
    target = RowTarget(table._store, None, table.snapshots.latest())
    gone = target.name(1)
    publish(target, RowEdits([RemovedRows(1, BitMap(range(10)), 10)]), Retry(attempts=2))
    assert len(table.scan().plan().files) == 3
    opened = _Opened(monkeypatch)
    left = sorted(i for i in _ids(table) if i is not None)
    assert len(left) == 29
    assert table.count() == 30
    assert table.scan("x >= 0", limit=25).to_arrow().num_rows == 25
    assert table.scan("s LIKE 's%' AND x > -1").to_arrow().num_rows == 30
    assert table.scan(top_n="x desc, 20").to_arrow().num_rows == 20
    assert table.update({"x": "x + 1"}).rows_updated == 30
    assert gone not in opened.names
    assert table.delete("TRUE").rows_deleted == 30
    assert table.count() == 0
