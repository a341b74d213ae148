"""ORC data files, by pyarrow.

Sources: the files of Java Paimon 1.4 (TIME is an int, TIMESTAMP a timestamp, TIMESTAMP WITH LOCAL TIME ZONE a timestamp
instant), and the ORC specification v1.

Three things pyarrow does not do are done here: row counts of stripes come from the footer (`orc_tail`); CHAR is stored
padded with spaces and is trimmed when read, as ORC's Java reader does; timestamps outside what nanoseconds can hold are
decoded by `orc_timestamps` instead of wrapping around.
"""

from __future__ import annotations

import io as _io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import CorruptFileError, OptionError, StorageError, UnsupportedError
from paimon_pyds.formats.base import ReadCounters
from paimon_pyds.formats.nested import rebuild
from paimon_pyds.formats.orc_tail import (
    OrcKind,
    OrcTail,
    OrcType,
    Stream,
    Stripe,
    StripeFooter,
    parse_stripe_footer,
    parse_tail,
)
from paimon_pyds.formats.orc_timestamps import decode_timestamps
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.selection import RowSelection
from paimon_pyds.storage.base import FileIO, OutputFile
from paimon_pyds.types import (
    TIMESTAMP_KINDS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
    arrow_schema,
    arrow_type,
)

__all__ = ["OrcFormat"]

_SAFE_MILLIS = (-9_223_372_036_000, 9_223_372_036_000)
"""What nanoseconds in 64 bits can hold, in milliseconds, less a second at either end."""

_COMPRESSIONS = {
    "zstd": "zstd",
    "zlib": "zlib",
    "gzip": "zlib",
    "deflate": "zlib",
    "snappy": "snappy",
    "lz4": "lz4",
    "none": "uncompressed",
    "null": "uncompressed",
    "uncompressed": "uncompressed",
}
_NATIVE = {
    Kind.BOOLEAN: {OrcKind.BOOLEAN},
    Kind.TINYINT: {OrcKind.BYTE},
    Kind.SMALLINT: {OrcKind.SHORT},
    Kind.INT: {OrcKind.INT},
    Kind.BIGINT: {OrcKind.LONG},
    Kind.FLOAT: {OrcKind.FLOAT},
    Kind.DOUBLE: {OrcKind.DOUBLE},
    Kind.DECIMAL: {OrcKind.DECIMAL},
    Kind.CHAR: {OrcKind.STRING, OrcKind.CHAR, OrcKind.VARCHAR},
    Kind.VARCHAR: {OrcKind.STRING, OrcKind.CHAR, OrcKind.VARCHAR},
    Kind.BINARY: {OrcKind.BINARY},
    Kind.VARBINARY: {OrcKind.BINARY},
    Kind.DATE: {OrcKind.DATE},
    Kind.TIME: {OrcKind.INT},
    Kind.TIMESTAMP: {OrcKind.TIMESTAMP},
    Kind.TIMESTAMP_LTZ: {OrcKind.TIMESTAMP_INSTANT, OrcKind.TIMESTAMP},
    Kind.ARRAY: {OrcKind.LIST},
    Kind.MAP: {OrcKind.MAP},
    Kind.MULTISET: {OrcKind.MAP},
    Kind.ROW: {OrcKind.STRUCT},
}


class OrcFormat:
    """ORC as a `FileFormat`."""

    name = "orc"

    def open_reader(self, io: FileIO, path: str, size: int, counters: ReadCounters) -> OrcReader:
        """Open a data file.

        Raises:
            CorruptFileError: not an ORC file, or a broken footer.
            StorageError: the file can't be read.
        """
        return OrcReader(io, path, size, counters)

    def open_writer(self, io: FileIO, path: str, fields: Sequence[DataField], options: Mapping[str, str]) -> OrcWriter:
        """Create a data file.

        Raises:
            OptionError: a compression or size that does not parse.
            UnsupportedError: a compression that ORC does not have.
        """
        return OrcWriter(io, path, fields, options)


# --------------------------------------------------------------------------------------------------------- reading


class _CountedInput(_io.RawIOBase):
    """A file as pyarrow reads it, which counts what was asked for."""

    def __init__(self, source: pa.NativeFile, counters: ReadCounters) -> None:
        self._source = source
        self._counters = counters

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._source.seek(offset, whence))

    def tell(self) -> int:
        return int(self._source.tell())

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._source.read(size if size >= 0 else None)
        self._counters.bytes_read += len(data)
        self._counters.requests += 1
        return data

    def size(self) -> int:
        return int(self._source.size())


class OrcReader:
    """One open ORC file."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters) -> None:
        self._io = io
        self._path = path
        self._counters = counters
        self._tail: OrcTail = parse_tail(self._range, size, path)
        counters.footer_bytes += self._tail.tail_length
        counters.row_groups_total += len(self._tail.stripes)
        self.row_count = self._tail.row_count
        self._input: pa.NativeFile | None = None
        self._file: Any = None

    def _range(self, offset: int, length: int) -> bytes:
        data = self._io.read_range(self._path, offset, length)
        self._counters.bytes_read += length
        self._counters.requests += 1
        return data

    def groups(self) -> Sequence[tuple[int, int]]:
        """The row ranges of the stripes."""
        return [(s.first_row, s.first_row + s.rows) for s in self._tail.stripes]

    def prune(self, predicate: Predicate) -> RowSelection:
        """Every row: the statistics of stripes are not used, because those of Java are wrong for old dates."""
        return RowSelection.ALL

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The selected rows; see `FormatReader.read`.

        Raises:
            CorruptFileError: a field that the file does not have, or has in another type; broken stripes.
            UnsupportedError: a nested timestamp outside the years 1677 to 2262.
        """
        schema = arrow_schema(fields)
        types = [self._column_type(f) for f in fields]
        for number, stripe in enumerate(self._tail.stripes):
            window = selection.window(stripe.first_row, stripe.first_row + stripe.rows)
            if window.is_none or not stripe.rows:
                continue
            self._counters.row_groups_read += 1
            self._counters.rows_decoded += stripe.rows
            columns = self._stripe(number, stripe, fields, types)
            if not window.is_all:
                rows = pa.array(window.to_array(stripe.rows))
                columns = [c.take(rows) for c in columns]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            for start in range(0, batch.num_rows, batch_rows):
                yield batch.slice(start, batch_rows)

    def close(self) -> None:
        """Release the file."""
        if self._input is not None:
            self._input.close()
            self._input = self._file = None

    # ------------------------------------------------------------------------------------------------ inside

    def _column_type(self, field: DataField) -> OrcType:
        type_ = self._tail.root.child(field.name)
        if type_ is None:
            raise CorruptFileError(f"the file has no column {field.name!r}", path=self._path, field="types")
        _check(field.type, type_, field.name, self._path)
        return type_

    def _stripe(
        self, number: int, stripe: Stripe, fields: Sequence[DataField], types: Sequence[OrcType]
    ) -> list[pa.Array]:
        wide = [self._is_wide(t) for t in types]
        plain = [f.name for f, w in zip(fields, wide, strict=True) if not w]
        batch = self._read_stripe(number, stripe, plain) if plain else None
        columns = []
        for field, type_, is_wide in zip(fields, types, wide, strict=True):
            self._check_clock(stripe, field.type, type_)
            if is_wide:
                columns.append(self._wide_column(stripe, type_, field))
            elif batch is not None:
                array = batch.column(plain.index(field.name))
                columns.append(_from_orc(array, field.type, type_))
        return columns

    def _is_wide(self, type_: OrcType) -> bool:
        """Whether the column may hold timestamps that nanoseconds cannot."""
        for inner in type_.walk():
            if inner.kind not in (OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT):
                continue
            low, high = self._tail.timestamps.get(inner.id, (0, 0))
            if low < _SAFE_MILLIS[0] or high > _SAFE_MILLIS[1]:
                if inner is not type_:
                    raise UnsupportedError(
                        "an ORC file with nested timestamps outside the years 1677 to 2262 can't be read",
                        path=self._path,
                        hint="read the other columns, or rewrite the table as Parquet",
                    )
                return True
        return False

    def _read_stripe(self, number: int, stripe: Stripe, names: list[str]) -> pa.RecordBatch:
        # pyarrow takes a dot in a name for a step into a struct: then everything is read.
        wanted = None if any("." in name for name in names) else names
        try:
            batch = _as_batch(self._open().read_stripe(number, columns=wanted))
        except StorageError:
            raise
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:
            raise CorruptFileError(f"stripe {number} can't be read: {error}", path=self._path) from error
        if batch.num_rows != stripe.rows or not set(names) <= set(batch.schema.names):
            raise CorruptFileError(f"stripe {number} does not have its rows or columns", path=self._path)
        return batch.select(names)

    def _open(self) -> Any:
        if self._file is None:
            import pyarrow.orc as orc

            self._input = self._io.open_input(self._path)
            self._file = orc.ORCFile(pa.PythonFile(_CountedInput(self._input, self._counters), mode="r"))
        return self._file

    def _footer(self, stripe: Stripe) -> StripeFooter:
        at = stripe.offset + stripe.index_length + stripe.data_length
        return parse_stripe_footer(self._range(at, stripe.footer_length), stripe, self._tail, self._path)

    def _check_clock(self, stripe: Stripe, type_: DataType, orc: OrcType) -> None:
        """Refuse instants stored as the clock time of a zone other than UTC (orc.timestamp-ltz.legacy.type)."""
        if not _has_clock_instants(type_, orc):
            return
        zone = self._footer(stripe).timezone
        if zone not in ("", "UTC", "GMT", "Etc/UTC"):
            raise UnsupportedError(
                f"TIMESTAMP WITH LOCAL TIME ZONE is stored as the clock time of {zone!r:.60}",
                path=self._path,
                hint="rewrite the table with orc.timestamp-ltz.legacy.type = false",
            )

    def _wide_column(self, stripe: Stripe, type_: OrcType, field: DataField) -> pa.Array:
        footer = self._footer(stripe)

        def read(stream: Stream) -> bytes:
            return self._range(stream.offset, stream.length)

        return decode_timestamps(read, type_, stripe.rows, footer, self._tail, arrow_type(field.type), self._path)


def _has_clock_instants(type_: DataType, orc: OrcType) -> bool:
    if type_.kind is Kind.TIMESTAMP_LTZ:
        return orc.kind is OrcKind.TIMESTAMP
    if isinstance(type_, RowType):
        return any(_has_clock_instants(f.type, orc.children[orc.names.index(f.name)]) for f in type_.fields)
    return any(_has_clock_instants(t, o) for t, o in zip(type_.children(), orc.children, strict=False))


def _as_batch(data: Any) -> pa.RecordBatch:
    if isinstance(data, pa.RecordBatch):
        return data
    return data.combine_chunks().to_batches()[0]


def _check(type_: DataType, orc: OrcType, name: str, path: str) -> None:
    if orc.kind not in _NATIVE.get(type_.kind, ()):
        raise CorruptFileError(f"column {name!r} is {orc.kind.name} in the file, not {type_}", path=path, field="types")
    match type_:
        case RowType():
            for inner in type_.fields:
                child = orc.child(inner.name)
                if child is None:
                    raise CorruptFileError(f"the file has no field {name}.{inner.name}", path=path, field="types")
                _check(inner.type, child, f"{name}.{inner.name}", path)
        case MultisetType():
            _check(type_.element, orc.children[0], name, path)
        case ArrayType() | MapType():
            for inner_type, child in zip(type_.children(), orc.children, strict=False):
                _check(inner_type, child, name, path)


def _from_orc(array: pa.Array, type_: DataType, orc: OrcType) -> pa.Array:
    """What pyarrow gives for a type of ORC, as the Arrow type of Paimon's type."""
    target = arrow_type(type_)
    match type_:
        case RowType():
            children = [
                _from_orc(array.field(f.name), f.type, orc.children[orc.names.index(f.name)]) for f in type_.fields
            ]
            if not children:
                return rebuild(array, target, [])
            return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
        case ArrayType():
            return rebuild(array, target, [_from_orc(array.values, type_.element, orc.children[0])])
        case MapType():
            return _map_from_orc(array, target, _from_orc(array.keys, type_.key, orc.children[0]), type_.value, orc)
        case MultisetType():
            keys = _from_orc(array.keys, type_.element, orc.children[0])
            return _map_from_orc(array, target, keys, AtomicType(Kind.INT), orc)
    if type_.kind in TIMESTAMP_KINDS:
        return _from_nanoseconds(array, target)
    if type_.kind is Kind.TIME:
        return array.view(target)
    if orc.kind is OrcKind.CHAR:
        return pc.utf8_rtrim(array, " ")
    return array if array.type == target else pc.cast(array, target)


def _map_from_orc(array: pa.Array, target: pa.DataType, keys: pa.Array, value: DataType, orc: OrcType) -> pa.Array:
    items = _from_orc(array.items, value, orc.children[1])
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return rebuild(array, target, [entries])


def _from_nanoseconds(array: pa.Array, target: pa.DataType) -> pa.Array:
    factor = {"ms": 1_000_000, "us": 1_000, "ns": 1}[target.unit]
    counts = array.view(pa.int64())
    if factor > 1:
        values = counts.fill_null(0).to_numpy(zero_copy_only=False)
        counts = pa.array(values // factor, pa.int64(), mask=np.asarray(array.is_null()))
    return counts.view(target)


# --------------------------------------------------------------------------------------------------------- writing


class OrcWriter:
    """One ORC file being written."""

    def __init__(self, io: FileIO, path: str, fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        import pyarrow.orc as orc

        settings = _settings(options)
        self._path = path
        self._fields = tuple(fields)
        self._schema = pa.schema([_orc_field(f) for f in fields])
        self._output: OutputFile = io.open_output(path)
        self._buffered = 0
        try:
            self._writer: Any = orc.ORCWriter(self._output.sink, **settings)
        except BaseException:
            self._output.abort()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises:
            UnsupportedError: a timestamp that nanoseconds cannot hold.
        """
        columns = [
            _to_orc(c, f.type, s.type, self._path)
            for c, f, s in zip(batch.columns, self._fields, self._schema, strict=True)
        ]
        self._buffered += batch.nbytes
        self._writer.write(pa.Table.from_arrays(columns, schema=self._schema))

    @property
    def bytes_written(self) -> int:
        """Encoded size so far; what waits for the end of its stripe is taken for a third of its size in memory."""
        done = self._output.tell()
        return done if done > 3 else done + self._buffered // 3

    def close(self) -> int:
        """Finish the file; its size in bytes."""
        try:
            self._writer.close()
        except BaseException:
            self._output.abort()
            raise
        return self._output.close()

    def abort(self) -> None:
        """Drop the file."""
        self._output.abort()


def _settings(options: Mapping[str, str]) -> dict[str, Any]:
    compression = options.get("orc.compress", options.get("file.compression", "zstd")).strip().lower()
    if compression not in _COMPRESSIONS:
        raise UnsupportedError(
            f"ORC files can't be compressed with {compression!r}", hint="use zstd, snappy, lz4, zlib or none"
        )
    return {
        "compression": _COMPRESSIONS[compression],
        "compression_block_size": 128 * 1024,
        "stripe_size": _size(options, 64 * 2**20),
        "row_index_stride": 10_000,
        "dictionary_key_size_threshold": 0.8,
    }


def _size(options: Mapping[str, str], default: int) -> int:
    for name in ("orc.stripe.size", "file.block-size"):
        text = options.get(name)
        if text is not None:
            return _parse_size(text, name)
    return default


_SIZE_UNITS: dict[str, int] = {
    "": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30
}  # fmt: skip


def _parse_size(text: str, name: str) -> int:
    lower = text.strip().lower()
    digits = lower.rstrip("bkmg ")
    unit = _SIZE_UNITS.get(lower[len(digits) :].strip())
    if not digits.isdigit() or unit is None or int(digits) < 1:
        raise OptionError(f"{name} = {text!r} is not a size", hint="write it as 64 mb")
    return int(digits) * unit


def _orc_field(field: DataField) -> pa.Field:
    return pa.field(field.name, _orc_arrow(field.type), field.type.nullable)


def _orc_arrow(type_: DataType) -> pa.DataType:
    """The Arrow type that pyarrow writes as ORC's type for Paimon's type."""
    match type_:
        case RowType():
            return pa.struct([_orc_field(f) for f in type_.fields])
        case ArrayType():
            return pa.list_(pa.field("element", _orc_arrow(type_.element), type_.element.nullable))
        case MapType():
            item = pa.field("value", _orc_arrow(type_.value), type_.value.nullable)
            return pa.map_(pa.field("key", _orc_arrow(type_.key), False), item)
        case MultisetType():
            return pa.map_(pa.field("key", _orc_arrow(type_.element), False), pa.field("value", pa.int32(), False))
    if type_.kind is Kind.TIME:
        return pa.int32()
    if type_.kind in TIMESTAMP_KINDS:
        return pa.timestamp("ns", "UTC" if type_.kind is Kind.TIMESTAMP_LTZ else None)
    return arrow_type(type_)


def _to_orc(array: pa.Array, type_: DataType, target: pa.DataType, path: str) -> pa.Array:
    if array.type == target:
        return array

    def inner(child: pa.Array, child_type: DataType, child_target: pa.DataType) -> pa.Array:
        return _to_orc(child, child_type, child_target, path)

    match type_:
        case RowType():
            children = [inner(array.field(i), f.type, target.field(i).type) for i, f in enumerate(type_.fields)]
            return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
        case ArrayType():
            return rebuild(array, target, [inner(array.values, type_.element, target.value_type)])
        case MapType() | MultisetType():
            key, value = (*type_.children(), AtomicType(Kind.INT))[:2]
            entries = [inner(array.keys, key, target.key_type), inner(array.items, value, target.item_type)]
            fields = [target.key_field, target.item_field]
            return rebuild(array, target, [pa.StructArray.from_arrays(entries, fields=fields)])
    if type_.kind is Kind.TIME:
        return array.view(pa.int32())
    if type_.kind in TIMESTAMP_KINDS:
        factor = {"ms": 1_000_000, "us": 1_000, "ns": 1}[array.type.unit]
        try:
            return pc.multiply_checked(array.view(pa.int64()), pa.scalar(factor, pa.int64())).view(target)
        except pa.ArrowInvalid as error:
            raise UnsupportedError(
                "a timestamp outside the years 1677 to 2262 can't be written to an ORC file",
                path=path,
                hint="use file.format=parquet",
            ) from error
    return pc.cast(array, target)
