"""Merge engines as table options: with random rows for tests beside Java, and with their models in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from support.aggregate_model import aggregator
from support.engine_model import KIND, RETRACTS, Fold, Order, Row, deduplicate, first_row
from support.oracle import Batch
from support.partial_update_model import Group, aggregation, partial_update
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


# ------------------------------------------------------------------------------------------------ with their models


@dataclass(frozen=True)
class Engine:
    """Options, what they do to the versions of a row with so many value columns, and the kinds of rows it takes."""

    options: Mapping[str, str]
    fold: Callable[[Sequence[str]], Fold]
    order: Order = field(default_factory=Order)
    kinds: Sequence[int] = (0, 0, 2, 1, 3)

    @property
    def hides_level_0(self) -> bool:
        return self.has_vectors or self.options.get("merge-engine") == "first-row"

    @property
    def has_vectors(self) -> bool:
        return self.options.get("deletion-vectors.enabled") == "true"

    @property
    def clusters(self) -> bool:
        """Whether files above level 0 are not sorted by key."""
        return self.options.get("pk-clustering-override") == "true"

    def keeps(self, row: Row) -> bool:
        """Whether a writer takes a row at all."""
        if self.options.get("ignore-delete") == "true":
            return row[KIND] not in RETRACTS
        return not (self.options.get("ignore-update-before") == "true" and row[KIND] == 1)

    @property
    def updates(self) -> bool:
        """Whether rows can be replaced."""
        return self.options.get("merge-engine") not in ("aggregation", "first-row")


def _functions(columns: Iterable[str], own: Mapping[str, str], default: str = "") -> dict[str, Any]:
    return {name: partial(aggregator, own.get(name, default)) for name in columns}


_REMOVING = {**_PARTIAL, "partial-update.remove-record-on-delete": "true"}
_GROUP = {**_PARTIAL, "fields.s.sequence-group": "a,l"}
_LAST = {**_AGGREGATION, "fields.l.aggregate-function": "sum"}
_SUMS = {
    "merge-engine": "aggregation", "fields.l.aggregate-function": "sum", "fields.a.aggregate-function": "max",
    "fields.b.aggregate-function": "first_non_null_value", "fields.default-aggregate-function": "last_non_null_value",
}  # fmt: skip
_VECTORS = {"deletion-vectors.enabled": "true"}
_FIRST_ROW = {"merge-engine": "first-row"}
_CLUSTERED = {"pk-clustering-override": "true", "clustering.columns": "b,s"}
_ADDS = (0, 0, 2)


def _newest(ignoring: bool = False) -> Callable[[Sequence[str]], Fold]:
    return lambda _: deduplicate(ignoring)


def _removing(columns: Sequence[str]) -> Fold:
    return partial_update(columns, remove_on_delete=True)


def _grouped(function: str, *, removes: bool = False) -> Callable[[Sequence[str]], Fold]:
    group = Group(["s"], ["a", "l"], _functions("l", {"l": function}), removes=removes)
    return lambda columns: partial_update(columns, groups=[group])


def _sums(columns: Sequence[str], **more: str) -> Fold:
    own = {"l": "sum", "a": "max", "b": "first_non_null_value", **more}
    return aggregation(_functions(columns, own, "last_non_null_value"))


def _sums_in_sequence(columns: Sequence[str]) -> Fold:
    return _sums(columns, s="last_value")  # as every sequence field


def _last(*, removing: bool) -> Callable[[Sequence[str]], Fold]:
    return lambda columns: aggregation(_functions(columns, {"l": "sum"}, "last_value"), remove_on_delete=removing)


MODELED: dict[str, Engine] = {
    "deduplicate": Engine({}, _newest()),
    "ignoring": Engine({"ignore-delete": "true"}, _newest(True)),
    "ignoring_before": Engine({"ignore-update-before": "true"}, _newest()),
    "sequence": Engine({"sequence.field": "s,b"}, _newest(), Order(("s", "b"))),
    "descending": Engine(
        {"sequence.field": "b,s", "sequence.field.sort-order": "descending"}, _newest(),
        Order(("b", "s"), descending=True),
    ),
    "partial": Engine(_PARTIAL, partial_update, kinds=_ADDS),
    "partial_removing": Engine(_REMOVING, _removing),
    "partial_ignoring_sequence": Engine(
        {**_PARTIAL, "sequence.field": "s", "ignore-delete": "true"},
        lambda names: partial_update(names, ignore_delete=True), Order(("s",)),
    ),
    "groups": Engine({**_GROUP, "fields.l.aggregate-function": "sum"}, _grouped("sum")),
    "groups_removing": Engine(
        {**_GROUP, "fields.l.aggregate-function": "max", "partial-update.remove-record-on-sequence-group": "s"},
        _grouped("max", removes=True),
    ),
    "sums": Engine(_SUMS, _sums, kinds=_ADDS),
    "sums_in_sequence": Engine({**_SUMS, "sequence.field": "s"}, _sums_in_sequence, Order(("s",)), kinds=_ADDS),
    "aggregation": Engine(_LAST, _last(removing=False)),
    "aggregation_removing": Engine(
        {**_LAST, "aggregation.remove-record-on-delete": "true"}, _last(removing=True)
    ),
    "first_row": Engine(_FIRST_ROW, lambda _: first_row(False), kinds=_ADDS),
    "first_row_ignoring": Engine({**_FIRST_ROW, "ignore-delete": "true"}, lambda _: first_row(True)),
    "vectors": Engine(_VECTORS, _newest()),
    "vectors_sequence": Engine(
        {**_VECTORS, "deletion-vectors.bitmap64": "true", "sequence.field": "s"}, _newest(), Order(("s",))
    ),
    "vectors_partial": Engine({**_VECTORS, **_REMOVING}, _removing),
    "vectors_sums": Engine({**_VECTORS, **_SUMS}, _sums, kinds=_ADDS),
    "clustered": Engine({**_VECTORS, **_CLUSTERED}, _newest()),
    "clustered_ignoring": Engine({**_VECTORS, **_CLUSTERED, "ignore-delete": "true"}, _newest(True)),
    "clustered_first": Engine({**_FIRST_ROW, **_CLUSTERED}, lambda _: first_row(False), kinds=_ADDS),
    "clustered_first_vectors": Engine(
        {**_FIRST_ROW, **_CLUSTERED, **_VECTORS, "ignore-delete": "true"}, lambda _: first_row(True)
    ),
}  # fmt: skip
"""Engines of tables with the value columns a, b, s, l and maybe more."""
