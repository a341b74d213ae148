"""Files of the format row: what pypaimon writes, parts of it, and damage."""

from __future__ import annotations

import contextlib
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError, PaimonError, UnsupportedError
from paimon_pyds.format.avro.compression import decompressor
from paimon_pyds.format.row.decode import PADDING, RowDecoder
from paimon_pyds.metadata.schema import parse_schema
from support.data_files import fields_of
from support.effort import LONG, SEED
from support.peers import Pypaimon
from support.row_files import SCHEMA, random_rows
from support.v2_fixtures import Read, read_id, v2_copy, v2_reads, v2_table
from support.values import lines


@pytest.mark.parametrize("read", v2_reads("row_format"), ids=read_id)
def test_what_pypaimon_wrote(read: Read) -> None:
    table = pp.Table.open(v2_table(read.fixture))
    assert lines(table.scan(read.filter, columns=read.columns).to_arrow()) == read.rows


def test_random_rows_filters_and_projections(tmp_path: Path) -> None:
    other = Pypaimon(tmp_path)
    rng = random.Random(SEED)
    rows = random_rows(rng, 2_000 if LONG else 400)
    path = other.create("t", SCHEMA, [], [], {"file.format": "row", "file.block-size": "3 kb"})
    other.append("t", rows)
    table = pp.Table.open(path)
    assert any(file.suffix == ".row" for file in path.glob("bucket-0/*"))
    assert lines(table.to_arrow()) == lines(rows)
    for _ in range(8):
        columns = rng.sample(rows.column_names, rng.randint(1, 6))
        ids = sorted(rng.sample(range(rows.num_rows), rng.randint(1, 30)))
        found = table.scan(f"id IN ({', '.join(map(str, ids))})", columns=columns).to_arrow()
        assert lines(found) == lines(rows.take(ids).select(columns))


def test_vectors(tmp_path: Path) -> None:
    """Their elements have no bits that say which are NULL."""
    other = Pypaimon(tmp_path)
    kinds = {"f": pa.list_(pa.float32(), 3), "l": pa.list_(pa.int64(), 2), "n": pa.int32(), "rest": pa.string()}
    rows = pa.table(
        {
            "f": pa.array([[0.5, 1.0, -2.0], None, [3.0, 4.0, 5.5]], kinds["f"]),
            "l": pa.array([None, [1, -(2**40)], [3, 4]], kinds["l"]),
            "n": pa.array([7, 8, None], pa.int32()),
            "rest": ["a", None, "c"],
        }
    )
    path = other.create("t", pa.schema(kinds), [], [], {"file.format": "row"})
    other.append("t", rows)
    table = pp.Table.open(path)
    assert all(pa.types.is_fixed_size_list(field.type) for field in list(table.arrow_schema)[:2])
    for columns in (["f", "l", "n", "rest"], ["n"], ["l"], ["rest", "f"]):
        assert lines(table.scan(columns=columns).to_arrow()) == lines(rows.select(columns))


def test_rows_whose_columns_are_in_several_files(tmp_path: Path) -> None:
    """A file of the format is one of a group then, or has columns that newer files have, too."""
    other = Pypaimon(tmp_path)
    schema = pa.schema({name: pa.string() for name in "abcdefghij"})
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "file.format": "row"}
    path = other.create("t", schema, [], [], evolving)
    rows = pa.table({name: [f"{name}{n}" if n % 3 else None for n in range(20)] for name in schema.names})
    other.append("t", rows)
    other.update("t", "a", "a4", {"b": "new", "i": None})
    table = pp.Table.open(path)
    table.update({"j": "'ours'"}, "a = 'a5'", options={"file.format": "parquet"})
    expected = rows.to_pylist()
    expected[4] |= {"b": "new", "i": None}
    expected[5] |= {"j": "ours"}
    whole = pa.Table.from_pylist(expected, schema)
    assert lines(table.to_arrow()) == lines(whole)
    assert {Path(part.path).suffix for file in table.scan().plan().files for part in file.parts} == {
        ".row",
        ".parquet",
    }
    for columns in (["j"], ["c", "i"], ["b", "a"], ["h"]):
        assert lines(table.scan(columns=columns).to_arrow()) == lines(whole.select(columns))
        found = table.scan("_ROW_ID BETWEEN 4 AND 6 AND g IS NOT NULL", columns=columns).to_arrow()
        assert lines(found) == lines(whole.select(columns).take([4, 5]))


def _block() -> tuple[bytes, list[int], Any]:
    """The first block of the fixture, where its rows begin and end, and its columns."""
    path = v2_table("row_format")
    (file,) = path.glob("bucket-0/*.row")
    data = file.read_bytes()
    index, length = struct.unpack("<qi", data[-20:-8])
    fields = parse_schema((path / "schema" / "schema-0").read_bytes(), "s").fields
    for size in range(1, index + 1):  # the first frame ends where it can be read whole
        try:
            block = decompressor("zstandard", "f")(data[:size], 1 << 20)
        except (ValueError, OSError, EOFError):
            continue
        count = int.from_bytes(block[-4:], "little")
        if 0 < count < 1000 and 4 * count + 4 < len(block):
            end = len(block) - 4 * count - 4
            return block, [*struct.unpack(f"<{count}i", block[end:-4]), end], fields
    raise AssertionError(length)


def test_damaged_rows_are_an_error_or_other_values() -> None:
    block, bounds, fields = _block()
    names = frozenset(field.name for field in fields)
    at, limit = np.array(bounds[:-1], np.int64), np.array(bounds[1:], np.int64)
    rng = random.Random(SEED)
    refused = 0
    for _ in range(3_000 if LONG else 300):
        hostile = bytearray(block)
        for _ in range(rng.randint(1, 3)):
            hostile[rng.randrange(bounds[-1])] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            found, _ = RowDecoder(bytes(hostile) + PADDING, "f").rows(fields, names, at.copy(), limit)
        except (CorruptFileError, UnsupportedError):
            refused += 1
            continue
        for column in found.values():
            assert len(column) == len(at)
            column.validate(full=True)
    assert refused


def test_damaged_files(tmp_path: Path) -> None:
    path = v2_copy("row_format", tmp_path)
    (file,) = path.glob("bucket-0/*.row")
    whole = file.read_bytes()
    expected = lines(pp.Table.open(path).to_arrow())
    rng = random.Random(SEED)
    for _ in range(60):
        hostile = bytearray(whole)
        at = rng.choice([rng.randrange(len(whole)), rng.randrange(len(whole) - 60, len(whole))])
        hostile[at] ^= rng.randint(1, 255)
        file.write_bytes(hostile)
        with contextlib.suppress(PaimonError):
            lines(pp.Table.open(path).to_arrow())
    file.write_bytes(whole)
    assert lines(pp.Table.open(path).to_arrow()) == expected


def test_damage_of_the_index_is_an_error_or_without_effect(tmp_path: Path) -> None:
    path = v2_copy("row_format", tmp_path)
    (file,) = path.glob("bucket-0/*.row")
    whole = file.read_bytes()
    expected = lines(pp.Table.open(path).to_arrow())
    index = struct.unpack("<q", whole[-20:-12])[0]
    rng, refused = random.Random(SEED), 0
    for at in range(index, len(whole)):
        for value in {0, 0x7F, 0xFF, whole[at] ^ 1 << rng.randrange(8)} - {whole[at]}:
            file.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                assert lines(pp.Table.open(path).to_arrow()) == expected, (at, value)
            except PaimonError:
                refused += 1
    assert refused > 2 * (len(whole) - index)


def test_variants_at_cursors() -> None:
    fields = fields_of("INT", "VARIANT", "INT")
    rows = [b"\0" + b"\1\0\0\0" + b"\2ab" + b"\3xyz" + b"\5\0\0\0", b"\2" + b"\2\0\0\0" + b"\6\0\0\0"]
    ends = np.cumsum([len(row) for row in rows])
    data = b"".join(rows) + PADDING
    found, end = RowDecoder(data, "f").rows(fields, frozenset({"c1", "c2"}), np.array([0, ends[0]]), ends)
    assert found["c1"].to_pylist() == [{"value": b"ab", "metadata": b"xyz"}, None]
    assert (found["c2"].to_pylist(), end.tolist()) == ([5, 6], ends.tolist())
