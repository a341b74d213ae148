"""Arrow's units of time: digits of a second's fraction, and how many of one are in another."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["NANOS_PER_UNIT", "UNITS_PER_SECOND", "UNIT_DIGITS"]

UNIT_DIGITS: Mapping[str, int] = {"s": 0, "ms": 3, "us": 6, "ns": 9}
UNITS_PER_SECOND: Mapping[str, int] = {unit: 10**digits for unit, digits in UNIT_DIGITS.items()}
NANOS_PER_UNIT: Mapping[str, int] = {unit: 10 ** (9 - digits) for unit, digits in UNIT_DIGITS.items()}
