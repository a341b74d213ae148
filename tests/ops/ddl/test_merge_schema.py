"""`write.merge-schema`: columns that follow the rows, compared with a model in memory and with Java Paimon."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CommitConflictError, SchemaError, UnknownColumnError
from paimon_pyds.metadata.store import TableStore
from support.effort import LONG, SEED, sampled
from support.growing_world import MERGE, WIDEN, GrowingWorld
from support.oracle import Oracle
from support.races import at_once
from support.values import lines

CAST = {**WIDEN, "write.merge-schema.explicit-cast": "true"}


def _types(table: pp.Table) -> dict[str, str]:
    return {field.name: str(field.type) for field in table.schema.fields}


def test_it_is_off_by_default_and_the_error_names_it(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT, s ROW<a INT>")
    with pytest.raises(UnknownColumnError, match=r"no column 'z'.*write\.merge-schema=true"):
        table.append({"id": [1], "z": [1]})
    with pytest.raises(SchemaError, match=r"no field 'b'.*write\.merge-schema=true"):
        table.append(pa.table({"id": [1], "s": [{"a": 1, "b": 1}]}))
    with pytest.raises(UnknownColumnError, match=r"did you mean id\?; write\.merge-schema"):
        table.append({"idd": [1]})
    assert table.snapshots.latest() is None and len(table.schema.fields) == 2


def test_new_columns_come_at_any_depth_and_what_columns_say_stays(tmp_path: Path) -> None:
    table = pp.Table.create(
        tmp_path / "t", "id INT, s ROW<a INT>, l ARRAY<ROW<a INT>>, m MAP<STRING, ROW<a INT>>", comment="all of it"
    )
    table.alter(column_defaults={"id": "7"}, column_comments={"id": "the number", "s.a": "inner"})
    row = {"s": {"a": 1, "b": [True]}, "l": [{"c": "x", "a": 2}], "m": {"k": {"d": 1.5, "a": None}}, "n": None}
    table.append([{**row, "new.one": b"x"}], options=MERGE)
    assert _types(table) == {
        "id": "INT",
        "s": "ROW<a INT, b ARRAY<BOOLEAN>>",
        "l": "ARRAY<ROW<a INT, c STRING>>",
        "m": "MAP<STRING, ROW<a INT, d DOUBLE>>",
        "new.one": "BYTES",
    }
    first, second = table.schema.fields[:2]
    assert (first.default, first.description, table.schema.comment) == ("7", "the number", "all of it")
    assert second.type.fields[0].description == "inner"  # type: ignore[attr-defined]
    assert table.to_arrow().to_pylist() == [
        {"id": 7, "s": {"a": 1, "b": [True]}, "l": [{"a": 2, "c": "x"}], "m": [("k", {"a": None, "d": 1.5})],
         "new.one": b"x"}
    ]  # fmt: skip
    before = table.schema.id
    table.append(pa.table({"ID": [1], "n": pa.nulls(1)}), options=MERGE)  # a name in other case, and NULL alone
    table.append({"id": [2]}, options=MERGE)
    assert table.schema.id == before and table.count() == 3
    with pytest.raises(SchemaError, match="NULL alone has no type"):
        table.append({"id": [1], "e": [[]]}, options=MERGE)


@pytest.mark.parametrize(
    ("old", "values", "widened", "cast"),
    [
        ("INT", pa.array([2**40]), "BIGINT", "BIGINT"),
        ("BIGINT", pa.array([1], pa.int32()), "BIGINT", "INT"),
        ("SMALLINT", pa.array([1.5]), "DOUBLE", "DOUBLE"),
        ("INT", pa.array([1.0], pa.float32()), None, "FLOAT"),
        ("BIGINT", pa.array([1.5]), None, "DOUBLE"),
        ("FLOAT", pa.array([1e300]), "DOUBLE", "DOUBLE"),
        ("DECIMAL(5, 2)", pa.array([1], pa.decimal128(9, 3)), "DECIMAL(9, 3)", "DECIMAL(9, 3)"),
        ("DECIMAL(5, 2)", pa.array([1], pa.decimal128(9, 0)), "DECIMAL(5, 2)", "DECIMAL(9, 0)"),
        ("INT", pa.array([1], pa.decimal128(12, 2)), "DECIMAL(12, 2)", "DECIMAL(12, 2)"),
        ("VARCHAR(3)", pa.array(["longer"]), "STRING", "STRING"),
        ("VARBINARY(3)", pa.array([b"longer"]), "BYTES", "BYTES"),
        ("TIMESTAMP(3)", pa.array([1], pa.timestamp("us")), "TIMESTAMP(6)", "TIMESTAMP(6)"),
        ("TIMESTAMP(6)", pa.array([1], pa.date32()), "TIMESTAMP(6)", "DATE"),
        ("STRING", pa.array([1]), None, "BIGINT"),
        ("INT", pa.array(["x"]), None, "STRING"),
        ("ARRAY<INT>", pa.array([[2**40]]), "ARRAY<BIGINT>", "ARRAY<BIGINT>"),
        ("MAP<INT, ROW<a INT>>", pa.array([[(1, {"a": 2**40})]], pa.map_(pa.int32(), pa.struct({"a": pa.int64()}))),
         "MAP<INT, ROW<a BIGINT>>", "MAP<INT, ROW<a BIGINT>>"),
        ("INT", pa.array([[1]]), None, None),
    ],
)  # fmt: skip
def test_types_widen_where_no_old_value_changes(
    tmp_path: Path, old: str, values: pa.Array, widened: str | None, cast: str | None
) -> None:
    rows = pa.table({"c": values})
    for options, wanted in ((MERGE, None), (WIDEN, widened), (CAST, cast)):
        table = pp.Table.create(tmp_path / str(len(options)), {"c": old})
        if wanted is not None:
            table.append(rows, options=options)
            assert table.to_arrow()["c"].to_pylist() == values.cast(table.arrow_schema.field("c").type).to_pylist()
        elif options is not MERGE:
            with pytest.raises(SchemaError):
                table.append(rows, options=options)
        assert _types(table) == {"c": wanted or old}


def test_columns_that_place_rows_keep_their_types_and_pandas_its_integers(tmp_path: Path) -> None:
    import pandas as pd

    table = pp.Table.create(tmp_path / "t", "p INT, id INT, n INT", ["p", "id"], ["p"], {"bucket": "2"})
    table.append(pa.table({"p": [1], "id": [1], "n": [2**40]}), options=WIDEN)
    assert _types(table) == {"p": "INT NOT NULL", "id": "INT NOT NULL", "n": "BIGINT"}
    with pytest.raises(SchemaError, match="1099511627776 does not fit column 'id'"):
        table.append(pa.table({"p": [1], "id": [2**40]}), options=WIDEN)
    table.append(pd.DataFrame({"p": [1, 1], "id": [2, 3], "n": [1.0, None]}), options=WIDEN)
    assert _types(table)["n"] == "BIGINT" and table.count() == 3


@pytest.mark.parametrize("stored", [False, True])
def test_kinds_of_rows_are_no_column(tmp_path: Path, stored: bool) -> None:
    kinds = {"rowkind-column": "kind", **MERGE}
    table = pp.Table.create(tmp_path / "t", "id INT", ["id"], options={"bucket": "1", **(kinds if stored else {})})
    table.append({"id": [1, 2], "kind": ["+I", "+I"], "c": [1, 2]}, options={} if stored else kinds)
    table.append({"id": [1], "kind": ["-D"], "c": [1]}, options={} if stored else kinds)
    assert table.to_arrow().to_pylist() == [{"id": 2, "c": 2}]


def test_every_write_of_python_brings_columns(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT, n INT DEFAULT 5", options={"write.merge-schema": "true"})
    table.overwrite([{"id": 1, "a": 1}])
    table.merge([{"id": 1, "b": 1}, {"id": 2, "b": 2}], "id", when_matched="update", when_not_matched="insert")
    table.merge([{"id": 2, "c": 3, "hidden": 1}], "id", when_matched=pp.Update({"c": "source.c"}))
    with table.stream_writer("s") as stream:
        stream.write({"id": [3]})
        with pytest.raises(UnknownColumnError, match="new columns begin with a commit's first rows"):
            stream.write({"id": [4], "d": [1]})
        stream.abort()
        stream.write({"id": [3], "d": [4]})
        stream.commit(1)
    found = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "n": 5, "a": 1, "b": 1, "c": None, "d": None},
        {"id": 2, "n": 5, "a": None, "b": 2, "c": 3, "d": None},
        {"id": 3, "n": 5, "a": None, "b": None, "c": None, "d": 4},
    ]
    parts = [pa.table({"id": [5]}), pa.table({"id": [6], "e": [1]})]
    with pytest.raises(UnknownColumnError, match="a later part has column 'e'"):
        table.append(iter(parts))
    table.append(parts)
    assert table.to_arrow().filter(pa.compute.field("id") == 6)["e"].to_pylist() == [1]


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keys"])
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_random_columns_come_widen_and_go(tmp_path: Path, oracle: Oracle, format: str, keyed: bool) -> None:
    for seed in sampled(range(SEED, SEED + 40), 1):
        world = GrowingWorld(seed, tmp_path / "w" / "db.db" / f"t{seed}", format, keyed)
        for _ in range(40 if LONG else 7):
            world.step()
            world.check()
            if LONG:
                java_reads_the_same(world.table, oracle)
        java_reads_the_same(world.table, oracle)


def java_reads_the_same(table: pp.Table, oracle: Oracle) -> None:
    path = Path(table.path)
    with oracle.batch() as batch:
        read = batch.read(path.parents[1], f"db.{path.name}")
    assert read.lines == lines(table.to_arrow()), table.path


# ------------------------------------------------------------------------------------------------------------- writers


def test_another_writer_that_is_faster_adds_the_same_and_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT")
    create, others = TableStore.try_create_schema, [{"id": [1], "c": [1]}, {"id": [2], "d": ["x"], "other": [1]}]

    def late(self: TableStore, schema: Any) -> bool:
        if others:
            pp.Table.open(tmp_path / "t").append(others.pop(0), options=MERGE)
        return create(self, schema)

    monkeypatch.setattr(TableStore, "try_create_schema", late)
    table.append({"id": [3], "c": [3], "d": ["y"]}, options=MERGE)
    assert sorted(_types(table)) == ["c", "d", "id", "other"]
    assert {row["id"]: row["c"] for row in table.to_arrow().to_pylist()} == {1: 1, 2: None, 3: 3}
    others.append({"id": [4], "e": ["text"]})
    with pytest.raises(SchemaError, match="column e is int64 in the data and STRING"):
        table.append({"id": [5], "e": [1]}, options=MERGE)


def _write(path: str, number: int, say: Connection) -> None:
    table, done = pp.Table.open(path), 0
    for step in range(3):
        rows = {"id": [number * 10 + step], f"own{number}_{step % 2}": [step], f"all{step}": [number]}
        try:
            table.append(rows, options=MERGE)
            done += 1
        except CommitConflictError:
            pass
    say.send(done)


def test_four_writers_at_once(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT", options={"commit.max-retries": "100"})
    assert at_once(_write, [(str(tmp_path / "t"), number) for number in range(4)]) == [3] * 4
    rows = table.to_arrow().to_pylist()
    assert len(rows) == 12 and len(table.schema.fields) == 1 + 8 + 3
    ids = [field.id for field in table.schema.fields]
    assert len(set(ids)) == len(ids)
    for row in rows:
        number, step = divmod(row["id"], 10)
        wanted = {"id": row["id"], f"own{number}_{step % 2}": step, f"all{step}": number}
        assert {name: value for name, value in row.items() if value is not None} == wanted
