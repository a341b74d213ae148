"""What answers are taken from: metadata, indexes, or data; and their types."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.query import aggregates
from paimon_pyds.errors import SchemaError, SnapshotNotFoundError, UnsupportedError
from support.copies import copied

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

INDEXES = {
    "file-index.bitmap.columns": "color",
    "file-index.bsi.columns": "amount",
    "file-index.range-bitmap.columns": "price",
    "file-index.in-manifest-threshold": "1 b",
    "deletion-vectors.enabled": "true",
}
SCHEMA = pa.schema([
    ("day", pa.date32()), ("color", pa.string()), ("amount", pa.int64()), ("price", pa.decimal128(8, 2)),
    ("note", pa.string()),
])  # fmt: skip


@copied("t")
def table(path: Path) -> pp.Table:
    """Two partitions of 400 rows with every kind of index, a few rows deleted."""
    made = pp.Table.create(path, SCHEMA, partition_by=["day"], options=INDEXES)
    for number, day in enumerate((datetime.date(2026, 1, 1), datetime.date(2026, 1, 2))):
        ids = range(number * 400, number * 400 + 400)
        made.append(
            pa.table(
                [
                    [day] * 400,
                    [None if i % 9 == 0 else ("red", "green", "blue")[i % 3] for i in ids],
                    [i - 300 for i in ids],
                    [Decimal(i % 50) / 4 for i in ids],
                    [f"note {i}" for i in ids],
                ],
                schema=SCHEMA,
            )
        )
    made.delete("amount > 495")
    return made


@pytest.mark.parametrize(
    ("filter_", "question", "source"),
    [
        (None, ("count",), "metadata"),
        ("day = DATE '2026-01-01'", ("count",), "metadata"),
        ("day = DATE '2026-01-01' AND amount < 10000", ("count",), "metadata"),
        ("day > DATE '2026-01-02'", ("exists",), "metadata"),
        (None, ("distinct", "day"), "metadata"),
        (None, ("max", "day"), "metadata"),
        ("day = DATE '2026-01-01'", ("min", "amount"), "metadata"),
        ("color = 'red'", ("count",), "index"),
        ("color = 'red' AND amount BETWEEN 5 AND 90 AND price <> 1.25", ("count",), "index"),
        ("day = DATE '2026-01-02' OR color IS NULL", ("count",), "index"),
        ("amount = 7", ("exists",), "index"),
        (None, ("distinct", "color"), "index"),
        ("amount > 0", ("distinct", "color"), "index"),
        ("color = 'red'", ("distinct", "day"), "index"),
        ("color <> 'red'", ("sum", "amount"), "index"),
        (None, ("sum", "price"), "index"),
        ("color = 'blue'", ("min", "price"), "index"),
        ("color = 'blue'", ("max", "amount"), "index"),
        (None, ("max", "color"), "index"),
        ("note LIKE '%7'", ("count",), "data"),
        ("color = 'red'", ("max", "note"), "data"),
        ("day = DATE '2026-01-02' AND note = 'note 17'", ("count",), "metadata"),
    ],
)
def test_sources(table: pp.Table, filter_: str | None, question: tuple[str, ...], source: str) -> None:
    answer = getattr(table.scan(filter_).answer, question[0])(*question[1:])
    assert answer.source == source
    assert (answer.files_read == 0) == (source != "data")
    assert (answer.bytes_read > 0) == (source != "metadata")
    read = getattr(table.scan(filter_, options={"file-index.read.enabled": "false"}).answer, question[0])(*question[1:])
    assert read.value == answer.value


def test_the_data_files_are_not_touched(table: pp.Table) -> None:
    for path in Path(table.path).rglob("data-*.parquet"):
        path.unlink()
    assert table.sum("amount", "color = 'red'") == sum(i - 300 for i in range(796) if i % 3 == 0 and i % 9)
    assert table.distinct("color").to_pylist()[0] == {"color": None, "count": 89}
    with pytest.raises(SnapshotNotFoundError, match="is gone"):
        table.max("note")


@pytest.mark.parametrize("suffix", ["*.index", "index-*"])
def test_a_lost_index_or_vector_is_told(table: pp.Table, suffix: str) -> None:
    for path in Path(table.path).rglob(suffix):
        if "manifest" not in path.name:
            path.unlink()
    with pytest.raises(SnapshotNotFoundError, match="is gone"):
        table.sum("amount", "color = 'red'")


def one(path: Path, type_: pa.DataType, given: list[Any]) -> pp.Table:
    table = pp.Table.create(path / "t", pa.schema([("v", type_)]))
    table.append(pa.table({"v": pa.array(given, type_)}))
    return table


def test_sums_are_typed_as_in_spark(tmp_path: Path) -> None:
    big = 2**63 - 1
    assert one(tmp_path / "a", pa.int8(), [127, 127, None]).sum("v") == 254
    assert one(tmp_path / "b", pa.int64(), [big, 5, -big, -5]).sum("v") == 0
    assert one(tmp_path / "c", pa.int64(), [None]).sum("v") is None
    with pytest.raises(SchemaError, match="the sum of column 'v' does not fit BIGINT: it is 9223372036854775808"):
        one(tmp_path / "d", pa.int64(), [big, 1]).sum("v")
    assert one(tmp_path / "e", pa.int64(), [-big, -1]).sum("v") == -(2**63)
    total = one(tmp_path / "f", pa.decimal128(4, 2), [Decimal("99.99")] * 3).sum("v")
    assert (total, total.as_tuple().exponent) == (Decimal("299.97"), -2)
    wide = Decimal(10) ** 37
    assert one(tmp_path / "g", pa.decimal128(38, 0), [wide, wide, -wide]).sum("v") == wide
    with pytest.raises(SchemaError, match=r"does not fit DECIMAL\(38, 0\)"):
        one(tmp_path / "h", pa.decimal128(38, 0), [wide] * 10).sum("v")
    assert one(tmp_path / "i", pa.float32(), [0.5, None, 2.0]).sum("v") == 2.5
    for number, type_ in enumerate((pa.string(), pa.bool_(), pa.date32(), pa.timestamp("us"))):
        with pytest.raises(UnsupportedError, match="have no sum"):
            one(tmp_path / f"j{number}", type_, [None]).sum("v")


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_sums_of_float_partitions_come_from_metadata(tmp_path: Path, type_: pa.DataType) -> None:
    schema = pa.schema([("p", type_), ("v", pa.int64())])
    table = pp.Table.create(tmp_path / "t", schema, partition_by=["p"])
    table.append(pa.table([[0.5, -0.0, None, 0.5, 0.25], range(5)], schema=schema))
    answer = table.scan().answer.sum("p")
    assert (answer.value, type(answer.value), answer.source) == (1.25, float, "metadata")
    assert table.sum("p", "v < 1") == 0.5
    table.append(pa.table([[math.inf, math.inf], [5, 6]], schema=schema))
    assert table.sum("p") == math.inf
    table.append(pa.table([[-math.inf, None], [7, 8]], schema=schema))
    assert math.isnan(table.sum("p"))


def test_values_are_plain_python(tmp_path: Path) -> None:
    moment = datetime.datetime(2026, 1, 31, 12, 30, 0, 5)
    assert one(tmp_path / "a", pa.timestamp("us"), [moment]).max("v") == moment
    utc = moment.replace(tzinfo=datetime.UTC)
    assert one(tmp_path / "b", pa.timestamp("us", "UTC"), [utc]).max("v") == utc
    assert one(tmp_path / "c", pa.timestamp("ns"), [1_001]).max("v") == np.datetime64(1_001, "ns")
    assert one(tmp_path / "d", pa.timestamp("ns"), [2_000]).max("v") == datetime.datetime(1970, 1, 1, 0, 0, 0, 2)
    assert one(tmp_path / "e", pa.binary(), [b"\xff", b"a"]).max("v") == b"\xff"
    assert one(tmp_path / "f", pa.bool_(), [True, None, False]).min("v") is False
    zeros = one(tmp_path / "g", pa.float64(), [-0.0, 0.0, None]).distinct("v")
    assert [repr(v) for v in zeros.column("v").to_pylist()] == ["None", "0.0"]
    assert zeros.column("count").to_pylist() == [1, 2]


def test_nested_columns_have_no_order(tmp_path: Path) -> None:
    table = one(tmp_path, pa.list_(pa.int64()), [[1]])
    with pytest.raises(UnsupportedError, match="have no order"):
        table.distinct("v")
    with pytest.raises(SchemaError, match="no column 'w'"):
        table.max("w")


def test_a_table_never_written_and_an_impossible_filter(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("v", pa.int64())]))
    assert (table.count(), table.exists(), table.max("v"), table.sum("v")) == (0, False, None, None)
    assert table.distinct("v").num_rows == 0
    table.append(pa.table({"v": [1]}))
    assert (table.count("false"), table.exists("v IS NULL"), table.max("v", "v > 1")) == (0, False, None)


def test_limits_count(tmp_path: Path) -> None:
    table = one(tmp_path, pa.int64(), list(range(10)))
    table.append(pa.table({"v": list(range(10, 20))}))
    assert table.scan("v NOT IN (3, 12)", limit=4).answer.count().files_read == 1
    assert table.count("v > 1", limit=3) == 3
    assert table.count(limit=0) == 0
    assert not table.exists(limit=0)
    assert table.scan(limit=2).answer.distinct("v").value.column("v").to_pylist() == [0, 1]


def test_files_without_indexes_and_vectors_are_handed_to_no_thread(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"id": "BIGINT", "p": "INT"}, partition_by="p")
    table.append(pa.table({"id": range(60), "p": pa.array([i % 20 for i in range(60)], pa.int32())}))
    handed = list[Any]()

    def concurrent_map(call: Any, items: Any, threads: int) -> Any:
        handed.extend(items)
        return map(call, items)

    with mock.patch.object(aggregates, "concurrent_map", concurrent_map):
        assert table.count("id * 2 < 40") == 20
    assert not handed
