"""Many Avro records at once: each record has a cursor, and one numpy step decodes one field at all cursors.

A reader that goes through records one after another pays Python's price for each field of each record. Here the price
is paid once per field. It needs to know where the records start, which Avro does not say; `metadata.manifest_records`
guesses the places and proves the guess (each record must end where the next one starts). A cursor that meets bytes that
can't be a record *fails*: it goes past the end of the data and stays there. Nothing raises, nothing is read out of
bounds, and what was captured at a failed cursor is garbage, to be thrown away by the caller.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, Words, from_numpy, pc, slices, unaligned_words
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.varints import LONGER, unsigned_varints, zigzag_decoded
from paimon_pyds.format.avro.schema import Array, Mapping, Node, Primitive, Record, Sized, Union, Unread

PADDING_BYTES = 16
"""Zero bytes that must follow the records: failed cursors read them."""

MAX_ITEMS = 4096
"""Cursors at longer arrays fail at the latest: the caller then reads records one by one."""

MAX_STEPS = 50_000
"""Numbers read at all cursors together, so that no file keeps the reader busy for long."""

_FAILED = np.int64(2**61)
Ints: TypeAlias = "npt.NDArray[np.signedinteger[Any]]"
"""Numbers in the narrowest type that holds what was read: most take one byte, and memory is what takes time."""
WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}
"""Bytes of the types whose values all have the same size."""


@dataclass(frozen=True, slots=True)
class Longs:
    """One int or long at each cursor; ``valid`` None: all are there."""

    values: Ints
    valid: Flags | None = None


@dataclass(frozen=True, slots=True)
class Bytes:
    """One run of bytes at each cursor, by its place in the data."""

    starts: Int64s
    ends: Int64s
    valid: Flags | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """One value of a fixed number of bytes at each cursor, by its place in the data."""

    starts: Int64s
    valid: Flags | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """One array at each cursor: ``counts`` of items, and the items, those of one array after another."""

    counts: Int64s
    items: Longs | Bytes | Fixed | None
    valid: Flags | None = None


Capture: TypeAlias = "Longs | Bytes | Fixed | Items"


@dataclass(frozen=True, slots=True)
class Walk:
    """What walking over records found: where each ends, whether it could be read, the wanted fields by dotted path."""

    ends: Int64s
    ok: Flags
    captured: dict[str, Capture] = field(default_factory=dict)


def walk_records(
    schema: Record, data: npt.NDArray[np.uint8], starts: Int64s, wanted: frozenset[str], max_items: int = MAX_ITEMS
) -> Walk:
    """Decode a record at each of ``starts``. Only fields directly in records can be captured, not those of records that
    are nullable or items of arrays.

    Args:
        schema: of the records.
        data: all bytes, followed by `PADDING_BYTES` zeros.
        starts: where records start, ascending.
        wanted: dotted paths of the fields to capture: ints, longs, bytes, strings, arrays of those, nullable or not,
            and what is unread.
        max_items: cursors at longer arrays fail. Bytes that are no record may well claim to have one.
    """
    walker = Walker(data, wanted, max_items)
    try:
        _, ends = walker.walk(schema, starts, "")
    except TooManyStepsError:
        ends = np.full(len(starts), _FAILED)
    return Walk(ends, ends <= walker.limit, walker.captured)


class TooManyStepsError(Exception):
    """The arrays at a few cursors take more steps than reading records one by one would."""


class Walker:
    """Walks over values at many cursors at once.

    Args:
        data: all bytes, followed by `PADDING_BYTES` zeros.
        wanted: as of `walk_records`.
        max_items: as of `walk_records`.
        max_steps: numbers that are read at all cursors together before TooManyStepsError is raised.
    """

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        wanted: frozenset[str] = frozenset(),
        max_items: int = MAX_ITEMS,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self._data = data
        self._words: Words = unaligned_words(data)
        self.limit = data.size - PADDING_BYTES
        self._wanted = wanted
        self._max_items = max_items
        self._max_steps = max_steps
        self.captured: dict[str, Capture] = {}
        self._steps = 0

    # Every method takes cursors, and returns its capture (None unless ``keep``) and the new cursors.

    def walk(self, node: Node, at: Int64s, path: str = "", keep: bool = False) -> tuple[Capture | None, Int64s]:
        """Pass over a value at each cursor. ``path`` is that of the value, ``keep`` says whether it is captured."""
        match node:
            case Primitive(name):
                return self._primitive(name, at, keep)
            case Sized(size):
                return None, at + size
            case Union(branches):
                return self._union(branches, at, path, keep)
            case Array(item):
                return self._array(item, at, path, keep)
            case Mapping(value):
                return self._array(Record((("", Primitive("string")), ("", value))), at, path, False)
            case Record(fields):
                for name, member in fields:
                    inner = f"{path}.{name}" if path else name
                    kept = inner in self._wanted
                    found, at = self.walk(member, at, inner, kept)
                    if kept and found is not None:
                        self.captured[inner] = found
                return None, at
            case Unread(inside):
                _, ends = self.walk(inside, at, path + "!")
                return (Bytes(at, ends) if keep else None), ends

    def _primitive(self, name: str, at: Int64s, keep: bool) -> tuple[Capture | None, Int64s]:
        if name in ("bytes", "string"):
            starts, at = self._length(at)
            return (Bytes(starts, at) if keep else None), at
        if name in WIDTHS:
            return (Fixed(at) if keep else None), at + WIDTHS[name]
        values, at = self._long(at)
        if name == "int" and values.dtype == np.int64:
            at[(values < -(2**31)) | (values >= 2**31)] = _FAILED
        return (Longs(values) if keep else None), at

    def _long(self, at: Int64s) -> tuple[Ints, Int64s]:
        self._steps += 1
        if self._steps > self._max_steps:
            raise TooManyStepsError
        first = self._data.take(at, mode="clip")  # the last byte is zero
        more = first >= 0x80
        if not more.any():
            return _unzigzag(first), at + 1
        second = self._data.take(at + 1, mode="clip")
        if not ((second >= 0x80) & more).any():
            both = (first & np.uint8(0x7F)) | (second * more).astype(np.uint16) << np.uint16(7)
            return _unzigzag(both), at + (more.view(np.uint8) + np.uint8(1))
        where = np.minimum(at, self.limit)
        group, size = unsigned_varints(self._words[where])
        after = at + size
        longer = np.flatnonzero(size == LONGER)
        if len(longer):
            self._long_tail(longer, where, group, after)
        return zigzag_decoded(group), after

    def _long_tail(self, numbers: Int64s, where: Int64s, group: Words, after: Int64s) -> None:
        """Numbers of nine and ten bytes."""
        start = where[numbers]
        ninth = self._data[start + 8].astype(np.uint64)
        tenth = self._data[start + 9].astype(np.uint64)
        ten = ninth >= 0x80
        group[numbers] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        group[numbers] |= np.where(ten, tenth, np.uint64(0)) << np.uint64(63)
        after[numbers] = np.where(ten & (tenth > 1), _FAILED, start + 9 + ten)

    def _length(self, at: Int64s) -> tuple[Int64s, Int64s]:
        """A byte length, checked; the place after it, and the place after the bytes."""
        sizes, starts = self._long(at)
        ends = starts + sizes
        bad = (ends < starts) | (ends > self.limit)  # a sum beyond 2⁶³ is negative
        if bad.any():
            ends[bad] = _FAILED
        return starts, ends

    def _union(self, branches: tuple[Node, ...], at: Int64s, path: str, keep: bool) -> tuple[Capture | None, Int64s]:
        chosen, at = self._long(at)
        wrong = (chosen < 0) | (chosen >= len(branches))
        if wrong.any():
            at[wrong] = _FAILED
        kept: Capture | None = None
        for branch, node in enumerate(branches):
            if node == _NULL:
                continue
            mine = chosen == branch
            if mine.all():
                return self.walk(node, at, path, keep)
            numbers = np.flatnonzero(mine)
            if len(numbers) == 0 and not keep:
                continue
            found, after = self.walk(node, at[numbers], path + "?", keep)
            if found is not None:
                kept = _spread(found, numbers, mine, at)
            at[numbers] = after
        return kept, at

    def _array(self, item: Node, at: Int64s, path: str, keep: bool) -> tuple[Capture | None, Int64s]:
        totals = np.zeros(len(at), np.int64)
        pieces: list[tuple[Int64s, Int64s, Capture | None]] = []
        inner = path + "[]"
        at = at.copy()
        live = np.arange(len(at))
        while len(live):
            numbers, cursor = self._long(at[live])
            counts = numbers.astype(np.int64)
            if counts.min() < 0:
                sized = np.flatnonzero(counts < 0)
                counts[sized] = -counts[sized]
                _, cursor[sized] = self._long(cursor[sized])
            # Not even a byte per item is left, or too many of them for this way of reading (or -2⁶³).
            bad = (counts > self.limit - cursor) | (totals[live] + counts > self._max_items) | (counts < 0)
            if bad.any():
                cursor[bad] = _FAILED
                counts[bad] = 0
            more = counts > 0
            if not more.all():
                at[live] = cursor
                live, counts, cursor = live[more], counts[more], cursor[more]
                if len(live) == 0:
                    break
            low, high = int(counts.min()), int(counts.max())
            for index in range(high):
                if index < low:
                    found, cursor = self.walk(item, cursor, inner, keep)
                    pieces.append((live, totals[live] + index, found))
                else:
                    longer = np.flatnonzero(counts > index)
                    cursor = cursor.copy()  # what was captured before may be this very array
                    found, cursor[longer] = self.walk(item, cursor[longer], inner, keep)
                    pieces.append((live[longer], totals[live[longer]] + index, found))
            at[live] = cursor
            totals[live] += counts
        return (_collect(totals, pieces) if keep else None), at


_NULL = Primitive("null")


def _unzigzag(numbers: npt.NDArray[np.unsignedinteger[Any]]) -> Ints:
    """The signed numbers behind unsigned ones of one type."""
    signed = np.dtype(f"i{numbers.itemsize}")
    one = numbers.dtype.type(1)
    found: Ints = (numbers >> one).view(signed) ^ -(numbers & one).view(signed)
    return found


def _spread(found: Capture, numbers: Int64s, mine: Flags, at: Int64s) -> Capture:
    """The capture at some cursors as a capture at all of them, which is null at the others."""
    if isinstance(found, Longs):
        values = np.zeros(len(mine), np.int64)
        values[numbers] = found.values
        return Longs(values, mine)
    if isinstance(found, Fixed):
        starts = at.copy()
        starts[numbers] = found.starts
        return Fixed(starts, mine)
    if isinstance(found, Bytes):
        starts, ends = at.copy(), at.copy()
        starts[numbers], ends[numbers] = found.starts, found.ends
        return Bytes(starts, ends, mine)
    counts = np.zeros(len(mine), np.int64)
    counts[numbers] = found.counts
    return Items(counts, found.items, mine)


def _collect(totals: Int64s, pieces: list[tuple[Int64s, Int64s, Capture | None]]) -> Items:
    """The items of all arrays, one array after another, from what each step captured."""
    base = np.cumsum(totals) - totals
    size = int(totals.sum())
    values = np.zeros(size, np.int64)
    ends = np.zeros(size, np.int64)
    valid: Flags | None = None
    kind: type[Longs | Bytes | Fixed] = Longs
    for numbers, index, found in pieces:
        if found is None or isinstance(found, Items):
            continue
        target = base[numbers] + index
        kind = type(found)
        values[target] = found.values if isinstance(found, Longs) else found.starts
        if isinstance(found, Bytes):
            ends[target] = found.ends
        if found.valid is not None:
            if valid is None:
                valid = np.ones(size, np.bool_)
            valid[target] = found.valid
    if kind is Bytes:
        return Items(totals, Bytes(values, ends, valid))
    return Items(totals, Fixed(values, valid) if kind is Fixed else Longs(values, valid))


def to_arrow(capture: Capture, type_: pa.DataType, data: npt.NDArray[np.uint8], rows: Int64s | None = None) -> pa.Array:
    """An Arrow array of what was captured at cursors that did not fail: at all of them, or at some, in order.
    Raises pa.ArrowInvalid: a string that is not UTF-8, an integer that does not fit the type."""
    if rows is not None:
        if isinstance(capture, Items):
            return pc.take(to_arrow(capture, type_, data), from_numpy(rows))
        capture = _some(capture, rows)
    validity = None if capture.valid is None else pa.py_buffer(np.packbits(capture.valid, bitorder="little"))
    if isinstance(capture, Longs):
        values = capture.values.astype(type_.to_pandas_dtype(), copy=False)
        lossy = values.itemsize < capture.values.itemsize
        if lossy and ((values != capture.values) & (True if capture.valid is None else capture.valid)).any():
            raise pa.ArrowInvalid(f"an integer does not fit {type_}")
        return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(values)])
    if isinstance(capture, Bytes):
        plain = slices(data, capture.starts, capture.ends)
        _, offsets, body = plain.buffers()
        array = pa.Array.from_buffers(type_, len(plain), [validity, offsets, body])
        if type_ == pa.string():
            array.validate(full=True)
        return array
    if isinstance(capture, Fixed):
        return _fixed_to_arrow(capture, type_, data, validity)
    offsets = np.zeros(len(capture.counts) + 1, np.int32)
    np.cumsum(capture.counts, out=offsets[1:])
    items = pa.nulls(0, type_.value_type)
    if capture.items is not None and offsets[-1]:
        items = to_arrow(capture.items, type_.value_type, data)
    return pa.Array.from_buffers(type_, len(capture.counts), [validity, pa.py_buffer(offsets)], children=[items])


def _some(capture: Longs | Bytes | Fixed, rows: Int64s) -> Longs | Bytes | Fixed:
    valid = None if capture.valid is None else capture.valid[rows]
    if isinstance(capture, Longs):
        return Longs(capture.values[rows], valid)
    if isinstance(capture, Bytes):
        return Bytes(capture.starts[rows], capture.ends[rows], valid)
    return Fixed(capture.starts[rows], valid)


_STORED = {pa.float64(): "<f8", pa.float32(): "<f4", pa.bool_(): "u1"}


def _fixed_to_arrow(
    capture: Fixed, type_: pa.DataType, data: npt.NDArray[np.uint8], valid: pa.Buffer | None
) -> pa.Array:
    dtype = np.dtype(_STORED[type_])
    values = np.ndarray((data.size - dtype.itemsize + 1,), dtype, buffer=data, strides=(1,))[capture.starts]
    if type_ == pa.bool_():
        if (values > 1)[True if capture.valid is None else capture.valid].any():
            raise pa.ArrowInvalid("a boolean is neither 0 nor 1")
        values = np.packbits(values & 1, bitorder="little")
    return pa.Array.from_buffers(type_, len(capture.starts), [valid, pa.py_buffer(values)])
