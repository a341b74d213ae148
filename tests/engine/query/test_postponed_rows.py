"""postpone.merge-on-read: rows that wait for their buckets are merged in when a batch reads them."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.errors import UnsupportedError
from support.effort import examples

_COLUMNS = "p STRING NOT NULL, k INT NOT NULL, v INT, s INT"
_MERGED = {"postpone.merge-on-read": "true"}
_OPTIONS = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "postpone.target-row-num-per-bucket": "3"}
_ENGINES: dict[str, dict[str, str]] = {
    "newest": {},
    "by sequence": {"sequence.field": "s"},
    "partial": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "sums": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "max"},
    "first": {"merge-engine": "first-row"},
    "with vectors": {"deletion-vectors.enabled": "true"},
}
_ROWS = st.lists(
    st.fixed_dictionaries({
        "op": st.sampled_from(["+I", "+I", "-D"]), "p": st.sampled_from("xy"), "k": st.integers(0, 5),
        "v": st.none() | st.integers(0, 9), "s": st.integers(0, 9),
    }),
    min_size=1, max_size=6,
)  # fmt: skip
_FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "p = 'x'": lambda row: row["p"] == "x", "k < 3": lambda row: row["k"] < 3, "v > 4": lambda row: (row["v"] or 0) > 4,
    "p = 'y' AND v IS NULL": lambda row: row["p"] == "y" and row["v"] is None,
}  # fmt: skip


def _table(path: Path, options: dict[str, str]) -> pp.Table:
    return pp.Table.create(path / "t", _COLUMNS, primary_key="p, k", partition_by="p", options={**_OPTIONS, **options})


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return rows.sort_by([("p", "ascending"), ("k", "ascending")]).to_pylist()


_STEPS = st.lists(st.just("compact") | _ROWS, min_size=1, max_size=4)


@settings(max_examples=examples(8))
@given(st.sampled_from([*_ENGINES]), _STEPS, st.sampled_from([*_FILTERS]))
def test_a_read_gives_what_a_compaction_would_leave(
    tmp_path_factory: pytest.TempPathFactory, engine: str, steps: list[Any], where: str
) -> None:
    deletes = engine not in ("sums", "first")
    path = tmp_path_factory.mktemp("t")
    table = _table(path, _ENGINES[engine])
    for step in steps:
        if step == "compact":
            table.compact(full=True)
            continue
        kept = [row for row in step if deletes or row["op"] == "+I"]
        if kept:
            table.append(kept, rowkind_column="op")
    shutil.copytree(path / "t", path / "copy")
    other = pp.Table.open(path / "copy")
    other.compact(full=True)
    rows = _sorted(other.to_arrow())
    some = list(filter(_FILTERS[where], rows))
    assert _sorted(table.scan(options=_MERGED).to_arrow()) == rows
    assert _sorted(table.scan(where, options=_MERGED).to_arrow()) == some
    assert [row["v"] for row in some] == [
        row["v"] for row in _sorted(table.scan(where, columns=["p", "k", "v"], options=_MERGED).to_arrow())
    ]
    assert table.scan(options=_MERGED).count() == len(rows)
    assert table.scan(where, options=_MERGED).count() == len(some)
    assert table.scan(where, limit=2, options=_MERGED).to_arrow().num_rows == min(2, len(some))
    answer = table.scan(where, options=_MERGED).answer
    assert answer.exists().value == bool(some)
    assert answer.max("s").value == max((row["s"] for row in some), default=None)
    best = sorted(some, key=lambda row: (-row["s"], row["p"], row["k"]))[:2]
    top_n = "s desc, p, k, 2"
    found = table.scan(where, columns=["k", "p"], top_n=top_n, options=_MERGED)
    assert found.to_arrow().to_pylist() == [{"k": row["k"], "p": row["p"]} for row in best]
    assert found.explain(analyze=True).steps[-1].rows == len(best)
    keys = [(p, k) for p in "yx" for k in range(7)]
    wanted = sorted(rows, key=lambda row: (row["p"] == "x", row["k"]))
    assert table.lookup(keys, options=_MERGED).to_pylist() == wanted
    assert table.lookup(keys, columns=["v"], options=_MERGED)["v"].to_pylist() == [row["v"] for row in wanted]
    paths = set(table.scan(options=_MERGED).plan().paths)
    assert {file.path for file in table.scan(options=_MERGED).explain(analyze=True).files} == paths
    assert paths >= set(table.scan(options=_MERGED | {"postpone.merge-on-read": "false"}).plan().paths)


def test_only_partitions_in_which_rows_wait_are_merged(tmp_path: Path) -> None:
    table = _table(tmp_path, {})
    table.append([{"p": p, "k": k, "v": k, "s": 0} for p in "xy" for k in range(6)])
    table.compact()
    table.append([{"p": "x", "k": 0, "v": 100, "s": 0}])
    scan = table.scan(options=_MERGED)
    assert scan.waiting is not None
    (part,) = pickle.loads(pickle.dumps(scan.waiting.waiting))
    assert sorted(row["v"] for batch in part.batches() for row in batch.to_pylist()) == [1, 2, 3, 4, 5, 100]
    assert len(scan.waiting.rest.partitions or ()) == 1
    assert table.scan("p = 'y'", options=_MERGED).waiting is None
    assert len(table.scan("p = 'y'", options=_MERGED).plan().files) == len(table.scan("p = 'y'").plan().files) > 0
    assert table.scan(options=_MERGED, snapshot=2).waiting is None


def test_many_rows_are_sorted_on_disk(tmp_path: Path) -> None:
    table = _table(tmp_path, {"write-buffer-size": "64 kb"})
    for value in range(3):
        rows = {"p": ["x"] * 8_000, "k": list(range(8_000)), "v": [value] * 8_000, "s": [0] * 8_000}
        table.append(pa.table(rows, schema=table.scan().arrow_schema))
    found = table.scan("k < 6000", options=_MERGED).to_arrow()
    assert (found.num_rows, set(found["v"].to_pylist())) == (6_000, {2})


def test_what_is_not_answered_so_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path, {})
    table.append([{"p": "x", "k": 0, "v": 100, "s": 0}])
    scan = table.scan(options=_MERGED)
    assert [file.bucket for file in scan.plan().files] == [-2]
    with pytest.raises(UnsupportedError, match="which wait for their buckets can't be read with") as caught:
        table.system.audit_log(options=_MERGED)
    assert "compact the table" in str(caught.value.hint)
    with pytest.raises(UnsupportedError, match="have no __paimon_file_path"):
        table.scan(columns=["v", "__paimon_file_path"], options=_MERGED).to_arrow()
    with pytest.raises(UnsupportedError, match="for batch reads only"):
        next(iter(table.follow(options=_MERGED)))
    for change in (lambda: table.delete("k = 0", options=_MERGED), lambda: table.update({"v": "1"}, options=_MERGED)):
        with pytest.raises(UnsupportedError, match="rows that wait for their buckets can't be changed"):
            change()
    table.compact()
    assert table.scan(options=_MERGED).waiting is None
    assert table.scan(top_n="v, 1", options=_MERGED).to_arrow().num_rows == 1
