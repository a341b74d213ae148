"""The hash of BinaryRows: murmur3-32 with seed 42, as Java's ``BinaryRow.hashCode``. The arity is not part of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import Int64s, Words
from paimon_pyds.row.encode import row_words
from paimon_pyds.types import DataType

_SEED = np.uint32(42)
_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_CHUNK = 16_384
"""Rows hashed at a time: their words stay in the processor's cache."""


def hash_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> npt.NDArray[np.int32]:
    """The hash code of each row, as Java computes it.

    Raises:
        SchemaError: columns and types do not go together.
        UnsupportedError: a nested type.
    """
    count = len(columns[0]) if columns else 0
    out = np.empty(count, np.uint32)
    for start in range(0, max(count, 1), _CHUNK):
        words, starts = row_words([column.slice(start, _CHUNK) for column in columns], types)
        out[start : start + _CHUNK] = _murmur(words, starts)
    return out.view(np.int32)


def hash_row(row: bytes) -> int:
    """The hash code of a row in manifest form (arity + BinaryRow)."""
    words = np.frombuffer(row, "<u8", offset=4)
    return int(_murmur(words, np.array([0, len(words)])).view(np.int32)[0])


def hash_ints(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The hash code of rows of one INT, without their null bits: that is Spark's function ``hash``, too."""
    state = np.full(len(values), _SEED)
    _mix(state, values.view(np.uint32))
    return _finish(state, np.ones(len(values), np.int64)).view(np.int32)


def _murmur(words: Words, starts: Int64s) -> npt.NDArray[np.uint32]:
    halves = words.view("<u4")
    lengths = np.diff(starts) * 2
    if len(lengths) == 0:
        return np.empty(0, np.uint32)
    longest = int(lengths.max())
    if int(lengths.min()) == longest:
        table = halves.reshape(-1, longest)
        state = np.full(len(table), _SEED)
        for column in range(longest):
            _mix(state, np.ascontiguousarray(table[:, column]))
        return _finish(state, lengths)
    # Longest rows first: those still running at a step are a prefix.
    order = np.argsort(-lengths, kind="stable")
    at = starts[:-1][order] * 2
    sizes = lengths[order]
    state = np.full(len(sizes), _SEED)
    running = np.searchsorted(-sizes, -np.arange(longest), side="left")
    for step in range(longest):
        live = running[step]
        _mix(state[:live], halves[at[:live] + step])
    out = np.empty_like(state)
    out[order] = _finish(state, sizes)
    return out


def _mix(state: npt.NDArray[np.uint32], block: npt.NDArray[np.uint32]) -> None:
    block = block * _C1
    block = (block << np.uint32(15)) | (block >> np.uint32(17))
    block *= _C2
    state ^= block
    np.bitwise_or(state << np.uint32(13), state >> np.uint32(19), out=state)
    state *= np.uint32(5)
    state += np.uint32(0xE6546B64)


def _finish(state: npt.NDArray[np.uint32], lengths: Int64s) -> npt.NDArray[np.uint32]:
    state = state ^ (lengths * 4).astype(np.uint32)
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state
