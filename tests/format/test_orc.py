"""ORC data files: Java's files, round trips, extremes, damage."""

from __future__ import annotations

import io
import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import assume, given

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import CorruptFileError, OptionError, PaimonError, UnsupportedError
from paimon_pyds.format import ReadCounters, by_name
from paimon_pyds.format.orc import reader
from paimon_pyds.format.orc.conversion import _booleans, _integers
from paimon_pyds.format.orc.encoding import unpack
from paimon_pyds.format.orc.tail import OrcKind, parse_stripe_footer, parse_tail
from paimon_pyds.sql.predicate.tree import Const
from support.data_files import fields_of, open_reader, read_file, table_of, write_file
from support.fixtures import requires_shared, table_fields, table_path
from support.strategies import tables
from support.values import lines

FORMAT = by_name("orc")


def _java_files(name: str) -> list[Path]:
    return sorted(table_path(name).rglob("*.orc"))


# ------------------------------------------------------------------------------------------------------ Java's files


@requires_shared
def test_projection_and_selection_of_java_files() -> None:
    fields = table_fields(table_path("append_orc"))
    path = _java_files("append_orc")[0]
    whole = read_file(path, fields)
    some = (fields[15], fields[0], fields[10])
    wanted = RowSelection.of([0, 3, 59])
    assert read_file(path, some, wanted).equals(whole.select([f.name for f in some]).take([0, 3, 59]))
    counters = ReadCounters()
    reader = open_reader(path, counters)
    assert reader.groups() == [(0, 60)]
    assert reader.prune(Const.FALSE).is_none and reader.prune(Const.TRUE).is_all
    before = counters.bytes_read
    list(reader.read(fields[:1], RowSelection.NONE, 10))
    assert counters.bytes_read == before
    list(reader.read(fields[:1], RowSelection.ALL, 10))
    assert counters.bytes_read > before


# ------------------------------------------------------------------------------------------------------- round trips


def _in_last_second(column: pa.ChunkedArray) -> bool:
    """Whether there is a timestamp that ORC does not have."""
    if not pa.types.is_timestamp(column.type):
        return False
    second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
    return any(v is not None and -second < v < 0 for v in column.cast(pa.int64()).to_pylist())


@given(data=tables())
def test_round_trip(data: tuple[tuple[DataField, ...], pa.Table], tmp_path_factory: pytest.TempPathFactory) -> None:
    fields, table = data
    assume(not any(_in_last_second(c) for c in table.columns))
    path = tmp_path_factory.mktemp("orc") / "data-1.orc"
    write_file(path, fields, table)
    found = read_file(path, fields, batch_rows=7)
    assert found.schema == table.schema
    assert lines(found) == lines(table)
    write_file(path.with_name("b.orc"), fields, table.slice(table.num_rows // 3))
    assert lines(read_file(path.with_name("b.orc"), fields)) == lines(table.slice(table.num_rows // 3))


@pytest.mark.parametrize("seed", range(8))
def test_stripes_that_are_held_have_the_same_rows(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that pyarrow reads piece by piece."""
    rng = random.Random(seed)
    kinds: list[tuple[Any, Any]] = [
        ("BIGINT", lambda i: i * rng.randrange(9)),
        ("STRING", lambda i: "x" * rng.randrange(60)),
        ("TIMESTAMP(9)", lambda i: i * 1_000_000_007),
        ({"type": "ARRAY", "element": "INT"}, lambda i: [i] * rng.randrange(4)),
        ("DECIMAL(20, 2)", lambda i: i),
    ]
    chosen = [rng.choice(kinds) for _ in range(rng.randrange(1, 9))]
    rows = rng.choice([1, 3_000, 20_000])
    fields = fields_of(*(type_ for type_, _ in chosen))
    values = [[None if rng.random() < 0.1 else value(i) for i in range(rows)] for _, value in chosen]
    path = tmp_path / "a.orc"
    options = {"file.compression": rng.choice(["zstd", "none", "snappy"]), "orc.stripe.size": "64 kb"}
    write_file(path, fields, table_of(fields, *values), options)
    wanted = rng.sample(list(fields), rng.randrange(1, len(fields) + 1))
    some = RowSelection.of(sorted(rng.sample(range(rows), max(1, rows // 3))))
    for selection in (RowSelection.ALL, some):
        held = read_file(path, wanted, selection)
        with monkeypatch.context() as patched:
            patched.setattr(reader, "HELD_BYTES", -1)
            assert held.equals(read_file(path, wanted, selection))
        assert held.num_rows == (rows if selection.is_all else len(some.to_array(rows)))


@pytest.mark.parametrize("compression", ["zstd", "ZLIB", "snappy", "lz4", "none"])
def test_compressions(compression: str, tmp_path: Path) -> None:
    fields = fields_of("BIGINT", "STRING")
    table = table_of(fields, list(range(5000)), [f"value {i % 10}" for i in range(5000)])
    path = tmp_path / "a.orc"
    write_file(path, fields, table, {"file.compression": compression})
    assert read_file(path, fields).equals(table)
    codec = parse_tail(lambda at, n: path.read_bytes()[at : at + n], path.stat().st_size).codec
    assert codec == compression.lower()


def test_stripes(tmp_path: Path) -> None:
    fields = fields_of("BIGINT", "DOUBLE")
    rng = np.random.default_rng(1)
    table = table_of(fields, rng.integers(0, 2**60, 200_000), rng.random(200_000))
    path = tmp_path / "a.orc"
    write_file(path, fields, table, {"orc.stripe.size": "512 kb"})
    counters = ReadCounters()
    reader = open_reader(path, counters)
    groups = reader.groups()
    assert len(groups) > 2
    assert groups[0][0] == 0
    assert groups[-1][1] == 200_000
    assert all(a[1] == b[0] for a, b in itertools.pairwise(groups))
    row = groups[1][0] + 5
    picked = pa.Table.from_batches(list(reader.read(fields, RowSelection.of([row, 199_999]), 10)))
    assert picked.equals(table.take([row, 199_999]))
    assert counters.row_groups_read == 2
    assert counters.bytes_read < path.stat().st_size


def test_names_with_dots(tmp_path: Path) -> None:
    row = {"type": "ROW", "fields": [{"id": 9, "name": "b", "type": "INT"}]}
    fields = (DataField(0, "a.b", parse_type("INT")), DataField(1, "a", parse_type(row)))
    table = table_of(fields, [1, None], [{"b": 5}, None])
    path = tmp_path / "a.orc"
    write_file(path, fields, table)
    assert read_file(path, fields[:1]).column(0).to_pylist() == [1, None]
    assert read_file(path, fields).equals(table)


def test_settings_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    with pytest.raises(UnsupportedError, match="brotli"):
        write_file(path, fields_of("INT"), table_of(fields_of("INT"), [1]), {"file.compression": "brotli"})
    with pytest.raises(OptionError):
        write_file(path, fields_of("INT"), table_of(fields_of("INT"), [1]), {"orc.stripe.size": "many"})
    assert not path.exists()


# --------------------------------------------------------------------------------------------------------- timestamps


def test_timestamps_that_orc_does_not_have(tmp_path: Path) -> None:
    fields = fields_of("TIMESTAMP(3)")
    with pytest.raises(UnsupportedError, match="last second before 1970"):
        write_file(tmp_path / "a.orc", fields, table_of(fields, [5, -999]))
    with pytest.raises(UnsupportedError, match="last second before 1970"):
        write_file(tmp_path / "b.orc", fields_of("TIMESTAMP(9)"), table_of(fields_of("TIMESTAMP(9)"), [-1]))


ROW = {
    "type": "ROW",
    "fields": [
        {"id": 50, "name": "t", "type": "TIMESTAMP(6)"},
        {"id": 51, "name": "m", "type": {"type": "MAP", "key": "INT NOT NULL", "value": "TIMESTAMP(3)"}},
    ],
}


def _moments(n: int, unit: int, low: int, high: int, seed: int = 1) -> list[int | None]:
    """Moments of many kinds, in counts of a unit of so many to the second; none in the last second before 1970."""
    rng = random.Random(seed)
    found: list[int | None] = []
    while len(found) < n:
        seconds, style = rng.randrange(low, high), rng.randrange(6)
        if style == 0:
            found += [seconds * unit] * 300
        elif style == 1:
            found += [(seconds + i) * unit for i in range(200)]
        elif style == 2:
            found += [None] * 7
        else:
            found.append(seconds * unit + rng.choice([0, 1, unit // 2, unit - 1]) * (seconds != -1))
    return found[:n]


@pytest.mark.parametrize("compression", ["zstd", "zlib", "snappy", "lz4", "none"])
def test_timestamps_of_every_year(compression: str, tmp_path: Path) -> None:
    pyorc = pytest.importorskip("pyorc")
    year_1, year_9999 = -62_135_596_800, 253_402_300_799
    n = 20_000
    fields = fields_of(
        "INT", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "STRING"
    )
    columns: list[list[Any]] = [
        list(range(n)),
        _moments(n, 10**3, year_1, year_9999),
        _moments(n, 10**6, year_1, year_9999, 2),
        _moments(n, 10**9, -9_000_000_000, 9_000_000_000, 3),
        _moments(n, 10**6, -3, 3, 4),
        [random.Random(i).randbytes(8).hex() for i in range(n)],
    ]
    table = table_of(fields, *columns)
    path = tmp_path / "a.orc"
    write_file(path, fields, table.slice(0, 1_999), {"file.compression": compression, "orc.stripe.size": "64 kb"})
    assert lines(read_file(path, fields)) == lines(table.slice(0, 1_999))
    write_file(tmp_path / "b.orc", fields, table, {"file.compression": compression, "orc.stripe.size": "64 kb"})
    reader = open_reader(tmp_path / "b.orc")
    assert len(reader.groups()) > 2
    assert read_file(tmp_path / "b.orc", fields, batch_rows=5000).combine_chunks().equals(table)
    rows = pyorc.Reader((tmp_path / "b.orc").open("rb"))
    theirs = [row[:3] for row in rows]
    ours = zip(columns[0], table.column(1).to_pylist(), table.column(2).to_pylist(), strict=True)
    assert [(i, _naive(a), _naive(b)) for i, a, b in theirs] == list(ours)


def _naive(value: Any) -> Any:
    return value if value is None else value.replace(tzinfo=None)


def test_nested_timestamps(tmp_path: Path) -> None:
    fields = fields_of(
        {"type": "ARRAY", "element": ROW}, "TIMESTAMP(3)", {"type": "MULTISET", "element": "DATE NOT NULL"}
    )
    rows: list[list[Any]] = [
        [[{"t": -1_500_000, "m": [(1, 7), (2, None)]}, None], None, [], [{"t": None, "m": None}]],
        [None, -1_001, 5, None],
        [[(5, 1)], None, [], None],
    ]
    table = table_of(fields, *rows)
    path = tmp_path / "a.orc"
    write_file(path, fields, pa.concat_tables([table.slice(1), table]))
    assert lines(read_file(path, fields)) == lines(pa.concat_tables([table.slice(1), table]))


@pytest.mark.parametrize("inner", ["INT", "TIMESTAMP(6)"])
@pytest.mark.parametrize("around", ["ROW", "ARRAY", "MAP"])
def test_nulls_inside_rows_that_are_not_null(around: str, inner: str, tmp_path: Path) -> None:
    row = {"type": "ROW", "fields": [{"id": 10, "name": "x", "type": inner}, {"id": 11, "name": "y", "type": "DATE"}]}
    outer = {"type": "ROW", "fields": [{"id": 12, "name": "r", "type": row}]}
    place, types = {
        "ROW": (lambda v: {"o": v}, {"type": "ROW", "fields": [{"id": 13, "name": "o", "type": outer}]}),
        "ARRAY": (lambda v: [v], {"type": "ARRAY", "element": outer}),
        "MAP": (lambda v: [("k", v)], {"type": "MAP", "key": "STRING NOT NULL", "value": outer}),
    }[around]
    fields = fields_of(outer, types)
    rows = [{"r": None}, {"r": {"x": 1, "y": 2}}, {"r": {"x": None, "y": 3}}, {"r": None}, {"r": {"x": 4, "y": None}}]
    table = table_of(fields, rows, [place(v) for v in rows])
    write_file(tmp_path / "a.orc", fields, table)
    assert lines(read_file(tmp_path / "a.orc", fields)) == lines(table)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_wide_timestamps_by_another_writer(zone: str, tmp_path: Path) -> None:
    pyorc = pytest.importorskip("pyorc")
    import datetime
    from zoneinfo import ZoneInfo

    rng = random.Random(7)
    low, high = -62_135_500_000, 253_402_200_000
    special = [-1, 0, 1, low, high, 4_000_000_000]
    picks = special + [rng.randrange(low, high) for _ in range(700)] + [5] * 40 + list(range(-900, 900, 3))
    micros = [s * 10**6 + rng.choice([0, 0, 1, 500, 120_000, 999_999]) for s in picks]
    epoch = datetime.datetime(1970, 1, 1)
    moments = [None if i % 17 == 3 else epoch + datetime.timedelta(microseconds=v) for i, v in enumerate(micros)]
    path = tmp_path / "wide.orc"
    with path.open("wb") as f, pyorc.Writer(f, "struct<c0:timestamp,c1:int>", timezone=ZoneInfo(zone)) as writer:
        for i, m in enumerate(moments):
            writer.write((m, i))
    fields = fields_of("TIMESTAMP(6)", "INT")
    found = read_file(path, fields)
    assert found.column(1).to_pylist() == list(range(len(moments)))
    expected = [row[0] for row in pyorc.Reader(path.open("rb"), timezone=ZoneInfo(zone)).read()]
    # Java's clocks know nothing before 1900: Shanghai's showed 8 hours more than UTC, not 8:05:43.
    first = datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC)
    ahead = datetime.timedelta(seconds=0 if zone == "UTC" else 343)
    by_java = [m and (m.replace(tzinfo=None) - (ahead if m < first else ahead * 0)) for m in expected]
    assert found.column(0).to_pylist() == by_java


def test_wide_nanoseconds_and_nested_ones_are_refused(tmp_path: Path) -> None:
    pyorc = pytest.importorskip("pyorc")
    import datetime

    path = tmp_path / "wide.orc"
    late = datetime.datetime(9999, 1, 1)
    with path.open("wb") as f, pyorc.Writer(f, "struct<c0:timestamp,c1:array<timestamp>>") as writer:
        writer.write((late, [late]))
    assert read_file(path, fields_of("TIMESTAMP(3)")).column(0).to_pylist() == [late]
    with pytest.raises(UnsupportedError, match="1677 to 2262"):
        read_file(path, fields_of("TIMESTAMP(9)"))
    with pytest.raises(UnsupportedError, match="nested timestamps"):
        read_file(path, fields_of("TIMESTAMP(3)", {"type": "ARRAY", "element": "TIMESTAMP(3)"}))


def test_run_lengths_of_the_specification() -> None:
    # The examples of the ORC specification, Run Length Encoding version 2.
    assert _integers(bytes.fromhex("0a2710"), 5, False, None).tolist() == [10000] * 5
    direct = bytes.fromhex("5e035ca1ab1edeadbeef")
    assert _integers(direct, 4, False, None).tolist() == [23713, 43806, 57005, 48879]
    delta = bytes.fromhex("c609020222424246")
    assert _integers(delta, 10, False, None).tolist() == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    patched = bytes.fromhex("8e132b2107d01e0014702832 3c46505a646e78828c96a0aab4be fce8".replace(" ", ""))
    expected = [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)]
    assert _integers(patched, 20, False, None).tolist() == expected
    assert _booleans(bytes.fromhex("fd4445"), 0, None).tolist() == []
    assert _booleans(bytes.fromhex("ff80"), 8, None).tolist() == [True] + [False] * 7
    for broken in (b"", b"\x5e", b"\x5e\x03\x5c", patched[:9]):
        with pytest.raises(CorruptFileError):
            _integers(broken, 20, False, None)
    with pytest.raises(CorruptFileError):
        _booleans(b"\xff", 8, None)


@pytest.mark.parametrize("signed", [True, False])
def test_run_lengths_of_another_writer(signed: bool) -> None:
    """What pyarrow encodes as LONG (signed) or as lengths of strings (unsigned) is decoded to the same."""
    rng = np.random.default_rng(3)
    parts = [np.repeat(7, 30), np.arange(600) * 3, rng.integers(0, 100, 700), rng.integers(0, 100, 600)]
    parts[3][::100] = 3000
    values = np.concatenate(parts).astype(np.int64)
    if signed:
        values = np.concatenate([values, -values, rng.integers(-(2**62), 2**62, 300), [-(2**63), 2**63 - 1]])
        column = pa.array(values)
    else:
        column = pa.array(["x" * int(v) for v in values])
    sink = io.BytesIO()
    orc.write_table(pa.table({"a": column}), sink, compression="uncompressed", dictionary_key_size_threshold=0.0)
    data = sink.getvalue()
    tail = parse_tail(lambda at, n: data[at : at + n], len(data))
    stripe = tail.stripes[0]
    at = stripe.offset + stripe.index_length + stripe.data_length
    footer = parse_stripe_footer(data[at : at + stripe.footer_length], stripe, tail)
    stream = next(s for s in footer.streams if s.column == 1 and s.kind == (1 if signed else 2))
    words = _integers(data[stream.offset : stream.offset + stream.length], len(values), signed, None)
    assert words.view(np.int64).tolist() == values.tolist()


# ------------------------------------------------------------------------------------------------------------- damage


def test_what_is_no_orc_file(tmp_path: Path) -> None:
    for content in (b"", b"ORC", b"PAR1" * 10, b"\xff" * 100):
        path = tmp_path / "a.orc"
        path.write_bytes(content)
        with pytest.raises(CorruptFileError):
            open_reader(path)


def test_wrong_columns(tmp_path: Path) -> None:
    fields = fields_of("INT", {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "INT"}]})
    path = tmp_path / "a.orc"
    write_file(path, fields, table_of(fields, [1], [{"x": 1}]))
    other = {"type": "ROW", "fields": [{"id": 5, "name": "y", "type": "INT"}]}
    for wrong in ((DataField(7, "missing", parse_type("INT")),), fields_of("BIGINT"), fields_of("INT", other)):
        with pytest.raises(CorruptFileError):
            read_file(path, wrong)


def test_unpack_refuses_bombs_and_overruns() -> None:
    for codec, data in [
        ("zlib", b"\xff\xff\x7f"),
        ("zstd", b"\x08\x00\x00abcd"),
        ("snappy", b"\x0a\x00\x00\xff\xff\xff\x7f\x00"),
    ]:
        with pytest.raises(CorruptFileError):
            unpack(data, codec, 1000)
    with pytest.raises(CorruptFileError):
        unpack(b"\x04\x00\x00\x1fab"[:6], "lz4", 1000)
    with pytest.raises(UnsupportedError):
        unpack(b"\x00", "brotli", 1000)
    many = b"\x03\x00\x00a" * 50
    with pytest.raises(CorruptFileError):
        unpack(many, "zlib", 1000, limit=10)
    assert unpack(many, "zlib", 1000) == b"a" * 50


def test_kinds() -> None:
    assert OrcKind(18) is OrcKind.TIMESTAMP_INSTANT


@requires_shared
def test_damaged_tails() -> None:
    """Every error of a damaged footer is one of ours, or the file reads."""
    data = _java_files("append_orc")[0].read_bytes()
    rng = random.Random(5)
    begin = len(data) - 3000
    refused = 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 3])):
            damaged[rng.randrange(begin, len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            damaged = damaged[: rng.randrange(len(damaged))]
        try:
            parse_tail(lambda at, n, d=bytes(damaged): d[at : at + n], len(damaged))  # type: ignore[misc]
        except PaimonError:
            refused += 1
    assert refused > 50
