"""Reading rows whose columns are in several files: each column from its file, joined by position.

Only files whose columns are read are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.base.types.nulls import as_nulls, wants_nulls_only
from paimon_pyds.base.variant.parts import Path, VariantParts
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import FoundRows, plans_groups, prunes_parts
from paimon_pyds.metadata.evolution.file_columns import plan_evolution
from paimon_pyds.metadata.evolution.joined_columns import JoinedColumns
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.sql.predicate.tree import Const, Predicate, root_columns

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FormatReader, GroupPlan
    from paimon_pyds.sql.expression.variant_parts import PartTest


class JoinedReader:
    """`FormatReader` of the parts of a file.

    ``file``: has parts. ``columns``: of these parts; callers name columns as its ``fields`` do. ``open_part``: opens a
    part.
    """

    def __init__(
        self,
        file: PlannedFile,
        columns: JoinedColumns,
        open_part: Callable[[PlannedFile], AbstractContextManager[FormatReader]],
    ) -> None:
        self.row_count = file.row_count
        self._file, self._columns, self._open_part = file, columns, open_part
        self._place = {joined.name: n for n, part in enumerate(columns.of_part) for joined, _ in part}
        self._own = {joined.name: own for part in columns.of_part for joined, own in part}
        self._readers: dict[int, FormatReader] = {}
        self._in_use = ExitStack()

    def groups(self) -> Sequence[tuple[int, int]]:
        opened = [reader.groups() for reader in self._readers.values()]
        return max(opened, key=len, default=((0, self.row_count),))

    def prune(self, predicate: Predicate, within: RowSelection = RowSelection.ALL) -> RowSelection:
        found = RowSelection.ALL
        for number in dict.fromkeys(self._place[name] for name in root_columns(predicate)):
            pairs = self._columns.of_part[number]
            own = plan_evolution([own for _, own in pairs], [joined for joined, _ in pairs]).devolve(predicate)
            if own is not Const.TRUE:
                found = found & self._reader(number).prune(own, within)
        return found

    def prune_parts(self, tests: Sequence[PartTest], within: RowSelection) -> RowSelection:
        """See `PrunesParts`."""
        for test in tests:
            reader = self._reader(self._place[test.column])
            if prunes_parts(reader):
                within = reader.prune_parts([replace(test, column=self._own[test.column].name)], within)
        return within

    def part_places(self, column: str, paths: Sequence[Path]) -> Mapping[Path, bool]:
        """See `PrunesParts`."""
        reader = self._reader(self._place[column])
        return reader.part_places(self._own[column].name, paths) if prunes_parts(reader) else {}

    def bounds(self, field: DataField) -> tuple[int, int] | None:
        return self._reader(self._place[field.name]).bounds(self._own[field.name])

    def find(self, field: DataField, values: pa.Array) -> FoundRows | None:
        return self._reader(self._place[field.name]).find(self._own[field.name], values)

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(fields)
        parts = self._by_part(fields)
        streams = [self._reader(n).read(own, selection, batch_rows) for n, own in parts.items()]
        order = {(n, own.name): at for at, (n, own) in enumerate((n, own) for n, part in parts.items() for own in part)}
        places = [order[self._place[field.name], self._own[field.name].name] for field in fields]
        for columns in self._side_by_side(streams):
            yield pa.RecordBatch.from_arrays([columns[place] for place in places], schema=schema)

    def plan(self, fields: Sequence[DataField], selection: RowSelection) -> Iterator[GroupPlan]:
        """As `PlansGroups`, part by part, of formats that plan."""
        for number, own in self._by_part(fields).items():
            reader = self._reader(number)
            if plans_groups(reader):
                yield from reader.plan(own, selection)

    def close(self) -> None:
        self._in_use.close()

    def _by_part(self, fields: Sequence[DataField]) -> Mapping[int, list[DataField]]:
        parts: dict[int, list[DataField]] = {}
        for field in fields:
            own = self._own[field.name]
            if isinstance(field.type, VariantParts) and prunes_parts(self._reader(self._place[field.name])):
                own = replace(own, type=field.type)
            parts.setdefault(self._place[field.name], []).append(as_nulls(own) if wants_nulls_only(field) else own)
        return parts

    def _reader(self, number: int) -> FormatReader:
        if number not in self._readers:
            self._readers[number] = self._in_use.enter_context(self._open_part(self._file.parts[number]))
        return self._readers[number]

    def _side_by_side(self, streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.Array]]:
        """The columns of all streams, cut where any of them has a batch's end."""
        batches: list[pa.RecordBatch | None] = [None] * len(streams)
        while True:
            batches = [
                batch if batch is not None and batch.num_rows else _next(stream)
                for batch, stream in zip(batches, streams, strict=True)
            ]
            given = [batch for batch in batches if batch is not None]
            if not given:
                return
            if len(given) < len(batches):
                raise CorruptFileError("the files of its columns gave different numbers of rows", path=self._file.path)
            rows = min(batch.num_rows for batch in given)
            yield [column for batch in given for column in batch.slice(0, rows).columns]
            batches = [batch.slice(rows) for batch in given]


def _next(stream: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in stream if batch.num_rows), None)
