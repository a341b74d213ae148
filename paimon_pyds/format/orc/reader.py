"""ORC data files, by pyarrow.

Sources: the files of Java Paimon 1.4 (TIME is an int, TIMESTAMP a timestamp, TIMESTAMP WITH LOCAL TIME ZONE a timestamp
instant), and the ORC specification v1.

What pyarrow does not do is done here: row counts of stripes come from the footer (`tail`), and stripes are left out by
their statistics; CHAR is stored padded with spaces and is trimmed when read, as ORC's Java reader does
(`arrays`); timestamps outside what nanoseconds can hold are decoded by `arrays` instead of wrapping around; those of
writers in other time zones are converted by `zones`.

Of statistics (specification: Column Statistics, File Metadata) the bounds of whole numbers and floats are used, and the
number of values that are not NULL. Those of dates are not: Java's are wrong for old ones. Bounds of floats pass over
NaN, but their sum does not: it is NaN if a value is, or if there are infinities of both signs. Manifests have no such
sum: for ORC files only this one proves that no value is greater than a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import sliced
from paimon_pyds.base.secrets import raise_alone, scrubbed
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, DataType, MapType, RowType, arrow_schema, arrow_type
from paimon_pyds.base.types.kinds import FLOAT_KINDS, INTEGER_KINDS, Kind
from paimon_pyds.base.varints import unzigzag
from paimon_pyds.errors import CorruptFileError, MissingColumnError, PaimonError, UnsupportedError
from paimon_pyds.format import FoundRows, ReadCounters, ReadHints, has_kind, is_legacy
from paimon_pyds.format.orc.conversion import StripeStreams, check_type, decode_timestamps, from_orc, shared_from_orc
from paimon_pyds.format.orc.encoding import as_bytes, as_number, numbers_of, read_message, unpack
from paimon_pyds.format.orc.input import (
    CountedInput,
    FetchedRanges,
    SingleStripeFile,
    checked,
    joined,
    stripe_in_memory,
)
from paimon_pyds.format.orc.tail import (
    TIMESTAMPS,
    OrcKind,
    OrcTail,
    OrcType,
    Stripe,
    StripeFooter,
    parse_stripe_footer,
    parse_tail,
)
from paimon_pyds.format.orc.zones import Clocks, is_utc, unnamed_zone
from paimon_pyds.format.shared_maps import is_shared, stored_keys
from paimon_pyds.sql.predicate.prune import ColumnStats, may_match
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Predicate, tested_columns
from paimon_pyds.storage import FileIO, saves_requests
from paimon_pyds.storage.faults import storage_error

_WHOLE = frozenset({OrcKind.BYTE, OrcKind.SHORT, OrcKind.INT, OrcKind.LONG})
_FLOATS = frozenset({OrcKind.FLOAT, OrcKind.DOUBLE})
_MOST_ROWS = 1 << 32
HELD_BYTES = 128 << 20
"""Bytes of a stripe up to which its streams are read before they are decoded."""
_INDEX_STREAMS = (6, 7, 8)
"""Kinds of streams that pyarrow does not read: of row groups' places and Bloom filters."""


class OrcReader:
    """One open ORC file."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters, hints: ReadHints) -> None:
        self._io = io
        self._path = path
        self._counters = counters
        self._hints = hints
        self._unnamed: str | None = None
        self._size = size
        by_requests: bool = saves_requests(io)
        self._fetched = FetchedRanges(io, path, counters) if by_requests else None
        read_end = self._unchecked if self._fetched is None else self._fetched.read_end
        self._tail: OrcTail = parse_tail(read_end, size, path)
        self._range = checked(self._unchecked, self._tail, path)
        self._has_timestamps = any(inner.kind in TIMESTAMPS for inner in self._tail.root.walk())
        counters.footer_bytes += self._tail.tail_length
        self.row_count = self._tail.row_count
        self._input: pa.NativeFile | None = None
        self._counted: CountedInput | None = None
        self._file: Any = None
        self._stripe_footer: tuple[Stripe, StripeFooter] | None = None

    def _unchecked(self, offset: int, length: int) -> bytes:
        if self._fetched is not None:
            return self._fetched.read(offset, length)
        return self._counters.read_range(self._io, self._path, offset, length)

    def groups(self) -> Sequence[tuple[int, int]]:
        return [(s.first_row, s.first_row + s.rows) for s in self._tail.stripes]

    def prune(self, predicate: Predicate, within: RowSelection = RowSelection.ALL) -> RowSelection:
        return prune(self._tail, self._range, predicate, self._path)

    def bounds(self, field: DataField) -> tuple[int, int] | None:
        orc = _type_of(self._tail, ColumnRef(field.name, (), field.type, field.id))
        if orc is None or orc.kind not in _WHOLE or not self._tail.stripes:
            return None
        found = [_bounds(s[orc.id], orc, self._path) for s in _statistics(self._tail, self._range, self._path)]
        lows = [bounds.low for bounds in found if bounds.low is not None]
        highs = [bounds.high for bounds in found if bounds.high is not None]
        return (int(min(lows)), int(max(highs))) if len(lows) == len(highs) == len(found) else None

    def find(self, field: DataField, values: pa.Array) -> FoundRows | None:
        return None

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(fields)
        types = []
        for wanted in fields:
            type_ = self._tail.root.child(wanted.name)
            if type_ is None:
                raise MissingColumnError(f"the file has no column {wanted.name!r}", path=self._path, field="types")
            check_type(wanted.type, type_, wanted.name, self._path)
            types.append(type_)
        for number, stripe in enumerate(self._tail.stripes):
            window = selection.window(stripe.first_row, stripe.first_row + stripe.rows)
            if window.is_none or not stripe.rows:
                continue
            self._counters.row_groups_read += 1
            self._counters.rows_decoded += stripe.rows
            columns = self._stripe(number, stripe, fields, types)
            if not window.is_all:
                rows = arrow_array(window.to_array(stripe.rows))
                columns = [c.take(rows) for c in columns]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            yield from sliced(batch, batch_rows, self._hints.batch_bytes)

    def writer_zone(self) -> str:
        """The writer's time zone, to which the file's instants refer; "" for a file without rows. Raises
        UnsupportedError: the file does not name it, and it was not UTC."""
        if not self._tail.stripes:
            return ""
        return self._footer(self._tail.stripes[0]).timezone or unnamed_zone(self._tail, self._hints, self._path)

    def close(self) -> None:
        if self._input is not None:
            self._input.close()
            self._input = self._counted = self._file = None

    def _stripe(
        self, number: int, stripe: Stripe, fields: Sequence[DataField], types: Sequence[OrcType]
    ) -> list[pa.Array]:
        clocks = self._clocks(stripe, fields)
        if not is_utc(clocks.zone) and any(map(_has_clock_instants, (f.type for f in fields), types)):
            raise UnsupportedError(  # as old versions of Paimon wrote them
                f"instants are stored as the clock time of {clocks.zone!r:.60}",
                path=self._path,
                hint="rewrite the table with orc.timestamp-ltz.legacy.type = false",
            )
        wide = [self._is_wide(t) for t in types]
        plain = [f.name for f, w in zip(fields, wide, strict=True) if not w]
        batch = self._read_stripe(number, stripe, plain, clocks) if plain else None
        columns = []
        for field, type_, is_wide in zip(fields, types, wide, strict=True):
            if is_wide:
                streams = StripeStreams(self._range, stripe.rows, self._footer(stripe), self._tail, self._path)
                columns.append(decode_timestamps(streams, type_, arrow_type(field.type), clocks))
            elif batch is not None:
                array = batch.column(plain.index(field.name))
                if isinstance(field.type, MapType) and is_shared(type_.names):
                    keys = stored_keys(self._tail.user_metadata.get(b"ARROW:schema", b""), field.name, self._path)
                    columns.append(shared_from_orc(array, field, keys, type_, clocks, self._path))
                else:
                    columns.append(from_orc(array, field.type, type_, clocks, self._path))
        return columns

    def _clocks(self, stripe: Stripe, fields: Sequence[DataField]) -> Clocks:
        """Those of the stripe's writer. Java names no zone in files that have instants, but no clock times."""
        if not self._has_timestamps:
            return Clocks()
        zone = self._footer(stripe).timezone
        if not zone and any(has_kind(field.type, Kind.TIMESTAMP_LTZ) for field in fields):
            if self._unnamed is None:
                self._unnamed = unnamed_zone(self._tail, self._hints, self._path)
            zone = self._unnamed
        return Clocks(zone, is_legacy(self._hints.options))

    def _is_wide(self, type_: OrcType) -> bool:
        """Whether the column may hold timestamps that nanoseconds cannot."""
        for inner in type_.walk():
            if not self._tail.fits_nanoseconds(inner):
                if inner is not type_:
                    raise UnsupportedError(
                        "an ORC file with nested timestamps outside the years 1677 to 2262 can't be read",
                        path=self._path,
                        hint="read the other columns, or rewrite the table as Parquet",
                        feature="orc",
                    )
                return True
        return False

    def _read_stripe(self, number: int, stripe: Stripe, names: list[str], clocks: Clocks) -> pa.RecordBatch:
        # pyarrow takes a dot in a name for a step into a struct of that name: where there is one, everything is read.
        structs = tuple(f"{name}." for name in self._tail.root.names)
        wanted = None if any(name.startswith(structs) for name in names) else names
        footer = self._footer(stripe)  # a damaged one ends the process where pyarrow is old
        if self._input is None:
            opened = self._io.open_sized(self._path, self._size) if saves_requests(self._io) else None
            self._input = self._io.open_input(self._path) if opened is None else opened
            self._counted = CountedInput(self._input, self._counters, self._tail, self._path, self._fetched)
        if self._fetched is not None:
            self._fetched.fetch(self._needed(stripe, wanted))
        counted = self._counted
        assert counted is not None
        try:
            if (in_memory := self._in_memory(stripe, wanted)) is not None:
                data = _orc_file(pa.BufferReader(in_memory)).read_stripe(0, columns=wanted)
            elif is_utc(clocks.zone):
                if self._file is None:
                    self._file = _orc_file(pa.PythonFile(counted, mode="r"))
                data = self._file.read_stripe(number, columns=wanted)
            else:
                lone = SingleStripeFile(counted, self._tail, stripe, footer)
                data = _orc_file(pa.PythonFile(lone, mode="r")).read_stripe(0, columns=wanted)
            counted.check()
            batch = data if isinstance(data, pa.RecordBatch) else data.combine_chunks().to_batches()[0]
            if in_memory is None:
                batch.validate(full=True)  # damage may show as text that is not UTF-8
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:
            counted.check()
            if isinstance(error, PaimonError):
                raise
            raise_alone(CorruptFileError(f"stripe {number} can't be read: {error}", path=self._path), scrubbed(error))
        if batch.num_rows != stripe.rows or not set(names) <= set(batch.schema.names):
            raise CorruptFileError(f"stripe {number} does not have its rows or columns", path=self._path)
        return batch.select(names)

    def _in_memory(self, stripe: Stripe, names: Sequence[str] | None) -> pa.Buffer | None:
        """A stripe of a local file with checksums, where it may be held; None for others."""
        size, most = stripe.index_length + stripe.data_length, self._hints.read_ahead
        if self._tail.checksums is None or self._fetched is not None or size > (HELD_BYTES if most is None else most):
            return None
        assert self._input is not None
        ranges = self._needed(stripe, names)
        ranges = [(offset, min(length, self._tail.metadata[0] - offset)) for offset, length in ranges]
        self._counters.bytes_read += sum(length for _, length in ranges)
        self._counters.requests += len(ranges)
        try:
            return stripe_in_memory(self._input, self._tail, stripe, self._footer(stripe), ranges, self._path)
        except OSError as error:
            raise_alone(storage_error(error, "read", self._path), scrubbed(error))

    def _needed(self, stripe: Stripe, names: Sequence[str] | None) -> list[tuple[int, int]]:
        """The ranges that a stripe's columns take up (all columns when None), and its footer."""
        footer = self._footer(stripe)
        types = [self._tail.root.child(name) for name in names or self._tail.root.names]
        numbers = {self._tail.root.id, *(inner.id for type_ in types if type_ is not None for inner in type_.walk())}
        ranges = [(s.offset, s.length) for s in footer.streams if s.column in numbers and s.kind not in _INDEX_STREAMS]
        ranges.append((stripe.offset + stripe.index_length + stripe.data_length, stripe.footer_length))
        checksums = self._tail.checksums
        return joined(ranges, 1 if checksums is None else checksums.block_size, self._tail.metadata[0])

    def _footer(self, stripe: Stripe) -> StripeFooter:
        if self._stripe_footer is None or self._stripe_footer[0] is not stripe:
            at = stripe.offset + stripe.index_length + stripe.data_length
            data = self._range(at, stripe.footer_length)
            self._stripe_footer = stripe, parse_stripe_footer(data, stripe, self._tail, self._path)
        return self._stripe_footer[1]


def _has_clock_instants(type_: DataType, orc: OrcType) -> bool:
    """Whether a column holds instants that are stored as clock times."""
    if type_.kind is Kind.TIMESTAMP_LTZ:
        return orc.kind is OrcKind.TIMESTAMP
    if isinstance(type_, RowType):
        return any(_has_clock_instants(f.type, orc.children[orc.names.index(f.name)]) for f in type_.fields)
    return any(_has_clock_instants(t, o) for t, o in zip(type_.children(), orc.children, strict=False))


def _orc_file(source: pa.NativeFile) -> Any:
    import pyarrow.orc as orc

    return orc.ORCFile(source)


class _Bounds(NamedTuple):
    """One column in one stripe: values that are not NULL, bounds when there are, and whether these count NaN."""

    values: int | None = None
    low: float | None = None
    high: float | None = None
    nan_counted: bool = False


def prune(tail: OrcTail, read: Callable[[int, int], bytes], predicate: Predicate, path: object = None) -> RowSelection:
    """Rows that may match; ALL when nothing can be said. ``read(offset, length)`` gives bytes of the file.
    Raises CorruptFileError: broken statistics."""
    columns = {column: type_ for column in tested_columns(predicate) if (type_ := _type_of(tail, column)) is not None}
    if tail.row_count > _MOST_ROWS or not tail.stripes:  # a selection counts in 32 bits
        return RowSelection.ALL
    if not columns and not isinstance(predicate, Const):
        return RowSelection.ALL
    stripes = _statistics(tail, read, path) if columns else [()] * len(tail.stripes)
    rows = arrow_array([stripe.rows for stripe in tail.stripes], pa.int64())

    def stats_of(column: ColumnRef) -> ColumnStats | None:
        orc = columns.get(column)
        if orc is None or column.type is None:
            return None
        try:
            return _column_stats(column.type, orc, [_bounds(s[orc.id], orc, path) for s in stripes], rows)
        except (pa.ArrowInvalid, OverflowError) as error:
            message = f"bounds of column {column} are no values of {column.type}"
            raise CorruptFileError(message, path=path, field="statistics") from error

    kept = may_match(predicate, rows, stats_of)
    if kept.all():
        return RowSelection.ALL
    found = BitMap()
    for stripe, keep in zip(tail.stripes, kept.tolist(), strict=True):
        if keep:
            found.add_range(stripe.first_row, stripe.first_row + stripe.rows)
    return RowSelection(found)


def _type_of(tail: OrcTail, column: ColumnRef) -> OrcType | None:
    """The file's type of a column that has statistics."""
    orc = None if column.path else tail.root.child(column.name)
    return None if orc is None or orc.children else orc


def _statistics(tail: OrcTail, read: Callable[[int, int], bytes], path: object) -> list[Sequence[bytes]]:
    """The messages of statistics of each stripe, by column. Those of the file are those of its only stripe."""
    stripes: list[Sequence[bytes]] = []
    if len(tail.stripes) == 1:
        stripes.append(tail.statistics)
    else:
        offset, length = tail.metadata
        if offset < 0:
            raise CorruptFileError(f"metadata of {length} bytes does not fit", path=path, field="metadata length")
        data = unpack(read(offset, length), tail.codec, tail.block_size, path)
        for number, _, value in read_message(data, path):
            if number == 1:
                message = as_bytes(value, path, "stripeStats")
                stripes.append([as_bytes(v, path, "colStats") for n, _, v in read_message(message, path) if n == 1])
    columns = 1 + max(orc.id for orc in tail.root.walk())
    if len(stripes) != len(tail.stripes) or any(len(stripe) != columns for stripe in stripes):
        return [[b""] * columns] * len(tail.stripes)  # a writer that keeps none, or not of all
    return stripes


def _bounds(message: bytes, orc: OrcType, path: object) -> _Bounds:
    values: int | None = None
    bounds = _Bounds()
    for number, _, value in read_message(message, path):
        if number == 1:
            values = as_number(value, path, "numberOfValues")
        elif number == 2 and orc.kind in _WHOLE:
            whole = {n: unzigzag(v) for n, v in numbers_of(value, path, "intStatistics").items()}
            bounds = _Bounds(None, whole.get(1), whole.get(2))
        elif number == 3 and orc.kind in _FLOATS:
            parts = {n: _double(v, path) for n, v in numbers_of(value, path, "doubleStatistics").items()}
            bounds = _Bounds(None, parts.get(1), parts.get(2), not math.isnan(parts.get(3, math.nan)))
    return bounds._replace(values=values)


def _double(bits: int, path: object) -> float:
    if bits >= 1 << 64:
        raise CorruptFileError("a number of more than 64 bits", path=path, field="doubleStatistics")
    return float(np.uint64(bits).view(np.float64))


def _column_stats(type_: DataType, orc: OrcType, stripes: Sequence[_Bounds], rows: pa.Array) -> ColumnStats:
    bounded = type_.kind in (INTEGER_KINDS if orc.kind in _WHOLE else FLOAT_KINDS)  # no other kind has bounds
    arrow = arrow_type(type_)
    low, high = ([getattr(s, name) if bounded else None for s in stripes] for name in ("low", "high"))
    nulls = [None if s.values is None else max(0, r - s.values) for s, r in zip(stripes, rows.to_pylist(), strict=True)]
    return ColumnStats(
        min=arrow_array(low, arrow),
        max=arrow_array(high, arrow),
        null_count=arrow_array(nulls, pa.int64()),
        row_count=rows,
        nan_counted=np.array([s.nan_counted for s in stripes], np.bool_),
    )
