"""The distinct keys of a column, and for each row the rank of its key: built once, shared by all indexes of the column.

Batches come in small; they are gathered and encoded a million rows at a time. What is kept per row is a code of four
bytes; what is kept besides are the distinct keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.index.keys import KeyCodec

__all__ = ["ColumnDictionary", "EncodedColumn"]

_ROWS = 1 << 20
_BYTES = 64 << 20
_SAMPLE_RUNS = 4
_SAMPLE_ROWS = 4096
_DISTINCT_SHARE = 0.97

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
        """Rows of the column."""
        return len(self.codes)

    def int_keys(self) -> npt.NDArray[Any]:
        """The distinct keys of a fixed-width type."""
        return self.keys.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


class ColumnDictionary:
    """Gathers a column batch by batch.

    Args:
        codec: the keys of the column's type.
        keep_codes: False when only the distinct keys matter; then `finish` is not to be called.
    """

    def __init__(self, codec: KeyCodec, *, keep_codes: bool = True) -> None:
        self.codec = codec
        self.rows = 0
        self._keep = keep_codes
        self._pending: list[pa.Array] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._parts: list[tuple[pa.Array, Codes]] = []
        self._distinct = 0
        self._merged = 0
        self._encoded: EncodedColumn | None = None
        self._listeners: list[Callable[[pa.Array], None]] = []

    def on_distinct(self, listener: Callable[[pa.Array], None]) -> None:
        """Call back with the distinct keys of each stretch of rows: every key at least once, none of them null."""
        self._listeners.append(listener)

    def update(self, values: pa.Array) -> None:
        """Append rows: values of the column's Arrow type."""
        keys = self.codec.keys_of(values)
        self.rows += len(keys)
        if len(keys) >= _ROWS or keys.nbytes >= _BYTES:
            self.flush()
            self._encode(keys)
            return
        # A copy: the batch may be a view into a message that holds all columns, and is to be freed.
        self._pending.append(pa.concat_arrays([keys, keys[:0]]))
        self._pending_rows += len(keys)
        self._pending_bytes += keys.nbytes
        if self._pending_rows >= _ROWS or self._pending_bytes >= _BYTES:
            self.flush()

    def flush(self) -> None:
        """Encode what was gathered; the listeners have then seen every key."""
        if self._pending:
            keys = pa.concat_arrays(self._pending)
            self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
            self._encode(keys)

    def _encode(self, keys: pa.Array) -> None:
        dictionary, codes = _as_they_are(keys) if _nearly_distinct(self.codec, keys) else _encoded(keys)
        for listener in self._listeners:
            listener(dictionary)
        if not self._keep:
            return
        self._parts.append((dictionary, codes))
        self._distinct += len(dictionary)
        if self._distinct > 2 * self._merged + (_ROWS << 1):
            self._merge()

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


def _nearly_distinct(codec: KeyCodec, keys: pa.Array) -> bool:
    """Whether, by a sample, nearly every key is another one: sorting them once is then all that is needed."""
    if codec.is_binary or len(keys) < _SAMPLE_RUNS * _SAMPLE_ROWS:
        return False
    step = (len(keys) - _SAMPLE_ROWS) // (_SAMPLE_RUNS - 1)
    sample = pa.concat_arrays([keys.slice(i * step, _SAMPLE_ROWS) for i in range(_SAMPLE_RUNS)])
    return bool(pc.count_distinct(sample, mode="only_valid").as_py() >= _DISTINCT_SHARE * len(sample))


def _as_they_are(keys: pa.Array) -> tuple[pa.Array, Codes]:
    """Keys that may repeat in place of a dictionary: merging sorts them and makes equal ones one."""
    if not keys.null_count:
        return keys, np.arange(len(keys), dtype=np.int32)
    valid = keys.is_valid().to_numpy(zero_copy_only=False)
    return keys.drop_null(), np.where(valid, np.cumsum(valid, dtype=np.int32) - 1, -1).astype(np.int32)


def _encoded(keys: pa.Array) -> tuple[pa.Array, Codes]:
    encoded = keys.dictionary_encode()
    codes = encoded.indices.fill_null(-1) if encoded.indices.null_count else encoded.indices
    return encoded.dictionary, codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)


def _merge_ints(codec: KeyCodec, dictionaries: list[pa.Array]) -> tuple[pa.Array, list[Codes]]:
    empty = np.zeros(0, f"<i{codec.width}")
    values = np.concatenate([empty, *(d.to_numpy(zero_copy_only=False) for d in dictionaries)])
    order = np.argsort(values, kind="stable" if codec.width <= 2 else "quicksort")
    ordered = values[order]
    fresh = np.ones(len(values), np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    rank = np.empty(len(values), np.int32)
    rank[order] = np.cumsum(fresh) - 1
    bounds = np.cumsum([len(d) for d in dictionaries])[:-1]
    return pa.array(ordered[fresh]), np.split(rank, bounds) if dictionaries else []


def _merge_binary(dictionaries: list[pa.Array]) -> tuple[pa.Array, list[Codes]]:
    if not dictionaries:
        return pa.array([], pa.binary()), []
    lengths = [len(d) for d in dictionaries]
    encoded = pa.chunked_array(dictionaries, pa.binary()).dictionary_encode().combine_chunks()
    distinct, codes = encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False)
    order = pc.array_sort_indices(distinct)
    rank = np.empty(len(distinct), np.int32)
    rank[order.to_numpy()] = np.arange(len(distinct), dtype=np.int32)
    return distinct.take(order), np.split(rank[codes], np.cumsum(lengths)[:-1])
