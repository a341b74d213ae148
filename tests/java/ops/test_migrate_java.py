"""Java Paimon reads what was migrated as it is read here: each type of each format, evolved files, partitions."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

pytestmark = [pytest.mark.java, requires_java_oracle]

_DAY, _TIME = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
_ZONED = _TIME.replace(tzinfo=dt.UTC)


def _decimal(precision: int, scale: int, text: str = "1.25") -> pa.Array:
    return pa.array([decimal.Decimal(text), None]).cast(pa.decimal128(precision, scale))


def _wide() -> pa.Table:
    """Columns that Parquet and ORC have alike; NULL in the second row of each."""
    nested = pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))])
    values: dict[str, pa.Array] = {
        "flag": pa.array([True, None]), "i8": pa.array([-8, None], pa.int8()), "i16": pa.array([-16, None], pa.int16()),
        "i32": pa.array([-32, None], pa.int32()), "i64": pa.array([2**40, None]),
        "f32": pa.array([0.5, None], pa.float32()),
        "f64": pa.array([-0.25, None]), "text": pa.array(["é", None]), "raw": pa.array([b"\0\xff", None]),
        "day": pa.array([_DAY, None]), "small": _decimal(7, 2), "middle": _decimal(17, 3), "large": _decimal(38, 10),
        "list": pa.array([[1, None], None], pa.list_(pa.int32())),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "row": pa.array([{"x": 1, "y": {"z": "a"}}, None], nested),
    }  # fmt: skip
    return pa.table(values)


def _parquet(path: Path) -> None:
    wide = _wide()
    more = {
        "u8": pa.array([200, None], pa.uint8()), "u16": pa.array([60_000, None], pa.uint16()),
        "millis": pa.array([_TIME, None], pa.timestamp("ms")), "micros": pa.array([_TIME, None], pa.timestamp("us")),
        "instant": pa.array([_ZONED, None], pa.timestamp("us", "Europe/Berlin")),
        "clock": pa.array([dt.time(1, 2, 3), None], pa.time32("ms")), "fixed": pa.array([b"abc", None], pa.binary(3)),
        "category": pa.array(["red", None]).dictionary_encode(), "long_text": pa.array(["l", None], pa.large_string()),
        "nothing": pa.nulls(2),
    }  # fmt: skip
    for name, column in more.items():
        wide = wide.append_column(name, column)
    others = [name for name in wide.column_names if name != "large"]  # of which Java finds none in a dictionary
    pq.write_table(wide, path / "wide.parquet", store_decimal_as_integer=True, use_dictionary=others)
    pq.write_table(wide, path / "pages.parquet", data_page_version="2.0", compression="gzip", use_dictionary=False)
    for codec in ("none", "zstd", "lz4"):
        settings = {"use_compliant_nested_type": False, "row_group_size": 1, "use_dictionary": others}
        pq.write_table(wide, path / codec, compression=codec, **settings)


def _int96(path: Path) -> None:
    table = pa.table({"t": pa.array([_TIME, dt.datetime(1900, 1, 1)], pa.timestamp("us"))})
    pq.write_table(table, path / "old.parquet", use_deprecated_int96_timestamps=True)


def _spark_int96(path: Path) -> None:
    table = pa.table({"t": pa.array([_ZONED], pa.timestamp("us", "UTC"))})
    table = table.replace_schema_metadata({"org.apache.spark.version": "4.0.0"})
    pq.write_table(table, path / "spark", use_deprecated_int96_timestamps=True)


def _orc(path: Path) -> None:
    wide = _wide().append_column("stamp", pa.array([_TIME, None], pa.timestamp("ns")))
    orc.write_table(
        wide.append_column("instant", pa.array([_ZONED, None], pa.timestamp("ns", "UTC"))), path / "000000_0"
    )


def _avro(path: Path) -> None:
    types: dict[str, Any] = {
        "flag": "boolean", "i": "int", "l": "long", "f": "float", "d": "double", "s": "string", "b": "bytes",
        "day": {"type": "int", "logicalType": "date"}, "clock": {"type": "int", "logicalType": "time-millis"},
        "instant": {"type": "long", "logicalType": "timestamp-micros"},
        "local": {"type": "long", "logicalType": "local-timestamp-millis"},
        "amount": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "list": {"type": "array", "items": ["null", "int"]}, "map": {"type": "map", "values": "long"},
        "row": {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "int"]}]},
    }  # fmt: skip
    fields = [{"name": name, "type": ["null", type_]} for name, type_ in types.items()]
    schema = {
        "type": "record",
        "name": "top",
        "namespace": "com.example",
        "fields": [*fields, {"name": "id", "type": "int"}],
    }
    row = {
        "flag": True, "i": -1, "l": 2**40, "f": 0.5, "d": -0.25, "s": "é", "b": b"\0\xff", "day": _DAY,
        "clock": dt.time(1, 2, 3), "instant": _ZONED, "local": _TIME, "amount": decimal.Decimal("12.34"),
        "list": [1, None], "map": {"k": 5}, "row": {"x": 7}, "id": 1,
    }  # fmt: skip
    with (path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [row, {**dict.fromkeys(types), "id": 2}], codec="deflate")


def _evolved(path: Path) -> None:
    narrow = pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))
    more = pa.array([{"y": "a", "x": 2**40}, None])
    whole, half = pa.array([1, None], pa.int8()), pa.array([0.5, None], pa.float32())
    for number, columns in enumerate(
        [
            {"i": whole, "f": half, "d": _decimal(4, 2), "r": narrow},
            {"r": more, "d": _decimal(9, 3, "123456.125"), "i": pa.array([2**33, None])},
            {"f": pa.array([2.5]), "late": pa.array([_TIME], pa.timestamp("ms"))},
            {"late": pa.array([_TIME], pa.timestamp("us")), "r": pa.nulls(1)},
        ]
    ):
        pq.write_table(pa.table(columns), path / f"{number}.parquet")


def _partitioned(path: Path) -> None:
    for n, place in enumerate(["day=2024-01-31/a%3Db=x%2Fy/h=1", "day=__HIVE_DEFAULT_PARTITION__/a%3Db=z/h=20"]):
        (path / place).mkdir(parents=True)
        pq.write_table(pa.table({"v": pa.array([n, n], pa.int32())}), path / place / "part-0.snappy.parquet")


_SOURCES = {f.__name__[1:]: f for f in (_parquet, _int96, _spark_int96, _orc, _avro, _evolved, _partitioned)}


def test_java_reads_what_was_migrated(oracle: Oracle, tmp_path: Path) -> None:
    tables = {}
    for name, make in _SOURCES.items():
        source = tmp_path / "source" / name
        source.mkdir(parents=True)
        make(source)
        pp.migrate(str(source), str(tmp_path / name / "db.db/t"))
        tables[name] = pp.Table.open(tmp_path / name / "db.db/t")
        assert tables[name].maintenance.verify(deep=True).ok, str(tables[name].maintenance.verify(deep=True))
    written = pq.read_table(tmp_path / "source/parquet/wide.parquet").drop_columns("nothing")
    assert tables["parquet"].scan(limit=2).to_arrow().equals(written.cast(tables["parquet"].arrow_schema))
    assert tables["parquet"].scan().count() == 10
    columns = orc.read_table(tmp_path / "source/orc/000000_0")
    assert tables["orc"].scan().to_arrow().equals(columns.cast(tables["orc"].arrow_schema))
    (avro, _) = tables["avro"].scan().to_arrow().to_pylist()
    assert avro["instant"] == _ZONED
    assert avro["local"] == _TIME.replace(microsecond=123000)
    assert (avro["day"], avro["clock"], avro["amount"]) == (_DAY, dt.time(1, 2, 3), decimal.Decimal("12.34"))
    stamps = [table.scan().to_arrow()["t"] for table in (tables["int96"], tables["spark_int96"])]
    assert [str(stamp[0].as_py())[:26] for stamp in stamps] == [str(_TIME), str(_TIME)]
    assert [stamp.type.tz for stamp in stamps] == [None, "UTC"]
    with oracle.batch() as batch:
        reads = {name: batch.read(tmp_path / name, "db.t", allow_fail=True) for name in tables}
        narrow = batch.read(tmp_path / "partitioned", "db.t", filter={"op": "eq", "field": "h", "literals": [20]})
        large = {"op": "eq", "field": "large", "literals": ["1.2500000000"]}
        exact = batch.read(tmp_path / "parquet", "db.t", filter=large)
        few = batch.read(tmp_path / "evolved", "db.t", filter={"op": "gt", "field": "i", "literals": [100]})
    for name, table in tables.items():
        assert reads[name].ok, (name, reads[name].error[:1500])
        assert reads[name].lines == lines(table.scan().to_arrow()), name
    assert narrow.lines == lines(tables["partitioned"].scan("h = 20").to_arrow())
    assert exact.lines == lines(tables["parquet"].scan("large = 1.25").to_arrow())
    assert few.lines == lines(tables["evolved"].scan("i > 100").to_arrow())


def test_java_finds_bytes_of_any_sign(oracle: Oracle, tmp_path: Path) -> None:
    """Java takes bytes from 0x80 on for less than the others; by bounds of Parquet it would look for none of these."""
    values = [b"\x01", b"\x7f", b"\x80", b"\xff"]
    rows = pa.table({"raw": values, "fixed": pa.array(values, pa.binary(1))})
    (tmp_path / "source").mkdir()
    pq.write_table(rows, tmp_path / "source" / "a.parquet")
    pp.migrate(str(tmp_path / "source"), str(tmp_path / "db.db/t"))
    with oracle.batch() as batch:
        found = {
            (column, value): batch.read(
                tmp_path, "db.t", filter={"op": "eq", "field": column, "literals": [value.hex()]}, columns=[column]
            )
            for column in rows.column_names
            for value in values
        }
    assert {place: reply.values for place, reply in found.items()} == {
        (column, value): [{column: value.hex()}] for column, value in found
    }


def test_java_goes_on(oracle: Oracle, tmp_path: Path) -> None:
    """Java appends to a migrated table and compacts the files of other writers."""
    for name in ("evolved", "partitioned"):
        source = tmp_path / "source" / name
        source.mkdir(parents=True)
        _SOURCES[name](source)
        pp.migrate(str(source), str(tmp_path / name / "db.db/t"))
    evolved, partitioned = (pp.Table.open(tmp_path / name / "db.db/t") for name in ("evolved", "partitioned"))
    before = {table.path: lines(table.scan().to_arrow()) for table in (evolved, partitioned)}
    with oracle.batch() as batch:
        for name in ("evolved", "partitioned"):
            batch.compact(tmp_path / name, "db.t")
        reads = [batch.read(tmp_path / name, "db.t") for name in ("evolved", "partitioned")]
    assert [read.lines for read in reads] == list(before.values())
    assert evolved.snapshots.latest().id == 2
    for table in (evolved, partitioned):
        assert lines(table.scan().to_arrow()) == before[table.path]
