"""ORC columns as the Arrow types of Paimon's types: from what pyarrow gives, or decoded here.

pyarrow gives ORC timestamps as 64-bit nanoseconds and has no other way. The few files with timestamps before 1677 or
after 2262 have these columns decoded here: seconds and nanoseconds are two integer streams (ORC specification v1,
Timestamp Columns, Run Length Encoding version 2, Boolean Run Length Encoding). Runs are decoded one by one, the values
of a run at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Octets, Words, is_true, pc, to_numpy
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    arrow_type,
)
from paimon_pyds.base.types.kinds import NANOS_PER_UNIT, TIMESTAMP_KINDS, UNITS_PER_SECOND, Kind
from paimon_pyds.base.varints import unzigzag, zigzag_decoded
from paimon_pyds.errors import CorruptFileError, MissingColumnError, UnsupportedError
from paimon_pyds.format.batches import rebuild
from paimon_pyds.format.orc.encoding import RUN_WIDTHS, read_varint, unpack
from paimon_pyds.format.orc.tail import OrcKind, OrcTail, OrcType, Stream, StreamKind, StripeFooter
from paimon_pyds.format.orc.zones import ORC_EPOCH, Clocks, is_utc
from paimon_pyds.format.shared_maps import MAPPING, OVERFLOW, SharedKeys, is_shared, whole_maps

_DIRECT_V2 = 2
"""The column encoding DIRECT_V2 of the ORC specification."""

_TEXTS = {OrcKind.STRING, OrcKind.CHAR, OrcKind.VARCHAR}
_STORED_AS = {
    Kind.CHAR: _TEXTS, Kind.VARCHAR: _TEXTS, Kind.TINYINT: {OrcKind.BYTE}, Kind.SMALLINT: {OrcKind.SHORT},
    Kind.BIGINT: {OrcKind.LONG}, Kind.VARBINARY: {OrcKind.BINARY}, Kind.BLOB: {OrcKind.BINARY},
    Kind.TIME: {OrcKind.INT},
    Kind.TIMESTAMP_LTZ: {OrcKind.TIMESTAMP_INSTANT, OrcKind.TIMESTAMP}, Kind.ARRAY: {OrcKind.LIST},
    Kind.MULTISET: {OrcKind.MAP}, Kind.ROW: {OrcKind.STRUCT},
} | {
    kind: {OrcKind[kind.name]}
    for kind in (Kind.BOOLEAN, Kind.INT, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL, Kind.BINARY, Kind.DATE, Kind.TIMESTAMP,
                 Kind.MAP)
}  # fmt: skip


def check_type(type_: DataType, orc: OrcType, name: str, path: str) -> None:
    """Raises MissingColumnError unless a file's type holds values of the column's type, at every depth."""
    if isinstance(type_, MapType) and is_shared(orc.names):
        for member, held in zip(orc.names, orc.children, strict=True):
            if member == OVERFLOW:
                check_type(MapType(AtomicType(Kind.INT), type_.value), held, f"{name}.{member}", path)
            elif member != MAPPING:
                check_type(type_.value, held, f"{name}.{member}", path)
        return
    if orc.kind not in _STORED_AS.get(type_.kind, ()):
        raise MissingColumnError(
            f"column {name!r} is {orc.kind.name} in the file, not {type_}", path=path, field="types"
        )
    match type_:
        case RowType():
            for inner in type_.fields:
                child = orc.child(inner.name)
                if child is None:
                    raise CorruptFileError(f"the file has no field {name}.{inner.name}", path=path, field="types")
                check_type(inner.type, child, f"{name}.{inner.name}", path)
        case MultisetType():
            check_type(type_.element, orc.children[0], name, path)
        case ArrayType() | MapType():
            for inner_type, child in zip(type_.children(), orc.children, strict=False):
                check_type(inner_type, child, name, path)


def from_orc(array: pa.Array, type_: DataType, orc: OrcType, clocks: Clocks, path: object = None) -> pa.Array:
    """What pyarrow gives for a type of ORC, as the Arrow type of Paimon's type.

    ``array``: what pyarrow gives. ``orc``: the file's type. ``clocks``: of the stripe's writer; pyarrow reads them as
    if they showed UTC.
    Raises UnsupportedError: timestamps of a time zone that is not known.
    """
    target = arrow_type(type_)
    match type_:
        case RowType():
            children = [
                from_orc(array.field(f.name), f.type, orc.children[orc.names.index(f.name)], clocks, path)
                for f in type_.fields
            ]
            if not children:
                return rebuild(array, target, [])
            return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
        case ArrayType():
            return rebuild(array, target, [from_orc(array.values, type_.element, orc.children[0], clocks, path)])
        case MapType():
            return _map_from_orc(array, (type_.key, type_.value), orc, target, clocks, path)
        case MultisetType():
            return _map_from_orc(array, (type_.element, AtomicType(Kind.INT)), orc, target, clocks, path)
    if type_.kind in TIMESTAMP_KINDS:
        return _from_nanoseconds(array if is_utc(clocks.zone) else _in_zone(array, orc, clocks, path), target)
    if type_.kind is Kind.TIME:
        return array.view(target)
    if type_.kind is Kind.CHAR:  # whatever the file's type is, as Java reads it
        return pc.utf8_rtrim(array, " ")
    return array if array.type == target else pc.cast(array, target)


def shared_from_orc(
    array: pa.Array, column: DataField, keys: SharedKeys, orc: OrcType, clocks: Clocks, path: object
) -> pa.Array:
    """The same for a column that is a MAP whose keys many rows share (`shared_maps.is_shared`)."""
    type_ = column.type
    assert isinstance(type_, MapType)
    children = dict(zip(orc.names, orc.children, strict=True))

    def convert(values: pa.Array, member: str) -> pa.Array:
        child = children[member].children[1] if member == OVERFLOW else children[member]
        return from_orc(values, type_.value, child, clocks, path)

    return whole_maps(array, keys, arrow_type(type_), convert, column.name, path)


def _map_from_orc(
    array: pa.Array, types: tuple[DataType, DataType], orc: OrcType, target: pa.DataType, clocks: Clocks, path: object
) -> pa.Array:
    pairs = zip((array.keys, array.items), types, orc.children, strict=True)
    children = [from_orc(child, type_, inner, clocks, path) for child, type_, inner in pairs]
    entries = pa.StructArray.from_arrays(children, fields=[target.key_field, target.item_field])
    return rebuild(array, target, [entries])


def _in_zone(array: pa.Array, orc: OrcType, clocks: Clocks, path: object) -> pa.Array:
    """Nanoseconds that pyarrow read as those of a writer in UTC, as those of the writer's own zone."""
    counts = to_numpy(pc.fill_null(array.view(pa.int64()), 0))
    seconds = counts // 1_000_000_000
    nanos = counts - seconds * 1_000_000_000
    # pyarrow has subtracted a second where it read a moment before 1970.
    stored = seconds + ((seconds < 0) & (nanos > 999_999)) - ORC_EPOCH
    seconds = clocks.seconds(stored, nanos, clock_time=orc.kind is OrcKind.TIMESTAMP, path=path)
    return arrow_array(seconds * 1_000_000_000 + nanos, pa.int64(), mask=is_true(array.is_null()))


def _from_nanoseconds(array: pa.Array, target: pa.DataType) -> pa.Array:
    factor = NANOS_PER_UNIT[target.unit]
    counts = array.view(pa.int64())
    if factor > 1:
        values = to_numpy(pc.fill_null(counts, 0))
        counts = arrow_array(values // factor, pa.int64(), mask=is_true(array.is_null()))
    return counts.view(target)


@dataclass(frozen=True, slots=True)
class StripeStreams:
    """The streams of a stripe of ``rows`` rows in a file with this tail; ``read(offset, length)`` gives its bytes."""

    read: Callable[[int, int], bytes]
    rows: int
    footer: StripeFooter
    tail: OrcTail
    path: object = None

    def load(self, stream: Stream | None) -> bytes:
        """The bytes of a stream, decompressed; none where there is no such stream."""
        if stream is None:
            return b""
        limit = 16 * self.rows + 2**16
        return unpack(self.read(stream.offset, stream.length), self.tail.codec, self.tail.block_size, self.path, limit)


def decode_timestamps(stripe: StripeStreams, type_: OrcType, target: pa.DataType, clocks: Clocks) -> pa.Array:
    """A timestamp column of a stripe, in the unit of ``target``; finer digits are cut off.

    ``stripe``: its streams. ``target``: the Arrow timestamp type. ``clocks``: of the stripe's writer.

    Raises:
        CorruptFileError: streams that do not decode to that many values.
        UnsupportedError: the old encoding of ORC 0.11, a value outside what ``target`` can hold, or an unknown zone.
    """
    rows, footer, path = stripe.rows, stripe.footer, stripe.path
    if type_.id >= len(footer.encodings) or footer.encodings[type_.id] != _DIRECT_V2:
        raise UnsupportedError("timestamps of ORC 0.11 outside the years 1677 to 2262 are not supported", path=path)
    streams = {s.kind: s for s in footer.streams if s.column == type_.id}
    valid = np.ones(rows, dtype=bool)
    if StreamKind.PRESENT in streams:
        valid = _booleans(stripe.load(streams[StreamKind.PRESENT]), rows, path)
    count = int(valid.sum())
    seconds = _integers(stripe.load(streams.get(StreamKind.DATA)), count, True, path).view(np.int64)
    if len(seconds) and max(-int(seconds.min()), int(seconds.max())) > 2**53:
        raise CorruptFileError("seconds out of any range", path=path, field="DATA")
    packed = _integers(stripe.load(streams.get(StreamKind.SECONDARY)), count, False, path)
    # The low three bits say how many zeros were cut from the nanoseconds: none, or that number and one.
    zeros = (packed & np.uint64(7)).astype(np.int64)
    nanos = (packed >> np.uint64(3)).astype(np.int64) * np.where(zeros > 0, 10 ** (zeros + 1), 1)
    if len(nanos) and not (int(nanos.min()) >= 0 and int(nanos.max()) < 10**9):
        raise CorruptFileError("nanoseconds of more than a second", path=path, field="SECONDARY")
    seconds = clocks.seconds(seconds, nanos, clock_time=type_.kind is OrcKind.TIMESTAMP, path=path)
    factor = UNITS_PER_SECOND[target.unit]
    limit = (2**63 - 1) // factor - 1
    if len(seconds) and max(-int(seconds.min()), int(seconds.max())) > limit:
        raise UnsupportedError(
            "a timestamp is outside of the years that nanoseconds can hold, 1677 to 2262",
            path=path,
            hint="alter the column to a precision of at most 6",
            feature="orc",
        )
    counts = seconds * factor + nanos // (10**9 // factor)
    whole = np.zeros(len(valid), dtype=np.int64)
    whole[valid] = counts
    return arrow_array(whole, pa.int64(), mask=~valid).view(target)


def _booleans(data: bytes, rows: int, path: object) -> Flags:
    """Byte run lengths, then bits, the highest first."""
    wanted = (rows + 7) // 8
    parts: list[Octets] = [np.zeros(0, np.uint8)]
    at = done = 0
    while done < wanted:
        if at + 1 >= len(data):
            raise CorruptFileError("the stream ends too early", path=path, offset=at, field="PRESENT")
        head = data[at]
        if head < 128:
            run = np.full(head + 3, data[at + 1], dtype=np.uint8)
            at += 2
        else:
            run = np.frombuffer(data, np.uint8, min(256 - head, len(data) - at - 1), at + 1)
            at += 1 + 256 - head
        parts.append(run)
        done += len(run)
        if at > len(data):
            raise CorruptFileError("the stream ends too early", path=path, offset=at, field="PRESENT")
    return np.unpackbits(np.concatenate(parts)[:wanted])[:rows].astype(bool)


def _integers(data: bytes, count: int, signed: bool, path: object) -> Words:
    """``count`` integers of run length encoding version 2, as 64-bit words (two's complement when signed)."""
    reader = _Runs(data, signed, path)
    parts: list[Words] = [np.zeros(0, np.uint64)]
    done = 0
    while done < count:
        parts.append(reader.next())
        done += len(parts[-1])
    return np.concatenate(parts)[:count]


class _Runs:
    def __init__(self, data: bytes, signed: bool, path: object) -> None:
        self._data = data
        self._at = 0
        self._signed = signed
        self._path = path

    def _take(self, length: int) -> bytes:
        part = self._data[self._at : self._at + length]
        if len(part) < length:
            raise CorruptFileError("the stream ends inside a run", path=self._path, offset=self._at, field="run")
        self._at += length
        return part

    def _varint(self) -> int:
        value, self._at = read_varint(self._data, self._at, self._path)
        return value

    def _from_zigzag(self, values: Words) -> Words:
        return zigzag_decoded(values).view(np.uint64) if self._signed else values

    def _unpack(self, count: int, width: int) -> Words:
        """``count`` numbers of ``width`` bits, the highest bit first."""
        if not count:
            return np.zeros(0, np.uint64)
        raw = np.frombuffer(self._take((count * width + 7) // 8), np.uint8)
        bits = np.unpackbits(raw)[: count * width].reshape(count, width)
        padded = np.zeros((count, 64), np.uint8)
        padded[:, 64 - width :] = bits
        return np.packbits(padded, axis=1).view(">u8").reshape(count).astype(np.uint64)

    def next(self) -> Words:
        head = self._take(1)[0]
        match head >> 6:
            case 0:
                value = int.from_bytes(self._take((head >> 3 & 7) + 1), "big")
                values = np.full((head & 7) + 3, value, np.uint64)
                return self._from_zigzag(values)
            case 1:
                count = self._count(head)
                values = self._unpack(count, RUN_WIDTHS[head >> 1 & 31])
                return self._from_zigzag(values)
            case 2:
                return self._patched(head)
        return self._delta(head)

    def _count(self, head: int) -> int:
        return ((head & 1) << 8 | self._take(1)[0]) + 1

    def _delta(self, head: int) -> Words:
        code = head >> 1 & 31
        count = self._count(head)
        base = unzigzag(self._varint()) if self._signed else self._varint()
        step = unzigzag(self._varint())
        steps = np.full(max(count - 1, 0), step & (2**64 - 1), np.uint64)
        if code and count > 2:
            widths = self._unpack(count - 2, RUN_WIDTHS[code])
            steps[1:] = widths if step >= 0 else np.uint64(0) - widths
        values = np.empty(count, np.uint64)
        values[0] = base & (2**64 - 1)
        np.cumsum(steps, out=values[1:])
        values[1:] += values[0]
        return values

    def _patched(self, head: int) -> Words:
        width = RUN_WIDTHS[head >> 1 & 31]
        count = self._count(head)
        third, fourth = self._take(2)
        base_bytes, patch_width = (third >> 5) + 1, RUN_WIDTHS[third & 31]
        gap_width, patches = (fourth >> 5) + 1, fourth & 31
        base = int.from_bytes(self._take(base_bytes), "big")
        sign = 1 << (8 * base_bytes - 1)
        if base & sign:
            base = -(base & (sign - 1))
        values = self._unpack(count, width)
        entry = next((w for w in RUN_WIDTHS if w >= gap_width + patch_width), 64)
        place = 0
        for patch in self._unpack(patches, entry).tolist():
            place += patch >> patch_width
            if place >= count:
                raise CorruptFileError("a patch is outside its run", path=self._path, offset=self._at, field="run")
            values[place] |= np.uint64((patch & ((1 << patch_width) - 1)) << width & (2**64 - 1))
        return values + np.uint64(base & (2**64 - 1))
