"""Writing ORC data files, by pyarrow.

Source: the files of Java Paimon 1.4 (TIME is an int, TIMESTAMP a timestamp, TIMESTAMP WITH LOCAL TIME ZONE a timestamp
instant) and its options ``file.compression``, ``file.block-size`` and ``orc.*``.
"""

from __future__ import annotations

import io as _io
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import empty_batch, is_true, pc, to_numpy
from paimon_pyds.base.options.option import parse_memory
from paimon_pyds.base.types.arrow import arrow_schema, with_leaves
from paimon_pyds.base.types.kinds import TIMESTAMP_KINDS, UNITS_PER_SECOND, Kind
from paimon_pyds.base.types.model import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType
from paimon_pyds.errors import OptionError, StorageError, UnsupportedError
from paimon_pyds.format import LEGACY_TYPE, LEGACY_ZONE, has_kind, is_legacy
from paimon_pyds.format.batches import list_window, rebuild
from paimon_pyds.format.orc.encoding import BlockSums
from paimon_pyds.format.orc.splice import Moments, join_moments, splice_timestamps, split_moments, write_end
from paimon_pyds.format.orc.zones import is_utc
from paimon_pyds.storage import FileIO, OutputFile

_SPOOL_BYTES = 32 * 2**20
"""Files with timestamps stay in memory up to this size until they are closed; larger ones go to the temporary disk."""
_COMPRESSIONS = {
    "zstd": "zstd", "zlib": "zlib", "gzip": "zlib", "deflate": "zlib", "snappy": "snappy", "lz4": "lz4",
    "none": "uncompressed", "null": "uncompressed", "uncompressed": "uncompressed",
}  # fmt: skip


class _PatientSink(_io.RawIOBase):
    """Passes bytes on and keeps the first error for later.

    An error that reaches pyarrow's ORC writer while it closes ends the process (a C++ exception that nothing catches).
    ``sums`` are the checksums of what was passed on; what is written while ``held`` is a list stays there.
    """

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self.error: BaseException | None = None
        self.size = 0
        self.sums = BlockSums()
        self.held: list[bytes] | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        self.size += length
        if self.held is not None:
            self.held.append(bytes(data))
        elif self.error is None:
            try:
                self._sink.write(data)
                self.sums.update(data)
            except BaseException as error:  # noqa: BLE001 - raised again by OrcWriter
                self.error = error
        return length


class OrcWriter:
    """One ORC file being written.

    A file with timestamps is written to a temporary place first and gets them when it is closed (see `splice`).
    """

    def __init__(self, io: FileIO, path: str, fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        import pyarrow.orc as orc

        check_instants(fields, options)
        settings = orc_settings(options)
        self._path = path
        self._fields = tuple(fields)
        self._schema = pa.schema([with_leaves(field, _stored) for field in arrow_schema(fields)])
        self._moments: defaultdict[int, list[Moments]] = defaultdict(list)
        self._output: OutputFile = io.open_output(path)
        self._spool: Any = None
        if any(has_kind(field.type, *TIMESTAMP_KINDS) for field in fields):
            self._spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - closed with the writer
        self._sink = _PatientSink(self._spool or self._output.sink)
        self._buffered = 0
        self._started = False
        try:
            self._writer: Any = orc.ORCWriter(self._sink, **settings)
        except BaseException:
            self._drop()
            raise

    @staticmethod
    def check(fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        """See `FileFormat.check_writer`."""
        check_instants(fields, options)
        orc_settings(options)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = []
        found: list[tuple[int, Moments]] = []
        number = 1
        for column, field, target in zip(batch.columns, self._fields, self._schema, strict=True):
            columns.append(_to_orc(_compacted(column), field.type, target.type))
            number = self._gather(column, field.type, number, found)
        for place, moments in found:
            self._moments[place].append(moments)
        self._started = True
        self._buffered += batch.nbytes
        self._writer.write(pa.Table.from_arrays(columns, schema=self._schema))
        self._check()

    def _gather(self, array: pa.Array, type_: DataType, number: int, found: list[tuple[int, Moments]]) -> int:
        """Take the timestamps out of a column whose number in ORC's count is ``number``; the number after it."""
        if not has_kind(type_, *TIMESTAMP_KINDS):
            return number + _type_count(type_)
        present = array.drop_null()
        match type_:
            case RowType():
                number += 1
                for i, field in enumerate(type_.fields):
                    number = self._gather(present.field(i), field.type, number, found)
                return number
            case ArrayType():
                return self._gather(list_window(present, present.values), type_.element, number + 1, found)
            case MapType() | MultisetType():
                key, value = (*type_.children(), AtomicType(Kind.INT))[:2]
                number = self._gather(list_window(present, present.keys), key, number + 1, found)
                return self._gather(list_window(present, present.items), value, number, found)
        counts = to_numpy(present.view(pa.int64()))
        found.append((number, split_moments(counts, UNITS_PER_SECOND[array.type.unit], self._path)))
        return number + 1

    def _check(self) -> None:
        if self._sink.error is not None:
            raise self._sink.error

    @property
    def bytes_encoded(self) -> int:
        return self._sink.size

    @property
    def bytes_written(self) -> int:
        # What waits for the end of its stripe is estimated as a third of its size in memory.
        return self._sink.size if self._sink.size > 3 else self._sink.size + self._buffered // 3

    def close(self) -> int:
        try:
            if not self._started:  # pyarrow writes nothing at all for a file without a batch
                self.write(empty_batch(arrow_schema(self._fields)))
            if self._spool is None:
                self._sink.held = []
            self._writer.close()
            self._check()
            if self._spool is None:  # what pyarrow wrote now, the last stripe and the tail, gets checksums
                write_end(self._sink.held or [], self._sink.sums, self._output.sink.write)
            else:
                moments = {number: join_moments(parts) for number, parts in self._moments.items()}
                splice_timestamps(self._spool, self._sink.size, self._output.sink.write, moments)
                self._spool.close()
        except BaseException:
            self._drop()
            raise
        return self._output.close()

    def abort(self) -> None:
        # Nothing is written any more, but the writer must be closed or it closes itself later.
        self._sink.error = self._sink.error or StorageError("the file was dropped", path=self._path)
        self._writer.close()
        self._drop()

    def _drop(self) -> None:
        if self._spool is not None:
            self._spool.close()
        self._output.abort()


def _type_count(type_: DataType) -> int:
    """How many columns a type is in ORC's count: itself and everything inside it."""
    return 1 + sum(map(_type_count, type_.children())) + (type_.kind is Kind.MULTISET)


def orc_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """What the table's options say to pyarrow's ORC writer. Raises OptionError and UnsupportedError."""
    compression = options.get("orc.compress", options.get("file.compression", "zstd")).strip().lower()
    if compression not in _COMPRESSIONS:
        raise UnsupportedError(
            f"ORC files can't be compressed with {compression!r}", hint="use zstd, snappy, lz4, zlib or none"
        )
    stripe_size = 64 * 2**20
    for name in ("file.block-size", "orc.stripe.size"):
        text = options.get(name)
        if text is not None:
            stripe_size = parse_memory(text, name)
            if stripe_size < 1:
                raise OptionError(f"{name} = {text!r} must be more than nothing")
    return {
        "compression": _COMPRESSIONS[compression],
        "compression_block_size": 128 * 1024,
        "stripe_size": stripe_size,
        "row_index_stride": 10_000,
        "dictionary_key_size_threshold": 0.8,
    }


def check_instants(fields: Sequence[DataField], options: Mapping[str, str]) -> None:
    """Raises UnsupportedError where instants would have to be stored by the clocks of a zone."""
    zone = options.get(LEGACY_ZONE, "UTC").strip()
    if is_legacy(options) and not is_utc(zone) and any(has_kind(f.type, Kind.TIMESTAMP_LTZ) for f in fields):
        raise UnsupportedError(
            f"instants can't be written to ORC files by the clocks of {zone!r:.60} ({LEGACY_ZONE})",
            hint=f"copy the table to one with {LEGACY_TYPE}=false, or to Parquet",
        )


def _stored(type_: pa.DataType) -> pa.DataType:
    """How ORC files hold what an Arrow type does."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("ns", type_.tz)
    return pa.int32() if pa.types.is_time(type_) else type_


def _compacted(array: pa.Array) -> pa.Array:
    """A nested array that begins at the start of its buffers: pyarrow's ORC writer forgets the offsets of slices."""
    if not pa.types.is_nested(array.type):
        return array
    return array.take(arrow_array(np.arange(len(array), dtype=np.int64)))


def _to_orc(array: pa.Array, type_: DataType, target: pa.DataType) -> pa.Array:
    """The column as pyarrow's ORC writer wants it, with zeros for timestamps."""
    if array.type == target and not has_kind(type_, Kind.ROW, *TIMESTAMP_KINDS):
        return array
    match type_:
        case RowType():
            inside = array.flatten()  # NULL where the row is: pyarrow writes the values below a NULL in a ROW
            children = [_to_orc(inside[i], f.type, target.field(i).type) for i, f in enumerate(type_.fields)]
            return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
        case ArrayType():
            return rebuild(array, target, [_to_orc(array.values, type_.element, target.value_type)])
        case MapType() | MultisetType():
            key, value = (*type_.children(), AtomicType(Kind.INT))[:2]
            entries = [_to_orc(array.keys, key, target.key_type), _to_orc(array.items, value, target.item_type)]
            fields = [target.key_field, target.item_field]
            return rebuild(array, target, [pa.StructArray.from_arrays(entries, fields=fields)])
    if type_.kind is Kind.TIME:
        return array.view(pa.int32())
    if type_.kind in TIMESTAMP_KINDS:
        mask = is_true(array.is_null()) if array.null_count else None
        return arrow_array(np.zeros(len(array), np.int64), pa.int64(), mask=mask).view(target)
    return pc.cast(array, target)
