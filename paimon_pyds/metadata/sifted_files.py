"""The live files of large tables that pass a test, manifest by manifest: memory is bounded by a manifest and by what
passes, not by the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, from_numpy, is_true, one_batch, pc, to_numpy
from paimon_pyds.metadata.lazy_entries import KeepEntries, LazyEntries
from paimon_pyds.metadata.manifest import IDENTITY_COLUMNS, FileKind, ManifestFile, entry_schema, live_entries
from paimon_pyds.metadata.manifest_reader import ManifestReader

_TOTALS = ("row_count", "file_size")
HELD_BYTES = 4 << 20
"""Bytes of manifests with removals up to which they are held decoded from the first look to the second: in memory they
take some ten times as much."""


class SiftedFiles(NamedTuple):
    """Live files that passed a test.

    Attributes:
        entries: of these files.
        files, rows, size: how many live files there are, whatever the test says of them, their rows and their bytes.
    """

    entries: pa.RecordBatch
    files: int
    rows: int
    size: int


def sifted_files(
    reader: ManifestReader, manifests: Sequence[ManifestFile], columns: Sequence[str], test: KeepEntries
) -> SiftedFiles | None:
    """The files among the live ones of some manifests that pass a test; None where a manifest has more removals than
    its list says.

    ``columns``: of the entries, and what ``test`` looks at. Raises as the methods of `ManifestReader`.
    """
    # Names removed by any manifest are known before an entry is dropped, else totals would count files that are gone.
    # So manifests with removals are looked at twice; many of them are decoded twice, as memory bounds what is held.
    changing = [manifest for manifest in manifests if manifest.num_deleted_files]
    schema = entry_schema(frozenset({"kind", *columns, *_TOTALS, *(IDENTITY_COLUMNS if changing else ())}))
    held: dict[int, list[pa.RecordBatch | LazyEntries]] = {}
    if sum(manifest.file_size for manifest in changing) <= HELD_BYTES:
        held = {id(manifest): [] for manifest in changing}

    def removed_names(manifest: ManifestFile) -> pa.Array:
        def is_removal(entries: pa.RecordBatch | LazyEntries) -> Flags:
            if held:
                held[id(manifest)].append(entries)
            return _is_removal(entries)

        names = schema.names if held else ("kind", "file_name")
        return reader.sift(manifest, names, is_removal).column("file_name")

    removals = list(reader.each_decoded(changing, removed_names))
    gone = pa.concat_arrays(removals).unique() if removals else None

    def sift(manifest: ManifestFile) -> tuple[pa.RecordBatch, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        added = np.zeros(3, np.int64)

        def keep(entries: pa.RecordBatch | LazyEntries) -> Flags:
            removed = _is_removal(entries)
            added[:] += _totals(entries, ~removed)
            wanted = test(entries) | removed
            return wanted if gone is None else wanted | is_true(pc.is_in(entries.column("file_name"), gone))

        if id(manifest) in held:
            parts = [_filtered(part, keep(part)) for part in held.pop(id(manifest))]
            return one_batch(pa.Table.from_batches(parts, schema)), added
        return reader.sift(manifest, schema.names, keep), added

    found = list(reader.each_decoded(manifests, sift))
    totals = sum((added for _, added in found), np.zeros(3, np.int64))
    batches = [batch for batch, _ in found]
    if gone is None and any(_is_removal(batch).any() for batch in batches):
        return None
    entries = one_batch(pa.Table.from_batches(batches, schema))
    if gone is not None:
        alive = one_batch(live_entries([entries]))
        totals += _totals(alive) - _totals(entries, ~_is_removal(entries))
        entries = pc.filter(alive, from_numpy(test(alive)))
    return SiftedFiles(entries.select(entry_schema(frozenset(columns)).names), *totals.tolist())


def _filtered(entries: pa.RecordBatch | LazyEntries, keep: Flags) -> pa.RecordBatch:
    return entries.filter(keep).batch() if isinstance(entries, LazyEntries) else pc.filter(entries, from_numpy(keep))


def _is_removal(entries: pa.RecordBatch | LazyEntries) -> Flags:
    found: Flags = to_numpy(entries.column("kind")) == FileKind.DELETE
    return found


def _totals(
    entries: pa.RecordBatch | LazyEntries, of: Flags | None = None
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The number of some entries, or of all, their rows and their bytes."""
    rows, size = (to_numpy(entries.column(name)) for name in _TOTALS)
    if of is None or of.all():
        return np.array([entries.num_rows, rows.sum(), size.sum()], np.int64)
    return np.array([of.sum(), rows[of].sum(), size[of].sum()], np.int64)
