"""Comparisons of CHAR(n) columns: blanks at the end don't count, whatever files hold.

Source: Spark's rule ApplyCharTypePadding, by which both sides are compared as if filled with blanks to the longer
length. Files hold CHAR values with those blanks (Spark and Hive write them) or without (Flink, ORC's readers, this
package), so a comparison becomes one with all the forms that equal values can have. Indexes, statistics and buckets
then answer it as they answer any other.
"""

from __future__ import annotations

from collections.abc import Iterable

from paimon_pyds.errors import PredicateError
from paimon_pyds.predicate.tree import ColumnRef, Leaf, Op, Predicate, make_and, make_or
from paimon_pyds.types import AtomicType

__all__ = ["compare_char"]

_MAX_TEXT = 64 << 20
"""Characters that all forms of the texts of a comparison may have together."""


def compare_char(op: Op, column: ColumnRef, texts: Iterable[str], type_: AtomicType) -> Predicate:
    """A comparison of a CHAR(n) column with a text, or [NOT] IN with several.

    Values have n characters at most. Bound again, the tree stays the same.

    Raises:
        PredicateError: the column is so long, or the texts are so many, that there are too many forms.
    """
    bare = sorted({text.rstrip(" ") for text in texts})
    length = max(type_.length or 1, *map(len, bare))
    equal = _forms(bare, length)
    if op in (Op.EQ, Op.NE, Op.IN, Op.NOT_IN):
        return _among(op in (Op.EQ, Op.IN), column, equal)
    # Filled with blanks, texts compare as they are, but for those that the longest form begins with: they equal it, or
    # are greater than it where a control character follows, which is less than a blank.
    (text,) = bare
    longest = text.ljust(length)
    beginnings = {text[:at].rstrip(" ") for at, char in enumerate(text) if char < " "}
    greater = [form for form in _forms(sorted(beginnings), length) if form < longest]
    bound = Leaf(Op.LE if op in (Op.LT, Op.LE) else Op.GT, column, (longest,))
    others = greater if op in (Op.LE, Op.GT) else [*equal, *greater]
    if not others:
        return bound
    listed = _among(bound.op is Op.GT, column, others)
    return make_or(bound, listed) if bound.op is Op.GT else make_and(bound, listed)


def _forms(bare: list[str], length: int) -> list[str]:
    """The texts with each number of blanks behind them that a length has room for."""
    if sum((length + len(text)) * (length - len(text) + 1) for text in bare) > 2 * _MAX_TEXT:
        raise PredicateError(
            f"values of CHAR({length}) may have too many different numbers of blanks at their end to be compared with "
            f"{'a text' if len(bare) == 1 else f'{len(bare):,} texts'}",
            hint="change the column's type to VARCHAR or STRING, or compare with fewer texts",
        )
    return [text + " " * blanks for text in bare for blanks in range(length - len(text) + 1)]


def _among(inside: bool, column: ColumnRef, forms: list[str]) -> Leaf:
    if len(forms) == 1:
        return Leaf(Op.EQ if inside else Op.NE, column, tuple(forms))
    return Leaf(Op.IN if inside else Op.NOT_IN, column, tuple(sorted(forms)))
