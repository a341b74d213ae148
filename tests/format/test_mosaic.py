"""Files of the format Mosaic, by the package paimon-mosaic."""

from __future__ import annotations

import random
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import CorruptFileError, MissingColumnError, UnsupportedError
from support.data_files import fields_of, open_reader, read_file
from support.effort import SEED
from support.v2_fixtures import Read, read_id, v2_reads, v2_table
from support.values import lines

mosaic = pytest.importorskip("mosaic")
_MICROS = pa.timestamp("us")


@pytest.mark.parametrize("read", v2_reads("mosaic"), ids=read_id)
def test_what_pypaimon_wrote(read: Read) -> None:
    scan = pp.Table.open(v2_table("mosaic")).scan(read.filter, columns=read.columns)
    assert lines(scan.to_arrow()) == read.rows
    assert scan.count() == len(read.rows)


def test_row_groups_selections_and_projections(tmp_path: Path) -> None:
    rng, count = random.Random(SEED), 3_000

    def some(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    rows = pa.table(
        {
            "i": pa.array(range(count), pa.int32()),
            "t": pa.array([some(rng.choice(["", "ä", "x" * 300])) for _ in range(count)]),
            "b": pa.array([some(rng.random() < 0.5) for _ in range(count)]),
            "m": pa.array([some(Decimal(rng.randint(-999, 999)) / 10) for _ in range(count)], pa.decimal128(25, 3)),
            "ts": pa.array(
                [some(datetime(1950 + n % 100, 1, 2, 3, 4, 5, 6)) for n in range(count)], pa.timestamp("us")
            ),
        }
    )
    path = tmp_path / "a.mosaic"
    options = mosaic.WriterOptions(row_group_max_size=20_000, num_buckets=2)
    with path.open("wb") as file, mosaic.MosaicWriter(file, rows.schema, options) as writer:
        for start in range(0, count, 500):
            writer.write(rows.slice(start, 500))
    fields = from_arrow_schema(rows.schema)
    assert len(open_reader(path).groups()) > 1
    for _ in range(4):
        wanted = rng.sample(fields, rng.randint(1, 5))
        at = sorted(rng.sample(range(count), rng.choice([1, 50, count])))
        found = read_file(path, wanted, RowSelection.of(at))
        assert lines(found) == lines(rows.take(at).select([field.name for field in wanted]))
    with pytest.raises(MissingColumnError, match="'c0'"):
        read_file(path, fields_of("INT"))


def test_what_is_no_mosaic_file(tmp_path: Path) -> None:
    (whole, *_) = v2_table("mosaic").glob("bucket-0/*.mosaic")
    data = whole.read_bytes()
    for part in (b"", data[:-1], data[-32:], bytes(28) + data[-4:]):
        (tmp_path / "a.mosaic").write_bytes(part)
        with pytest.raises(CorruptFileError):
            open_reader(tmp_path / "a.mosaic")


def test_without_the_package_and_to_write_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mosaic", None)
    table = pp.Table.open(v2_table("mosaic"))
    with pytest.raises(UnsupportedError, match="pip install paimon-mosaic") as caught:
        table.to_arrow()
    assert caught.value.feature == "mosaic-files"
