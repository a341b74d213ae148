"""Arrow columns → BinaryRows, and their hash: murmur3-32 with seed 42, as Java's ``BinaryRow.hashCode``.

The hash is of rows without their number of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import (
    Int64s,
    Words,
    array,
    binary_parts,
    fixed_values,
    one_array,
    unaligned_words,
    valid_mask,
)
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row.decode import FIXED, INLINE_BYTES, Form, form_of, header_words
from paimon_pyds.base.types import DataType, Kind, arrow_type, timestamp_unit
from paimon_pyds.errors import SchemaError

EMPTY_ROW = bytes(12)
"""The row without fields, in manifest form: the partition of an unpartitioned table, the keys of an append table."""

_Mask = npt.NDArray[np.bool_]
_SEED = np.uint32(42)
_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_FIRST_NULL_BIT = 8
"""The bit of the first field in a row's header: before it is the row kind."""
_MANY_FIELDS = 32
"""Fields of a row from which those of one type are encoded together."""
_ROWS_AT_ONCE = 16_384
"""Rows hashed at a time: their words stay in the processor's cache."""


@dataclass(slots=True)
class _Field:
    """One column, ready to be laid out.

    ``words`` is the size of its variable part per row in 8-byte words: one number when all rows agree. ``put`` writes
    the variable parts to given places; the slot refers to them in rows where ``refers`` (None: in all).
    """

    slot: Words
    valid: _Mask | None
    words: int | Int64s = 0
    refers: _Mask | None = None
    put: Callable[[Words, Int64s], None] | None = None


def encode_rows(columns: Sequence[pa.Array], types: Sequence[DataType], *, arity: bool) -> pa.Array:
    """One BinaryRow per element of the columns.

    ``columns``: arrays of one length, of Arrow types that cast to `arrow_type` of the types. At least one. ``arity``:
    put the number of fields in front (4 bytes, big-endian), as manifests store rows.

    Returns:
        a binary array (``pa.large_binary()`` when the rows take 2 GiB and more).

    Raises:
        SchemaError: columns and types do not go together.
        UnsupportedError: a nested type.
    """
    words, starts = row_words(columns, types)
    count = len(starts) - 1
    if not arity:
        return _binary(words, starts * 8, count)
    # In units of 4 bytes: row i is pushed down by the i+1 arities up to its own.
    halves = np.empty(2 * len(words) + count, "<u4")
    heads = starts[:-1] * 2 + np.arange(count)
    halves[heads] = np.array(len(types), ">u4").view("<u4")
    is_body = np.ones(len(halves), np.bool_)
    is_body[heads] = False
    halves[is_body] = words.view("<u4")
    return _binary(halves, (starts * 2 + np.arange(count + 1)) * 4, count)


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """One row of internal values in manifest form (4-byte big-endian arity in front).

    Raises:
        SchemaError: a value that its type can't hold, or as many values as types are not given.
        UnsupportedError: a nested type.
    """
    if len(values) != len(types):
        raise SchemaError(f"{len(values)} values for a row of {len(types)} fields")
    if not types:
        return EMPTY_ROW
    if len(types) >= _MANY_FIELDS:
        found = _without_variable_part(values, types)
        if found is not None:
            return found
    columns = []
    for value, type_ in zip(values, types, strict=True):
        try:
            columns.append(array([value], arrow_type(type_)))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise SchemaError(f"{value!r:.100} is not a value of {type_}") from error
    return cast(bytes, encode_rows(columns, types, arity=True)[0].as_py())


def _without_variable_part(values: Sequence[object], types: Sequence[DataType]) -> bytes | None:
    """One row of many fields, those of one type encoded together; None where one has a variable part, or does not fit
    its type."""
    header = header_words(len(types))
    words, nulls = np.zeros(header + len(types), "<u8"), np.zeros(64 * header, np.bool_)
    alike: dict[DataType, list[int]] = {}
    for index, type_ in enumerate(types):
        alike.setdefault(type_, []).append(index)
    for type_, members in alike.items():
        try:
            column = array([values[index] for index in members], arrow_type(type_))
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return None
        field, at = _prepare(column, type_), np.array(members)
        if field.put is not None:
            return None
        words[header + at] = field.slot
        if field.valid is not None:
            nulls[_FIRST_NULL_BIT + at] = ~field.valid
    words[:header] = np.packbits(nulls, bitorder="little").view("<u8")
    return len(types).to_bytes(4, "big") + words.tobytes()


def _binary(data: npt.NDArray[np.generic], offsets: Int64s, count: int) -> pa.Array:
    large = int(offsets[-1]) >= 2**31
    bounds = pa.py_buffer(offsets if large else offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.large_binary() if large else pa.binary(), count, [None, bounds, pa.py_buffer(data)])


def row_words(columns: Sequence[pa.Array], types: Sequence[DataType]) -> tuple[Words, Int64s]:
    """Rows without arity as one array of 8-byte words, and where each row starts (one more entry for the end)."""
    if not columns or len(columns) != len(types):
        raise SchemaError(f"{len(columns)} columns for rows of {len(types)} fields")
    count = len(columns[0])
    if any(len(column) != count for column in columns):
        raise SchemaError(f"columns of different lengths: {[len(column) for column in columns]}")
    fields = [_prepare(column, type_) for column, type_ in zip(columns, types, strict=True)]
    header = header_words(len(fields))
    fixed = header + len(fields)
    total: int | Int64s = fixed
    for field in fields:
        total = total + field.words
    if isinstance(total, int):
        starts = np.arange(count + 1, dtype=np.int64) * total
    else:
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(total, out=starts[1:])
    out = np.zeros(int(starts[-1]), "<u8")
    uniform = out.reshape(count, total) if isinstance(total, int) else None

    def place(word: int, values: Words) -> None:
        if uniform is not None:
            uniform[:, word] = values
        else:
            out[starts[:-1] + word] = values

    for word, bits in enumerate(_null_bits(fields, header, count)):
        if bits is not None:
            place(word, bits)
    cursor: int | Int64s = fixed
    for index, field in enumerate(fields):
        slot = field.slot
        if field.put is not None:
            offset = np.left_shift(np.uint64(8) * np.asarray(cursor, np.uint64), np.uint64(32))
            slot = slot | (offset if field.refers is None else np.where(field.refers, offset, np.uint64(0)))
            field.put(out, starts[:-1] + cursor)
            cursor = cursor + field.words
        place(header + index, slot)
    return out, starts


def _null_bits(fields: Sequence[_Field], header: int, count: int) -> list[Words | None]:
    bits: list[Words | None] = [None] * header
    for index, field in enumerate(fields):
        if field.valid is not None:
            word, bit = divmod(index + _FIRST_NULL_BIT, 64)
            null = np.left_shift((~field.valid).astype(np.uint64), np.uint64(bit))
            before = bits[word]
            bits[word] = null if before is None else before | null
    return bits


def _prepare(column: pa.Array, type_: DataType) -> _Field:
    form = form_of(type_)
    column = one_array(column)
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    want = arrow_type(type_)
    if column.type != want and not (form is Form.BYTES and large):
        try:
            column = column.cast(want)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(f"a column of Arrow type {column.type} does not fit {type_}: {error}") from error
    valid = valid_mask(column)
    match form:
        case Form.FIXED:
            return _Field(_fixed(column, type_.kind, valid), valid)
        case Form.MILLIS:
            return _Field(_cleared(fixed_values(column, "<u8"), valid), valid)
        case Form.NANOS:
            return _nanos(column, type_, valid)
        case Form.DECIMAL:
            return _Field(_cleared(fixed_values(column, "<u8", 2)[0::2], valid), valid)
        case Form.BIG_DECIMAL:
            return _big_decimal(column, valid)
        case Form.BYTES:
            return _bytes(column, valid)


def _cleared(values: npt.NDArray[Any], valid: _Mask | None) -> Words:
    words = values.astype(np.uint64)
    return words if valid is None else words * valid


def _fixed(column: pa.Array, kind: Kind, valid: _Mask | None) -> Words:
    if kind is Kind.BOOLEAN:
        bits = column.buffers()[1]
        if bits is None or len(column) == 0:
            return np.zeros(len(column), np.uint64)
        flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little", count=column.offset + len(column))
        return _cleared(flags[column.offset :], valid)
    return _cleared(fixed_values(column, FIXED[kind].str), valid)


def _nanos(column: pa.Array, type_: DataType, valid: _Mask | None) -> _Field:
    per_milli, to_nanos = (1_000, 1_000) if timestamp_unit(type_) == "us" else (1_000_000, 1)
    values = _cleared(fixed_values(column, "<u8"), valid).view(np.int64)
    millis = np.floor_divide(values, per_milli)
    nanos = (values - millis * per_milli) * to_nanos

    def put(out: Words, at: Int64s) -> None:
        out[at] = millis.view(np.uint64)

    return _Field(nanos.view(np.uint64), valid, 1, None, put)


def _big_decimal(column: pa.Array, valid: _Mask | None) -> _Field:
    raw = fixed_values(column, "u1", 16).reshape(-1, 16)[:, ::-1]
    if valid is not None:
        raw = raw * valid[:, None].astype(np.uint8)
    negative = (raw[:, :1] >> 7).astype(np.bool_)
    # A leading byte is left out while it only repeats the sign of the byte after it.
    spare = (raw[:, :-1] == np.where(negative, 0xFF, 0).astype(np.uint8)) & ((raw[:, 1:] >> 7) == negative)
    lead = np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    source = lead[:, None] + np.arange(16)
    shifted = np.where(source < 16, np.take_along_axis(raw, np.minimum(source, 15), axis=1), np.uint8(0))
    words = np.ascontiguousarray(shifted, np.uint8).view("<u8")
    length = (16 - lead).astype(np.uint64)
    if valid is not None:
        length = length * valid

    def put(out: Words, at: Int64s) -> None:
        out[at] = words[:, 0]
        out[at + 1] = words[:, 1]

    return _Field(length, valid, 2, None, put)


def _bytes(column: pa.Array, valid: _Mask | None) -> _Field:
    data, starts, ends = binary_parts(column)
    if len(starts) == 0:
        return _Field(np.zeros(0, np.uint64), valid)
    low = int(starts[0])
    padded = np.concatenate([data[low : int(ends[-1])], np.zeros(8, np.uint8)])
    starts = starts - low
    lengths = ends - low - starts
    if valid is not None:
        lengths = lengths * valid
    source = unaligned_words(padded)
    short = lengths <= INLINE_BYTES
    slot = lengths.astype(np.uint64)
    inline = source[starts[short]] & _LOW_BYTES[lengths[short]]
    slot[short] = inline | np.left_shift(slot[short] | np.uint64(0x80), np.uint64(56))
    if valid is not None:
        slot = slot * valid
    if short.all():
        return _Field(slot, valid)
    words = np.where(short, 0, (lengths + 7) >> 3)

    def put(out: Words, at: Int64s) -> None:
        long = np.flatnonzero(~short)
        sizes = words[long]
        step = np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        values = source[np.repeat(starts[long], sizes) + 8 * step]
        last = np.cumsum(sizes) - 1
        values[last] &= _LOW_BYTES[lengths[long] - 8 * (sizes - 1)]
        out[np.repeat(at[long], sizes) + step] = values

    return _Field(slot, valid, words, ~short, put)


_LOW_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
"""Masks of the lowest 0 … 8 bytes of a word."""


def hash_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> npt.NDArray[np.int32]:
    """The hash code of each row, as Java computes it.
    Raises SchemaError: columns and types do not go together; UnsupportedError: a nested type."""
    count = len(columns[0]) if columns else 0
    out = np.empty(count, np.uint32)
    for start in range(0, max(count, 1), _ROWS_AT_ONCE):
        words, starts = row_words([column.slice(start, _ROWS_AT_ONCE) for column in columns], types)
        out[start : start + _ROWS_AT_ONCE] = _murmur(words, starts)
    return out.view(np.int32)


def hash_row(row: bytes) -> int:
    """The hash code of a row in manifest form (arity + BinaryRow)."""
    words = np.frombuffer(row, "<u8", offset=4)
    return int(_murmur(words, np.array([0, len(words)])).view(np.int32)[0])


def hash_ints(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The hash code of rows of one INT, without their null bits: that is Spark's function ``hash``, too."""
    state = np.full(len(values), _SEED)
    _mix(state, values.view(np.uint32))
    return _finish(state, np.ones(len(values), np.int64)).view(np.int32)


def _murmur(words: Words, starts: Int64s) -> npt.NDArray[np.uint32]:
    halves = words.view("<u4")
    lengths = np.diff(starts) * 2
    if len(lengths) == 0:
        return np.empty(0, np.uint32)
    longest = int(lengths.max())
    if int(lengths.min()) == longest:
        table = halves.reshape(-1, longest)
        state = np.full(len(table), _SEED)
        for column in range(longest):
            _mix(state, np.ascontiguousarray(table[:, column]))
        return _finish(state, lengths)
    # Longest rows first: those still running at a step are a prefix.
    order = np.argsort(-lengths, kind="stable")
    at = starts[:-1][order] * 2
    sizes = lengths[order]
    state = np.full(len(sizes), _SEED)
    running = np.searchsorted(-sizes, -np.arange(longest), side="left")
    for step in range(longest):
        live = running[step]
        _mix(state[:live], halves[at[:live] + step])
    out = np.empty_like(state)
    out[order] = _finish(state, sizes)
    return out


def _mix(state: npt.NDArray[np.uint32], block: npt.NDArray[np.uint32]) -> None:
    block = block * _C1
    block = (block << np.uint32(15)) | (block >> np.uint32(17))
    block *= _C2
    state ^= block
    np.bitwise_or(state << np.uint32(13), state >> np.uint32(19), out=state)
    state *= np.uint32(5)
    state += np.uint32(0xE6546B64)


def _finish(state: npt.NDArray[np.uint32], lengths: Int64s) -> npt.NDArray[np.uint32]:
    state = state ^ (lengths * 4).astype(np.uint32)
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state
