"""The offsets of the fields of very many records, found in many blocks at the same time.

Avro does not say where a record begins: that is known when the one before it has been read. Yet a block begins where
its header says, whatever the blocks before it hold. So one numpy step passes over one field of the next record in all
blocks at once; `batch_decode` then decodes whole columns at the places that were found, for the rows that are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from paimon_pyds.base.arrays import Int64s, Octets, Words, unaligned_words
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.varints import LONGER, unsigned_varints, varint_sizes, zigzag_decoded
from paimon_pyds.format.avro.batch_decode import PADDING_BYTES, WIDTHS, TooManyStepsError, Walker
from paimon_pyds.format.avro.container import Block
from paimon_pyds.format.avro.schema import Node, Primitive, Record, Sized, Union, optional

LEAST_BLOCKS = 16
"""Blocks, and records of each, from which this pays: a step takes some microseconds, however few blocks there are."""
_MOST_SLOTS = 2
"""Slots per record, at most: each block gets as many slots as the longest one."""
_CONTINUED = np.uint8(0x80)
_NOT_A_LENGTH = np.uint8(0x81)
"""Bits that the only byte of a length has not: a further byte follows, or the number is negative."""
_TRIES = 64
"""Records one after the other in which numbers may differ in size from those before, until that is no longer compared:
comparing takes a third of the time, but is added to it where it fails."""
_SIZE_BITS: Words = np.array([sum(0x80 << 8 * byte for byte in range(size)) for size in range(LONGER)], np.uint64)
"""By the bytes of a number: of each of its bytes, whether another one follows."""
_OPTIONAL_SIZE_BITS: Words = np.concatenate([_SIZE_BITS[:1], (_SIZE_BITS[:-1] << np.uint64(8)) | np.uint64(0xFF)])
"""The same where a byte before the number says whether it is there."""

Places: TypeAlias = npt.NDArray[np.int32]
_Step: TypeAlias = Callable[[Int64s], Int64s]


@dataclass(frozen=True, slots=True)
class FieldPlaces:
    """The records of some blocks.

    Attributes:
        data: the blocks one behind the other, with `PADDING_BYTES` zeros before and after them.
        places: of each wanted field, where it begins in each record, in their order in the file.
        count: of the records.
    """

    data: Octets
    places: dict[str, Places]
    count: int


def are_alike(counts: Sequence[int]) -> bool:
    """Whether blocks of these numbers of records are worth walking over side by side."""
    most = max(counts, default=0)
    return most > 0 and sum(counts) >= most * max(LEAST_BLOCKS, len(counts) / _MOST_SLOTS)


def field_places(record: Record, blocks: Sequence[Block], wanted: Collection[str]) -> FieldPlaces | None:
    """Where fields begin in all records of some blocks, each of which has a record.

    Returns:
        None where the blocks don't hold the records that they claim to hold, or hold something that only reading one
        record after another can make out: very long arrays among them.
    """
    sizes = np.array([len(block.body or b"") for block in blocks], np.int64)
    counts = np.array([block.count for block in blocks], np.int64)
    data = np.frombuffer(
        b"".join((bytes(PADDING_BYTES), *(b.body or b"" for b in blocks), bytes(PADDING_BYTES))), np.uint8
    )
    ends = np.cumsum(sizes) + PADDING_BYTES
    # Blocks of more records come first, so that those which still have one are the first ones at any time.
    order = np.argsort(-counts, kind="stable")
    numbers = np.arange(counts.max())
    live = np.searchsorted(-counts[order], -numbers, "left")
    try:
        found = _walk(record, data, (ends - sizes)[order], ends[order], live, wanted)
    except (_MisreadError, IndexError, TooManyStepsError):
        return None
    back, there = np.argsort(order), numbers < counts[:, None]
    places = {name: starts.T[back][there] for name, starts in found.items()}
    return FieldPlaces(data, places, int(counts.sum()))


class _MisreadError(Exception):
    """The bytes at a cursor are no such value, or are written in an unusual way."""


def _walk(
    record: Record, data: Octets, starts: Int64s, ends: Int64s, live: Int64s, wanted: Collection[str]
) -> dict[str, Places]:
    """For each wanted field the places at which it begins, by number of the record and block.

    ``live``: the number of blocks that have a first, a second, … record.
    """
    passing = _Passing(data, most_steps=max(1000, int(live.sum()) // 4))
    found = {name: np.empty((len(live), len(starts)), np.int32) for name in wanted}
    steps = [(found.get(name), passing.over(node)) for name, node in record.fields]
    at = starts
    for number, count in enumerate(live.tolist()):
        if count < len(at):
            _check_ends(at[count:], ends[count : len(at)])
            at = at[:count]
        for places, step in steps:
            if places is not None:
                places[number, :count] = at
            at = step(at)
    _check_ends(at, ends[: len(at)])
    return found


def _check_ends(at: Int64s, ends: Int64s) -> None:
    if not np.array_equal(at, ends):
        raise _MisreadError


class _Passing:
    """Passes over a value at each of many cursors. Its functions give new cursors and leave those given alone; they
    raise `_MisreadError`, or IndexError at cursors behind the data."""

    def __init__(self, data: Octets, most_steps: int) -> None:
        self._data = data
        self._words = unaligned_words(data)
        self._walker = Walker(data, max_steps=most_steps)

    def over(self, node: Node) -> _Step:
        """The function that passes over values of a type."""
        match node:
            case Primitive("int" | "long"):
                return _AsBefore(self._words, self._numbers, _SIZE_BITS)
            case Primitive("bytes" | "string"):
                return partial(self._bytes, _Same(0))
            case Primitive(name):
                return partial(np.add, WIDTHS[name])
            case Sized(size):
                return partial(np.add, size)
            case Record(fields):
                return partial(_one_after_another, [self.over(member) for _, member in fields])
            case Union() if (found := optional(node)) is not None:
                inner, null = found
                there, absent = _Same(2 * (1 - null)), np.uint8(2 * null)
                if inner in (Primitive("int"), Primitive("long")):
                    step = partial(self._optional, self._numbers, there, absent)
                    return _AsBefore(self._words, step, _OPTIONAL_SIZE_BITS)
                return partial(self._optional, self.over(inner), there, absent)
        return lambda at: self._walker.walk(node, at)[1]

    def _optional(self, inner: _Step, there: _Same, absent: np.uint8, at: Int64s) -> Int64s:
        branch = self._data[at]
        at = at + 1
        if there.is_each(branch):
            return inner(at)
        present = branch == there.value
        if not (present | (branch == absent)).all():
            raise _MisreadError
        numbers = np.flatnonzero(present)
        if len(numbers):
            at[numbers] = inner(at[numbers])
        return at

    def _bytes(self, zero: _Same, at: Int64s) -> Int64s:
        first = self._data[at]
        if zero.is_each(first & _NOT_A_LENGTH):
            return at + 1 + (first >> 1)
        numbers, sizes = unsigned_varints(self._words[at])
        lengths = zigzag_decoded(numbers)
        if (sizes == LONGER).any() or lengths.min() < 0 or lengths.max() > len(self._data):
            raise _MisreadError
        return at + sizes + lengths

    def _numbers(self, at: Int64s) -> Int64s:
        sizes = varint_sizes(self._words[at])
        if LONGER in sizes.tobytes():
            longer = np.flatnonzero(sizes == LONGER)
            sizes[longer] += self._data[at[longer] + LONGER - 1] >= _CONTINUED
        return at + sizes


class _Same:
    """Whether each of many bytes is the same. numpy's own functions take several times as long for some hundreds."""

    def __init__(self, value: int) -> None:
        self.value = np.uint8(value)
        self._all = b""

    def is_each(self, values: Octets) -> bool:
        if len(self._all) != len(values):
            self._all = bytes([self.value]) * len(values)
        return values.tobytes() == self._all


class _AsBefore:
    """Passes over numbers. In each block the next one mostly takes as many bytes as the one before: that is compared
    first, as long as it pays.

    ``others``: passes over any. ``bits``: by the bytes that one takes, the bits of its word that say so.
    """

    def __init__(self, words: Words, others: _Step, bits: Words) -> None:
        self._words = words
        self._others = others
        self._bits = bits
        self._tries = _TRIES
        self._taken = np.zeros(0, np.int64)
        self._masks = self._values = np.zeros(0, np.uint64)

    def __call__(self, at: Int64s) -> Int64s:
        if not self._tries:
            return self._others(at)
        words, count = self._words[at], len(at)
        if count < len(self._taken):  # some blocks have no further record
            self._taken, self._masks, self._values = self._taken[:count], self._masks[:count], self._values[:count]
        if count == len(self._taken) and (words & self._masks).tobytes() == self._values.tobytes():
            self._tries = _TRIES
            return at + self._taken
        self._tries -= 1
        after = self._others(at)
        taken = after - at
        if taken.max() < len(self._bits):
            self._taken, self._masks = taken, self._bits[taken]
            self._values = words & self._masks
        return after


def _one_after_another(steps: Sequence[_Step], at: Int64s) -> Int64s:
    for step in steps:
        at = step(at)
    return at
