"""What Java Paimon's readers say of an index container: REMAIN, SKIP or positions, told apart as Java tells them.

For a reader of rows an empty set of positions and SKIP are one; here they are two, as in Java: SKIP is what a bloom
filter or an EMPTY index says, no positions is what the other indexes say. An AND ends at the first child that leaves no
row, and what that child said is its answer. Where Java goes by the order of a hash table (indexes of one column, and
conjunctions of three or more, which it groups by column) the order here is that of writing, and positions come first.
"""

from __future__ import annotations

from dataclasses import dataclass

from paimon_pyds.index.config import BITMAP, BSI, RANGE_BITMAP
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.predicate.tree import And, Const, Leaf, Or, Predicate
from paimon_pyds.selection import RowSelection

__all__ = ["java_answer"]

_WITH_POSITIONS = frozenset({BITMAP, BSI, RANGE_BITMAP})


@dataclass(frozen=True, slots=True)
class _Said:
    selection: RowSelection
    skip: bool = False


def java_answer(index: FileIndex, predicate: Predicate, row_count: int) -> str | list[int]:
    """``"REMAIN"``, ``"SKIP"``, or positions, ascending.

    Where Java 1.4 loses rows the answer is ours: floats compared with a zero, timestamps finer than their keys, IS NULL
    by a range bitmap of nothing but nulls.

    Args:
        index: the container.
        predicate: bound to the file's own schema.
        row_count: rows of the data file.

    Raises:
        CorruptFileError: an index is damaged, or is of a file with another number of rows.
    """
    said = _tree(index, predicate, row_count)
    if said.selection.is_all:
        return "REMAIN"
    positions: list[int] = said.selection.to_array(row_count).tolist()
    return "SKIP" if said.skip else positions


def _tree(index: FileIndex, predicate: Predicate, row_count: int) -> _Said:
    match predicate:
        case Leaf():
            return _leaf(index, predicate, row_count)
        case And(children):
            said = _Said(RowSelection.ALL)
            for child in children:
                answer = _tree(index, child, row_count)
                said = _Said(said.selection & answer.selection, said.skip or answer.skip)
                if said.selection.is_none:
                    break
            return said
        case Or(children):
            said = _Said(RowSelection.NONE, skip=True)
            for child in children:
                answer = _tree(index, child, row_count)
                said = _Said(said.selection | answer.selection, said.skip and answer.skip)
            return said
    return _Said(RowSelection.ALL) if predicate is Const.TRUE else _Said(RowSelection.NONE, skip=True)


def _leaf(index: FileIndex, leaf: Leaf, row_count: int) -> _Said:
    result = index.evaluate(leaf, row_count, extended=False)
    by_positions = any(t.index_type in _WITH_POSITIONS and t.result.is_none for t in result.trace)
    return _Said(result.selection, result.selection.is_none and not by_positions)
