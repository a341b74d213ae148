"""The distinct keys of a column, and for each row the rank of its key: built once, shared by all indexes of the column.

Small batches are gathered and encoded a million rows at a time. Memory holds a code of four bytes for each row, and the
distinct keys.

Integers are ranked by sorting words of 64 bits that hold a number and the row it stands in, as processors do fastest.
Where both don't fit, the lowest bits of the numbers are left out, and the few that are then out of order put right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, Words, from_numpy, index_bits, pc, scalar, sorted_positions, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import SchemaError
from paimon_pyds.index.keys import KeyCodec

_DENSE = 2
_WORD_BITS = 64
_SAMPLE_VALUES = 1 << 14
_SAMPLE_VALUES_PER_MIXED = 256
"""If one value in this number of a sample is out of order, sorting again costs more than it saves."""

Ints = npt.NDArray[np.signedinteger[Any]]
Ranks = npt.NDArray[np.int32]


def is_dense(values: Ints) -> bool:
    """Whether the values (at least one) are so close together that a table of all numbers between them is small."""
    return int(values.max()) - int(values.min()) < _DENSE * len(values)


def ranked(values: Ints) -> tuple[Ints, Ranks]:
    """The distinct values, ascending, and for each value which of them it is. Fewer than 2^31 values."""
    if not len(values):
        return values, np.zeros(0, np.int32)
    if is_dense(values):
        return _ranked_by_table(values)
    if bool((values[1:] >= values[:-1]).all()):
        return _distinct(values)
    order, ordered = _sorted(values)
    distinct, ascending = _distinct(ordered)
    ranks = np.empty(len(values), np.int32)
    ranks[order] = ascending
    return distinct, ranks


def _ranked_by_table(values: Ints) -> tuple[Ints, Ranks]:
    least = int(values.min())
    places = values.astype(np.int64)
    places -= least
    there = np.zeros(int(values.max()) - least + 1, np.bool_)
    there[places] = True
    distinct = np.flatnonzero(there)
    distinct += least
    ranks = np.cumsum(there, dtype=np.int32)
    ranks -= 1
    return distinct.astype(values.dtype), ranks.take(places)


def _distinct(ordered: Ints) -> tuple[Ints, Ranks]:
    fresh = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    if fresh.all():
        return ordered, np.arange(len(ordered), dtype=np.int32)
    ranks = np.cumsum(fresh, dtype=np.int32)
    ranks -= 1
    return ordered[fresh], ranks


def _sorted(values: Ints) -> tuple[Int64s, Ints]:
    """Indices that sort the values, and the values sorted."""
    least, most = int(values.min()), int(values.max())
    lost = max(0, (most - least).bit_length() + index_bits(len(values)) - _WORD_BITS)
    if lost and _is_mixed(values, least, lost):
        order = np.argsort(values)
        return order, values[order]
    order = sorted_positions(_above(values, least), lost)
    ordered = values[order]
    if lost:
        _put_right(order, ordered, least, lost)
    return order, ordered


def _above(values: Ints, least: int) -> Words:
    """The difference between each value and the least one."""
    above = values.astype(np.int64)
    above -= np.int64(least)  # wraps round where it takes 64 bits: read without a sign it is right
    return above.view(np.uint64)


def _is_mixed(values: Ints, least: int, lost: int) -> bool:
    """Whether, by a sample, many values differ in their ``lost`` lowest bits only, as happens with an outlier."""
    sample = np.unique(values[:: -(-len(values) // _SAMPLE_VALUES)])
    high = _above(sample, least) >> np.uint64(lost)
    return int(np.count_nonzero(high[1:] == high[:-1])) * _SAMPLE_VALUES_PER_MIXED > len(sample)


def _put_right(order: Int64s, ordered: Ints, least: int, lost: int) -> None:
    """Sort the rest of an order in which the values' ``lost`` lowest bits were left out."""
    wrong = ordered[1:] < ordered[:-1]
    if not wrong.any():
        return
    high = _above(ordered, least) >> np.uint64(lost)
    group = np.zeros(len(order), np.int64)
    np.cumsum(high[1:] != high[:-1], out=group[1:])
    mixed = np.zeros(int(group[-1]) + 1, np.bool_)
    mixed[group[1:][wrong]] = True
    at = np.flatnonzero(mixed[group])
    right = at[np.argsort(ordered[at])]
    order[at], ordered[at] = order[right], ordered[right]


_ROWS = 1 << 20
_BYTES = 64 << 20
_FREE_ROWS = 1 << 16
"""Rows that are gathered before they are processed, if no code is stored per row."""
_SAMPLE_RUNS = 4
_LONG_RUN = 4096
_SHORT_RUN = 1024
_DISTINCT_SHARE = 0.97
"""Share of distinct keys from which finding the repeated ones takes longer than ranking all of them."""
_REPEATED_SHARE = 0.25
"""Share of distinct keys below which finding them first takes less time than ranking all rows."""

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A whole column. ``keys``: the distinct keys, ascending (integers of the codec's width, or binary); ``codes``: per
    row the rank of its key, -1 for null."""

    codec: KeyCodec
    keys: pa.Array
    codes: Codes

    @property
    def row_count(self) -> int:
        return len(self.codes)

    def int_keys(self) -> npt.NDArray[Any]:
        return to_numpy(self.keys)


class ColumnDictionary:
    """Gathers a column batch by batch. Without ``keep_codes`` only the distinct keys matter, and `finish` is not
    called."""

    def __init__(self, codec: KeyCodec, *, keep_codes: bool = True) -> None:
        self.codec = codec
        self.rows = 0
        self._keep = keep_codes
        self._rows_at_once = _ROWS if keep_codes else _FREE_ROWS
        self._pending: list[pa.Array] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._parts: list[tuple[pa.Array, Codes]] = []
        self._distinct = 0
        self._merged = 0
        self._encoded: EncodedColumn | None = None
        self._listeners: list[Callable[[pa.Array], None]] = []

    def on_distinct(self, listener: Callable[[pa.Array], None]) -> None:
        """Call ``listener`` with the keys of each stretch of rows that are not NULL: every key at least once, seldom
        much more often."""
        self._listeners.append(listener)

    def update(self, values: pa.Array) -> None:
        """Append rows: values of the column's Arrow type."""
        keys = self.codec.keys_of(values)
        self.rows += len(keys)
        if len(keys) >= self._rows_at_once or keys.nbytes >= _BYTES:
            self.flush()
            self._encode(keys)
            return
        # A copy: the batch may be a view into a message that holds all columns, and is to be freed.
        self._pending.append(pa.concat_arrays([keys, keys[:0]]))
        self._pending_rows += len(keys)
        self._pending_bytes += keys.nbytes
        if self._pending_rows >= self._rows_at_once or self._pending_bytes >= _BYTES:
            self.flush()

    def flush(self) -> None:
        """Encode what was gathered; the listeners have then seen every key."""
        if self._pending:
            keys = pa.concat_arrays(self._pending)
            self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
            self._encode(keys)

    def _encode(self, keys: pa.Array) -> None:
        if not self._keep:
            repeated = _distinct_share(keys, _SHORT_RUN) < _REPEATED_SHARE
            self._notify_listeners(keys.unique().drop_null() if repeated else keys.drop_null())
            return
        dictionary, codes = _encoded(self.codec, keys)
        self._notify_listeners(dictionary)
        self._parts.append((dictionary, codes))
        self._distinct += len(dictionary)
        if self._distinct > 2 * self._merged + (_ROWS << 1):
            self._merge()

    def _notify_listeners(self, keys: pa.Array) -> None:
        for listener in self._listeners:
            listener(keys)

    def _merge(self) -> pa.Array:
        """Bring all parts to one sorted dictionary, which is returned."""
        dictionaries = [dictionary for dictionary, _ in self._parts]
        keys, ranks = _merge_binary(dictionaries) if self.codec.is_binary else _merge_ints(self.codec, dictionaries)
        parts = [part for _, part in self._parts]
        self._parts = []
        codes = np.empty(sum(map(len, parts)), np.int32)
        end = len(codes)
        for rank in reversed(ranks):  # from the end, so that each part is freed once it is recoded
            part = parts.pop()
            np.append(rank, np.int32(-1)).take(part, out=codes[end - len(part) : end], mode="wrap")
            end -= len(part)
        self._parts = [(keys, codes)]
        self._distinct = self._merged = len(keys)
        return keys

    def finish(self) -> EncodedColumn:
        """The encoded column, the same one each time; nothing may be appended afterwards."""
        if self._encoded is None:
            self.flush()
            keys = self._merge()
            self._encoded = EncodedColumn(self.codec, keys, self._parts[0][1])
        return self._encoded


def _distinct_share(keys: pa.Array, run: int) -> float:
    """How large a part of the keys are distinct ones, by a sample of a few runs; 0 where that is no sample."""
    if len(keys) < _SAMPLE_RUNS * run:
        return 0.0
    step = (len(keys) - run) // (_SAMPLE_RUNS - 1)
    sample = pa.concat_arrays([keys.slice(i * step, run) for i in range(_SAMPLE_RUNS)])
    return float(pc.count_distinct(sample, mode="only_valid").as_py() / len(sample))


def _encoded(codec: KeyCodec, keys: pa.Array) -> tuple[pa.Array, Codes]:
    """Keys, among which are all that occur, and for each row which of them it has."""
    if not codec.is_binary:
        if _distinct_share(keys, _LONG_RUN) >= _DISTINCT_SHARE:
            present = keys.drop_null()  # keys may repeat: merging ranks them, and there is no need to do it twice
            return present, _of_all_rows(keys, np.arange(len(present), dtype=np.int32))
        if keys.null_count < len(keys):
            values = to_numpy(keys.drop_null())
            if is_dense(values):
                distinct, ranks = ranked(values)
                return from_numpy(distinct), _of_all_rows(keys, ranks)
    encoded = keys.dictionary_encode()
    codes = pc.fill_null(encoded.indices, scalar(-1, pa.int32())) if encoded.indices.null_count else encoded.indices
    return encoded.dictionary, to_numpy(codes).astype(np.int32, copy=False)


def _of_all_rows(keys: pa.Array, codes: Codes) -> Codes:
    """The codes of the keys that are not null, with -1 for the others."""
    if not keys.null_count:
        return codes
    everywhere = np.full(len(keys), -1, np.int32)
    everywhere[to_numpy(keys.is_valid())] = codes
    return everywhere


def _merge_ints(codec: KeyCodec, dictionaries: list[pa.Array]) -> tuple[pa.Array, list[Codes]]:
    parts = [to_numpy(dictionary) for dictionary in dictionaries] or [np.zeros(0, f"<i{codec.width}")]
    keys, ranks = ranked(np.concatenate(parts) if len(parts) > 1 else parts[0])
    bounds = np.cumsum([len(d) for d in dictionaries])[:-1]
    return from_numpy(keys), np.split(ranks, bounds) if dictionaries else []


def _merge_binary(dictionaries: list[pa.Array]) -> tuple[pa.Array, list[Codes]]:
    if not dictionaries:
        return pa.nulls(0, pa.binary()), []
    lengths = [len(d) for d in dictionaries]
    encoded = pa.chunked_array(dictionaries, pa.binary()).dictionary_encode().combine_chunks()
    distinct, codes = encoded.dictionary, to_numpy(encoded.indices)
    order = pc.array_sort_indices(distinct)
    rank = np.empty(len(distinct), np.int32)
    rank[to_numpy(order)] = np.arange(len(distinct), dtype=np.int32)
    return distinct.take(order), np.split(rank[codes], np.cumsum(lengths)[:-1])


class IndexLimitError(SchemaError):
    """An index can't hold the values of a data file, which gets no such index then."""


def check_limits(index_type: str, rows: int, size: int) -> None:
    """Raises IndexLimitError when rows or bytes of an index exceed what its int32 fields can count."""
    if max(rows, size) > 0x7FFFFFFF:
        raise IndexLimitError(
            f"a {index_type} index can't hold {rows} rows in {size} bytes",
            hint="lower target-file-size, or don't index this column",
        )
