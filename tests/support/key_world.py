"""A table with a primary key on disk and its model, changed in step by random choices.

`World` gives columns, options, changes of columns and conditions; what is written, compacted and asked is here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import CommitConflictError, UnsupportedError
from paimon_pyds.metadata.commit_message import CommitMessage
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.snapshot import CommitKind
from support.engine_model import KIND, Row, rank
from support.key_model import KINDS, Engine, KeyModel, arrow, plain
from support.table_model import Column, as_text, evaluate, literal, order, to_sql
from support.table_world import FORMATS, Pools, World, numbered

VALUES = {"a": "BIGINT", "b": "STRING", "s": "INT", "l": "BIGINT"}
"""Columns that engines name."""
_OP = {"rowkind-column": "op"}
_LAYOUT: dict[str, list[str]] = {
    "write-buffer-size": ["1 b", "1 kb"],
    "target-file-row-num": ["3", "7"],
    "target-file-size": ["1 kb", "3 kb"],
    "parquet.page.row.count.limit": ["2"],
    "parquet.enable.dictionary": ["false"],
    "metadata.stats-mode": ["none", "counts", "truncate(1)", "full"],
    "metadata.stats-dense-store": ["false"],
    "manifest.merge-min-count": ["2"],
    "manifest.full-compaction-threshold-size": ["1 b"],
    "num-sorted-run.compaction-trigger": ["1", "2", "3"],
    "compaction.size-ratio": ["30"],
    "compaction.max-size-amplification-percent": ["50", "100000"],
    "compaction.force-rewrite-all-files": ["true"],
    "changelog-producer": ["input", "lookup", "full-compaction"],
    "full-compaction.delta-commits": ["1", "3"],
    "write-only": ["true"],
    "spill-compression": ["none", "lz4"],
}
_ALTERED = ["target-file-row-num", "target-file-size", "num-sorted-run.compaction-trigger", "metadata.stats-mode",
            "write-buffer-size", "compaction.size-ratio", "write-only"]  # fmt: skip


@dataclass(frozen=True)
class _Cells:
    """A row, for conditions."""

    row: Row

    def get(self, column: Column) -> Any:
        return self.row[column.name]


class KeyWorld(World):
    """One table, its model, and the choices."""

    model_type = KeyModel
    formats = (*FORMATS, "row")

    def __init__(self, engines: Sequence[Engine], pools: Pools, seed: int, path: Path, log: list[str]) -> None:
        self.given = pools
        self.random = random.Random(seed)
        self.log = log
        self.next_uid = 10
        self.pools: dict[int, list[Any]] = {}
        self.engine = engine = self.pick(engines)
        self.path = path
        self.format = self.pick(self.formats)
        self.names = ["x1", "x2", "x3", "X1", "y"]
        keys = [self._key_column(f"k{n}") for n in range(self.pick([1, 1, 1, 2, 2, 3]))]
        by = [self._partition_column(name) for name in ["p1", "p2"][: self.pick([0, 0, 1, 1, 2])]]
        values = [self._typed(name, type_, 4) for name, type_ in VALUES.items()]
        more = [self._more(name) for name in self.some(self.names, 0, 2)]
        columns = [*keys, *by, *values, *more]
        self.random.shuffle(columns)
        key = [c.name for c in (*keys, *by)]
        self.random.shuffle(key)
        self.bucket_key = [*key, *VALUES]  # what `alter` leaves alone
        fields = [DataField(i * 100, c.name, parse_type(numbered(c.type, i * 100))) for i, c in enumerate(columns)]
        by_names = tuple(c.name for c in by)
        self.keys = keys
        self.model: Any = self.model_type(engine, tuple(key), by_names, tuple(columns))
        options = self._options(keys, [c for c in columns if c not in by])
        self.model.looks_up = engine.hides_level_0 or options.get("changelog-producer") == "lookup"
        self.log.append(f"create {[(c.name, c.type) for c in columns]} key {key} by {by_names} {options}")
        self.table = pp.Table.create(path, fields, primary_key=key, partition_by=by_names, options=options)
        self.states: dict[int, list[str]] = {}
        self.altered = 0
        self.last: list[list[Row]] = []
        self.all_keys = [self._values([*keys, *by]) for _ in range(self.pick([3, 10, 30]))]

    # ----------------------------------------------------------------------------------------------- columns, options

    def _typed(self, name: str, type_: str, most: int = 5) -> Column:
        """A column whose values are few."""
        column = Column(self.next_uid, name, type_)
        self.next_uid += 1
        pool = self.given[type_.removesuffix(" NOT NULL")]
        if type_ == "BIGINT" and name in VALUES:
            pool = [0, 1, -7, 2**40]  # sums of them fit
        self.pools[column.uid] = self.some(pool, 1, most)
        return column

    def _key_column(self, name: str) -> Column:
        column = self.fresh_column(name)
        while not isinstance(column.type, str):
            column = self.fresh_column(name)
        pool = self.pools[column.uid]
        if column.type in ("INT", "BIGINT") and self.random.random() < 0.5:
            pool = list(range(self.random.choice([5, 60])))
        distinct = {repr(rank(value)): value for value in pool}  # both zeros of floats are one key
        self.pools[column.uid] = list(distinct.values())
        return Column(column.uid, name, f"{column.type} NOT NULL")

    def _partition_column(self, name: str) -> Column:
        column = self._typed(name, self.pick(["INT", "STRING", "DATE", "BOOLEAN", "BIGINT"]), 2)
        return Column(column.uid, name, f"{column.type} NOT NULL")

    def fits(self, type_: Any) -> bool:
        """Columns of ROW and blanks after CHAR values have tests of their own."""
        return not (self.format == "avro" and "(9)" in type_)

    def _more(self, name: str) -> Column:
        column = self.fresh_column(name)
        while column.kind == "ROW":
            column = self.fresh_column(name)
        return column

    def fresh_column(self, name: str) -> Column:
        column = super().fresh_column(name)
        if column.kind == "CHAR":
            self.pools[column.uid] = list(dict.fromkeys(v.rstrip(" ") for v in self.pools[column.uid]))
        return column

    def _options(self, keys: Sequence[Column], columns: Sequence[Column]) -> dict[str, str]:
        options = {"file.format": self.format, "bucket": self.pick(["1", "1", "2", "3", "-1"]), **self.engine.options}
        whole = len(keys) == 1 and keys[0].kind in ("INT", "BIGINT")
        options["bucket-function.type"] = self.pick(["default", "mod"] if whole else ["default"])
        if options["bucket"] == "-1":
            options["dynamic-bucket.target-row-num"] = self.pick(["1", "4", "2000000"])
        elif len(keys) > 1 and self.random.random() < 0.3:
            options["bucket-key"] = self.pick(keys).name
        options |= {key: self.pick(_LAYOUT[key]) for key in _LAYOUT if self.random.random() < 0.25}
        if self.engine.hides_level_0 and (options.get("changelog-producer") != "lookup" or self.engine.clusters):
            options.pop("changelog-producer", None)
        if self.format == "avro" and self.random.random() < 0.5:
            options |= {"file.format": "parquet", "file.format.per.level": self.pick(["0:avro", "5:avro"])}
        if self.random.random() < 0.2:
            options["data-file.thin-mode"] = "true"
        return options | self.index_options(columns)

    # ----------------------------------------------------------------------------------------------------------- rows

    def _values(self, columns: Sequence[Column], may_be_null: bool = False) -> Row:
        choose = self.maybe if may_be_null else self.pick
        return {column.name: choose(self.pools[column.uid]) for column in columns}

    def key_rows(self, most: int) -> list[Row]:
        """Rows as a writer gets them, in the order of their ages."""
        others = [c for c in self.model.columns if c.name not in self.model.key]
        found = [
            {**self.pick(self.all_keys), **self._values(others, True), KIND: self.pick(self.engine.kinds)}
            for _ in range(self.random.randint(1, most))
        ]
        if self.last and self.random.random() < 0.2:  # some were written before
            old = [row for task in self.last for row in task if row.keys() == found[0].keys()]
            found += self.some(old, 0, 5)
        return self._normal(found)

    def _normal(self, rows: Sequence[Row]) -> list[Row]:
        """With values as files give them back."""
        kinds = [row[KIND] for row in rows]
        return [{**row, KIND: kind} for row, kind in zip(plain(self.arrow_of(rows)), kinds, strict=True)]

    def arrow_of(self, rows: Sequence[Row]) -> pa.Table:
        return arrow(rows, self.model.columns)

    def _with_kinds(self, rows: Sequence[Row]) -> pa.Table:
        kinds = pa.array([KINDS[row[KIND]] for row in rows], pa.string())
        return self.arrow_of(rows).append_column("op", kinds)

    def _message(self, rows: Sequence[Row], task: int | None) -> CommitMessage:
        with TableWriter(self.table.write_context(_OP), task) as writer:
            cut = self.random.randint(0, len(rows))
            for part in (rows[:cut], rows[cut:]):
                for batch in self._with_kinds(part).to_batches():
                    writer.write(batch)
            return writer.prepare_commit()

    # ---------------------------------------------------------------------------------------------------------- steps

    def step(self) -> None:
        """One change of the table, and a look at it."""
        steps: list[Callable[[], None]] = [self.write] * 6 + [self.write_tasks] * 2 + [self.write_late]
        steps += [self.compact] * 4 + [self.overwrite, self.set_options, self.alter, self.reopen]
        steps += [self.delete_rows, self.update_rows, self.index_again]
        self.pick(steps)()
        self.check()

    def write(self) -> None:
        rows = self.key_rows(25)
        self.log.append(f"append {self._with_kinds(rows).to_pylist()}")
        self.table.append(self._with_kinds(rows), options=_OP)
        self._follow([rows])

    def write_tasks(self) -> None:
        """Tasks of one job: those with higher numbers have the newer rows."""
        tasks = [self.key_rows(8) for _ in range(self.random.randint(2, 3))]
        self.log.append(f"tasks {[self._with_kinds(rows).to_pylist() for rows in tasks]}")
        self.table.commit([self._message(rows, task) for task, rows in enumerate(tasks)], options=_OP)
        self._follow(tasks)

    def write_late(self) -> None:
        """A writer that begins before another commit and ends after it."""
        early, late = self.key_rows(8), self.key_rows(8)
        self.log.append(f"late {self._with_kinds(late).to_pylist()}, after {self._with_kinds(early).to_pylist()}")
        message = self._message(late, None)
        self.table.append(self._with_kinds(early), options=_OP)
        self._follow([early])
        try:
            self.table.commit([message], options=_OP)
        except CommitConflictError:
            assert self.table.schema.has_dynamic_buckets
            self.log.append("  keys might be elsewhere now")
        else:
            self._follow([late])

    def _follow(self, tasks: list[list[Row]], gone: Callable[[Row], bool] = lambda _: False) -> None:
        self.last = tasks
        self.model.follow(self.table, tasks, gone)

    def compact(self) -> None:
        full = self.random.random() < 0.4
        self.log.append(f"compact full={full}")
        self.table.compact(full=full)
        self.model.follow(self.table)
        if full:
            assert all(file.level > 0 for file in self.model.files.values())

    def overwrite(self) -> None:
        rows, by = self.key_rows(6), self.model.partition_by
        mode = self.pick(["whole", "dynamic", "named"] if by else ["whole"])
        written = {tuple(row[n] for n in by) for row in rows if self.engine.keeps(row)}
        partition = None
        if mode == "named":
            partition = {by[0]: rows[0][by[0]]}
            rows = [row for row in rows if row[by[0]] == partition[by[0]]]
        self.log.append(f"overwrite, {mode} {partition}, with {self._with_kinds(rows).to_pylist()}")
        self.table.overwrite(self._with_kinds(rows), partition, dynamic=mode == "dynamic", options=_OP)

        def gone(row: Row) -> bool:
            if mode == "dynamic":
                return tuple(row[n] for n in by) in written
            return partition is None or row[by[0]] == partition[by[0]]

        self._follow([rows], gone)

    def current_rows(self) -> list[Row]:
        """What row-level operations see."""
        write_only = self.table.options.get("write-only") == "true"
        rows: list[Row] = self.model.rows() if write_only else self.model.current_rows()
        return rows

    def delete_rows(self) -> None:
        """Rows of the kind -D; whole partitions go as files."""
        condition = self.condition(1, micros=True)
        self.log.append(f"delete {to_sql(condition)}")
        hit = [row for row in self.current_rows() if _holds(condition, row)]
        try:
            assert self.table.delete(to_sql(condition)).rows_deleted == len(hit)
        except UnsupportedError as error:
            self.log.append(f"  {error}")
            return
        by_files = (last := self.table.snapshots.latest()) is not None and last.commit_kind is CommitKind.OVERWRITE
        gone = [] if by_files or not hit else [[{**row, KIND: 3} for row in hit]]
        self.model.follow(self.table, gone, lambda row: _holds(condition, row))

    def update_rows(self) -> None:
        """Newer versions, of the kind +U, which the engine merges as all others."""
        column = self.pick([c for c in self.model.columns if c.name in ("l", "b")])
        value = self.pick([None, *self.pools[column.uid]])
        condition = self.condition(1, micros=True)
        text = f"CAST({literal(value, column.type)} AS {column.type})"
        self.log.append(f"update {column.name} = {text} where {to_sql(condition)}")
        new = [{**row, column.name: value, KIND: 2} for row in self.current_rows() if _holds(condition, row)]
        try:
            assert self.table.update({column.name: text}, to_sql(condition)).rows_updated == len(new)
        except UnsupportedError as error:
            self.log.append(f"  {error}")
            return
        self.model.follow(self.table, [new] if new else [])

    def set_options(self) -> None:
        changes = {key: self.pick(_LAYOUT[key]) for key in self.some(_ALTERED, 1, 2)}
        self.log.append(f"options {changes}")
        self.table.alter(changes)

    def index_again(self) -> None:
        """Other indexes on the columns, in files that stay where they are."""
        wanted = self.index_options([c for c in self.model.columns if c.name not in self.model.partition_by])
        self.log.append(f"index {wanted}")
        before = [key for key in self.table.schema.options if key.startswith("file-index.") and key not in wanted]
        self.table.alter(wanted, before)
        self.table.index.build(rebuild=self.random.random() < 0.3)
        self.model.follow(self.table)

    def alter(self) -> None:
        columns = self.model.columns
        super().alter()
        changed, self.model.columns = self.model.columns, columns
        self.model.alter(changed)
        self.last, self.states, self.altered = [], {}, self.model.snapshot

    def reopen(self) -> None:
        METADATA_CACHE.clear()
        self.table = pp.Table.open(self.path)

    # ---------------------------------------------------------------------------------------------------------- looks

    def check(self) -> None:
        rows = self.model.rows()
        self._same(self.table.scan().to_arrow(), rows)
        looks = [self._filtered] * 5 + [self._counted, self._looked_up, self._ordered, self._extremes]
        looks += [self._optimized, self._older]
        for look in self.some(looks, 1, 3):
            look(rows)
        if self.model.snapshot > max(self.states, default=self.altered):
            self.states[self.model.snapshot] = as_text(self.arrow_of(rows))

    def _same(self, found: pa.Table, rows: Sequence[Row]) -> None:
        assert as_text(found) == as_text(self.arrow_of(rows))

    def _filtered(self, rows: Sequence[Row]) -> None:
        condition = self.condition(2, micros=True)
        text = to_sql(condition)
        self.log.append(f"  where {text}")
        kept = [row for row in rows if _holds(condition, row)]
        if self.random.random() < 0.3:
            assert self.table.count(text) == len(kept)
            return
        columns = self.some([c.name for c in self.model.columns], 1, 8)
        found = self.table.scan(text, columns, options=self.pick([None, {"file-index.read.enabled": "false"}]))
        assert as_text(found.to_arrow()) == as_text(self.arrow_of(kept).select(columns))

    def _counted(self, rows: Sequence[Row]) -> None:
        assert self.table.count() == len(rows)

    def _looked_up(self, rows: Sequence[Row]) -> None:
        columns = [c for name in self.model.key for c in self.model.columns if c.name == name]
        keys = arrow(self.some(self.all_keys, 1, 6), columns)
        self.log.append(f"  look up {keys.to_pylist()}")
        wanted = {repr([rank(row[c.name]) for c in columns]) for row in plain(keys)}
        found = self.table.lookup(keys)
        self._same(found, [row for row in rows if repr([rank(row[c.name]) for c in columns]) in wanted])

    def _ordered(self, rows: Sequence[Row]) -> None:
        column = self.pick([c for c in self.model.columns if isinstance(c.type, str)])
        n, descending = self.random.randint(1, 5), self.random.random() < 0.5
        text = f"`{column.name}` {'desc' if descending else 'asc'}, {n}"
        self.log.append(f"  top {text}")
        found = [row[column.name] for row in plain(self.table.top_n(text))]
        nulls = [row[column.name] for row in rows if row[column.name] is None]
        there = _sorted_values(rows, column)
        expected = (there[::-1] + nulls if descending else nulls + there)[:n]
        assert [repr(rank(v)) for v in found] == [repr(rank(v)) for v in expected]

    def _extremes(self, rows: Sequence[Row]) -> None:
        column = self.pick([c for c in self.model.columns if c.kind in ("INT", "BIGINT", "STRING", "BYTES", "DATE")])
        there = _sorted_values(rows, column)
        expected = (there[0], there[-1]) if there else (None, None)
        found = self.table.min(column.name), self.table.max(column.name)
        assert found == expected, (column, found, expected)

    def _optimized(self, _: Sequence[Row]) -> None:
        """Of the highest level alone; with deletion vectors, and of first rows, that is more than Java's `$ro` says."""
        if not self.engine.hides_level_0:
            levels = int(self.table.options.get("num-sorted-run.compaction-trigger", "5"))
            self._same(self.table.system.read("$ro"), self.model.compacted_rows(levels))

    def _older(self, _: Sequence[Row]) -> None:
        if self.states:
            number = self.pick(sorted(self.states))
            assert as_text(self.table.scan(snapshot=number).to_arrow()) == self.states[number]


def _holds(condition: Any, row: Row) -> bool:
    return evaluate(condition, _Cells(row)) is True  # type: ignore[arg-type]


def _sorted_values(rows: Sequence[Row], column: Column) -> list[Any]:
    """The values that are not NULL."""
    return sorted((v for row in rows if (v := row[column.name]) is not None), key=lambda v: order(v, column.type))
