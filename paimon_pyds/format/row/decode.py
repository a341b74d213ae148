"""Rows of the format ``row`` at many places at once: each row has a cursor, and a step reads one value at all cursors.

A row is a bit for each column that is NULL, then the values of the others. Numbers and lengths of texts and lists are
LEB128 and little-endian. (Source: files of pypaimon 2.1 and pypaimon-rust 0.4.)
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, Octets, array, from_numpy, pc, slices, unaligned_words
from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    arrow_type,
    timestamp_unit,
)
from paimon_pyds.base.types.kinds import BINARY_KINDS, STRING_KINDS, TIMESTAMP_KINDS, UNITS_PER_SECOND
from paimon_pyds.base.types.nulls import VariantNulls
from paimon_pyds.base.types.vectors import stored_type
from paimon_pyds.base.varints import LONGER, unsigned_varints
from paimon_pyds.errors import CorruptFileError, UnsupportedError

PADDING = bytes(16)
"""Must follow the rows: numbers at the end are read with the word that they begin."""
FIXED = {
    Kind.BOOLEAN: "<u1", Kind.TINYINT: "<i1", Kind.SMALLINT: "<i2", Kind.INT: "<i4", Kind.BIGINT: "<i8",
    Kind.FLOAT: "<f4", Kind.DOUBLE: "<f8", Kind.DATE: "<i4", Kind.TIME: "<i4",
}  # fmt: skip
"""How values of one length are stored."""
LONG_DIGITS = 18
"""Digits of a decimal that is stored in 64 bits, at most."""
MILLI_NANOS = 1_000_000
"""Nanoseconds of a millisecond."""
_DECIMAL_BYTES = 16
"""Bytes of a decimal, at most."""


class RowDecoder:
    """Decodes values. ``data``: the rows, followed by `PADDING`. ``path``: of the file, for errors."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data: Octets = np.frombuffer(data, np.uint8)
        self._words = unaligned_words(self._data)
        self._path = path

    def rows(
        self,
        fields: Sequence[DataField],
        wanted: frozenset[str],
        at: Int64s,
        limit: Int64s,
        read: int | None = None,
    ) -> tuple[dict[str, pa.Array], Int64s]:
        """Columns of the rows that begin at some places, ascending, and where each row ends.

        ``limit``: the end of each row's place. ``read``: how many columns are read; the rows end later then.
        Raises CorruptFileError: the bytes are no such rows.
        """
        start, at = at, at + (len(fields) + 7) // 8
        self._check(at, limit)
        found: dict[str, pa.Array] = {}
        for number, field in enumerate(fields[:read]):
            there = self._data[start + number // 8] >> np.uint8(number % 8) & 1 == 0
            present = np.flatnonzero(there)
            values, at[present] = self.values(field.type, at[present], limit[present])
            if field.name in wanted:
                found[field.name] = _spread(values, there)
        return found, at

    def values(self, type_: DataType, at: Int64s, limit: Int64s) -> tuple[pa.Array, Int64s]:
        """A value at each cursor, and the cursors after them. VECTOR is given as the ARRAY of its elements."""
        match type_:
            case VectorType():
                return self._vectors(type_, at, limit)
            case ArrayType():
                return self._list(arrow_type(stored_type(type_)), type_.element, at, limit)
            case MapType():
                return self._map(arrow_type(stored_type(type_)), type_.key, type_.value, at, limit)
            case MultisetType():
                return self._map(arrow_type(type_), type_.element, AtomicType(Kind.INT, nullable=False), at, limit)
            case VariantNulls():
                _, at = self._spans(at, limit)
                _, at = self._spans(at, limit)
                return pa.Array.from_buffers(arrow_type(type_), len(at), [None], children=[]), at
            case RowType():
                names = frozenset(field.name for field in type_.fields)
                columns, at = self.rows(type_.fields, names, at, limit)
                wanted = arrow_type(stored_type(type_))
                if not columns:
                    return pa.Array.from_buffers(wanted, len(at), [None], children=[]), at
                return pa.StructArray.from_arrays([*columns.values()], fields=list(wanted)), at
            case AtomicType():
                return self._atomic(type_, at, limit)
        raise self._unread(type_)

    def _atomic(self, type_: AtomicType, at: Int64s, limit: Int64s) -> tuple[pa.Array, Int64s]:
        kind = type_.kind
        if kind in FIXED:
            return self._fixed(type_, at, limit)
        if kind is Kind.DECIMAL:
            return self._decimals(type_, at, limit)
        if kind in TIMESTAMP_KINDS:
            return self._timestamps(type_, at, limit)
        if kind in BINARY_KINDS or kind in STRING_KINDS:
            return self._texts(type_, at, limit)
        if kind is Kind.VARIANT:
            value, at = self._bytes(at, limit)
            metadata, end = self._bytes(at, limit)
            named, parts = {"value": value, "metadata": metadata}, list(arrow_type(type_))
            return pa.StructArray.from_arrays([named[part.name] for part in parts], fields=parts), end
        raise self._unread(type_)

    def _unread(self, type_: DataType) -> UnsupportedError:
        told = f"columns of type {type_.name} are not read from files of the format row"
        return UnsupportedError(told, path=self._path, feature="row-files")

    def _check(self, end: Int64s, limit: Int64s) -> None:
        if (end > limit).any():
            raise CorruptFileError("a value goes beyond its row", path=self._path, field="row")

    def _numbers(self, dtype: str, at: Int64s) -> npt.NDArray[Any]:
        width = np.dtype(dtype).itemsize
        found: npt.NDArray[Any] = self._data[at[:, None] + np.arange(width)].view(dtype).ravel()
        return found

    def _fixed(self, type_: AtomicType, at: Int64s, limit: Int64s) -> tuple[pa.Array, Int64s]:
        dtype = FIXED[type_.kind]
        end = at + np.dtype(dtype).itemsize
        self._check(end, limit)
        return _fixed_array(type_, self._numbers(dtype, at)), end

    def _varints(self, at: Int64s, limit: Int64s) -> tuple[Int64s, Int64s]:
        self._check(at + 1, limit)
        numbers, sizes = unsigned_varints(self._words[at])
        if (sizes == LONGER).any():
            raise CorruptFileError("a number has more than 56 bits", path=self._path, field="varint")
        end = at + sizes
        self._check(end, limit)
        return numbers.astype(np.int64), end

    def _spans(self, at: Int64s, limit: Int64s) -> tuple[Int64s, Int64s]:
        lengths, start = self._varints(at, limit)
        if (lengths > limit - start).any():
            raise CorruptFileError("a text or a number is longer than its row", path=self._path, field="length")
        return start, start + lengths

    def _bytes(self, at: Int64s, limit: Int64s) -> tuple[pa.Array, Int64s]:
        start, end = self._spans(at, limit)
        return slices(self._data, start, end), end

    def _texts(self, type_: AtomicType, at: Int64s, limit: Int64s) -> tuple[pa.Array, Int64s]:
        found, end = self._bytes(at, limit)
        try:
            return found.cast(arrow_type(type_)), end
        except pa.ArrowInvalid as error:
            raise CorruptFileError("a text is not UTF-8", path=self._path, field="text") from error

    def _decimals(self, type_: AtomicType, at: Int64s, limit: Int64s) -> tuple[pa.Array, Int64s]:
        parts = np.empty((len(at), 2), "<i8")
        if (type_.precision or 0) <= LONG_DIGITS:
            end = at + 8
            self._check(end, limit)
            parts[:, 0] = self._numbers("<i8", at)
            parts[:, 1] = parts[:, 0] >> 63
        else:
            start, end = self._spans(at, limit)
            if ((end == start) | (end - start > _DECIMAL_BYTES)).any():
                raise CorruptFileError("a decimal has no byte, or more than 16", path=self._path, field="decimal")
            places = end[:, None] - 1 - np.arange(_DECIMAL_BYTES)  # the lowest byte comes last
            negative = self._data[start] >= 0x80
            filled = np.where(negative, 0xFF, 0).astype(np.uint8)[:, None]
            parts = np.where(places >= start[:, None], self._data[np.maximum(places, 0)], filled).view("<i8")
        buffers = [None, pa.py_buffer(np.ascontiguousarray(parts))]
        found = pa.Array.from_buffers(arrow_type(type_), len(at), buffers)
        most = Decimal(10) ** ((type_.precision or 0) - (type_.scale or 0))
        if any(value is not None and not -most < value < most for value in pc.min_max(found).as_py().values()):
            raise CorruptFileError(f"a decimal has more digits than {type_}", path=self._path, field="decimal")
        return found, end

    def _timestamps(self, type_: AtomicType, at: Int64s, limit: Int64s) -> tuple[pa.Array, Int64s]:
        end = at + 8
        self._check(end, limit)
        millis = self._numbers("<i8", at).astype(np.int64)
        wanted = arrow_type(type_)
        if (type_.precision or 0) <= 3:
            return array(millis, pa.int64()).view(wanted), end
        nanos, end = self._varints(end, limit)
        if (nanos >= MILLI_NANOS).any():
            raise CorruptFileError("more nanoseconds than a millisecond has", path=self._path, field="timestamp")
        per_milli = UNITS_PER_SECOND[timestamp_unit(type_)] // 1000
        most = 2**63 // per_milli - 1
        if ((millis > most) | (millis < -most)).any():
            raise UnsupportedError(f"a timestamp is outside the range of {wanted}", path=self._path)
        counts = millis * per_milli + nanos // (MILLI_NANOS // per_milli)
        return array(counts, pa.int64()).view(wanted), end

    def _vectors(self, type_: VectorType, at: Int64s, limit: Int64s) -> tuple[pa.Array, Int64s]:
        """The elements follow their number, and no element is NULL."""
        counts, at = self._varints(at, limit)
        if (counts != type_.length).any():
            raise CorruptFileError(f"a vector has not {type_.length} elements", path=self._path, field="count")
        assert isinstance(type_.element, AtomicType)
        dtype = np.dtype(FIXED[type_.element.kind])
        end = at + type_.length * dtype.itemsize
        self._check(end, limit)
        places = (at[:, None] + np.arange(type_.length) * dtype.itemsize).ravel()
        elements = _fixed_array(type_.element, self._numbers(dtype.str, places))
        wanted = arrow_type(stored_type(type_))
        return pa.Array.from_buffers(wanted, len(at), [None, _offsets(counts)], children=[elements]), end

    def _list(self, wanted: pa.DataType, element: DataType, at: Int64s, limit: Int64s) -> tuple[pa.Array, Int64s]:
        counts, elements, end = self._elements(element, at, limit)
        return pa.Array.from_buffers(wanted, len(at), [None, _offsets(counts)], children=[elements]), end

    def _map(
        self, wanted: pa.DataType, key: DataType, value: DataType, at: Int64s, limit: Int64s
    ) -> tuple[pa.Array, Int64s]:
        counts, keys, at = self._elements(key, at, limit)
        others, values, end = self._elements(value, at, limit)
        if (counts != others).any() or keys.null_count:
            raise CorruptFileError("a map has not as many keys as values", path=self._path, field="map")
        entries = pa.StructArray.from_arrays([keys, values], fields=[wanted.key_field, wanted.item_field])
        return pa.Array.from_buffers(wanted, len(at), [None, _offsets(counts)], children=[entries]), end

    def _elements(self, type_: DataType, at: Int64s, limit: Int64s) -> tuple[Int64s, pa.Array, Int64s]:
        """How many elements the list at each cursor has, those of all lists, and the cursors after them."""
        counts, at = self._varints(at, limit)
        if (counts > 8 * (limit - at)).any():
            raise CorruptFileError("a list is longer than its row", path=self._path, field="count")
        before = np.cumsum(counts) - counts
        of_list = np.repeat(np.arange(len(at)), counts)
        numbers = np.arange(len(of_list)) - before[of_list]
        start, at = at, at + (counts + 7) // 8
        self._check(at, limit)
        octets = self._data[start[of_list] + numbers // 8]
        there = octets >> (numbers % 8).astype(np.uint8) & 1 == 0
        of_present = of_list[there]
        present = np.bincount(of_present, minlength=len(at)).astype(np.int64)
        rank = np.arange(len(of_present)) - (np.cumsum(present) - present)[of_present]
        if isinstance(type_, AtomicType) and type_.kind in FIXED:
            dtype = FIXED[type_.kind]
            width = np.dtype(dtype).itemsize
            places = at[of_present] + rank * width
            at = at + present * width
            self._check(at, limit)
            values = _fixed_array(type_, self._numbers(dtype, places))
        else:
            values, at = self._one_by_one(type_, at, limit, present)
        return counts, _spread(values, there), at

    def _one_by_one(self, type_: DataType, at: Int64s, limit: Int64s, counts: Int64s) -> tuple[pa.Array, Int64s]:
        """The elements of lists: the first ones of all lists, then the second ones, and so on."""
        at = at.copy()
        before = np.cumsum(counts) - counts
        parts: list[pa.Array] = [pa.nulls(0, arrow_type(type_))]
        places: list[Int64s] = []
        for step in range(int(counts.max(initial=0))):
            lists = np.flatnonzero(counts > step)
            values, at[lists] = self.values(type_, at[lists], limit[lists])
            parts.append(values)
            places.append(before[lists] + step)
        if not places:
            return parts[0], at
        return pa.concat_arrays(parts).take(from_numpy(np.argsort(np.concatenate(places)))), at


def _fixed_array(type_: AtomicType, numbers: npt.NDArray[Any]) -> pa.Array:
    wanted = arrow_type(type_)
    if type_.kind is Kind.BOOLEAN:
        return array(numbers != 0, wanted)
    return pa.Array.from_buffers(wanted, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _spread(values: pa.Array, there: Flags) -> pa.Array:
    """The values where they are there, NULL elsewhere."""
    if there.all():
        return values
    return values.take(array(np.cumsum(there) - 1, mask=~there)) if len(values) else pa.nulls(len(there), values.type)


def _offsets(counts: Int64s) -> pa.Buffer:
    return pa.py_buffer(np.append(0, np.cumsum(counts)).astype(np.int32))
