"""Avro files of many blocks, whose columns are decoded at once: the same rows and errors as from records one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField
from paimon_pyds.errors import PaimonError
from paimon_pyds.format.avro import container, lockstep
from paimon_pyds.format.avro import reader as avro_reader
from paimon_pyds.format.avro.columns import LocatedRows
from paimon_pyds.format.avro.schema import put_bytes, put_long
from support.data_files import fields_of, open_reader, read_file, table_of, write_file
from support.effort import LONG
from support.strategies import ATOMS, NESTED, tables
from support.values import lines

MAP_OF_INTS = {"type": "MAP", "key": "INT NOT NULL", "value": {"type": "ARRAY", "element": "STRING"}}
TYPES = [*(t for t in ATOMS if "(9)" not in t), *NESTED, MAP_OF_INTS]


@contextmanager
def small_blocks(size: int = 120) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_reader, "BLOCK_BYTES", size)
        yield


@contextmanager
def one_by_one() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lockstep, "LEAST_BLOCKS", 1 << 40)
        yield


@contextmanager
def counted() -> Iterator[list[int]]:
    """The rows that are decoded by columns."""
    rows: list[int] = []
    batch = LocatedRows.batch

    def counting(self: LocatedRows, *arguments: Any) -> pa.RecordBatch:
        found = batch(self, *arguments)
        rows.append(self.count)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocatedRows, "batch", counting)
        yield rows


@settings(max_examples=max(12, settings.default.max_examples // 2))
@given(data=tables(types=TYPES), batch_rows=st.sampled_from([7, 1000]), seed=st.integers(0, 9))
def test_every_type(
    data: tuple[tuple[DataField, ...], pa.Table], batch_rows: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fields, table = data
    table = pa.concat_tables([table] * max(1, 700 // max(1, table.num_rows)))
    path = tmp_path_factory.mktemp("avro") / "data-1.avro"
    with small_blocks():
        write_file(path, fields, table)
    assert lines(read_file(path, fields, batch_rows=batch_rows)) == lines(table)
    picked = sorted(random.Random(seed).sample(range(table.num_rows), table.num_rows // 3))
    some = table.select(table.column_names[1:]).take(pa.array(picked, pa.int64()))
    assert lines(read_file(path, fields[1:], RowSelection.of(picked), batch_rows=batch_rows)) == lines(some)


@pytest.mark.parametrize("run", [1, 30, 400])
@pytest.mark.parametrize("type_", ["BIGINT", "BIGINT NOT NULL", "INT"])
def test_numbers_whose_sizes_stay_or_change(type_: str, run: int, tmp_path: Path) -> None:
    """Numbers of one to ten bytes, ``run`` of the same size one after the other, NULL among them."""
    fields = fields_of(type_, "STRING")
    rng = random.Random(run)
    bits = [*range(63 if type_.startswith("BIGINT") else 31), None, None]
    sizes = [size for _ in range(2400 // run) for size in [rng.choice(bits)] * run]
    numbers = [None if size is None else rng.choice([1, -1]) * rng.randrange(1 << size, 2 << size) for size in sizes]
    if type_.endswith("NOT NULL"):
        numbers = [n or 0 for n in numbers]
    table = table_of(fields, numbers, ["x" * rng.choice([0, 1, 63, 64, 200]) for _ in numbers])
    path = tmp_path / "a.avro"
    with small_blocks(2000):
        write_file(path, fields, table)
    with counted() as rows:
        assert read_file(path, fields).equals(table)
    assert rows


def _wide_table(count: int) -> tuple[tuple[DataField, ...], pa.Table]:
    fields = fields_of("BIGINT", "STRING", NESTED[0], "DECIMAL(10, 2)", MAP_OF_INTS, "BOOLEAN", "DOUBLE")
    table = table_of(
        fields, [n * 7919**3 for n in range(count)], [f"v{n}" for n in range(count)],
        [[n, None][: n % 3] for n in range(count)], [Decimal(n) for n in range(count)],
        [[(n, ["a", None])] for n in range(count)], [None if n % 5 == 0 else n % 2 == 0 for n in range(count)],
        [n / 3 for n in range(count)],
    )  # fmt: skip
    return fields, table


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_damage(codec: str, tmp_path: Path) -> None:
    """Whatever a file of many blocks has become, both ways of reading it give the same rows, or an error of ours."""
    fields, table = _wide_table(300)
    path = tmp_path / "a.avro"
    with small_blocks():
        write_file(path, fields, table, {"file.compression": codec})
    data = path.read_bytes()
    rng = random.Random(codec)
    outcomes: set[str] = set()
    for _ in range(40 if LONG else 20):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 2, 4])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        found = [_outcome(path, fields)]
        with one_by_one():
            found.append(_outcome(path, fields))
        assert found[0] == found[1]
        outcomes.add(type(found[0]).__name__)
    assert outcomes == ({"str", "list"} if codec == "none" else outcomes)


def _outcome(path: Path, fields: Any) -> Any:
    try:
        return lines(read_file(path, fields))
    except PaimonError as error:
        return type(error).__name__


@pytest.mark.parametrize("null_first", [True, False])
def test_numbers_of_every_length(null_first: bool, tmp_path: Path) -> None:
    branch = ["null", "long"] if null_first else ["long", "null"]
    numbers = [sign * (1 << bits) + delta for bits in range(63) for sign in (1, -1) for delta in (-1, 0, 1)]
    numbers += [2**63 - 1, -(2**63)]
    schema = {"type": "record", "name": "r", "fields": [{"name": "c0", "type": branch}, {"name": "c1", "type": "long"}]}
    blocks = []
    for number in numbers:
        body = bytearray()
        for value in (number, None, -number if number > -(2**63) else 0):
            put_long(body, int(null_first) if value is not None else int(not null_first))
            if value is not None:
                put_long(body, value)
            put_long(body, number)
        blocks.append((3, bytes(body)))
    path = tmp_path / "a.avro"
    path.write_bytes(container.write_container(schema, "null", blocks))
    fields = fields_of("BIGINT", "BIGINT NOT NULL")
    with counted() as rows:
        found = read_file(path, fields)
    assert rows
    expected = [v for n in numbers for v in (n, None, -n if n > -(2**63) else 0)]
    assert found.column("c0").to_pylist() == expected
    assert found.column("c1").to_pylist() == [n for n in numbers for _ in range(3)]
    with path.open("rb") as file:
        assert [r["c0"] for r in fastavro.reader(file)] == expected


def test_decimals_of_every_size(tmp_path: Path) -> None:
    """Those of more digits than the type are NULL, as where records are read one by one; so are odd encodings alike."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}
    schema = {"type": "record", "name": "r", "fields": [{"name": "c0", "type": ["null", decimal]}]}
    rng = random.Random(4)
    stored = [rng.randbytes(size) for size in range(14) for _ in range(20)]
    stored += [(10**30 + d).to_bytes(16, "big", signed=True) for d in (-1, 0, 1)]
    stored += [(-(10**30) + d).to_bytes(14, "big", signed=True) for d in (-1, 0, 1)]
    blocks = []
    for value in [*stored, None]:
        body = bytearray()
        put_long(body, 0 if value is None else 1)
        if value is not None:
            put_bytes(body, value)
        blocks.append((1, bytes(body)))
    path = tmp_path / "a.avro"
    path.write_bytes(container.write_container(schema, "null", blocks))
    with counted() as rows:
        found = read_file(path, fields_of("DECIMAL(30, 3)")).column(0).to_pylist()
    assert rows
    numbers = [int.from_bytes(value, "big", signed=True) for value in stored]
    assert found == [Decimal(n).scaleb(-3, Context(prec=60)) if abs(n) < 10**30 else None for n in numbers] + [None]


def test_blocks_of_very_different_counts_and_rows_that_may_be_null(tmp_path: Path) -> None:
    schema = ["null", {"type": "record", "name": "r", "fields": [{"name": "c0", "type": ["null", "int"]}]}]
    number, blocks = 0, []
    for block in range(60):
        body = bytearray()
        count = 1 + block % 3 if block != 30 else 4
        for _ in range(count):
            put_long(body, 1)
            put_long(body, 1)
            put_long(body, number)
            number += 1
        blocks.append((count, bytes(body)))
    path = tmp_path / "a.avro"
    path.write_bytes(container.write_container(schema, "deflate", blocks))
    with counted() as rows:
        assert read_file(path, fields_of("INT")).column(0).to_pylist() == list(range(number))
    assert rows
    path.write_bytes(container.write_container(schema, "deflate", [*blocks, (1, b"\0")]))
    with pytest.raises(PaimonError):
        read_file(path, fields_of("INT"))


def test_a_filter_is_given_its_columns_first(tmp_path: Path) -> None:
    fields, table = _wide_table(3000)
    path = tmp_path / "a.avro"
    with small_blocks(1000):
        write_file(path, fields, table)
    reader = open_reader(path)
    tried: list[list[str]] = []

    def keep(batch: pa.RecordBatch) -> pa.BooleanArray:
        tried.append(batch.schema.names)
        return pa.array(np.asarray(batch.column("c1").to_pylist()) < "v2")

    wanted = RowSelection.of(range(100, 2900, 2))
    parts = list(reader.read_where([fields[1]], [fields[0], fields[2]], keep, wanted, 500))
    found = pa.Table.from_batches([batch for batch, _ in parts])
    texts = table.column("c1").to_pylist()
    rows = [n for n in range(100, 2900, 2) if texts[n] < "v2"]
    assert found.equals(table.select(["c1", "c0", "c2"]).take(rows))
    assert [len(mask) for _, mask in parts] == [500, 500, 400]
    assert tried == [["c1"]] * 3
