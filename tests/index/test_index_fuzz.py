"""Damaged indexes: CorruptFileError or an answer, in bounded time and memory, whatever the bytes are."""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index import roaring
from paimon_pyds.index.build import FileIndexBuilder
from paimon_pyds.index.config import INDEX_TYPES, IndexSpec, supports
from paimon_pyds.index.container import parse_head, write_container
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.predicate.tree import And, ColumnRef, Leaf, Op, Or, Predicate
from paimon_pyds.storage.base import BytesSource
from paimon_pyds.types import DataField, arrow_type, parse_type
from support.fixtures import DEV, json_lines

FUZZ = int(os.environ.get("PAIMON_PYDS_FUZZ", "1500"))
ODD = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
COLUMNS: dict[str, list[Any]] = {
    "INT": [None, *range(-40, 60), 7, 7, 7],
    "BIGINT": [-(2**63) + 1, 2**63 - 1, 0, None, 5],
    "DOUBLE": [0.0, -0.0, float("nan"), None, 1.5],
    "STRING": [None, "", "a", "ab", "😀", *(f"key{i % 37}" for i in range(90))],
    "BOOLEAN": [True, False, None, True],
    "DECIMAL(10, 2)": [Decimal("1.50"), Decimal("-3.25"), None],
    "TIMESTAMP(9)": [1, 999, 1001, None],
}
OPTIONS = {
    "bitmap": [{}, {"version": "1"}, {"index-block-size": "64 b"}],
    "range-bitmap": [{}, {"chunk-size": "32 b"}],
    "bloom-filter": [{"items": "30"}],
    "bsi": [{}],
}


def own_seeds() -> Iterator[tuple[str, str, str, bytes, int, list[Any]]]:
    """(column type, index type, column name, container, rows, literals) of every index and type."""
    for text, values in COLUMNS.items():
        type_ = parse_type(text)
        column = pa.array(values * 3, arrow_type(type_))
        literals = [v for v in values if v is not None][:4]
        for kind in INDEX_TYPES:
            for options in OPTIONS[kind] if supports(kind, type_) else ():
                builder = FileIndexBuilder([IndexSpec("c", None, kind, options)], [DataField(0, "c", type_)])
                builder.update(pa.record_batch([column], ["c"]))
                container = builder.finish()
                assert container is not None
                yield text, kind, "c", container, len(column), literals


def java_seeds() -> Iterator[tuple[str, str, str, bytes, int, list[Any]]]:
    vectors = None if DEV is None else DEV / "index_vectors.jsonl"
    for case in json_lines(vectors) if vectors is not None and vectors.exists() else ():
        given = case["columns"][0]
        text = given["type"]
        if "values" in given and len(case["container"]) < 4000 and text in COLUMNS:
            literals = [v for v in COLUMNS[text] if v is not None][:3]
            yield text, given["index"], given["name"], bytes.fromhex(case["container"]), len(given["values"]), literals


SEEDS = [*own_seeds(), *java_seeds()]


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A few bytes or words changed, mostly near the front where the lengths are; sometimes cut short or grown."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        reach = len(changed) if rng.random() < 0.5 else min(len(changed), 120)
        at = rng.randrange(reach)
        if rng.random() < 0.3 and at + 4 <= len(changed):
            word = rng.choice((0, 1, -1, 2**31 - 1, -(2**31), len(changed), rng.randrange(200), 0x10000))
            changed[at : at + 4] = word.to_bytes(4, rng.choice(("big", "little")), signed=True)
        else:
            changed[at] = rng.choice((*ODD, rng.randrange(256), changed[at] ^ 1 << rng.randrange(8)))
    cut = rng.random()
    if cut < 0.1:
        del changed[rng.randrange(len(changed)) :]
    elif cut < 0.15:
        changed += rng.randbytes(rng.randint(1, 9))
    return bytes(changed)


def questions(text: str, column: str, literals: list[Any]) -> list[Predicate]:
    ref = ColumnRef(column, (), parse_type(text))
    one = literals[0]
    asked: list[Predicate] = [Leaf(op, ref, (v,)) for op in (Op.EQ, Op.NE, Op.LT, Op.GE) for v in literals[:2]]
    asked += [Leaf(Op.IN, ref, tuple(literals)), Leaf(Op.NOT_IN, ref, tuple(literals))]
    asked += [Leaf(Op.IS_NULL, ref), Leaf(Op.IS_NOT_NULL, ref)]
    asked += [And((Leaf(Op.GE, ref, (one,)), Leaf(Op.LE, ref, (one,)))), Or((asked[0], Leaf(Op.IS_NULL, ref)))]
    return [*asked, Leaf(Op.LIKE, ref, ("k%", "\\"))] if text == "STRING" else asked


def ask_all(container: bytes, text: str, column: str, rows: int, literals: list[Any], extended: bool) -> int:
    """Ask everything; how many questions were refused. Anything but CorruptFileError fails the test."""
    try:
        index = FileIndex.open(BytesSource(container, "x.index"))
    except CorruptFileError:
        return 1
    refused = 0
    named: set[str | None] = set()
    for predicate in questions(text, column, literals):
        try:
            result = index.evaluate(predicate, rows, extended=extended)
        except CorruptFileError as error:
            named.add(error.path)
            refused += 1
        else:
            assert result.selection.is_all or not result.selection.positions or result.selection.positions.max() < rows
    assert named <= {"x.index"}
    return refused


def test_mutated_containers() -> None:
    rng = random.Random(20)
    refused, slowest = 0, 0.0
    for number in range(FUZZ):
        text, _, column, container, rows, literals = SEEDS[number % len(SEEDS)]
        began = time.process_time()
        refused += ask_all(mutated(rng, container), text, column, rows, literals, rng.random() < 0.7) > 0
        slowest = max(slowest, time.process_time() - began)
    assert refused > FUZZ // 10
    assert slowest < 2


def test_mutated_bodies_in_a_right_container() -> None:
    """The head is right, so every mutation reaches a codec."""
    rng = random.Random(21)
    refused = 0
    for number in range(FUZZ):
        text, kind, column, container, rows, literals = SEEDS[number % len(SEEDS)]
        where = parse_head(BytesSource(container)).columns[column][kind]
        body = mutated(rng, container[where.start : where.start + where.length])
        refused += ask_all(write_container({column: {kind: body}}), text, column, rows, literals, True) > 0
    assert refused > FUZZ // 10


def test_memory_stays_bounded() -> None:
    rng = random.Random(22)
    tracemalloc.start()
    try:
        for number in range(max(FUZZ // 10, 50)):
            text, _, column, container, rows, literals = SEEDS[number % len(SEEDS)]
            tracemalloc.reset_peak()
            ask_all(mutated(rng, container), text, column, rows, literals, True)
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_mutated_bitmaps() -> None:
    rng = random.Random(23)
    sets = [range(1, 9000), rng.sample(range(300_000), 2000), [5], [], range(0, 200_000, 2), [*range(70_000), 90_001]]
    seeds = [roaring.encode(BitMap(members)) for members in sets]
    refused = 0
    for number in range(FUZZ):
        data = mutated(rng, seeds[number % len(seeds)])
        try:
            bitmap = roaring.decode(data, row_count=300_000, path="x")
        except CorruptFileError:
            refused += 1
            continue
        assert not bitmap or bitmap.max() < 300_000
        assert BitMap.deserialize(data) == bitmap
    assert refused > FUZZ // 4


@pytest.mark.parametrize("seed", range(len(SEEDS)))
def test_every_truncation(seed: int) -> None:
    """A file cut anywhere is refused, or what was cut was not asked for."""
    text, _, column, container, rows, literals = SEEDS[seed]
    steps = max(1, len(container) // 60)
    for length in range(0, len(container), steps):
        assert ask_all(container[:length], text, column, rows, literals, True) == 1
