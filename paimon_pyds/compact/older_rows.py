"""What the sorted runs that a compaction leaves alone hold of the keys that it merges: a join by key, window by window.

A table that looks older versions up (`OlderVersions.looked_up`) needs them when rows leave level 0: the engine
first-row drops keys that an older run has, deletion vectors hide the version that is replaced, other engines merge it
with the newer ones. Per window of merged rows, in the order of keys, only those pages of the older files are read that
may hold one of its keys: key columns first, the others for the rows found.

(Java: classes LookupLevels, LookupChangelogMergeFunctionWrapper and FirstRowMergeFunctionWrapper.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from paimon_pyds.buffers import from_numpy, one_batch, to_numpy
from paimon_pyds.caching import cached_property
from paimon_pyds.merge.key_set import KeySet
from paimon_pyds.merge.key_values import KEY_VALUE_FIELDS, LEVEL, with_key_columns, with_key_values
from paimon_pyds.merge.older_versions import OlderVersions
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import TableOptions
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.tree import Const, Predicate, root_columns
from paimon_pyds.read.candidate_keys import read_wanted
from paimon_pyds.read.file import DEFAULT_BATCH_ROWS, ROW_INDEX
from paimon_pyds.read.live_rows import FileTrace
from paimon_pyds.split import PlannedFile, ReadSpec
from paimon_pyds.types import DataField


@dataclass(frozen=True)
class OlderRows:
    """The live rows of older runs, looked up by key. It pickles.

    Attributes:
        spec: how the files of the bucket are merged.
        files: of the runs that stay; all lie above the level that the others are merged to.
        every_key: where vectors hide older rows, look up also keys of which a merged file above level 0 has a version.
            Otherwise that one has in it what older versions hold, since it was compacted itself.
        positions: of the files, by name, which rows have been found so far.
        outdated: names of files to write anew, without their expired rows: where first rows count, these keep no newer
            ones away, so that both would be there.
    """

    spec: ReadSpec
    files: Sequence[PlannedFile]
    every_key: bool = False
    positions: dict[str, BitMap] = field(default_factory=dict)
    outdated: set[str] = field(default_factory=set)

    def added_to(self, window: pa.RecordBatch) -> pa.RecordBatch:
        """What is to be merged of a window, now that older rows of its keys are known.

        Args:
            window: as `read_windows` gives it.

        Raises:
            CorruptFileError: a file or its deletion vector is damaged.
            SnapshotNotFoundError: a file is gone.
            StorageError: a file can't be read.
        """
        first, merged = self._needs.first_counts, self._needs.merged
        if not (first or merged or self.vectors_hide):
            return window
        older = self.found(window, whole=merged)
        if older is None:
            return window
        if first:
            return window.filter(pc.invert(KeySet.of(self._keys, older).matches(window)))
        return one_batch(pa.Table.from_batches([older, window])) if merged else window

    def found(self, window: pa.RecordBatch, *, whole: bool) -> pa.RecordBatch | None:
        """The newest older row of each key of a window that has one; None where no key has. Errors as `added_to`.

        Args:
            window: as `read_windows` gives it.
            whole: give all its columns, and not the key alone.
        """
        keys, parts = self._wanted(window), list[pa.RecordBatch]()
        for run in self._runs:
            rows = [rows for file in run if len(keys) for rows in self._rows(keys, file, window, whole=whole)]
            if rows:
                parts.append(one_batch(pa.Table.from_batches(rows)))
                keys = _without(keys, parts[-1])
        return one_batch(pa.Table.from_batches(parts)) if parts else None

    @property
    def outdated_files(self) -> dict[int, PlannedFile]:
        """The outdated files by their numbers among `files`."""
        return {number: file for number, file in enumerate(self.files) if file.name in self.outdated}

    @property
    def _schema(self) -> TableSchema:
        assert self.spec.merging is not None
        return self.spec.merging.schema

    @cached_property
    def _needs(self) -> OlderVersions:
        return OlderVersions.of(TableOptions(self._schema.options))

    @property
    def vectors_hide(self) -> bool:
        """Whether deletion vectors hide older rows of keys that have newer ones."""
        return self._needs.hidden

    @cached_property
    def _stays(self) -> Predicate:
        """What first rows meet that have not expired; older rows of other engines are what they are."""
        assert self.spec.merging is not None
        return self.spec.merging.filter.before if self._needs.first_counts else Const.TRUE

    @cached_property
    def _keys(self) -> tuple[DataField, ...]:
        return tuple(self._schema.field(name) for name in self._schema.trimmed_primary_keys)

    @cached_property
    def _runs(self) -> list[list[PlannedFile]]:
        """The files of each level, the lowest and so the newest first."""
        by_level: dict[int, list[PlannedFile]] = {}
        for file in self.files:
            assert file.run is not None
            by_level.setdefault(file.run.level, []).append(file)
        return [by_level[level] for level in sorted(by_level)]

    def _wanted(self, window: pa.RecordBatch) -> KeySet:
        """The keys to look up."""
        above = to_numpy(window.column(LEVEL)) > 0
        if (self.every_key and self.vectors_hide) or not above.any():
            return KeySet.of(self._keys, window)
        wanted = KeySet.of(self._keys, window.filter(from_numpy(~above)))
        return _without(wanted, window.filter(from_numpy(above)))

    def _rows(
        self, keys: KeySet, file: PlannedFile, window: pa.RecordBatch, *, whole: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file, with the columns of a window, or the key alone."""
        wanted = window.schema.names if whole else [*(key.name for key in self._keys), *root_columns(self._stays)]
        spec = replace(
            self.spec,
            schemas=with_key_values(self.spec.schemas),
            fields=tuple(field for field in (*self._schema.fields, *KEY_VALUE_FIELDS) if field.name in wanted),
            metadata_columns=(ROW_INDEX,),
            merging=None,
        )
        assert file.run is not None
        for rows in read_wanted(spec, keys, file, FileTrace(file.path, file.row_count), DEFAULT_BATCH_ROWS):
            positions = BitMap(to_numpy(rows.column(ROW_INDEX)).astype(np.uint32))
            self.positions[file.name] = self.positions.get(file.name, BitMap()) | positions
            if not whole:
                stay = matches(self._stays, rows)
                if not pc.all(stay).as_py():
                    self.outdated.add(file.name)
                yield rows.filter(stay).select([key.name for key in self._keys])
                continue
            keyed = with_key_columns(rows, self._schema.trimmed_primary_keys)
            keyed = keyed.append_column(LEVEL, from_numpy(np.full(rows.num_rows, file.run.level, np.int32)))
            yield pa.RecordBatch.from_arrays([keyed.column(name) for name in wanted], schema=window.schema)


def _without(keys: KeySet, rows: pa.RecordBatch) -> KeySet:
    """The keys that no row has."""
    own = pa.RecordBatch.from_arrays(list(keys.columns), names=[field.name for field in keys.fields])
    left = own.filter(pc.invert(KeySet.of(keys.fields, rows).matches(own)))
    return KeySet(keys.fields, tuple(left.columns))
