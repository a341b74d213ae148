"""Diff: what makes one state of a table of another, held against the rows of both states read whole."""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.engine.read import candidate_keys
from paimon_pyds.errors import ArgumentTypeError, TagNotFoundError, UnsupportedError
from paimon_pyds.ops.maintenance import diff_rows
from support.effort import LONG, sampled
from support.fixtures import fixture_names, table_path

_SCHEMA = pa.schema([
    pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.float64()),
    ("s", pa.string()), ("l", pa.list_(pa.float32())), ("m", pa.map_(pa.string(), pa.int64())),
    ("r", pa.struct([("x", pa.decimal128(12, 2)), ("y", pa.bool_())])),
])  # fmt: skip
_KEYS = ["p", "k"]
_KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {}),
    "vectors": ([], {"deletion-vectors.enabled": "true"}),
    "row ids": ([], {"row-tracking.enabled": "true"}),
    "buckets": ([], {"bucket": "2", "bucket-key": "k"}),
    "key": (_KEYS, {"bucket": "2", "num-sorted-run.compaction-trigger": "4"}),
    "key vectors": (_KEYS, {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "dynamic": (_KEYS, {"dynamic-bucket.target-row-num": "3"}),
    "any partition": (["k"], {"bucket": "-1"}),
    "first row": (_KEYS, {"bucket": "1", "merge-engine": "first-row"}),
    "partial": (_KEYS, {"bucket": "1", "merge-engine": "partial-update"}),
    "sums": (_KEYS, {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
}


def _canonical(value: Any) -> Any:
    """A value that equals what `diff` takes for equal: NaN is one value, the zeros are two, maps have no order."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float():
            return (value, math.copysign(1, value))
        case dict():
            return tuple(sorted((k, _canonical(v)) for k, v in value.items()))
        case list() if value and isinstance(value[0], tuple):
            return tuple(sorted((k, _canonical(v)) for k, v in value))
        case list():
            return ("list", *map(_canonical, value))
    return value


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(map(_canonical, row.values())) for row in table.to_pylist()]


def _expected(before: pa.Table, after: pa.Table, keys: list[str]) -> Counter[Any]:
    """What `diff` has to give, by reading both states whole."""
    old, new = _rows(before), _rows(after)
    if not keys:
        gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
        return Counter({("-D", *r): n for r, n in gone.items()} | {("+I", *r): n for r, n in come.items()})
    places = [before.column_names.index(key) for key in keys]
    by_key = [{tuple(row[i] for i in places): row for row in rows} for rows in (old, new)]
    found: Counter[Any] = Counter()
    for key in by_key[0].keys() | by_key[1].keys():
        was, is_ = (rows.get(key) for rows in by_key)
        if was != is_:
            kinds = ("-D", "+I") if was is None or is_ is None else ("-U", "+U")
            found.update((kind, *row) for kind, row in zip(kinds, (was, is_), strict=True) if row is not None)
    return found


def _check(table: pp.Table, a: int, b: int) -> None:
    keys = list(table.primary_key)
    diff = table.snapshots.diff(a, b)
    names = diff.schema.field_names
    states = [table.scan(snapshot=id_).to_arrow() for id_ in (a, b)]
    assert list(states[0].column_names) == list(states[1].column_names) == list(names)
    expected = _expected(*states, keys)
    found = diff.to_arrow()
    assert Counter(_rows(found)) == expected, (a, b)
    kinds = found["rowkind"].to_pylist()
    summary = diff.summary()
    counts = (summary.rows_inserted, summary.rows_deleted, summary.rows_updated)
    assert counts == (kinds.count("+I"), kinds.count("-D"), kinds.count("+U"))
    assert summary.differs == bool(expected or summary.schema or summary.options)  # a rescale changes an option
    updates = [row for row in found.to_pylist() if row["rowkind"] in ("-U", "+U")]
    for one, two in zip(updates[::2], updates[1::2], strict=True):
        assert (one["rowkind"], two["rowkind"]) == ("-U", "+U")
        assert [one[key] for key in keys] == [two[key] for key in keys]


class _World:
    def __init__(self, path: Path, kind: str, rng: random.Random) -> None:
        keys, options = _KINDS[kind]
        self.table = pp.Table.create(path, _SCHEMA, primary_key=keys, partition_by=["p"], options=options)
        self.rng, self.keys, self.kind = rng, keys, kind

    def value(self) -> float | None:
        return self.rng.choice([0.0, -0.0, math.nan, 1.5, None])

    def rows(self) -> pa.Table:
        rng = self.rng
        rows = []
        for k in rng.sample(range(12), rng.randrange(1, 8)):
            entries = [("a", 1), ("b", rng.choice([2, None]))]
            rng.shuffle(entries)
            rows.append({
                "p": k % 2 if self.kind != "any partition" else rng.randrange(2), "k": k, "v": self.value(),
                "s": rng.choice(["", "x", None, "long text"]),
                "l": rng.choice([None, [], [self.value(), 1.0]]),
                "m": rng.choice([None, [], entries]),
                "r": rng.choice([None, {"x": None, "y": True}, {"x": 1, "y": None}]),
            })  # fmt: skip
        if not self.keys and rng.random() < 0.5:
            rows += rows
        return pa.Table.from_pylist(rows, _SCHEMA)

    def step(self, name: str) -> None:
        match name:
            case "append":
                self.table.append(self.rows())
            case "overwrite":
                self.table.overwrite(self.rows(), dynamic=self.rng.random() < 0.5 and self.kind != "any partition")
            case "compact":
                self.table.compact(full=self.rng.random() < 0.5)
            case "delete" if self.kind not in ("first row", "partial", "sums"):
                self.table.delete(f"k % 3 = {self.rng.randrange(3)}")
            case "rescale" if self.kind == "key":
                self.table.maintenance.rescale(self.rng.randrange(1, 4))


@settings(max_examples=600 if LONG else 5, deadline=None)
@given(
    st.sampled_from(sorted(_KINDS)),
    st.integers(0, 2**32),
    st.lists(st.sampled_from(["append", "append", "overwrite", "compact", "delete", "rescale"]), max_size=8),
)
def test_any_two_states(kind: str, seed: int, steps: list[str]) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        world = _World(Path(directory) / "t", kind, rng)
        for step in ("append", "append", *steps):
            world.step(step)
        ids = world.table._store.snapshot_ids()
        for _ in range(3):
            _check(world.table, rng.choice(ids), rng.choice(ids))


@pytest.mark.parametrize("kind", sampled(sorted(_KINDS), 2))
def test_each_kind_of_table(kind: str, tmp_path: Path) -> None:
    world = _World(tmp_path / "t", kind, random.Random(5))
    for step in ("append", "append", "delete", "append", "compact", "overwrite", "append", "compact"):
        world.step(step)
    ids = world.table._store.snapshot_ids()
    _check(world.table, ids[0], ids[-1])
    _check(world.table, ids[-1], ids[1])


def test_states_of_fixtures_by_java() -> None:
    """All fixtures that have several snapshots, of one schema."""
    checked = 0
    for name in sampled(fixture_names(), 12):
        table = pp.Table.open(table_path(name))
        states = table.snapshots.list()
        if name == "pk_dynamic_bucket_part" or table.options.get("data-evolution.enabled") == "true":
            continue  # keys in two buckets; refused
        if len(states) < 2 or states[0].schema_id != states[-1].schema_id:
            continue
        _check(table, states[0].id, states[-1].id)
        checked += 1
    assert checked > 3


def test_rows_that_do_not_fit_into_memory_are_sorted_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a row that is there very often is one row until it is given out."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    table = pp.Table.create(tmp_path / "t", schema, options={"sort-spill-buffer-size": "64 kb"})
    rows = pa.table({"a": [*range(5_000), *[7] * 9_000], "b": [*map(str, range(5_000)), *["7"] * 9_000]}, schema)
    table.append(rows)
    table.overwrite(rows.slice(10))
    monkeypatch.setattr(diff_rows, "BATCH_ROWS", 1_000)
    found = table.snapshots.diff(1, 2)
    assert sorted(found.to_arrow()["a"].to_pylist()) == list(range(10))
    summary = table.snapshots.diff(2, 1).summary()
    assert (summary.rows_inserted, summary.rows_deleted) == (10, 0)


def test_what_both_states_have_is_not_read(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true"}
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int64())]), options=options)
    for first in (0, 100):
        table.append(pa.table({"a": range(first, first + 100)}))
        table.delete(f"a = {first}")
    shared = list(tmp_path.rglob("data-*"))
    table.append(pa.table({"a": [7]}))
    for path in shared:
        path.unlink()
    assert table.snapshots.diff(4).to_arrow().to_pylist() == [{"rowkind": "+I", "a": 7}]


def test_keys_are_looked_up_in_what_both_states_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few changed keys are found in a large file without reading all of it."""
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())])
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    table.append(pa.table({"k": range(400_000), "v": ["value"] * 400_000}, schema))
    table.compact(full=True)
    table.append(pa.table({"k": [5, 250_000, 500_000], "v": ["a", "value", "c"]}, schema))
    from paimon_pyds.engine.read import merged_files

    found = []
    keys_of = merged_files.changed_keys
    monkeypatch.setattr(merged_files, "changed_keys", lambda *given: found.append(keys_of(*given)) or found[-1])
    rows = table.snapshots.diff(2, 3).to_arrow().to_pylist()
    assert [len(keys) for keys in found] == [3]
    assert [(row["rowkind"], row["k"], row["v"]) for row in rows] == [
        ("-U", 5, "value"), ("+U", 5, "a"), ("+I", 500_000, "c"),
    ]  # fmt: skip


def test_very_many_buckets_that_a_key_may_be_in_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their files would all be open at the same time."""
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
    options = {"dynamic-bucket.target-row-num": "2"}
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["k"], options=options)
    for value in (1, 2):
        table.append(pa.table({"k": [0, 9, 1, 8, 2, 7, 3, 6, 4, 5], "v": [value] * 10}, schema))
    assert table.snapshots.diff(1, 2).summary().rows_updated == 10
    monkeypatch.setattr(candidate_keys, "MAX_BUCKETS", 4)
    with pytest.raises(UnsupportedError, match="buckets: too many"):
        table.snapshots.diff(1, 2).to_arrow()


def test_schemas_and_options(tmp_path: Path) -> None:
    """Rows are compared by the columns of the newer schema, by their ids."""
    schema = pa.schema([("a", pa.int32()), ("b", pa.string()), ("r", pa.struct([("x", pa.int32())]))])
    table = pp.Table.create(tmp_path / "t", schema, options={"target-file-size": "64 mb"})
    table.append(pa.table({"a": [1, 2], "b": ["x", "y"], "r": [{"x": 1}, None]}, schema))
    table.alter(rename_columns={"a": "z"}, set_options={"target-file-size": "32 mb"})
    table.alter(drop_columns=["b"], add_columns=pa.schema([("n", pa.int64())]))
    table.append(pa.table({"z": [3], "r": [None], "n": [9]}))
    diff = table.snapshots.diff(1)
    assert diff.to_arrow().to_pylist() == [{"rowkind": "+I", "z": 3, "r": None, "n": 9}]
    assert [(c.what, c.name, c.before, c.after) for c in diff.schema_changes] == [
        ("column name", "z", "a", "z"), ("column", "b", "STRING", None), ("column", "n", None, "BIGINT"),
    ]  # fmt: skip
    changes = {c.name: (c.before, c.after) for c in diff.option_changes}
    assert changes["target-file-size"] == ("64 mb", "32 mb")
    assert "option target-file-size: 64 mb -> 32 mb" in str(diff.summary())
    back = table.snapshots.diff(2, 1)
    assert back.to_arrow().to_pylist() == [{"rowkind": "-D", "z": 3, "r": None, "n": 9}]
    assert [(c.what, c.name, c.before, c.after) for c in back.schema_changes][:1] == [("column name", "a", "z", "a")]


def test_what_is_shown(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int64())]))
    assert table.snapshots.diff(None).to_arrow().num_rows == 0  # type: ignore[arg-type]
    table.append(pa.table({"a": [1, 2]}))
    table.tags.create("first")
    table.overwrite(pa.table({"a": [2, 3]}))
    table.compact(full=True)
    diff = table.snapshots.diff("first")
    assert "tag first to the newest state" in repr(diff)
    assert diff.files["change"].to_pylist() == ["removed", "added"]
    summary = diff.summary()
    assert summary.differs
    assert "rows: 1 inserted, 1 deleted" in str(summary)
    assert json.loads(summary.to_json())["rows_inserted"] == 1
    assert not table.snapshots.diff("first", 1).summary().differs
    assert repr(table.snapshots.diff(1, 1).summary()).endswith("the same rows, files: 0 added (0 B), 0 removed (0 B)")
    with pytest.raises(TagNotFoundError):
        table.snapshots.diff("none")
    with pytest.raises(ArgumentTypeError):
        table.snapshots.diff(1.5)  # type: ignore[arg-type]


def test_rows_without_a_key_come_in_the_order_of_scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are gone first, however many there are: then a copy with a key can take them as they come."""
    monkeypatch.setattr(diff_rows, "BATCH_ROWS", 5)
    schema = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("s", pa.string())])
    table = pp.Table.create(tmp_path / "t", schema, partition_by="p", options={"sort-spill-buffer-size": "1 b"})
    for day in range(6):
        table.append([{"p": day, "id": n, "s": "x" * 9_000} for n in random.Random(day).sample(range(100), 40)])
    table.tags.create("before")
    table.update({"s": "s || 'y'"}, "id % 3 = 0 and p in (1, 2, 4)")
    table.delete("p = 3")
    table.append([{"p": day, "id": 200 + n, "s": "z"} for day in (5, 7, 2) for n in (3, 1, 2, 1)])
    found = table.snapshots.diff("before").to_arrow()
    assert found.equals(table.snapshots.diff("before").to_arrow())
    kinds = found["rowkind"].to_pylist()
    assert kinds == sorted(kinds, reverse=True) and set(kinds) == {"-D", "+I"}
    for kind, state in (("-D", table.scan(tag="before")), ("+I", table.scan())):
        rows = [row["p"] * 1000 + row["id"] for row in found.to_pylist() if row["rowkind"] == kind]
        scanned = [row["p"] * 1000 + row["id"] for row in state.to_arrow().to_pylist()]
        places = {id_: at for at, id_ in enumerate(scanned) if scanned.count(id_) == 1}
        at = [places[id_] for id_ in rows if id_ in places]
        assert len(at) > 30 and at == sorted(at), kind
