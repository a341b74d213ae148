"""A table with a primary key in plain Python: its files as lists of rows, which every snapshot's files must equal.

Commits add files, compactions merge some: which ones is the table's choice, what comes of it is not. Rows of files are
merged as readers merge them. Where readers hide level 0, what they see is kept apart: by key, as compactions leave it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_pyds as pp
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_type, parse_type
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.format import ReadCounters, by_path
from paimon_pyds.keys.bucket import bucket_of
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER, VALUE_KIND, leading_columns
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.storage.local import LocalFileIO
from support.dynamic_buckets import indexed_buckets
from support.engine_model import KIND, RETRACTS, SEQ, Row, compare, merged, rank
from support.key_engines import MODELED, Engine
from support.table_model import Column, convert

KINDS = ("+I", "-U", "+U", "-D")
_NUMBERS = [DataField(2147483646, SEQUENCE_NUMBER, parse_type("BIGINT NOT NULL")),
            DataField(2147483645, VALUE_KIND, parse_type("TINYINT NOT NULL"))]  # fmt: skip
Place = tuple[tuple[Any, ...], int]
"""The values of the partition columns, and the bucket."""


ENGINES: dict[str, list[Engine]] = {
    kind: [MODELED[name] for name in names]
    for kind, names in {
        "deduplicate": ["deduplicate", "ignoring", "ignoring_before", "sequence", "descending"],
        "partial-update": ["partial", "partial_removing", "partial_ignoring_sequence", "groups"],
        "aggregation": ["sums", "sums_in_sequence", "aggregation_removing"],
        "first-row": ["first_row", "first_row_ignoring"],
        "deletion vectors": ["vectors", "vectors_sequence", "vectors_partial", "vectors_sums"],
        "clustering": ["clustered", "clustered_ignoring", "clustered_first", "clustered_first_vectors"],
    }.items()
}


@dataclass
class KeyFile:
    """A live data file."""

    place: Place
    level: int
    rows: list[Row]


@dataclass
class KeyModel:
    """What a table holds.

    Attributes:
        key: the primary key.
        partition_by: the columns of partitions.
        columns: of the table.
        files: live ones by name.
        visible: where compactions look older versions up, what they have made of rows, by place and key: what readers
            see where they hide level 0.
        looks_up: whether compactions do.
        snapshot: the last one that was followed.
        numbers: the greatest sequence number of each place.
    """

    engine: Engine
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    columns: tuple[Column, ...]
    files: dict[str, KeyFile] = field(default_factory=dict)
    visible: dict[Place, dict[str, Row]] = field(default_factory=dict)
    looks_up: bool = False
    snapshot: int = 0

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def merge(self, rows: Iterable[Row]) -> list[Row]:
        """One row a key, in the order of keys; deletes are among them."""
        values = [name for name in self.names if name not in self.key]
        return merged(rows, self.trimmed, self.engine.order, self.engine.fold(values))

    def versions(self, files: Iterable[KeyFile], older: Iterable[KeyFile] = ()) -> list[Row]:
        """What is merged of some files of a bucket; ``older`` are those that a compaction of these leaves."""
        return [row for file in files for row in file.rows]

    @property
    def trimmed(self) -> list[str]:
        return [name for name in self.key if name not in self.partition_by]

    def rows(self) -> list[Row]:
        """What a scan gives, in the order of keys within each bucket."""
        if self.engine.hides_level_0:
            return [row for rows in self.visible.values() for row in self._in_order(list(rows.values()))]
        if self.looks_up:
            return self.current_rows()
        found = []
        for place in self._places(self.files.values()):
            found += self.merge(self.versions(file for file in self.files.values() if file.place == place))
        return [row for row in found if row[KIND] not in RETRACTS]

    def current_rows(self) -> list[Row]:
        """What row-level operations see without write-only: with deletion vectors also what is not compacted yet."""
        if (self.engine.hides_level_0 and not self.engine.has_vectors) or not self.looks_up:
            return self.rows()
        found = []
        for place in self._places(self.files.values()):
            fresh = [row for f in self.files.values() if f.place == place and not f.level for row in f.rows]
            found += self.merge([*self.visible.get(place, {}).values(), *fresh])
        return [row for row in found if row[KIND] not in RETRACTS]

    def compacted_rows(self, level: int) -> list[Row]:
        """What the highest level alone has."""
        return [row for f in self.files.values() if f.level == level for row in f.rows if row[KIND] not in RETRACTS]

    @staticmethod
    def _places(files: Iterable[KeyFile]) -> list[Place]:
        return list(dict.fromkeys(file.place for file in files))

    def _key_of(self, row: Row) -> str:
        return repr([rank(row[name]) for name in self.trimmed])

    # ------------------------------------------------------------------------------------------------------- evolution

    def alter(self, columns: tuple[Column, ...]) -> None:
        """Rows as the table's columns are now."""
        old = {column.uid: column for column in self.columns}

        def changed(row: Row) -> Row:
            values = {name: row[name] for name in (SEQ, KIND)}
            for column in columns:
                before = old.get(column.uid)
                value = None if before is None else row[before.name]
                known = value is not None and before is not None
                values[column.name] = convert(value, before.type, column.type) if known else None  # type: ignore[union-attr]
            return values

        for file in self.files.values():
            file.rows = [changed(row) for row in file.rows]
        self.visible = {at: {key: changed(row) for key, row in rows.items()} for at, rows in self.visible.items()}
        self.columns = columns

    # ------------------------------------------------------------------------------------------------------ snapshots

    def follow(
        self, table: pp.Table, tasks: Sequence[Sequence[Row]] = (), gone: Callable[[Row], bool] = lambda _: False
    ) -> None:
        """Go through the new snapshots.

        Args:
            table: as it is now.
            tasks: what each task of the one write among them wrote, in its order.
            gone: the rows of which partitions an overwrite takes away.
        """
        written: Sequence[Sequence[Row]] | None = tasks
        for snapshot in table.snapshots.list():
            if snapshot.id <= self.snapshot:
                continue
            self.snapshot = snapshot.id
            added, kept = {}, {}
            for entry in live_of(table._store, snapshot).to_pylist():
                name, level = entry["file_name"], entry["level"]
                if name in self.files:
                    kept[name] = KeyFile(self.files[name].place, level, self.files[name].rows)
                else:
                    rows = physical(table, entry)
                    place = tuple(rows[0][n] for n in self.partition_by), entry["bucket"]
                    added[name] = KeyFile(place, level, rows)
                    self._check_entry(entry, rows)
            if snapshot.commit_kind is CommitKind.COMPACT:
                self._compacted(added, kept)
            else:
                assert written is not None, f"snapshot {snapshot.id} is of no write"
                self._written(table, added, kept, written, gone if _overwrites(snapshot) else lambda _: False)
                written = None
            self.files = {**kept, **added}
            self._check_levels()
        assert written is None or not any(map(self.engine.keeps, (row for rows in written for row in rows)))

    def _written(
        self,
        table: pp.Table,
        added: Mapping[str, KeyFile],
        kept: Mapping[str, KeyFile],
        tasks: Sequence[Sequence[Row]],
        gone: Callable[[Row], bool],
    ) -> None:
        for name, file in self.files.items():
            assert (name not in kept) == gone(file.rows[0]), name
            assert name not in kept or kept[name].level == file.level
        self.visible = {place: rows for place, rows in self.visible.items() if not any(map(gone, rows.values()))}
        buckets = bucket_numbers(table, self, [row for rows in tasks for row in rows])
        expected: dict[Place, list[Row]] = {}
        for task, rows in enumerate(tasks):
            numbered: dict[Place, list[Row]] = {}
            for row in rows:
                place = tuple(row[n] for n in self.partition_by), next(buckets)
                if self.engine.keeps(row):
                    of_place = numbered.setdefault(place, [])
                    of_place.append({**row, SEQ: (task << 28) + len(of_place)})
            for place, found in numbered.items():
                expected[place] = expected.get(place, []) + self.merge(found)
        assert {file.place for file in added.values()} == {place for place, rows in expected.items() if rows}
        for place, rows in expected.items():
            files = [file for file in added.values() if file.place == place]
            assert all(file.level == 0 for file in files)
            before = [row[SEQ] for file in kept.values() if file.place == place for row in file.rows]
            found = self._in_order([row for file in files for row in file.rows])
            assert all(row[SEQ] > max(before, default=-1) for row in found)
            numbers = sorted(row[SEQ] for row in found)
            assert len(set(numbers)) == len(numbers)
            if len(self._distinct(rows)) == len(rows):  # which of these is newer does not matter
                rows = [{**r, SEQ: f[SEQ]} for r, f in zip(self._in_order(rows), found, strict=True)]
            renamed = dict(zip(sorted(row[SEQ] for row in rows), numbers, strict=True))
            self.same(found, self._in_order([{**row, SEQ: renamed[row[SEQ]]} for row in rows]))

    def _compacted(self, added: Mapping[str, KeyFile], kept: Mapping[str, KeyFile]) -> None:
        moved = {name: file for name, file in kept.items() if file.level != self.files[name].level}
        removed = [file for name, file in self.files.items() if name not in kept]
        for place in self._places([*removed, *moved.values(), *added.values()]):
            before = [file for file in self.files.values() if file.place == place]
            out = [file for file in (*added.values(), *moved.values()) if file.place == place]
            taken = [file for file in removed if file.place == place]
            inputs = [*taken, *(self.files[name] for name, file in moved.items() if file.place == place)]
            if self.looks_up:
                self._make_visible(place, [row for file in inputs if file.level == 0 for row in file.rows])
                continue
            levels = {file.level for file in out}
            assert len(levels) <= 1, levels
            stay = [file for file in before if not any(file is other for other in inputs)]
            rows = self.merge(self.versions(taken, stay))
            if drops := all(level >= max(file.level for file in before) for level in levels):
                rows = [row for row in rows if row[KIND] not in RETRACTS]
                assert not any(row[KIND] in RETRACTS for file in out for row in file.rows)
            assert drops or levels
            self.same(self._in_order([r for f in added.values() if f.place == place for r in f.rows]), rows)

    def _make_visible(self, place: Place, fresh: Sequence[Row]) -> None:
        """Rows of level 0 meet what readers saw before."""
        before = self.visible.setdefault(place, {})
        touched = {self._key_of(row) for row in fresh}
        older = [row for key, row in before.items() if key in touched]
        for row in self.merge([*older, *fresh]):
            before[self._key_of(row)] = row
        for key in touched:
            if before[key][KIND] in RETRACTS:
                del before[key]

    def _in_order(self, rows: list[Row]) -> list[Row]:
        def both(left: Row, right: Row) -> int:
            found = (compare(left[name], right[name]) for name in self.trimmed)
            return next((f for f in found if f), left[SEQ] - right[SEQ])

        return sorted(rows, key=functools.cmp_to_key(both))

    def same(self, found: Sequence[Row], expected: Sequence[Row]) -> None:
        """Rows are equal, with their kinds and numbers."""
        names = [*self.names, SEQ, KIND]
        texts = [[repr([row[name] for name in names]) for row in rows] for rows in (found, expected)]
        assert texts[0] == texts[1], [sorted(set(texts[0]) - set(texts[1])), sorted(set(texts[1]) - set(texts[0]))]

    def _check_entry(self, entry: Mapping[str, Any], rows: Sequence[Row]) -> None:
        """What the manifest says of a file."""
        numbers = [row[SEQ] for row in rows]
        assert (min(numbers), max(numbers)) == (entry["min_sequence_number"], entry["max_sequence_number"])
        assert len(rows) == entry["row_count"]
        assert sum(row[KIND] in RETRACTS for row in rows) == entry["delete_row_count"]
        assert len(self._distinct(rows)) == len(rows)

    def _distinct(self, rows: Iterable[Row]) -> set[str]:
        return {self._key_of(row) for row in rows}

    def _check_levels(self) -> None:
        """No key is twice on a level above 0, but where vectors hide older versions there."""
        if self.engine.clusters:
            return
        runs: dict[tuple[Place, int], set[str]] = {}
        for file in self.files.values():
            if file.level:
                run = runs.setdefault((file.place, file.level), set())
                keys = self._distinct(file.rows)
                assert run.isdisjoint(keys)
                run |= keys


def _overwrites(snapshot: Snapshot) -> bool:
    return snapshot.commit_kind is CommitKind.OVERWRITE


def physical(table: pp.Table, entry: Mapping[str, Any]) -> list[Row]:
    """The rows of a file as they lie in it."""
    path = str(next(Path(table.path).rglob(entry["file_name"])))
    fields = (*_NUMBERS, *table._store.schema(entry["schema_id"]).fields)
    schemas = {entry["schema_id"]: fields}
    spec = ReadSpec(LocalFileIO(), schemas, (), options=table.options, leading=leading_columns(table.schema))
    hints = spec.hints(PlannedFile(path, entry["file_size"], 0, entry["schema_id"], PartitionBucket(b"", 0)))
    reader = by_path(path).open_reader(LocalFileIO(), path, entry["file_size"], ReadCounters(), hints)
    rows = [row for batch in reader.read(fields, RowSelection.ALL, 1000) for row in plain(batch)]
    reader.close()
    return rows


def plain(rows: pa.Table | pa.RecordBatch) -> list[Row]:
    """Rows with values as `table_model` has them: points in time as numbers."""
    columns = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        elif pa.types.is_time32(column.type):
            column = column.cast(pa.int32())
        columns[name] = column.to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def arrow(rows: Sequence[Row], columns: Sequence[Column]) -> pa.Table:
    """Rows as a table has them."""
    types = [parse_type(column.type) for column in columns]
    arrays = [
        pa.array([row[c.name] for row in rows], arrow_type(type_)) for c, type_ in zip(columns, types, strict=True)
    ]
    fields = [pa.field(c.name, arrow_type(t), t.nullable) for c, t in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def bucket_numbers(table: pp.Table, model: KeyModel, rows: Sequence[Row]) -> Any:
    """The bucket of each row, one after the other. NaN is one key, whatever its bits."""
    rows = [{name: math.nan if value != value else value for name, value in row.items()} for row in rows]
    if not rows or table.schema.has_dynamic_buckets:
        return iter(indexed_buckets(table, arrow(rows, model.columns)) if rows else [])
    named = table.options.get("bucket-key")
    names = named.split(",") if named else model.trimmed
    columns = [column for name in names for column in model.columns if column.name == name]
    given = [column.combine_chunks() for column in arrow(rows, columns).columns]
    types = [parse_type(column.type) for column in columns]
    function = table.options.get("bucket-function.type", "default")
    return iter(bucket_of(given, types, int(table.options["bucket"]), function).tolist())
