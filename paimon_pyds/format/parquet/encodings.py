"""Which columns of a Parquet file get a dictionary, and which are stored uncompressed, chosen on its first rows.

A dictionary has to be small, and its entries used some times each. Numbers that compression hardly shortens are stored
as they are (see `settings`). Columns are looked at together: of wide tables, a call for each one takes longer than what
it finds out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import fixed_values, one_batch, pc
from paimon_pyds.base.records import dataclass

_DICTIONARY_BYTES = 64 << 10
_SAMPLE_RUNS = 4
_SAMPLE_ROWS = 32_768
_LEAST_SAMPLE_ROWS = 1_024
_SAMPLE_VALUES = 4 << 20
"""Values of the rows that encodings are chosen on, in all columns together: more would take as long as encoding."""
_LEAST_REPETITION = 4
_FIRST_SHARE = 3
"""Of the sampled rows, the share that is looked at first: less than `_LEAST_REPETITION`, as values that are all
different rule a dictionary out then."""
LONG_DIGITS = 18
"""Digits of DECIMALs that Java stores as whole numbers."""
_NUMBERS = {32: "<u4", 64: "<u8"}
"""By bits of a value: what is sorted instead of it."""
_AS_IN_ARROW = frozenset({pa.int32(), pa.int64(), pa.float32(), pa.float64()})
_SAMPLE_BYTES = 128 << 10
_VALUES_AT_ONCE = 1 << 16
"""Values of columns that are sorted together: half a MiB."""
_LEAST_SAVED = 0.1
"""Share of a column's bytes that compression has to save to pay."""


@dataclass(frozen=True, slots=True)
class Encodings:
    """Paths of the leaves with a dictionary, flat columns that compression hardly shortens, and the mean bytes of the
    widest column's values."""

    dictionary: list[str]
    dense: frozenset[str]
    widest: float


def choose_encodings(table: pa.Table, *, dictionary: bool, find_dense: bool = True) -> Encodings:
    """Encodings for the columns of a table that is like the rest of the file.

    ``table``: rows of the first row group. ``dictionary``: whether dictionaries are allowed
    (``parquet.enable.dictionary``). ``find_dense``: whether to look for columns that compression hardly shortens.
    """
    some = sample(table)
    names, types = some.column_names, some.schema.types
    nested = {i for i, type_ in enumerate(types) if pa.types.is_nested(type_)}
    at = [i for i in range(len(types)) if i not in nested]
    flat = dict(zip(at, one_batch(some.select(at)).columns, strict=True))
    widths = {i: _width(types[i], values) for i, values in flat.items()}
    repeated = _repeated(flat, widths) if dictionary else frozenset[int]()
    with_dictionary: list[str] = []
    for i in range(len(types)) if dictionary else ():
        if i in repeated:
            with_dictionary.append(names[i])
        elif i in nested:
            with_dictionary.extend(leaf_paths(names[i], types[i]))
    codec = pa.Codec("zstd", 1)
    dense = (names[i] for i in at if find_dense and i not in repeated and _dense(types[i], flat[i], codec))
    widest = max([1.0, *widths.values(), *(_width(types[i], some.column(i)) for i in nested)])
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


def sample(table: pa.Table) -> pa.Table:
    """Rows of a table that encodings are chosen on."""
    rows = table.num_rows
    sampled = min(_SAMPLE_ROWS, max(_LEAST_SAMPLE_ROWS, _SAMPLE_VALUES // max(1, table.num_columns)))
    if rows <= sampled:
        return table
    run = sampled // _SAMPLE_RUNS
    step = (rows - run) // (_SAMPLE_RUNS - 1)
    return pa.concat_tables([table.slice(i * step, run) for i in range(_SAMPLE_RUNS)])


def _width(type_: pa.DataType, values: pa.Array | pa.ChunkedArray) -> float:
    """The mean bytes of a column's values."""
    if pa.types.is_primitive(type_):
        return float(type_.bit_width) / 8
    return float(values.nbytes) / max(1, len(values))


def _dense(type_: pa.DataType, values: pa.Array, codec: pa.Codec) -> bool:
    """Whether these are numbers, stored as Arrow holds them, that ``codec`` can't make a tenth shorter."""
    if type_ not in _AS_IN_ARROW:
        return False
    present = values.drop_null() if values.null_count else values
    width = type_.bit_width // 8
    held = present.buffers()[1]
    if held is None or not len(present):
        return False
    data = held.slice(present.offset * width, min(len(present) * width, _SAMPLE_BYTES))
    return bool(codec.compress(data).size > data.size * (1 - _LEAST_SAVED))


def _repeated(columns: Mapping[int, pa.Array], widths: Mapping[int, float]) -> frozenset[int]:
    """Which columns have values that a small dictionary holds; one of a single use per value would only repeat them."""
    left = {i: values for i, values in columns.items() if _may_have_dictionary(values)}
    for share in (_FIRST_SHARE, 1):
        parts = [values.slice(0, len(values) // share) for values in left.values()] if share > 1 else left.values()
        counts = _distinct([part.drop_null() if part.null_count else part for part in parts])
        left = {i: v for (i, v), count in zip(left.items(), counts, strict=True) if _pays(count, v, widths[i])}
    return frozenset(left)


def _may_have_dictionary(values: pa.Array) -> bool:
    if len(values) == values.null_count or pa.types.is_boolean(values.type):
        return False
    return not (pa.types.is_decimal(values.type) and values.type.precision > LONG_DIGITS)


def _pays(distinct: int, values: pa.Array, width: float) -> bool:
    """Whether a dictionary of ``distinct`` entries is small, and its entries are used often enough."""
    used = len(values) - values.null_count
    return distinct * _LEAST_REPETITION <= used and distinct * width <= _DICTIONARY_BYTES


def _distinct(columns: Sequence[pa.Array]) -> list[int]:
    """How many values each column has; of floats, as far as their bits differ. Sorted numbers are counted soonest, and
    columns of one length together."""
    counts = [0] * len(columns)
    alike: dict[tuple[str, int], list[int]] = {}
    for i, values in enumerate(columns):
        type_ = values.type
        numbers = _NUMBERS.get(type_.bit_width) if pa.types.is_primitive(type_) else None
        if numbers is None or not len(values):
            counts[i] = len(pc.unique(values))
        else:
            alike.setdefault((numbers, len(values)), []).append(i)
    for (numbers, length), members in alike.items():
        at_once = max(1, _VALUES_AT_ONCE // length)
        for start in range(0, len(members), at_once):
            block = members[start : start + at_once]
            rows = np.stack([fixed_values(columns[i], numbers) for i in block])
            rows.sort()
            for i, changes in zip(block, np.count_nonzero(rows[:, 1:] != rows[:, :-1], axis=1).tolist(), strict=True):
                counts[i] = 1 + changes
    return counts
