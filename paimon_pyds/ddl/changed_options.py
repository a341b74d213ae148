"""Table options when a table is altered: which may change, and how those follow that name renamed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import IMMUTABLE_OPTIONS, TableOptions

__all__ = ["changed_options", "renamed_options"]

_TRUE_STAYS = ("ignore-delete", "ignore-update-before")


def renamed_options(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Options that name columns, with the new names of those that were renamed."""
    if not names:
        return dict(options)
    result = {}
    for key, value in options.items():
        parts = key.split(".")
        if parts[0] == "fields" and len(parts) > 2:
            inner = ",".join(names.get(c, c) for c in parts[1].split(","))
            key = ".".join(("fields", inner, *parts[2:]))
            if parts[-1] in ("sequence-group", "nested-key"):
                value = ",".join(names.get(c.strip(), c.strip()) for c in value.split(","))
        elif parts[0] == "file-index" and parts[-1] == "columns":
            value = ",".join(_renamed_index(part, names) for part in value.split(","))
        elif parts[0] == "file-index" and len(parts) > 3:
            column = _renamed_index(".".join(parts[2:-1]), names)
            key = ".".join((*parts[:2], column, parts[-1]))
        elif key in ("bucket-key", "sequence.field", "rowkind.field", "record-level.time-field", "clustering.columns"):
            value = ",".join(names.get(c.strip(), c.strip()) for c in value.split(","))
        result[key] = value
    return result


def _renamed_index(column: str, names: Mapping[str, str]) -> str:
    name, bracket, key = column.strip().partition("[")
    return names.get(name, name) + bracket + key


def changed_options(
    options: dict[str, str],
    schema: TableSchema,
    set_options: Mapping[str, str],
    unset_options: Sequence[str],
    *,
    has_snapshots: bool,
) -> dict[str, str]:
    """The options after some are unset, then others set.

    Args:
        options: those before; they are changed in place.
        schema: the one before.
        set_options: new values.
        unset_options: names of options that get their defaults again.
        has_snapshots: whether the table may hold data, which some options must keep describing.

    Raises:
        OptionError: an option that can't be changed (any more).
    """
    for key in unset_options:
        fixed = key == "type" or (has_snapshots and (key in IMMUTABLE_OPTIONS or key == "bucket"))
        if fixed and key in options:
            raise OptionError(f"option {key} can't be reset", hint=_why_fixed(key))
        if key in options and has_snapshots:
            _check_transition(key, options, None)
        options.pop(key, None)
    for key, value in set_options.items():
        if options.get(key) == value or _is_normalised(key, value, schema):
            continue
        if key in ("path", "type", "primary-key", "partition"):
            raise OptionError(f"option {key} of a table can't be changed", hint="create another table")
        if has_snapshots:
            if key in IMMUTABLE_OPTIONS:
                raise OptionError(f"option {key} can't be changed", hint=_why_fixed(key))
            _check_transition(key, options, value)
        options[key] = value
    return options


def _why_fixed(key: str) -> str:
    return "the table has data that was written with it" if key != "type" else "create another table"


def _is_normalised(key: str, value: str, schema: TableSchema) -> bool:
    """Whether an option says what the schema says already."""
    named = tuple(part.strip() for part in value.split(",") if part.strip())
    if key == "primary-key":
        return named == schema.primary_keys
    if key == "partition":
        return named == schema.partition_keys
    return key == "type" and value.lower() == schema.options.get("type", "table").lower()


def _check_transition(key: str, options: Mapping[str, str], value: str | None) -> None:
    """Changes of value that would make the data of a table that has some unreadable."""
    before = TableOptions(options).get(key) if key in ("bucket", "deletion-vectors.enabled", *_TRUE_STAYS) else None
    if key == "bucket":
        after = TableOptions({"bucket": value or "-1"}).get("bucket")
        if before == -1 or after == -1:
            raise OptionError(f"bucket can't be changed from {before} to {after}", hint=_why_fixed(key))
    elif key == "deletion-vectors.enabled":
        after = TableOptions({key: value or "false"}).get(key)
        if before != after and not TableOptions(options).get("deletion-vectors.modifiable"):
            raise OptionError(
                f"deletion-vectors.enabled can't be changed from {str(before).lower()} to {str(after).lower()}: "
                "rows could come twice",
                hint="compact the table fully and set deletion-vectors.modifiable=true to allow it",
            )
    elif key in _TRUE_STAYS and before and not TableOptions({key: value or "false"}).get(key):
        raise OptionError(f"option {key} can't be changed from true to false")
