"""Page headers, those of many pages at once.

Source: apache/parquet-format, parquet.thrift (PageHeader, DataPageHeader, DictionaryPageHeader, DataPageHeaderV2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.parquet.thrift import (
    BOOL_FALSE,
    BOOL_TRUE,
    I32,
    STRUCT,
    field_head,
    skip_field,
    varint,
    zigzag,
)  # fmt: skip

__all__ = ["DATA_PAGE", "DATA_PAGE_V2", "DICTIONARY_PAGE", "PageHead", "read_head", "read_heads"]

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3

_Int64s = npt.NDArray[np.int64]
_DATA_HEAD, _DICTIONARY_HEAD, _DATA_HEAD_V2 = 5, 7, 8
"""Fields of a PageHeader."""
_WINDOW = 48
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
    """The headers at these positions. IndexError past the end; CorruptFileError for what is no header."""
    found = _at_once(data, positions, _USUAL)
    if found is None:
        found = _at_once(data, positions, _WITHOUT_CRC)
    return found if found is not None else [read_head(data, int(position)) for position in positions]


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
    """The header at a position. IndexError past the end; CorruptFileError for what is no header."""
    start, field_id = position, 0
    numbers: dict[int, int] = {}
    fields: dict[int, int] = {}
    while True:
        wire, field_id, position = field_head(data, position, field_id)
        if wire == 0:
            break
        if wire == I32:
            raw, position = varint(data, position)
            numbers[field_id] = zigzag(raw)
        elif wire == STRUCT and field_id in (_DATA_HEAD, _DICTIONARY_HEAD, _DATA_HEAD_V2):
            fields, position = _numbers(data, position)
        else:
            position = skip_field(data, position, wire)
    compressed = numbers.get(3, -1)
    if compressed < 0:
        raise CorruptFileError(f"a page of {compressed} bytes", field="PageHeader.compressed_page_size")
    return PageHead(numbers.get(1, -1), position - start, compressed, numbers.get(2, -1), numbers.get(4), fields)


def _numbers(data: bytes, position: int) -> tuple[dict[int, int], int]:
    """The int32 and boolean fields of the struct at ``position``, and the position after it."""
    found: dict[int, int] = {}
    field_id = 0
    while True:
        wire, field_id, position = field_head(data, position, field_id)
        if wire == 0:
            return found, position
        if wire == I32:
            raw, position = varint(data, position)
            found[field_id] = zigzag(raw)
        elif wire in (BOOL_TRUE, BOOL_FALSE):
            found[field_id] = int(wire == BOOL_TRUE)
        else:
            position = skip_field(data, position, wire)
