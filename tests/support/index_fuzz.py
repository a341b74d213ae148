"""Containers of every index and type, ways to damage them, and everything that an index can be asked."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.types import DataField, arrow_type, parse_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.aggregate import COUNTING, IndexedColumn, index_columns
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec
from paimon_pyds.index.decode import decode_index
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import INDEX_TYPES, key_codec, supports
from paimon_pyds.sql.predicate.tree import And, ColumnRef, Leaf, Op, Or, Predicate
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import LONG
from support.fixtures import DEV, json_lines

FUZZ = int(os.environ.get("PAIMON_PYDS_FUZZ", "100000" if LONG else "600"))
BOUND = 64 << 20
"""Bytes that no damaged index may make us allocate."""
Seed = tuple[str, str, str, bytes, int, list[Any]]
"""Column type, index type, column name, container, rows, literals."""
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


def own_seeds() -> Iterator[Seed]:
    """Of every index and type."""
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


def java_seeds() -> Iterator[Seed]:
    vectors = None if DEV is None else DEV / "index_vectors.jsonl"
    for case in json_lines(vectors) if vectors is not None and vectors.exists() else ():
        given = case["columns"][0]
        text = given["type"]
        if "values" in given and len(case["container"]) < 4000 and text in COLUMNS:
            literals = [v for v in COLUMNS[text] if v is not None][:3]
            yield text, given["index"], given["name"], bytes.fromhex(case["container"]), len(given["values"]), literals


SEEDS = [*own_seeds(), *java_seeds()]


def seeds_of(kind: str) -> list[Seed]:
    """The containers with an index of one type."""
    return [seed for seed in SEEDS if seed[1] == kind]


class PeakMemory:
    """Holds what the process takes at its peak against what it took at first: whoever allocated it, C code too.

    Linux tells; elsewhere nothing is checked here, and `tracemalloc` tells what Python and numpy ask for.
    """

    EVERY = 50

    def __init__(self) -> None:
        self._before = self._reset()

    def _reset(self) -> int | None:
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            return self._peak()
        except OSError:
            return None

    @staticmethod
    def _peak() -> int:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))

    def check(self, number: int) -> None:
        """Look after every 50th input at the peak since the last look."""
        if self._before is not None and number % self.EVERY == 0:
            assert self._peak() - self._before < BOUND
            self._reset()


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


def take_whole(container: bytes, text: str, column: str, rows: int) -> int:
    """Decode each index whole, and ask for what it tells of the column; how many of these were refused."""
    type_ = parse_type(text)
    try:
        index = FileIndex.open(BytesSource(container, "x.index"))
        columns = index_columns(index, column, type_, COUNTING, rows)
        readers = [index.reader(column, kind, type_) for kind in COUNTING]
    except CorruptFileError:
        return 1
    refused = 0
    asked: list[Callable[[], object]] = [
        *(lambda r=r: decode_index(r, key_codec(type_)) for r in readers if r is not None),  # type: ignore[misc, arg-type]
        *(part for c in columns for part in whole_questions(c, rows, sums=not key_codec(type_).is_binary)),
    ]
    for question in asked:
        try:
            question()
        except CorruptFileError:
            refused += 1
    return refused


def whole_questions(column: IndexedColumn, rows: int, *, sums: bool) -> list[Callable[[], object]]:
    some = BitMap(range(0, rows, 2))

    def best(largest: bool, ties: bool) -> None:
        found, _ = column.best(None, 3, largest=largest, ties=ties, keys=not ties)
        assert not found or found.max() < rows

    def counts(within: BitMap | None) -> None:
        told = column.counts(within)
        assert told is None or int(told[1].sum()) <= rows

    asked: list[Callable[[], object]] = [
        lambda: column.nulls(None), lambda: column.nulls(some), lambda: best(True, False), lambda: best(False, True),
        lambda: counts(None), lambda: counts(some),
    ]  # fmt: skip
    return [*asked, lambda: column.total(None), lambda: column.total(some)] if sums else asked
