"""Random operations on a table of data evolution, and the same on plain rows in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paimon_pyds as pp

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
Row = dict[str, Any]


class EvolvingTable:
    """A table and its model: ``rows`` by ``id``, each with all columns; ``row_ids`` are what ids were given first.

    ``rng``: decides what is done; ``most_new``: rows that it appends at a time, at most.
    """

    def __init__(
        self, path: Path, rng: random.Random, options: dict[str, str] | None = None, most_new: int = 6
    ) -> None:
        self.rng = rng
        self.most_new = most_new
        self.nulls = rng.choice((0.15, 0.15, 0.0))
        self.rows: dict[int, Row] = {}
        self.row_ids: dict[int, int] = {}
        self.types = {"n": "INT", "s": "STRING", "f": "DOUBLE"}
        self.next_id = 0
        self.renamed = 0
        fields = {"p": "INT", "id": "BIGINT", **self.types}
        self.by_partition = rng.random() < 0.3
        parts = ["p"] if self.by_partition else []
        own = {"file.format": rng.choice(("parquet", "parquet", "orc", "avro", "row"))}
        if rng.random() < 0.3:
            own |= {
                "file-index.bitmap.columns": "n",
                "file-index.bloom-filter.columns": "s",
                "file-index.bloom-filter.s.items": "50",
            }
        self.indexed = "n" if "file-index.bitmap.columns" in own else ""
        self.table = pp.Table.create(path, fields, partition_by=parts, options={**OPTIONS, **own, **(options or {})})
        self.done: list[str] = []

    def value(self, type_: str) -> Any:
        if self.rng.random() < self.nulls:
            return None
        match type_:
            case "INT" | "BIGINT":
                return self.rng.randrange(20)
            case "DOUBLE":
                return self.rng.randrange(8) / 2
        return self.rng.choice("abcdef")

    def literal(self, value: Any) -> str:
        return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)

    def condition(self) -> tuple[str, Callable[[Row], bool]]:
        """A condition as text and on a row of the model."""
        name = self.rng.choice(["id", *self.types])
        type_ = "BIGINT" if name == "id" else self.types[name]
        if self.rng.random() < 0.15:
            step, first = self.rng.choice((17, 40)), self.rng.randrange(17)
            return f"id % {step} = {first}", lambda row: row["id"] % step == first
        if self.rng.random() < 0.15:
            return f"{name} IS NULL", lambda row: row[name] is None
        value = self.value(type_)
        while value is None:
            value = self.value(type_)
        if name == "id":
            value = self.rng.randrange(max(1, self.next_id))
        op = self.rng.choice(("=", "<", ">="))
        tests: dict[str, Callable[[Any, Any], bool]] = {
            "=": lambda a, b: a == b, "<": lambda a, b: a < b, ">=": lambda a, b: a >= b,
        }  # fmt: skip
        return f"{name} {op} {self.literal(value)}", lambda row: row[name] is not None and tests[op](row[name], value)

    def step(self) -> None:
        """One random operation."""
        names = ["append", "update", "update", "update", "delete", "merge", "add", "drop", "rename", "widen", "compact"]
        weights = [3, 3, 3, 3, 2, 2, 1, 1, 1, 1, 2]
        name = self.rng.choices(names, weights)[0]
        if name != "append" and not self.rows and name in ("update", "delete", "merge"):
            name = "append"
        self.done.append(name)
        getattr(self, f"_{name}")()

    def _fresh(self) -> Row:
        row = {"p": self.rng.randrange(2), "id": self.next_id, **{n: self.value(t) for n, t in self.types.items()}}
        self.next_id += 1
        return row

    def _append(self) -> None:
        fresh = [self._fresh() for _ in range(self.rng.randint(1, self.most_new))]
        self.table.append(fresh)
        self.rows |= {row["id"]: row for row in fresh}

    def _update(self) -> None:
        text, test = self.condition()
        names = self.rng.sample(list(self.types), self.rng.randint(1, len(self.types)))
        values = {name: self.value(self.types[name]) for name in names}
        assigned: dict[str, Any] = {name: self.literal(value) for name, value in values.items()}
        added = self.rng.random() < 0.4 and "n" in self.types and "n" in names
        if added:
            assigned["n"] = "id + 1"
        self.done[-1] += f" {assigned} where {text}"
        self.table.update(assigned, text)
        for row in filter(test, list(self.rows.values())):
            row |= values
            if added:
                row["n"] = row["id"] + 1

    def _delete(self) -> None:
        text, test = self.condition()
        self.done[-1] += f" where {text}"
        self.table.delete(text)
        self.rows = {id_: row for id_, row in self.rows.items() if not test(row)}

    def _merge(self) -> None:
        known = self.rng.sample(list(self.rows), min(len(self.rows), self.rng.randint(0, 3)))
        source = [{**self.rows[id_], **{n: self.value(t) for n, t in self.types.items()}} for id_ in known]
        fresh = [self._fresh() for _ in range(self.rng.randint(0, 2))]
        if not source and not fresh:
            return
        chosen = self.rng.sample(list(self.types), self.rng.randint(1, len(self.types)))
        values = pp.Update({name: f"source.{name}" for name in chosen})
        self.done[-1] += f" {chosen} of {known}"
        self.table.merge(source + fresh, on="id", when_matched=values, when_not_matched="insert")
        for row in source:
            self.rows[row["id"]] |= {name: row[name] for name in chosen}
        self.rows |= {row["id"]: row for row in fresh}

    def _add(self) -> None:
        if len(self.types) >= 5:
            return
        name = self.rng.choice([n for n in ("n", "s", "f", "x", "y") if n not in self.types])
        type_ = self.rng.choice(("INT", "STRING"))
        if name == self.indexed:
            type_ = "INT"
        self.done[-1] += f" {name} {type_}"
        self.table.alter(add_columns={name: type_})
        self.types[name] = type_
        for row in self.rows.values():
            row[name] = None

    def _drop(self) -> None:
        droppable = [name for name in self.types if name not in ("n", "s")]
        if not droppable:
            return
        name = self.rng.choice(droppable)
        self.done[-1] += f" {name}"
        self.table.alter(drop_columns=[name])
        del self.types[name]
        for row in self.rows.values():
            del row[name]

    def _rename(self) -> None:
        movable = [name for name in self.types if name not in ("n", "s")]
        if not movable:
            return
        old, new = self.rng.choice(movable), f"r{self.renamed}"
        self.renamed += 1
        self.done[-1] += f" {old} to {new}"
        self.table.alter(rename_columns={old: new})
        self.types[new] = self.types.pop(old)
        for row in self.rows.values():
            row[new] = row.pop(old)

    def _widen(self) -> None:
        for name, type_ in self.types.items():
            if type_ == "INT" and name != self.indexed:
                self.done[-1] += f" {name}"
                self.table.alter(change_types={name: "BIGINT"})
                self.types[name] = "BIGINT"
                return

    def _compact(self) -> None:
        self.table.compact(full=self.rng.random() < 0.5)

    def check(self) -> None:
        """The table gives the model's rows, by filters and projections too; rows keep their ids."""
        how = "\n".join(self.done)
        names = ["p", "id", *self.types]
        expected = [{name: row[name] for name in names} for row in sorted(self.rows.values(), key=lambda r: r["id"])]
        found = self.table.scan(columns=[*names, "_ROW_ID"]).to_arrow().sort_by("id").to_pylist()
        ids = {row["id"]: row.pop("_ROW_ID") for row in found}
        assert found == expected, how
        assert self.table.count() == len(expected), how
        assert len(set(ids.values())) == len(ids), how
        for id_, row_id in ids.items():
            assert self.row_ids.setdefault(id_, row_id) == row_id, how
        text, test = self.condition()
        chosen = self.rng.sample(names, self.rng.randint(1, len(names)))
        wanted = [{name: row[name] for name in chosen} for row in expected if test(row)]
        some = self.table.scan(text, columns=chosen).to_arrow().to_pylist()
        assert sorted(map(repr, some)) == sorted(map(repr, wanted)), f"{text}\n{how}"
        assert self.table.scan(text).count() == len(wanted), f"{text}\n{how}"
