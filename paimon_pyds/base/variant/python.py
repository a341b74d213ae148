"""VARIANT columns as Python values."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, one_array
from paimon_pyds.base.variant.nodes import (
    BYTES,
    DATE,
    DECIMALS,
    DOUBLE,
    FALSE,
    FLOAT,
    INSTANT,
    INSTANT_NANOS,
    INTEGERS,
    NULL,
    OBJECT,
    SHORT,
    TEXT,
    TIME,
    TRUE,
    UUID,
    WALL_CLOCK,
    WALL_CLOCK_NANOS,
    Level,
    Nodes,
    levels_of,
)
from paimon_pyds.errors import CorruptFileError, UnsupportedError

_EPOCH = dt.datetime(1970, 1, 1)
_INSTANT_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Objects = npt.NDArray[np.object_]


def variant_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a VARIANT column as Python's, such as ``variant_values(table.scan().to_arrow()["v"])``.

    Args:
        column: a column as reads give it: a struct of the binary members ``value`` and ``metadata``.

    Returns:
        For each row None (SQL's NULL and JSON's null), bool, int, float, decimal.Decimal, str, bytes, datetime.date,
        datetime.datetime (instants in UTC), datetime.time, uuid.UUID, a list, or a dict.

    Raises:
        CorruptFileError: damaged bytes.
        UnsupportedError: a timestamp that Python does not have: of nanoseconds, or outside the years 1 to 9999.
    """
    nodes, valid = Nodes.of(one_array(column))
    found = np.full(len(column), None, object)
    found[valid] = decode(nodes)
    return found.tolist()


def decode(nodes: Nodes) -> Objects:
    """The values as Python's."""
    levels = list(levels_of(nodes))
    names = np.array([*nodes.keys.names.to_pylist(), None], object)
    below = np.zeros(0, object)
    for level in reversed(levels):
        below = _of_level(level, names, below)
    return below


def _of_level(level: Level, names: Objects, items: Objects) -> Objects:
    found = np.full(len(level.nodes), None, object)
    kinds = level.nodes.kinds
    for kind in np.unique(kinds).tolist():
        if kind not in (NULL, 255):
            at = np.flatnonzero(kinds == kind)
            found[at] = scalars(level.nodes.pick(at), kind)
    bounds = np.concatenate(([0], np.cumsum(level.items.counts))).tolist()
    are_objects = (level.nodes.basics[level.nested] == OBJECT).tolist()
    keys, values = names[level.items.codes].tolist(), items.tolist()
    for n, at in enumerate(level.nested.tolist()):
        start, stop = bounds[n], bounds[n + 1]
        inside = values[start:stop]
        found[at] = dict(zip(keys[start:stop], inside, strict=True)) if are_objects[n] else inside
    return found


def integers(nodes: Nodes, width: int) -> Int64s:
    """Integers of ``width`` bytes."""
    return np.ascontiguousarray(nodes.fixed(width)).view(f"<i{width}").reshape(-1).astype(np.int64)


def floats(nodes: Nodes, kind: int) -> npt.NDArray[np.float64]:
    """Values of FLOAT or DOUBLE."""
    width = 4 if kind == FLOAT else 8
    return np.ascontiguousarray(nodes.fixed(width)).view(f"<f{width}").reshape(-1).astype(np.float64)


def unscaled(nodes: Nodes, width: int) -> tuple[list[int], Int64s]:
    """Decimals of ``width`` bytes as integers and scales. Raises CorruptFileError: a scale above 38."""
    scales = nodes.fixed(1).reshape(-1).astype(np.int64)
    if (scales > 38).any():
        raise CorruptFileError(f"a decimal of a VARIANT has the scale {int(scales.max())}")
    if width < 16:
        raw = np.ascontiguousarray(nodes.fixed(width, 2)).view(f"<i{width}").reshape(-1)
        return raw.tolist(), scales
    return [int.from_bytes(row, "little", signed=True) for row in map(bytes, nodes.fixed(16, 2))], scales


def decimals(nodes: Nodes, width: int) -> list[decimal.Decimal]:
    """Decimals of ``width`` bytes."""
    numbers, scales = unscaled(nodes, width)
    context = decimal.Context(prec=60)
    return [decimal.Decimal(n).scaleb(-s, context) for n, s in zip(numbers, scales.tolist(), strict=True)]


def texts(nodes: Nodes) -> pa.Array:
    """Texts. Raises CorruptFileError: not UTF-8."""
    try:
        return nodes.texts().cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFileError("a text of a VARIANT is not UTF-8") from error


def scalars(nodes: Nodes, kind: int) -> Any:
    """The list of primitive values that all have one type."""
    if kind in (TRUE, FALSE):
        return [kind == TRUE] * len(nodes)
    if kind in INTEGERS:
        return integers(nodes, INTEGERS[kind]).tolist()
    if kind in (FLOAT, DOUBLE):
        return floats(nodes, kind).tolist()
    if kind in DECIMALS:
        return decimals(nodes, DECIMALS[kind])
    if kind in (TEXT, SHORT):
        return texts(nodes).to_pylist()
    if kind == BYTES:
        return nodes.texts().to_pylist()
    if kind == UUID:
        return [uuid.UUID(bytes=row) for row in map(bytes, nodes.fixed(16))]
    if kind in (INSTANT_NANOS, WALL_CLOCK_NANOS):
        raise UnsupportedError("a VARIANT holds a timestamp with nanoseconds, which Python has no value for")
    try:
        return _times(nodes, kind)
    except OverflowError:
        raise UnsupportedError("a VARIANT holds a time outside the years 1 to 9999") from None


def _times(nodes: Nodes, kind: int) -> list[Any]:
    numbers = integers(nodes, 4 if kind == DATE else 8).tolist()
    if kind == DATE:
        return [_EPOCH.date() + dt.timedelta(days=n) for n in numbers]
    if kind == TIME:
        if any(not 0 <= n < 86_400_000_000 for n in numbers):
            raise CorruptFileError("a VARIANT holds a time outside of a day")
        return [(_EPOCH + dt.timedelta(microseconds=n)).time() for n in numbers]
    start = _INSTANT_EPOCH if kind == INSTANT else _EPOCH
    assert kind in (INSTANT, WALL_CLOCK)
    return [start + dt.timedelta(microseconds=n) for n in numbers]
