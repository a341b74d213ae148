"""Damaged Parquet files: one of the documented errors, in bounded time and memory, never other rows."""

from __future__ import annotations

import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import CorruptFileError, PaimonError, UnsupportedError
from paimon_pyds.format import ReadCounters, by_name
from paimon_pyds.format.parquet import thrift
from paimon_pyds.format.parquet.footer import Footer, read_footer
from paimon_pyds.format.parquet.page_index import decode_column_index, decode_locations
from paimon_pyds.format.parquet.thrift import (
    BINARY,
    BOOL_FALSE,
    BOOL_TRUE,
    DOUBLE,
    I8,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    decode_struct,
    encode_struct,
    skip_struct,
)  # fmt: skip
from paimon_pyds.sql.predicate.tree import ColumnRef, Leaf, Op
from paimon_pyds.storage import open_file_io
from support.data_files import open_reader, write_file
from support.fixtures import fixture_names, table_fields, table_path

N = 20_000
FIELDS = tuple(
    DataField(i, f"c{i}", parse_type(t)) for i, t in enumerate(["BIGINT NOT NULL", "STRING", "DOUBLE", "DECIMAL(5, 1)"])
)


# ------------------------------------------------------------------------------------------------------------- Thrift

_INTS = {I16: 16, I32: 32, I64: 64}


def _values(depth: int) -> st.SearchStrategy[tuple[int, Any]]:
    plain = [
        st.booleans().map(lambda b: (BOOL_TRUE if b else BOOL_FALSE, b)),
        st.integers(-128, 127).map(lambda v: (I8, v)),
        *[st.integers(-(2 ** (b - 1)), 2 ** (b - 1) - 1).map(lambda v, w=w: (w, v)) for w, b in _INTS.items()],
        st.floats(allow_nan=False).map(lambda v: (DOUBLE, v)),
        st.binary(max_size=200).map(lambda v: (BINARY, v)),
    ]
    if depth == 0:
        return st.one_of(plain)
    numbers = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=30)
    flags = st.lists(st.booleans(), max_size=20)
    structs = st.lists(_structs(depth - 1), max_size=3)
    pairs = st.lists(st.tuples(st.binary(max_size=5), st.integers(-5, 5)), max_size=3)
    return st.one_of(
        *plain,
        _structs(depth - 1).map(lambda v: (STRUCT, v)),
        numbers.map(lambda v: (LIST, (I32, v))),
        numbers.map(lambda v: (SET, (I64, v))),
        flags.map(lambda v: (LIST, (BOOL_TRUE, v))),
        structs.map(lambda v: (LIST, (STRUCT, v))),
        pairs.map(lambda v: (MAP, (BINARY, I32, v) if v else (0, 0, []))),
    )


def _structs(depth: int) -> st.SearchStrategy[thrift.Struct]:
    return st.dictionaries(st.integers(1, 200), _values(depth), max_size=6)


@given(fields=_structs(3), tail=st.binary(max_size=3))
def test_structs_round_trip(fields: thrift.Struct, tail: bytes) -> None:
    data = encode_struct(fields)
    assert decode_struct(data + tail) == (fields, len(data))
    assert skip_struct(data + tail, 0) == len(data)


@given(data=st.binary(max_size=300))
def test_any_bytes_as_thrift(data: bytes) -> None:
    for parse in (
        decode_struct,
        lambda d: decode_locations([d]),
        lambda d: decode_column_index(d, 3),
        lambda d: Footer(d, "x", 10**6),
    ):
        try:
            parse(data)
        except CorruptFileError:
            continue


@pytest.mark.parametrize(
    "data",
    [b"\x1c" * 100_000, b"\x19\x19" * 100_000, b"\x19\xf9\xff\xff\xff\x7f" * 20, b"\x1b\xff\xff\xff\xff\x7f\x33" * 20,
     b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x16" + b"\xff" * 50, b"\x19\xfc" + b"\xff" * 8 + b"\x01"],
)  # fmt: skip
def test_bombs(data: bytes) -> None:
    """Deep nesting, and sizes that are not there."""
    start = time.process_time()
    with pytest.raises(CorruptFileError):
        decode_struct(data)
    with pytest.raises((CorruptFileError, IndexError)):
        skip_struct(data, 0)
    assert time.process_time() - start < 2


# -------------------------------------------------------------------------------------------------------------- files


def _table() -> pa.Table:
    rng = np.random.default_rng(5)
    columns = [
        pa.array(np.arange(N)),
        pa.array([f"value {i % 100}" for i in range(N)]),
        pa.array(rng.random(N)),
        pa.array(rng.integers(0, 9999, N)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(5, 1), safe=False),
    ]
    return pa.Table.from_arrays(columns, schema=arrow_schema(FIELDS))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, pa.Table]:
    path = tmp_path_factory.mktemp("fuzz") / "a.parquet"
    table = _table()
    write_file(path, FIELDS, table, {"file.block-size": "200 kb", "parquet.page.size": "4096"})
    return path.read_bytes(), table


def _use(path: Path, fields: tuple[DataField, ...], wanted: RowSelection) -> pa.Table:
    with closing(open_reader(path)) as reader:
        reader.prune(Leaf(Op.EQ, ColumnRef("c0", (), FIELDS[0].type, 0), (5,)))
        return pa.Table.from_batches(list(reader.read(fields, wanted, 1000)), arrow_schema(fields))


def _outcome(path: Path, data: bytes, expected: pa.Table, wanted: RowSelection, *, sure: bool) -> str:
    path.write_bytes(data)
    start = time.process_time()
    message = found = None
    try:
        found = _use(path, FIELDS, wanted)
    except (CorruptFileError, UnsupportedError) as error:
        message = str(error)
    assert time.process_time() - start < 5
    if found is None:
        assert message is not None
        assert str(path) in message
        return "error"
    if found.equals(expected):
        return "same"
    # A footer has no checksum: a changed byte of it may be another valid footer.
    assert not sure, "other rows, silently"
    return "other"


def _wanted(way: str, monkeypatch: pytest.MonkeyPatch) -> RowSelection:
    if way == "small pages":
        monkeypatch.setattr("paimon_pyds.format.parquet.small_pages.COPY_MICROS", -1.0)
    return RowSelection.of(range(0, N, 4000)) if way == "pages" else RowSelection.ALL


@pytest.mark.parametrize("way", ["whole", "pages", "small pages"])
def test_flipped_bytes_in_pages(
    good: tuple[bytes, pa.Table], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checksums and headers tell every changed byte of a page."""
    data, table = good
    io, name = open_file_io(str(tmp_path / "good"))
    (tmp_path / "good").write_bytes(data)
    footer = Footer(read_footer(io, name, len(data), ReadCounters())[0], name, len(data))
    end = max(footer.chunk(len(footer.groups) - 1, leaf).stop for leaf in range(len(FIELDS)))
    wanted = _wanted(way, monkeypatch)
    expected = table.take(wanted.to_array(N))
    generator = random.Random(1)
    outcomes = []
    for _ in range(40):
        broken = bytearray(data)
        broken[generator.randrange(4, end)] ^= 1 << generator.randrange(8)
        outcomes.append(_outcome(tmp_path / "a.parquet", bytes(broken), expected, wanted, sure=True))
    assert "error" in outcomes


@pytest.mark.parametrize("way", ["whole", "pages", "small pages"])
def test_flipped_bytes_in_footer_and_index(
    good: tuple[bytes, pa.Table], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, table = good
    size = int.from_bytes(data[-8:-4], "little")
    wanted = _wanted(way, monkeypatch)
    expected = table.take(wanted.to_array(N))
    generator = random.Random(2)
    outcomes = []
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(generator.randrange(1, 4)):
            at = len(data) - 1 - generator.randrange(size + 8 + 4000)
            broken[at] = generator.randrange(256)
        outcomes.append(_outcome(tmp_path / "a.parquet", bytes(broken), expected, wanted, sure=False))
    assert outcomes.count("error") > 30


def test_truncated(good: tuple[bytes, pa.Table], tmp_path: Path) -> None:
    data, _ = good
    path = tmp_path / "a.parquet"
    for keep in [0, 3, 11, 12, 100, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:keep])
        with pytest.raises(CorruptFileError, match=r"a\.parquet"):
            _use(path, FIELDS, RowSelection.ALL)
    path.write_bytes(data[:-4] + b"PARE")
    with pytest.raises(UnsupportedError, match="encrypted"):
        _use(path, FIELDS, RowSelection.ALL)
    path.write_bytes(data[:-8] + b"\xff\xff\xff\x7f" + b"PAR1")
    with pytest.raises(CorruptFileError, match="footer length"):
        _use(path, FIELDS, RowSelection.ALL)


def test_file_shorter_than_the_manifest_says(good: tuple[bytes, pa.Table], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(good[0])
    io, name = open_file_io(str(path))
    for size in (len(good[0]) + 1, len(good[0]) - 1):
        with pytest.raises(PaimonError):
            by_name("parquet").open_reader(io, name, size, ReadCounters())


def test_damaged_java_files(tmp_path: Path) -> None:
    """Java's files of all types: nothing but our errors."""
    name = "append_all_types"
    if name not in fixture_names():
        pytest.skip("needs Java-written tables")
    fields = table_fields(table_path(name))
    data = sorted(table_path(name).rglob("*.parquet"))[0].read_bytes()
    generator = random.Random(3)
    errors = 0
    for turn in range(200):
        broken = bytearray(data)
        for _ in range(generator.randrange(1, 6)):
            broken[generator.randrange(len(data))] = generator.randrange(256)
        path = tmp_path / "a.parquet"
        path.write_bytes(bytes(broken))
        try:
            _use(path, fields, RowSelection.of([3, 40]) if turn % 2 else RowSelection.ALL)
        except (CorruptFileError, UnsupportedError):
            errors += 1
    assert errors > 50
