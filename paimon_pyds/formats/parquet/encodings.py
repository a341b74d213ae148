"""Which encoding each column gets, decided on a sample of the first row group.

Reading one row costs a page, and the column chunk's dictionary if it has one: a dictionary is worth its bytes only
while it is small. Integers that go up, or move in a narrow range, are written as packed differences: they cost a
third of the time and a fraction of the bytes of plain ones. Java Paimon 1.4.2 reads PLAIN, RLE_DICTIONARY and
DELTA_BINARY_PACKED; it refuses BYTE_STREAM_SPLIT and returns wrong rows for DELTA_LENGTH_BYTE_ARRAY, so nothing else
is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["DICTIONARY_LIMIT", "Encodings", "choose_encodings", "leaf_paths"]

DICTIONARY_LIMIT = 128 << 10
"""Bytes at which a growing dictionary is given up for plain pages."""
_DICTIONARY_BYTES = 64 << 10
_SAMPLE_RUNS = 4
_SAMPLE_RUN_ROWS = 8_192
_LEAST_REPETITION = 4
_DELTA_GAIN = 0.75
_MINIBLOCK = 32


@dataclass(frozen=True, slots=True)
class Encodings:
    """Paths of the leaves with a dictionary, of those written as packed differences, and the widest value's mean
    bytes."""

    dictionary: list[str]
    delta: list[str]
    widest: float


def choose_encodings(table: pa.Table, *, dictionary: bool, packable: Callable[[pa.DataType], bool]) -> Encodings:
    """Encodings for the columns of a table that is like the rest of the file.

    Args:
        table: rows of the first row group.
        dictionary: whether dictionaries are allowed (``parquet.enable.dictionary``).
        packable: whether columns of a type may be written as packed differences: they are stored as INT32 or INT64.
    """
    with_dictionary: list[str] = []
    delta: list[str] = []
    widest = 1.0
    sample = _sample(table)
    for column, values in zip(sample.schema, sample.columns, strict=True):
        rows = max(1, len(values))
        widest = max(widest, values.nbytes / rows)
        if pa.types.is_nested(column.type):
            if dictionary:
                with_dictionary.extend(leaf_paths(column.name, column.type))
            continue
        choice = _choose(values.combine_chunks(), dictionary=dictionary, packable=packable(column.type))
        if choice == "dictionary":
            with_dictionary.append(column.name)
        elif choice == "delta":
            delta.append(column.name)
    return Encodings(with_dictionary, delta, widest)


def leaf_paths(name: str, type_: pa.DataType) -> Iterator[str]:
    """Dotted paths of the leaves under a column, as Parquet names lists and maps."""
    if pa.types.is_struct(type_):
        for i in range(type_.num_fields):
            yield from leaf_paths(f"{name}.{type_.field(i).name}", type_.field(i).type)
    elif pa.types.is_map(type_):
        yield from leaf_paths(f"{name}.key_value.key", type_.key_type)
        yield from leaf_paths(f"{name}.key_value.value", type_.item_type)
    elif pa.types.is_list(type_):
        yield from leaf_paths(f"{name}.list.element", type_.value_type)
    else:
        yield name


def _sample(table: pa.Table) -> pa.Table:
    """A few runs of neighbouring rows from all over the table: differences need neighbours."""
    rows = table.num_rows
    if rows <= _SAMPLE_RUNS * _SAMPLE_RUN_ROWS:
        return table
    step = (rows - _SAMPLE_RUN_ROWS) // (_SAMPLE_RUNS - 1)
    return pa.concat_tables([table.slice(i * step, _SAMPLE_RUN_ROWS) for i in range(_SAMPLE_RUNS)])


def _choose(values: pa.Array, *, dictionary: bool, packable: bool) -> str:
    type_ = values.type
    count = len(values) - values.null_count
    if not count or pa.types.is_boolean(type_):
        return "plain"
    packed = _packed_bits(values) if packable else None
    if dictionary:
        distinct = pc.count_distinct(values, mode="only_valid").as_py()
        width = values.nbytes / len(values)
        # A dictionary of a single use per value only repeats the column.
        if distinct * _LEAST_REPETITION <= count and distinct * width <= _DICTIONARY_BYTES:
            index_bits = max(1, (distinct - 1).bit_length())
            if packed is None or index_bits <= packed:
                return "dictionary"
    if packed is not None and packed <= _DELTA_GAIN * 8 * _stored_width(type_):
        return "delta"
    return "plain"


def _stored_width(type_: pa.DataType) -> int:
    """Bytes of a plain value in the file: small integers are stored as INT32."""
    if pa.types.is_decimal(type_):
        return 4 if type_.precision <= 9 else 8
    return max(4, int(type_.bit_width) // 8)


def _packed_bits(values: pa.Array) -> float | None:
    """Bits per value as packed differences; None when there are too few to tell."""
    numbers = _numbers(values.drop_null() if values.null_count else values)
    if len(numbers) < 2:
        return None
    usable = (len(numbers) - 1) // _MINIBLOCK * _MINIBLOCK
    steps = np.diff(numbers.view(np.uint64)).view(np.int64)  # wraps around, as the encoding does
    if not usable:
        spans = np.array([_span(steps)], np.float64)
    else:
        blocks = steps[:usable].reshape(-1, _MINIBLOCK)
        spans = blocks.max(axis=1).astype(np.float64) - blocks.min(axis=1).astype(np.float64)
    return float(np.ceil(np.log2(spans + 1)).mean())


def _span(steps: npt.NDArray[np.int64]) -> float:
    return float(steps.max()) - float(steps.min())


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    """The integers that stand for the values of a packable column."""
    type_ = values.type
    if pa.types.is_decimal(type_):  # the lower half of each 128-bit number
        words = np.frombuffer(values.buffers()[1], np.int64)
        return words[2 * values.offset : 2 * (values.offset + len(values)) : 2].copy()
    if pa.types.is_timestamp(type_):
        return np.asarray(values.view(pa.int64()))
    if not pa.types.is_integer(type_):
        values = values.view(pa.int32())
    return np.asarray(values).astype(np.int64)
