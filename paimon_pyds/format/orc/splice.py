"""Putting the timestamps into an ORC file that pyarrow wrote with zeros in their places.

pyarrow's ORC writer takes timestamps as 64-bit nanoseconds only (the years 1677 to 2262), and stores those before 1970
with negative fractions, which other readers refuse or misread. So a file with timestamp columns is written by pyarrow
with zeros first; then each stripe is copied with the two streams of every timestamp column (seconds and nanoseconds)
replaced, and the tail is corrected (ORC specification v1: Timestamp Columns, Run Length Encoding version 2, File Tail).
Row indexes are left out: their positions would point into streams that were replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from paimon_pyds.base.arrays import Int64s, Octets, Words
from paimon_pyds.base.varints import varint
from paimon_pyds.errors import StorageError, UnsupportedError
from paimon_pyds.format.orc.encoding import (
    RUN_WIDTHS,
    BlockSums,
    Field,
    pack,
    read_message,
    sealed_footer,
    unpack,
    write_message,
)
from paimon_pyds.format.orc.tail import CODECS, OrcTail, StreamKind, Stripe, parse_stripe_footer, parse_tail
from paimon_pyds.format.orc.zones import ORC_EPOCH

_RUN = 512
_MOST_SCRIPT_BYTES = 256
"""Bytes of the longest postscript, and of its length."""
_INDEXES = frozenset({6, 7, 8})
"""Kinds of streams: row index and bloom filters."""

_WIDTHS = np.array(RUN_WIDTHS)


@dataclass(slots=True)
class Moments:
    """Timestamps that are not NULL: seconds since 1970, rounded down, and nanoseconds of the second."""

    seconds: Int64s
    nanos: npt.NDArray[np.int32]


def split_moments(counts: Int64s, per_second: int, path: object) -> Moments:
    """Timestamps from counts of a unit, of which a second has ``per_second``.
    Raises UnsupportedError: in the last second before 1970, where ORC cannot distinguish -0.5 s from 0.5 s."""
    seconds = counts // per_second
    nanos = (counts - seconds * per_second) * (1_000_000_000 // per_second)
    if bool(((seconds == -1) & (nanos > 999_999)).any()):
        message = "an ORC file can't hold a timestamp with a fraction in the last second before 1970"
        raise UnsupportedError(message, path=path, hint="use file.format=parquet", feature="orc")
    return Moments(seconds, nanos.astype(np.int32))


def join_moments(parts: Sequence[Moments]) -> Moments:
    """The timestamps of several batches in a row."""
    return Moments(np.concatenate([p.seconds for p in parts]), np.concatenate([p.nanos for p in parts]))


def _zigzag(values: Int64s) -> Words:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def encode_integers(words: Words) -> bytes:
    """Run length encoding version 2 of words (signed values zigzagged before): direct runs, and runs of one value."""
    full = len(words) // _RUN * _RUN
    parts = _encode_runs(words[:full].reshape(-1, _RUN)) if full else []
    if full < len(words):
        parts += _encode_runs(words[full:].reshape(1, -1))
    return b"".join(parts)


def _encode_runs(runs: Words) -> list[bytes]:
    """The bytes of runs that are equally long."""
    length = runs.shape[1]
    top = runs.max(axis=1)
    same = (top == runs.min(axis=1)) & (length > 2)
    bits = np.maximum(1, np.array([int(t).bit_length() for t in top.tolist()]))
    codes = np.searchsorted(_WIDTHS, bits)
    encoded: list[bytes] = [b""] * len(runs)
    for i in np.flatnonzero(same).tolist():
        head = bytes([0xC0 | (length - 1) >> 8, (length - 1) & 0xFF])
        encoded[i] = head + varint(int(top[i])) + b"\0"
    for code in np.unique(codes[~same]).tolist():
        chosen = np.flatnonzero(~same & (codes == code))
        head = bytes([0x40 | code << 1 | (length - 1) >> 8, (length - 1) & 0xFF])
        for start in range(0, len(chosen), 256):
            some = chosen[start : start + 256]
            packed = _pack(runs[some], int(_WIDTHS[code]))
            for i, row in zip(some.tolist(), packed, strict=True):
                encoded[i] = head + row.tobytes()
    return encoded


def _pack(runs: Words, width: int) -> Octets:
    """Each value in ``width`` bits, the highest bit first."""
    raw = runs.astype(">u8").view(np.uint8).reshape(len(runs), -1, 8)
    used = (width + 7) // 8
    bits = np.unpackbits(np.ascontiguousarray(raw[:, :, 8 - used :]), axis=2)[:, :, 8 * used - width :]
    return np.packbits(bits.reshape(len(runs), -1), axis=1)


def _packed_nanos(value: Int64s) -> Words:
    """Nanoseconds without their trailing zeros: three low bits say how many there were (two or more), less one."""
    zeros = np.zeros(len(value), np.int64)
    strip = (value != 0) & (value % 100 == 0)
    value = np.where(strip, value // 100, value)
    zeros[strip] = 1
    for _ in range(6):
        more = strip & (value % 10 == 0)
        value = np.where(more, value // 10, value)
        zeros += more
    return (value << 3 | zeros).astype(np.uint64)


def _streams(moments: Moments) -> dict[int, bytes]:
    # Readers take a second off those before 1970 that have a fraction of a millisecond or more, so one is added here.
    # (From -0.5 s, which becomes 0 seconds and a half, no reader takes it off: `split_moments` refuses those.)
    seconds = moments.seconds + ((moments.seconds < 0) & (moments.nanos > 999_999))
    return {
        StreamKind.DATA: encode_integers(_zigzag(seconds - ORC_EPOCH)),
        StreamKind.SECONDARY: encode_integers(_packed_nanos(moments.nanos.astype(np.int64))),
    }


def _fields(data: bytes) -> list[Field]:
    return list(read_message(data))


def _number(fields: list[Field], wanted: int) -> int:
    return next((v for n, _, v in fields if n == wanted and isinstance(v, int)), 0)


def _parts(fields: list[Field], wanted: int) -> Iterator[bytes]:
    return (v for n, _, v in fields if n == wanted and isinstance(v, bytes))


def write_end(parts: list[bytes], sums: BlockSums, write: Callable[[bytes | memoryview], object]) -> None:
    """Write the end of an ORC file of pyarrow, with checksums in its footer.

    Args:
        parts: the end, from somewhere before the stripe statistics on; taken out of the list.
        sums: of what stands before it.
        write: takes the new end.
    """
    data = _taken_from(parts, _MOST_SCRIPT_BYTES)
    script_length = data[-1]
    script = _fields(data[-1 - script_length : -1])
    codec, block_size = CODECS[_number(script, 2)], _number(script, 3)
    footer_length, statistics_length = _number(script, 1), _number(script, 5)
    tail = statistics_length + footer_length + script_length + 1
    data = _taken_from(parts, tail - len(data)) + data
    if len(data) < tail:
        raise StorageError("pyarrow wrote an ORC file in pieces whose tail was not found")
    statistics_at = len(data) - tail
    footer_at = statistics_at + statistics_length
    footer = _fields(unpack(data[footer_at : footer_at + footer_length], codec, block_size))
    for part in (*parts, data[:statistics_at]):  # often the whole file: not joined
        write(part)
        sums.update(part)
    _write_tail(footer, data[statistics_at:footer_at], script, lambda d: pack(d, codec, block_size), sums, write)


def _taken_from(parts: list[bytes], size: int) -> bytes:
    """The last parts, which have at least ``size`` bytes together where all parts do."""
    taken = list[bytes]()
    while parts and size > 0:
        taken.append(parts.pop())
        size -= len(taken[-1])
    return b"".join(reversed(taken))


def _write_tail(
    footer: Iterable[Field],
    statistics: bytes,
    script: list[Field],
    squeeze: Callable[[bytes], bytes],
    sums: BlockSums,
    write: Callable[[bytes], object],
) -> int:
    """Stripe statistics, footer with checksums, postscript; how many bytes."""
    new_footer = squeeze(sealed_footer(footer, statistics, sums.finish()))
    changed = {1: len(new_footer), 5: len(statistics)}
    new_script = write_message([(n, w, changed.get(n, v)) for n, w, v in script])
    parts = (statistics, new_footer, new_script, bytes([len(new_script)]))
    for part in parts:
        write(part)
    return sum(map(len, parts))


def splice_timestamps(
    source: BinaryIO, size: int, write: Callable[[bytes], object], columns: Mapping[int, Moments]
) -> int:
    """Copy an ORC file of pyarrow, with the timestamps of ``columns`` (by number) in their places; the new size.

    ``source``: the file, written with zeros for all timestamps. ``write``: takes the new file's bytes in order.
    ``columns``: the values of each timestamp column that are not NULL, in file order.
    Raises StorageError: the numbers of values differ from what the file says.
    """

    def read(offset: int, length: int) -> bytes:
        source.seek(offset)
        return source.read(length)

    tail = parse_tail(read, size)
    footer, script = (_fields(message) for message in tail.messages)
    metadata = _fields(unpack(read(*tail.metadata), tail.codec, tail.block_size))
    squeeze: Callable[[bytes], bytes] = lambda data: pack(data, tail.codec, tail.block_size)  # noqa: E731
    stripe_statistics = [_fields(part) for part in _parts(metadata, 1)]
    if len(stripe_statistics) != len(tail.stripes):
        raise StorageError("pyarrow wrote an ORC file without statistics of its stripes")
    sums = BlockSums()

    def put(data: bytes) -> None:
        write(data)
        sums.update(data)

    put(b"ORC")
    position, done = 3, dict.fromkeys(columns, 0)
    informations: list[bytes] = []
    new_statistics: list[bytes] = []
    for stripe, statistics in zip(tail.stripes, stripe_statistics, strict=True):
        present = [_fields(part) for part in _parts(statistics, 1)]
        mine: dict[int, Moments] = {}
        for column, moments in columns.items():
            start = done[column]
            stop = done[column] = start + _number(present[column], 1)
            mine[column] = Moments(moments.seconds[start:stop], moments.nanos[start:stop])
        lengths = _copy_stripe(read, stripe, tail, mine, put)
        informations.append(write_message((n, 0, v) for n, v in enumerate((position, *lengths, stripe.rows), 1)))
        patched = [_patched(number, part, mine) for number, part in enumerate(_parts(statistics, 1))]
        new_statistics.append(write_message((1, 2, part) for part in patched))
        position += sum(lengths)
    if any(done[column] != len(moments.seconds) for column, moments in columns.items()):
        raise StorageError("pyarrow wrote other numbers of timestamps than it was given")
    new_metadata = squeeze(write_message((1, 2, part) for part in new_statistics))
    grown = position - max((s.offset + s.length for s in tail.stripes), default=3)
    new_footer = _new_footer(footer, grown, informations, columns)
    return position + _write_tail(new_footer, new_metadata, script, squeeze, sums, write)


def _patched(column: int, statistics: bytes, columns: Mapping[int, Moments]) -> bytes:
    """Statistics of a column, of a timestamp column with the right bounds: in milliseconds, rounded outwards by their
    default."""
    if column not in columns:
        return statistics
    fields = [f for f in read_message(statistics) if f[0] != 9]
    moments = columns[column]
    if len(moments.seconds):
        millis = moments.seconds * 1000 + moments.nanos // 1_000_000
        low, high = (int(v) for v in _zigzag(np.array([millis.min(), millis.max()])))
        bounds: list[Field] = [(1, 0, low), (2, 0, high), (3, 0, low), (4, 0, high)]
        fields.append((9, 2, write_message(bounds)))
    return write_message(fields)


def _new_footer(footer: list[Field], grown: int, stripes: list[bytes], columns: Mapping[int, Moments]) -> list[Field]:
    fields: list[Field] = []
    column = 0
    stripe = iter(stripes)
    for number, wire, value in footer:
        if number == 2 and isinstance(value, int):
            value += grown
        elif number == 3:
            value = next(stripe)
        elif number == 8:
            value = 0  # rows of an entry of the row index
        elif number == 7 and isinstance(value, bytes):
            value = _patched(column, value, columns)
            column += 1
        fields.append((number, wire, value))
    return fields


def _copy_stripe(
    read: Callable[[int, int], bytes],
    stripe: Stripe,
    tail: OrcTail,
    columns: Mapping[int, Moments],
    write: Callable[[bytes], object],
) -> tuple[int, int, int]:
    """Copy one stripe; the lengths of its index, data and footer."""
    at = stripe.offset + stripe.index_length + stripe.data_length
    footer = parse_stripe_footer(read(at, stripe.footer_length), stripe, tail)
    fresh = {column: _streams(moments) for column, moments in columns.items()}
    fields: list[Field] = []
    data = 0
    for stream in footer.streams:
        if stream.kind in _INDEXES:
            continue
        if stream.kind in fresh.get(stream.column, {}):
            body = pack(fresh[stream.column][stream.kind], tail.codec, tail.block_size)
        else:
            body = read(stream.offset, stream.length)
        write(body)
        fields.append((1, 2, write_message([(1, 0, stream.kind), (2, 0, stream.column), (3, 0, len(body))])))
        data += len(body)
    others = [field for field in read_message(footer.message) if field[0] != 1]
    end = pack(write_message([*fields, *others]), tail.codec, tail.block_size)
    write(end)
    return 0, data, len(end)
