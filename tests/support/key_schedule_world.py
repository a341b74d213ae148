"""Small tables with a primary key, and operations on them with a model that knows no files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import CommitConflictError, SchemaError, UnsupportedError
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from support.memory_io import MemoryIO
from support.schedule_world import (
    ONE,
    START,
    Dice,
    Row,
    Rows,
    Step,
    World,
    append_table,
    delete,
    fill,
    merge,
    overwrite,
    rescale,
    rows_of,
    same,
)
from support.schedules import repeatable

_SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("n", pa.int32()), pa.field("p", pa.int32(), False)])
_FIRST = {"merge-engine": "first-row"}
_VECTORS = {"deletion-vectors.enabled": "true"}
_SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
KEY_KINDS: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "write-only": {"write-only": "true", "bucket": "2"},
    "partitions": {"target-file-row-num": "2"},
    "changelog": {"changelog-producer": "input", "file-index.bitmap.columns": "n"},
    "greatest": {"sequence.field": "n", "write-only": "true"},
    "sums": _SUMS,
    "sums, partitions": {**_SUMS, "file.format": "avro"},
    "first": _FIRST,
    "vectors": _VECTORS,
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    "dynamic, partitions": {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "write-only": "true"},
    "later": {"bucket": "-2", "postpone.target-row-num-per-bucket": "2"},
    "vectors, partitions": {**_VECTORS, "deletion-vectors.bitmap64": "true"},
}
_OP = {"rowkind-column": "op"}


def _data(rows: Sequence[tuple[int, int, int]], kind: str = "+I") -> pa.Table:
    return append_table(rows).append_column("op", pa.array([kind] * len(rows)))


@cache
def _prepared(kind: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", "missing-columns": "null", **KEY_KINDS[kind]}
    by = ("p",) if "partitions" in kind else ()
    with repeatable(kind):
        definition = TableDefinition(from_arrow_schema(_SCHEMA), (*by, "id"), by, options)
        table = pp.Table(create_table(MemoryIO(files), "/t", definition))
        for rows in START:
            table.append(append_table(rows))
    return files


def _upsert(kind: str, rows: Rows, row: Row) -> Rows:
    """The rows after one more version."""
    own = (row[0], row[2]) if "partitions" in kind else row[0]
    old = [r for r in rows if own == ((r[0], r[2]) if "partitions" in kind else r[0])]
    if old and "first" in kind:
        return rows
    if old and "sums" in kind:
        row = (row[0], row[1] + old[0][1], row[2], old[0][3])
    if old and "greatest" in kind and old[0][1] > row[1]:
        return rows
    found = rows - Counter(old)
    found[row] += 1
    return found


class KeyWorld(World):
    """Two to four actors on a table with a primary key; its kind is one of `KEY_KINDS`."""

    def prepared(self) -> dict[str, bytes]:
        return _prepared(self.kind)

    def start(self) -> Rows:
        return Counter((*row, None) for part in START for row in part)

    def weights(self) -> dict[Callable[[Dice], Step], int]:
        found: dict[Callable[[Dice], Step], int] = {
            self._append: 5, self._compact: 4, self._full: 3, overwrite: 1, _alter: 1
        }  # fmt: skip
        if not any(word in self.kind for word in ("sums", "first", "greatest")):
            found |= {self._remove: 2, delete: 2, fill: 1, merge: 3}
        if "sums" not in self.kind and "first" not in self.kind:
            found |= {_raise: 3}
        if "dynamic" not in self.kind:
            found |= {rescale: 2}
        return found

    def _append(self, rng: Dice) -> Step:
        rows = [(rng.near(), rng.randrange(9), rng.randrange(2)) for _ in range(3)]

        def after(before: Rows) -> Rows:
            for row in rows:
                before = _upsert(self.kind, before, (*row, None))
            return before

        return Step(f"append {rows}", lambda t: t.append(append_table(rows)), after)

    def _remove(self, rng: Dice) -> Step:
        gone = [(rng.near(), 0, rng.randrange(2)) for _ in range(2)]

        def after(before: Rows) -> Rows:
            with_p = "partitions" in self.kind
            keys = [(row[0], row[2] if with_p else None) for row in gone]
            return Counter({row: n for row, n in before.items() if (row[0], row[2] if with_p else None) not in keys})

        return Step(f"remove {gone}", lambda t: t.append(_data(gone, "-D"), options=_OP), after)

    def _compact(self, _: Dice) -> Step:
        says = UnsupportedError if "vectors" in self.kind or "first" in self.kind else CommitConflictError
        return same("compact", lambda t: t.compact(executor=ONE), says)

    def _full(self, _: Dice) -> Step:
        return same("compact everything", lambda t: t.compact(full=True, executor=ONE))

    def current(self, table: pp.Table, snapshot: int) -> Rows:
        """With rows that wait on level 0 to replace those that readers see."""
        return rows_of(table, snapshot, **{"deletion-vectors.merge-on-read": "true"} if "vectors" in self.kind else {})

    def check(self) -> None:
        """Compacted, the table has the same rows; those that readers did not see before are explained, too."""
        table = self.table()
        before, count = rows_of(table), table.count()
        assert sum(before.values()) == count, self
        table.compact(full=True, executor=ONE)
        if "vectors" not in self.kind and "first" not in self.kind:
            assert rows_of(table) == before, self
        super().check()


def _raise(rng: Dice) -> Step:
    """Of two at once, each adds to what the other has left; an upsert in between is not lost."""
    key = rng.near()

    def after(before: Rows) -> Rows:
        return Counter({(r[0], r[1] + 10 * (r[0] == key), *r[2:]): count for r, count in before.items()})

    return Step(f"raise {key}", lambda t: t.update({"n": "n + 10"}, f"id = {key}", executor=ONE), after)


def _alter(rng: Dice) -> Step:
    changes: dict[str, Any] = rng.choice(
        [
            {"add_columns": {"x": "INT"}},
            {"change_types": {"n": "BIGINT"}},
            {"set_options": {"num-sorted-run.compaction-trigger": "2"}},
        ]
    )
    return same(f"alter {changes}", lambda t: t.alter(**changes), SchemaError)  # the column is there already
