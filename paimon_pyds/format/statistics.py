"""Column statistics of one data file: minimum, maximum and number of NULLs, as manifests store them.

Sources: Paimon documentation (concepts/spec/manifest, Data File, ``_VALUE_STATS`` and ``_VALUE_STATS_COLS``; options
``metadata.stats-mode``, ``metadata.stats-dense-store``, ``metadata.stats-keep-first-n-columns`` and
``fields.<c>.stats-mode``) and the statistics that Java Paimon 1.4 writes for Parquet, ORC and Avro files.

As in Java, strings are cut by characters, the cut maximum is raised to the next character; BINARY and BYTES have no
bounds; nested columns have no statistics in Parquet, and NULL counts only in ORC and Avro; TIMESTAMP(7..9) has no
bounds in Parquet (INT96); NaN is the greatest float. A bound that is a zero is widened to cover both zeros, because
Spark SQL holds -0.0 and 0.0 for equal and Java holds them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, from_numpy, is_true, pc, to_numpy
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import EMPTY_ROW, encode_row, encode_rows
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.types import AtomicType, DataField, DataType, arrow_type, is_system_name, scalar_to_internal
from paimon_pyds.base.types.kinds import BINARY_KINDS, TIMESTAMP_KINDS, UNORDERED_KINDS, Kind
from paimon_pyds.errors import OptionError, SchemaError
from paimon_pyds.format import TRAITS, FormatTraits

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import KnownValues

KEY_STATS_EMPTY = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
"""The key statistics of every file of a table without primary key."""

_DEFAULT_MODE = "truncate(16)"
_SYSTEM_MODE = "truncate(128)"
_TRUNCATE = re.compile(r"TRUNCATE\((\d+)\)", re.ASCII)
_MAX_CODE_POINT = 0x10FFFF
_NUMBERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
"""By bits of a value: what numbers, days and times compare as."""
FEW_VALUES = 16_384
"""Whole numbers below which numpy's two passes take less time than pyarrow's call."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one column.

    ``minimum`` and ``maximum`` are internal values of its type, both None when unknown or when every value is NULL;
    ``null_count`` is None when it was not counted.
    """

    field: DataField
    minimum: Any
    maximum: Any
    null_count: int | None

    @property
    def is_none(self) -> bool:
        """Nothing is known of the column."""
        return self.minimum is None and self.maximum is None and self.null_count is None


def _parse_mode(text: str, option: str = "metadata.stats-mode") -> tuple[str, int]:
    """``none``, ``counts``, ``full`` or ``truncate(n)`` as (name in lower case, n or 0). Raises OptionError."""
    upper = text.strip().upper()
    if upper in ("NONE", "COUNTS", "FULL"):
        return upper.lower(), 0
    match = _TRUNCATE.fullmatch(upper)
    if match is None or int(match[1]) < 1:
        raise OptionError(
            f"{option} = {text!r} is not a statistics mode", hint="use none, counts, full, or truncate(n) with n ≥ 1"
        )
    return "truncate", int(match[1])


def stats_modes(fields: Sequence[DataField], options: Mapping[str, str]) -> tuple[str, ...]:
    """The statistics mode of each column, from the table's options.

    ``fields.<c>.stats-mode`` wins; the columns after the first ``metadata.stats-keep-first-n-columns`` have none; the
    rest have ``metadata.stats-mode``. Columns that Paimon itself adds to files of primary-key tables always have them.
    Raises OptionError: a mode or number that does not parse.
    """
    default = options.get("metadata.stats-mode", _DEFAULT_MODE)
    _parse_mode(default)
    text = options.get("metadata.stats-keep-first-n-columns", "-1")
    try:
        keep = int(text)
    except ValueError:
        raise OptionError(f"metadata.stats-keep-first-n-columns = {text!r} is not a whole number") from None
    modes, counted = [], 0
    for field in fields:
        option = f"fields.{field.name}.stats-mode"
        own = options.get(option)
        if own is not None:
            _parse_mode(own, option)
            modes.append(own)
        elif is_system_name(field.name):
            modes.append(_SYSTEM_MODE)
            continue
        else:
            modes.append("none" if 0 <= keep <= counted else default)
        counted += 1
    return tuple(modes)


def truncate_max(text: str, length: int) -> str | None:
    """An upper bound of the text with at most ``length`` characters, or None if no such text exists.

    The last character that can be raised is raised to the next one; surrogates are not characters and are skipped.
    """
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        code = ord(text[end - 1])
        if code < _MAX_CODE_POINT:
            following = 0xE000 if code == 0xD7FF else code + 1
            return text[: end - 1] + chr(following)
    return None


class _Column:
    def __init__(self, field: DataField, mode: str, file_format: str) -> None:
        name, self.length = _parse_mode(mode, f"fields.{field.name}.stats-mode")
        kind = field.type.kind
        nested = kind in UNORDERED_KINDS
        self.field = field
        traits = TRAITS[file_format]
        self.counts = name != "none" and (traits.counts_nested or not nested)
        self.bounds = self.counts and name != "counts" and _has_bounds(field.type, traits)
        self.minimum: Any = None
        self.maximum: Any = None
        self.nan = False
        self.nulls = 0
        self._dictionary: pa.Array | None = None
        self._used: Flags = np.zeros(0, np.bool_)

    def update(self, array: pa.Array) -> None:
        if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
            array = array.cast(array.type.value_type)
        self.nulls += array.null_count
        if not self.bounds or array.null_count == len(array):
            return
        if pa.types.is_dictionary(array.type):
            self._note_used(array)
        else:
            self._widen(array)

    def _note_used(self, array: pa.DictionaryArray) -> None:
        """Note which entries of the dictionary occur; batches mostly share one, so that its bounds are found once."""
        dictionary = array.dictionary
        if self._dictionary is None or not _same_memory(self._dictionary, dictionary):
            self._widen_by_used()
            self._dictionary, self._used = dictionary, np.zeros(len(dictionary), np.bool_)
        indices = array.indices
        self._used[to_numpy(indices.drop_null() if indices.null_count else indices)] = True

    def _widen_by_used(self) -> None:
        if self._dictionary is not None:
            entries = self._dictionary if self._used.all() else self._dictionary.filter(from_numpy(self._used))
            self._dictionary = None
            self._widen(entries)

    def _widen(self, array: pa.Array) -> None:
        if pa.types.is_floating(array.type):
            low, high, nan = _float_bounds(array)
            self.nan |= nan
        elif pa.types.is_integer(array.type) and not array.null_count and 0 < len(array) < FEW_VALUES:
            values = to_numpy(array)
            low, high = int(values.min()), int(values.max())
        else:
            both = pc.min_max(array)
            try:
                low, high = scalar_to_internal(both["min"]), scalar_to_internal(both["max"])
            except UnicodeDecodeError:
                raise _not_utf8(self.field) from None
        if low is None:
            return
        # Internal values compare as the columns do; text by code points, which is the order of its UTF-8 bytes.
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)

    def of_parts(self, array: pa.Array, starts: Int64s) -> tuple[pa.Array, pa.Array, Sequence[int | None]]:
        """The least and the greatest value and the number of NULLs of each part of an array."""
        count = len(starts)
        if not self.counts:
            return (*(pa.nulls(count, _bounds_type(self.field.type)),) * 2, [None] * count)
        nulls = [0] * count
        if array.null_count:
            nulls = np.add.reduceat(is_true(array.is_null()).astype(np.int64), starts).tolist()
        if not self.bounds or array.null_count == len(array):
            return (*(pa.nulls(count, _bounds_type(self.field.type)),) * 2, nulls)
        parts = np.arange(count)
        if array.null_count:
            rows = np.flatnonzero(is_true(array.is_valid()))
            of_rows = np.searchsorted(starts, rows, "right") - 1
            starts = np.flatnonzero(np.diff(of_rows, prepend=-1))
            parts, array = of_rows[starts], array.drop_null()
        low, high = _bounds_of_parts(array, starts)
        if isinstance(low, pa.StringArray):
            low, high = self._shortened_texts(low, high)
        if len(parts) < count:
            places = np.full(count, len(parts))
            places[parts] = np.arange(len(parts))
            indices = arrow_array(places, mask=places == len(parts))
            low, high = low.take(indices), high.take(indices)
        return low, high, nulls

    def _shortened_texts(self, low: pa.StringArray, high: pa.StringArray) -> tuple[pa.Array, pa.Array]:
        try:
            texts = zip(low.to_pylist(), high.to_pylist(), strict=True)
        except UnicodeDecodeError:
            raise _not_utf8(self.field) from None
        pairs = [_shortened(*pair, self.length) for pair in texts]
        return tuple(arrow_array([pair[i] for pair in pairs], low.type) for i in range(2))

    def finish(self) -> ColumnStats:
        if not self.counts:
            return ColumnStats(self.field, None, None, None)
        self._widen_by_used()
        low, high = self.minimum, self.maximum
        if self.field.type.kind in (Kind.FLOAT, Kind.DOUBLE):
            if self.nan:
                high = float("nan")
                low = high if low is None else low
            low, high = (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
        return ColumnStats(self.field, *_shortened(low, high, self.length), self.nulls)


def _not_utf8(field: DataField) -> SchemaError:
    return SchemaError(f"column {field.name!r} holds a text that is not UTF-8", hint="write it as BINARY")


def _bounds_of_parts(values: pa.Array, starts: Int64s) -> tuple[pa.Array, pa.Array]:
    """The least and the greatest value of each part, NaN the greatest, zeros widened; no value is NULL."""
    type_ = values.type
    if pa.types.is_floating(type_):
        numbers = to_numpy(values)
        with np.errstate(invalid="ignore"):
            low, high = np.fmin.reduceat(numbers, starts), np.maximum.reduceat(numbers, starts)
        low[low == 0], high[high == 0] = -0.0, 0.0
        low[np.isnan(low)], high[np.isnan(high)] = np.nan, np.nan  # the one that Java has, whatever the bits were
        return from_numpy(low), from_numpy(high)
    plain = _NUMBERS.get(type_.bit_width) if pa.types.is_primitive(type_) else None
    if plain is not None or pa.types.is_boolean(type_):
        numbers = to_numpy(values.view(plain or type_))
        bounds = (from_numpy(each.reduceat(numbers, starts)) for each in (np.minimum, np.maximum))
        return tuple(bound.view(type_) for bound in bounds)
    part = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
    rows = pa.RecordBatch.from_arrays([from_numpy(part), values], names=["part", "value"])
    order = to_numpy(pc.sort_indices(rows, sort_keys=[("part", "ascending"), ("value", "ascending")]))
    ends = np.append(starts[1:], len(values)) - 1
    return values.take(from_numpy(order[starts])), values.take(from_numpy(order[ends]))


def _shortened(low: Any, high: Any, length: int) -> tuple[Any, Any]:
    """Bounds as a mode stores them: texts of at most ``length`` characters; 0 is no limit."""
    if not length or not isinstance(low, str) or not isinstance(high, str):
        return low, high
    high = truncate_max(high, length)
    return None if high is None else low[:length], high


def measured(stats: ColumnStats, mode: str, file_format: str) -> ColumnStats:
    """The part of exact statistics that a mode retains in files of this format. Raises OptionError: no mode."""
    name, length = _parse_mode(mode)
    if name == "none":
        return ColumnStats(stats.field, None, None, None)
    if name == "counts" or not _has_bounds(stats.field.type, TRAITS[file_format]):
        return ColumnStats(stats.field, None, None, stats.null_count)
    low, high = _shortened(stats.minimum, stats.maximum, length)
    return ColumnStats(stats.field, low, high, stats.null_count)


def _has_bounds(type_: DataType, traits: FormatTraits) -> bool:
    if type_.kind in BINARY_KINDS or type_.kind in UNORDERED_KINDS:
        return False
    if type_.kind in TIMESTAMP_KINDS and isinstance(type_, AtomicType):
        return (type_.precision or 0) <= traits.bounds_digits
    return True


def _same_memory(a: pa.Array, b: pa.Array) -> bool:
    if len(a) != len(b) or a.offset != b.offset:
        return False
    ours, theirs = ([None if x is None else x.address for x in array.buffers()] for array in (a, b))
    return ours == theirs


def _float_bounds(array: pa.Array) -> tuple[float | None, float | None, bool]:
    """Least and greatest value that are not NaN (None when all are), and whether there is a NaN.

    numpy's min and max are several times faster than pyarrow's on floats and turn to NaN when there is one.
    """
    if array.null_count == 0:
        values = to_numpy(array)
        low = values.min()
        if not np.isnan(low):
            return float(low), float(values.max()), False
        nan = True
    else:
        nan = bool(pc.any(pc.is_nan(array)).as_py())
    if nan:
        array = array.filter(pc.invert(pc.is_nan(array)))
    both = pc.min_max(array)
    return both["min"].as_py(), both["max"].as_py(), nan


class StatsCollector:
    """Collects the statistics of one data file, batch by batch.

    ``fields``: the file's columns. ``modes``: the mode of each (`stats_modes`). ``file_format``: parquet, orc or avro;
    see the module's text for what differs.
    Raises OptionError: a mode that does not parse.
    """

    def __init__(self, fields: Sequence[DataField], modes: Sequence[str], file_format: str = "parquet") -> None:
        if len(fields) != len(modes):
            raise SchemaError(f"{len(fields)} columns and {len(modes)} statistics modes")
        self._columns = [_Column(f, m, file_format) for f, m in zip(fields, modes, strict=True)]

    def update(self, batch: pa.RecordBatch) -> None:
        """Take a batch of rows in: columns as in ``fields``, in that order; dictionary arrays are welcome."""
        if batch.num_columns != len(self._columns):
            raise SchemaError(f"{batch.num_columns} columns where {len(self._columns)} were announced")
        for column, array in zip(self._columns, batch.columns, strict=True):
            if column.counts:
                column.update(array)

    def update_known(self, known: KnownValues) -> None:
        """Take in what is known of rows."""
        for column, parts in zip(self._columns, known, strict=True):
            for values, nulls in parts:
                if column.counts:
                    column.update(values)
                    column.nulls += nulls

    def finish(self) -> list[ColumnStats]:
        """The statistics of each column, over all batches."""
        return [column.finish() for column in self._columns]

    def of_parts(
        self, batch: pa.RecordBatch, starts: Int64s, *, dense: bool = True
    ) -> tuple[list[SimpleStats], tuple[str, ...] | None]:
        """What `encode_stats` would give of each part of a batch, and the columns that it names for all of them.

        ``starts``: the row where each part begins; 0 first, no part is empty. ``dense``: as of `encode_stats`.
        """
        columns = [(c, array) for c, array in zip(self._columns, batch.columns, strict=True) if c.counts or not dense]
        names = tuple(c.field.name for c, _ in columns) if len(columns) < len(self._columns) else None
        if not columns:
            return [KEY_STATS_EMPTY] * len(starts), names
        lows, highs, nulls = zip(*(c.of_parts(array, starts) for c, array in columns), strict=True)
        types = _stored_types(c.field for c, _ in columns)
        rows = (encode_rows(bounds, types, arity=True).to_pylist() for bounds in (lows, highs))
        return [SimpleStats(*each) for each in zip(*rows, zip(*nulls, strict=True), strict=True)], names


def encode_stats(columns: Sequence[ColumnStats], *, dense: bool = True) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """The manifest form: (``_VALUE_STATS``, ``_VALUE_STATS_COLS``).

    ``dense`` leaves out the columns without statistics and names the others, or gives None if all have statistics;
    otherwise all columns are stored, unknown ones with null for everything.
    """
    kept = [c for c in columns if not (dense and c.is_none)]
    types = _stored_types(c.field for c in kept)
    encoded = SimpleStats(
        encode_row([c.minimum for c in kept], types),
        encode_row([c.maximum for c in kept], types),
        tuple(c.null_count for c in kept),
    )
    names = tuple(c.field.name for c in kept)
    return encoded, names if dense and len(kept) < len(columns) else None


def _stored_types(fields: Iterable[DataField]) -> list[DataType]:
    """The types of the rows that statistics are stored as. Nested columns have no bounds: their field is always NULL,
    which looks the same for every type."""
    types = (field.type for field in fields)
    return [AtomicType(Kind.BIGINT) if t.kind in UNORDERED_KINDS else t.with_nullable(True) for t in types]


def _bounds_type(type_: DataType) -> pa.DataType:
    return arrow_type(_stored_types([DataField(0, "bound", type_)])[0])
