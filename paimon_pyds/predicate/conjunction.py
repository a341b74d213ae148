"""ANDs of bound conditions, which may be very many, as programs write them."""

from __future__ import annotations

from paimon_pyds.predicate.disjunction import MANY
from paimon_pyds.predicate.tree import And, Predicate, make_and


def all_of(*children: Predicate) -> Predicate:
    """AND of bound predicates; very many that each leave out a few values become few."""
    found = make_and(*children)
    if not isinstance(found, And) or len(found.children) <= MANY:
        return found
    from paimon_pyds.predicate.long_ands import gathered  # most filters are short

    return make_and(*gathered(found.children))
