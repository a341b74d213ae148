"""BinaryRows → Arrow columns, and the layout of a BinaryRow."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, Words, array, binary_parts, build, one_array, slices, unaligned_words
from paimon_pyds.base.types import AtomicType, DataType, Kind, arrow_type, scalar_to_internal, timestamp_unit
from paimon_pyds.errors import CorruptFileError, UnsupportedError

_LOW_32 = np.uint64(0xFFFFFFFF)
INLINE_BYTES = 7
"""Texts of up to this many bytes are stored in the 8 bytes of their field."""

_COMPACT_DECIMAL_DIGITS = 18
"""Precision up to which a DECIMAL is stored as a long in its field (Java: Decimal.MAX_COMPACT_PRECISION)."""
_COMPACT_TIMESTAMP_DIGITS = 3
"""Precision up to which a TIMESTAMP is stored as milliseconds in its field (Java: Timestamp.isCompact)."""


class Form(enum.Enum):
    """How values of a type are stored in a row."""

    FIXED = "the value in the field"
    DECIMAL = "the unscaled value in the field"
    BIG_DECIMAL = "16 reserved bytes in the variable part"
    MILLIS = "milliseconds in the field"
    NANOS = "nanoseconds of the millisecond in the field, milliseconds in the variable part"
    BYTES = "inline, or in the variable part"


FIXED: dict[Kind, np.dtype[np.generic]] = {
    Kind.BOOLEAN: np.dtype("u1"), Kind.TINYINT: np.dtype("u1"), Kind.SMALLINT: np.dtype("<u2"),
    Kind.INT: np.dtype("<u4"), Kind.DATE: np.dtype("<u4"), Kind.TIME: np.dtype("<u4"), Kind.FLOAT: np.dtype("<u4"),
    Kind.BIGINT: np.dtype("<u8"), Kind.DOUBLE: np.dtype("<u8"),
}  # fmt: skip
"""Unsigned carrier of each fixed-width kind: its bits are those of the value, the rest of the field is zero."""

_BYTES_KINDS = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY})


def form_of(type_: DataType) -> Form:
    """How values of a type are stored in a row.
    Raises UnsupportedError: nested types, VARIANT, BLOB, VECTOR; neither keys nor statistics have them."""
    if isinstance(type_, AtomicType):
        if type_.kind in FIXED:
            return Form.FIXED
        if type_.kind in _BYTES_KINDS:
            return Form.BYTES
        if type_.kind is Kind.DECIMAL:
            return Form.DECIMAL if (type_.precision or 0) <= _COMPACT_DECIMAL_DIGITS else Form.BIG_DECIMAL
        if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
            return Form.MILLIS if (type_.precision or 0) <= _COMPACT_TIMESTAMP_DIGITS else Form.NANOS
    raise UnsupportedError(
        f"columns of type {type_.name} can't be partition, bucket or primary keys",
        hint="use another column as key",
        feature="append-tables",
    )


def header_words(fields: int) -> int:
    """8-byte words taken by the header byte and the null bits of a row."""
    return (fields + 8 + 63) // 64


class DecodedColumn(NamedTuple):
    """One field of many rows.

    ``values`` has the Arrow type of the field. ``unknown`` is None, or True for rows whose value is there but can't be
    held by that Arrow type: a TIMESTAMP(9) outside the years 1677 to 2262, say, or a DECIMAL of up to 18 digits that
    Java added up beyond them. They are null in ``values``, and a caller must not take them for SQL NULLs.
    """

    values: pa.Array
    unknown: Flags | None


def decode_rows(rows: pa.Array, types: Sequence[DataType], *, arity: bool, path: object = None) -> list[pa.Array]:
    """Every field of some rows.

    ``rows``: a binary (or large binary) array without nulls, one row per element. ``arity``: whether the rows begin
    with their number of fields (manifest form). ``path``: the file they come from, for messages.

    Returns:
        one array of `arrow_type(type)` per field.

    Raises:
        CorruptFileError: bytes that are not rows of these types, or a decimal of too many digits.
        UnsupportedError: a nested type, or a timestamp outside the range of its Arrow type.
    """
    reader = _Rows(rows, len(types), arity, path)
    columns = []
    for index, type_ in enumerate(types):
        column = reader.column(index, type_)
        if column.unknown is not None:
            if type_.kind is Kind.DECIMAL:
                raise CorruptFileError(f"field {index} of a row is no {type_}", path=path, field="decimal")
            raise UnsupportedError(
                f"a timestamp of type {type_} is outside the range of Arrow's {column.values.type}", path=path
            )
        columns.append(column.values)
    return columns


def decode_row(row: bytes, types: Sequence[DataType], *, path: object = None) -> tuple[Any, ...]:
    """The internal values of one row in manifest form.

    Raises:
        CorruptFileError: the bytes are not a row of these types.
        UnsupportedError: a nested type, or a timestamp outside the range of its Arrow type.
    """
    columns = decode_rows(array([row], pa.binary()), types, arity=True, path=path)
    return tuple(scalar_to_internal(column[0]) for column in columns)


def decode_column(rows: pa.Array, types: Sequence[DataType], index: int, *, arity: bool) -> DecodedColumn:
    """One field of some rows; arguments and errors as in `decode_rows`, but see `DecodedColumn` for unknown values."""
    return columns_of(rows, types, arity=arity)(index)


def columns_of(rows: pa.Array, types: Sequence[DataType], *, arity: bool) -> Callable[[int], DecodedColumn]:
    """What gives `decode_column` of rows for any field: the rows are checked once."""
    reader = _Rows(rows, len(types), arity, None)
    return lambda index: reader.column(index, types[index])


def arities(data: npt.NDArray[np.uint8], starts: Int64s) -> Int64s:
    """The number of fields that each row in manifest form begins with; all have its four bytes."""
    numbers: npt.NDArray[np.int32] = np.ndarray((max(data.size - 3, 0),), ">i4", buffer=data, strides=(1,))
    return numbers[starts].astype(np.int64)


class _Rows:
    """The fixed parts of many rows, checked to be there."""

    def __init__(self, rows: pa.Array, fields: int, arity: bool, path: object) -> None:
        self._path = path
        rows = one_array(rows)
        if rows.null_count:
            raise self._corrupt("a row is missing", "row")
        data, starts, ends = binary_parts(rows)
        self._data = data
        self._words = unaligned_words(data)
        head = 4 if arity else 0
        size = 8 * (header_words(fields) + fields)
        short = ends - starts < head + size
        if arity:
            self._check_arity(data, starts, ends, fields)
        if short.any():
            at = int(np.flatnonzero(short)[0])
            length = int(ends[at] - starts[at]) - head
            raise self._corrupt(f"row {at} has {length} bytes, {fields} fields take {size} at least", "row length")
        self._starts = starts + head
        self._lengths = ends - self._starts
        self._slots_at = 8 * header_words(fields)
        self.count = len(starts)

    def _corrupt(self, message: str, field: str) -> CorruptFileError:
        return CorruptFileError(message, path=self._path, field=field)

    def _check_arity(self, data: npt.NDArray[np.uint8], starts: Int64s, ends: Int64s, fields: int) -> None:
        if (ends - starts < 4).any():
            raise self._corrupt("a row is shorter than its arity", "arity")
        found = arities(data, starts)
        wrong = np.flatnonzero(found != fields)
        if len(wrong):
            at = int(wrong[0])
            raise self._corrupt(f"row {at} has {int(found[at])} fields where {fields} are expected", "arity")

    def column(self, index: int, type_: DataType) -> DecodedColumn:
        """Field ``index`` of every row."""
        form = form_of(type_)
        slot = self._words[self._starts + (self._slots_at + 8 * index)]
        byte, bit = divmod(index + 8, 8)
        valid: Flags | None = (self._data[self._starts + byte] & np.uint8(1 << bit)) == 0
        if valid is not None and valid.all():
            valid = None
        want = arrow_type(type_)
        match form:
            case Form.FIXED:
                if type_.kind is Kind.BOOLEAN:
                    flags = (slot & np.uint64(0xFF)) != 0
                    bits = pa.py_buffer(np.packbits(flags, bitorder="little"))
                    return DecodedColumn(build(want, bits, valid, self.count), None)
                return DecodedColumn(build(want, slot.astype(FIXED[type_.kind]), valid, self.count), None)
            case Form.MILLIS:
                return DecodedColumn(build(want, slot, valid, self.count), None)
            case Form.NANOS:
                return self._stamps(type_, slot, valid, index)
            case Form.DECIMAL:
                return self._small_decimals(type_, slot, valid)
            case Form.BIG_DECIMAL:
                return DecodedColumn(self._big_decimals(type_, slot, valid, index), None)
            case Form.BYTES:
                return DecodedColumn(self._texts(want, slot, valid, index), None)

    def _variable(self, slot: Words, valid: Flags | None, length: Int64s | int, index: int) -> Int64s:
        """The offsets of the variable parts in the data, checked to be inside of their rows; the row's start for
        nulls."""
        offset = (slot >> np.uint64(32)).astype(np.int64)
        wrong = offset + length > self._lengths
        if valid is not None:
            wrong &= valid
            offset = offset * valid
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise self._corrupt(
                f"field {index} of row {at} is at {int(offset[at])}, past its {int(self._lengths[at])} bytes",
                "variable part",
            )
        return self._starts + offset

    def _stamps(self, type_: DataType, slot: Words, valid: Flags | None, index: int) -> DecodedColumn:
        nanos = (slot & _LOW_32).astype(np.int64)
        bad = nanos > 999_999
        if valid is not None:
            bad &= valid
        if bad.any():
            raise self._corrupt(
                f"field {index} of a row has {int(nanos[bad][0])} ns in a millisecond", "nanoOfMillisecond"
            )
        millis = self._words[self._variable(slot, valid, 8, index)].view(np.int64)
        if timestamp_unit(type_) == "us":
            per_milli, part, spill = 1_000, nanos // 1_000, nanos % 1_000 != 0
        else:
            per_milli, part, spill = 1_000_000, nanos, np.zeros(len(nanos), np.bool_)
        # The product may wrap where the sum fits again: compare before multiplying.
        low, low_part = divmod(-(2**63), per_milli)
        high, high_part = divmod(2**63 - 1, per_milli)
        out_of_range = (millis < low) | (millis > high) | ((millis == low) & (part < low_part))
        out_of_range |= ((millis == high) & (part > high_part)) | spill
        if valid is not None:
            out_of_range &= valid
        values = millis * per_milli + part
        if not out_of_range.any():
            return DecodedColumn(build(arrow_type(type_), values, valid, self.count), None)
        valid = ~out_of_range if valid is None else valid & ~out_of_range
        return DecodedColumn(build(arrow_type(type_), values, valid, self.count), out_of_range)

    def _small_decimals(self, type_: DataType, slot: Words, valid: Flags | None) -> DecodedColumn:
        signed = slot.view(np.int64)
        limit = 10 ** arrow_type(type_).precision
        out_of_range = (signed >= limit) | (signed <= -limit)
        if valid is not None:
            out_of_range &= valid
        unknown = out_of_range if out_of_range.any() else None
        if unknown is not None:
            valid = ~unknown if valid is None else valid & ~unknown
        both = np.empty((self.count, 2), np.int64)
        both[:, 0] = signed
        both[:, 1] = signed >> 63
        return DecodedColumn(build(arrow_type(type_), both, valid, self.count), unknown)

    def _big_decimals(self, type_: DataType, slot: Words, valid: Flags | None, index: int) -> pa.Array:
        length = (slot & _LOW_32).astype(np.int64)
        wrong = (length < 1) | (length > 16)
        if valid is not None:
            wrong &= valid
            length = np.where(valid, length, 1)
        if wrong.any():
            raise self._corrupt(f"field {index} of a row takes {int(length[wrong][0])} bytes", "decimal length")
        starts = self._variable(slot, valid, length, index)
        negative = self._data[starts] >> 7 != 0
        # Big-endian and as short as possible → 16 bytes little-endian.
        out = np.empty((self.count, 16), np.uint8)
        for byte in range(16):
            inside = length > byte
            found = self._data[np.where(inside, starts + length - 1 - byte, starts)]
            out[:, byte] = np.where(inside, found, np.where(negative, 0xFF, 0))
        if valid is not None:
            out[~valid] = 0
        array = build(arrow_type(type_), out, valid, self.count)
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self._corrupt(f"field {index} of a row is no {type_}: {error}", "decimal") from error
        return array

    def _texts(self, want: pa.DataType, slot: Words, valid: Flags | None, index: int) -> pa.Array:
        inline = slot >> np.uint64(63) != 0
        length = np.where(inline, slot >> np.uint64(56) & np.uint64(0x7F), slot & _LOW_32).astype(np.int64)
        if valid is not None:
            length = length * valid
        if (length[inline] > 7).any():
            raise self._corrupt(f"field {index} of a row has {int(length[inline].max())} bytes inline", "inline length")
        where = np.where(inline, np.uint64(self._slots_at + 8 * index), slot >> np.uint64(32))
        starts = self._variable(where << np.uint64(32), valid, length, index)
        array = slices(self._data, starts, starts + length)
        if valid is not None:
            _, offsets, data = array.buffers()
            bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
            array = pa.Array.from_buffers(pa.binary(), self.count, [bits, offsets, data])
        if not pa.types.is_string(want):
            return array
        try:
            text = array.view(want)
            text.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self._corrupt(f"field {index} of a row is not UTF-8", "string") from error
        return text
