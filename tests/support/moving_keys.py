"""Tables whose key may move between partitions, in plain Python: a key is in one partition, and its rows with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_pyds as pp
from support.aggregate_model import aggregator
from support.engine_model import KIND, RETRACTS, SEQ, Fold, Order, Row, deduplicate, first_row, merged, rank
from support.partial_update_model import Group, aggregation, partial_update

COLUMNS = {"p": pa.int32(), "id": pa.int64(), "q": pa.string(), "a": pa.int64(), "b": pa.string(), "l": pa.int64()}
SCHEMA = pa.schema(list(COLUMNS.items()))
VALUES = ("a", "b", "l")
KINDS = ("+I", "-U", "+U", "-D")
OP = {"rowkind-column": "op"}
_ADDS, _ALL = (0, 0, 2), (0, 0, 2, 1, 3)


@dataclass(frozen=True)
class Engine:
    """Options, what they do to the versions of a row, and the kinds of rows it takes."""

    options: Mapping[str, str]
    fold: Fold
    kinds: Sequence[int] = _ALL


def _functions(**names: str) -> dict[str, Callable[[], Any]]:
    return {column: lambda name=name: aggregator(name) for column, name in names.items()}  # type: ignore[misc]


_PARTIAL = {"merge-engine": "partial-update"}
_REMOVING = {**_PARTIAL, "partial-update.remove-record-on-delete": "true"}
_SUMS = {
    "merge-engine": "aggregation", "fields.l.aggregate-function": "sum",
    "fields.default-aggregate-function": "last_value",
}  # fmt: skip
_LAST = _functions(a="last_value", b="last_value", l="sum")
ENGINES = {
    "deduplicate": Engine({}, deduplicate(False)),
    "before": Engine({"ignore-update-before": "true"}, deduplicate(False)),
    "vectors": Engine({"deletion-vectors.enabled": "true"}, deduplicate(False)),
    "lookup": Engine({"changelog-producer": "lookup"}, deduplicate(False)),
    "input": Engine({"changelog-producer": "input"}, deduplicate(False)),
    "partial": Engine(_PARTIAL, partial_update(VALUES), _ADDS),
    "removing": Engine(_REMOVING, partial_update(VALUES, remove_on_delete=True), (0, 0, 2, 3)),
    "groups": Engine(
        {**_PARTIAL, "fields.a.sequence-group": "l", "fields.l.aggregate-function": "sum"},
        partial_update(VALUES, groups=[Group(["a"], ["l"], _functions(l="sum"))]), _ADDS,
    ),
    "aggregation": Engine(_SUMS, aggregation(_LAST), _ADDS),
    "first-row": Engine({"merge-engine": "first-row"}, first_row(False), _ADDS),
}  # fmt: skip


@dataclass
class Model:
    """What a table holds: for each commit the merged versions of its rows, in the partitions that these went to."""

    engine: Engine
    key: Sequence[str] = ("id",)
    files: list[list[Row]] = field(default_factory=list)
    count: int = 0

    def write(self, rows: Sequence[Row]) -> None:
        """Rows as they arrive."""
        places = {self._key(row): (row["p"], row["q"]) for row in self.rows()}
        numbered = []
        for row in rows:
            if row[KIND] == 1 and self.engine.options.get("ignore-update-before") == "true":
                continue
            old, new = places.get(self._key(row)), (row["p"], row["q"])
            stays = old is not None and old != new
            if stays and self._engine == "first-row":
                continue
            if stays and self._engine == "deduplicate" and row[KIND] not in RETRACTS:
                numbered.append(self._numbered(row, old, 3))
                stays = False
            places[self._key(row)] = where = old if stays and old is not None else new
            numbered.append(self._numbered(row, where, row[KIND]))
        self.files.append(self._merged(numbered))

    def overwrite(self, rows: Sequence[Row]) -> None:
        """Instead of all rows."""
        self.files = []
        self.write(rows)

    @property
    def _engine(self) -> str:
        return self.engine.options.get("merge-engine", "deduplicate")

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)

    def _numbered(self, row: Row, place: Any, kind: int) -> Row:
        self.count += 1
        return {**row, "p": place[0], "q": place[1], KIND: kind, SEQ: self.count}

    def _merged(self, rows: Sequence[Row]) -> list[Row]:
        return merged(rows, ["id", "p", "q"], Order(), self.engine.fold)

    def rows(self) -> list[Row]:
        found = self._merged([row for file in self.files for row in file])
        rows = [{name: row[name] for name in COLUMNS} for row in found if row[KIND] not in RETRACTS]
        assert len({self._key(row) for row in rows}) == len(rows)
        return in_order(rows)


def fitting(rows: Sequence[Row], engine: Engine) -> list[Row]:
    """Rows whose kinds are any numbers, of kinds that the engine takes. A delete of partial-update has no values:
    whether later rows are merged with them depends on whether a compaction has dropped it."""
    fitting = [{**row, KIND: engine.kinds[row[KIND] % len(engine.kinds)]} for row in rows]
    bare = dict.fromkeys(VALUES)
    removing = engine.options.get("merge-engine") == "partial-update"
    return [{**row, **bare} if removing and row[KIND] == 3 else row for row in fitting]


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [rank(row[name]) for name in ("id", "p", "q")])


def create(path: Path | str, engine: Engine, key: Sequence[str] = ("id",), **options: str) -> pp.Table:
    """A table of partitions p and q."""
    own = {"bucket": "-1", "dynamic-bucket.target-row-num": "5", **engine.options, **options}
    return pp.Table.create(path, SCHEMA, primary_key=list(key), partition_by=["p", "q"], options=own)


def data(rows: Sequence[Row]) -> pa.Table:
    """Rows as they are given to a writer, with their kinds as texts."""
    columns = {name: pa.array([row[name] for row in rows], type_) for name, type_ in COLUMNS.items()}
    return pa.table({"op": pa.array([KINDS[row.get(KIND, 0)] for row in rows], pa.string()), **columns})


def found(table: pp.Table) -> list[Row]:
    """The rows of a table; no key is twice in it."""
    return in_order(table.scan().to_arrow().to_pylist())
