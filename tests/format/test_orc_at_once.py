"""Small ORC files that are decoded together have the rows that each has alone."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as arrow_orc
import pytest

from paimon_pyds.base.types import DataField
from paimon_pyds.format.orc.small_files import SmallFiles
from paimon_pyds.format.orc.tail import parse_tail
from support.data_files import fields_of, table_of, write_file
from support.effort import LONG, sampled

_TYPES = ["BIGINT", "STRING", "TIMESTAMP(6)", "DOUBLE", {"type": "ARRAY", "element": "STRING"}]
_CODECS = ["zstd", "zlib", "snappy", "lz4", "none"]


def _file(
    directory: Path,
    fields: Sequence[DataField],
    rows: int,
    draw: random.Random,
    options: dict[str, str],
    year: int = 2024,
) -> bytes:
    columns: list[list[Any]] = [
        [draw.randrange(1 << 40) for _ in range(rows)],
        [draw.choice(["a", None, "text " * 9]) for _ in range(rows)],
        [draw.choice([None, dt.datetime(year, 1, 2, 3, 4, 5, draw.randrange(10**6))]) for _ in range(rows)],
        [draw.choice([None, 0.5, -0.0]) for _ in range(rows)],
        [draw.choice([None, [], ["x", None]]) for _ in range(rows)],
    ]
    path = directory / "f.orc"
    path.unlink(missing_ok=True)
    write_file(path, fields, table_of(fields, *columns), options)
    return path.read_bytes()


def _repr(batch: pa.RecordBatch) -> list[str]:
    return list(map(repr, batch.to_pylist()))


@pytest.mark.parametrize("seed", range(20 if LONG else 3))
def test_files_of_several_codecs_and_sizes(tmp_path: Path, seed: int) -> None:
    draw, fields = random.Random(seed), fields_of(*_TYPES)
    counts = [draw.choice([1, 2, draw.randint(1, 400)]) for _ in range(40)]
    options = [{"file.compression": draw.choice(_CODECS)} for _ in range(2)]
    data = [_file(tmp_path, fields, count, draw, draw.choice(options)) for count in counts]
    for some in (fields, draw.sample(fields, 2), fields[2:3]):
        decoder = SmallFiles(some)
        found = decoder.decode_all(data, counts, ["f"] * len(data))
        alone = [decoder.decode(file, count, "f") for file, count in zip(data, counts, strict=True)]
        assert None not in alone
        each = [decoder.joined([one], "f") for one in found]
        assert list(map(_repr, each)) == [_repr(decoder.joined([one], "f")) for one in alone]
        assert _repr(decoder.joined(found, "f")) == [row for batch in each for row in _repr(batch)]
        assert len({id(getattr(one, "whole", one)) for one in found}) < len(found) / 2


def test_files_of_several_stripes(tmp_path: Path) -> None:
    draw, fields = random.Random(1), fields_of(*_TYPES)
    options = {"orc.stripe.size": "1 kb", "orc.row.index.stride": "1000", "file.compression": "none"}
    data = [_file(tmp_path, fields, 4_000, draw, options) for _ in range(3)]
    stripes = parse_tail(lambda start, length: data[0][start : start + length], len(data[0])).stripes
    assert len(stripes) > 1
    decoder = SmallFiles(fields)
    found = decoder.decode_all(data, [4_000] * 3, ["f"] * 3)
    alone = [decoder.decode(file, 4_000, "f") for file in data]
    assert _repr(decoder.joined(found, "f")) == _repr(decoder.joined(alone, "f"))


def test_files_that_only_the_reader_reads_leave_the_others_together(tmp_path: Path) -> None:
    """Those of another writer, of other rows than said, damaged, and with a time that nanoseconds don't hold."""
    draw, fields = random.Random(2), fields_of(*_TYPES)
    data = [_file(tmp_path, fields, 5, draw, {}) for _ in range(12)]
    counts = [5] * len(data)
    expected = [
        _repr(SmallFiles(fields).joined([one], "f")) for one in SmallFiles(fields).decode_all(data, counts, ["f"] * 12)
    ]
    plain = tmp_path / "plain.orc"
    arrow_orc.write_table(arrow_orc.read_table(tmp_path / "f.orc"), plain)
    data[2], data[4] = plain.read_bytes(), _file(tmp_path, fields, 5, draw, {}, year=1)
    counts[6] = 4
    for at in sampled(range(len(data[8])), 40):
        damaged = [*data]
        damaged[8] = data[8][:at] + bytes([data[8][at] ^ 0x41]) + data[8][at + 1 :]
        decoder = SmallFiles(fields)
        found = decoder.decode_all(damaged, counts, ["f"] * 12)
        for number, one in enumerate(found):
            if number in (2, 4, 6) or (number == 8 and one is None):
                assert one is None
            else:
                assert one is not None
                assert _repr(decoder.joined([one], "f")) == expected[number]
