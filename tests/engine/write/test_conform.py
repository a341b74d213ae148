"""Incoming data is matched by name, cast where nothing is lost, and refused with one clear error otherwise."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.engine.write.conform import Conformer
from paimon_pyds.errors import ExpressionError, SchemaError

MIDNIGHT, NOON = dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 2, 12)


def _table(tmp_path: Path, **columns: str) -> pp.Table:
    fields = [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(columns.items())]
    return pp.Table.create(tmp_path / "t", fields)


@pytest.mark.parametrize(
    ("type_", "values", "arrow"),
    [
        ("TINYINT", [1, None], pa.int64()),
        ("BIGINT", [1, None], pa.int8()),
        ("DOUBLE", [1.5, None], pa.float32()),
        ("DECIMAL(10, 2)", [Decimal("1.5"), None], pa.decimal128(4, 1)),
        ("STRING", ["x", None], pa.large_string()),
        ("STRING", ["x", None], pa.dictionary(pa.int8(), pa.string())),
        ("BYTES", [b"x", None], pa.binary(1)),
        ("INT", [None, None], pa.null()),
        ("TIME(6)", [dt.time(23, 59, 59, 999_000), None], pa.time64("us")),
        ("TIME(9)", [dt.time(1), None], pa.time64("ns")),
        ("FLOAT", [0.5, -math.inf, None], pa.float64()),
        ("BIGINT", [2**63 - 1, None], pa.uint64()),
        ("DECIMAL(10, 2)", [12_345_678, -2, None], pa.int32()),
        ("DECIMAL(38, 10)", [2**64 - 1, None], pa.uint64()),
        ("DECIMAL(5, 4)", [Decimal("1.00"), None], pa.decimal128(30, 2)),
    ],
)
def test_casts_that_lose_nothing(tmp_path: Path, type_: str, values: list[object], arrow: pa.DataType) -> None:
    table = _table(tmp_path, c=type_)
    table.append(pa.table({"c": pa.array(values, arrow)}))
    assert table.scan().to_arrow()["c"].to_pylist() == values


@pytest.mark.parametrize(
    ("type_", "given", "stored"),
    [
        ("DATE", pa.array([MIDNIGHT, None], pa.timestamp("ns")), MIDNIGHT.date()),
        ("TIMESTAMP(0)", pa.array([MIDNIGHT.date(), None]), MIDNIGHT),
        ("FLOAT", pa.array([Decimal("1.555"), None]), pa.scalar(1.555, pa.float32()).as_py()),
        ("DOUBLE", pa.array([Decimal("1234567.12345678"), None]), 1234567.12345678),
        ("DOUBLE", pa.array([Decimal("1.5"), None], pa.decimal256(60, 1)), 1.5),
    ],
)
def test_types_that_go_into_others(tmp_path: Path, type_: str, given: pa.Array, stored: object) -> None:
    table = _table(tmp_path, c=type_)
    table.append({"c": given})
    assert table.scan().to_arrow()["c"].to_pylist() == [stored, None]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("TINYINT", pa.array([300])),
        ("DECIMAL(10, 2)", pa.array([100_000_000])),
        ("INT", pa.array([1.5])),
        ("INT", pa.array(["1"])),
        ("STRING", pa.array([1])),
        ("BOOLEAN", pa.array([1])),
        ("DECIMAL(4, 2)", pa.array([Decimal("123.45")])),
        ("TIMESTAMP(3)", pa.array([1], pa.timestamp("us"))),
        ("TIMESTAMP(6)", pa.array([1], pa.timestamp("us", "UTC"))),
        ("VARCHAR(3)", pa.array(["abcd"])),
        ("TIME(6)", pa.array([1_001], pa.time64("us"))),
        ("TIME(9)", pa.array([None, 1_000_001], pa.time64("ns"))),
        ("DATE", pa.array([NOON])),
        ("DATE", pa.array([MIDNIGHT, None], pa.timestamp("us", "UTC"))),
        ("DATE", pa.array([dt.timedelta(days=1)])),
        ("TIME(3)", pa.array([NOON])),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.array([MIDNIGHT.date()])),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.array([MIDNIGHT])),
        ("FLOAT", pa.array([1e39])),
        ("FLOAT", pa.array([2**24 + 1])),
        ("FLOAT", pa.array([Decimal("16777217.0")])),
        ("DOUBLE", pa.array([2**53 + 1])),
        ("DOUBLE", pa.array([Decimal("12345678901234567.89")])),
        ("INT", pa.array([Decimal("1.5")])),
        ("INT", pa.array([math.nan])),
        ("DECIMAL(4, 2)", pa.array([math.inf])),
        ("BIGINT", pa.array([2**63], pa.uint64())),
        ("BINARY(1)", pa.array([b"ab"]).dictionary_encode()),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, type_: str, values: pa.Array) -> None:
    table = _table(tmp_path, c=type_)
    with pytest.raises(SchemaError, match=r"does not fit column 'c'|column c is \w+(\[.*\])? in the data and "):
        table.append(pa.table({"c": values}))
    assert table.snapshots.latest() is None
    assert not list(Path(table.path).rglob("data-*"))


def test_values_within_nested_ones_and_partitions_that_do_not_fit(tmp_path: Path) -> None:
    text = "p DATE, a ARRAY<DATE>, m MAP<VARCHAR(2), FLOAT>, r ROW<c CHAR(1), x ARRAY<INT>>"
    table = pp.Table.create(tmp_path / "t", parse_columns(text), partition_by=["p"])
    row = {"p": [MIDNIGHT] * 2, "a": [[MIDNIGHT], None], "r": [{"c": "a", "x": [1]}, None]}
    keyed = pa.array([[("a", 1.0)], [("b", None)]], pa.map_(pa.string(), pa.float64()))
    table.append({**row, "m": keyed})
    for name, values, message in (
        ("p", [MIDNIGHT, NOON], "datetime.datetime(2020, 1, 2, 12, 0) does not fit column 'p', which is DATE"),
        ("a", [[], [MIDNIGHT, NOON]], "12, 0) does not fit column 'a.element'"),
        ("m", pa.array([None, [("a", 1e39)]], keyed.type), "1e+39 does not fit column 'm.value'"),
        ("m", pa.array([None, [("abc", 1.0)]], keyed.type), "'abc' does not fit column 'm.key', which is VARCHAR(2)"),
        ("r", [{"c": "a", "x": None}, {"c": "ab", "x": []}], "'ab' does not fit column 'r.c', which is CHAR(1)"),
        ("r", [None, {"c": None, "x": [2**40]}], "1099511627776 does not fit column 'r.x.element'"),
    ):
        for write in (table.append, table.overwrite):
            with pytest.raises(SchemaError, match=r"first in row 2 of the data") as caught:
                write({**row, "m": keyed, name: values})
            assert message in str(caught.value)
    assert table.count() == 2


KEYED_ROW = pa.array([[("k", {"x": 1, "z": 2})]], pa.map_("string", pa.struct({"x": "int32", "z": "int32"})))


@pytest.mark.parametrize(
    ("type_", "values", "told"),
    [
        ("ROW<x INT>", [{"x": 1, "z": 2}], "column c of the table has no field 'z'"),
        ("ARRAY<ROW<x INT>>", [[{"x": 1, "w": 1, "z": 2}]], r"\.element of the table has no fields 'w', 'z'"),
        ("ROW<x ROW<y INT>>", [{"x": {"y": 1, "z": 2}}], "column c.x of the table has no field 'z'"),
        ("MAP<STRING, ROW<x INT>>", KEYED_ROW, r"\.value of the table has no field 'z'"),
    ],
)
def test_fields_of_the_data_that_the_table_lacks_are_not_lost(
    tmp_path: Path, type_: str, values: Any, told: str
) -> None:
    table = pp.Table.create(tmp_path / "t", f"k INT, c {type_}")
    for write in (table.append, table.overwrite):
        with pytest.raises(SchemaError, match=told):
            write({"c": values})
    table.append({"k": [1]})
    for clause in ("update", "update set c = source.c"):
        with pytest.raises((SchemaError, ExpressionError), match=told.replace("column c", "(column c|value)")):
            table.merge({"k": [1], "c": values}, "k", when_matched=clause)
    assert table.to_arrow().to_pylist() == [{"k": 1, "c": None}]


def digits(type_: pa.DataType, *unscaled: int) -> pa.Array:
    """Decimals that Arrow has room for, and their type has not, as they come from DuckDB's HUGEINT."""
    data = b"".join(number.to_bytes(16, "little", signed=True) for number in unscaled)
    return pa.Array.from_buffers(type_, len(unscaled), [None, pa.py_buffer(data)])


@pytest.mark.parametrize("type_", ["DECIMAL(38, 0)", "DECIMAL(5, 2)"])
@pytest.mark.parametrize("sign", [1, -1])
def test_decimals_have_the_digits_of_their_type(tmp_path: Path, type_: str, sign: int) -> None:
    column = f"d {type_}, l ARRAY<{type_}>"
    table = pp.Table.create(tmp_path / "t", column, options={"metadata.stats-mode": "none", "file.format": "orc"})
    arrow = table.arrow_schema.field("d").type
    most = digits(arrow, *[sign * (10**arrow.precision - 1)] * 2)
    table.append({"d": most})
    more = digits(arrow, sign, sign * (2**127 - (sign > 0)) if arrow.scale == 0 else sign * 10**5)
    for name, values in (("d", more), ("l", pa.ListArray.from_arrays([0, 0, 2], more))):
        with pytest.raises(SchemaError, match=rf"does not fit column '{name}(\.element)?', .*first in row 2") as caught:
            table.append({name: values})
        assert str(more[1].as_py()) in str(caught.value)
    with pytest.raises((SchemaError, ExpressionError), match="does not fit"):
        table.merge({"k": most[1:], "v": more[1:]}, "d = source.k", when_matched="update set d = source.v")
    assert table.to_arrow()["d"].to_pylist() == most.to_pylist()


def test_rows_of_other_writers_that_are_too_long_stay_as_they_are(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", parse_columns("k INT, s VARCHAR(5), a ARRAY<VARCHAR(5)>"))
    for k in range(2):
        table.append({"k": [k], "s": ["abcde"], "a": [["abcde"]]})
    schema = tmp_path / "t" / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace("VARCHAR(5)", "VARCHAR(3)"))  # Java Paimon does not look at lengths
    table = pp.Table.open(table.path)
    assert table.compact(full=True).files == 2
    table.update({"k": "k + 1"})
    assert table.scan("a IS NOT NULL").to_arrow()["s"].to_pylist() == ["abcde"] * 2
    with pytest.raises(ExpressionError, match=r"'abcd' does not fit column 'value\.element', which is VARCHAR\(3\)"):
        table.merge({"k": [1], "a": [["abcd"]]}, "k", when_matched="update set a = source.a")


def test_char_is_trimmed_where_lengths_are_not_looked_at() -> None:
    fields = parse_columns("c CHAR(3)")
    batch = pa.record_batch([pa.array(["ab ", "abcd "])], schema=arrow_schema(fields))
    found = Conformer(fields, "t", trims_char=True, bounded=False).conform(batch)
    assert found.column(0).to_pylist() == ["ab", "abcd"]


NAN = float("nan")


@pytest.mark.parametrize(
    ("type_", "values", "message"),
    [
        ("TINYINT", [1, None, 127], None),
        ("BIGINT", [2**53 - 1, None], None),
        ("TINYINT", [1.0, NAN, 128.0], "128 does not fit column 'c', which is TINYINT (-128 to 127), first in row 3"),
        ("INT", [1.0, NAN, 1.5], "1.5 does not fit column 'c', which is INT"),
        ("BIGINT", [NAN, 2.0**53], "9.007199254740992e+15 does not fit column 'c', which is BIGINT"),
        ("INT", [math.inf, NAN], "inf does not fit column 'c', which is INT"),
        ("DECIMAL(4, 2)", [1.0, NAN], "column c is double in the data and DECIMAL(4, 2) in the table"),
    ],
)
def test_integers_that_pandas_made_floats(tmp_path: Path, type_: str, values: list[Any], message: str | None) -> None:
    frame = pytest.importorskip("pandas").DataFrame({"c": values})
    table = _table(tmp_path, c=type_)
    if message is None:
        table.append(frame)
        table.merge(frame, "c", when_matched="update")
        assert sorted(table.scan().to_arrow()["c"].to_pylist(), key=str) == sorted(values, key=str)
        return
    with pytest.raises(SchemaError) as caught:
        table.append(frame)
    assert message in str(caught.value)
    with pytest.raises(SchemaError, match=r"1\.0 does not fit column 'c'"):
        table.append({"c": [1.0, 2.0]})


def test_merges_without_columns_take_values_as_appends_do(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", parse_columns("k INT, d DATE, f FLOAT, a ARRAY<INT>, r ROW<x INT>"))
    table.append({"k": [1], "d": [MIDNIGHT], "f": [1.0], "a": [[1]], "r": [{"x": 1}]})
    rows: dict[str, list[Any]] = {"k": [1, 2], "d": [None] * 2, "f": [0.5] * 2, "a": [[], None], "r": [None] * 2}
    for name, values, message in (
        ("k", [1.0, 1.9], "column k is double in the data and INT in the table — cast it first, or name the columns"),
        ("k", [1, 2**40], "1099511627776 does not fit column 'k', which is INT (-2147483648 to 2147483647), in row 2 "),
        ("d", [MIDNIGHT, NOON], "2020-01-02 12:00:00.000000 does not fit column 'd', which is DATE, in row 2 of the s"),
        ("d", [NOON, None], "2020-01-02 12:00:00.000000 does not fit column 'd', which is DATE, in row 1 of the sourc"),
        ("f", [1e39, 1.0], "1e+39 does not fit column 'f', which is FLOAT, in row 1 of the source"),
        ("a", [None, [1, 2**40]], "'a.element', which is INT (-2147483648 to 2147483647), in row 2 of the source"),
    ):
        with pytest.raises(SchemaError) as caught:
            table.merge({**rows, name: values}, "k", when_matched="update", when_not_matched="insert")
        assert message in str(caught.value)
    keyed = _table(tmp_path / "keyed", k="INT", v="INT NOT NULL")
    with pytest.raises(SchemaError, match="column 'v' is NOT NULL, and has no value, in row 2 of the source"):
        keyed.merge({"k": [1, 2], "v": [1, None]}, "k", when_not_matched="insert")
    table.merge({**rows, "f": [0.5, 1e39]}, "k", when_matched="update", when_not_matched="source.f < 1 then insert")
    table.merge(rows, "k", when_matched="update", when_not_matched="insert")
    expected = [{"k": k, "d": None, "f": 0.5, "a": [] if k == 1 else None, "r": None} for k in (1, 2)]
    assert table.scan().to_arrow().sort_by("k").to_pylist() == expected
    frame = pytest.importorskip("pandas").DataFrame({**rows, "k": [None, 2.0]})
    table.merge(frame, "k", when_matched="update", when_not_matched="insert")
    assert table.scan().to_arrow()["k"].to_pylist() == [1, 2, None]


def test_explicit_values_of_merges_are_stored_as_spark_does(tmp_path: Path) -> None:
    table = _table(tmp_path, k="INT", d="DATE", f="FLOAT", n="DECIMAL(3, 1)")
    table.append({"k": [1], "d": [MIDNIGHT], "f": [1.0], "n": [Decimal("1.0")]})
    source = {"k": [1.0], "d": [NOON], "f": [0.1], "n": [1.25], "x": [1e39]}
    table.merge(source, "k", when_matched="update set k = source.k + 0.9, d = source.d, f = source.f, n = source.n")
    stored = {"k": 1, "d": NOON.date(), "f": pa.scalar(0.1, pa.float32()).as_py(), "n": Decimal("1.3")}
    assert table.scan().to_arrow().to_pylist() == [stored]
    nested = pp.Table.create(tmp_path / "nested", parse_columns("k INT, a ARRAY<FLOAT>, r ROW<m MAP<INT, FLOAT>>"))
    nested.append({"k": [1], "a": [[1.0]]})
    maps = pa.map_(pa.int32(), pa.float64())
    for value in (1.0, 1e39):
        given = pa.table(
            {"k": [1], "a": [[None, value]], "r": pa.array([{"m": [(1, value)]}], pa.struct([("m", maps)]))}
        )
        for name in ("a", "r"):
            with pytest.raises(ExpressionError, match=r"1e\+39 does not fit FLOAT") if value > 1 else nullcontext():
                nested.merge(given, "k", when_matched=f"update set {name} = source.{name}")
    assert nested.scan().to_arrow().to_pylist() == [{"k": 1, "a": [None, 1.0], "r": {"m": [(1, 1.0)]}}]
    for name, message in (("k", r"e\+39 does not fit INT"), ("f", r"e\+39 does not fit FLOAT"), ("n", "DECIMAL")):
        with pytest.raises(ExpressionError, match=message):
            table.merge(source, "k", when_matched=f"update set {name} = source.x")
        with pytest.raises(ExpressionError, match=message):
            table.update({name: "CAST(f AS DOUBLE) * 1e40D"})


def test_merges_take_columns_of_nulls(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", parse_columns("k INT, s STRING, a ARRAY<INT>, r ROW<x INT>"))
    rows = {"k": [1, 2], "s": [None] * 2, "a": [[], [None]], "r": [{"x": None}, None]}
    table.append({**rows, "s": ["a", "b"]})
    table.merge(rows, "k", when_matched="update", when_not_matched="insert")
    assert table.scan().to_arrow().to_pylist() == pa.table(rows).to_pylist()
    table.merge({**rows, "k": [None] * 2}, "k", when_matched="delete", when_not_matched="insert")
    assert table.count("k IS NULL") == 2
    table.merge({"k": [None], "s": [None]}, "target.k <=> source.k", when_matched="source.s IS NULL THEN DELETE")
    assert table.count("k IS NULL") == 0
    source = {"k": [1], "n": [None]}
    table.merge(source, "k", when_matched="update set s = coalesce(source.n, 'z'), a = source.n")
    assert table.scan().to_arrow().sort_by("k").to_pylist()[0] == {"k": 1, "s": "z", "a": None, "r": {"x": None}}
    frame = pytest.importorskip("pandas").DataFrame({**rows, "s": pa.nulls(2).to_pylist()})
    table.merge(frame, ["k"], when_matched="update")
    assert table.scan().to_arrow()["s"].to_pylist() == [None] * 2


FIRST, FITS = "first in row", "does not fit column"


@pytest.mark.parametrize(
    ("type_", "values", "message"),
    [
        ("BIGINT", ["1"], f"'1' {FITS} 'id', which is BIGINT"),
        ("INT NOT NULL", [1.5], f"1.5 {FITS} 'id', which is INT"),
        ("INT", [b"1"], f"b'1' {FITS} 'id', which is INT"),
        ("BIGINT", pa.array(["1"], pa.large_string()), "column id is string in the data and BIGINT in the table — "),
        ("INT", pa.array(["1"], pa.string_view()), "column id is string in the data and INT in the table — "),
        ("INT", pa.array([[b"1"]], pa.large_list(pa.large_binary())), "is list<item: binary> in the data and INT in "),
        ("INT", pa.array([True]), "column id is bool in the data and INT in the table — "),
        (
            "TINYINT",
            [1, None, 300],
            f"300 {FITS} 'id', which is TINYINT (-128 to 127), {FIRST} 3 of the data",
        ),
        ("DECIMAL(3, 1)", [Decimal("1.25")], "1.25 does not fit column 'id', which is DECIMAL(3, 1) (2 digits before "),
        ("CHAR(2)", ["ab", "abc"], f"'abc' does not fit column 'id', which is CHAR(2), {FIRST} 2 of the data"),
        (
            "VARCHAR(3)",
            ["\x1b[31m" * 100],
            f"x1b[31m'… (500 characters) {FITS} 'id', which is VARCHAR(3), {FIRST}",
        ),
        (
            "BYTES NOT NULL",
            [b"", None],
            f"column 'id' is NOT NULL, and 1 of 2 rows have no value, {FIRST} 2 of the data",
        ),
        ("TIMESTAMP(0)", pa.array([1], pa.timestamp("ns")), "1970-01-01 00:00:00.000000001 does not fit column 'id'"),
        ("INT", [1, 2, "x"], f"'x' {FITS} 'id', which is INT (-2147483648 to 2147483647), {FIRST} 3"),
        ("STRING", ["a", 7], f"7 {FITS} 'id', which is STRING, {FIRST} 2 of the data"),
    ],
)
def test_errors_tell_the_value_and_its_row(tmp_path: Path, type_: str, values: Any, message: str) -> None:
    table = _table(tmp_path, id=type_)
    with pytest.raises(SchemaError) as caught:
        table.append({"id": values})
    assert message in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_rows_are_numbered_through_all_batches_and_within_nested_values(tmp_path: Path) -> None:
    nested = pa.schema([("a", pa.list_(pa.int8())), ("s", pa.struct([("x", pa.int8())]))])
    table = pp.Table.create(tmp_path / "n", nested)
    first = pa.table({"a": [[1], [2, 3], []], "s": [{"x": 1}] * 3})
    with pytest.raises(SchemaError, match=rf"300 {FITS} 'a\.element', which is TINYINT \(.*\), {FIRST} 5 of"):
        table.append([first, pa.table({"a": [None, [1, 2, 300]], "s": [{"x": 1}, None]})])
    with pytest.raises(SchemaError, match=rf"300 does not fit column 's\.x', which is TINYINT \(.*\), {FIRST} 7 of"):
        table.append(iter([first, first, pa.table({"a": [None], "s": [{"x": 300}]}), first]))
    assert table.snapshots.latest() is None


def test_rows_are_numbered_where_keys_move_and_in_lookups(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int32()), ("p", pa.int32())])
    table = pp.Table.create(tmp_path / "k", schema, ["k"], ["p"], options={"bucket": -1})
    with pytest.raises(SchemaError, match=rf"5000000000 does not fit column 'k', .* {FIRST} 3 of the data"):
        table.append([pa.table({"k": [1, 2], "p": [1, 1]}), pa.table({"k": [5_000_000_000], "p": [1]})])
    with pytest.raises(SchemaError, match=rf"column 'k' is NOT NULL, .* {FIRST} 3 of the data"):
        table.lookup([pa.table({"k": [1, 2]}), pa.table({"k": pa.nulls(1)})])
    with pytest.raises(SchemaError, match="column k is string in the data and INT in the table"):
        table.lookup({"k": ["1"]})


def test_values_of_updates_and_merges_that_do_not_fit_are_shown(tmp_path: Path) -> None:
    table = _table(tmp_path, k="BIGINT", s="VARCHAR(3)", d="DECIMAL(3, 1)")
    table.append({"k": [1], "s": ["a"], "d": [Decimal("1.0")]})
    with pytest.raises(ExpressionError, match=r"column 's': .* 'abcd' does not fit VARCHAR\(3\)"):
        table.update({"s": "concat('abc', 'd')"})
    with pytest.raises(ExpressionError, match=r"column 'd': .*\b200\.0 does not fit DECIMAL\(3, 1\)"):
        table.merge({"k": [1], "d": [200]}, "k", when_matched="update set d = source.d")


def test_names_that_are_mistyped_get_near_ones(tmp_path: Path) -> None:
    table = _table(tmp_path, order_id="INT NOT NULL", price="INT")
    with pytest.raises(SchemaError, match=r"the table has no column 'oder_id' — .* — did you mean order_id\?"):
        table.append({"oder_id": [1], "price": [1]})


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    table = _table(tmp_path, a="INT", B="INT", c="INT")
    table.append(pa.table({"c": [3], "b": [2], "A": [1]}))
    assert table.scan().to_arrow().to_pylist() == [{"a": 1, "B": 2, "c": 3}]
    table.append(pa.table({"c": [4]}))
    assert table.scan("c = 4").to_arrow().to_pylist() == [{"a": None, "B": None, "c": 4}]
    with pytest.raises(SchemaError, match="no column 'd'"):
        table.append(pa.table({"d": [1]}))


def test_null_in_a_not_null_column_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    table = _table(tmp_path, k="INT NOT NULL", v="INT")
    table.append(pa.table({"k": [1], "v": [1]}))
    batches = [pa.table({"k": [2], "v": [2]}), pa.table({"k": pa.array([None], pa.int32()), "v": [3]})]
    with pytest.raises(SchemaError, match="'k' is NOT NULL"):
        table.append(batches)
    with pytest.raises(SchemaError, match="'k' is NOT NULL and missing"):
        table.append(pa.table({"v": [3]}))
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": 1}]
    assert len(list(Path(table.path).rglob("data-*"))) == 1


def test_rows_from_other_libraries(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    table = _table(tmp_path, a="BIGINT", s="STRING")
    table.append(pd.DataFrame({"a": [1], "s": ["x"]}))
    table.append(pl.DataFrame({"a": [2], "s": ["y"]}))
    table.append([{"a": 3, "s": "z"}])
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == [1, 2, 3]
    with pytest.raises(SchemaError, match="can't take rows from int"):
        table.append(5)


_GIVEN = [
    ("DECIMAL(10, 2)", 1.5, Decimal("1.50")),
    ("DATE", "2026-01-31", dt.date(2026, 1, 31)),
    ("TIME(3)", "12:30", dt.time(12, 30)),
    ("TIMESTAMP(3)", "2026-01-31 12:30:00", dt.datetime(2026, 1, 31, 12, 30)),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "now", dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.UTC)),
    ("BYTES", "bytes", b"bytes"),
]


@pytest.mark.parametrize(("type_", "value", "taken"), _GIVEN, ids=[type_ for type_, *_ in _GIVEN])
def test_errors_say_what_a_python_row_has_to_hold(tmp_path: Path, type_: str, value: Any, taken: Any) -> None:
    """What the message says is taken, by `append` or as the call that it names."""
    table = pp.Table.create(tmp_path / "t", f"id INT, v {type_}")
    with pytest.raises(SchemaError) as caught:
        table.append([{"id": 1, "v": value}])
    message = str(caught.value)
    said = message.partition("as a Python value: ")[2].removesuffix(")")
    assert eval(said, {"datetime": dt, "decimal": decimal}) == taken
    table.append([{"id": 1, "v": taken}])
    assert table.to_arrow()["v"].to_pylist() == [taken]
