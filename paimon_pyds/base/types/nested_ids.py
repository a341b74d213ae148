"""The ids of elements, keys and values of ARRAY and MAP columns in Parquet files and Iceberg schemas.

Members of ROW have ids of their own. Source: Java Paimon 1.4, class SpecialFields.
"""

from __future__ import annotations

_LARGEST = 2**31 - 1
"""Ids are 32-bit integers."""
_BASE = _LARGEST // 4
"""Columns have lower ids."""
_LEVELS = 1 << 10
"""Ids of a column: types are nested less deep."""


def element_id(field_id: int, depth: int) -> int:
    """That of the elements of an ARRAY, or of the values of a MAP. ``field_id``: of the column or member of a ROW that
    holds it; ``depth``: levels below that, from 1."""
    return (_BASE + field_id * _LEVELS + depth) & _LARGEST


def key_id(field_id: int, depth: int) -> int:
    """That of the keys of a MAP; arguments as those of `element_id`."""
    return (_BASE - field_id * _LEVELS - depth) & _LARGEST
