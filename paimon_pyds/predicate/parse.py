"""Text to a predicate of names and literals, for what statistics and indexes can answer."""

from __future__ import annotations

from paimon_pyds.predicate.normal_form import normal_form
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.sql.lexer import SqlText
from paimon_pyds.sql.parser import parse

__all__ = ["parse_filter"]


def parse_filter(text: str, *, timezone: str = "UTC") -> Predicate:
    """Parse a filter that compares columns of one table with literals: what indexes are made for.

    Args:
        text: the condition of a WHERE clause in Spark SQL; at most 16 Mi characters, an empty text is an error.
        timezone: zone of TIMESTAMP literals that name none: ``UTC``, ``+01:00``, ``Europe/Berlin``.

    Returns:
        A tree of names and `Literal`s in negation normal form, not simplified: give it to `bind`.

    Raises:
        PredicateError: the text is not a condition, or rows alone can answer it; the message has the line with a caret
            under the place. `paimon_pyds.expression.bind_filter` takes every condition.
    """
    source = SqlText(text)
    return normal_form(parse(source, timezone=timezone), source, timezone)
