"""Current rows by their keys, without a scan: what `Table.lookup` does.

Keys are sorted. Each determines the partition and bucket of its row, and the least and the greatest key of a file show
whether the file may have it; so each section of a bucket is searched for few keys. There the keys are a filter like any
other: bloom filters, bitmaps, page statistics and late materialisation act on it, and where a section's rows have to be
merged, all versions of a key pass it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, empty_table, from_numpy, one_batch, pc
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.frames import as_batches
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import columns_of
from paimon_pyds.base.types import DataField, Kind, arrow_schema, scalar_to_internal
from paimon_pyds.engine.read import FileTrace, read_split, with_filter
from paimon_pyds.engine.read.candidate_keys import read_wanted
from paimon_pyds.engine.read.merged_files import read_merged
from paimon_pyds.engine.read.small_files import is_small
from paimon_pyds.engine.read.split_read import with_blobs
from paimon_pyds.engine.scan.prune import bucket_key_fields, hashes_alike
from paimon_pyds.engine.write.conform import Conformer
from paimon_pyds.errors import OptionError, SchemaError, UnknownColumnError, UnsupportedError
from paimon_pyds.format.threads import in_order
from paimon_pyds.keys.bucket import bucket_of
from paimon_pyds.keys.merge.equal_values import Codes
from paimon_pyds.keys.merge.files_to_merge import is_clustered
from paimon_pyds.keys.merge.grouped_rows import Positions
from paimon_pyds.keys.merge.key_set import KeySet, one_of
from paimon_pyds.keys.merge.order_codes import order_codes, sorted_rows
from paimon_pyds.metadata.partition import PartitionBucket, partition_values
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import ReadSpec, Split, result_schema, sections
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate, make_and

if TYPE_CHECKING:
    from collections.abc import Callable

    from paimon_pyds.scan import Scan

KEYS_AT_ONCE = 1 << 16
"""Keys that are planned together: later ones are greater, so that hardly a page is read twice."""
_MANY_KEYS = 256
"""Keys from which sections are read in parallel from the start: they have much to decompress."""
LEAST_TOGETHER = 8
MOST_TOGETHER = 64
"""Small sections that are read together."""
_BATCH_ROWS = 65_536
"""Rows of a batch."""
_HELD_BYTES = 64 << 20
"""Bytes of rows that later sections may have ready."""


def lookup_rows(scan: Scan, keys: Any) -> pa.Table:
    """The rows that a scan gives for some keys, in the order of the keys, whichever of them are given twice.

    Args:
        scan: the state of the table to look in, and the columns to return.
        keys: rows with the columns of the primary key and no other, as anything that can be appended; or values alone.

    Raises:
        UnsupportedError: the table has no primary key, or what merging rows refuses.
        SchemaError: the keys don't have the columns of the primary key, or NULLs in them.
        CorruptFileError: a file is damaged.
        SnapshotNotFoundError: a file is gone.
    """
    schema = scan.schema
    if not schema.primary_keys:
        raise UnsupportedError("rows of a table without a primary key can't be looked up", hint="scan it with a filter")
    if scan.request.row_limit is not None:
        raise OptionError("a lookup takes no limit and no top_n")
    fields = tuple(schema.field(name) for name in schema.primary_keys)
    given = _conformed(keys, fields)
    order, again = sorted_rows(given.columns)
    firsts = order[np.append(True, ~again)] if len(order) else order  # equal keys keep the order they are in
    wanted = given.take(from_numpy(firsts))
    starts = range(0, len(firsts), KEYS_AT_ONCE)
    parts = [
        _found(part, SortedKeys(part.schema, wanted.slice(start, KEYS_AT_ONCE), part.schemas))
        for part in scan.parts
        for start in starts
        if _has_same_key(part, schema)
    ]
    if not parts:
        return empty_table(scan.arrow_schema)
    found = pa.concat_tables(part.cast(parts[0].schema) for part in parts)  # that of a branch may say NOT NULL
    rows = one_batch(found.select([*schema.primary_keys]))
    kept, numbers = matching(fields, wanted, rows)
    order = kept[np.argsort(firsts[numbers], kind="stable")]
    return found.take(from_numpy(order)).select(range(len(scan.arrow_schema))).cast(scan.arrow_schema)


def _has_same_key(part: Scan, schema: TableSchema) -> bool:
    """Raises UnsupportedError where partitions come from a branch with another key."""
    if part.schema.primary_keys != schema.primary_keys:
        raise UnsupportedError(
            "partitions come from another branch too, whose primary key is another one: keys can't be looked up",
            hint="scan it with a filter",
        )
    return True


def _conformed(keys: Any, fields: Sequence[DataField]) -> pa.RecordBatch:
    names = {field.name.casefold() for field in fields}
    conformer, parts = Conformer(fields, "keys", trims_char=True), []
    for batch in as_batches(_as_rows(keys, [field.name for field in fields])):
        others = [name for name in batch.schema.names if name.casefold() not in names]
        if others:
            raise UnknownColumnError(
                f"keys to look up have a column {others[0]!r} that is not of the primary key",
                hint=f"give {', '.join(field.name for field in fields)} and no other",
            )
        try:
            parts.append(conformer.conform(batch))
        except SchemaError as error:
            error.name_row(sum(part.num_rows for part in parts))
            raise
    return one_batch(pa.Table.from_batches(parts, arrow_schema(fields)))


def _as_rows(keys: Any, names: Sequence[str]) -> Any:
    """Keys as data with columns: what came may be values alone, or tuples of them where the key is several columns."""
    if isinstance(keys, Mapping):
        return keys if not keys or any(map(_is_list, keys.values())) else [keys]
    alone = isinstance(keys, tuple) and len(keys) == len(names) > 1 and not any(map(_is_list, keys))
    if alone or isinstance(keys, str | bytes) or not (isinstance(keys, Iterable) or _has_columns(keys)):
        keys = [keys]
    if not _is_list(keys) or len(keys) == 0 or isinstance(first := next(iter(keys)), Mapping) or _has_columns(first):
        return keys
    if len(names) == 1 and not isinstance(first, tuple | list):
        return {names[0]: list(keys) if isinstance(keys, Set) else keys}
    if not all(isinstance(key, tuple | list) and len(key) == len(names) for key in keys):
        shown = ", ".join(f"{name!r}: …" for name in names)
        raise SchemaError(f"a key of this table is ({', '.join(names)})", hint=f"give [{{{shown}}}]")
    return dict(zip(names, map(list, zip(*keys, strict=True)), strict=True))


def _is_list(value: Any) -> bool:
    """Whether it holds values one after the other."""
    if isinstance(value, str | bytes):
        return False
    array = isinstance(value, np.ndarray | pa.ChunkedArray | pa.Array) and not isinstance(value, pa.StructArray)
    return array or isinstance(value, Sequence | Set) or type(value).__name__ == "Series"


def _has_columns(value: Any) -> bool:
    return any(hasattr(type(value), name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "columns"))


def _found(scan: Scan, keys: SortedKeys) -> pa.Table:
    """The rows, with the columns of the scan, and after them those of the key that are not among these."""
    scan_of_keys = scan.where_bound(keys.predicate)
    if not scan_of_keys.is_whole:
        more = tuple(field for field in keys.fields if field not in scan.request.fields)
        return scan_of_keys.selecting((*scan.request.fields, *more)).to_arrow()
    plan = scan_of_keys.own_plan
    found = rows_with_keys(plan.spec, plan.files, keys)
    if scan.predicate is not Const.TRUE:
        found = found.filter(matches(scan.predicate, one_batch(found)))
    own, hidden = len(plan.spec.fields), found.num_columns - len(plan.spec.metadata_columns)
    missing = sum(field not in plan.spec.fields for field in keys.fields)
    return found.select([*range(own), *range(hidden, found.num_columns), *range(own, own + missing)])


def rows_with_keys(
    spec: ReadSpec, files: Sequence[PlannedFile], keys: SortedKeys, threads: int | None = None
) -> pa.Table:
    """The rows of a plan that have one of some keys; where blanks at the end of these don't count, maybe others.

    They have the columns of the plan, those of the key that are not among these, those of its filter, and metadata.

    ``threads``: sections that are read at a time at most; by default one for each core.
    """
    columns = spec.fields
    missing = tuple(field for field in keys.fields if field not in columns)
    filtered = tuple(field for field in spec.filter_fields if field not in (*columns, *missing))
    spec = replace(with_filter(spec, Const.TRUE), fields=(*columns, *missing, *filtered), filter_fields=())
    reads = _reads(replace(spec, references=None), keys, files)  # BLOBs are fetched of the rows that are found
    threads, eager = threads or os.cpu_count() or 1, keys.rows.num_rows >= _MANY_KEYS
    found = in_order(reads, threads=threads, held=_HELD_BYTES, size=_bytes_of, eager=eager)
    return pa.Table.from_batches(list(with_blobs(spec, found)), result_schema(spec))


def _reads(
    spec: ReadSpec, keys: SortedKeys, files: Sequence[PlannedFile]
) -> Iterator[Generator[pa.RecordBatch, None, None]]:
    """The rows of the sections that may have some of the keys; many small ones are read together."""
    small: list[tuple[list[PlannedFile], Positions]] = []
    plain = not is_clustered(keys.schema) and all(field.type.kind is not Kind.CHAR for field in keys.fields)
    for section, here in keys.by_section(files):
        if not (plain and is_small(spec, section)):
            yield _rows_of(spec, section, keys.taken(here))
            continue
        small.append((section, here))
        if len(small) == MOST_TOGETHER:
            yield _rows_of_small(spec, [files for files, _ in small], keys)
            small = []
    if len(small) >= LEAST_TOGETHER:
        yield _rows_of_small(spec, [files for files, _ in small], keys)
    else:
        yield from (_rows_of(spec, section, keys.taken(here)) for section, here in small)


def _rows_of_small(
    spec: ReadSpec, found: Sequence[Sequence[PlannedFile]], keys: SortedKeys
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of small sections that have one of some keys: all are read, which takes less than looking for some."""
    split = Split.of(spec, [file for section in found for file in section])
    for batch in read_split(split, _BATCH_ROWS, together=len(found)):
        positions, _ = matching(keys.fields, keys.rows, batch)
        if len(positions):
            yield pc.take(batch, from_numpy(positions))


def _rows_of(spec: ReadSpec, files: Sequence[PlannedFile], keys: SortedKeys) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a section that have one of some keys; where blanks at the end of these don't count, maybe others."""
    fields = tuple(keys.schema.field(name) for name in keys.schema.trimmed_primary_keys)
    if is_clustered(keys.schema) or any(field.type.kind is Kind.CHAR for field in fields):
        spec = replace(with_filter(spec, keys.predicate), filter_fields=keys.fields)
        yield from read_split(Split.of(spec, files), _BATCH_ROWS)
        return
    wanted = KeySet.of(fields, keys.rows)
    traces = [FileTrace(file.path, file.row_count) for file in files]
    if files[0].merged:
        yield from read_merged(spec, files, traces, _BATCH_ROWS, wanted)
    else:
        yield from read_wanted(spec, wanted, files[0], traces[0], _BATCH_ROWS)


def _bytes_of(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes)


def _one_of(field: DataField, values: pa.Array) -> Predicate:
    char = field.type.kind is Kind.CHAR and not values.null_count
    return _bound(Op.IN, field, values) if char else one_of(field, values)


def _bound(op: Op, field: DataField, values: pa.Array) -> Predicate:
    """A comparison of a column with values of its own type."""
    column = ColumnRef(field.name, (), field.type, field.id)
    return bind(Leaf(op, column, tuple(scalar_to_internal(value) for value in values)), (field,))


def matching(fields: Sequence[DataField], keys: pa.RecordBatch, rows: pa.RecordBatch) -> tuple[Positions, Positions]:
    """The rows that have one of some keys, which are in their order, and the number of that key.

    Blanks at the end of CHAR values don't count.
    """
    columns = []
    for field in fields:
        column = pa.concat_arrays([batch.column(field.name) for batch in (keys, rows)])
        columns.append(pc.utf8_rtrim(column, " ") if field.type.kind is Kind.CHAR else column)
    of_keys, of_rows = np.split(order_codes(columns), [keys.num_rows])
    numbers = np.searchsorted(of_keys, of_rows)
    kept = np.flatnonzero(of_keys.take(numbers, mode="clip") == of_rows) if len(of_keys) else numbers[:0]
    return kept, numbers[kept]


@dataclass(frozen=True)
class SortedKeys:
    """Distinct keys in their order, with the columns of the primary key."""

    schema: TableSchema
    rows: pa.RecordBatch
    schemas: Callable[[], Sequence[TableSchema]]

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        return tuple(self.schema.field(name) for name in self.rows.schema.names)

    @cached_property
    def predicate(self) -> Predicate:
        """True of rows with one of these keys, and maybe of others: what each column has."""
        pairs = zip(self.fields, self.rows.columns, strict=True)
        return make_and(*(_one_of(field, pc.unique(column)) for field, column in pairs))

    def by_section(self, files: Sequence[PlannedFile]) -> Iterator[tuple[list[PlannedFile], Positions]]:
        """The sections that may have some of the keys, each with the numbers of these; files of a section are in one
        bucket."""
        found = list(sections(files))
        in_buckets: dict[tuple[PartitionBucket, int], list[int]] = {}
        for number, section in enumerate(found):
            in_buckets.setdefault((section[0].bucket_id, section[0].total_buckets), []).append(number)
        places = self._by_partition({id_.partition for id_, _ in in_buckets})
        buckets = {total: self._buckets(total) for total in {total for _, total in in_buckets}}
        ranges = self._ranges(found) if found and self._has_ranges else None
        for (id_, total), numbers in in_buckets.items():
            here, of_keys = places[id_.partition], buckets[total]
            if of_keys is not None:
                here = here[of_keys[here] == id_.bucket]
            if not len(here):
                continue
            parts = [here] * len(numbers) if ranges is None else ranges.parts(here, numbers)
            yield from ((found[number], part) for number, part in zip(numbers, parts, strict=True) if len(part))

    def _by_partition(self, partitions: Iterable[bytes]) -> Mapping[bytes, Positions]:
        """For each of some partitions the keys that can only be there, by their numbers."""
        partitions, rows = list(partitions), self.rows
        fields = [field for field in self.schema.partition_fields if field.name in rows.schema.names]
        if not fields:
            return dict.fromkeys(partitions, np.arange(rows.num_rows))
        values = partition_values(self.schema.partition_fields, array(partitions, pa.binary()))
        columns = []
        for field in fields:
            column = pa.concat_arrays([batch.column(field.name) for batch in (values, rows)])
            columns.append(pc.utf8_rtrim(column, " ") if field.type.kind is Kind.CHAR else column)
        of_partitions, of_keys = np.split(order_codes(columns), [len(partitions)])
        order = np.argsort(of_keys, kind="stable")
        ends = (np.searchsorted(of_keys[order], of_partitions, side).tolist() for side in ("left", "right"))
        return {partition: order[start:stop] for partition, start, stop in zip(partitions, *ends, strict=True)}

    def taken(self, positions: Positions) -> SortedKeys:
        """The keys of these numbers."""
        return replace(self, rows=self.rows.take(from_numpy(positions)))

    def _buckets(self, total: int) -> Any:
        """The bucket of each key, of ``total`` buckets; None if keys don't determine it."""
        fields = bucket_key_fields(self.schema, self.schemas) if total > 0 else None
        if fields is None or any(field.type.kind is Kind.CHAR for field in fields):
            return None
        columns = [self.rows.column(field.name) for field in fields]
        function = TableOptions(self.schema.options).get("bucket-function.type")
        return bucket_of(columns, [field.type for field in fields], total, function)

    @cached_property
    def _has_ranges(self) -> bool:
        """Whether ranges of files can be compared with keys. They can't where CHAR values may have blanks at their end,
        the type of a key was changed, or files are sorted by other columns."""
        fields = [self.schema.field(name) for name in self.schema.trimmed_primary_keys]
        if is_clustered(self.schema) or any(field.type.kind is Kind.CHAR for field in fields):
            return False
        return not self.schema.id or all(hashes_alike(fields, old) for old in self.schemas())

    def _ranges(self, found: Sequence[Sequence[PlannedFile]]) -> _Ranges | None:
        """Of sections; None where an end of a range does not fit Arrow's types."""
        fields = [self.schema.field(name) for name in self.schema.trimmed_primary_keys]
        runs = [
            [file.run.key_range for file in section if file.run is not None and file.run.key_range is not None]
            for section in found
        ]
        ends = array([key_range[end] for end in (0, 1) for run in runs for key_range in run], pa.binary())
        types = [field.type for field in fields]
        decoded = list(map(columns_of(ends, types, arity=True), range(len(types))))
        if any(column.unknown is not None for column in decoded):
            return None
        pairs = zip(decoded, (self.rows.column(field.name) for field in fields), strict=True)
        codes = order_codes([pa.concat_arrays([end.values.cast(key.type), key]) for end, key in pairs])
        least, greatest = np.split(codes[: len(ends)], 2)
        firsts = np.cumsum([0, *map(len, runs)])[:-1]
        return _Ranges(codes[len(ends) :], np.minimum.reduceat(least, firsts), np.maximum.reduceat(greatest, firsts))


class _Ranges(NamedTuple):
    """Codes of keys, in the order of files, and of the least and the greatest key of each section."""

    keys: Codes
    least: Codes
    greatest: Codes

    def parts(self, keys: Positions, numbers: Sequence[int]) -> list[Positions]:
        """Those of some keys, by their numbers in ascending order, that each of these sections may hold."""
        order = keys[np.argsort(self.keys[keys], kind="stable")]
        own = self.keys[order]
        starts = np.searchsorted(own, self.least[numbers], "left").tolist()
        stops = np.searchsorted(own, self.greatest[numbers], "right").tolist()
        return [np.sort(order[start:stop]) for start, stop in zip(starts, stops, strict=True)]
