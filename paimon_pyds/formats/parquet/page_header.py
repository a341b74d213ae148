"""Page headers, those of many pages at once.

Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader, DictionaryPageHeader, DataPageHeaderV2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parquet.thrift import BOOL_FALSE, BOOL_TRUE, I32, STRUCT, Struct, decode_struct

__all__ = ["DATA_PAGE", "DATA_PAGE_V2", "DICTIONARY_PAGE", "PageHead", "read_head", "read_heads"]

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3

_Int64s = npt.NDArray[np.int64]
_DATA_HEAD, _DICTIONARY_HEAD, _DATA_HEAD_V2 = 5, 7, 8
"""Fields of a PageHeader."""
_COUNTED = frozenset({I32, BOOL_TRUE, BOOL_FALSE})
_WINDOW = 48
_FEW = 16
"""Headers up to which reading one after the other is faster."""
_USUAL = (0x15, None, 0x15, None, 0x15, None, 0x15, None, 0x1C, 0x15, None, 0x15, None, 0x15, None, 0x15, None, 0, 0)
_WITHOUT_CRC = (0x15, None, 0x15, None, 0x15, None, 0x2C, 0x15, None, 0x15, None, 0x15, None, 0x15, None, 0, 0)
"""Tokens of a header of a data page without statistics; None is a number."""


@dataclass(frozen=True, slots=True)
class PageHead:
    """One page header: ``length`` are its own bytes, ``fields`` the numbers in the header of its kind, by field id."""

    kind: int
    length: int
    compressed: int
    uncompressed: int
    crc: int | None
    fields: dict[int, int]


def read_heads(data: bytes, positions: _Int64s) -> list[PageHead]:
    """The headers at these positions. CorruptFileError for what is no header, or cut off."""
    if len(positions) <= _FEW:
        return [read_head(data, position) for position in positions.tolist()]
    found = _at_once(data, positions, _USUAL)
    if found is None:
        found = _at_once(data, positions, _WITHOUT_CRC)
    return found if found is not None else [read_head(data, position) for position in positions.tolist()]


def _at_once(data: bytes, positions: _Int64s, pattern: tuple[int | None, ...]) -> list[PageHead] | None:
    """All headers when each is spelled like this, in tokens of LEB128; None when one is not."""
    octets = np.frombuffer(data, np.uint8)
    window = octets[np.minimum(positions[:, None] + np.arange(_WINDOW), len(octets) - 1)]
    ends = window < 0x80
    token = np.cumsum(ends, axis=1) - ends  # the number of the token that a byte belongs to
    last = np.argmax(token == len(pattern), axis=1)  # where the header's end is behind
    if not last.all() or bool((positions + last > len(octets)).any()):
        return None
    used = np.arange(_WINDOW) < last[:, None]
    begins = np.ones_like(ends)
    begins[:, 1:] = ends[:, :-1]
    place = np.arange(_WINDOW) - np.maximum.accumulate(np.where(begins, np.arange(_WINDOW), 0), axis=1)
    if int(place[used].max()) > 4:  # more than 32 bits
        return None
    parts = (window & 0x7F).astype(np.int64) << (7 * place)
    numbers = np.add.reduceat(parts[used], np.flatnonzero(begins[used])).reshape(len(positions), len(pattern))
    rows = []
    for at, token_ in enumerate(pattern):
        if token_ is None:
            rows.append((numbers[:, at] >> 1) ^ -(numbers[:, at] & 1))
        elif bool((numbers[:, at] != token_).any()):
            return None
    columns: list[Any] = [row.tolist() for row in rows]
    if len(columns) == 7:
        columns.insert(3, [None] * len(positions))
    if set(columns[0]) != {DATA_PAGE}:
        return None
    return [
        PageHead(kind, length, compressed, uncompressed, crc, {1: values, 2: encoding, 3: levels, 4: repeats})
        for kind, uncompressed, compressed, crc, values, encoding, levels, repeats, length in zip(
            *columns, last.tolist(), strict=True
        )
    ]


def read_head(data: bytes, position: int) -> PageHead:
    """The header at a position. CorruptFileError for what is no header, or cut off."""
    found, end = decode_struct(data, position)
    kind, uncompressed, compressed = (_number(found, field_id, -1) for field_id in (1, 2, 3))
    if compressed < 0:
        raise CorruptFileError(f"a page of {compressed} bytes", field="PageHeader.compressed_page_size")
    inner: Struct = {}
    for field_id in (_DATA_HEAD, _DICTIONARY_HEAD, _DATA_HEAD_V2):
        wire, value = found.get(field_id, (0, None))
        if wire == STRUCT:
            inner = value
    fields = {field_id: int(value) for field_id, (wire, value) in inner.items() if wire in _COUNTED}
    return PageHead(kind, end - position, compressed, uncompressed, _number(found, 4, None), fields)


def _number(fields: Struct, field_id: int, default: Any) -> Any:
    wire, value = fields.get(field_id, (0, None))
    return value if wire == I32 else default
