"""Which encoding each column gets, and whether it is compressed, decided on a sample of the first row group.

Reading one row costs a page, and the column chunk's dictionary if it has one: a dictionary is worth its bytes only
while it is small. Everything else is PLAIN: Java Paimon 1.4.2 refuses BYTE_STREAM_SPLIT, returns wrong rows for
DELTA_LENGTH_BYTE_ARRAY, and wrong values for DELTA_BINARY_PACKED where it skips rows by an index. It finds no DECIMAL
of more than 18 digits by ``=`` where it asks a dictionary: there it looks for the literal's shortest bytes.

Numbers that compression hardly shortens, measured floats mostly, are stored as they are: undoing 94 % of the bytes took
a sixth of the time of a read that has to look into every page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["DICTIONARY_LIMIT", "Encodings", "choose_encodings", "leaf_paths"]

DICTIONARY_LIMIT = 128 << 10
"""Bytes at which a growing dictionary is given up for plain pages."""
_DICTIONARY_BYTES = 64 << 10
_SAMPLE_RUNS = 4
_SAMPLE_RUN_ROWS = 8_192
_LEAST_REPETITION = 4
_LONG_DIGITS = 18
_AS_IN_ARROW = frozenset({pa.int32(), pa.int64(), pa.float32(), pa.float64()})
_SAMPLE_BYTES = 128 << 10
_LEAST_SAVED = 0.1
"""Of a column's bytes, for compressing it to pay."""


@dataclass(frozen=True, slots=True)
class Encodings:
    """Paths of the leaves with a dictionary, flat columns that compression hardly shortens, and the mean bytes of the
    widest column's values."""

    dictionary: list[str]
    dense: frozenset[str]
    widest: float


def choose_encodings(table: pa.Table, *, dictionary: bool, find_dense: bool = True) -> Encodings:
    """Encodings for the columns of a table that is like the rest of the file.

    Args:
        table: rows of the first row group.
        dictionary: whether dictionaries are allowed (``parquet.enable.dictionary``).
        find_dense: whether to look for columns that compression hardly shortens.
    """
    with_dictionary: list[str] = []
    dense: set[str] = set()
    widest = 1.0
    sample = _sample(table)
    for column, values in zip(sample.schema, sample.columns, strict=True):
        rows = max(1, len(values))
        widest = max(widest, values.nbytes / rows)
        if pa.types.is_nested(column.type):
            if dictionary:
                with_dictionary.extend(leaf_paths(column.name, column.type))
            continue
        values = values.combine_chunks()
        if dictionary and _repeats(values):
            with_dictionary.append(column.name)
        elif find_dense and _dense(values):
            dense.add(column.name)
    return Encodings(with_dictionary, frozenset(dense), widest)


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
    """A few runs of rows from all over the table."""
    rows = table.num_rows
    if rows <= _SAMPLE_RUNS * _SAMPLE_RUN_ROWS:
        return table
    step = (rows - _SAMPLE_RUN_ROWS) // (_SAMPLE_RUNS - 1)
    return pa.concat_tables([table.slice(i * step, _SAMPLE_RUN_ROWS) for i in range(_SAMPLE_RUNS)])


def _dense(values: pa.Array) -> bool:
    """Whether these are numbers, stored as Arrow holds them, that zstd can't make a tenth shorter."""
    if values.type not in _AS_IN_ARROW:
        return False
    present = values.drop_null()
    width = present.type.bit_width // 8
    held = present.buffers()[1]
    if held is None or not len(present):
        return False
    data = held.slice(present.offset * width, min(len(present) * width, _SAMPLE_BYTES))
    return bool(pa.Codec("zstd", 1).compress(data).size > data.size * (1 - _LEAST_SAVED))


def _repeats(values: pa.Array) -> bool:
    """Whether a small dictionary holds the values; one of a single use per value would only repeat the column."""
    count = len(values) - values.null_count
    if not count or pa.types.is_boolean(values.type):
        return False
    if pa.types.is_decimal(values.type) and values.type.precision > _LONG_DIGITS:
        return False
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    width = values.nbytes / len(values)
    return bool(distinct * _LEAST_REPETITION <= count and distinct * width <= _DICTIONARY_BYTES)
