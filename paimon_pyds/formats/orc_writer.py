"""Writing ORC data files, by pyarrow.

Source: the files of Java Paimon 1.4 (TIME is an int, TIMESTAMP a timestamp, TIMESTAMP WITH LOCAL TIME ZONE a timestamp
instant) and its options ``file.compression``, ``file.block-size`` and ``orc.*``.
"""

from __future__ import annotations

import io as _io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import OptionError, StorageError, UnsupportedError
from paimon_pyds.formats.nested import rebuild
from paimon_pyds.options.values import parse_memory
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
    arrow_type,
)

__all__ = ["OrcWriter"]

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


class _PatientSink(_io.RawIOBase):
    """Passes bytes on and keeps the first error for later.

    An error that reaches pyarrow's ORC writer while it closes ends the process (a C++ exception that nothing catches).
    """

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self.error: BaseException | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self.error is None:
            try:
                self._output.sink.write(data)
            except BaseException as error:  # noqa: BLE001 - raised again by OrcWriter
                self.error = error
        return size


def _unsliced(column: pa.Array) -> pa.Array:
    """The column without an offset: pyarrow's ORC writer takes the validity of a sliced struct from its first row."""
    if column.offset == 0 or not pa.types.is_nested(column.type):
        return column
    return column.take(pa.array(range(len(column)), pa.int64()))


class OrcWriter:
    """One ORC file being written."""

    def __init__(self, io: FileIO, path: str, fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        import pyarrow.orc as orc

        settings = _settings(options)
        self._path = path
        self._fields = tuple(fields)
        self._schema = pa.schema([_orc_field(f) for f in fields])
        self._output: OutputFile = io.open_output(path)
        self._sink = _PatientSink(self._output)
        self._buffered = 0
        self._started = False
        try:
            self._writer: Any = orc.ORCWriter(self._sink, **settings)
        except BaseException:
            self._output.abort()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises:
            UnsupportedError: a timestamp that nanoseconds cannot hold.
            StorageError: the file can't be written.
        """
        self._started = True
        columns = [
            _to_orc(_unsliced(c), f.type, s.type, self._path)
            for c, f, s in zip(batch.columns, self._fields, self._schema, strict=True)
        ]
        self._buffered += batch.nbytes
        self._writer.write(pa.Table.from_arrays(columns, schema=self._schema))
        self._check()

    def _check(self) -> None:
        if self._sink.error is not None:
            raise self._sink.error

    @property
    def bytes_written(self) -> int:
        """Encoded size so far; what waits for the end of its stripe is taken for a third of its size in memory."""
        done = self._output.tell()
        return done if done > 3 else done + self._buffered // 3

    def close(self) -> int:
        """Finish the file; its size in bytes. Raises StorageError."""
        try:
            if not self._started:  # pyarrow writes nothing at all for a file without a batch
                self._writer.write(self._schema.empty_table())
            self._writer.close()
            self._check()
        except BaseException:
            self._output.abort()
            raise
        return self._output.close()

    def abort(self) -> None:
        """Drop the file."""
        # Nothing is written any more, but the writer must be closed or it closes itself later.
        self._sink.error = self._sink.error or StorageError("the file was dropped", path=self._path)
        self._writer.close()
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
            size = parse_memory(text, name)
            if size < 1:
                raise OptionError(f"{name} = {text!r} must be more than nothing")
            return size
    return default


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
