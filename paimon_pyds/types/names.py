"""Names of columns: those that people write, spelled exactly or in other case, and those that Paimon reserves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paimon_pyds.types.model import DataField

__all__ = ["fields_named", "is_system_name", "positions_named"]

_SYSTEM_NAMES = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID"})


def positions_named(wanted: str, names: Iterable[str]) -> list[int]:
    """Where a name stands: spelled exactly, or else wherever it differs in case only. More than one are ambiguous."""
    names = list(names)
    if wanted in names:
        return [names.index(wanted)]
    return [i for i, name in enumerate(names) if name.casefold() == wanted.casefold()]


def fields_named(wanted: str, fields: Sequence[DataField]) -> list[DataField]:
    """The fields of a name: see `positions_named`."""
    return [fields[i] for i in positions_named(wanted, (field.name for field in fields))]


def is_system_name(name: str) -> bool:
    """Whether Paimon reserves a name for a column of its own (source: Java Paimon, class SpecialFields)."""
    return name in _SYSTEM_NAMES or name.startswith("_KEY_")
