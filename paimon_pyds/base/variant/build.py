"""Encoded values made of columns: of Arrow arrays without items, of lists, and of members of objects."""

from __future__ import annotations

import decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import (
    Flags,
    Int64s,
    Octets,
    array,
    binary_parts,
    fixed_binary,
    from_numpy,
    is_true,
    pc,
    scalar,
    to_numpy,
)
from paimon_pyds.base.types.arrow import ARROW_VARIANT
from paimon_pyds.base.variant.nodes import (
    ARRAY,
    BYTES,
    DATE,
    DECIMAL4,
    DECIMAL8,
    DECIMAL16,
    DOUBLE,
    FALSE,
    FLOAT,
    INSTANT,
    INSTANT_NANOS,
    INT8,
    INT16,
    INT32,
    INT64,
    OBJECT,
    SHORT_TEXT,
    TEXT,
    TIME,
    TRUE,
    UUID,
    WALL_CLOCK,
    WALL_CLOCK_NANOS,
    counted,
)
from paimon_pyds.errors import UnsupportedError

NULL_BYTES = b"\x00"
"""JSON's null."""
_MOST_SHORT = 63
"""Bytes of a short text at most."""


def write_numbers(out: Octets, at: Int64s, numbers: Int64s, width: Int64s) -> None:
    """Write unsigned little-endian numbers of 1 to 4 bytes."""
    for byte in range(4):
        more = width > byte
        if not more.any():
            return
        out[at[more] + byte] = (numbers[more] >> (8 * byte)) & 255


def width_of(numbers: Int64s) -> Int64s:
    """Bytes that numbers take, 1 to 4."""
    return 1 + (numbers > 0xFF).astype(np.int64) + (numbers > 0xFFFF) + (numbers > 0xFF_FFFF)


def _sliced(data: Octets, bounds: Int64s) -> pa.Array:
    """A binary array of the bytes between bounds."""
    return pa.Array.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(data)]
    )


def _joined(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*(p.cast(pa.large_binary()) for p in parts), scalar(b"", pa.large_binary()))


def _strung(items: pa.Array, counts: Int64s) -> tuple[pa.Array, Int64s]:
    """For owners that have some of the items each, one after the other: their bytes strung together, and the length of
    each item."""
    data, starts, ends = binary_parts(items)
    lengths = ends - starts
    first = int(starts[0]) if len(starts) else 0
    bounds = np.concatenate(([0], np.cumsum(lengths)))[np.concatenate(([0], np.cumsum(counts)))] + first
    return _sliced(data, bounds), lengths


def _offsets(lengths: Int64s, owners: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Where items begin within their owner, and how long all items of an owner are."""
    totals = np.bincount(owners, lengths, len(counts)).astype(np.int64)
    ends = np.cumsum(lengths)
    return ends - lengths - (np.cumsum(totals) - totals)[owners], totals


def arrays(items: pa.Array, counts: Int64s) -> pa.Array:
    """Arrays of encoded items. ``items``: binary without NULL, those of one array after those of the one before."""
    return _containers(items, counts, None)


def objects(items: pa.Array, counts: Int64s, ids: Int64s) -> pa.Array:
    """Objects of encoded items, as `arrays`. ``ids``: the number of each item's key in the metadata of its row; those
    of one object are in the order of the keys."""
    return _containers(items, counts, ids)


def _containers(items: pa.Array, counts: Int64s, ids: Int64s | None) -> pa.Array:
    body, lengths = _strung(items, counts)
    owners, numbers = counted(counts)
    offsets, totals = _offsets(lengths, owners, counts)
    if len(totals) and int(totals.max()) >= 1 << 31:
        raise UnsupportedError("a VARIANT would have more than 2 GiB")
    width, large = width_of(totals), counts > 255
    id_width = np.zeros(len(counts), np.int64)
    if ids is not None:
        largest = np.zeros(len(counts), np.int64)
        np.maximum.at(largest, owners, ids)
        id_width = width_of(largest)
    count_width = np.where(large, 4, 1)
    id_begin = 1 + count_width
    table = id_begin + counts * id_width
    sizes = table + (counts + 1) * width
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    starts = bounds[:-1]
    out = np.zeros(int(bounds[-1]), np.uint8)
    info = width - 1
    info |= (((id_width - 1) << 2) | (large.astype(np.int64) << 4)) if ids is not None else large.astype(np.int64) << 2
    out[starts] = (info << 2) | (ARRAY if ids is None else OBJECT)
    write_numbers(out, starts + 1, counts, count_width)
    if ids is not None:
        write_numbers(out, (starts + id_begin)[owners] + numbers * id_width[owners], ids, id_width[owners])
    write_numbers(out, (starts + table)[owners] + numbers * width[owners], offsets, width[owners])
    write_numbers(out, starts + table + counts * width, totals, width)
    return _joined(_sliced(out, bounds), body)


def scalars(values: pa.Array) -> pa.Array:
    """Encoded values of an Arrow array without items, NULL where it has NULL.

    Raises UnsupportedError: a type that VARIANT does not have.
    """
    t, type_ = pa.types, values.type
    if t.is_null(type_):
        return pa.nulls(len(values), pa.large_binary())
    if t.is_dictionary(type_):
        return pc.take(scalars(values.dictionary), values.indices)
    if t.is_boolean(type_):
        found = pc.if_else(values, scalar(_header(TRUE), pa.binary()), scalar(_header(FALSE), pa.binary()))
        return found.cast(pa.large_binary())
    if t.is_integer(type_):
        return _masked(_integers(_numbers(values.cast(pa.int64()))), values)
    if t.is_floating(type_):
        dtype, kind = ("<f4", FLOAT) if t.is_float32(type_) else ("<f8", DOUBLE)
        wide = values if type_ in (pa.float32(), pa.float64()) else values.cast(pa.float64())
        return _masked(_fixed(kind, _numbers(wide).astype(dtype)), values)
    if t.is_decimal(type_):
        return _decimals(values)
    if t.is_date(type_):
        return _masked(_fixed(DATE, _numbers(values.cast(pa.date32()).view(pa.int32())).astype("<i4")), values)
    if t.is_time(type_):
        micros = values.cast(pa.time64("us"), safe=False).view(pa.int64())
        return _masked(_fixed(TIME, _numbers(micros).astype("<i8")), values)
    if t.is_timestamp(type_):
        nanos = type_.unit == "ns"
        kinds = (INSTANT_NANOS, WALL_CLOCK_NANOS) if nanos else (INSTANT, WALL_CLOCK)
        kind = kinds[0] if type_.tz else kinds[1]
        moments = values if nanos else values.cast(pa.timestamp("us", type_.tz))
        return _masked(_fixed(kind, _numbers(moments.view(pa.int64())).astype("<i8")), values)
    if t.is_fixed_size_binary(type_) and type_.byte_width == 16:  # as Parquet stores UUID
        raw = np.frombuffer(values.buffers()[1] or b"", "V16")[values.offset : values.offset + len(values)]
        return _masked(_fixed(UUID, raw), values)
    return _texts(values)


def _numbers(values: pa.Array) -> npt.NDArray[np.generic]:
    return to_numpy(pc.fill_null(values, scalar(0, values.type)) if values.null_count else values)


def _header(kind: int) -> bytes:
    return bytes([kind << 2])


def _fixed(kind: int, numbers: npt.NDArray[np.generic]) -> pa.Array:
    width = numbers.dtype.itemsize
    rows = np.empty((len(numbers), 1 + width), np.uint8)
    rows[:, 0] = kind << 2
    rows[:, 1:] = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), width)
    return fixed_binary(rows).cast(pa.large_binary())


def _masked(encoded: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), encoded, scalar(None, encoded.type)) if values.null_count else encoded


def _by_class(classes: Int64s, made: list[pa.Array]) -> pa.Array:
    """The values of several arrays in the order of their classes: ``made[n]`` has those of class n."""
    order = np.argsort(classes, kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return pc.take(pa.concat_arrays(made), from_numpy(places))


def _integers(numbers: npt.NDArray[np.generic]) -> pa.Array:
    """Integers in the fewest bytes."""
    found = numbers.astype(np.int64)
    least = np.where(found < 0, ~found, found)
    classes = (least > 0x7F).astype(np.int64) + (least > 0x7FFF) + (least > 0x7FFF_FFFF)
    kinds = ((INT8, "<i1"), (INT16, "<i2"), (INT32, "<i4"), (INT64, "<i8"))
    return _by_class(classes, [_fixed(k, found[classes == n].astype(d)) for n, (k, d) in enumerate(kinds)])


def _decimals(values: pa.Array) -> pa.Array:
    """Decimals in the fewest bytes that their digits take, with the scale of their type."""
    scale = max(0, values.type.scale)
    exact = values.cast(pa.decimal128(38, scale)) if values.type != pa.decimal128(38, scale) else values
    filled = pc.fill_null(exact, scalar(decimal.Decimal(0).scaleb(-scale), exact.type)) if exact.null_count else exact
    raw = np.frombuffer(filled.buffers()[1], np.uint8).reshape(-1, 16)[filled.offset : filled.offset + len(filled)]
    size = pc.abs(filled)
    limits = [scalar(decimal.Decimal(10**digits - 1).scaleb(-scale), exact.type) for digits in (9, 18)]
    classes = sum(is_true(pc.greater(size, limit)).astype(np.int64) for limit in limits)
    made = []
    for n, (kind, width) in enumerate(((DECIMAL4, 4), (DECIMAL8, 8), (DECIMAL16, 16))):
        some = raw[classes == n][:, :width]
        rows = np.empty((len(some), 2 + width), np.uint8)
        rows[:, 0], rows[:, 1], rows[:, 2:] = kind << 2, scale, some
        made.append(fixed_binary(rows).cast(pa.large_binary()))
    return _masked(_by_class(np.asarray(classes), made), values)


def _texts(values: pa.Array) -> pa.Array:
    t, type_ = pa.types, values.type
    if t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_):
        text = True
    elif t.is_binary(type_) or t.is_large_binary(type_) or t.is_binary_view(type_) or t.is_fixed_size_binary(type_):
        text = False
    else:
        raise UnsupportedError(f"VARIANT has no values for Arrow's {type_}")
    plain = values.cast(pa.large_string() if text else pa.large_binary()).cast(pa.large_binary())
    lengths = to_numpy(pc.fill_null(pc.binary_length(plain), 0)).astype(np.int64)
    short = (lengths <= _MOST_SHORT) & text
    sizes = np.where(short, 1, 5)
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    out = np.zeros(int(bounds[-1]), np.uint8)
    out[bounds[:-1]] = np.where(short, (lengths << 2) | SHORT_TEXT, (TEXT if text else BYTES) << 2)
    long = np.flatnonzero(~short)
    write_numbers(out, bounds[:-1][long] + 1, lengths[long], np.full(len(long), 4))
    return _joined(_sliced(out, bounds), plain)


def spread(values: pa.Array, rows: Int64s, count: int) -> pa.Array:
    """Values at some of ``count`` rows, NULL at the others."""
    if len(rows) == count and (np.diff(rows) > 0).all():
        return values
    places, missing = np.zeros(count, np.int64), np.ones(count, np.bool_)
    places[rows], missing[rows] = np.arange(len(rows)), False
    return values.take(array(places, mask=missing))


def column(values: pa.Array, metadata: pa.Array, valid: Flags | None = None) -> pa.Array:
    """A VARIANT column of encoded values and their metadata, NULL where ``valid`` is false.

    Neither has NULL but where ``valid`` is false.
    """
    children = [pc.fill_null(a, scalar(b"", a.type)) if a.null_count else a for a in (values, metadata)]
    if sum(int(pc.sum(pc.binary_length(a)).as_py() or 0) for a in children) >= 1 << 31:
        raise UnsupportedError("VARIANT values of a batch take more than 2 GiB", hint="read smaller batches")
    mask = None if valid is None or valid.all() else array(~valid)
    return pa.StructArray.from_arrays([a.cast(pa.binary()) for a in children], fields=list(ARROW_VARIANT), mask=mask)
