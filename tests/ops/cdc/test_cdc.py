"""Messages of change streams become the rows that the source had."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError, SchemaError, UnknownColumnError
from paimon_pyds.metadata.store import TableStore

from .messages import ORDERS, envelope, lines, with_schema

UTC = dt.UTC
ANN = {
    "id": 1,
    "customer": "Ann",
    "price": Decimal("1234567.89"),
    "day": dt.date(2023, 11, 14),
    "at": dt.datetime(2023, 11, 14, 22, 13, 20, 123_000),
    "paid": dt.datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC),
    "photo": b"\x01\x02\xff",
    "note": None,
}
THIRTY = {
    "id": 30,
    "customer": None,
    "price": None,
    "day": dt.date(1969, 12, 31),
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    "paid": dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    "photo": b"",
    "note": "[]",
}
FILES = {
    "debezium_with_schema.jsonl": lambda messages, table: pp.cdc.debezium(messages, table),
    "debezium.jsonl": lambda messages, table: pp.cdc.debezium(messages, table, decimals="text", time_unit={"at": "ms"}),
    "canal.jsonl": lambda messages, table: pp.cdc.canal(messages, table, zone="UTC"),
    "maxwell.jsonl": lambda messages, table: pp.cdc.maxwell(messages, table, zone="UTC"),
}


@pytest.fixture
def orders(tmp_path: Path) -> pp.Table:
    return pp.Table.create(str(tmp_path / "t"), ORDERS, primary_key="id")


def one(tmp_path: Path, columns: str, **more: Any) -> pp.Table:
    return pp.Table.create(str(tmp_path / "t"), columns, **{"primary_key": "id", **more})


@pytest.mark.smoke
@pytest.mark.parametrize("file", FILES)
def test_a_file_of_each_tool_gives_the_rows_of_the_source(file: str, orders: pp.Table) -> None:
    rows = FILES[file](lines(file), orders)
    assert rows.schema.names == [*orders.arrow_schema.names, "rowkind"]
    read = rows.read_all()
    assert read.column("rowkind").to_pylist() == ["+I", "+I", "+U", "-D", "+I", "-D", "+I"]
    assert read.column("id").to_pylist() == [1, 2, 1, 2, 3, 3, 30]
    assert read.column("price").to_pylist()[:3] == [Decimal("19.99"), Decimal("-0.05"), Decimal("1234567.89")]
    note = read.column("note").to_pylist()[0]
    assert json.loads(note) == {"gift": True}
    orders.append(read, rowkind_column="rowkind")
    assert orders.to_arrow().sort_by("id").to_pylist() == [ANN, THIRTY]


def _flattened(text: str, added: str) -> list[str]:
    """What ExtractNewRecordState makes of a message: with ``add.fields=op,table``, or with rewritten deletes."""
    message = json.loads(text)
    envelope_, schema = message.get("payload", message), message.get("schema")
    op, before, after = (envelope_[name] for name in ("op", "before", "after"))
    rows = [("d", before)] if op == "d" else [(op, after)]
    if before and after and before["id"] != after["id"]:
        rows = [("d", before), ("c", after)]
    texts = []
    for kind, row in rows:
        own = {"__op": kind, "__table": "orders"} if added == "op" else {"__deleted": str(kind == "d").lower()}
        flat = {**row, **own}
        if schema is not None:
            [fields] = [member["fields"] for member in schema["fields"] if member["field"] == "after"]
            more = [{"type": "string", "optional": True, "field": name} for name in own]
            flat = {"schema": {"type": "struct", "fields": [*fields, *more]}, "payload": flat}
        texts.append(json.dumps(flat))
    return texts


@pytest.mark.parametrize("added", ["op", "deleted"])
@pytest.mark.parametrize("file", ["debezium_with_schema.jsonl", "debezium.jsonl"])
def test_rows_that_were_taken_out_of_their_envelopes(file: str, added: str, tmp_path: Path) -> None:
    table = one(tmp_path, "id INT")
    texts = [text for whole in lines(file) if whole is not None for text in _flattened(whole, added)]
    more: dict[str, Any] = {} if "schema" in file else {"decimals": "text", "time_unit": {"at": "ms"}}
    if "schema" not in file:
        table = pp.Table.create(str(tmp_path / "orders"), ORDERS, primary_key="id")
    rows = pp.cdc.debezium(texts, table, add_columns=True, **more).read_all()
    assert rows.column_names[-1] == "rowkind" and not [name for name in rows.column_names if name.startswith("__")]
    inserted = "+I" if added == "op" else "+U"
    kinds = ["+I", "+I", "+U", "-D", "+I", "-D", "+I"]
    assert rows["rowkind"].to_pylist() == [inserted if kind == "+I" else kind for kind in kinds]
    table.append(rows, rowkind_column="rowkind")
    found = pp.Table.open(table.path).to_arrow().sort_by("id")
    assert found["id"].to_pylist() == [1, 30]
    assert found["price"].to_pylist() == [Decimal("1234567.89"), None]


def test_rows_without_their_operation_are_refused(tmp_path: Path) -> None:
    table = one(tmp_path, "id INT", options={"changelog-producer": "input"})
    with pytest.raises(SchemaError, match=r"no `op`.*ExtractNewRecordState has to add __op"):
        pp.cdc.debezium(['{"id": 1}'], table).read_all()
    with pytest.raises(SchemaError, match="update without the row before it"):
        pp.cdc.debezium(['{"id": 1, "__deleted": "false"}'], table).read_all()
    texts = ['{"id": 1, "__op": "c", "__source_table": "a"}', '{"id": 2, "__op": "c", "__table": "b"}']
    assert pp.cdc.debezium(texts, table, source="b").read_all()["id"].to_pylist() == [2]


def test_messages_are_taken_in_any_form(orders: pp.Table) -> None:
    texts = lines("debezium_with_schema.jsonl")
    expected = pp.cdc.debezium(texts, orders).read_all()
    octets = [None if text is None else text.encode() for text in texts]
    for data in (
        octets,
        pa.array(octets, pa.binary()),
        pa.chunked_array([texts[:2], texts[2:]], pa.string()),
        pa.table({"value": pa.array(texts, pa.large_string())}),
        [pa.record_batch({"value": texts[:3]}), pa.record_batch({"value": texts[3:]})],
    ):
        assert pp.cdc.debezium(data, orders).read_all() == expected
    renamed = pa.table({"offset": range(7), "json": texts})
    carried = pp.cdc.debezium(renamed, orders, value="json", carry=["offset"]).read_all()
    assert carried.column("offset").to_pylist() == [0, 1, 2, 3, 5, 6, 6]
    assert pp.cdc.debezium([], orders).read_all().num_rows == 0
    assert pp.cdc.debezium([None], orders).read_all().num_rows == 0


def test_images_before_updates_come_where_a_table_needs_them(tmp_path: Path) -> None:
    by_input = one(tmp_path, ORDERS, options={"changelog-producer": "input"})
    rows = pp.cdc.debezium(lines("debezium_with_schema.jsonl"), by_input).read_all()
    assert rows.column("rowkind").to_pylist() == ["+I", "+I", "-U", "+U", "-D", "+I", "-D", "+I"]
    assert rows.column("price").to_pylist()[2:4] == [Decimal("19.99"), Decimal("1234567.89")]
    plain = pp.cdc.debezium(lines("debezium_with_schema.jsonl"), by_input, before_images=False).read_all()
    assert "-U" not in plain.column("rowkind").to_pylist()
    sums = pp.Table.create(
        str(tmp_path / "sums"),
        "id INT, n BIGINT",
        primary_key="id",
        options={"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    )
    changes = [envelope("c", None, {"id": 1, "n": 5}), envelope("u", {"id": 1, "n": 5}, {"id": 1, "n": 7})]
    sums.append(pp.cdc.debezium(changes, sums), rowkind_column="rowkind")
    assert sums.to_arrow().to_pylist() == [{"id": 1, "n": 7}]
    with pytest.raises(SchemaError, match="message 0: it is an update without the row before it"):
        pp.cdc.debezium([envelope("u", None, {"id": 1, "n": 7})], sums).read_all()


def test_the_last_of_several_changes_of_a_key_holds(tmp_path: Path) -> None:
    table = one(tmp_path, "id INT, n INT")
    changes = [envelope("c", None, {"id": 1, "n": 0})]
    changes += [
        envelope("d", {"id": 1, "n": n - 1}) if n % 7 == 3 else envelope("u", None, {"id": 1, "n": n})
        for n in range(1, 50)
    ]
    table.append(pp.cdc.debezium(changes, table), rowkind_column="rowkind")
    assert table.to_arrow().to_pylist() == [{"id": 1, "n": 49}]
    table.append(pp.cdc.debezium([envelope("d", {"id": 1})], table), rowkind_column="rowkind")
    assert table.count() == 0


KINDS = [
    ("io.debezium.time.Date", "int32", "DATE", 19675, dt.date(2023, 11, 14)),
    ("org.apache.kafka.connect.data.Date", "int32", "STRING", 19675, "2023-11-14"),
    ("io.debezium.time.IsoDate", "string", "DATE", "2023-11-14Z", dt.date(2023, 11, 14)),
    ("io.debezium.time.Time", "int32", "TIME(3)", 3_723_004, dt.time(1, 2, 3, 4000)),
    ("io.debezium.time.MicroTime", "int64", "TIME(3)", 3_723_004_000, dt.time(1, 2, 3, 4000)),
    ("io.debezium.time.NanoTime", "int64", "TIME(3)", 3_723_004_000_000, dt.time(1, 2, 3, 4000)),
    ("io.debezium.time.IsoTime", "string", "TIME(3)", "01:02:03.004Z", dt.time(1, 2, 3, 4000)),
    ("io.debezium.time.Timestamp", "int64", "TIMESTAMP(6)", 1001, dt.datetime(1970, 1, 1, 0, 0, 1, 1000)),
    ("io.debezium.time.MicroTimestamp", "int64", "TIMESTAMP(6)", -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("io.debezium.time.MicroTimestamp", "int64", "STRING", 1_500_000, "1970-01-01 00:00:01.5"),
    ("io.debezium.time.NanoTimestamp", "int64", "TIMESTAMP(6)", 2000, dt.datetime(1970, 1, 1, 0, 0, 0, 2)),
    (
        "io.debezium.time.IsoTimestamp",
        "string",
        "TIMESTAMP(6)",
        "1970-01-01T00:00:00.25Z",
        dt.datetime(1970, 1, 1, 0, 0, 0, 250000),
    ),
    ("org.apache.kafka.connect.data.Timestamp", "int64", "TIMESTAMP(3)", 1, dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
    ("io.debezium.time.ZonedTimestamp", "string", "STRING", "2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"),
    ("io.debezium.time.Year", "int32", "INT", 2023, 2023),
    ("io.debezium.data.Bits", "bytes", "BIGINT", "AQI=", 513),
    ("io.debezium.data.Bits", "bytes", "BOOLEAN", "AA==", False),
    ("io.debezium.data.Bits", "bytes", "BYTES", "AQI=", b"\x01\x02"),
    (
        "io.debezium.data.VariableScaleDecimal",
        "struct",
        "DECIMAL(10,3)",
        {"scale": 1, "value": "AP8="},
        Decimal("25.500"),
    ),
    ("io.debezium.data.Uuid", "string", "STRING", "09d7", "09d7"),
    (None, "int16", "BOOLEAN", 1, True),
    (None, "int16", "BIGINT", 7, 7),
    (None, "double", "DOUBLE", 0.1, 0.1),
    (None, "double", "DECIMAL(5,2)", 1.25, Decimal("1.25")),
    (
        None,
        "string",
        "DECIMAL(38,2)",
        "123456789012345678901234567890.12",
        Decimal("123456789012345678901234567890.12"),
    ),
    (None, "int64", "STRING", 5, "5"),
    (None, "boolean", "STRING", True, "true"),
    (None, "array", "ARRAY<INT>", [1, None, 3], [1, None, 3]),
    (None, "map", "MAP<STRING, INT>", {"a": 1}, [("a", 1)]),
    (None, "struct", "ROW<a INT, b STRING>", {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    (None, "struct", "STRING", {"a": [1, 2.50, "ü"]}, '{"a":[1,2.5,"ü"]}'),
]


@pytest.mark.parametrize(("name", "type_", "column", "value", "expected"), KINDS)
def test_values_become_those_of_the_column(
    name: str | None, type_: str, column: str, value: Any, expected: Any, tmp_path: Path
) -> None:
    table = one(tmp_path, f"id INT, v {column}")
    field = {"field": "v", "type": type_, **({} if name is None else {"name": name})}
    rows = [{"id": n, "v": v} for n, v in enumerate([None, value, value, None])]
    messages = [with_schema("c", [{"field": "id", "type": "int32"}, field], None, row) for row in rows]
    found = pp.cdc.debezium(messages, table).read_all()
    table.append(found, rowkind_column="rowkind")
    read = table.to_arrow().sort_by("id").column("v").to_pylist()
    assert read == [None, expected, expected, None]


def test_what_only_the_caller_knows_is_not_guessed(tmp_path: Path) -> None:
    table = one(tmp_path, "id INT, at TIMESTAMP(6), price DECIMAL(8,3), t TIME(3)")

    def read(row: dict[str, Any], **options: Any) -> list[Any]:
        whole = {"at": None, "price": None, "t": None, **row, "id": 1}
        found = pp.cdc.debezium([envelope("c", None, whole)], table, **options).read_all()
        return [found.column(name)[0].as_py() for name in row]

    with pytest.raises(SchemaError, match=r"message 0: field at: times are numbers.*time_unit='ms'"):
        read({"at": 1000})
    assert read({"at": 1000}, time_unit="ms") == [dt.datetime(1970, 1, 1, 0, 0, 1)]
    assert read({"at": 1000, "t": 1}, time_unit={"at": "us", "t": "ms"})[1] == dt.time(0, 0, 0, 1000)
    with pytest.raises(SchemaError, match=r"field price: decimals are texts.*decimals='text'"):
        read({"price": "1234"})
    assert read({"price": "1234"}, decimals="text") == [Decimal("1234.000")]
    assert read({"price": "1234"}, decimals="base64") == [Decimal(int.from_bytes(b"\xd7\x6d\xf8", signed=True)) / 1000]
    assert read({"price": 1.5}) == [Decimal("1.500")]
    with pytest.raises(OptionError, match="time_unit is ms or us or ns, not 's'"):
        read({"at": 1}, time_unit="s")


def test_zones_are_not_guessed(tmp_path: Path) -> None:
    table = one(tmp_path, "id INT, wall TIMESTAMP(6), instant TIMESTAMP(6) WITH LOCAL TIME ZONE")
    wall = json.dumps(
        {
            "database": "d",
            "table": "t",
            "type": "insert",
            "data": {"id": 1, "wall": None, "instant": "2024-07-01 12:00:00"},
        }
    )
    instant = envelope("c", None, {"id": 1, "wall": "2024-07-01T12:00:00+02:00", "instant": None})
    with pytest.raises(SchemaError, match=r"field instant: the times are wall-clock times.*zone='UTC'"):
        pp.cdc.maxwell([wall], table).read_all()
    with pytest.raises(SchemaError, match="field wall: the times are instants"):
        pp.cdc.debezium([instant], table).read_all()
    in_berlin = pp.cdc.maxwell([wall], table, zone="Europe/Berlin").read_all()
    assert in_berlin.column("instant")[0].as_py() == dt.datetime(2024, 7, 1, 10, tzinfo=UTC)
    in_utc = pp.cdc.debezium([instant], table, zone="UTC").read_all()
    assert in_utc.column("wall")[0].as_py() == dt.datetime(2024, 7, 1, 10)


REFUSED = [
    ("INT", 2**31, r"message 2: field v: 2147483648 does not fit INT"),
    ("INT", 1.5, "field v: 1.5 does not fit INT"),
    ("INT", "0x1F", 'field v: "0x1F" does not fit INT'),
    ("TINYINT", "x", 'field v: "x" does not fit TINYINT'),
    ("BOOLEAN", 2.5, "does not fit BOOLEAN"),
    ("DATE", "0000-00-00", "does not fit DATE"),
    ("DATE", 1.5, "does not fit DATE"),
    ("TIMESTAMP(6)", "yesterday", "does not fit TIMESTAMP"),
    ("TIMESTAMP(3)", "2024-01-01 00:00:00.123456", "does not fit TIMESTAMP"),
    ("TIME(3)", "-01:00:00", "does not fit TIME"),
    ("DECIMAL(4,2)", 123.45, "does not fit DECIMAL"),
    ("DECIMAL(4,2)", 1.234, "does not fit DECIMAL"),
    ("BYTES", "no base64!", "does not fit BYTES"),
    ("VARCHAR(2)", "abc", "does not fit VARCHAR"),
    ("ARRAY<INT>", {"a": 1}, "does not fit ARRAY"),
    ("ROW<a INT>", {"a": 1, "b": 2}, "does not fit ROW"),
]


@pytest.mark.parametrize(("column", "value", "said"), REFUSED)
def test_values_that_do_not_fit_are_named(column: str, value: Any, said: str, tmp_path: Path) -> None:
    table = one(tmp_path, f"id INT, v {column}")
    rows = [{"id": n, "v": None if n != 2 else value} for n in range(5)]
    with pytest.raises(SchemaError, match=said):
        pp.cdc.debezium([envelope("c", None, row) for row in rows], table).read_all()


WRONG = [
    ("{", "message 1: it is no JSON"),
    ("[]", "message 1: it is no JSON object"),
    ('{"id": 1}', "message 1: it has no `op`"),
    (envelope("x"), "it has the `op` 'x'"),
    (envelope("c"), "its member `after` is nothing"),
    (envelope("d"), "its member `before` is nothing"),
    (envelope("t"), r"message 1: the source table was truncated.*truncate='ignore'"),
    (envelope("c", None, {"id": 1, "n": 2}, "others"), r"about the table shop\.others, and messages before.*source="),
    (envelope("c", None, {"id": 1}), r"message 1: there is no field for the column 'n'.*missing_columns='null'"),
    (envelope("d", {"n": 1}), "there is no field for the column 'id'"),
    (envelope("c", None, {"id": 1, "n": 2, "m": 3}), "message 1: the table has no column 'm'"),
    (envelope("u", {"id": 1, "n": 2}, {"id": 1, "n": "__debezium_unavailable_value"}), None),
    (envelope("u", None, {"id": 1, "n": "__debezium_unavailable_value"}), r"field n.*REPLICA IDENTITY FULL"),
]


@pytest.mark.parametrize(("message", "said"), WRONG)
def test_messages_that_are_no_change_of_a_row_are_named(message: str, said: str | None, tmp_path: Path) -> None:
    table = one(tmp_path, "id INT, n INT")
    messages = [envelope("c", None, {"id": 1, "n": 1}), message]
    if said is None:
        assert pp.cdc.debezium(messages, table).read_all().column("n").to_pylist() == [1, 2]
        return
    with pytest.raises(SchemaError, match=said):
        pp.cdc.debezium(messages, table).read_all()


def test_what_the_options_allow_is_left_out(tmp_path: Path) -> None:
    table = one(tmp_path, "id INT, n INT")
    messages = [
        envelope("t"),
        envelope("m", message={"prefix": "x"}),
        envelope("c", None, {"ID": 1, "m": 3}),
        envelope("c", None, {"ID": 9}, "others"),
    ]
    rows = pp.cdc.debezium(
        messages, table, source="shop.orders", unknown_fields="ignore", missing_columns="null", truncate="ignore"
    )
    assert rows.read_all().to_pylist() == [{"id": 1, "n": None, "rowkind": "+I"}]
    for wrong in ({"unknown_fields": "drop"}, {"order_by": ["x"]}):
        with pytest.raises(OptionError):
            pp.cdc.debezium(messages, table, **wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sources'"):
        pp.cdc.maxwell(messages, table, sources="x")
    with pytest.raises(SchemaError, match="no column 'value'"):
        pp.cdc.maxwell(pa.table({"v": ["{}"]}), table)
    with pytest.raises(SchemaError, match="not UTF-8"):
        pp.cdc.maxwell([b"\xff"], table).read_all()


def test_new_columns_get_the_types_of_the_source(tmp_path: Path) -> None:
    for tool, file in ((pp.cdc.debezium, "debezium_with_schema.jsonl"), (pp.cdc.canal, "canal.jsonl")):
        table = pp.Table.create(str(tmp_path / file), "id INT", primary_key="id")
        rows = tool(lines(file), table, add_columns=True, zone="UTC")
        table.append(rows, rowkind_column="rowkind")
        types = {f.name: str(f.type) for f in table.schema.fields}
        assert types["price"] == "DECIMAL(10, 2)"
        assert (types["day"], types["photo"], types["note"]) == ("DATE", "BYTES", "STRING")
        assert {row["id"]: row["price"] for row in table.to_arrow().to_pylist()} == {1: ANN["price"], 30: None}
    table = pp.Table.create(str(tmp_path / "m"), "id INT", primary_key="id")
    table.append(pp.cdc.maxwell(lines("maxwell.jsonl"), table, add_columns=True), rowkind_column="rowkind")
    types = {f.name: str(f.type) for f in table.schema.fields}
    assert (types["price"], types["customer"], types["note"]) == ("DOUBLE", "STRING", "STRING")


def _typed(number: int, type_: str, **values: Any) -> str:
    fields = [{"field": "id", "type": "int32"}, *({"field": name, "type": type_} for name in values)]
    return with_schema("c", fields, None, {"id": number, **values})


@pytest.mark.parametrize("order", [1, -1])
def test_columns_come_and_widen_as_those_of_a_write(tmp_path: Path, order: int) -> None:
    table = one(tmp_path, "id INT, n INT")
    messages = [_typed(1, "int32", N=1, m=5), _typed(2, "int64", N=2**40, m=2**40)][::order]
    with pytest.raises(SchemaError, match="1099511627776 does not fit INT"):
        pp.cdc.debezium(messages, table, add_columns=True).read_all()
    types = {field.name: str(field.type) for field in table.schema.fields}
    assert (types["n"], types["m"]) == ("INT", "BIGINT"), "a new column holds all that comes with it"
    table.alter({"write.merge-schema": "true", "write.merge-schema.type-widening": "true"})
    rows = pp.cdc.debezium([*messages, _typed(3, "int16", n=3, m=3, k=7)], table, missing_columns="null")
    table.append(rows, rowkind_column="rowkind")
    assert {field.name: str(field.type) for field in table.schema.fields}.items() >= {
        "n": "BIGINT", "m": "BIGINT", "k": "SMALLINT",
    }.items()  # fmt: skip
    assert sorted(table.to_arrow()["n"].to_pylist()) == [1, 3, 2**40]


def test_types_of_which_none_holds_all_are_refused(tmp_path: Path) -> None:
    table = one(tmp_path, "id INT")
    messages = [_typed(1, "int32", m=1), _typed(2, "string", m="x")]
    with pytest.raises(SchemaError, match="the new column 'm' would be INT by some of the data and STRING by other"):
        pp.cdc.debezium(messages, table, add_columns=True)
    table.alter(add_columns={"m": "STRING"})
    rows = pp.cdc.debezium(messages, table, add_columns=True).read_all()
    assert rows["m"].to_pylist() == ["1", "x"]


def test_a_column_that_somebody_else_adds_meanwhile_is_there_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = one(tmp_path, "id INT")
    create = TableStore.try_create_schema

    def late(store: TableStore, schema: Any) -> bool:
        monkeypatch.setattr(TableStore, "try_create_schema", create)
        pp.Table.open(table.path).alter(add_columns={"m": "INT"})
        return create(store, schema)

    monkeypatch.setattr(TableStore, "try_create_schema", late)
    table.append(pp.cdc.debezium([_typed(1, "int32", m=1)], table, add_columns=True), rowkind_column="rowkind")
    assert table.to_arrow().to_pylist() == [{"id": 1, "m": 1}]


def test_the_schema_of_messages_may_change_between_them(tmp_path: Path) -> None:
    table = one(tmp_path, "id INT, at TIMESTAMP(6)")
    messages = []
    for number, (name, value) in enumerate([("Timestamp", 1), ("MicroTimestamp", 1), ("Timestamp", 2)]):
        fields = [
            {"field": "id", "type": "int32"},
            {"field": "at", "type": "int64", "name": f"io.debezium.time.{name}"},
        ]
        messages.append(with_schema("c", fields, None, {"id": number, "at": value}))
    rows = pp.cdc.debezium(messages, table).read_all()
    assert rows.column("id").to_pylist() == [0, 1, 2]
    assert [v.microsecond for v in rows.column("at").to_pylist()] == [1000, 1, 2000]


def test_canal_with_several_rows_and_other_messages(tmp_path: Path) -> None:
    table = one(tmp_path, "id INT, n BIGINT")
    base = {"database": "d", "table": "t", "isDdl": False, "mysqlType": {"id": "int", "n": "bigint"}}
    update = {**base, "type": "UPDATE", "data": [{"id": "1", "n": "5"}, {"id": "2", "n": None}]}
    old = [{"n": "4"}, {"n": "3"}]
    rows = pp.cdc.canal([json.dumps({**update, "old": old})], table, before_images=True).read_all()
    assert rows.to_pylist() == [
        {"id": 1, "n": 4, "rowkind": "-U"},
        {"id": 1, "n": 5, "rowkind": "+U"},
        {"id": 2, "n": 3, "rowkind": "-U"},
        {"id": 2, "n": None, "rowkind": "+U"},
    ]
    for wrong, said in (
        ({**update, "old": [{}]}, "`data` has 2 rows, and `old` 1"),
        ({**base, "type": "TRUNCATE", "isDdl": True}, "truncated or dropped"),
        ({**base, "type": "MERGE"}, "its `type` is 'MERGE'"),
    ):
        with pytest.raises(SchemaError, match=said):
            pp.cdc.canal([json.dumps(wrong)], table).read_all()
    with pytest.raises(UnknownColumnError, match="the table has no column 'm'"):
        pp.cdc.canal(
            [json.dumps({**base, "type": "INSERT", "data": [{"id": "1", "n": "2", "m": "3"}]})], table
        ).read_all()
