"""Java Paimon evaluates containers made here: equal positions for a thousand random predicates over all types."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.base.types import DataField, arrow_type, parse_type
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import INDEX_TYPES, supports
from paimon_pyds.storage import BytesSource
from support.effort import sampled
from support.file_indexes import agrees, predicate
from support.java_quirks import is_coarse, tells_zeros_apart
from support.oracle import Oracle, requires_java_oracle
from support.values import json_values

pytestmark = [pytest.mark.java, requires_java_oracle]

ROWS = 90
TYPES = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(18, 4)",
    "CHAR(5)", "VARCHAR(20)", "STRING", "BINARY(4)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)",
    "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(0)",
    "TIMESTAMP(5)", "TIMESTAMP(7)", "TIMESTAMP(1) WITH LOCAL TIME ZONE", "TIMESTAMP(8) WITH LOCAL TIME ZONE",
]  # fmt: skip
OPTIONS: dict[str, list[dict[str, str]]] = {
    "bloom-filter": [{"items": "50"}, {"items": "300", "fpp": "0.02"}],
    "bitmap": [{"version": "1"}, {}, {"index-block-size": "64 b"}],
    "bsi": [{}],
    "range-bitmap": [{}, {"chunk-size": "40 b"}, {"chunk-size": "0 b"}],
}
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


def random_value(rng: random.Random, text: str) -> Any:
    name = text.split("(")[0]
    match name:
        case "BOOLEAN":
            return rng.random() < 0.5
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            high = {"TINYINT": 2**7, "SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**63}[name] - 1
            return rng.choice((rng.randint(-9, 9), rng.randint(-high, high), high, -high))
        case "FLOAT" | "DOUBLE":
            odd = (0.0, -0.0, float("nan"), float("inf"), float("-inf"))
            return rng.choice((rng.choice(odd), rng.randint(-40, 40) / 4))
        case "DECIMAL":
            digits, scale = (int(part) for part in text[8:-1].split(","))
            unscaled = rng.choice((rng.randint(-300, 300), rng.randint(-(10**digits) + 1, 10**digits - 1)))
            return Decimal(unscaled).scaleb(-scale)
        case "CHAR" | "VARCHAR" | "STRING":
            return "".join(rng.choices("ab%_é中😀", k=rng.randint(0, 4)))
        case "BINARY" | "BYTES":
            return rng.randbytes(4)
        case "DATE":
            return rng.randint(-800, 800)
        case "TIME":
            return rng.randrange(86_400) * 1000
    precision = int(text.split("(")[1][0])
    return rng.randint(-3000, 3000) * 10 ** (-precision % 3 if precision else 3)


def random_column(rng: random.Random, text: str) -> pa.Array:
    pool = [random_value(rng, text) for _ in range(rng.choice((1, 5, 30, 120)))]
    nulls = rng.choice((0.0, 0.2, 0.9))
    values = [None if rng.random() < nulls else rng.choice(pool) for _ in range(ROWS)]
    return pa.array(values, arrow_type(parse_type(text)))


def random_predicate(rng: random.Random, columns: dict[str, list[Any]], depth: int) -> dict[str, Any]:
    """A tree of that depth at most. Java takes exponential time for deep ones."""
    if depth and rng.random() < 0.5:
        args = [random_predicate(rng, columns, depth - 1) for _ in range(2)]
        return {"op": rng.choice(["and", "or"]), "args": args}
    name = rng.choice(list(columns))
    literals = columns[name]
    op = rng.choice([*COMPARISONS, "eq", "in", "notin", "isnull", "isnotnull", "between"])
    count = {"isnull": 0, "isnotnull": 0, "in": rng.randint(1, 30), "notin": rng.randint(1, 30), "between": 2}.get(
        op, 1
    )
    return {"op": op, "field": name, "literals": [rng.choice(literals) for _ in range(count)]}


class Case:
    """Columns of every type with a random choice of indexes, and predicates over them."""

    def __init__(self, seed: int, path: Path) -> None:
        rng = random.Random(seed)
        self.fields = [DataField(number, f"c{number}", parse_type(text)) for number, text in enumerate(TYPES)]
        self.types = {f.name: f.type for f in self.fields}
        columns, specs, literals = [], [], {}
        for field, text in zip(self.fields, TYPES, strict=True):
            columns.append(random_column(rng, text))
            asked = pa.array([random_value(rng, text) for _ in range(5)], arrow_type(field.type))
            there = {repr(v): v for v in json_values(columns[-1].drop_null())}
            literals[field.name] = [*there.values(), *json_values(asked)]
            kinds = [k for k in INDEX_TYPES if supports(k, field.type)]
            chosen = rng.sample(kinds, rng.randint(1, len(kinds)))
            specs += [IndexSpec(field.name, None, kind, rng.choice(OPTIONS[kind])) for kind in chosen]
        builder = FileIndexBuilder(specs, self.fields)
        builder.update(pa.record_batch(columns, [f.name for f in self.fields]))
        container = builder.finish()
        assert container is not None
        path.write_bytes(container)
        self.path = path
        self.container = container
        self.predicates = [random_predicate(rng, literals, rng.choice((0, 0, 0, 1, 2))) for _ in range(400)]

    def compare(self, answers: list[Any]) -> int:
        """Hold every answer to Java's; how many could be compared."""
        index = FileIndex.open(BytesSource(self.container))
        compared = 0
        for asked, java in zip(self.predicates, answers, strict=True):
            if tells_zeros_apart(asked, self.types) or is_coarse(asked, self.types):
                continue
            compared += 1
            ours = index.evaluate(predicate(asked, self.types), ROWS, extended=False).selection
            assert agrees(ours, java), (asked, java)
        return compared


def test_java_answers_alike(oracle: Oracle, tmp_path: Path) -> None:
    cases = [Case(seed, tmp_path / f"{seed}.index") for seed in sampled(range(3), 1)]
    with oracle.batch() as batch:
        replies = [batch.index_eval(case.path, case.fields, case.predicates, ROWS) for case in cases]
    assert sum(case.compare(reply.values) for case, reply in zip(cases, replies, strict=True)) >= 300 * len(cases)
