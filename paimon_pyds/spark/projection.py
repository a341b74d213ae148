"""Which columns a Spark read returns: all, those of the option ``columns``, or those of ``.schema(…)``, by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_pyds.base.types import DataField, RowType, arrow_type
from paimon_pyds.base.types.nested import find_name
from paimon_pyds.errors import OptionError, SchemaError, UnknownColumnError, UnsupportedError, suggest
from paimon_pyds.spark.arrow import check_castable

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)*)`|(?P<plain>[^,.`]*))\s*(?P<end>[.,]|\Z)")


def split_names(text: str) -> list[tuple[str, ...]]:
    """``a, b.c, `odd,name` `` → paths. Commas and dots inside back quotes belong to the name.
    Raises OptionError: an empty name or a back quote that is not closed."""
    paths: list[tuple[str, ...]] = []
    steps: list[str] = []
    at = 0
    while (found := _NAME.match(text, at)) is not None:
        name = found["plain"].strip() if found["quoted"] is None else found["quoted"].replace("``", "`")
        if not name:
            raise OptionError(f"an empty name in the column list {text!r}")
        steps.append(name)
        at = found.end()
        if found["end"] != ".":
            paths.append(tuple(steps))
            steps = []
        if not found["end"]:
            return paths
    raise OptionError(f"the column list {text!r} can't be read", hint="such as a, b.c, `odd,name`")


def select_columns(fields: Sequence[DataField], paths: Sequence[tuple[str, ...]]) -> tuple[DataField, ...]:
    """The fields that the option ``columns`` names, in its order; ``a.b`` keeps only member b of a.

    Several members of one column stay together, where the column was first named.
    Raises UnknownColumnError: no such column; OptionError: one named twice.
    """
    names = [f.name for f in fields]
    wanted: dict[int, list[tuple[str, ...]]] = {}
    for path in paths:
        whole = ".".join(path)
        at = find_name(names, whole) if len(path) > 1 else None
        rest: tuple[str, ...] = ()
        if at is None:
            at, rest = find_name(names, path[0]), path[1:]
        if at is None:
            hint = suggest(whole, names, "its columns")
            raise UnknownColumnError(f"columns: the table has no column {whole!r}", hint=hint)
        if at in wanted and (not rest or rest in wanted[at] or () in wanted[at]):
            raise OptionError(f"columns: {whole!r} is named twice")
        wanted.setdefault(at, []).append(rest)
    return tuple(_members(fields[at], rests) for at, rests in wanted.items())


def _members(field: DataField, paths: Sequence[tuple[str, ...]]) -> DataField:
    if () in paths:
        return field
    if not isinstance(field.type, RowType):
        raise OptionError(f"columns: {field.name!r} is {field.type}, it has no member {paths[0][0]!r}")
    return replace(field, type=replace(field.type, fields=select_columns(field.type.fields, paths)))


def resolve_schema(fields: Sequence[DataField], target: pa.Schema) -> list[str]:
    """The table columns behind the columns of ``target``, which a user's ``.schema(…)`` may have given.

    Names match exactly, else ignoring case when only one column fits; types may be wider than the table's.
    Raises SchemaError: no such column, or a type that the column can't be read as.
    """
    names = [f.name for f in fields]
    found = []
    for column in target:
        at = find_name(names, column.name)
        if at is None:
            raise SchemaError(
                f"the schema given names a column {column.name!r} that the table does not have",
                hint=f"it has {', '.join(names)}",
            )
        try:
            source = arrow_type(fields[at].type)
        except UnsupportedError as error:
            raise UnsupportedError(f"column {column.name}: {error.message}", hint=error.hint) from None
        check_castable(source, column.type, column.name, read=True)
        if names[at] in found:
            raise SchemaError(f"the schema given names column {names[at]!r} twice")
        found.append(names[at])
    return found


def check_metadata_columns(names: Sequence[str]) -> None:
    """Raise OptionError for a name that is no metadata column."""
    from paimon_pyds.metadata.split import METADATA_FIELDS

    unknown = [name for name in names if name not in METADATA_FIELDS]
    if unknown:
        raise OptionError(
            f"metadata-columns: there is no metadata column {unknown[0]!r}",
            hint=f"there are {', '.join(METADATA_FIELDS)}",
        )
