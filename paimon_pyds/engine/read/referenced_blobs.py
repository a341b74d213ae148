"""The bytes of BLOBs in place of the references to them that data files have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, to_numpy, validity
from paimon_pyds.base.options import holds_descriptors
from paimon_pyds.format.batches import list_window
from paimon_pyds.format.blob.codec import HEAD_BYTES, OVERHEAD_BYTES, payload_of
from paimon_pyds.format.blob.references import MANAGED_SUFFIX, decode_descriptor
from paimon_pyds.metadata.paths import named_file
from paimon_pyds.metadata.split import BlobReferences, FilePlace, ReadSpec
from paimon_pyds.storage import FileIO, check_range


def _range(place: FilePlace, *, entries: bool) -> tuple[int, int]:
    """The bytes to read, as offset and length. ``entries``: those around values in packs, too, as they have a
    checksum."""
    if entries and place.path.endswith(MANAGED_SUFFIX):
        return place.offset - HEAD_BYTES, place.length + OVERHEAD_BYTES
    return place.offset, place.length


def with_bytes(
    spec: ReadSpec, references: BlobReferences, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The batches with bytes in the columns of ``references``, cut so that each has bounded bytes, one row at least.

    Raises:
        CorruptFileError: a value is no reference, or its file ends before the BLOB does.
        SecurityError: a file is in a directory that is not allowed.
        MissingFileError, StorageError: a file is gone, or can't be read.
    """
    numbers = [n for n, field in enumerate(spec.fields) if field.name in references.columns]
    packed = {n for n in numbers if not holds_descriptors(spec.fields[n], spec.options or {})}
    sizes = cache(spec.io.size)

    @cache
    def path_of(uri: str) -> str:
        return named_file(references.root, uri, references.external)

    def place(value: bytes | None, *, entries: bool) -> FilePlace | None:
        if value is None:
            return None
        uri, offset, length = decode_descriptor(value)
        path = path_of(uri)
        length = max(0, sizes(path) - offset) if length < 0 else length
        found = FilePlace(path, offset, length)
        check_range(path, *_range(found, entries=entries), sizes(path))
        return found

    for batch in batches:
        lengths = np.zeros(batch.num_rows, np.int64)
        places: dict[int, tuple[list[FilePlace | None], Int64s]] = {}
        for number in numbers:
            values, bounds = _references(batch.column(number))
            found = values.to_pylist()
            if spec.fields[number].name in references.views:
                assert references.find_views is not None, "the request of this plan does not say how views are found"
                known = references.find_views(spec.io, references.root, [view for view in found if view is not None])
                located = [None if view is None else known[view] for view in found]
            else:
                located = [place(value, entries=number in packed) for value in found]
            places[number] = located, bounds
            sizes_before = np.cumsum([0, *(0 if each is None else each.length for each in located)], dtype=np.int64)
            lengths += np.diff(sizes_before[bounds])
        ends, start = np.cumsum(lengths), 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + spec.batch_bytes, "right")))
            part = batch.slice(start, stop - start)
            for number, (located, bounds) in places.items():
                values = array(
                    _fetched(spec.io, located[bounds[start] : bounds[stop]], entries=number in packed),
                    pa.large_binary(),
                )
                column = _with_values(part.column(number), values, bounds[start : stop + 1] - bounds[start])
                part = part.set_column(number, part.schema.field(number), column)
            yield part
            start = stop


def _references(column: pa.Array) -> tuple[pa.Array, Int64s]:
    """The references in a column, and where those of each row begin, and those of the last one end."""
    if not isinstance(column, pa.ListArray):  # a map is one, too
        return column, np.arange(len(column) + 1)
    offsets = to_numpy(column.offsets).astype(np.int64)
    children = column.items if isinstance(column, pa.MapArray) else column.values
    return list_window(column, children), offsets - offsets[0]


def _with_values(column: pa.Array, values: pa.Array, bounds: Int64s) -> pa.Array:
    """A column with other values in place of its references; ``bounds``: where those of each row are."""
    if not isinstance(column, pa.ListArray):
        return values
    type_, children = column.type, values
    if isinstance(column, pa.MapArray):
        keys = list_window(column, column.keys)
        children = pa.StructArray.from_arrays([keys, values], fields=[type_.key_field, type_.item_field])
    buffers = [validity(column), pa.py_buffer(bounds.astype(np.int32))]
    return pa.Array.from_buffers(type_, len(column), buffers, children=[children])


def _fetched(io: FileIO, places: Sequence[FilePlace | None], *, entries: bool) -> list[bytes | None]:
    found: list[bytes | None] = [None if place is None else b"" for place in places]
    of_path: dict[str, list[int]] = {}
    for number, place in enumerate(places):
        if place is not None and _range(place, entries=entries)[1]:
            of_path.setdefault(place.path, []).append(number)
    for path, numbers in of_path.items():
        ranges = [_range(place, entries=entries) for place in (places[n] for n in numbers) if place is not None]
        is_entry = entries and path.endswith(MANAGED_SUFFIX)
        for number, (offset, _), data in zip(numbers, ranges, io.read_ranges(path, ranges), strict=True):
            found[number] = bytes(payload_of(memoryview(data), path, offset)) if is_entry else data
    return found
