"""Where the records of a manifest start: guessed by their looks, and proved, so that all are decoded at once.

A proof holds the records against the blocks: each ends where the next one starts, as many in a block as it says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_pyds.avro.batch_decode import MAX_ITEMS, PADDING, Positions, Walk, walk_records
from paimon_pyds.avro.records import BRANCH, Container, first_record
from paimon_pyds.avro.schema import Primitive, Record
from paimon_pyds.metadata.manifest_schemas import MANIFEST_VERSION

__all__ = ["walk_manifest"]


def walk_manifest(
    container: Container, schema: Record, data: npt.NDArray[np.uint8], wanted: frozenset[str]
) -> Walk | None:
    """Decode all records of a manifest at once.

    Args:
        container: the file.
        schema: that of its writer.
        data: the blocks, one behind the other, and `PADDING` zero bytes.
        wanted: which fields to keep, by their paths.

    Returns:
        None when it can't be proved where the records start.
    """
    sizes = np.array([len(block) for block in container.blocks], np.int64)
    counts = np.array(container.counts, np.int64)
    if (sizes[counts == 0] != 0).any():
        return None
    sizes, counts = sizes[counts > 0], counts[counts > 0]
    block_ends = np.cumsum(sizes)
    block_starts = block_ends - sizes
    first = first_record(container)
    starts = _united(_guess_starts(schema, data, first), block_starts)
    for max_items in (2 * _longest_list(first) + 16, MAX_ITEMS):
        walk = walk_records(schema, data, starts, wanted, max_items)
        if _proved(starts, walk, block_starts, block_ends, counts):
            return walk
        # Some of the guesses are inside of records: follow the chain of those that begin where another one ends.
        chain = _chain(starts, walk.ends, block_starts, counts)
        if chain is not None:
            walk = walk_records(schema, data, chain, wanted)
            return walk if _proved(chain, walk, block_starts, block_ends, counts) else None
    return None


def _united(a: Positions, b: Positions) -> Positions:
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


def _proved(starts: Positions, walk: Walk, block_starts: Positions, block_ends: Positions, counts: Positions) -> bool:
    """Whether the records fill the blocks without a gap, as many in each as the block says."""
    if not walk.ok.all() or len(starts) != int(counts.sum()):
        return False
    first = np.cumsum(counts) - counts
    if not np.array_equal(starts[first], block_starts):
        return False
    following = np.append(starts[1:], block_ends[-1:])
    following[first + counts - 1] = block_ends
    return bool(np.array_equal(walk.ends, following))


def _chain(starts: Positions, ends: Positions, block_starts: Positions, counts: Positions) -> Positions | None:
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


def _guess_starts(schema: Record, data: npt.NDArray[np.uint8], first: dict[str, Any]) -> Positions:
    """Places that look like the head of an entry: the version, a kind, and a partition: its length, as many fields as
    that of the first entry, the row kind."""
    head = (("_VERSION", Primitive("int")), ("_KIND", Primitive("int")), ("_PARTITION", Primitive("bytes")))
    lead = int(schema.fields[0][0] == BRANCH)
    if schema.fields[lead : lead + 3] != head or len(first["_PARTITION"]) < 12:
        return np.zeros(0, np.int64)
    at = np.flatnonzero(data[:-PADDING] == 2 * MANIFEST_VERSION)
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
