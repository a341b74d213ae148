"""DELETE: the right rows go, with and without vectors, and as few files as possible are opened or written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.errors import OptionError, PredicateError
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.storage.local import LocalFileIO
from support.effort import LONG, sampled
from support.executors import Pickling
from support.progress import Seen

_SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("x", pa.float64()), ("p", pa.string())])
_VECTORS = {"deletion-vectors.enabled": "true"}
_WIDE = _VECTORS | {"deletion-vectors.bitmap64": "true"}
_MODES = {"vectors": _VECTORS, "wide vectors": _WIDE, "rewrite": {}}
_LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitioned": {"partition_by": ["p"]},
    "buckets": {"options": {"bucket": "2", "bucket-key": "id"}},
    "orc": {"options": {"file.format": "orc"}, "partition_by": ["p"]},
    "avro": {"options": {"file.format": "avro"}},
    "embedded index": {"options": {"file-index.bitmap.columns": "c,id", "file-index.in-manifest-threshold": "1 mb"}},
    "side index": {"options": {"file-index.bitmap.columns": "c,id", "file-index.in-manifest-threshold": "1 b"}},
}
Row = dict[str, Any]


def _table(path: Path, layout: dict[str, Any], mode: dict[str, str]) -> pp.Table:
    rest = {k: v for k, v in layout.items() if k != "options"}
    return pp.Table.create(path / "t", _SCHEMA, options={**layout.get("options", {}), **mode}, **rest)


def _rows(ids: Sequence[int]) -> list[Row]:
    nan = float("nan")
    return [
        {
            "id": i,
            "c": None if i % 11 == 0 else f"c{i % 7}",
            "x": (None, nan, 0.0, -0.0, 1.5)[i % 5],
            "p": "p" if i % 2 else None,
        }
        for i in ids
    ]


def _append(table: pp.Table, ids: Sequence[int]) -> list[Row]:
    rows = _rows(ids)
    table.append(pa.Table.from_pylist(rows, schema=_SCHEMA))
    return rows


def _texts(rows: Sequence[Row]) -> list[str]:
    return sorted(repr([row[name] for name in _SCHEMA.names]) for row in rows)


def _content(table: pp.Table, **scan: Any) -> list[str]:
    return _texts(table.scan(**scan).to_arrow().to_pylist())


class _Opened:
    """The data files that were opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        for method in ("open_input", "read_range", "read_ranges", "read_bytes"):
            monkeypatch.setattr(LocalFileIO, method, self._noting(getattr(LocalFileIO, method)))

    def _noting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def noting(io: LocalFileIO, path: str, *args: Any, **kwargs: Any) -> Any:
            name = path.rpartition("/")[2]
            if name.startswith("data-") and not name.endswith(".index"):
                self.names.add(name)
            return real(io, path, *args, **kwargs)

        return noting


# -------------------------------------------------------------------------------------------------------- the rows


_CASES = [
    pytest.param(layout, mode, marks=() if mode != "wide vectors" or layout == "partitioned" else pytest.mark.long)
    for layout in _LAYOUTS
    for mode in _MODES
]


@pytest.mark.parametrize(
    ("layout", "mode"), _CASES if LONG else sampled((case for case in _CASES if not case.marks), 2)
)
def test_rows_for_which_the_condition_is_true_go(tmp_path: Path, layout: str, mode: str) -> None:
    table = _table(tmp_path, _LAYOUTS[layout], _MODES[mode])
    rows = _append(table, range(80)) + _append(table, range(80, 160))
    steps: list[tuple[str, Callable[[Row], bool]]] = [
        ("id = 5", lambda r: r["id"] == 5),
        ("c = 'c3'", lambda r: r["c"] == "c3"),
        ("id < 10 OR id >= 130", lambda r: r["id"] < 10 or r["id"] >= 130),
        ("c <> 'c1' AND id IN (21, 22, 23, 24)", lambda r: r["c"] not in (None, "c1") and 21 <= r["id"] <= 24),
        ("x = double('NaN') AND id < 60", lambda r: r["x"] is not None and r["x"] != r["x"] and r["id"] < 60),
        ("x = 0 AND c LIKE 'c%2'", lambda r: r["x"] == 0 and r["c"] == "c2"),
        ("id = 5", lambda r: False),
        ("p IS NULL", lambda r: r["p"] is None),
        ("TRUE", lambda r: True),
    ]
    for where, meant in steps:
        gone = [r for r in rows if meant(r)]
        rows = [r for r in rows if not meant(r)]
        before = table.snapshots.latest()
        assert before is not None
        summary = table.delete(where)
        assert summary.rows_deleted == len(gone)
        assert (summary.rows_updated, summary.rows_inserted, summary.attempts) == (0, 0, 1)
        after = table.snapshots.latest()
        assert after is not None
        assert after.id == (before.id + 1 if gone else before.id)
        assert summary.snapshot_id == (after.id if gone else None)
        if gone:
            assert after.commit_kind is CommitKind.OVERWRITE
        assert _content(table) == _texts(rows)
        assert table.count() == len(rows)
        assert _content(table, filter="c = 'c2'") == _texts([r for r in rows if r["c"] == "c2"])
        assert len(table.scan(limit=7).to_arrow()) == min(7, len(rows))


@pytest.mark.parametrize("mode", _MODES)
def test_a_condition_that_is_null_keeps_its_rows(tmp_path: Path, mode: str) -> None:
    table = _table(tmp_path, {}, _MODES[mode])
    rows = _append(table, range(30))
    for where in ("c <> 'c1' AND c = 'c1'", "NULL", "c = NULL", "NOT (c = NULL)", "FALSE", "id = 3 AND NULL"):
        assert table.delete(where).snapshot_id is None
    assert _content(table) == _texts(rows)
    table.delete("NOT (c = 'c1')")
    assert _content(table) == _texts([r for r in rows if r["c"] in (None, "c1")])


def test_earlier_snapshots_keep_their_rows(tmp_path: Path) -> None:
    for name, mode in _MODES.items():
        table = _table(tmp_path / name, {}, mode)
        rows = _append(table, range(20))
        table.delete("id < 5")
        table.delete("id < 10")
        assert _content(table, snapshot=1) == _texts(rows)
        assert _content(table, snapshot=2) == _texts(rows[5:])
        assert _content(table) == _texts(rows[10:])


def test_deletes_follow_columns_that_changed(tmp_path: Path) -> None:
    """Renamed and widened columns, and one that old files do not have; the index of the old type answers too."""
    for name, mode in _MODES.items():
        options = {"file-index.bitmap.columns": "n", **mode}
        schema = pa.schema([("n", pa.int32()), ("s", pa.string())])
        table = pp.Table.create(tmp_path / name, schema, options=options)
        table.append(pa.table({"n": pa.array(range(10), pa.int32()), "s": [str(i) for i in range(10)]}))
        table.alter(change_types={"n": parse_type("BIGINT")})
        table.alter({"file-index.bitmap.columns": "m"}, rename_columns={"n": "m"})
        table.alter(add_columns={"fresh": parse_type("INT")})
        table.append(pa.table({"m": [10, 11], "s": ["10", "11"], "fresh": pa.array([1, None], pa.int32())}))
        assert table.delete("m = 3").rows_deleted == 1
        assert table.delete("fresh IS NULL AND m > 8").rows_deleted == 2
        assert sorted(table.scan().to_arrow()["m"].to_pylist()) == [0, 1, 2, 4, 5, 6, 7, 8, 10]
        assert table.delete("fresh IS NULL").rows_deleted == 8


# ------------------------------------------------------------------------------------------- what is opened, written


@pytest.mark.parametrize("layout", ["embedded index", "side index"])
def test_an_exact_index_spares_the_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    table = _table(tmp_path, _LAYOUTS[layout], _VECTORS)
    rows = _append(table, range(100))
    opened = _Opened(monkeypatch)
    assert table.delete("c = 'c3' AND id <> 10").rows_deleted > 1
    assert table.delete("c IN ('c1', 'c2') OR id = 60").rows_deleted > 1
    assert opened.names == set()
    left = [r for r in rows if not ((r["c"] == "c3" and r["id"] != 10) or r["c"] in ("c1", "c2") or r["id"] == 60)]
    assert _content(table) == _texts(left)


def test_a_file_without_live_rows_for_a_filter_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mode in (("32", _VECTORS), ("64", _WIDE)):
        table = _table(tmp_path / name, _LAYOUTS["side index"], mode)
        _append(table, range(50))
        table.delete("c = 'c3'")
        opened = _Opened(monkeypatch)
        assert table.count("c = 'c3'") == 0
        assert table.count("c = 'c3' AND x > 0") == 0
        assert opened.names == set()
        assert table.scan("c = 'c4'").to_arrow().num_rows > 0
        assert len(opened.names) == 1


def test_whole_files_and_partitions_go_by_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mode in _MODES.items():
        table = _table(tmp_path / name, {"partition_by": ["p"]}, mode)
        _append(table, range(20))
        _append(table, range(20, 40))
        opened = _Opened(monkeypatch)
        summary = table.delete("p = 'p'")
        assert (summary.files_touched, summary.files_removed, summary.bytes_written) == (2, 2, 0)
        assert opened.names == set()
        summary = table.delete("id >= 20")  # every row of a file, as its statistics tell
        assert (summary.rows_deleted, summary.files_removed, summary.files_added) == (10, 1, 0)
        assert table.count() == 10
        snapshot = table.snapshots.latest()
        assert snapshot is not None
        assert snapshot.total_record_count == 10


def test_a_file_goes_with_its_last_row(tmp_path: Path) -> None:
    table = _table(tmp_path, {}, _VECTORS)
    _append(table, range(10))
    _append(table, range(10, 20))
    table.delete("id < 9 OR id = 10")
    summary = table.delete("id = 9")
    assert (summary.files_removed, summary.rows_deleted) == (1, 1)
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.index_manifest is not None
    (entry,) = table._store.read_index_manifest(snapshot.index_manifest)
    assert [r.cardinality for r in entry.deletion_ranges or ()] == [1]
    table.delete("id >= 11")
    assert table.snapshots.latest().index_manifest is None  # type: ignore[union-attr]
    assert table.count() == 0


def test_only_touched_files_are_rewritten(tmp_path: Path) -> None:
    table = _table(tmp_path, {}, {})
    for start in range(0, 50, 10):
        _append(table, range(start, start + 10))
    before = _files(table)
    summary = table.delete("id IN (3, 44)")
    after = _files(table)
    assert len(before & after) == 3
    assert (summary.files_touched, summary.files_removed) == (2, 2)
    assert summary.files_added == len(after - before)


def test_files_can_be_rewritten_in_a_table_with_vectors(tmp_path: Path) -> None:
    table = _table(tmp_path, {}, _VECTORS)
    rows = _append(table, range(20))
    table.delete("id = 1")
    summary = table.delete("id = 2", options={"deletion-vectors.enabled": "false"})
    assert (summary.files_removed, summary.files_added) == (1, 1)
    assert table.snapshots.latest().index_manifest is None  # type: ignore[union-attr]
    assert _content(table) == _texts([r for r in rows if r["id"] not in (1, 2)])
    with pytest.raises(OptionError, match="one operation"):
        _table(tmp_path / "b", {}, {}).delete("id = 1", options=_VECTORS)


def test_rewritten_rows_stay_in_their_buckets(tmp_path: Path) -> None:
    """A partition keeps its number of buckets when the table's option has changed."""
    table = _table(tmp_path, {"options": {"bucket": "2", "bucket-key": "id"}}, {})
    rows = _append(table, range(40))
    table.alter({"bucket": "5"})
    assert table.delete("id < 7").rows_deleted == 7
    assert _content(table) == _texts(rows[7:])
    assert {row["total_buckets"] for row in _entries(table)} == {2}


def _entries(table: pp.Table) -> list[Row]:
    from paimon_pyds.engine.execution.live_files import live_of

    return live_of(table._store, table.snapshots.latest()).to_pylist()


def _files(table: pp.Table) -> set[str]:
    return {row["file_name"] for row in _entries(table)}


# ------------------------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize("mode", _MODES)
def test_tasks_travel(tmp_path: Path, mode: str) -> None:
    layout = {"partition_by": ["p"], "options": {"source.split.target-size": "1 b", "file-index.bitmap.columns": "c"}}
    table = _table(tmp_path, layout, _MODES[mode])
    rows = _append(table, range(40)) + _append(table, range(40, 80))
    assert table.delete("id IN (1, 50, 51)", executor=Pickling()).rows_deleted == 3
    assert table.delete("c = 'c3' AND x > 1", executor=LocalExecutor(2)).rows_deleted > 1
    assert _content(table) == _texts(
        [
            r
            for r in rows
            if r["id"] not in (1, 50, 51) and not (r["c"] == "c3" and r["x"] is not None and not r["x"] <= 1)
        ]
    )


def test_progress_counts_rows_of_files(tmp_path: Path) -> None:
    table = _table(tmp_path, {"options": {"source.split.target-size": "1 b"}}, _VECTORS)
    for start in (0, 10, 20):
        _append(table, range(start, start + 10))
    seen = Seen()
    table.delete("x > 0", progress=seen, executor=LocalExecutor(1))
    assert seen.done("reading") == 30


def test_what_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path, {}, _VECTORS)
    for empty in ("", "  "):
        with pytest.raises(OptionError, match='say "TRUE"'):
            table.delete(empty)
    with pytest.raises(PredicateError):
        table.delete("nothing = 1")
    with pytest.raises(OptionError, match="deletion-vectors"):
        table.delete("id = 1", options={"deletion-vector.enabled": "true"})


@pytest.mark.parametrize("index", [{}, {"file-index.bitmap.columns": "c"}], ids=["no index", "bitmap"])
@pytest.mark.parametrize("mode", _MODES.values(), ids=_MODES)
@pytest.mark.parametrize("layout", [{}, {"bucket": "2", "bucket-key": "id"}], ids=["plain", "buckets"])
def test_columns_that_indexes_are_not_asked_about(
    layout: dict[str, str], mode: dict[str, str], index: dict[str, str], tmp_path: Path
) -> None:
    """CHAR in ORC, and a column named like the key of a MAP beside it: the data says which rows go."""
    fields = [
        DataField(0, "id", parse_type("INT NOT NULL")),
        DataField(1, "c", parse_type("CHAR(4)")),
        DataField(2, "m", parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": "STRING"})),
        DataField(3, "m[k]", parse_type("STRING")),
    ]
    table = pp.Table.create(tmp_path / "t", fields, options={"file.format": "orc"} | layout | mode | index)
    texts = ["ab", "cd", "ef", "gh"]
    keys = [[("k", text)] for text in reversed(texts)]
    table.append(
        pa.table({"id": range(4), "c": texts, "m": pa.array(keys, pa.map_("string", "string")), "m[k]": texts})
    )
    left = {0, 1, 2, 3}
    for condition, gone in (("c = 'ab'", 0), ("`m[k]` = 'cd'", 1), ("m['k'] = 'ab'", 3)):
        assert table.delete(condition).rows_deleted == 1
        left.remove(gone)
        assert set(table.scan().to_arrow().column("id").to_pylist()) == left
