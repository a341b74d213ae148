"""Steps of a random table that change rows and files in place: delete, update, merge, compact, rewrite of indexes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import paimon_pyds as pp
from support.table_model import Column, Model, Row, State, evaluate, literal, to_sql

SETTABLE = ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "STRING", "DATE", "DECIMAL(4, 2)")
"""Types of columns that updates set."""
_ID = 0
"""The column that tells rows apart."""


class RowChanges:
    """What `World` mixes in."""

    table: pp.Table
    model: Model
    random: random.Random
    log: list[str]
    pools: dict[int, list[Any]]
    bucket_key: list[str]
    vectors = False
    """Whether rows may be deleted by deletion vectors: counts of snapshots are then those of physical rows."""

    def pick(self, choices: Sequence[Any]) -> Any:
        raise NotImplementedError

    def rows(self, low: int, high: int, fixed: dict[int, Any] | None = None) -> list[Row]:
        raise NotImplementedError

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        raise NotImplementedError

    def condition(self, depth: int, micros: bool) -> Any:
        raise NotImplementedError

    def how(self) -> dict[str, Any]:
        """More arguments of operations."""
        return {}

    def _changed(self, snapshot_id: int | None, rows: list[Row]) -> None:
        """A snapshot that appended nothing."""
        if snapshot_id is None:
            assert len(rows) == len(self.model.rows)
            return
        self.vectors = self.vectors or self.table.options.get("deletion-vectors.enabled") == "true"
        self.model.rows = rows
        self.model.states.append(State(self.model.columns, rows, None))

    def delete(self) -> None:
        condition = self.condition(2, micros=True)
        left = [row for row in self.model.rows if evaluate(condition, row) is not True]
        self.log.append(f"delete {to_sql(condition)}: {len(self.model.rows) - len(left)} rows")
        summary = self.table.delete(to_sql(condition))
        assert summary.rows_deleted == len(self.model.rows) - len(left)
        self._changed(summary.snapshot_id, left)

    def update(self) -> None:
        fixed = {*self.model.partition_by, *self.bucket_key, "id"}
        columns = [c for c in self.model.columns if c.type in SETTABLE and c.name not in fixed]
        if not columns:
            return
        column: Column = self.pick(columns)
        value = self.pick([None, *self.pools[column.uid]])
        condition = self.condition(1, micros=True)
        text = f"CAST({literal(value, column.type)} AS {column.type})"
        self.log.append(f"update {column.name} = {text} where {to_sql(condition)}")
        hit = [evaluate(condition, row) is True for row in self.model.rows]
        summary = self.table.update({column.name: text}, to_sql(condition))
        assert summary.rows_updated == sum(hit)
        self._changed(summary.snapshot_id, [
            self._with(row, column, value) if h else row for row, h in zip(self.model.rows, hit, strict=True)
        ])  # fmt: skip

    def _with(self, row: Row, column: Column, value: Any) -> Row:
        """The row as it is typed now, with one value set."""
        return self.model.row({**{c.uid: row.get(c) for c in self.model.columns}, column.uid: value})

    def merge(self) -> None:
        """Rows with ids that are known and that are not, by their ids."""
        known = self.random.sample([row.values[_ID] for row in self.model.rows], min(len(self.model.rows), 4))
        source = self.rows(0, 3) + [row for id_ in known for row in self.rows(1, 1, {_ID: id_})]
        matched, inserts = self.pick(["update", "delete", None]), self.pick(["insert", None])
        condition = self.pick([None, None, self.condition(1, micros=True)])
        if matched is None and inserts is None and condition is None:
            return
        other = None if condition is None else f"{to_sql(condition)} THEN DELETE"
        self.log.append(f"merge {self.arrow(source).to_pylist()}: {matched}, {inserts}, {other}")
        summary = self.table.merge(
            self.arrow(source),
            ["id"],
            when_matched=matched,
            when_not_matched=inserts,
            when_not_matched_by_source=other,
            **self.how(),
        )
        given = {row.values[_ID]: row for row in source}
        hit = [row for row in self.model.rows if row.values[_ID] in given]
        rest = [row for row in self.model.rows if row.values[_ID] not in given]
        kept = [row for row in rest if condition is None or evaluate(condition, row) is not True]
        changed = hit if matched is None else [given[row.values[_ID]] for row in hit] if matched == "update" else []
        fresh = [row for row in source if row.values[_ID] not in known] if inserts else []
        assert summary.rows_inserted == len(fresh)
        assert summary.rows_updated == (len(hit) if matched == "update" else 0)
        assert summary.rows_deleted == len(rest) - len(kept) + (len(hit) if matched == "delete" else 0)
        if summary.snapshot_id is not None and not summary.files_touched:
            self.model.append(fresh)  # nothing left its place: an append like any other
        else:
            self._changed(summary.snapshot_id, kept + changed + fresh)

    def compact(self) -> None:
        self.log.append("compact")
        summary = self.table.compact()
        self._changed(summary.snapshot_id, list(self.model.rows))

    def reindex(self) -> None:
        self.log.append("rewrite_file_index")
        summary = self.table.index.build(rebuild=self.random.random() < 0.3)
        self._changed(summary.snapshot_id, list(self.model.rows))
