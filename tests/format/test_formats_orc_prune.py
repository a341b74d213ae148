"""Stripes of ORC files are left out by the file's own statistics, and never one that holds a match."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.engine.read import FileTrace
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import ReadCounters, by_name
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage import open_file_io
from support.data_files import fields_of
from support.oracle import Oracle, requires_java_oracle

FORMAT = by_name("orc")
NAN = math.nan
INF = math.inf
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1e308, -1e308]


ROWS = 1_024
"""Rows that the encoder takes before it looks whether the stripe is full."""


def _write(path: Path, fields: tuple[DataField, ...], stripes: list[pa.RecordBatch]) -> Any:
    """A file of these stripes, each with its rows over and over, opened."""
    io, name = open_file_io(str(path))
    writer = FORMAT.open_writer(io, name, fields, {"orc.stripe.size": "1 b"})
    for stripe in stripes:
        writer.write(stripe.take(pa.array([i % stripe.num_rows for i in range(ROWS)])))
    return FORMAT.open_reader(io, name, writer.close(), ReadCounters())


def _batch(fields: tuple[DataField, ...], *columns: list[Any]) -> pa.RecordBatch:
    schema = arrow_schema(fields)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema=schema
    )


def _kept(reader: Any, fields: tuple[DataField, ...], text: str) -> list[int]:
    """The numbers of the stripes that are kept."""
    selection = reader.prune(bind(parse_filter(text), fields))
    kept = [n for n, (start, stop) in enumerate(reader.groups()) if not selection.window(start, stop).is_none]
    whole = sum(stop - start for n, (start, stop) in enumerate(reader.groups()) if n in kept)
    assert selection.count(reader.row_count) == whole
    return kept


def test_stripes_are_left_out(tmp_path: Path) -> None:
    fields = fields_of("BIGINT", "DOUBLE", "STRING", "TIMESTAMP(6)")
    stripes = [
        _batch(fields, [1, 2, None], [1.0, 2.0, None], ["a", "b", None], [1, 2, None]),
        _batch(fields, [-(2**63), 5, 5], [3.0, NAN, 3.0], ["c", "d", "e"], [3, 4, 5]),
        _batch(fields, [7, 8, 2**63 - 1], [INF, 8.0, -0.0], ["x", "y", "z"], [6, 7, 8]),
        _batch(fields, [None] * 3, [None] * 3, [None] * 3, [None] * 3),
    ]
    reader = _write(tmp_path / "a.orc", fields, stripes)
    assert reader.groups() == [(ROWS * i, ROWS * (i + 1)) for i in range(4)]
    for text, kept in {
        "c0 = 2": [0, 1], "c0 > 8": [2], "c0 < 0": [1], "c0 <> 5": [0, 1, 2], "c0 IS NULL": [0, 3], "c0 IN (3, 6)": [1],
        "c1 > 2": [1, 2], "c1 > 3": [1, 2], "c1 >= 9": [1, 2], "c1 < 1": [2], "c1 = 2": [0, 2], "c1 = 0": [2],
        "c1 > 100 AND c0 < 5": [1], "c1 < 1 OR c0 = 1": [0, 1, 2], "c1 = CAST('NaN' AS DOUBLE)": [1],
        "c2 IS NULL": [0, 3], "c2 = 'q'": [0, 1, 2], "c3 IS NOT NULL": [0, 1, 2],
    }.items():  # fmt: skip
        assert _kept(reader, fields, text) == kept, text
    assert reader.prune(Const.TRUE).is_all and reader.prune(Const.FALSE).is_none


def test_bounds_of_integers(tmp_path: Path) -> None:
    fields = fields_of("BIGINT", "DOUBLE", "STRING")
    stripes = [_batch(fields, [3, None], [1.5, 2.5], ["a", "b"]), _batch(fields, [-(2**60), 9], [1.5, 2.5], ["a", "b"])]
    for count, expected in ((1, (3, 3)), (2, (-(2**60), 9))):
        reader = _write(tmp_path / f"{count}.orc", fields, stripes[:count])
        assert [reader.bounds(field) for field in fields] == [expected, None, None]
        assert reader.bounds(DataField(9, "other", fields[0].type)) is None
    nothing = _write(tmp_path / "none.orc", fields, [_batch(fields, [None], [None], [None])])
    assert nothing.bounds(fields[0]) is None


def test_a_file_of_one_stripe_costs_no_more_bytes(tmp_path: Path) -> None:
    fields = fields_of("DOUBLE")
    _write(tmp_path / "a.orc", fields, [_batch(fields, [1.0, 2.0])]).close()
    counters = ReadCounters()
    io, name = open_file_io(str(tmp_path / "a.orc"))
    reader = FORMAT.open_reader(io, name, (tmp_path / "a.orc").stat().st_size, counters)
    before = counters.bytes_read
    assert reader.prune(bind(parse_filter("c0 > 2"), fields)).is_none
    assert reader.prune(bind(parse_filter("c0 > 1"), fields)).is_all
    assert counters.bytes_read == before


_NUMBERS = st.one_of(st.none(), st.sampled_from(SPECIAL), st.integers(-3, 3).map(float))


@given(
    st.lists(
        st.lists(st.tuples(_NUMBERS, st.one_of(st.none(), st.integers(-3, 3))), min_size=1, max_size=5), max_size=4
    ),
    st.lists(
        st.tuples(
            st.sampled_from(["c0", "c1", "c2"]),
            st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
            st.sampled_from([*SPECIAL, -1.0, 2.0, 0.5]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([" AND ", " OR "]),
)
def test_what_is_kept_holds_every_match(
    tmp_path_factory: pytest.TempPathFactory,
    stripes: list[list[tuple[float | None, int | None]]],
    tests: list[tuple[str, str, float]],
    word: str,
) -> None:
    fields = fields_of("DOUBLE", "FLOAT", "INT")
    batches = [
        _batch(fields, [f for f, _ in rows], [None if f is None else max(-1e30, min(f, 1e30)) for f, _ in rows],
               [i for _, i in rows])
        for rows in stripes
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("orc") / "a.orc"
    reader = _write(path, fields, batches)
    rows = pa.Table.from_batches(reader.read(fields, RowSelection.ALL, ROWS), arrow_schema(fields)).combine_chunks()
    text = word.join(f"{column} {operator} CAST('{value}' AS DOUBLE)" for column, operator, value in tests)
    predicate = bind(parse_filter(text), fields)
    kept = reader.prune(predicate)
    for start, stop in reader.groups():
        if kept.window(start, stop).is_none:
            (batch,) = rows.slice(start, stop - start).to_batches()
            assert not any(matches(predicate, batch).to_pylist()), text
    reader.close()


@requires_java_oracle
@pytest.mark.java
def test_stripes_of_java(tmp_path: Path, oracle: Oracle) -> None:
    """Whole numbers that ascend, and floats with a NaN first, last and alone: only what may match is decoded."""
    schema = pa.schema([("id", pa.int64()), ("d", pa.float64()), ("pad", pa.string())])
    rows = []
    for i in range(30_000):
        value = NAN if i in (0, 10_000, 29_999) or 20_000 <= i < 20_005 else float(i)
        rows.append({"id": i, "d": repr(value), "pad": f"{i * 2_654_435_761 % 2**64:020d}" * 8})
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", schema, options={"file.format": "orc", "orc.stripe.size": "65536"})
        batch.write(tmp_path, "db.t", rows)
    table = pp.Table.open(tmp_path / "db.db" / "t")
    for where, expected in {
        "id BETWEEN 25000 AND 25010": list(range(25_000, 25_011)),
        "d > 29990": [0, 10_000, *range(20_000, 20_005), *range(29_991, 30_000)],
        "d < 5": [1, 2, 3, 4],
        "d = CAST('NaN' AS DOUBLE)": [0, 10_000, *range(20_000, 20_005), 29_999],
    }.items():
        scan = table.scan(where, columns=["id"])
        assert sorted(scan.to_arrow()["id"].to_pylist()) == expected, where
        traces: list[FileTrace] = []
        list(scan.to_batches(on_file=traces.append))
        assert sum(trace.rows_after_pages or 0 for trace in traces) < 30_000, where


def test_damaged_statistics(tmp_path: Path) -> None:
    fields = fields_of("BIGINT", "DOUBLE")
    stripes = [_batch(fields, [i, i + 1], [float(i), NAN]) for i in range(3)]
    _write(tmp_path / "a.orc", fields, stripes).close()
    data = (tmp_path / "a.orc").read_bytes()
    predicate = bind(parse_filter("c0 > 1 OR c1 > 3"), fields)
    for place in range(len(data) - 400, len(data)):
        for flip in (1 << place % 8, 0xFF):
            damaged = bytearray(data)
            damaged[place] ^= flip
            (tmp_path / "b.orc").write_bytes(damaged)
            io, name = open_file_io(str(tmp_path / "b.orc"))
            try:
                FORMAT.open_reader(io, name, len(data), ReadCounters()).prune(predicate)
            except (CorruptFileError, pp.errors.UnsupportedError):
                continue
