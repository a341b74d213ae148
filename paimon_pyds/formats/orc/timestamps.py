"""Timestamps of ORC files that pyarrow can't give: those before 1677 or after 2262.

pyarrow gives ORC timestamps as 64-bit nanoseconds and has no other way. The few files with such values have these
columns decoded here: seconds and nanoseconds are two integer streams (ORC specification v1, Timestamp Columns, Run
Length Encoding version 2, Boolean Run Length Encoding). Runs are decoded one by one, the values of a run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.formats.orc.compression import unpack
from paimon_pyds.formats.orc.tail import OrcKind, OrcTail, OrcType, Stream, StreamKind, StripeFooter
from paimon_pyds.formats.orc.zones import Clocks
from paimon_pyds.types import UNITS_PER_SECOND

__all__ = ["StripeStreams", "decode_timestamps"]

_DIRECT_V2 = 2
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class StripeStreams:
    """The streams of a stripe of ``rows`` rows; ``read`` gives the bytes of one as they are in the file. ``tail`` is
    the file's, and ``path`` names it in messages."""

    read: Callable[[Stream], bytes]
    rows: int
    footer: StripeFooter
    tail: OrcTail
    path: object = None

    def load(self, stream: Stream | None) -> bytes:
        """The bytes of a stream, decompressed; none where there is no such stream."""
        if stream is None:
            return b""
        limit = 16 * self.rows + 2**16
        return unpack(self.read(stream), self.tail.codec, self.tail.block_size, self.path, limit)


def decode_timestamps(stripe: StripeStreams, type_: OrcType, target: pa.DataType, clocks: Clocks) -> pa.Array:
    """A timestamp column of a stripe, in the unit of ``target``; finer digits are cut off.

    Args:
        stripe: its streams.
        type_: the column.
        target: the Arrow timestamp type.
        clocks: of the stripe's writer.

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
    nanos = _nanos(_integers(stripe.load(streams.get(StreamKind.SECONDARY)), count, False, path), path)
    seconds = clocks.seconds(seconds, nanos, clock_time=type_.kind is OrcKind.TIMESTAMP, path=path)
    factor = UNITS_PER_SECOND[target.unit]
    limit = (2**63 - 1) // factor - 1
    if len(seconds) and max(-int(seconds.min()), int(seconds.max())) > limit:
        raise UnsupportedError(
            "a timestamp is outside of the years that nanoseconds can hold, 1677 to 2262",
            path=path,
            hint="alter the column to a precision of at most 6",
        )
    counts = seconds * factor + nanos // (10**9 // factor)
    whole = np.zeros(len(valid), dtype=np.int64)
    whole[valid] = counts
    return pa.array(whole, pa.int64(), mask=~valid).view(target)


def _nanos(packed: _Words, path: object) -> npt.NDArray[np.int64]:
    # The low three bits say how many zeros were cut from the nanoseconds: none, or that number and one.
    zeros = (packed & np.uint64(7)).astype(np.int64)
    nanos: npt.NDArray[np.int64] = (packed >> np.uint64(3)).astype(np.int64) * np.where(zeros > 0, 10 ** (zeros + 1), 1)
    if len(nanos) and not (int(nanos.min()) >= 0 and int(nanos.max()) < 10**9):
        raise CorruptFileError("nanoseconds of more than a second", path=path, field="SECONDARY")
    return nanos


# ---------------------------------------------------------------------------------------------------- run lengths


def _booleans(data: bytes, rows: int, path: object) -> npt.NDArray[np.bool_]:
    """Byte run lengths, then bits, the highest first."""
    wanted = (rows + 7) // 8
    parts: list[npt.NDArray[np.uint8]] = []
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
    bits = np.unpackbits(np.concatenate(parts)[:wanted]) if parts else np.zeros(0, np.uint8)
    return bits[:rows].astype(bool)


def _integers(data: bytes, count: int, signed: bool, path: object) -> _Words:
    """``count`` integers of run length encoding version 2, as 64-bit words (two's complement when signed)."""
    reader = _Runs(data, signed, path)
    parts: list[_Words] = []
    done = 0
    while done < count:
        run = reader.next()
        parts.append(run)
        done += len(run)
    if not parts:
        return np.zeros(0, np.uint64)
    return np.concatenate(parts)[:count]


def _zigzag(values: _Words) -> _Words:
    return (values >> np.uint64(1)) ^ (np.uint64(0) - (values & np.uint64(1)))


class _Runs:
    """Decodes one run after the other."""

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
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (2**64 - 1)
            shift += 7
            if shift > 63:
                raise CorruptFileError("a number is too long", path=self._path, offset=self._at, field="run")

    def _signed_varint(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _unpack(self, count: int, width: int) -> _Words:
        """``count`` numbers of ``width`` bits, the highest bit first."""
        if not count:
            return np.zeros(0, np.uint64)
        raw = np.frombuffer(self._take((count * width + 7) // 8), np.uint8)
        bits = np.unpackbits(raw)[: count * width].reshape(count, width)
        padded = np.zeros((count, 64), np.uint8)
        padded[:, 64 - width :] = bits
        return np.packbits(padded, axis=1).view(">u8").reshape(count).astype(np.uint64)

    def next(self) -> _Words:
        head = self._take(1)[0]
        match head >> 6:
            case 0:
                value = int.from_bytes(self._take((head >> 3 & 7) + 1), "big")
                values = np.full((head & 7) + 3, value, np.uint64)
                return _zigzag(values) if self._signed else values
            case 1:
                count = self._count(head)
                values = self._unpack(count, _WIDTHS[head >> 1 & 31])
                return _zigzag(values) if self._signed else values
            case 2:
                return self._patched(head)
        return self._delta(head)

    def _count(self, head: int) -> int:
        return ((head & 1) << 8 | self._take(1)[0]) + 1

    def _delta(self, head: int) -> _Words:
        code = head >> 1 & 31
        count = self._count(head)
        base = self._signed_varint() if self._signed else self._varint()
        step = self._signed_varint()
        steps = np.full(max(count - 1, 0), step & (2**64 - 1), np.uint64)
        if code and count > 2:
            widths = self._unpack(count - 2, _WIDTHS[code])
            steps[1:] = widths if step >= 0 else np.uint64(0) - widths
        values = np.empty(count, np.uint64)
        values[0] = base & (2**64 - 1)
        np.cumsum(steps, out=values[1:])
        values[1:] += values[0]
        return values

    def _patched(self, head: int) -> _Words:
        width = _WIDTHS[head >> 1 & 31]
        count = self._count(head)
        third, fourth = self._take(2)
        base_bytes, patch_width = (third >> 5) + 1, _WIDTHS[third & 31]
        gap_width, patches = (fourth >> 5) + 1, fourth & 31
        base = int.from_bytes(self._take(base_bytes), "big")
        sign = 1 << (8 * base_bytes - 1)
        if base & sign:
            base = -(base & (sign - 1))
        values = self._unpack(count, width)
        entry = next((w for w in _WIDTHS if w >= gap_width + patch_width), 64)
        place = 0
        for patch in self._unpack(patches, entry).tolist():
            place += patch >> patch_width
            if place >= count:
                raise CorruptFileError("a patch lies outside its run", path=self._path, offset=self._at, field="run")
            values[place] |= np.uint64((patch & ((1 << patch_width) - 1)) << width & (2**64 - 1))
        return values + np.uint64(base & (2**64 - 1))
