"""Tables with Iceberg metadata that random operations change, for tests of what Iceberg's readers see."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_pyds as pp

OPTIONS = {
    "metadata.iceberg.storage": "table-location",
    "metadata.iceberg.manifest-compression": "zstd",
    "metadata.iceberg.compaction.min.file-num": "3",
    "metadata.iceberg.compaction.max.file-num": "4",
    "snapshot.num-retained.max": "6",
    "snapshot.num-retained.min": "3",
    "commit.user-prefix": "model",
}
VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
}
COLUMNS = (
    "k BIGINT NOT NULL, p STRING, f DOUBLE, t TIMESTAMP(6), l ARRAY<ROW<x INT, y ARRAY<STRING>>>, m MAP<STRING, INT>"
)
KINDS = {
    "append": ({}, {"partition_by": ["p"]}),
    "append-float-partition": ({}, {"partition_by": ["f", "p"]}),
    "append-vectors": (VECTORS, {"partition_by": ["p"]}),
    "key": ({"bucket": "1"}, {"primary_key": "k"}),
    "key-vectors": ({"bucket": "1", **VECTORS}, {"primary_key": "k"}),
}


def made(path: Path, kind: str, **more: str) -> pp.Table:
    own, shape = ({}, {"partition_by": ["k"]}) if kind == "append-first-column" else KINDS[kind]
    table: pp.Table = pp.Table.create(path / "t", COLUMNS, options={**OPTIONS, **own, **more}, **shape)  # type: ignore[arg-type]
    return table


def some_rows(table: pp.Table, draw: random.Random) -> pa.Table:
    def row() -> dict[str, Any]:
        full = {
            "k": draw.randrange(12),
            "p": draw.choice(["a", "b", None, "ä"]),
            "f": draw.choice([0.0, -0.0, 1.5, float("nan"), None]),
            "t": draw.choice([None, dt.datetime(2026, 1, 1, 0, 0, 0, 1), dt.datetime(1969, 12, 31, 23, 59, 59)]),
            "l": draw.choice([None, [], [{"x": 1, "y": ["q", None]}, None]]),
            "m": draw.choice([None, [("a", 1), ("b", None)]]),
        }
        return {name: full.get(name, draw.randrange(5)) for name in table.arrow_schema.names}

    return pa.Table.from_pylist([row() for _ in range(draw.randrange(1, 5))], schema=table.arrow_schema)


def shown(table: pp.Table) -> pa.Table:
    """What Iceberg's readers should see."""
    merged = table.primary_key and "deletion-vectors.enabled" not in table.options
    return table.system.read("ro") if merged else table.to_arrow()


def step(table: pp.Table, draw: random.Random, number: int) -> str:
    rows = some_rows(table, draw)
    names, tags, ids = rows.schema.names, list(table.tags.list()), [s.id for s in table.snapshots.list()]
    done = draw.choice(["append"] * 5 + ["late", "delete", "update", "compact", "full", "overwrite", "tag", "untag",
                                         "alter", "back", "expire"])  # fmt: skip
    match done:
        case "append":
            table.append(rows)
        case "late":  # a writer that stops before it publishes, and the next one
            table.append(rows, options={"metadata.iceberg.storage": "disabled"})
            table.append(rows)
        case "delete":
            table.delete(f"k < {draw.randrange(8)}")
        case "update":
            table.update({"m": "NULL"}, f"k > {draw.randrange(12)}")
        case "compact" | "full":
            table.compact(full=done == "full")
        case "overwrite":
            table.overwrite(rows)
        case "tag" if ids:
            table.tags.create(f"t{number}", draw.choice(ids[-2:]))
        case "untag" if tags:
            table.tags.delete(draw.choice(tags))
        case "alter" if "n" not in names:
            table.alter(add_columns={"n": "INT"})
        case "alter":
            table.alter(rename_columns={"n": f"n{number}"})
        case "back" if len(ids) > 2:
            table.snapshots.rollback(draw.choice(ids[-3:]))
        case "expire" if ids:
            table.snapshots.expire(retain_max=2, retain_min=1)
    return done
