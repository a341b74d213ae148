"""What a bitmap index can tell of a column as a whole; see `paimon_pyds.index.aggregate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.index.bitmap.reader import BitmapReader
from paimon_pyds.index.keys import KeyCodec
from paimon_pyds.index.slices.aggregate import first_of
from paimon_pyds.index.source import corrupt
from paimon_pyds.roaring.codec import decode_bitmap
from paimon_pyds.storage.base import ByteSource
from paimon_pyds.types import STRING_KINDS

__all__ = ["BitmapColumn", "text_keys", "weighed"]

_MANY_BITMAPS = 4_096
"""With more bitmaps than this, decoding the column costs less than looking at each."""
_AT_ONCE = 256
_MOST_AT_ONCE = 4_096


def check_counts(source: ByteSource, row_count: int, counts: npt.NDArray[np.int64], rows: BitMap | None) -> None:
    """A row has one value: raises CorruptFileError when values were counted more often than there are rows."""
    most = row_count if rows is None else len(rows)
    if counts.sum() > most:
        raise corrupt(source, f"{counts.sum()} values in {most} rows", field="bitmaps")


def text_keys(source: ByteSource, codec: KeyCodec, keys: pa.Array) -> pa.Array:
    """The keys; raises CorruptFileError when those of a column of strings are not UTF-8."""
    if codec.type.kind in STRING_KINDS:
        try:
            keys.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise corrupt(source, "a text that is not UTF-8", field="dictionary") from error
    return keys


@dataclass(frozen=True, slots=True)
class BitmapColumn:
    """A column as its bitmap index knows it."""

    reader: BitmapReader
    codec: KeyCodec

    def nulls(self, rows: BitMap | None) -> BitMap:
        """The rows that are NULL."""
        nulls = self.reader._null_rows()
        return nulls if rows is None else nulls & rows

    def best(
        self, rows: BitMap | None, n: int, *, largest: bool, ties: bool, keys: bool
    ) -> tuple[BitMap, pa.Array | None]:
        """The rows of the best keys; values are walked from their best end, many at a time while none is met."""
        found = BitMap()
        positions, known = [np.zeros(0, np.uint32)], []
        for key, place in self._met(rows, largest):
            need = n - len(found)
            if need <= 0:
                break
            members = self.reader._union([place])
            members = members if rows is None else members & rows
            members = members if ties else first_of(members, need)
            found |= members
            if keys:
                positions.append(np.asarray(members.to_array(), np.uint32))
                known.append(self._array([key]).take(pa.array(np.zeros(len(members), np.int64))))
        if not keys:
            return found, None
        order = np.argsort(np.concatenate(positions), kind="stable")
        return found, pa.concat_arrays([self._array([]), *known]).take(pa.array(order))

    def _met(self, rows: BitMap | None, largest: bool) -> Iterator[tuple[Any, tuple[int, int]]]:
        """Keys from best to worst with the places of their bitmaps; stretches without one of ``rows`` are left out."""
        at_once = 1
        blocks = range(self.reader.block_count)
        for number in reversed(blocks) if largest else blocks:
            block = self.reader._load_blocks([number])[0]
            entries = list(zip(block.offsets.tolist(), block.lengths.tolist(), strict=True))
            order = list(range(len(entries)))[:: -1 if largest else 1]
            done = 0
            while done < len(order):
                part = order[done : done + at_once]
                done += len(part)
                if rows is not None and not self.reader._union([entries[i] for i in part]) & rows:
                    at_once = min(2 * at_once, _MOST_AT_ONCE)
                    continue
                yield from ((block.keys[i], entries[i]) for i in part)

    def counts(self, rows: BitMap | None) -> tuple[pa.Array, npt.NDArray[np.int64]] | None:
        """Distinct keys and how often each occurs, NULLs left out; None where there are too many bitmaps."""
        blocks = self.reader._load_blocks(range(self.reader.block_count))
        offsets = np.concatenate([np.zeros(0, np.int64), *(b.offsets for b in blocks)])
        lengths = np.concatenate([np.zeros(0, np.int64), *(b.lengths for b in blocks)])
        many = np.flatnonzero(offsets >= 0)
        if len(many) > _MANY_BITMAPS:
            return None
        counts = np.zeros(len(offsets), np.int64)
        self._count_single(rows, offsets, counts)
        for start in range(0, len(many), _AT_ONCE):
            part = many[start : start + _AT_ONCE]
            counts[part] = self._cardinalities(rows, offsets[part].tolist(), lengths[part].tolist())
        check_counts(self.reader._source, self.reader.row_count, counts, rows)
        keys = pa.concat_arrays([self._array([]), *(self._array(b.keys) for b in blocks)])
        present = np.flatnonzero(counts)
        return keys.take(pa.array(present)), counts[present]

    def _count_single(self, rows: BitMap | None, offsets: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
        """Values of one row, whose position stands in the dictionary."""
        single = np.flatnonzero(offsets < 0)
        if not len(single):
            return
        positions = -1 - offsets[single]
        members = self.reader._union([(int(o), -1) for o in offsets[single].tolist()])  # checks them, too
        live = members if rows is None else members & rows
        counts[single] = np.isin(positions, np.asarray(live.to_array(), np.int64))

    def _cardinalities(self, rows: BitMap | None, offsets: Sequence[int], lengths: Sequence[int]) -> list[int]:
        reader = self.reader
        places = [(o, n if n >= 0 else reader._measure(o)) for o, n in zip(offsets, lengths, strict=True)]
        found = []
        for (offset, _), data in zip(places, reader._body.read_many(places), strict=True):
            origin = reader._body.origin + offset
            bitmap = decode_bitmap(data, row_count=reader.row_count, path=reader._source.name, origin=origin)
            found.append(len(bitmap) if rows is None else bitmap.intersection_cardinality(rows))
        return found

    def total(self, rows: BitMap | None) -> int | None:
        """The sum of the keys, 0 without any; None where there are too many bitmaps."""
        return weighed(self.counts(rows))

    def _array(self, keys: Any) -> pa.Array:
        made = pa.array(keys, pa.binary() if self.codec.is_binary else pa.int64())
        return text_keys(self.reader._source, self.codec, made)


def weighed(counts: tuple[pa.Array, npt.NDArray[np.int64]] | None) -> int | None:
    """The sum of keys that occur so often; None for None."""
    if counts is None:
        return None
    pairs = zip(counts[0].to_pylist(), counts[1].tolist(), strict=True)
    return sum(int(key) * int(count) for key, count in pairs)
