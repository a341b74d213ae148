"""The columns of rows that are joined from several files, each under a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from paimon_pyds.base.cache import ByIdentity
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.vectors import stored_fields


class JoinedColumns(NamedTuple):
    """The columns of rows that are joined from several files.

    Attributes:
        fields: all of them, each under a name of its own: that of its file's schema, unless another one has it.
        of_part: for each file the columns that are read from it, as ``fields`` has them and as the file has them.
    """

    fields: tuple[DataField, ...]
    of_part: tuple[tuple[tuple[DataField, DataField], ...], ...]


_JOINED = ByIdentity[JoinedColumns]()


def joined_columns(schemas: Sequence[tuple[DataField, ...]], supplied: Sequence[tuple[str, ...]]) -> JoinedColumns:
    """The columns of rows whose parts are in several files. ``schemas``: of each file, the columns of its schema;
    ``supplied``: the names of those that are read from it."""
    return _JOINED.get(tuple(schemas), tuple(supplied), lambda: _joined(schemas, supplied))


def _joined(schemas: Sequence[tuple[DataField, ...]], supplied: Sequence[tuple[str, ...]]) -> JoinedColumns:
    taken: set[str] = set()
    parts = []
    for fields, names in zip(schemas, supplied, strict=True):
        columns = []
        for own in stored_fields(fields):
            if own.name not in names:
                continue
            name = own.name
            while name in taken:
                name = f"{name}#{own.id}"
            taken.add(name)
            columns.append((own if name == own.name else replace(own, name=name), own))
        parts.append(tuple(columns))
    return JoinedColumns(tuple(joined for part in parts for joined, _ in part), tuple(parts))
