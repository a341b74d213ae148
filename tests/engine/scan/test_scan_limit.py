"""Files that a limit leaves out of a plan."""

from __future__ import annotations

from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.planned_file import PlannedFile, SortedRun
from paimon_pyds.metadata.split import Files


def _file(name: str, rows: int, section: int = 0, *, merged: bool = False) -> PlannedFile:
    run = SortedRun(0, (b"", b""), merged, section)
    return PlannedFile(name, 100, rows, 0, PartitionBucket(b"", 0), run=run)


def _names(files: Files) -> str:
    return "".join(file.path for file in files.made)


def test_files_that_are_merged_stay_together() -> None:
    """One of them alone could give out rows that the other has newer versions of."""
    files = Files((_file("a", 5, 1, merged=True), _file("b", 5, 2), _file("c", 5, 1, merged=True), _file("d", 5, 3)))
    kept, rest = files.first(1)
    assert (_names(kept), _names(rest)) == ("b", "dac")
    kept, rest = files.first(10)
    assert (_names(kept), _names(rest)) == ("bd", "ac")
    kept, rest = files.first(11)
    assert (_names(kept), _names(rest)) == ("bdac", "")


def test_no_file_for_no_row() -> None:
    files = Files((_file("a", 5),))
    assert files.first(0) == (Files(()), files)
