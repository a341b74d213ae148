"""Many random tables on disk at once, so that one Java process can judge them all; and questions to their indexes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from paimon_pyds.base.types import DataField, DataType, MapType, parse_type
from paimon_pyds.engine.execution.live_files import index_source
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.metadata.planned_file import PlannedFile
from support.java_quirks import compares_char, escapes_in_like, has_null_literal, orders_bytes, tells_zeros_apart
from support.live_files import live_files
from support.oracle import Reply
from support.table_model import Column, Row, evaluate, to_arrow
from support.table_oracle import to_json, to_oracle
from support.table_world import FEW, NAMES, POOLS, Pools, World
from support.values import dumps, in_order, lines

JAVA_NAMES = [name for name in NAMES if "." not in name and "`" not in name]
"""Java itself loses columns with back quotes in ORC files, and rows of Parquet files by filters on names with dots."""


def pools(number: int, count: int) -> list[Pools]:
    """Sets of values for columns of every type: the same for each ``number``."""
    found: list[Pools] = []

    @seed(number)
    @settings(
        derandomize=False,
        database=None,
        max_examples=count,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(POOLS)
    def collect(drawn: Pools) -> None:
        found.append(drawn)

    collect()
    return found


def make_worlds(root: Path, batch: int, count: int) -> Iterator[World]:
    """Tables with random histories at ``root/<number>/db.db/t``."""
    values = pools(batch, count // 2)
    for number in range(count):
        rng = random.Random(batch * 1_000_003 + number)
        path = root / str(number) / "db.db" / "t"
        world = World(rng.choice(values), rng.randrange(2**48), path, [], JAVA_NAMES)
        for _ in range(rng.randint(1, 5)):
            world.step()
        yield world


def kept_lines(world: World, condition: Any = None) -> list[str]:
    """The rows that a condition keeps, as `told` has them."""
    return row_lines(world, [r for r in world.model.rows if condition is None or evaluate(condition, r)])


def row_lines(world: World, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> list[str]:
    """Rows of the model as `told` has them."""
    return one_zero(world, lines(to_arrow(rows, columns or world.model.columns)))


def one_zero(world: World, texts: list[str]) -> list[str]:
    """Java's ORC reader takes a batch of zeros of both signs for one repeated value."""
    return in_order(t.replace('"-0.0"', '"0.0"') for t in texts) if world.format == "orc" else texts


def told(reply: Reply, world: World, columns: Sequence[Column] | None = None) -> list[str]:
    """Java's rows with floats in Python's spelling: Java 17 does not always print the shortest text of a DOUBLE.

    ``columns``: of the rows; those of now by default."""
    columns = world.model.columns if columns is None else columns
    if not any("FLOAT" in str(c.type) or "DOUBLE" in str(c.type) for c in columns):
        return reply.lines
    floats = [c.name for c in columns if c.kind in ("FLOAT", "DOUBLE")]
    rows = reply.values
    for row in rows:
        row |= {name: repr(float(row[name])) for name in floats if isinstance(row.get(name), str)}
    return one_zero(world, in_order(map(dumps, rows)))


def filters(world: World, count: int) -> list[tuple[Any, dict[str, Any]]]:
    """Conditions that mean the same to Java, and their JSON."""
    types = {c.name: parse_type(c.type) for c in world.model.columns}
    found = []
    for _ in range(count * 20):
        condition = world.condition(3, micros=False)
        asked = to_oracle(condition)
        if asked is None or has_null_literal(asked) or escapes_in_like(asked):
            continue
        if tells_zeros_apart(asked, types) or orders_bytes(asked, types) or compares_char(asked, types):
            continue
        found.append((condition, asked))
        if len(found) == count:
            break
    return found


@dataclass(frozen=True)
class IndexedFile:
    """A data file that has a container, and the columns that it holds."""

    file: PlannedFile
    fields: tuple[DataField, ...]
    index: FileIndex


def indexed_files(world: World) -> list[IndexedFile]:
    """The live files that have a container."""
    found = []
    spec, files = live_files(world.table)
    for file in files:
        source = index_source(spec.io, file)
        if source is not None:
            found.append(IndexedFile(file, spec.fields_of(file), FileIndex.open(source)))
    return found


def place_types(fields: Sequence[DataField]) -> dict[str, DataType]:
    """Types of a file's columns by the names that a container has for them."""
    types: dict[str, DataType] = {}
    for field in fields:
        if isinstance(field.type, MapType):
            types |= {f"{field.name}[{key}]": field.type.value for key in ("k", "l")}
        else:
            types[field.name] = field.type
    return types


def index_questions(world: World, file: IndexedFile, count: int) -> list[dict[str, Any]]:
    """Random predicates over a file's columns under its own schema, mostly on those that its container names."""
    rng = world.random
    values: dict[str, list[Any]] = {}
    for name, type_ in place_types(file.fields).items():
        plain = str(type_.with_nullable(True))
        literals = FEW["BIGINT"] if "[" in name else range(world.next_id) if name == "id" else world.given.get(plain)
        if literals:
            values[name] = to_json(list(literals), plain)
    names = [name for name in values if file.index.head.columns.get(name)] * 3 + list(values)
    types = place_types(file.fields)
    return [question(rng, names, values, types, rng.choice((0, 0, 1, 2))) for _ in range(count)]


def question(
    rng: random.Random,
    names: Sequence[str],
    values: Mapping[str, Sequence[Any]],
    types: Mapping[str, DataType],
    depth: int,
) -> dict[str, Any]:
    """A tree of that depth at most."""
    if depth and rng.random() < 0.6:
        args = [question(rng, names, values, types, depth - 1) for _ in range(2)]
        return {"op": rng.choice(["and", "or"]), "args": args}
    name = rng.choice(names)
    ops = ["eq", "eq", "ne", "lt", "le", "gt", "ge", "in", "notin", "isnull", "isnotnull", "between"]
    if types[name].kind.value in ("CHAR", "VARCHAR"):
        ops += ["startswith", "endswith", "contains"]
    op = rng.choice(ops)
    many = rng.choice((1, 2, 4, 23))
    counts = {"isnull": 0, "isnotnull": 0, "in": many, "notin": many, "between": 2}
    pool = [v for v in values[name] if v] if op.endswith(("with", "contains")) else values[name]
    return {"op": op, "field": name, "literals": [rng.choice(pool or ["a"]) for _ in range(counts.get(op, 1))]}
