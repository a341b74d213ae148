"""MAP columns whose keys many rows have in common, as Paimon 2.1 stores them (``map.storage-layout=shared-shredding``).

The column of the file is a ROW: ``__field_mapping`` names by a number, for each of its columns ``__col_0``, ``__col_1``
and so on, the key whose value that column has in the row, -1 for none; ``__overflow`` maps numbers of further keys to
their values. The file's metadata has the keys by their numbers. Whether a column is stored so each file says itself.
(Java: classes MapSharedShreddingReadPlan and MapSharedShreddingUtils.)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, from_numpy, pc, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import CorruptFileError, UnsupportedError

MAPPING, OVERFLOW = "__field_mapping", "__overflow"
LAYOUT, SHARED = "map.storage-layout", "shared-shredding"
"""The option of a column, and what it is for these."""
PREFIX = b"paimon.map.shared-shredding."
_MOST_KEY_BYTES = 1 << 28
"""Bytes of the text that has all keys of a file: more is no number of keys that many rows share."""
_LZ4_HEADER = 8
"""Bytes before the block of Java's LZ4: the sizes of both, which the metadata has, too."""


def is_shared(members: Sequence[str]) -> bool:
    """Whether the fields of a ROW in a file are those of a MAP that is stored so."""
    return MAPPING in members


@dataclass(frozen=True, slots=True)
class SharedKeys:
    """The keys of one column of one file.

    Attributes:
        names: the keys, in the order of ``numbers``, which ascend.
        columns: how many columns hold values.
    """

    names: pa.StringArray
    numbers: Int64s
    columns: int

    @staticmethod
    def are_in(metadata: Mapping[bytes, bytes] | None) -> bool:
        """Whether the metadata of a column has them."""
        return f"paimon.{LAYOUT}".encode() in (metadata or {})

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes] | None, column: str, path: object) -> SharedKeys:
        """What the metadata of a column says.

        Raises:
            CorruptFileError: it is damaged.
            UnsupportedError: it is missing, or of a later version.
        """
        found = metadata or {}
        if found.get(b"paimon.map.storage-layout") != b"shared-shredding" or found.get(PREFIX + b"version") != b"1":
            raise UnsupportedError(
                f"column {column!r} is a MAP whose keys many rows share (map.storage-layout=shared-shredding), of a "
                "version that is not known",
                path=path,
                hint="read the other columns with columns=…, or rewrite the file with Java Paimon and "
                f"fields.{column}.map.storage-layout=default",
            )
        try:
            columns, size = (int(found[PREFIX + name]) for name in (b"num-columns", b"field-dict-original-size"))
            packed = found[PREFIX + b"field-dict"].decode().encode("latin-1")
            numbers = json.loads(_unpacked(packed, size, found.get(PREFIX + b"field-dict-compression", b"zstd")))
            order = sorted((number, name) for name, number in numbers.items())
            ids = np.array([number for number, _ in order], np.int64)
            names = array([name for _, name in order], pa.string())
        except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, OSError, RecursionError) as error:
            raise _corrupt(column, path, f"its keys can't be read ({type(error).__name__})") from error
        if not 0 <= columns <= _MOST_KEY_BYTES or (np.diff(ids, prepend=-1) <= 0).any():
            raise _corrupt(column, path, "two of its keys have the same number, or one has none")
        return cls(names, ids, columns)

    def places(self, numbers: Int64s, column: str, path: object) -> Int64s:
        """The places of keys among ``names``, by their numbers. Raises CorruptFileError: no key has a number."""
        found = np.searchsorted(self.numbers, numbers)
        if len(numbers) and (
            not len(self.numbers) or (self.numbers[np.minimum(found, len(self.numbers) - 1)] != numbers).any()
        ):
            raise _corrupt(column, path, "no key has the number that a row names")
        return found


def stored_keys(arrow_schema: bytes, column: str, path: object) -> SharedKeys:
    """The keys of a column by the Arrow schema that a file's metadata has as text. Raises as `SharedKeys.of`."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(arrow_schema, validate=True)))
        field = schema.field(column)
    except (ValueError, KeyError, OSError) as error:
        raise _corrupt(column, path, "the Arrow schema in its metadata can't be read") from error
    return SharedKeys.of(field.metadata, column, path)


def _unpacked(packed: bytes, size: int, compression: bytes) -> bytes:
    if compression == b"none":
        return packed
    if not 0 <= size <= _MOST_KEY_BYTES:
        raise ValueError(size)
    if compression == b"lz4":
        return bytes(pa.Codec("lz4_raw").decompress(packed[_LZ4_HEADER:], size))
    if compression != b"zstd":
        raise ValueError(compression)
    return bytes(pa.Codec("zstd").decompress(packed, size))


def whole_maps(
    rows: pa.StructArray,
    keys: SharedKeys,
    type_: pa.MapType,
    convert: Callable[[pa.Array, str], pa.Array],
    column: str,
    path: object,
) -> pa.MapArray:
    """The maps of a column that is stored so; the order of their entries says nothing.

    Args:
        rows: the column as the file has it.
        keys: those of the file.
        type_: what the column should be.
        convert: gives the values of a member of ``rows``, by its name, as the type of the map's values.
        column: its name, for errors.
        path: the file's, for errors.

    Raises CorruptFileError: a row names no key, or one twice.
    """
    members = [f"__col_{number}" for number in range(keys.columns)]
    held = [rows.type.field(i).name for i in range(rows.type.num_fields)]
    if held != [MAPPING, *members, OVERFLOW]:
        raise _corrupt(column, path, f"it has the fields {', '.join(held[:20])}")
    there = np.flatnonzero(to_numpy(rows.is_valid()))
    live = rows if len(there) == len(rows) else rows.take(from_numpy(there))
    mapping, *others = live.flatten()
    at, numbers, values = list[Int64s](), list[Int64s](), list[pa.Array]()
    if len(live):
        if mapping.null_count or (to_numpy(mapping.value_lengths()) != keys.columns).any():
            raise _corrupt(column, path, "a row does not say of each field which key it has")
        named = to_numpy(pc.fill_null(mapping.flatten(), -1)).astype(np.int64).reshape(len(live), keys.columns)
        for number, member in enumerate(members):
            kept = np.flatnonzero(named[:, number] >= 0)
            at.append(kept)
            numbers.append(named[kept, number])
            values.append(convert(others[number].take(from_numpy(kept)), member))
        overflow = others[-1]
        full = overflow.filter(overflow.is_valid())
        lengths = np.diff(to_numpy(full.offsets)) if len(full) else np.zeros(0, np.int64)
        at.append(np.repeat(np.flatnonzero(to_numpy(overflow.is_valid())), lengths))
        first, stop = (full.offsets[0].as_py(), full.offsets[-1].as_py()) if len(full) else (0, 0)
        numbers.append(to_numpy(full.keys.slice(first, stop - first)).astype(np.int64))
        values.append(convert(full.items.slice(first, stop - first), OVERFLOW))
    of_row = np.concatenate(at) if at else np.zeros(0, np.int64)
    places = keys.places(np.concatenate(numbers) if numbers else of_row, column, path)
    order = np.lexsort((places, of_row))
    of_row, places = of_row[order], places[order]
    if ((np.diff(of_row) == 0) & (np.diff(places) == 0)).any():
        raise _corrupt(column, path, "a row has a key twice")
    counts = np.zeros(len(rows), np.int64)
    counts[there] = np.bincount(of_row, minlength=len(there))
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    items = pa.concat_arrays(values) if values else pa.nulls(0, type_.item_type)
    entries = pa.StructArray.from_arrays(
        [keys.names.take(from_numpy(places)).cast(type_.key_type), items.take(from_numpy(order))],
        fields=[type_.key_field, type_.item_field],
    )
    valid = array(to_numpy(rows.is_valid()), pa.bool_()).buffers()[1] if rows.null_count else None
    buffers = [valid, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(type_, len(rows), buffers, rows.null_count, children=[entries])


def _corrupt(column: str, path: object, what: str) -> CorruptFileError:
    return CorruptFileError(f"column {column!r} is a MAP whose keys many rows share: {what}", path=path, field=column)
