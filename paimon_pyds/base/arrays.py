"""Arrow arrays from Python values and numpy arrays and back, by their buffers.

What pyarrow itself offers for that (``pa.array``, ``pa.scalar``, ``to_numpy``) imports pandas when it is first called,
which takes longer than planning a query: a process that only plans does without, and without ``pyarrow.compute``
(`pc`). Values and types that are not handled here are left to pyarrow. Layouts: Arrow columnar format, sections
Fixed-Size Primitive, Variable-size Binary and List.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.array_values import array_of
from paimon_pyds.base.array_values import bits as bits

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
_NUMBERS = {np.dtype(d): pa.from_numpy_dtype(d) for d in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")}
_DTYPES = {type_: dtype for dtype, type_ in _NUMBERS.items()}
_CACHED = frozenset({int, bool, type(None)})
"""Types of values whose scalars are cached: small ones, which are the same if they compare as equal."""
_LARGEST_COUNTED_BYTES = (32 << 20) - (64 << 10)
"""glibc learns from blocks up to 32 MiB, its own header included."""
_LEAST_BLOCK = 1 << 19
"""Bytes of the block that is freed for that, at least."""
_LARGE_CHUNK_ROWS = 1024
"""Rows from which a function of Arrow takes longer for a chunk than it takes to be called for it, about."""


_NAMES = """
add_checked any binary_join_element_wise binary_length dictionary_encode divide divide_checked equal filter greater
greater_equal if_else invert is_nan is_valid less less_equal list_flatten list_parent_indices list_value_length
multiply_checked negate_checked not_equal replace_with_mask subtract_checked take unique
"""
_PLAIN = {**{name: name for name in _NAMES.split()}, "and_": "and", "or_": "or"}
"""Functions of ``pyarrow.compute`` that are called here with arrays, batches and scalars only, and what Arrow calls
them."""


class _Compute:
    """``pyarrow.compute``, imported when a function of it is first called that is not among `_PLAIN`: making them all
    takes 30 ms, longer than a plan that needs some comparisons. Arguments may be Python values."""

    def __getattr__(self, name: str) -> Any:
        if name[0].isupper():  # a class, such as Expression
            import pyarrow.compute

            return getattr(pyarrow.compute, name)
        found = self.__dict__[name] = partial(_plain_call if name in _PLAIN else _imported_call, name)
        return found

    def fill_null(self, values: Any, value: object) -> Any:
        """``values`` with ``value``, of Python or Arrow, where they are NULL."""
        filler = value if isinstance(value, _ARROW) else scalar(value, values.type)
        return _call("coalesce", values, filler if filler.type == values.type else self.cast(filler, values.type))

    def cast(self, values: Any, type_: pa.DataType, *, safe: bool = True) -> Any:
        """``values`` as another type; not ``safe``: values that do not fit it are cut."""
        from pyarrow._compute import CastOptions, call_function

        return call_function("cast", [_datum(values)], (CastOptions.safe if safe else CastOptions.unsafe)(type_))

    def is_in(self, values: Any, value_set: Any) -> Any:
        """Which values are among others, which NULL may be, too."""
        from pyarrow._compute import SetLookupOptions, call_function

        return call_function("is_in", [_datum(values)], SetLookupOptions(value_set))

    def starts_with(self, values: Any, pattern: str) -> Any:
        """Which texts begin with another one."""
        return _matched("starts_with", values, pattern)

    def ends_with(self, values: Any, pattern: str) -> Any:
        """Which texts end with another one."""
        return _matched("ends_with", values, pattern)

    def match_substring(self, values: Any, pattern: str) -> Any:
        """Which texts have another one in them."""
        return _matched("match_substring", values, pattern)

    def match_substring_regex(self, values: Any, pattern: str, *, ignore_case: bool = False) -> Any:
        """Which texts have what a regular expression stands for in them."""
        return _matched("match_substring_regex", values, pattern, ignore_case)


def _matched(name: str, values: Any, pattern: str, ignore_case: bool = False) -> Any:
    from pyarrow._compute import MatchSubstringOptions, call_function

    return call_function(name, [_datum(values)], MatchSubstringOptions(pattern, ignore_case=ignore_case))


def _imported_call(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of ``pyarrow.compute`` with Arrow's scalars for Python's values: pyarrow imports pandas to make
    these."""
    import pyarrow.compute

    function = getattr(pyarrow.compute, name)
    arrow = getattr(function, "__arrow_compute_function__", {"arity": 0})
    count = len(arguments) if arrow["arity"] is Ellipsis else arrow["arity"]  # further ones are options
    return function(*map(_datum, arguments[:count]), *arguments[count:], **options)


def _datum(value: Any) -> Any:
    return scalar(value) if value is None or isinstance(value, (bool, int, float, str, bytes)) else value


def _plain_call(name: str, *arguments: Any, **options: Any) -> Any:
    if not options:
        return _call(_PLAIN[name], *arguments)
    import pyarrow.compute

    return getattr(pyarrow.compute, name)(*map(_datum, arguments), **options)


def _call(name: str, *arguments: Any) -> Any:
    from pyarrow._compute import call_function  # it has no public name of its own

    return call_function(name, list(map(_datum, arguments)))


pc: Any = _Compute()
"""``pyarrow.compute`` for modules that planning imports."""


def keep_freed_memory(size: int = _LARGEST_COUNTED_BYTES) -> None:
    """Have glibc retain some times ``size`` freed bytes, up to 64 MiB, for the next allocations.

    By default glibc returns memory to the system at once, and allocating it again takes longer than building bitmaps in
    it. glibc stops that, up to twice the size of the block, once a program has freed one large block (mallopt(3),
    M_MMAP_THRESHOLD): this function frees one that was never written. It does not change other allocators.
    """
    _allocate_once(min(1 << max(2 * size, _LEAST_BLOCK).bit_length(), _LARGEST_COUNTED_BYTES))


@cache
def _allocate_once(size: int) -> None:
    np.empty(size, np.uint8)


def scalar(value: object, type_: pa.DataType | None = None) -> pa.Scalar:
    """The same as ``pa.scalar(value, type_)``, errors too."""
    return _cached_scalar(value, type_) if type(value) in _CACHED else _scalar(value, type_)


def _scalar(value: object, type_: pa.DataType | None) -> pa.Scalar:
    made = array_of([value], type_)
    return pa.scalar(value, type_) if made is None else made[0]


_cached_scalar = lru_cache(maxsize=256, typed=True)(_scalar)


def array(
    values: Iterable[object] | npt.NDArray[Any], type_: pa.DataType | None = None, mask: Flags | None = None
) -> pa.Array:
    """The same as ``pa.array(values, type_, mask)``, errors too. ``mask``: where an array of numpy has NULL."""
    if isinstance(values, np.ndarray):
        made = _of_numpy(values, mask)
        if made is not None:
            return made if type_ is None or type_ == made.type else pc.cast(made, type_)
    elif mask is None:
        values = values if isinstance(values, (list, tuple, pa.Array, pa.ChunkedArray)) else list(values)
        made = None if isinstance(values, (pa.Array, pa.ChunkedArray)) else array_of(values, type_)
        if made is not None:
            return made
    return pa.array(values, type_, mask=mask)


def from_numpy(values: npt.NDArray[Any]) -> pa.Array:
    """The same as ``pa.array(values)`` for an array of one dimension."""
    made = _of_numpy(values, None)
    return pa.array(values) if made is None else made


def _of_numpy(values: npt.NDArray[Any], mask: Flags | None) -> pa.Array | None:
    """None where pyarrow has to do it."""
    valid = None if mask is None else bits(~mask)
    if values.dtype == np.bool_ and values.ndim == 1:
        return pa.Array.from_buffers(pa.bool_(), len(values), [valid, bits(values)])
    type_ = _NUMBERS.get(values.dtype)
    if type_ is None or values.ndim != 1:
        return None
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table of no rows."""
    return pa.Table.from_batches([], schema)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def no_columns(rows: int) -> pa.RecordBatch:
    """A batch of some rows and no columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def rows_table(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    """The same as ``pa.Table.from_pylist(rows, schema)``."""
    return pa.Table.from_arrays([array([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema)


def grouped(
    table: pa.Table, keys: Sequence[str], aggregates: Sequence[tuple[Any, str]] = (), use_threads: bool = True
) -> pa.Table:
    """The same as ``table.group_by(keys, use_threads).aggregate(aggregates)``."""
    from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions  # pyarrow.acero loads pandas

    wanted = []
    for column, function in aggregates:
        columns = [column] if isinstance(column, str) else list(column)
        name = "_".join([*columns, function])
        wanted.append((columns, f"hash_{function}", None, name))
    source = Declaration("table_source", TableSourceNodeOptions(table))
    steps = [source, Declaration("aggregate", AggregateNodeOptions(wanted, keys=list(keys)))]
    return Declaration.from_sequence(steps).to_table(use_threads=use_threads)


def with_one_nan(values: pa.Array) -> pa.Array:
    """Floats, each NaN of them as the one that Java has, whatever its bits."""
    return pc.if_else(pc.is_nan(values), scalar(math.nan, values.type), values)


def to_numpy(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """The same as ``values.to_numpy(zero_copy_only=False)``."""
    values = one_array(values)
    found = _plain_numpy(values)
    if found is None:
        other: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return other
    if not values.null_count:
        return found
    kind = found.dtype.kind
    filled = found.astype(np.float64 if kind in "iu" else object if kind == "b" else found.dtype)
    filled[is_true(values.is_null())] = None if kind == "b" else math.nan
    return filled


def _plain_numpy(values: pa.Array) -> npt.NDArray[Any] | None:
    """Numbers and truth values, those of NULLs are any; None of other types."""
    data = values.buffers()[1] if values.type in _DTYPES or values.type == pa.bool_() else None
    if values.type == pa.bool_():
        return _flags(data, values)
    dtype = _DTYPES.get(values.type)
    if dtype is None:
        return None
    return np.zeros(len(values), dtype) if data is None else _numbers(data, dtype, values)


def _numbers(data: pa.Buffer, dtype: np.dtype[Any], values: pa.Array) -> npt.NDArray[Any]:
    return np.frombuffer(data, dtype, len(values), values.offset * dtype.itemsize)


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece; its memory is shared where it is in one already."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def decoded(values: pa.DictionaryArray) -> pa.Array:
    """The values that a dictionary array stands for: also of views, as polars has them, which Arrow can't take."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(values.type.value_type)
    if plain is not None:
        values = pa.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(plain))
    return values.dictionary_decode()


def in_large_chunks(table: pa.Table) -> pa.Table:
    """A table of small chunks in one piece: functions of Arrow take some time for each chunk. Others as they are."""
    chunks = table.column(0).num_chunks if table.num_columns else 0
    return table.combine_chunks() if chunks > 1 and table.num_rows < chunks * _LARGE_CHUNK_ROWS else table


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table in one piece, as `one_array`."""
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays([one_array(column) for column in table.columns], schema=table.schema)


class RowWidths:
    """Counts the bytes of batches with columns of ``types``: `nbytes` takes microseconds for each column, here only for
    those whose values differ in length. The bits that say where values are NULL are left out."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        fixed = [_is_fixed(type_) for type_ in types]
        self._bits = sum(type_.bit_width for type_, alike in zip(types, fixed, strict=True) if alike)
        self._others = [i for i, alike in enumerate(fixed) if not alike]

    def bytes_of(self, batch: pa.RecordBatch) -> int:
        """Bytes of the values of a batch."""
        others = sum(int(batch.column(i).nbytes) for i in self._others)
        return (int(batch.num_rows) * int(self._bits) + 7) // 8 + others


def _is_fixed(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_) or pa.types.is_decimal(type_))


def sliced(batch: pa.RecordBatch, rows: int, size: int, nbytes: int | None = None) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most ``rows`` rows and 1.5 times ``size`` bytes, where rows are as long as the mean.
    ``nbytes``: the batch's, where the caller has them; counting them takes microseconds for each column."""
    nbytes = batch.nbytes if nbytes is None else nbytes
    step = max(1, min(rows, math.ceil(batch.num_rows / max(1, round(nbytes / size)))))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def is_true(values: pa.BooleanArray | pa.ChunkedArray) -> Flags:
    """Where a boolean array is true; a null is not."""
    values = one_array(values)
    valid, data = values.buffers()
    found = _flags(data, values)
    return found & _flags(valid, values) if values.null_count else found


def _flags(bits: pa.Buffer | None, of: pa.Array) -> Flags:
    if bits is None:
        return np.zeros(len(of), np.bool_)
    first, skipped = divmod(of.offset, 8)
    packed = np.frombuffer(bits, np.uint8)[first : (of.offset + len(of) + 7) // 8]
    return np.unpackbits(packed, count=skipped + len(of), bitorder="little")[skipped:].view(np.bool_)


def validity(array: pa.Array) -> pa.Buffer | None:
    """The bits of a validity map, from the array's first value on; None where no value is NULL."""
    return bits(is_true(array.is_valid())) if array.null_count else None


_ARROW = (pa.Scalar, pa.Array, pa.ChunkedArray)


def fixed_binary(rows: npt.NDArray[Any]) -> pa.Array:
    """A binary array whose values are the bytes of the rows of an array of numbers, or of the numbers themselves."""
    data = np.ascontiguousarray(rows)
    width = math.prod(data.shape[1:]) * data.itemsize
    offsets = np.arange(len(data) + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.binary(), len(data), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def join_binary(*parts: pa.Array) -> tuple[bytes, Int64s]:
    """The concatenation, row by row, of binary arrays, and where each row begins; one more bound at the end."""
    joined = pc.binary_join_element_wise(*parts, scalar(b"", pa.binary()))
    _, offsets, data = joined.buffers()
    if len(joined) == 0:
        return b"", np.zeros(1, np.int64)
    bounds = np.frombuffer(offsets, np.int32, len(joined) + 1).astype(np.int64)
    return data.to_pybytes()[: bounds[-1]], bounds


def unaligned_words(data: Octets) -> Words:
    """A view of bytes in which item i is the little-endian word that starts at byte i."""
    return np.ndarray((max(data.size - 7, 0),), dtype="<u8", buffer=data, strides=(1,))


def valid_mask(array: pa.Array) -> Flags | None:
    """True where a value is there; None when all are."""
    if array.null_count == 0:
        return None
    return is_true(pc.is_valid(array))


def binary_parts(array: pa.Array) -> tuple[Octets, Int64s, Int64s]:
    """The bytes, start offsets and end offsets of a binary or string array (large or not). Nulls may span bytes."""
    large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        none = np.zeros(0, np.int64)
        return np.zeros(0, np.uint8), none, none
    bounds = np.frombuffer(offsets, "<i8" if large else "<i4")[array.offset : array.offset + len(array) + 1]
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return raw, bounds[:-1].astype(np.int64), bounds[1:].astype(np.int64)


def list_items(lists: pa.ListArray) -> pa.Array:
    """The items of lists without NULLs among them, one list after another."""
    bounds = to_numpy(lists.offsets)
    return lists.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def slices(data: Octets, starts: Int64s, ends: Int64s) -> pa.Array:
    """A binary array of ``data[start:end]`` for every pair.

    The slices must be in ascending order and must not overlap: then they, with the gaps between them, are one Arrow
    array over ``data`` itself, from which Arrow copies every second element.
    """
    count = len(starts)
    if count == 0:
        return pa.nulls(0, pa.binary())
    bounds = np.empty(2 * count, np.int64)
    bounds[0::2] = starts
    bounds[1::2] = ends
    small = data.size < 2**31
    buffers = [None, pa.py_buffer(bounds.astype(np.int32) if small else bounds), pa.py_buffer(data)]
    every = pa.Array.from_buffers(pa.binary() if small else pa.large_binary(), 2 * count - 1, buffers)
    found = pc.take(every, from_numpy(np.arange(0, 2 * count, 2)))
    return found if small else found.cast(pa.binary())


def build(type_: pa.DataType, values: npt.NDArray[np.generic] | pa.Buffer, valid: Flags | None, count: int) -> pa.Array:
    """An Arrow array of a fixed-width type from its value bytes and an optional mask of valid values."""
    buffer = values if isinstance(values, pa.Buffer) else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(type_, count, [None if valid is None else bits(valid), buffer])


def fixed_values(column: pa.Array, dtype: str, per_value: int = 1) -> npt.NDArray[Any]:
    """The values of a fixed-width column without copying, ``per_value`` numbers for each; those of NULLs are any."""
    data, kind = column.buffers()[1], np.dtype(dtype)
    if data is None or not len(column):
        return np.zeros(0, kind)
    return np.frombuffer(data, kind, len(column) * per_value, column.offset * per_value * kind.itemsize)


def sorted_positions(numbers: Words, lost: int = 0) -> Int64s:
    """Positions that sort numbers by all but their ``lost`` lowest bits, equal ones in order. ``numbers`` is used up.

    What is left of a number and a position (`index_bits`) have to fit 64 bits: words of both are sorted the fastest.
    """
    bits = index_bits(len(numbers))
    numbers >>= np.uint64(lost)
    numbers <<= np.uint64(bits)
    numbers |= np.arange(len(numbers), dtype=np.uint64)
    numbers.sort()
    numbers &= np.uint64((1 << bits) - 1)
    return numbers.view(np.int64)


def index_bits(count: int) -> int:
    """The number of bits that hold each of ``count`` positions."""
    return max(count - 1, 1).bit_length()
