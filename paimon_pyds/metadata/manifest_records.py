"""The records of a manifest, all decoded at once.

Where each record starts, Avro does not say. It is guessed by the looks of records, and proved: each ends where the next
one starts, as many in a block as it says. `manifest_codec` reads short manifests, and those without such a proof, one
record after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, Octets
from paimon_pyds.base.records import dataclass
from paimon_pyds.format.avro.batch_decode import MAX_ITEMS, PADDING_BYTES, Walk, to_arrow, walk_records
from paimon_pyds.format.avro.container import BRANCH, Container, first_record
from paimon_pyds.format.avro.schema import Primitive, Record
from paimon_pyds.metadata.manifest import ENTRY_PATHS, MANIFEST_VERSION


class UnprovedError(Exception):
    """A record does not end where the next one starts."""


@dataclass(slots=True)
class Records:
    """Records whose first fields, ``head``, are decoded of all. The others, ``tail``, are decoded where one of them is
    wanted, of the records that are wanted then. ``ends``: where each record has to end."""

    data: Octets
    head: Walk
    tail: Record
    ends: Int64s
    wanted: frozenset[str]
    _rest: tuple[Int64s | None, Walk] | None = None

    def column(self, place: str, type_: pa.DataType, rows: Int64s | None = None) -> pa.Array:
        """A wanted field of some records, or of all. Raises UnprovedError."""
        if place in self.head.captured:
            return to_arrow(self.head.captured[place], type_, self.data, rows)
        if self._rest is None or not (self._rest[0] is None or self._rest[0] is rows):
            which = slice(None) if rows is None else rows
            walk = walk_records(self.tail, self.data, self.head.ends[which], self.wanted)
            if not walk.ok.all() or not np.array_equal(walk.ends, self.ends[which]):
                raise UnprovedError
            self._rest = rows, walk
        of, walk = self._rest
        return to_arrow(walk.captured[place], type_, self.data, None if of is rows else rows)


def walk_manifest(container: Container, schema: Record, wanted: frozenset[str], heads_first: bool) -> Records | None:
    """Decode all records of a manifest at once; None when it can't be proved where the records start.

    ``schema`` is that of its writer; ``wanted`` the paths of the fields to keep. ``heads_first``: the schema has the
    number of rows, and the fields behind it are decoded where they are wanted.
    """
    data = np.frombuffer(b"".join((*container.blocks, bytes(PADDING_BYTES))), np.uint8)
    sizes = np.array([len(block) for block in container.blocks], np.int64)
    counts = np.array(container.counts, np.int64)
    if (sizes[counts == 0] != 0).any():
        return None
    sizes, counts = sizes[counts > 0], counts[counts > 0]
    block_ends = np.cumsum(sizes)
    block_starts = block_ends - sizes
    first = first_record(container)
    starts = _united(_guess_starts(schema, data, first), block_starts)
    ends = _following(starts, block_starts, block_ends, counts)
    if heads_first and ends is not None and (records := _heads(schema, data, starts, ends, wanted)) is not None:
        return records
    for max_items in (2 * _longest_list(first) + 16, MAX_ITEMS):
        walk = walk_records(schema, data, starts, wanted, max_items)
        if _proved(starts, walk, block_starts, block_ends, counts):
            return Records(data, walk, Record(()), walk.ends, wanted)
        # Some of the guesses are inside of records: follow the chain of those that begin where another one ends.
        chain = _chain(starts, walk.ends, block_starts, counts)
        if chain is not None:
            walk = walk_records(schema, data, chain, wanted)
            proved = _proved(chain, walk, block_starts, block_ends, counts)
            return Records(data, walk, Record(()), walk.ends, wanted) if proved else None
    return None


def _heads(schema: Record, data: Octets, starts: Int64s, ends: Int64s, wanted: frozenset[str]) -> Records | None:
    """Records with their first fields decoded, where as many places look like heads as there are records.

    Each record has a head, so that these places are where records start, without decoding all of them to the end.
    """
    first, tail = _split(schema, ENTRY_PATHS["row_count"].split("."))
    head = walk_records(first, data, starts, wanted)
    fits = head.ok.all() and (head.ends <= ends).all()
    return Records(data, head, tail, ends, wanted) if fits else None


def _split(schema: Record, place: Sequence[str]) -> tuple[Record, Record]:
    """The fields up to one, and those behind it."""
    at = [name for name, _ in schema.fields].index(place[0])
    name, node = schema.fields[at]
    before, after = schema.fields[:at], schema.fields[at + 1 :]
    if len(place) == 1 or not isinstance(node, Record):
        return Record((*before, (name, node))), Record(after)
    first, second = _split(node, place[1:])
    return Record((*before, (name, first))), Record(((name, second), *after))


def _united(a: Int64s, b: Int64s) -> Int64s:
    """Both, sorted, without repetition. Both are sorted, which `np.union1d` makes nothing of; and it imports a lot."""
    both = np.concatenate((a, b))
    both.sort(kind="stable")
    first = np.ones(len(both), np.bool_)
    np.not_equal(both[1:], both[:-1], out=first[1:])
    return both[first]


def _longest_list(value: object) -> int:
    if isinstance(value, dict):
        return max((_longest_list(member) for member in value.values()), default=0)
    return len(value) if isinstance(value, list) else 0


def _proved(starts: Int64s, walk: Walk, block_starts: Int64s, block_ends: Int64s, counts: Int64s) -> bool:
    """Whether the records fill the blocks without a gap, as many in each as the block says."""
    following = _following(starts, block_starts, block_ends, counts)
    return following is not None and bool(walk.ok.all()) and np.array_equal(walk.ends, following)


def _following(starts: Int64s, block_starts: Int64s, block_ends: Int64s, counts: Int64s) -> Int64s | None:
    """Where records that start at these places have to end; None unless each block has as many as it says."""
    first = np.cumsum(counts) - counts
    if len(starts) != int(counts.sum()) or not np.array_equal(starts[first], block_starts):
        return None
    following = np.append(starts[1:], block_ends[-1:])
    following[first + counts - 1] = block_ends
    return following


def _chain(starts: Int64s, ends: Int64s, block_starts: Int64s, counts: Int64s) -> Int64s | None:
    after = dict(zip(starts.tolist(), ends.tolist(), strict=True))
    found: list[int] = []
    for start, count in zip(block_starts.tolist(), counts.tolist(), strict=True):
        at = start
        for _ in range(count):
            if at not in after:
                return None
            found.append(at)
            at = after[at]
    return np.array(found, np.int64)


def _guess_starts(schema: Record, data: Octets, first: dict[str, Any]) -> Int64s:
    """Places that look like the head of an entry: the version, a kind, and a partition: its length, as many fields as
    that of the first entry, the row kind."""
    head = (("_VERSION", Primitive("int")), ("_KIND", Primitive("int")), ("_PARTITION", Primitive("bytes")))
    lead = int(schema.fields[0][0] == BRANCH)
    if schema.fields[lead : lead + 3] != head or len(first["_PARTITION"]) < 12:
        return np.zeros(0, np.int64)
    at = np.flatnonzero(data[:-PADDING_BYTES] == 2 * MANIFEST_VERSION)
    kind = data[at + 1]
    at = at[(kind == 0) | (kind == 2)]
    # A length of 4 + 8n bytes; as a zigzag number it takes one byte, or two from 64 bytes on.
    length = data[at + 2]
    at = at[length & 0x0F == 8]
    row = at + 3 + (data[at + 2] >> 7)
    like = data[row + 4] == 0
    for index in range(4):
        like &= data[row + index] == first["_PARTITION"][index]
    at = at[like]
    if lead:
        at = at[data[at - 1] == 2] - 1  # the branch of the record, 1
    return np.asarray(at, np.int64)
