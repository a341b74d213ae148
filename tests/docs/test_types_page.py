"""docs/types.md: each row of its tables is made as a table, and read in each of the forms that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.errors import SchemaError, UnsupportedError
from support.fixtures import ROOT

PAGE = (ROOT / "docs" / "types.md").read_text(encoding="utf-8")


def _rows(head: str) -> Iterator[list[str]]:
    """The cells of the table that begins with a line."""
    lines = PAGE.split(f"{head}\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    for line in lines:
        yield [cell.strip() for cell in line[1:-1].split("|")]


TYPES = [[re.split("`", cell)[1] for cell in row] for row in _rows("| Paimon | Arrow | Spark | a Python value |")]
each_type = pytest.mark.parametrize(("kind", "arrow", "spark_name", "literal"), TYPES, ids=[row[0] for row in TYPES])


def _value(literal: str) -> Any:
    names: dict[str, Any] = {"Decimal": Decimal, "date": date, "time": time, "datetime": datetime, "UTC": UTC}
    if literal.startswith("Timestamp("):
        names["Timestamp"] = pytest.importorskip("pandas").Timestamp
    return eval(literal, names)


@each_type
def test_values_in_arrow_and_python(tmp_path: Path, kind: str, arrow: str, spark_name: str, literal: str) -> None:
    table = pp.Table.create(tmp_path / "t", f"c {kind}")
    value = _value(literal)
    table.append(pa.Table.from_pylist([{"c": value}, {"c": None}], schema=table.arrow_schema))
    found = table.scan().to_arrow()
    assert (str(table.schema.fields[0].type), str(found.schema.field("c").type)) == (kind, arrow)
    assert found["c"].to_pylist() == [value, None]
    assert type(found["c"][0].as_py()) is type(value)


def test_every_type_has_its_row() -> None:
    kinds = {re.match(r"\w+", kind)[0] for kind, *_ in TYPES}  # type: ignore[index]
    from paimon_pyds.base.types.kinds import REFUSED_KINDS, Kind

    known = {kind.value for kind in Kind if kind not in REFUSED_KINDS} - {"TIMESTAMP_LTZ"}
    assert kinds == known | {"STRING", "BYTES"}
    assert any("LOCAL TIME ZONE" in kind for kind, *_ in TYPES)
    for name in {kind.value for kind in REFUSED_KINDS - {Kind.UNKNOWN}} | {"GEOMETRY"}:
        assert name in PAGE
        with pytest.raises((UnsupportedError, SchemaError)):
            pp.Table.create("nowhere", f"c {name}")


@pytest.mark.spark
def test_types_in_spark(tmp_path: Path, spark: Any) -> None:
    from pyspark.sql import types

    kinds = [row for row in TYPES if hasattr(types, "TimeType") or not row[0].startswith("TIME(")]
    path = str(tmp_path / "t")
    table = pp.Table.create(path, ", ".join(f"c{n} {kind}" for n, (kind, *_) in enumerate(kinds)))
    row = {f"c{n}": _value(literal) for n, (*_, literal) in enumerate(kinds)}
    table.append(pa.Table.from_pylist([row], schema=table.arrow_schema))
    df = spark.read.format("paimon").load(path)
    assert [field.dataType.simpleString() for field in df.schema] == [name for _, _, name, _ in kinds]
    (found,) = df.collect()
    for n, (kind, *_) in enumerate(kinds):
        wanted = row[f"c{n}"]
        if kind.startswith(("MAP", "MULTISET")):
            wanted = dict(wanted)
        elif kind.startswith("TIMESTAMP(9)"):
            wanted = wanted.floor("us").to_pydatetime()
        elif kind.startswith("TIMESTAMP"):
            wanted = wanted.replace(tzinfo=None)
        seen = found[n].asDict() if kind.startswith("ROW") else found[n]
        if kind == "VARIANT":
            seen = {"value": bytes(seen.value), "metadata": bytes(seen.metadata)}
        assert seen == wanted, kind


_NEW = list(_rows("| Python values | column | Arrow or pandas | column | Spark | column |"))
_OF_PYTHON: dict[str, Any] = {
    "`bool`": True, "`int`": 1, "`float`": 1.5, "`Decimal`": Decimal("1.50"), "`str`": "a", "`bytes`": b"a",
    "`date`": date(2026, 1, 31), "`datetime`": datetime(2026, 1, 31),
    "`datetime` with a zone": datetime(2026, 1, 31, tzinfo=UTC), "`list`, `dict`": ([1], {"a": 1}),
}  # fmt: skip
_OF_ARROW = {
    "`uint8`": [pa.uint8()], "`uint16`": [pa.uint16()], "`uint32`": [pa.uint32()],
    "dictionary (categories)": [pa.dictionary(pa.int32(), pa.string())], "`timestamp[s]`": [pa.timestamp("s")],
    "`timestamp[ns]`": [pa.timestamp("ns")], "`timestamp[us, tz=…]`": [pa.timestamp("us", "Europe/Berlin")],
    "fixed size binary": [pa.binary(3)], "fixed size list": [pa.list_(pa.int32(), 2)],
    "`uint64`, `float16`, `date64`, durations": [pa.uint64(), pa.float16(), pa.date64(), pa.duration("s")],
}  # fmt: skip
_FILLED = {
    "`DECIMAL(p, s)` that holds all values": "`DECIMAL(3, 2)`", "the type of its values": "`STRING`",
    "`BINARY(n)`": "`BINARY(3)`", "`ARRAY<…>`": "`ARRAY<INT>`",
}  # fmt: skip


@pytest.mark.parametrize(("given", "column"), [(row[0], row[1]) for row in _NEW], ids=[row[0] for row in _NEW])
def test_types_of_python_values(tmp_path: Path, given: str, column: str) -> None:
    value = _OF_PYTHON[given]
    if isinstance(value, tuple):
        table = pp.Table.create(tmp_path / "t", [{"list": value[0], "dict": value[1]}])
        assert [str(f.type) for f in table.schema.fields] == ["ARRAY<BIGINT>", "ROW<a BIGINT>"]
        return
    table = pp.Table.create(tmp_path / "t", [{"c": value}])
    assert f"`{table.schema.fields[0].type}`" == _FILLED.get(column, column)


@pytest.mark.parametrize(("given", "column"), [(row[2], row[3]) for row in _NEW], ids=[row[2] for row in _NEW])
def test_types_of_arrow(tmp_path: Path, given: str, column: str) -> None:
    for type_ in _OF_ARROW[given]:
        if column.startswith("refused"):
            with pytest.raises(SchemaError, match="cast"):
                pp.Table.create(tmp_path / "t", pa.schema({"c": type_}))
            continue
        table = pp.Table.create(tmp_path / "t", pa.schema({"c": type_}))
        assert f"`{table.schema.fields[0].type}`" == _FILLED.get(column, column)


def test_types_of_spark() -> None:
    t = pytest.importorskip("pyspark.sql.types", reason="needs pyspark")
    from paimon_pyds.spark.types import fields_from_spark

    text, number = t.StringType(), t.IntegerType()
    nested = [t.ArrayType(number), t.MapType(text, number), t.StructType([t.StructField("a", number)])]
    plain = [text, t.BinaryType(), t.TimestampType(), t.TimestampNTZType(), t.VarcharType(3)]
    known = {f"`{type_.simpleString()}`": [type_] for type_ in (*plain, *nested)}
    known["intervals"] = [t.DayTimeIntervalType(), t.YearMonthIntervalType()]
    for *_, given, column in (row for row in _NEW if row[4]):
        for type_ in known[given]:
            schema = t.StructType([t.StructField("c", type_)])
            if column == "refused":
                with pytest.raises(SchemaError, match="cast"):
                    fields_from_spark(schema)
            else:
                assert f"`{fields_from_spark(schema)[0].type}`" == column


def test_columns_of_the_page_are_types() -> None:
    for kind, *_ in TYPES:
        assert str(parse_columns(f"c {kind} NOT NULL")[0].type) == f"{kind} NOT NULL"
