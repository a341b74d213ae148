"""Asking the file indexes that lie in manifest entries which files, and which of their rows, may match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import is_true
from paimon_pyds.index.evaluate import open_embedded_index
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.predicate.show import to_sql
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.scan.index_answer import IndexAnswer, index_answers
from paimon_pyds.scan.planned_files import FileKey
from paimon_pyds.scan.result import SkippedFile

__all__ = ["EmbeddedAnswers", "ask_embedded"]

STEP = "embedded index"


@dataclass(slots=True)
class EmbeddedAnswers:
    """What the embedded indexes of some entries said.

    Attributes:
        keep: which entries may hold a match.
        selections: by bucket and file name the positions that may match, as a portable roaring bitmap.
        rows_left_out: how many rows of the kept files can't match.
        skips: the files that are left out.
        index_answers: what was said of kept files, by file name; only for an explanation.
    """

    keep: npt.NDArray[np.bool_]
    selections: dict[FileKey, bytes] = field(default_factory=dict)
    rows_left_out: int = 0
    skips: list[SkippedFile] = field(default_factory=list)
    index_answers: dict[str, tuple[IndexAnswer, ...]] = field(default_factory=dict)


def ask_embedded(
    entries: pa.RecordBatch,
    predicate: Predicate,
    devolved: Callable[[int], Predicate],
    *,
    explain: bool = False,
) -> EmbeddedAnswers:
    """The answers of the entries' embedded indexes; entries without one are kept whole.

    Args:
        entries: manifest entries.
        predicate: the filter, for messages.
        devolved: the filter in terms of the file of an entry, by the entry's row.
        explain: note what the indexes said.

    Raises:
        CorruptFileError: an index is damaged.
    """
    embedded = entries.column("embedded_index")
    answers = EmbeddedAnswers(np.ones(entries.num_rows, dtype=bool))
    wanted = ("partition", "bucket", "file_name", "row_count", "file_size")
    for row in np.flatnonzero(is_true(embedded.is_valid())).tolist():
        partition, bucket, name, rows, size = (entries.column(c)[row].as_py() for c in wanted)
        with open_embedded_index(embedded[row].as_py(), name) as index:
            result = index.evaluate(devolved(row), rows)
        said = index_answers(result.trace, rows) if explain else ()
        if result.selection.is_none:
            answers.keep[row] = False
            answers.skips.append(SkippedFile(name, rows, size, to_sql(predicate, shorten=True), STEP, said))
            continue
        if result.selection.positions is not None:
            answers.selections[PartitionBucket(partition, bucket), name] = result.selection.positions.serialize()
            answers.rows_left_out += rows - result.selection.count(rows)
        if explain:
            answers.index_answers[name] = said
    return answers
