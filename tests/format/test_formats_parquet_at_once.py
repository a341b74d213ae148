"""Small Parquet files that are decoded together have the rows that each has alone, whoever wrote them."""

from __future__ import annotations

import datetime as dt
import io
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.format.parquet import thrift
from paimon_pyds.format.parquet.files_at_once import AlikeFiles
from paimon_pyds.format.parquet.footer import MAGIC, Footer, footer_of
from paimon_pyds.format.parquet.small_encoder import SmallFileEncoder
from paimon_pyds.format.parquet.small_files import SmallFiles
from support.data_files import fields_of, table_of
from support.effort import LONG, sampled
from support.fixtures import fixture_names, table_fields, table_path

_TYPES = ["INT", "BIGINT", "STRING", "DOUBLE", "BOOLEAN", "DECIMAL(20, 3)", "DATE", "TIMESTAMP(6)", "BYTES", "SMALLINT"]
_ARRAY = {"type": "ARRAY", "element": "INT"}
_NESTED = [
    {"type": "ARRAY", "element": "STRING"},
    {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
    {"type": "ROW", "fields": [{"id": 7, "name": "a", "type": "INT"}, {"id": 8, "name": "b", "type": _ARRAY}]},
]
_ENOUGH = 200
"""Files from which a decoder learns how others are spelled."""


def _values(type_: Any, rows: int, draw: random.Random) -> list[Any]:
    def some(make: Any, nulls: float) -> list[Any]:
        return [None if draw.random() < nulls else make() for _ in range(rows)]

    makers = {
        "INT": lambda: draw.randrange(-(1 << draw.randrange(1, 31)), 1 << 30),
        "BIGINT": lambda: draw.randrange(-(1 << 62), 1 << 62),
        "STRING": lambda: "x" * draw.choice([0, 1, 5, 130]) + draw.choice(["", "a", "é"]),
        "DOUBLE": lambda: draw.choice([0.0, -0.0, 1.5, float("inf")]),
        "BOOLEAN": lambda: draw.random() < 0.5,
        "DECIMAL(20, 3)": lambda: Decimal(draw.randrange(1 << 40)) / 8,
        "DATE": lambda: dt.date(2024, 1, 1 + draw.randrange(28)),
        "TIMESTAMP(6)": lambda: dt.datetime(2024, 1, 1, draw.randrange(24)),
        "BYTES": lambda: draw.randbytes(draw.choice([0, 3, 200])),
        "SMALLINT": lambda: draw.randrange(100),
        "ARRAY": lambda: ["a", None][: draw.randrange(3)],
        "MAP": lambda: [("k", 1)][: draw.randrange(2)],
        "ROW": lambda: {"a": draw.randrange(9), "b": [1] * draw.randrange(3)},
    }
    return some(makers[type_ if isinstance(type_, str) else type_["type"]], draw.choice([0, 0, 0.3, 1]))


def _files(
    types: Sequence[Any], count: int, draw: random.Random, settings: dict[str, Any] | None, rows: int = 30
) -> tuple[tuple[DataField, ...], list[bytes], list[int]]:
    """Files of random rows: of this package's writer, or of pyarrow's with these settings."""
    fields = fields_of(*types)
    encoder, data, counts = SmallFileEncoder(fields, {}), list[bytes](), list[int]()
    for _ in range(count):
        number = draw.choice([1, 1, 2, draw.randint(1, rows)])
        table = table_of(fields, *(_values(type_, number, draw) for type_ in types))
        if settings is None:
            encoded = encoder.encode(table.to_batches()[0], "f")
            assert encoded is not None
        else:
            sink = io.BytesIO()
            pq.write_table(table, sink, **settings)
            encoded = sink.getvalue()
        data.append(encoded)
        counts.append(number)
    return fields, data, counts


def _are_as_alone(fields: Sequence[DataField], data: Sequence[bytes], rows: Sequence[int]) -> int:
    """Compare the rows of files; how many were decoded together."""
    decoder = SmallFiles(fields)
    paths = [str(number) for number in range(len(data))]
    times = -(-_ENOUGH // len(data))
    found = decoder.decode_all([*data] * times, [*rows] * times, paths * times)
    together = 0
    for number, each in enumerate(found):
        file = data[number % len(data)]
        alone = decoder.decode(file, rows[number % len(data)], "alone")
        assert (each is None) == (alone is None), number
        if each is not None and alone is not None:
            together += not isinstance(each, pa.Table)
            assert each.num_rows == alone.num_rows
            assert _repr(decoder.joined([each], "f")) == _repr(decoder.joined([alone], "f"))
    whole = [each for each in found if each is not None]
    if whole:
        one_by_one = [decoder.joined([each], "f") for each in whole]
        assert _repr(decoder.joined(whole, "f")) == [row for batch in one_by_one for row in _repr(batch)]
    return together // times


def _repr(batch: pa.RecordBatch) -> list[str]:
    return list(map(repr, batch.to_pylist()))


_SETTINGS: list[dict[str, Any] | None] = [
    None,
    {},
    {"use_dictionary": False, "compression": "none", "write_statistics": False},
    {"use_dictionary": False, "compression": "zstd", "write_page_checksum": True},
    {"compression": "gzip", "data_page_version": "2.0", "write_page_checksum": True},
    {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED", "write_page_index": True},
    {"compression": "lz4", "write_page_index": True, "store_schema": False},
]


@pytest.mark.parametrize("settings", sampled(_SETTINGS, 4))
@pytest.mark.parametrize("seed", range(20 if LONG else 2))
def test_files_of_any_writer(settings: dict[str, Any] | None, seed: int) -> None:
    draw = random.Random(seed)
    types = draw.sample(_TYPES, draw.randint(1, 6))
    if settings is not None and "column_encoding" in settings:
        types = ["INT", "BIGINT"]
    fields, data, rows = _files(types, 60, draw, settings)
    assert _are_as_alone(fields, data, rows) >= 50
    some = draw.sample(fields, draw.randint(1, len(fields)))
    assert _are_as_alone(some, data, rows) >= 50


@pytest.mark.parametrize("checked", [True, False])
def test_values_that_repeat_within_a_row_need_a_checksum(checked: bool) -> None:
    draw = random.Random(1)
    fields, data, rows = _files([*_NESTED, "INT"], 40, draw, {"write_page_checksum": checked})
    assert (_are_as_alone(fields, data, rows) > 30) == checked
    assert _are_as_alone(fields[3:], data, rows) > 30


def test_files_of_several_writers_and_schemas_are_mixed() -> None:
    draw = random.Random(2)
    fields, data, rows = _files(["INT", "STRING"], 30, draw, None)
    for settings in ({}, {"compression": "none"}, {"use_dictionary": False}):
        _, more, counts = _files(["INT", "STRING"], 30, draw, settings)
        data, rows = data + more, rows + counts
    _, wider, counts = _files(["INT", "STRING", "DOUBLE"], 30, draw, None)
    data, rows = data + wider, rows + counts
    order = draw.sample(range(len(data)), len(data))
    assert _are_as_alone(fields, [data[at] for at in order], [rows[at] for at in order]) > 120


def test_files_without_some_columns_or_of_other_types_are_left_to_the_reader() -> None:
    draw = random.Random(3)
    _, data, rows = _files(["INT", "STRING"], 20, draw, None)
    other = (DataField(0, "c0", parse_type("INT")), DataField(9, "later", parse_type("INT")))
    assert SmallFiles(other).decode_all(data * 10, rows * 10, ["f"] * 200) == [None] * 200
    _, timestamps, counts = _files(["TIMESTAMP(6)"], 20, draw, {"use_deprecated_int96_timestamps": True})
    fields = fields_of("TIMESTAMP(6)")
    assert SmallFiles(fields).decode_all(timestamps * 10, counts * 10, ["f"] * 200) == [None] * 200


@pytest.mark.parametrize("settings", sampled(_SETTINGS, 3))
def test_damage_to_one_file_changes_no_other(settings: dict[str, Any] | None) -> None:
    draw = random.Random(4)
    types = ["INT", "BIGINT"] if settings is not None and "column_encoding" in settings else ["INT", "STRING", "BIGINT"]
    fields, data, rows = _files(types, 12, draw, settings, rows=12)
    data, rows = data * 12, rows * 12
    paths = ["f"] * len(data)
    decoder = SmallFiles(fields)
    expected = [
        _repr(decoder.joined([each], "f")) for each in decoder.decode_all(data, rows, paths) if each is not None
    ]
    assert len(expected) == len(data)
    number, is_checked = draw.randrange(len(data)), settings is None or "write_page_checksum" in settings
    whole = data[number]
    for at in sampled(range(len(whole)), 15):
        for flipped in (0x01, 0x80, 0xFF):
            damaged = whole[:at] + bytes([whole[at] ^ flipped]) + whole[at + 1 :]
            alone = decoder.decode(damaged, rows[number], "f")
            found = decoder.decode_all([*data[:number], damaged, *data[number + 1 :]], rows, paths)
            for other, each in enumerate(found):
                if other != number:
                    assert each is not None and _repr(decoder.joined([each], "f")) == expected[other], at
            each = found[number]
            if alone is None:  # damage to bounds that nobody looks at
                assert each is None or not is_checked or _repr(decoder.joined([each], "f")) == expected[number], at
            else:
                assert each is not None
                assert decoder.joined([each], "f").equals(decoder.joined([alone], "f")), at


def test_a_page_of_fewer_rows_than_its_file_takes_none_of_the_next() -> None:
    """Such files are made of the pages of one file and the footer of another."""
    fields = fields_of("INT NOT NULL")
    encoder = SmallFileEncoder(fields, {})

    def file(*values: int) -> bytes:
        encoded = encoder.encode(table_of(fields, values).to_batches()[0], "f")
        assert encoded is not None
        return encoded

    one, two = file(1), file(1, 2)
    footer, _ = thrift.decode_struct(bytes(footer_of(memoryview(two))))
    [group] = footer[4][1][1]
    [chunk] = group[1][1][1]
    own, _ = thrift.decode_struct(bytes(footer_of(memoryview(one))))
    size = own[4][1][1][0][1][1][1][0][3][1][7]
    chunk[3][1][7] = size
    text = thrift.encode_struct({number: field for number, field in footer.items() if number < 32_767})
    pages = one[: -8 - len(footer_of(memoryview(one)))]
    wrong = pages + text + len(text).to_bytes(4, "little") + MAGIC
    decoder = SmallFiles(fields)
    data, rows = [two, wrong, two, one] * 60, [2, 2, 2, 1] * 60
    found = decoder.decode_all(data, rows, ["f"] * len(data))
    assert [each is None for each in found[:4]] == [False, True, False, False]
    assert [decoder.joined([found[at]], "f")["c0"].to_pylist() for at in (0, 2, 3)] == [[1, 2], [1, 2], [1]]  # type: ignore[list-item]


def test_texts_that_a_dictionary_repeats_are_decoded_a_few_files_at_a_time() -> None:
    sink = io.BytesIO()
    pq.write_table(table_of(fields_of("STRING"), ["x" * 2_000] * 1_000), sink)
    data = sink.getvalue()
    text = bytes(footer_of(memoryview(data)))
    alike = AlikeFiles(text, Footer(text, "f", len(data)).leaves, [0])
    chunks = alike.chunks(data, 1_000)
    assert chunks is not None
    found = list(alike.decode([(data, chunks, 1_000)] * 30))
    assert [table.num_rows for _, table in found if table is not None] == [count * 1_000 for count, _ in found]
    assert sum(count for count, _ in found) == 30
    assert max(count for count, _ in found) < 10


@pytest.mark.parametrize("name", sampled([name for name in fixture_names() if "evolve" not in name], 6))
def test_files_of_java(name: str) -> None:
    fields = table_fields(table_path(name))
    for path in sorted(table_path(name).rglob("*.parquet"))[:3]:
        data = path.read_bytes()
        rows = pq.ParquetFile(path).metadata.num_rows
        names = pq.ParquetFile(path).schema_arrow.names
        flat = [field for field in fields if field.name in names]
        if flat and len(data) < 128 << 10:
            _are_as_alone(flat, [data], [rows])
