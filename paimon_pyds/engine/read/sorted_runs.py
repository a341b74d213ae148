"""The sorted runs of a section, and what manifests say of the sequence numbers in them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.format import by_path
from paimon_pyds.keys.merge.files_to_merge import rank_keys
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema


def sorted_runs(files: Sequence[PlannedFile], schema: TableSchema) -> list[list[int]]:
    """The numbers of the files of each sorted run of one section, the oldest run first.

    Where snapshots order rows, files of one snapshot come by their names: a writer numbers its own.
    """
    files_of: dict[tuple[int, int, int, str], list[int]] = {}  # a level above 0 is one run, older the higher it is
    for number, file in enumerate(files):
        assert file.run is not None
        level, name = file.run.level, "" if file.ordered_by is None else file.name
        run = (-level, 0, 0, "") if level else (0, file.sequence_number or 0, len(name) or number, name)
        files_of.setdefault(run, []).append(number)
    runs = [files_of[key] for key in sorted(files_of)]
    ranges = [file.run.key_range for file in files if file.run is not None and file.run.key_range is not None]
    if len(runs) < len(files) == len(ranges):
        least = array([low for low, _ in ranges], pa.binary())
        ranks = rank_keys(least, schema)
        if ranks is not None:
            runs = [sorted(run, key=ranks.__getitem__) for run in runs]
    return runs


def sequence_gaps(files: Sequence[PlannedFile], runs: Sequence[Sequence[int]]) -> dict[str, tuple[int, int]]:
    """Where all sequence numbers of a run are greater than those of older ones: then they need not be read.

    ``files``: of one section. ``runs``: the oldest first.

    Returns:
        by the path of each file the last number of older runs, and the first one of newer runs; empty where manifests
        don't say that runs follow one another, or files don't say what numbers they have.
    """
    ranges = [file.run.sequence_range for file in files if file.run is not None and file.run.sequence_range]
    if len(ranges) < len(files) or not all(by_path(file.path).traits.has_statistics for file in files):
        return {}
    first = [min(ranges[number][0] for number in run) for run in runs]
    last = [max(ranges[number][1] for number in run) for run in runs]
    if any(older >= newer for older, newer in zip(last[:-1], first[1:], strict=True)):
        return {}
    ends = zip([-(2**63), *last[:-1]], [*first[1:], 2**63 - 1], runs, strict=True)
    return {files[number].path: (low, high) for low, high, run in ends for number in run}
