"""Merge engines as table options, and random rows for them, for tests beside Java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from support.oracle import Batch
from support.values import dumps

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), False), ("a", pa.int32()), ("b", pa.int64()), ("c", pa.string()), ("d", pa.int64()),
        ("s", pa.int32()), ("t", pa.string()), ("u", pa.float64()),
    ]
)  # fmt: skip
_PARTIAL = {"merge-engine": "partial-update"}
_GROUPS = {**_PARTIAL, "fields.s.sequence-group": "a,b", "fields.t,u.sequence-group": "c,d"}
_AGGREGATES = {"fields.b.aggregate-function": "sum", "fields.d.aggregate-function": "last_non_null_value"}
_FIRST = {"fields.b.aggregate-function": "first_value", "fields.d.aggregate-function": "first_non_null_value"}
_IGNORING = {"fields.b.ignore-retract": "true", "fields.d.ignore-retract": "true"}
_AGGREGATION = {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate_ignoring": {"ignore-delete": "true"},
    "sequence": {"sequence.field": "s,t"},
    "sequence_descending": {"sequence.field": "u,s", "sequence.field.sort-order": "descending"},
    "partial_ignoring": {**_PARTIAL, "ignore-delete": "true"},
    "partial_ignoring_sequence": {**_PARTIAL, "ignore-delete": "true", "sequence.field": "s"},
    "partial_removing": {**_PARTIAL, "partial-update.remove-record-on-delete": "true"},
    "groups": _GROUPS,
    "groups_ignoring": {**_GROUPS, "ignore-delete": "true"},
    "groups_removing": {**_GROUPS, "partial-update.remove-record-on-sequence-group": "s"},
    "groups_removing_both": {**_GROUPS, "partial-update.remove-record-on-sequence-group": "s,u"},
    "groups_aggregates": {**_GROUPS, **_AGGREGATES},
    "groups_aggregates_ignoring": {**_GROUPS, **_AGGREGATES, **_IGNORING},
    "groups_first": {**_GROUPS, **_FIRST, **_IGNORING},
    "groups_first_ignoring": {**_GROUPS, **_FIRST, "ignore-delete": "true"},
    "groups_first_removing": {
        **_GROUPS, **_FIRST, **_IGNORING, "partial-update.remove-record-on-sequence-group": "t",
    },
    "aggregation": {**_AGGREGATION, **_AGGREGATES},
    "aggregation_removing": {
        **_AGGREGATION, "fields.b.aggregate-function": "sum", "aggregation.remove-record-on-delete": "true",
    },
    "aggregation_first": {**_AGGREGATION, **_FIRST, **_IGNORING, "sequence.field": "s"},
}  # fmt: skip


def random_rows(random: Random) -> list[dict[str, Any]]:
    def row() -> Mapping[str, Any]:
        values = {
            "a": random.randrange(9), "b": random.randrange(9), "c": random.choice("xyz"), "d": random.randrange(9),
            "s": random.randrange(4), "t": random.choice("pq"), "u": random.choice(["0.0", "-0.0", "1.5"]),
        }  # fmt: skip
        return {name: value if random.random() < 0.7 else None for name, value in values.items()}

    kinds = ["+I", "+I", "+U", "+U", "-U", "-D"]
    return [{"_kind": random.choice(kinds), "k": random.randrange(60), **row()} for _ in range(90)]


def write_kinds(batch: Batch, warehouse: Path, table: str, rows: Sequence[Mapping[str, Any]], *options: str) -> None:
    """Have Java write and commit rows, each of its kind; with options ``key=value``."""
    path = batch.oracle.scratch_file(".jsonl")
    path.write_text("".join(dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = [word for option in options for word in ("--option", option)]
    batch.add("write", warehouse, f"db.{table}", path, "--row-kind-field", "_kind", *words)
