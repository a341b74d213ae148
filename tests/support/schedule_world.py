"""A small table of every kind, operations on it with a model that knows no files, and orders that explain an end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.engine.execution.writing import abort_messages
from paimon_pyds.engine.rowlevel.replace_rows import replace_rows
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import (
    CommitConflictError,
    CommitError,
    CommitOutcomeUnknownError,
    PaimonError,
    SchemaError,
    UnsupportedError,
)
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from support.live_files import table_files
from support.memory_io import MemoryIO
from support.schedules import ActorIO, Killed, Schedule, repeatable

Row = tuple[int, int, int, "int | None"]
Rows = Counter[Row]
_SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("p", pa.int32())])
_NAMES = ("id", "n", "p", "x")
ONE = LocalExecutor(1)
_VECTORS = {"deletion-vectors.enabled": "true"}
_WIDE = _VECTORS | {"deletion-vectors.bitmap64": "true"}
_BUCKETS = {"bucket": "2", "bucket-key": "id"}
_INDEX = {"file-index.bitmap.columns": "id,n"}
KINDS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "rewrite": ({}, ()),
    "vectors": (_VECTORS, ()),
    "wide vectors": (_WIDE, ()),
    "small index files": (_VECTORS | {"deletion-vector.index-file.target-size": "1 b"}, ()),
    "partitions": (_VECTORS, ("p",)),
    "partitions, rewrite": (_INDEX, ("p",)),
    "buckets": (_VECTORS | _BUCKETS, ()),
    "buckets, rewrite": (_BUCKETS, ("p",)),
    "row ids": ({"row-tracking.enabled": "true"}, ()),
    "row ids, vectors": (_WIDE | {"row-tracking.enabled": "true"}, ("p",)),
    "indexes": (_VECTORS | _INDEX, ()),
    "indexes beside": (_WIDE | _INDEX | {"file-index.in-manifest-threshold": "1 b"}, ("p",)),
    "avro": (_VECTORS | {"file.format": "avro"}, ()),
    "orc": (_VECTORS | {"file.format": "orc"} | _INDEX, ("p",)),
    "range indexes": (_VECTORS | {"file-index.bsi.columns": "id", "file-index.range-bitmap.columns": "n"}, ()),
}
START = ([(0, 0, 0), (1, 2, 1), (2, 4, 0), (3, 6, 1)], [(4, 1, 0), (5, 3, 1), (6, 5, 0), (7, 7, 1)])


def append_table(rows: Sequence[tuple[int, int, int]]) -> pa.Table:
    return pa.table([[row[i] for row in rows] for i in range(3)], schema=_SCHEMA)


@cache
def _prepared(kind: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    options, partition_by = KINDS[kind]
    options = options | {"compaction.min.file-num": "2"}
    fields = from_arrow_schema(_SCHEMA)
    with repeatable(kind):
        table = pp.Table(create_table(MemoryIO(files), "/t", TableDefinition(fields, (), partition_by, options)))
        for rows in START:
            table.append(append_table(rows))
        table.delete("id = 1")
    return files


def rows_of(table: pp.Table, snapshot: int | None = None, **options: str) -> Rows:
    """All rows, of the latest snapshot or another; the column x is NULL before it is added."""
    found = table.scan(snapshot=snapshot, limit=10**6, options=options).to_arrow()
    columns = [found[n].to_pylist() if n in found.column_names else [None] * found.num_rows for n in _NAMES]
    return Counter(zip(*columns, strict=True))


# ------------------------------------------------------------------------------------------------------- operations


class Dice(random.Random):
    """Random numbers of a schedule, whose operations are about some of the rows more than about others."""

    hot = 0

    def near(self) -> int:
        """A key, or a value, that others ask for too."""
        return max(0, self.hot + self.randrange(-1, 2)) if self.random() < 0.8 else self.randrange(9)


class Step:
    """One operation of an actor.

    Attributes:
        told: what it is, for messages.
        says: errors that it may end in, on some tables.
        outcome: "done", "refused" or "unknown"; None before.
        began, ended: turns of the schedule.
        saw: the latest snapshots when it began and when it ended, of one that has found nothing to change; such an
            operation has no place in the order of those that change something, it is a reader of one snapshot.
    """

    def __init__(
        self,
        told: str,
        run: Callable[[pp.Table], Any],
        after: Callable[[Rows], Rows | None],
        says: type[PaimonError] = CommitConflictError,
    ) -> None:
        self.told, self.run, self.after, self.says = told, run, after, says
        self.outcome: str | None = None
        self.began = self.ended = -1
        self.saw: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"{self.told}: {self.outcome} ({self.began}-{self.ended})"


Change = Callable[[Row], "Sequence[Row]"]


def _each(change: Change, *new: tuple[int, int, int]) -> Callable[[Rows], Rows]:
    """Every row gives some, and new rows come."""

    def after(rows: Rows) -> Rows:
        found: Rows = Counter((*row, None) for row in new)
        for row, count in rows.items():
            for version in change(row):
                found[version] += count
        return found

    return after


def _append(rng: Dice) -> Step:
    rows = [(rng.randrange(12), rng.randrange(9), rng.randrange(2)) for _ in range(2)]
    return Step(f"append {rows}", lambda t: t.append(append_table(rows)), _each(lambda r: [r], *rows))


def delete(rng: Dice) -> Step:
    low = rng.near()
    where, meant = rng.choice(
        [
            (f"n >= {low} AND n < {low + 3}", lambda r: low <= r[1] < low + 3),
            (f"n % 4 = {low % 4}", lambda r: r[1] % 4 == low % 4),
            (f"p = {low % 2}", lambda r: r[2] == low % 2),
            (f"id >= {low}", lambda r: r[0] >= low),
        ]
    )
    return Step(f"delete {where}", lambda t: t.delete(where, executor=ONE), _each(lambda r: [] if meant(r) else [r]))


def _update(rng: Dice) -> Step:
    low = rng.near()
    where = f"n >= {low} AND n < {low + 3}"
    return Step(
        f"update n + 2, 1 - p where {where}",
        lambda t: t.update({"n": "n + 2", "p": "1 - p"}, where, executor=ONE),
        _each(lambda r: [(r[0], r[1] + 2, 1 - r[2], r[3]) if low <= r[1] < low + 3 else r]),
    )


def _update_id(rng: Dice) -> Step:
    low = rng.near() + 2
    return Step(
        f"update id + 1 where id >= {low}",
        lambda t: t.update({"id": "id + 1"}, f"id >= {low}", executor=ONE),
        _each(lambda r: [(r[0] + 1, *r[1:]) if r[0] >= low else r]),
    )


def fill(rng: Dice) -> Step:
    low = rng.near()

    def after(rows: Rows) -> Rows:
        return _each(lambda r: [(*r[:3], r[1]) if r[1] >= low else r])(rows)

    return Step(
        f"update x = n where n >= {low}",
        lambda t: t.update({"x": "n"}, f"n >= {low}", executor=ONE),
        after,
        SchemaError,  # there is no column x yet
    )


_INSERT = "INSERT (id, n, p) VALUES (source.id, source.n, 0)"


def merge(rng: Dice) -> Step:
    """Keys that may be there or not; a third of all merges only insert."""
    low = rng.near()
    keys = range(low, low + 3)
    source = pa.table({"id": pa.array(keys, pa.int64()), "n": pa.array([1, 5, 8], pa.int32())})
    new = dict(zip(keys, (1, 5, 8), strict=True))
    matched, change = rng.choice(
        [
            (None, lambda r: [r]),
            (None, lambda r: [r]),
            ("UPDATE SET n = source.n", lambda r: [(r[0], new[r[0]], *r[2:])]),
            ("target.n > 4 THEN DELETE", lambda r: [] if r[1] > 4 else [r]),
            ("target.n < 4 THEN UPDATE SET n = 9", lambda r: [(r[0], 9, *r[2:]) if r[1] < 4 else r]),
            ("DELETE", lambda r: []),
        ]
    )
    insert = matched is None or rng.random() < 0.7
    others = rng.random() < 0.2

    def run(table: pp.Table) -> Any:
        return table.merge(
            source,
            ["id"],
            when_matched=matched,
            when_not_matched=_INSERT if insert else None,
            when_not_matched_by_source=f"n < {low % 3} THEN DELETE" if others else None,
            executor=ONE,
        )

    def after(rows: Rows) -> Rows:
        there = {row[0] for row in rows}
        found = _each(
            lambda r: change(r) if r[0] in new else [] if others and r[1] < low % 3 else [r],
            *((key, n, 0) for key, n in new.items() if insert and key not in there),
        )
        return found(rows)

    return Step(f"merge {new}: {matched}, insert {insert}, others {others}", run, after)


def overwrite(rng: Dice) -> Step:
    how = rng.choice(["all", "partition", "dynamic"])
    rows = [(rng.randrange(12), rng.randrange(9), 1)]

    def run(table: pp.Table) -> Any:
        if not table.partition_by or how == "all":
            return table.overwrite(append_table(rows))
        return table.overwrite(append_table(rows), {"p": 1} if how == "partition" else None, dynamic=how == "dynamic")

    def after(rows_before: Rows, whole: bool) -> Rows:
        return _each(lambda r: [] if whole or r[2] == 1 else [r], *rows)(rows_before)

    step = Step(f"overwrite {how} {rows}", run, lambda r: after(r, whole=True))

    def run_and_see(table: pp.Table) -> Any:
        partitioned = bool(table.partition_by)
        step.after = lambda r: after(r, whole=not partitioned or how == "all")
        return run(table)

    step.run = run_and_see
    return step


def _replace(rng: Dice) -> Step:
    """Rows that were read before, by where they lie: nothing else happened to them meanwhile."""
    key, gone = rng.near(), rng.random() < 0.5
    seen: list[Row] = []

    def run(table: pp.Table) -> Any:
        place = ["__paimon_file_path", "__paimon_row_index"]
        names = [f.name for f in table.schema.fields]
        found = (
            table.scan(f"id >= {key} AND id < {key + 2}", columns=[*names, *place], limit=10**6).to_arrow().to_pylist()
        )
        seen.extend((row["id"], row["n"], row["p"], row.get("x")) for row in found)
        places: dict[str, BitMap] = {}
        for row in found:
            places.setdefault(row[place[0]], BitMap()).add(row[place[1]])
        if gone:
            return replace_rows(table._store, places, executor=ONE)
        with TableWriter(table.write_context()) as writer:
            for row in found:
                new = row | {"n": row["n"] + 1}
                writer.write(pa.RecordBatch.from_pydict({name: pa.array([new[name]], pa.int64()) for name in names}))
            versions = [writer.prepare_commit()]
        try:
            return replace_rows(table._store, places, versions, executor=ONE)
        except CommitOutcomeUnknownError:
            raise
        except Exception:
            abort_messages(table._store, versions)
            raise

    def after(rows: Rows) -> Rows | None:
        left = rows.copy()
        left.subtract(seen)
        if any(count < 0 for count in left.values()):
            return None
        return +left if gone else +left + Counter((r[0], r[1] + 1, *r[2:]) for r in seen)

    told = f"{'remove' if gone else 'replace'} the rows of ids {key}, {key + 1}"
    return Step(told, run, after, UnsupportedError)  # rows with ids can't be replaced


def same(told: str, run: Callable[[pp.Table], Any], says: type[PaimonError] = CommitConflictError) -> Step:
    return Step(told, run, lambda rows: rows, says)


def _compact(rng: Dice) -> Step:
    order = rng.choice([None, None, "n"])
    if order is not None:
        return same("compact by n", lambda t: t.compact(order_by="n", executor=ONE), UnsupportedError)
    return same("compact", lambda t: t.compact(full=True, executor=ONE))


def rescale(rng: Dice) -> Step:
    """The rows move to other buckets."""
    count = rng.randrange(1, 4)
    return same(f"rescale to {count}", lambda t: t.maintenance.rescale(count, executor=ONE))


def _alter(rng: Dice) -> Step:
    changes = rng.choice(
        [
            {"add_columns": {"x": "INT"}},
            {"add_columns": {"x": "INT"}},
            {"change_types": {"n": "BIGINT"}},
            {"set_options": {"file-index.bloom-filter.columns": "id"}},
        ]
    )
    return same(f"alter {changes}", lambda t: t.alter(**changes), SchemaError)  # the column is there already


def _reindex(rng: Dice) -> Step:
    return same("rewrite indexes", lambda t: t.index.build(rebuild=True, executor=ONE))


_WEIGHTS: dict[Callable[[Dice], Step], int] = {
    _append: 3, delete: 3, _update: 2, _update_id: 2, merge: 6, overwrite: 1, _replace: 1, _compact: 2, _alter: 1,
    fill: 1, _reindex: 1,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- worlds


@dataclass
class World:
    """Two to four actors on a table.

    Args:
        kind: of table, one of `KINDS`.
        seed: what it gives comes again.
        faults: how likely an actor's storage fails once, or it is interrupted or killed.
    """

    kind: str
    seed: int
    faults: float = 0.0

    def __post_init__(self) -> None:
        self.rng = rng = Dice(f"{self.kind} {self.seed}")
        rng.hot = rng.randrange(9)
        self.files = dict(self.prepared())
        self.actors = [[self._step() for _ in range(rng.choice([1, 1, 2]))] for _ in range(rng.choice([2, 2, 3, 3, 4]))]
        self.schedule = Schedule(rng, len(self.actors))
        self.ios = [
            ActorIO(self.schedule, n, self.files, rng if rng.random() < self.faults else None)
            for n in range(len(self.actors))
        ]

    def prepared(self) -> dict[str, bytes]:
        """The files that all begin with."""
        return _prepared(self.kind)

    def start(self) -> Rows:
        """What they hold."""
        return Counter((*row, None) for part in START for row in part if row[0] != 1)

    def _step(self) -> Step:
        weights = self.weights()
        return self.rng.choices(list(weights), list(weights.values()))[0](self.rng)

    def weights(self) -> dict[Callable[[Dice], Step], int]:
        """The operations, and how often each is one of an actor's."""
        return {**_WEIGHTS, rescale: 2} if "buckets" in self.kind else _WEIGHTS

    def table(self) -> pp.Table:
        """The table as nobody of the actors sees it."""
        return pp.Table(TableStore(MemoryIO(self.files, "/end"), "/end/t"))

    def run(self) -> None:
        """Let all actors do their work."""
        with repeatable(f"{self.kind} {self.seed} {self.faults}"):
            self.schedule.run([lambda n=n, steps=steps: self._act(n, steps) for n, steps in enumerate(self.actors)])  # type: ignore[misc]

    def _act(self, number: int, steps: Sequence[Step]) -> None:
        io = self.ios[number]
        table = pp.Table(TableStore(io, f"/{number}/t"))
        for step in steps:
            step.began, first = self.schedule.clock, self._latest()
            step.outcome = "unknown"
            try:
                result = step.run(table)
                step.outcome = "done"
                if getattr(result, "snapshot_id", 0) is None:
                    step.saw = first, self._latest()
            except CommitOutcomeUnknownError:
                pass
            except (Killed, KeyboardInterrupt):
                return
            except PaimonError as error:
                faster = isinstance(error, CommitError) and "other commits" in str(error)
                faster |= "new bucket num" in str(error)  # a rescale has altered the option, and is about to commit
                conflict = isinstance(error, CommitConflictError)
                assert conflict or isinstance(error, step.says) or faster or io.failed, f"{error!r}\n{self}"
                step.outcome = "refused"
            finally:
                step.ended = self.schedule.clock

    def _latest(self) -> int:
        numbers = (path.rpartition("/snapshot/snapshot-")[2] for path in self.files)
        return max(int(number) for number in numbers if number.isdigit())

    def check(self) -> None:
        """Some order of what was done explains the rows, and nothing lies around that has no name."""
        table = self.table()
        rows = rows_of(table)
        assert sum(rows.values()) == table.count(), self
        assert self.explains(rows), f"no order gives {sorted(rows.elements(), key=str)}\n{self}"
        for step in (s for steps in self.actors for s in steps if s.saw is not None):
            seen = [self.current(table, id_) for id_ in range(step.saw[0], step.saw[1] + 1)]
            assert any(step.after(rows) == rows for rows in seen), f"{step}\n{self}"
        names = {path.rpartition("/")[2] for path in self.files}
        if not any(io.failed for io in self.ios):
            assert names <= {"LATEST", "EARLIEST", *(p.rpartition("/")[2] for p in table_files(table._store))}, self
        if "row ids" in self.kind:
            ids = table.scan(columns=["_ROW_ID"]).to_arrow()["_ROW_ID"].to_pylist()
            assert len(set(ids)) == len(ids), self

    def current(self, table: pp.Table, snapshot: int) -> Rows:
        """What operations on rows see of a snapshot."""
        return rows_of(table, snapshot)

    def explains(self, rows: Rows) -> bool:
        """Whether some order gives these rows: of each actor's own, and after all that had ended before."""
        lines = [[s for s in steps if s.outcome in ("done", "unknown") and s.saw is None] for steps in self.actors]
        seen: set[tuple[tuple[int, ...], frozenset[tuple[Row, int]]]] = set()

        def search(at: tuple[int, ...], now: Rows) -> bool:
            left = [(n, line[i]) for n, (line, i) in enumerate(zip(lines, at, strict=True)) if i < len(line)]
            if not left:
                return now == rows
            key = (at, frozenset(now.items()))
            if key in seen:
                return False
            seen.add(key)
            for number, step in left:
                later = tuple(i + (n == number) for n, i in enumerate(at))
                if step.outcome == "unknown" and search(later, now):
                    return True
                if any(other.outcome == "done" and other.ended < step.began for _, other in left):
                    continue
                then = step.after(now)
                if then is not None and search(later, +then):
                    return True
            return False

        return search((0,) * len(lines), self.start())

    def __str__(self) -> str:
        steps = [f"  {n}: {step}" for n, line in enumerate(self.actors) for step in line]
        failed = [f"  {n}: fault at {io.failed}" for n, io in enumerate(self.ios) if io.failed]
        commits = [
            f"  {s.id}: {s.commit_kind.value} {s.operation} schema {s.schema_id}" for s in self.table().snapshots.list()
        ]
        return "\n".join([repr(self), *steps, *failed, *commits])
