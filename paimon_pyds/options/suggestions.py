"""Names like the one that was not found."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["suggest"]


def suggest(name: str, known: Iterable[str], what: str) -> str | None:
    """``did you mean …`` for similar names, else a list of a few; None when there is no name."""
    import difflib

    names = sorted(set(known))
    if not names:
        return None
    folded = {n.lower(): n for n in names}
    similar = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    if similar:
        return f"did you mean {' or '.join(folded[n] for n in similar)}?"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{what}: {', '.join(names[:8])}{more}"
