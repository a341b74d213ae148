"""Which files of a table with ``pk-clustering-override`` a compaction writes anew.

All files of level 0 are taken in: their rows get a place among those that are sorted by the clustering columns, and
deletion vectors hide the versions that they replace. Above level 0 one version of a key is live at most, so that ages
don't matter there: files are merged to have fewer that overlap, the smallest first. Java merges all that overlap in
each compaction (class ClusteringFileRewriter), which writes most rows again and again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, to_numpy
from paimon_pyds.base.row import columns_of
from paimon_pyds.engine.compact.universal import LevelFile, RewritePlan, Run, UniversalRules
from paimon_pyds.engine.write.clustered_run import LEVEL
from paimon_pyds.keys.merge.files_to_merge import clustering_fields
from paimon_pyds.keys.merge.order_codes import order_codes
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore


def clustered_steps(
    files: Sequence[LevelFile], rules: UniversalRules, *, full: bool, deleted_share: float
) -> RewritePlan | None:
    """What a compaction rewrites of a bucket: first the files of level 0, if there are some, then others; None for
    nothing.

    ``files``: of the bucket, with the ranges that `cluster_ranges` gives. ``full``: leave one sorted run without
    deleted rows. ``deleted_share``: of a file's rows, above which it is written without them in any case.
    """
    fresh = tuple(file for file in files if not file.level)
    older = [file for file in files if file.level]
    chosen = _all_of(older, rules, merge=bool(fresh)) if full else _some_of(older, fresh, rules, deleted_share)
    if not fresh and not chosen:
        return None
    stay = tuple(file for file in older if file not in chosen)
    rewrites = ((fresh,),) if fresh else ()
    return RewritePlan(LEVEL, LEVEL, True, (*rewrites, *(((file,),) for file in chosen)), (), stay)


def _all_of(older: Sequence[LevelFile], rules: UniversalRules, *, merge: bool) -> list[LevelFile]:
    """The files that a full compaction rewrites. ``merge``: rows of others come in among theirs."""
    if merge or len(_runs(older, 0)) > 1:
        return list(older)
    return [file for file in older if rules.rewrite_all or file.loses_rows or file.has_deletes]


def _some_of(
    older: Sequence[LevelFile], fresh: Sequence[LevelFile], rules: UniversalRules, deleted_share: float
) -> list[LevelFile]:
    """The files of the smallest runs, while there are too many runs, or the next one is not much larger than all
    before; and those that have lost many rows."""
    runs = sorted(_runs(older, rules.small_size), key=_size)
    size, count, extra = _size(fresh), 0, bool(fresh)
    many = len(runs) + extra >= rules.trigger
    while count < len(runs):
        left = len(runs) - count + (extra or count > 0)
        if left <= rules.trigger and not (many and size * (100.0 + rules.size_ratio) / 100.0 >= _size(runs[count])):
            break
        size += _size(runs[count])
        count += 1
    chosen = [file for run in runs[: count if count > 1 or fresh else 0] for file in run]
    dirty = (file for file in older if file.deleted > deleted_share * file.rows)
    return [*chosen, *(file for file in dirty if file not in chosen)]


def _size(run: Sequence[LevelFile]) -> int:
    return sum(file.size for file in run)


def _runs(files: Sequence[LevelFile], small_size: int) -> list[Run]:
    """Files in runs of which none overlaps another but by the values at their ends, as few runs as that takes. A file
    below ``small_size`` bytes is one by itself, so that small ones don't stay."""
    runs: list[list[LevelFile]] = []
    small = [(file,) for file in files if file.size < small_size]
    for file in sorted((f for f in files if f.size >= small_size), key=lambda f: f.key_range):
        run = next((run for run in runs if run[-1].key_range[1] <= file.key_range[0]), None)
        if run is None:
            runs.append([file])
        else:
            run.append(file)
    return [*small, *map(tuple, runs)]


def cluster_ranges(entries: pa.RecordBatch, schema: TableSchema, store: TableStore) -> npt.NDArray[np.int64]:
    """Numbers that compare as the least and the greatest clustering values of files do, in two rows.

    Files on level 0, which have none, have the range of all files; so do the others where a column's type was changed,
    or a value is not known here.

    Raises CorruptFileError: a row of values is damaged.
    """
    fields = clustering_fields(schema)
    ranges = np.tile(np.array([[-1], [2 * entries.num_rows]], np.int64), entries.num_rows)
    at = np.flatnonzero(to_numpy(entries.column("level")) > 0)
    for id_ in entries.column("schema_id").take(array(at)).unique().to_pylist():
        types = {field.id: field.type.with_nullable(True) for field in store.schema(id_).fields}
        if any(types.get(field.id) != field.type.with_nullable(True) for field in fields):
            return ranges
    ends = pa.concat_arrays([entries.column(name).take(array(at)) for name in ("min_key", "max_key")])
    decoded = list(map(columns_of(ends, [field.type for field in fields], arity=True), range(len(fields))))
    if len(at) and not any(column.unknown is not None for column in decoded):
        codes = np.unique(order_codes([column.values for column in decoded]), return_inverse=True)[1]
        ranges[:, at] = codes.reshape(2, -1)
    return ranges
