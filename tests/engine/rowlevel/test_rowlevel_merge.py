"""Table.merge: against a plain model, and its rules and errors one by one."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.engine.rowlevel import merge_source
from paimon_pyds.errors import (
    ArgumentTypeError,
    CardinalityError,
    ExpressionError,
    OptionError,
    SchemaError,
)
from support import merge_model as model
from support.effort import examples
from support.progress import Seen

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int32()), ("v", pa.int64()), ("s", pa.string())])
SOURCE = pa.schema([("p", pa.string()), ("k", pa.int64()), ("v", pa.int32()), ("s", pa.string())])
INDEXED = {"file-index.bitmap.columns": "k", "file-index.bloom-filter.columns": "s"}
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "rewritten": ((), INDEXED),
    "vectors": ((), {"deletion-vectors.enabled": "true", **INDEXED}),
    "wide vectors": (("p",), {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}),
    "partitions": (("p",), {"file.format": "avro"}),
    "buckets": ((), {"bucket": "2", "bucket-key": "k", "file.format": "orc", "deletion-vectors.enabled": "true"}),
}


def create(path: Path, kind: str = "vectors", **options: str) -> pp.Table:
    partitions, own = KINDS[kind]
    return pp.Table.create(str(path / "db.db" / "t"), SCHEMA, partition_by=partitions, options={**own, **options})


def rows_of(table: pp.Table) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in table.scan().to_arrow().to_pylist())


def texts(rows: Sequence[model.Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("kind", KINDS)
def test_against_a_model(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    @settings(max_examples=examples(8))
    @given(
        st.lists(st.lists(model.ROWS, max_size=12), max_size=3),
        st.lists(model.ROWS, max_size=8),
        st.sampled_from(model.ON),
        model.MATCHED,
        model.NOT_MATCHED,
        model.BY_SOURCE,
    )
    def run(appends: Any, source: Any, on: Any, matched: Any, not_matched: Any, by_source: Any) -> None:
        table = create(tmp_path_factory.mktemp("merge"), kind)
        for rows in appends:
            table.append(pa.Table.from_pylist(rows, SCHEMA))
        before = [row for rows in appends for row in rows]
        clauses = {
            "when_matched": [c.public() for c in matched],
            "when_not_matched": [c.public() for c in not_matched],
            "when_not_matched_by_source": [c.public() for c in by_source],
        }
        if not (matched or not_matched or by_source):
            return
        given_source = pa.Table.from_pylist(source, SOURCE)
        try:
            expected = model.merge(before, source, on, matched, not_matched, by_source)
        except CardinalityError:
            snapshot = table.snapshots.latest()
            with pytest.raises(CardinalityError):
                table.merge(given_source, on.text, **clauses)
            assert table.snapshots.latest() == snapshot
            return
        found = table.merge(given_source, on.text, **clauses)
        assert rows_of(table) == texts(expected.rows)
        counts = (found.rows_deleted, found.rows_updated, found.rows_inserted)
        assert counts == (expected.deleted, expected.updated, expected.inserted)

    run()


def people(table: pp.Table) -> None:
    table.append(pa.table({"p": ["x", "x", "y"], "k": [1, 2, None], "v": [10, 20, 30], "s": ["a", "b", "c"]}, SCHEMA))


@pytest.mark.smoke
def test_columns_to_join_on_and_star_clauses(tmp_path: Path) -> None:
    table = create(tmp_path)
    people(table)
    source = pa.table({"S": ["new", "more", "null"], "K": [2, 3, None], "v": [21, 31, 41], "P": ["x", "x", "y"]})
    done = table.merge(source, ["k"], when_matched="update", when_not_matched="insert")
    assert (done.rows_updated, done.rows_inserted, done.rows_deleted) == (1, 2, 0)
    assert sorted(table.scan(columns=["v"]).to_arrow()["v"].to_pylist()) == [10, 21, 30, 31, 41]
    done = table.merge(source.slice(1), "t.k <=> source.k", when_matched="delete")
    assert done.rows_deleted == 3
    assert sorted(table.scan(columns=["v"]).to_arrow()["v"].to_pylist()) == [10, 21]


def test_first_clause_wins_and_expressions_see_old_values(tmp_path: Path) -> None:
    table = create(tmp_path, "rewritten")
    people(table)
    source = pa.table({"k": [1, 2], "d": [5, 50]})
    table.merge(
        source,
        "t.k = s.k",
        when_matched=[pp.Delete("s.d > t.v"), pp.Update({"v": "t.v + d", "s": "t.v::string"}), ],
    )  # fmt: skip
    assert table.scan("p = 'x'", columns=["v", "s"]).to_arrow().to_pylist() == [{"v": 15, "s": "10"}]


@pytest.mark.parametrize("kind", ["rewritten", "vectors"])
def test_two_source_rows_for_one_row(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path, kind)
    people(table)
    twice = pa.table({"k": [2, 2], "v": [1, 2]})
    with pytest.raises(CardinalityError, match=r"rows 1 and 2 of the source .*source\.k = 2"):
        table.merge(twice, ["k"], when_matched=[pp.Update({"v": "s.v"})])
    files = sorted(p.name for p in (tmp_path / "db.db" / "t" / "bucket-0").iterdir())
    assert len([f for f in files if f.endswith(".parquet")]) == 1, "what was written is removed"
    assert table.merge(twice, ["k"], when_matched=[pp.Update({"v": "s.v"}, "s.v = 2")]).rows_updated == 1
    assert table.merge(twice, ["k"], when_matched="delete").rows_deleted == 1
    inserted = table.merge(twice, ["k"], when_not_matched=[pp.Insert({"k": "k", "p": "'q'"})])
    assert inserted.rows_inserted == 2


def test_partition_columns_can_change(tmp_path: Path) -> None:
    table = create(tmp_path, "wide vectors")
    people(table)
    table.merge(pa.table({"k": [1], "p": ["far"]}), ["k"], when_matched=[pp.Update({"p": "s.p"})])
    assert table.scan("p = 'far'", columns=["k", "v"]).to_arrow().to_pylist() == [{"k": 1, "v": 10}]
    assert table.count() == 3


def test_an_empty_table_and_an_empty_source(tmp_path: Path) -> None:
    table = create(tmp_path)
    nothing = SOURCE.empty_table()
    assert table.merge(nothing, ["k"], when_matched="update", when_not_matched="insert").snapshot_id is None
    assert table.merge(nothing, ["k"], when_not_matched_by_source="delete").snapshot_id is None
    people(table)
    assert table.merge(nothing, ["k"], when_not_matched_by_source="delete").rows_deleted == 3
    assert table.count() == 0


def test_many_keys_are_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_source.key_predicate, "__defaults__", (3,))
    table = create(tmp_path)
    people(table)
    source = pa.table({"k": range(1, 9), "v": range(8), "p": ["x"] * 8, "s": ["n"] * 8})
    done = table.merge(source, ["k"], when_matched="update", when_not_matched="insert")
    assert (done.rows_updated, done.rows_inserted) == (2, 6)


def test_files_without_keys_are_not_read(tmp_path: Path) -> None:
    table = create(tmp_path)
    for start in (0, 100, 200):
        numbers = range(start, start + 10)
        table.append(pa.table({"p": ["x"] * 10, "k": numbers, "v": numbers, "s": ["a"] * 10}, SCHEMA))
    seen = Seen()
    source = pa.table({"k": [105, 107, 350]})
    done = table.merge(source, ["k"], when_matched=[pp.Update({"v": "0"})], progress=seen)
    assert (done.rows_updated, done.files_touched) == (2, 1)
    assert seen.done("merging") == 10


def test_keys_of_other_types(tmp_path: Path) -> None:
    table = create(tmp_path)
    people(table)
    for keys in (pa.array([1, 2**40]), pa.array([1.0, 2.5]), pa.array(["1", "77"]), pa.array([1, 9], pa.int8())):
        done = table.merge(pa.table({"k": keys}), ["k"], when_matched=[pp.Update({"v": "t.v + 1"})])
        assert done.rows_updated == 1
    assert table.scan("k = 1").to_arrow()["v"].to_pylist() == [14]


KEYS = {
    pa.int8(): [1, -128, 127],
    pa.int64(): [1, -(2**63), 2**63 - 1],
    pa.float64(): [1.5, float("nan"), 0.0],
    pa.decimal128(20, 2): [Decimal("1.00"), Decimal("-2.50"), Decimal("123456789012345678.90")],
    pa.string(): ["a", "", "ü"],
    pa.binary(): [b"a", b"", b"\xff"],
    pa.bool_(): [True, False, None],
    pa.date32(): [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(2026, 1, 31)],
    pa.time32("s"): [dt.time(1, 2, 3), dt.time(0), None],
    pa.time32("ms"): [dt.time(23, 59, 59, 999_000), dt.time(0), dt.time(1, 2, 3)],
    pa.timestamp("ms"): [dt.datetime(2026, 1, 31, 1, 2, 3), dt.datetime(1960, 1, 1), dt.datetime(1970, 1, 1)],
    pa.timestamp("us", "UTC"): [dt.datetime(2026, 1, 31, tzinfo=dt.UTC), None, None],
}


@pytest.mark.parametrize("type_", KEYS, ids=str)
def test_keys_of_every_type(tmp_path: Path, type_: pa.DataType) -> None:
    keys = pa.array(KEYS[type_], type_)
    schema = pa.schema([("k", type_), ("v", pa.int64())])
    table = pp.Table.create(str(tmp_path / "t"), schema, options={"deletion-vectors.enabled": "true"})
    table.append(pa.table({"k": keys, "v": [1, 2, 3]}, schema))
    source = pa.table({"k": keys.take(pa.array([2, 0, 1])), "v": [30, 10, 20]})
    known = len(keys) - keys.null_count
    done = table.merge(source, ["k"], when_matched="update")
    assert done.rows_updated == known
    found = table.scan().to_arrow().to_pylist()
    assert sorted(row["v"] for row in found if row["k"] is not None) == [10, 20, 30][:known]
    done = table.merge(source, "t.k <=> s.k", when_matched="delete", options={"deletion-vectors.enabled": "false"})
    assert done.rows_deleted == 3


def test_sources_of_every_kind(tmp_path: Path) -> None:
    table = create(tmp_path)
    people(table)
    batch = pa.record_batch({"k": pa.array([1]), "s": pa.array(["z"]).dictionary_encode()})
    sources = [batch, pa.RecordBatchReader.from_batches(batch.schema, [batch]), [{"k": 1, "s": "z"}]]
    for source in sources:
        assert table.merge(source, ["k"], when_matched=[pp.Update({"s": "s.s"})]).rows_updated == 1
    assert "z" in table.scan().to_arrow()["s"].to_pylist()


@pytest.mark.parametrize("on", ["p, k", " K ,p", ["p", "k"], {"k", "p"}])
def test_names_to_join_on(tmp_path: Path, on: Any) -> None:
    table = create(tmp_path)
    people(table)
    source = [{**row, "v": -1} for row in table.scan("k = 1").to_arrow().to_pylist()]
    assert source
    summary = table.merge(source, on, when_matched="update", when_not_matched="insert")
    assert (summary.rows_updated, summary.rows_inserted) == (len(source), 0)


@pytest.mark.parametrize(
    ("on", "clauses", "error", "part"),
    [
        (["k"], {}, OptionError, "needs a clause"),
        (["k"], {"when_matched": "insert"}, OptionError, "when matched: Update or Delete"),
        (["k"], {"when_matched": {"update": {"v": "1"}}}, OptionError, "Update or Delete clauses are wanted, not {'up"),
        (["k"], {"when_matched": 5}, OptionError, "when matched: Update or Delete clauses are wanted, not 5"),
        (["k"], {"when_matched": ["delete", "update"]}, OptionError, "never acts"),
        (["nosuch"], {"when_matched": "delete"}, ExpressionError, "no column 'nosuch'"),
        *((on, {"when_matched": "delete"}, OptionError, "needs a condition") for on in ([], (), None, "", " , ")),
        *(
            (on, {"when_not_matched": "insert"}, ArgumentTypeError, "on takes names of columns, or a condition as SQL")
            for on in (5, True, 1.5, b"k", {"k": 1}, [1], ["k", ""], object())
        ),
        *(
            (on, {"when_matched": "delete"}, SchemaError, "the source has no column 's' to join on — it has k, v, b")
            for on in ("s", ["k", "s"], "k,s")
        ),
        ("nosuch", {"when_matched": "delete"}, ExpressionError, "no column 'nosuch' in target"),
        ("k = 1", {"when_matched": "delete"}, ExpressionError, "is in target and source"),
        ("t.k + s.k", {"when_matched": "delete"}, ExpressionError, "condition is wanted"),
        (["k"], {"when_matched": "upsert"}, OptionError, "a merge: 'upsert' — did you mean \"update\"?"),
        (["k"], {"when_matched": ["t.v = 1 THEN delet"]}, OptionError, 'did you mean "delete"?'),
        (["k"], {"when_not_matched": "upsert"}, OptionError, 'did you mean "insert"?'),
        (["k"], {"when_not_matched_by_source": "t.v = 1"}, OptionError, "— delete, update, update set"),
        (["k"], {"when_matched": "update"}, SchemaError, "no columns 'p', 's', .*such as Update({'v': 'source.v'})"),
        (["k"], {"when_not_matched": "insert"}, SchemaError, "the source has no column"),
        (["k"], {"when_matched": pp.Update({"q": "1"})}, SchemaError, "no column 'q'"),
        (["k"], {"when_not_matched": pp.Insert({"k": "t.k"})}, ExpressionError, "no column"),
        (["k"], {"when_not_matched_by_source": "update"}, OptionError, "needs columns to set"),
        (["k"], {"when_not_matched_by_source": pp.Delete("s.v = 1")}, ExpressionError, "no part"),
        (["k"], {"when_matched": pp.Update({"v": "1 / (t.v - t.v)"})}, ExpressionError, "division by zero"),
        (["k"], {"when_matched": pp.Update({"k": "3000000000"})}, ExpressionError, "column 'k'"),
        ("t.k = s.b", {"when_matched": "delete"}, ExpressionError, "common type"),
    ],
)
def test_errors(tmp_path: Path, on: Any, clauses: Any, error: type[Exception], part: str) -> None:
    table = create(tmp_path)
    people(table)
    source = pa.table({"k": [1], "v": [2], "b": [True]})
    snapshot = table.snapshots.latest()
    with pytest.raises(error, match=re.sub(r"[()?{]", r"\\\g<0>", part)):
        table.merge(source, on, **clauses)
    assert table.snapshots.latest() == snapshot


def test_null_for_a_not_null_column(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())])
    table = pp.Table.create(str(tmp_path / "t"), schema, options={"deletion-vectors.enabled": "true"})
    table.append(pa.table({"k": [1], "v": [1]}, schema))
    with pytest.raises(SchemaError, match="'k' is NOT NULL"):
        table.merge(pa.table({"k": [1]}), ["k"], when_matched=pp.Update({"k": "NULL"}))
    with pytest.raises(SchemaError, match="'k' is NOT NULL"):
        table.merge(pa.table({"k": [7]}), ["k"], when_not_matched=pp.Insert({"v": "k"}))


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_keep_their_ids(tmp_path: Path, vectors: str) -> None:
    options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": vectors}
    table = pp.Table.create(str(tmp_path / "t"), SCHEMA, options=options)
    people(table)
    source = pa.table({"k": [1, 2, 3]})
    table.merge(
        source,
        ["k"],
        when_matched=["t.k = 2 THEN DELETE", "UPDATE SET v = 0"],
        when_not_matched="INSERT (k, p) VALUES (k, 'n')",
    )
    rows = table.scan(columns=["k", "v", "_ROW_ID", "_SEQUENCE_NUMBER"]).to_arrow().to_pylist()
    found = {row["k"]: (row["v"], row["_ROW_ID"], row["_SEQUENCE_NUMBER"]) for row in rows}
    assert {k: ids[:2] for k, ids in found.items() if k != 3} == {1: (0, 0), None: (30, 2)}
    assert found[1][2] == found[3][2] == 2, "both changed with the second snapshot"
    assert found[None][2] == 1
    assert found[3][1] >= 3


def test_one_moment_for_all(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int32()), ("a", pa.timestamp("us", "UTC")), ("b", pa.timestamp("us", "UTC"))])
    table = pp.Table.create(str(tmp_path / "t"), schema)
    table.append(pa.table({"k": [1, 2], "a": [None, None], "b": [None, None]}, schema))
    both = {"a": "current_timestamp", "b": "now()"}
    table.merge(
        pa.table({"k": [1, 3]}),
        ["k"],
        when_matched=pp.Update(both),
        when_not_matched=pp.Insert({"k": "k", **both}),
        when_not_matched_by_source=pp.Update(both),
    )
    rows = table.scan().to_arrow()
    assert len(set(rows["a"].to_pylist() + rows["b"].to_pylist())) == 1


def test_one_worker_gives_the_same(tmp_path: Path) -> None:
    table = create(tmp_path)
    for start in range(0, 40, 10):
        numbers = range(start, start + 10)
        table.append(pa.table({"p": ["x"] * 10, "k": numbers, "v": numbers, "s": ["a"] * 10}, SCHEMA))
    source = pa.table({"k": range(0, 60, 3)})
    done = table.merge(
        source,
        ["k"],
        when_matched=[pp.Update({"v": "-t.v"})],
        when_not_matched=[pp.Insert({"k": "k", "p": "'n'"})],
        executor=LocalExecutor(1),
        options={"source.split.target-size": "1b"},
    )
    assert (done.rows_updated, done.rows_inserted) == (14, 6)
    expected = [-n if n % 3 == 0 else n for n in range(40)] + [None] * 6
    assert Counter(table.scan().to_arrow()["v"].to_pylist()) == Counter(expected)


def test_more_pairs_than_are_held_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paimon_pyds.engine.rowlevel import merge_rows

    monkeypatch.setattr(merge_rows, "MAX_ROW_PAIRS", 7)
    table = create(tmp_path)
    table.append(pa.table({"p": ["x"] * 30, "k": [n % 3 for n in range(30)], "v": range(30), "s": ["a"] * 30}, SCHEMA))
    source = pa.table({"k": [0, 1, 1, 5], "v": [1, 100, 1, 1]})
    done = table.merge(source, "t.k = s.k", when_matched=pp.Update({"v": "0"}, "s.v = 1"), when_not_matched=pp.Insert(
        {"k": "s.k", "p": "'x'"}))  # fmt: skip
    assert (done.rows_updated, done.rows_inserted) == (20, 1)


def test_conditions_on_rows_without_a_source_are_not_asked_of_others(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "guarded", pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    table.append(pa.table({"k": [1, 2, 3], "v": [0, 5, 7]}))
    source = pa.table({"k": [1], "v": [9]})
    done = table.merge(source, ["k"], when_matched="update", when_not_matched_by_source=pp.Delete("10 / t.v > 1.5"))
    assert done.rows_deleted == 1
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == [{"k": 1, "v": 9}, {"k": 3, "v": 7}]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("ARRAY<BIGINT>", []),
        ("ARRAY<BIGINT>", [None]),
        ("ROW<a INT, b STRING>", {"a": None, "b": "x"}),
        ("ARRAY<ROW<a INT>>", [{"a": None}]),
    ],
)
def test_nested_values_of_nulls_are_set(tmp_path: Path, type_: str, value: Any) -> None:
    """They come without a type of their own."""
    table = pp.Table.create(tmp_path / "t", parse_columns(f"id BIGINT, v {type_}"))
    table.append([{"id": 1, "v": None}])
    source = [{"id": 1, "v": value}, {"id": 2, "v": value}]
    matched, other = "update set v = coalesce(source.v, target.v)", "insert (id, v) values (source.id, source.v)"
    table.merge(source, "id", when_matched=matched, when_not_matched=other)
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == source
    table.delete("id = 2")
    table.merge(source, "id", when_matched="update set v = source.v")
    assert table.to_arrow().to_pylist() == source[:1]
    with pytest.raises(ExpressionError, match="can't be stored in a column of type BIGINT"):
        table.merge(source, "id", when_matched="update set id = source.v")
