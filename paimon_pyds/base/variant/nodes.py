"""Encoded values of a column and the items inside them, as arrays of offsets.

Source: apache/parquet-format, VariantEncoding.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import (
    Flags,
    Int64s,
    Octets,
    array,
    binary_parts,
    from_numpy,
    is_true,
    pc,
    slices,
    to_numpy,
)
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import CorruptFileError

PRIMITIVE, SHORT_TEXT, OBJECT, ARRAY = range(4)
"""The two lowest bits of a value's first byte."""
(NULL, TRUE, FALSE, INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16, DATE, INSTANT, WALL_CLOCK, FLOAT,
 BYTES, TEXT, TIME, INSTANT_NANOS, WALL_CLOCK_NANOS, UUID) = range(21)  # fmt: skip
"""Primitive types, by number."""
INTEGERS = {INT8: 1, INT16: 2, INT32: 4, INT64: 8}
"""Types of integers, with their bytes."""
DECIMALS = {DECIMAL4: 4, DECIMAL8: 8, DECIMAL16: 16}
"""Types of decimals, with the bytes behind the scale."""
SHORT = 64
"""Kind of a short text among the primitive types."""
MAX_DEPTH = 1000
"""Levels of items in a value: JSON parsers of other writers allow no more."""
VERSION = 1
_SIZES = np.full(256, -1, np.int64)
_SIZES[[NULL, TRUE, FALSE]] = 1
_SIZES[[INT8, INT16, INT32, INT64]] = 2, 3, 5, 9
_SIZES[[DOUBLE, FLOAT, DATE, TIME]] = 9, 5, 5, 9
_SIZES[[INSTANT, WALL_CLOCK, INSTANT_NANOS, WALL_CLOCK_NANOS]] = 9
_SIZES[[DECIMAL4, DECIMAL8, DECIMAL16, UUID]] = 6, 10, 18, 17
_SIZES[[BYTES, TEXT]] = 5
"""Bytes of primitive values with their header; of texts and bytes those before the data."""


def read_numbers(data: Octets, at: Int64s, width: Int64s) -> Int64s:
    """Unsigned little-endian numbers of 1 to 4 bytes."""
    found = data[at].astype(np.int64)
    for byte in range(1, 4):
        more = width > byte
        if not more.any():
            break
        if more.all():
            found |= data[at + byte].astype(np.int64) << (8 * byte)
        else:
            found[more] |= data[at[more] + byte].astype(np.int64) << (8 * byte)
    return found


def counted(counts: Int64s) -> tuple[Int64s, Int64s]:
    """For things of which each owner has some: the owner of each, and its number within the owner."""
    owners = np.repeat(np.arange(len(counts)), counts)
    firsts = np.cumsum(counts) - counts
    return owners, np.arange(len(owners)) - firsts[owners]


def pieces(data: Octets, starts: Int64s, ends: Int64s) -> pa.Array:
    """A binary array of ``data[start:end]`` for every pair, in any order."""
    if len(starts) < 2 or ((starts[1:] >= ends[:-1]).all()):
        return slices(data, starts, ends)
    order = np.lexsort((ends, starts))
    ordered_starts, ordered_ends = starts[order], ends[order]
    if not (ordered_starts[1:] >= ordered_ends[:-1]).all():  # values may share bytes, though writers never do that
        whole = data.data
        return array([bytes(whole[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)], pa.binary())
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return pc.take(slices(data, ordered_starts, ordered_ends), from_numpy(places))


class Keys:
    """The keys of some distinct metadata, by number.

    Attributes:
        first: where the keys of each metadata begin in ``codes``.
        codes: for each key its place in ``names``.
        names: distinct keys.
    """

    def __init__(self, metadata: pa.Array) -> None:
        data, starts, ends = binary_parts(metadata)
        if len(starts) and (ends - starts < 3).any():
            raise CorruptFileError("the metadata of a VARIANT is shorter than its header")
        headers = data[starts].astype(np.int64) if len(starts) else np.zeros(0, np.int64)
        if ((headers & 15) != VERSION).any():
            version = int(headers[(headers & 15) != VERSION][0] & 15)
            raise CorruptFileError(f"the metadata of a VARIANT is of version {version}, 1 is known")
        width = (headers >> 6) + 1
        self._check(starts + 1 + width <= ends)
        self.sizes = read_numbers(data, starts + 1, width)
        table = starts + 1 + width
        self._check(table + (self.sizes + 1) * width <= ends)
        owners, numbers = counted(self.sizes + 1)
        bounds = read_numbers(data, table[owners] + numbers * width[owners], width[owners])
        begin = (table + (self.sizes + 1) * width)[owners]
        last = numbers == self.sizes[owners]
        at = bounds + begin
        lows, highs = at[~last], np.roll(at, -1)[~last]
        self._check((lows <= highs) & (highs <= ends[owners][~last]) & (lows >= begin[~last]))
        if int((highs - lows).sum()) > len(data):
            raise CorruptFileError("the keys of a VARIANT overlap")
        self.first = np.cumsum(self.sizes) - self.sizes
        texts = pieces(data, lows, highs)
        encoded = texts.dictionary_encode()
        self.codes: Int64s = to_numpy(encoded.indices).astype(np.int64)
        try:
            self.names: pa.Array = encoded.dictionary.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise CorruptFileError("a key of a VARIANT is not UTF-8") from error

    @staticmethod
    def _check(good: Flags) -> None:
        if not np.all(good):
            raise CorruptFileError("the metadata of a VARIANT points outside of itself")

    def code(self, name: str) -> int:
        """The place of a key in ``names``; -1 where no value has it."""
        return int(pc.index(self.names, name).as_py()) if len(self.names) else -1

    @cached_property
    def ranks(self) -> Int64s:
        """The place of each of ``names`` in the order of their bytes."""
        order = to_numpy(pc.sort_indices(self.names.cast(pa.binary()))).astype(np.int64)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks

    def ids(self, name: str) -> Int64s:
        """The number that a key has in each metadata; -1 where it has none."""
        found = np.full(len(self.sizes), -1, np.int64)
        at = np.flatnonzero(self.codes == self.code(name))
        owners = np.searchsorted(self.first + self.sizes, at, side="right")
        found[owners] = at - self.first[owners]
        return found


@dataclass(frozen=True, slots=True)
class Nodes:
    """Encoded values.

    Attributes:
        data: what holds the bytes of all.
        starts: where each begins.
        ends: where each ends.
        owners: which of ``keys``' metadata each refers to.
        keys: the keys.
    """

    data: Octets
    starts: Int64s
    ends: Int64s
    owners: Int64s
    keys: Keys

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, column: pa.Array) -> tuple[Nodes, Flags]:
        """The values of a column, and in which rows it has one: NULL has none.

        ``column``: a struct of the members ``value`` and ``metadata``. Raises CorruptFileError.
        """
        valid = is_true(column.is_valid())
        there = column.drop_null() if column.null_count else column
        value, metadata = (_binary(pc.struct_field(there, name)) for name in ("value", "metadata"))
        if value.null_count or metadata.null_count:
            raise CorruptFileError("a VARIANT without value or metadata")
        return cls.over(value, *distinct(metadata)), valid

    @classmethod
    def over(cls, value: pa.Array, owners: Int64s, keys: Keys) -> Nodes:
        """The values of a binary array without NULL, whose keys are known already."""
        data, starts, ends = binary_parts(value)
        return cls.within(data, starts, ends, owners, keys)

    @classmethod
    def within(cls, data: Octets, starts: Int64s, limits: Int64s, owners: Int64s, keys: Keys) -> Nodes:
        """The values that begin at some places; each ends where its header says, within its limit."""
        nodes = cls(data, starts, _ends(data, starts, limits), owners, keys)
        if int((nodes.ends - starts).sum()) > len(data):
            raise CorruptFileError("items of a VARIANT share bytes")
        return nodes

    def pick(self, places: Int64s | Flags) -> Nodes:
        """Some of the values."""
        return Nodes(self.data, self.starts[places], self.ends[places], self.owners[places], self.keys)

    @property
    def basics(self) -> Octets:
        """Whether each is a primitive value, a short text, an object or an array."""
        return (self.data[self.starts] & 3).astype(np.uint8) if len(self) else np.zeros(0, np.uint8)

    @property
    def kinds(self) -> Octets:
        """The type of each primitive value, `SHORT` for short texts; of objects and arrays any other number."""
        headers = self.data[self.starts] if len(self) else np.zeros(0, np.uint8)
        basics = headers & 3
        found = np.where(basics == PRIMITIVE, headers >> 2, np.uint8(255))
        found[basics == SHORT_TEXT] = SHORT
        return found.astype(np.uint8)

    def bytes_of(self) -> pa.Array:
        """Each as its bytes."""
        return pieces(self.data, self.starts, self.ends)

    def texts(self) -> pa.Array:
        """The bytes of texts and of bytes, without what is before them; all values have to be such."""
        return pieces(self.data, self.starts + np.where(self.basics == SHORT_TEXT, 1, 5), self.ends)

    def fixed(self, width: int, skip: int = 1) -> Octets:
        """``width`` bytes of each value, behind the first ``skip``: one row for each."""
        found: Octets = self.data[(self.starts + skip)[:, None] + np.arange(width)]
        return found


@dataclass(frozen=True, slots=True)
class Items:
    """The items of objects or arrays.

    Attributes:
        counts: how many each of these has.
        owners: for each item the number of what it is in, ascending.
        codes: for each item of an object its key, as a place in the keys' ``names``; -1 for items of arrays.
        ids: for each item of an object the number of its key in its metadata; -1 for items of arrays.
        nodes: the items.
    """

    counts: Int64s
    owners: Int64s
    codes: Int64s
    ids: Int64s
    nodes: Nodes


def _ends(data: Octets, starts: Int64s, limits: Int64s) -> Int64s:
    """Where values end. Raises CorruptFileError: behind their limit, or of a type that is not known."""
    if not len(starts):
        return starts
    if (starts >= limits).any() or (starts < 0).any() or (limits > len(data)).any():
        raise CorruptFileError("a VARIANT without a first byte")
    headers = data[starts].astype(np.int64)
    basics, info = headers & 3, headers >> 2
    sizes = np.where(basics == PRIMITIVE, _SIZES[info], np.where(basics == SHORT_TEXT, 1 + info, 1))
    if (sizes < 0).any():
        raise CorruptFileError(f"a VARIANT holds a value of type {int(info[sizes < 0][0])}, which is not known")
    _check_within(starts + sizes, limits)
    ends = starts + sizes
    long = np.flatnonzero((basics == PRIMITIVE) & ((info == TEXT) | (info == BYTES)))
    if len(long):
        ends[long] += read_numbers(data, starts[long] + 1, np.full(len(long), 4))
    nested = np.flatnonzero(basics >= OBJECT)
    if len(nested):
        layout = _Layout.of(data, starts[nested], limits[nested])
        last = layout.offsets + layout.counts * layout.width
        ends[nested] = layout.begin + read_numbers(data, last, layout.width)
    _check_within(ends, limits)
    return ends


def _check_within(ends: Int64s, limits: Int64s) -> None:
    if (ends > limits).any():
        raise CorruptFileError("a VARIANT is longer than the bytes that are there for it")


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the parts of objects and arrays are: numbers of keys, offsets of items, the first byte of items."""

    counts: Int64s
    ids: Int64s
    id_width: Int64s
    offsets: Int64s
    width: Int64s
    begin: Int64s

    @classmethod
    def of(cls, data: Octets, starts: Int64s, limits: Int64s) -> _Layout:
        headers = data[starts].astype(np.int64)
        objects, info = (headers & 3) == OBJECT, headers >> 2
        width = (info & 3) + 1
        id_width = np.where(objects, ((info >> 2) & 3) + 1, 0)
        large = np.where(objects, info >> 4, info >> 2) & 1
        count_width = np.where(large == 1, 4, 1)
        _check_within(starts + 1 + count_width, limits)
        counts = read_numbers(data, starts + 1, count_width)
        ids = starts + 1 + count_width
        offsets = ids + counts * id_width
        begin = offsets + (counts + 1) * width
        _check_within(begin, limits)
        return cls(counts, ids, id_width, offsets, width, begin)


def items_of(nodes: Nodes) -> Items:
    """The items of values that are all objects or arrays. Raises CorruptFileError."""
    if not len(nodes):
        nothing = np.zeros(0, np.int64)
        return Items(nothing, nothing, nothing, nothing, nodes)
    layout = _Layout.of(nodes.data, nodes.starts, nodes.ends)
    owners, numbers = counted(layout.counts)
    starts = layout.begin[owners] + read_numbers(
        nodes.data, layout.offsets[owners] + numbers * layout.width[owners], layout.width[owners]
    )
    codes, ids = np.full(len(owners), -1, np.int64), np.full(len(owners), -1, np.int64)
    of_objects = np.flatnonzero(layout.id_width[owners] > 0)
    if len(of_objects):
        which = owners[of_objects]
        found = read_numbers(
            nodes.data, layout.ids[which] + numbers[of_objects] * layout.id_width[which], layout.id_width[which]
        )
        metadata = nodes.owners[which]
        if (found >= nodes.keys.sizes[metadata]).any():
            raise CorruptFileError("an object of a VARIANT has a key that its metadata does not have")
        codes[of_objects], ids[of_objects] = nodes.keys.codes[nodes.keys.first[metadata] + found], found
    inside = Nodes.within(nodes.data, starts, nodes.ends[owners], nodes.owners[owners], nodes.keys)
    return Items(layout.counts, owners, codes, ids, inside)


@dataclass(frozen=True, slots=True)
class Level:
    """The values of one level of nesting; ``nested`` are the places of objects and arrays among them, ``items`` what is
    in these."""

    nodes: Nodes
    nested: Int64s
    items: Items


def levels_of(nodes: Nodes) -> Iterator[Level]:
    """All levels, the outermost first. Raises CorruptFileError: damage, or more levels than `MAX_DEPTH`."""
    for _ in range(MAX_DEPTH):
        nested = np.flatnonzero(nodes.basics >= OBJECT)
        level = Level(nodes, nested, items_of(nodes.pick(nested)))
        yield level
        nodes = level.items.nodes
        if not len(nodes):
            return
    raise CorruptFileError(f"a VARIANT is nested deeper than {MAX_DEPTH} levels")


def distinct(metadata: pa.Array) -> tuple[Int64s, Keys]:
    """For a binary array without NULL: which of its distinct values each is, and their keys."""
    encoded = metadata.dictionary_encode()
    return to_numpy(encoded.indices).astype(np.int64), Keys(encoded.dictionary)


def _binary(values: pa.Array) -> pa.Array:
    """Bytes as one plain binary array; polars has others."""
    return values if pa.types.is_binary(values.type) else values.cast(pa.binary())
