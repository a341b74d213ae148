"""A report on the effect of each option of a table; and the spelling of option keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.base.options.option import Option, Scope, Status
from paimon_pyds.base.options.table_options import OPTIONS, SchemaLike, TableOptions, option_of
from paimon_pyds.base.secrets import holds_secret, names_secret, shown
from paimon_pyds.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa


_ACTIONS = {Scope.READ: "reading", Scope.WRITE: "writing", Scope.APPEND: "appending"}


def describe_options(schema: SchemaLike) -> pa.Table:
    """Every option of Paimon and every key that the table sets, as an Arrow table.

    Columns: key, value (what is set, else the default), default, set (bool), status (honoured, ignorable, refused or
    unknown, of that value), why. Keys that are set come first; secrets that the table holds are blanked.
    """
    import pyarrow as pa

    from paimon_pyds.base.arrays import array

    rows = list(_described(schema))
    names = ("key", "value", "default", "set", "status", "why")
    types = (pa.string(), pa.string(), pa.string(), pa.bool_(), pa.string(), pa.string())
    columns = [array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]
    return pa.table(columns, names=list(names))


def _described(schema: SchemaLike) -> Iterator[tuple[str, str | None, str | None, bool, str, str]]:
    typed = TableOptions(schema.options)
    for key in sorted(typed):
        option = option_of(key)
        if option is None:
            why = "not an option of Paimon; it stays in the schema and has no effect"
            if names_secret(key) or holds_secret(typed[key]):
                why = "a secret that every reader of the table can read: unset it, and give it as a storage option"
            yield key, shown(key, typed[key]), None, True, Status.UNKNOWN.value, why
        else:
            status, why = _status(option, typed[key], schema)
            yield key, shown(key, typed[key]), option.default, True, status.value, why
    for key in sorted(OPTIONS):
        if key not in typed:
            option = OPTIONS[key]
            status, why = _status(option, option.default, schema)
            yield key, option.default, option.default, False, status.value, why


def _status(option: Option, text: str | None, schema: SchemaLike) -> tuple[Status, str]:
    if option.primary_key_only and not schema.primary_keys:
        return Status.IGNORABLE, "matters for tables with a primary key only"
    try:
        if text is not None:
            option.parse(text)
    except OptionError as error:
        return Status.REFUSED, error.message
    if option.status is not Status.REFUSED:
        return option.status, option.why
    if text is None or option.accepts(text):
        return Status.HONOURED, f"other values are refused: {option.why or 'a table is not written with them yet'}"
    why = option.why or "not supported yet"
    return Status.REFUSED, f"{why} (when {_ACTIONS[option.scope]})"


def restore_case(options: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    """Options whose keys were lower-cased on the way (Spark does it), with the case of Paimon's keys and of columns.
    Raises OptionError: a key could mean two columns."""
    by_key = {key.lower(): key for key in OPTIONS}
    by_column: dict[str, list[str]] = {}
    for name in columns:
        by_column.setdefault(name.lower(), []).append(name)
    restored = {}
    for key, value in options.items():
        lower = key.lower()
        if lower in by_key:
            restored[by_key[lower]] = value
        else:
            restored[_restored(key, by_column)] = value
    return restored


def _restored(key: str, columns: Mapping[str, Sequence[str]]) -> str:
    """A key with a column in it (``fields.C.opt``, ``file-index.type.C.opt``) with that column's own case."""
    parts = key.split(".")
    start = 1 if parts[0].lower() == "fields" else 2 if parts[0].lower() == "file-index" else len(parts)
    for stop in range(len(parts) - 1, start, -1):
        inner = ".".join(parts[start:stop])
        name, bracket, rest = inner.partition("[")
        candidates = columns.get(name.lower(), ())
        if len(candidates) > 1 and name not in candidates:
            raise OptionError(f"option {key} could mean column {' or '.join(candidates)}", hint="rename one of them")
        if candidates:
            own = name if name in candidates else candidates[0]
            return ".".join((*parts[:start], own + bracket + rest, *parts[stop:]))
    return key
