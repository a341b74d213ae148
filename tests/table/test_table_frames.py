"""Rows from other libraries, and rows for them: Arrow's interfaces, pandas, polars, DuckDB, dictionaries."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.errors import AlreadyExistsError, ArgumentTypeError, OptionError, SchemaError, UnsupportedError
from paimon_pyds.storage.local import LocalFileIO

ROWS = [{"id": 1, "s": "a"}, {"id": 2, "s": None}, {"id": 3, "s": "c"}]
TABLE = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["a", None, "c"]})


class Stream:
    """What only has Arrow's stream interface, as a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.to_reader().__arrow_c_stream__(requested_schema)


class Array:
    """What only has Arrow's array interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


def _pandas() -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"id": [1, 9, 2, 3], "s": ["a", "x", None, "c"]})[lambda f: f["id"] != 9]


def _indexed() -> Any:
    return _pandas().set_index("id")


def _polars() -> Any:
    return pytest.importorskip("polars").DataFrame(ROWS)


FORMS: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "reader": TABLE.to_reader,
    "stream": Stream,
    "array": Array,
    "columns": lambda: {"id": [1, 2, 3], "s": ["a", None, "c"]},
    "rows": lambda: ROWS,
    "rows that lack a name": lambda: [{"id": 1, "s": "a"}, {"id": 2}, {"s": "c", "id": 3}],
    "rows that gain a name": lambda: [{"id": 2}, {"id": 1, "s": "a"}, {"id": 3, "s": "c"}],
    "generated rows": lambda: iter(ROWS),
    "generated parts": lambda: iter([*TABLE.slice(0, 1).to_batches(), ROWS[1], ROWS[2:]]),
    "pandas": _pandas,
    "pandas with an index": _indexed,
    "polars": _polars,
    "lazy polars": lambda: _polars().lazy(),
}


def _sorted(table: pp.Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("form", FORMS)
def test_every_call_takes_every_form(tmp_path: Path, form: str) -> None:
    data = FORMS[form]
    table = pp.Table.create(tmp_path / "t", data())
    assert _sorted(table) == ROWS
    table.overwrite(data())
    assert _sorted(table) == ROWS
    table.append(data())
    assert table.count() == 6
    table.delete("TRUE")
    table.merge(data(), on="id", when_matched="update", when_not_matched="insert")
    assert _sorted(table) == ROWS
    table.merge(data(), on=" ID ", when_matched="delete")
    assert table.count() == 0


def test_lookup_takes_frames_as_keys(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", ROWS, primary_key=["id"], options={"bucket": "1"})
    keys = _pandas()[["id"]].iloc[1:]
    for given in ({"id": [2, 3]}, keys, keys.set_index("id"), [{"id": 2}, {"id": 3}]):
        assert table.lookup(given).to_pylist() == ROWS[1:]


def test_lookup_takes_values_alone(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", ROWS, primary_key=["id"], options={"bucket": "1"})
    for one in (2, {"id": 2}, np.int64(2)):
        assert table.lookup(one).to_pylist() == ROWS[1:2]
    arrays: list[Any] = [pa.array([2, 3]), pa.chunked_array([[2], [3]]), np.array([2, 3]), _pandas()["id"].iloc[1:]]
    for given in ([2, 3], (2, 3), {2, 3}, range(2, 4), [(2,), (3,)], *arrays):
        assert sorted(table.lookup(given)["id"].to_pylist()) == [2, 3]
    texts = pp.Table.create(tmp_path / "s", {"s": ["a", "b"]}, primary_key="s", options={"bucket": "1"})
    assert texts.lookup("b").to_pylist() == [{"s": "b"}]
    both = pp.Table.create(tmp_path / "b", ROWS[::2], primary_key=["s", "id"], options={"bucket": "1"})
    for keys in (("c", 3), [("c", 3)], [["c", 3]], {"s": "c", "id": 3}):
        assert both.lookup(keys)["id"].to_pylist() == [3]
    for wrong in (3, [3], [("c", 3, 3)]):
        with pytest.raises(SchemaError, match=r"a key of this table is \(s, id\) — give \[\{'s': …, 'id': …\}\]"):
            both.lookup(wrong)


@pytest.mark.parametrize("kind", ["Categorical", "Enum"])
def test_categories_of_polars(tmp_path: Path, kind: str) -> None:
    pl = pytest.importorskip("polars")
    type_ = pl.Categorical if kind == "Categorical" else pl.Enum(["a", "b", "c"])
    frame = pl.DataFrame({"id": [1, 2, 3], "s": ["a", None, "b"]}, schema_overrides={"s": type_})
    frame = frame.with_columns(pl.struct("s").alias("r"), pl.concat_list("s", "s").alias("l"))
    rows = frame.to_dicts()
    table = pp.Table.create(tmp_path / "t", frame)
    assert table.arrow_schema.field("s").type == pa.string()
    assert _sorted(table) == rows
    table.append(pl.concat([frame[2:], frame[:2]], rechunk=False).lazy())
    assert table.count() == 6
    table.overwrite(frame)
    assert _sorted(table) == rows
    changed = pa.concat_tables(part.to_arrow() for part in (frame[:1], frame[1:].with_columns(s=pl.lit("c", type_))))
    assert table.merge(changed, on="id", when_matched="update", when_not_matched="insert").rows_updated == 3
    assert [row["s"] for row in _sorted(table)] == ["a", "c", "c"]
    assert table.merge(frame, on="s", when_matched="delete").rows_deleted == 1
    keyed = pp.Table.create(tmp_path / "k", frame.select("s", "id").drop_nulls(), primary_key="s")
    assert keyed.lookup(frame.select("s").drop_nulls()).num_rows == 2


def test_a_table_whose_first_rows_fail_is_taken_away_again(tmp_path: Path) -> None:
    path, parts = tmp_path / "new" / "t", [pa.table({"id": [1]}), pa.table({"id": ["x"]})]
    with pytest.raises(SchemaError, match="column id is string in the data and BIGINT"):
        pp.Table.create(path, iter(parts))
    assert not path.exists()
    with pytest.raises(SchemaError, match="NOT NULL"):
        pp.Table.create(path, {"id": [1, None]}, primary_key="id")
    assert pp.Table.create(path, parts[:1]).count() == 1

    def written_by_another(after: str) -> Any:
        yield parts[0]
        if after == "commit":
            pp.Table.open(tmp_path / after).append({"id": [7]})
        else:
            (tmp_path / after / "bucket-0").mkdir(exist_ok=True)
            (tmp_path / after / "bucket-0" / "data-of-another.parquet").touch()
        yield parts[1]

    for after, rows in (("commit", 1), ("file", 0)):
        with pytest.raises(SchemaError, match="column id is string"):
            pp.Table.create(tmp_path / after, written_by_another(after))
        assert pp.Table.open(tmp_path / after).count() == rows
    with pytest.raises(AlreadyExistsError):
        pp.Table.create(path, iter(parts))
    assert pp.Table.open(path).count() == 1


def test_a_table_is_no_array_of_batches(tmp_path: Path) -> None:
    """pandas made a column of batches of it, each an object."""
    pd = pytest.importorskip("pandas")
    table = pp.Table.create(tmp_path / "t", TABLE)
    for rows in (table, table.scan("id > 0")):
        for made in (pd.DataFrame, np.asarray, np.array):
            with pytest.raises(ArgumentTypeError, match=r"itself — write to_pandas\(\), or to_arrow\(\)"):
                made(rows)
        assert np.asarray(rows, object)[()] is rows and pd.Series([rows, rows])[1] is rows
        assert pd.DataFrame({"rows": [rows]}).loc[0, "rows"] is rows
        assert [type(batch) for batch in rows] == [pa.RecordBatch]
        assert pa.table(rows).num_rows == rows.to_pandas().shape[0]
    other = pp.Table.create(tmp_path / "u", table.scan("id > 0"))
    assert other.count() == table.count("id > 0")


def test_an_overwrite_by_no_rows_looks_at_columns(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", TABLE)
    pd = pytest.importorskip("pandas")
    for data in ({}, [], iter(()), pd.DataFrame(), pa.table({})):
        with pytest.raises(SchemaError, match=r"the data has no columns.*table\.truncate"):
            table.overwrite(data)
    for data in ({"zz": []}, pd.DataFrame({"zz": []}), pa.table({"id": [], "zz": []}).to_reader()):
        with pytest.raises(SchemaError, match="the table has no column 'zz'"):
            table.overwrite(data)
    assert table.count() == 3
    table.overwrite(pd.DataFrame({"ID": []}))
    assert table.count() == 0
    parts = pp.Table.create(tmp_path / "p", TABLE, partition_by="s")
    assert parts.overwrite([], dynamic=True) is None
    assert parts.count() == 3


def test_no_rows_have_columns(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    empty = polars.DataFrame(schema={"id": polars.Int64, "s": polars.String})
    table = pp.Table.create(tmp_path / "t", empty.lazy())
    assert table.arrow_schema == TABLE.schema
    assert table.snapshots.latest() is None
    table.append(ROWS)
    for source in (empty, empty.lazy(), TABLE.slice(0, 0), TABLE.slice(0, 0).to_reader()):
        table.merge(source, on="id", when_matched="delete")
        assert table.count() == 3
    with pytest.raises(SchemaError, match="no rows and no columns"):
        table.merge([], on="id", when_matched="delete")
    with pytest.raises(SchemaError, match="no rows and no columns"):
        pp.Table.create(tmp_path / "u", iter(()))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (5, r"can't take rows from int — give a pandas or polars DataFrame, a pyarrow Table, .*DuckDB.*dictionar"),
        ("a.csv", "can't take rows from str"),
        ([1, 2], "can't take rows from int"),
        (pa.chunked_array([[1, 2]]), "can't take rows from ChunkedArray"),
        ({"id": 1, "s": "abc"}, "a dictionary holds columns, and 'id' is of int.*list of dictionaries for rows"),
        ({"id": [1], "s": "a"}, "a dictionary holds columns, and 's' is of str"),
        ({"id": [1, 2], "s": ["a"]}, "different numbers of values: id 2, s 1"),
        ({"id": [1, "x"], "s": ["a", "b"]}, "'x' does not fit column 'id', .*, first in row 2 of the data"),
        ([{"id": 1}, {"id": "x"}], "^'x' does not fit column 'id', .*, first in row 2 of the data"),
        (lambda pd: pd.DataFrame({"id": [1, "x"]}, index=[2, 1]), "^'x' does not fit column 'id'.* row 2 of the data"),
        (lambda pd: pd.DataFrame([[1, "a"]], columns=["id", "id"]), r"two columns have the same name: \['id'\]"),
        ([{"id": 1}, {"id": 2, "other": 3}], "the table has no column 'other'"),
        ([{"0": 1, "1": "a"}], "the table has no columns '0', '1'"),
    ],
)
def test_what_is_no_data_is_refused(tmp_path: Path, data: Any, message: str) -> None:
    if callable(data):
        data = data(pytest.importorskip("pandas"))
    table = pp.Table.create(tmp_path / "t", TABLE.schema)
    with pytest.raises(SchemaError, match=message):
        table.append(data)
    assert table.snapshots.latest() is None
    if " row 2 " in message:  # without the table's types, which a MERGE does not insist on
        with pytest.raises(SchemaError, match=r"^column 'id': .*, first in row 2 of the data"):
            pp.Table.create(tmp_path / "u", data)
        with pytest.raises(SchemaError, match=r"^column 'id': .*, first in row 2 of the data"):
            table.merge(data, on="id", when_matched="delete")


DAY, NOON = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 12)
AWARE = NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([DAY, NOON], "a time of day among dates"),
        ([NOON, AWARE], "times with and without a time zone"),
        ([None, AWARE, NOON], "times with and without a time zone"),
        ([[DAY], [DAY, NOON]], "a time of day among dates"),
        ([{"x": 1, "y": NOON}, {"y": AWARE}], "times with and without a time zone"),
        ([dt.time(1), dt.time(1, tzinfo=dt.UTC)], "a time of day with a time zone"),
    ],
)
def test_what_arrow_would_change_in_python_values_is_refused(tmp_path: Path, values: list[Any], message: str) -> None:
    pd = pytest.importorskip("pandas")
    row = len(values)
    for data in ([{"id": v} for v in values], {"id": values}, pd.DataFrame({"id": pd.Series(values, dtype=object)})):
        with pytest.raises(SchemaError, match=f"column 'id': {message}, first in row {row} of the data"):
            pp.Table.create(tmp_path / "t", data)
        assert not (tmp_path / "t").exists()


def test_python_values_that_arrow_keeps(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    values = {
        "d": [DAY, None],
        "m": [None, NOON],
        "z": [AWARE, AWARE],
        "l": [[DAY, None], []],
        "r": [{"x": NOON}, None],
    }
    frame = pd.DataFrame({"d": pd.Series([DAY, pd.NaT], dtype=object), "m": pd.Series([pd.NaT, NOON], dtype=object)})
    table = pp.Table.create(tmp_path / "t", values)
    table.append(frame)
    assert table.to_arrow().select(["d", "m"]).slice(2).equals(table.to_arrow().select(["d", "m"]).slice(0, 2))
    assert table.to_arrow()["z"].to_pylist()[:2] == [AWARE, AWARE]


def test_objects_that_are_no_values_are_told(tmp_path: Path) -> None:
    pd, np, pl = (pytest.importorskip(name) for name in ("pandas", "numpy", "polars"))
    precise = pd.Timestamp("2024-01-01 00:00:00.000000001")
    sparse = pd.DataFrame({"id": pd.arrays.SparseArray([0, 1])})
    for data, message in (
        ([{"id": pd.Timestamp("2024-01-01")}, {"id": pd.NaT}], "no value of type NaTType.* row 2.*None for NULL"),
        ([{"id": 1}, {"id": pd.NA}], "no value of type NAType.* row 2.*None for NULL"),
        ([{"id": np.datetime64("2024-01-01")}], "no value of type datetime64.* row 1"),
        ([{"id": NOON}, {"id": precise}], "nanoseconds.* row 2"),
        ({"id": np.array(1)}, "'id' is of ndarray, not a list of values"),
        ({"id": np.array([1 + 2j])}, "complex128"),
        (sparse, "[Ss]parse"),
        (pl.DataFrame({"id": pl.Series([object()], dtype=pl.Object)}), "column 'id' is of polars' Object.*cast it"),
        (pl.LazyFrame({"id": pl.Series([object()], dtype=pl.Object)}), "column 'id' is of polars' Object.*cast it"),
        ([{"m": [("k", 1)]}], r"column 'm': .* row 1 .*pairs of a MAP come with their type: pa\.array"),
        ({1: [1], "1": [2]}, "two columns have the same name: '1'"),
        ([{"id": 1, None: ["x"]}], "a column has no name"),
        ({"id": [1], "n": [None]}, "column 'n' has no value, which leaves its type open"),
        (pa.table({"n": pa.array([dt.timedelta(1)])}), r"column 'n': Paimon has no type for Arrow's duration"),
    ):
        with pytest.raises(SchemaError, match=message):
            pp.Table.create(tmp_path / "t", data)
        assert not (tmp_path / "t").exists()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    made = pp.Table.create(tmp_path_factory.mktemp("frames") / "t", TABLE)
    made.append([{"id": 4, "s": "d"}])
    return made


EVERYTHING = [*ROWS, {"id": 4, "s": "d"}]


def test_arrow_reads_tables_and_scans(table: pp.Table) -> None:
    assert pa.table(table).to_pylist() == EVERYTHING
    assert pa.table(table.scan("id > 2", columns=["s"])).to_pylist() == [{"s": "c"}, {"s": "d"}]
    assert pa.table(table.scan("id > 9")).schema == TABLE.schema
    reader = pa.RecordBatchReader.from_stream(table.scan())
    assert [batch.num_rows for batch in reader] == [3, 1]
    for batches in (table, table.scan()):
        assert [row for batch in batches for row in batch.to_pylist()] == EVERYTHING


def test_a_scan_is_data(table: pp.Table, tmp_path: Path) -> None:
    copy = pp.Table.create(tmp_path / "copy", table)
    copy.append(table.scan("id = 4"))
    assert _sorted(copy) == [*EVERYTHING, EVERYTHING[-1]]


def test_what_pandas_was_given_can_be_appended_again(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    moment = dt.datetime(2020, 1, 2, 3, 4, 5, 123_456)
    values: dict[str, list[Any]] = {
        "BOOLEAN": [True, None], "TINYINT": [-128, None], "INT": [2**31 - 1, None], "BIGINT": [2**53 - 1, None],
        "FLOAT": [0.5, None], "DOUBLE": [0.1, None], "DECIMAL(20, 3)": [Decimal("-12345678901234567.890"), None],
        "STRING": ["", None], "CHAR(3)": ["abc", None], "BYTES": [b"", None], "BINARY(2)": [b"\0a", None],
        "DATE": [dt.date(9999, 12, 31), None], "TIME(3)": [dt.time(1, 2, 3, 456_000), None],
        "TIMESTAMP(3)": [moment.replace(microsecond=123_000), None], "TIMESTAMP(6)": [moment, None],
        "TIMESTAMP(9)": [pa.scalar(1, pa.timestamp("ns")).as_py(), None],
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": [moment.replace(tzinfo=dt.UTC), None],
        "ARRAY<INT>": [[1, None], None], "ROW<x INT, y DATE>": [{"x": None, "y": dt.date(2020, 1, 1)}, None],
        "SMALLINT": [None, None],
    }  # fmt: skip
    table = pp.Table.create(tmp_path / "t", parse_columns(", ".join(f"c{i} {name}" for i, name in enumerate(values))))
    names = [field.name for field in table.schema.fields]
    rows = pa.table(dict(zip(names, values.values(), strict=True)), schema=_nullable(table.arrow_schema))
    table.append(rows)
    frame = table.to_pandas()
    assert str(frame["c1"].dtype) == "float64"
    table.append(frame)
    table.overwrite(table.to_pandas())
    found = table.scan().to_arrow()
    assert found.slice(0, 2).equals(found.slice(2)) and found.slice(2).to_pylist() == rows.to_pylist()


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def test_a_table_is_taken_as_its_scan_is(table: pp.Table) -> None:
    assert table.to_arrow().to_pylist() == EVERYTHING
    assert table.to_reader().read_all().to_pylist() == EVERYTHING
    assert [row for batch in table.to_batches() for row in batch.to_pylist()] == EVERYTHING
    pl = pytest.importorskip("polars")
    assert table.scan_polars().filter(pl.col("id") > 3).collect().to_dicts() == EVERYTHING[3:]


def test_pandas_frames(table: pp.Table) -> None:
    pd = pytest.importorskip("pandas")
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    assert frame["id"].tolist() == [1, 2, 3, 4]
    assert table.scan("id > 2").to_pandas()["s"].tolist() == ["c", "d"]


def test_polars_frames(table: pp.Table) -> None:
    pl = pytest.importorskip("polars")
    assert table.to_polars().to_dicts() == EVERYTHING
    assert pl.DataFrame(table.scan("id > 3")).to_dicts() == EVERYTHING[3:]
    assert table.scan("id > 9").to_polars().columns == ["id", "s"]


def test_duckdb_gets_a_stream_or_says_what_to_install(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    class Connection:
        def from_arrow(self, rows: Any) -> list[list[dict[str, Any]]]:
            # A relation reads them each time it is asked.
            return [rows.scanner().to_reader().read_all().to_pylist() for _ in range(2)]

    assert table.scan("id > 3").to_duckdb(Connection()) == [EVERYTHING[3:]] * 2
    assert table.to_duckdb(Connection()) == [EVERYTHING] * 2
    with pytest.raises(
        ArgumentTypeError, match=r"a connection of DuckDB, not 'x.db' \(str\) — such as duckdb.connect\("
    ):
        table.to_duckdb("x.db")
    for name in ("duckdb", "pandas", "polars", "torch", "daft", "ray"):
        monkeypatch.setitem(sys.modules, name, None)
        wanted = r"'ray\[data\]'" if name == "ray" else name
        with pytest.raises(UnsupportedError, match=f"{name} is not installed — pip install {wanted}"):
            getattr(table.scan(), f"to_{name}")()


def test_duckdb_reads_scans_and_gives_rows(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = pp.Table.create(tmp_path / "t", EVERYTHING)
    with duckdb.connect() as connection:
        scan = table.scan("id > 2")  # noqa: F841 - DuckDB finds it by its name
        assert connection.sql("SELECT max(id), count(*) FROM scan").fetchall() == [(4, 2)]
        assert connection.sql("SELECT sum(id) FROM 'table' WHERE id < 3").fetchall() == [(3,)]
        relation = table.to_duckdb(connection)
        assert relation.filter("id = 4").fetchall() == [(4, "d")]
        table.append(connection.sql("SELECT 5::BIGINT AS id, 'e' AS s UNION ALL SELECT 6, NULL"))
        assert "varchar" in str(relation) and relation.count("*").fetchall() == [(4,)]  # of the same snapshot
        changes = connection.sql("SELECT 5 AS id, 'f' AS s UNION ALL SELECT 7, 'g' ORDER BY id")
        table.merge(changes, on="id", when_matched="update", when_not_matched="insert")
    assert sorted(row["id"] for row in _sorted(table)) == [1, 2, 3, 4, 5, 6, 7]
    assert table.scan("id = 5").to_arrow()["s"].to_pylist() == ["f"]


@pytest.fixture
def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch where it is installed; else numpy's arrays are the tensors."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        stand_in = ModuleType("torch")
        stand_in.from_numpy = lambda values: values  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torch", stand_in)


@pytest.mark.usefixtures("_torch")
def test_tensors(tmp_path: Path) -> None:
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 0.0]], pa.list_(pa.float32()))
    values = {"id": [1, 2, 3, 4, 5], "x": [0.5, None, 1.5, 2.5, 3.5], "ok": [True, False, True, False, True]}
    table = pp.Table.create(tmp_path / "t", pa.table({**values, "v": vectors}).slice(0, 3))
    table.append(pa.table({**values, "v": vectors}).slice(3))
    found = list(table.scan().to_torch(2))
    assert [batch["id"].tolist() for batch in found] == [[1, 2], [3, 4], [5]]
    assert [str(found[0][name].dtype).split(".")[-1] for name in ("id", "x", "ok", "v")] == [
        "int64", "float64", "bool", "float32",
    ]  # fmt: skip
    assert found[0]["x"].tolist()[0] == 0.5 and math.isnan(found[0]["x"].tolist()[1])
    assert found[0]["ok"].tolist() == [True, False]
    assert tuple(found[0]["v"].shape) == (2, 2) and found[1]["v"].tolist() == [[5.0, 6.0], [7.0, 8.0]]
    found[0]["id"][0] = 7  # it can be written to
    assert [batch["id"].tolist() for batch in table.scan().to_torch()] == [[1, 2, 3], [4, 5]]
    assert [batch["id"].tolist() for batch in table.scan().to_torch(99)] == [[1, 2, 3, 4, 5]]
    assert list(table.scan("id > 9").to_torch()) == []


@pytest.mark.usefixtures("_torch")
def test_what_no_tensor_holds_is_refused(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", ROWS)
    with pytest.raises(UnsupportedError, match=r"column 's' is of type string.* — leave it out by columns="):
        table.scan().to_torch()
    with pytest.raises(OptionError, match="batch_rows must be at least 1, it is 0"):
        table.scan(columns=["id"]).to_torch(0)
    table.append({"id": [None], "s": ["d"]})
    with pytest.raises(UnsupportedError, match=r"column 'id' has NULL.* — filter by id IS NOT NULL"):
        list(table.scan(columns=["id"]).to_torch(3))
    lists = pp.Table.create(tmp_path / "lists", {"v": [[1, 2], [3]]})
    with pytest.raises(UnsupportedError, match="arrays of several lengths"):
        list(lists.scan().to_torch())
    assert [batch["v"].tolist() for batch in lists.scan().to_torch(1)] == [[[1, 2]], [[3]]]


def test_head_reads_the_files_it_needs(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    for name in ("read_bytes", "read_range", "read_ranges", "open_input"):
        read = getattr(LocalFileIO, name)
        monkeypatch.setattr(
            LocalFileIO, name, lambda io, path, *rest, read=read: (opened.append(path), read(io, path, *rest))[1]
        )

    def data_files_of(rows: int) -> int:
        opened.clear()
        assert table.head(rows).to_pylist() == EVERYTHING[:rows]
        return len({path for path in opened if "/data-" in path})

    assert [data_files_of(rows) for rows in (0, 2, 3, 4, 9)] == [0, 1, 1, 2, 2]
    assert table.head().to_pylist() == EVERYTHING
    assert table.scan(limit=1).head(3).to_pylist() == ROWS[:1]
    assert table.scan(limit=3).head(1).to_pylist() == ROWS[:1]
    assert table.scan(top_n="id desc, 3").head(2).to_pylist() == EVERYTHING[:1:-1]
    assert table.head(0).schema == TABLE.schema
    with pytest.raises(OptionError, match="n must not be negative"):
        table.head(-1)
    with pytest.raises(ArgumentTypeError, match="n takes an integer"):
        table.head("2")  # type: ignore[arg-type]


def test_no_other_library_is_imported_before_it_is_asked_for(table: pp.Table) -> None:
    script = (
        "import sys, paimon_pyds as pp; t = pp.Table.open(sys.argv[1]); t.head(1); [b for b in t.scan()]\n"
        "assert not {'polars', 'duckdb'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, table.path], check=True)
