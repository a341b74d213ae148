"""Texts that Java gives to numbers."""

from __future__ import annotations

import decimal

import numpy as np

__all__ = ["java_float_text"]


def java_float_text(value: float, single: bool) -> str:
    """The text of Java's Float.toString and Double.toString: shortest digits, ``1.0E10`` outside 10⁻³ … 10⁷."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if np.signbit(value) else "0.0"
    shortest = np.format_float_scientific(np.float32(value) if single else np.float64(value), unique=True, trim="0")
    mantissa, exponent = shortest.split("e")
    power = int(exponent)
    if -3 <= power < 7:
        plain = format(decimal.Decimal(shortest).normalize(), "f")
        return plain if "." in plain else plain + ".0"
    return f"{mantissa}E{power}"
