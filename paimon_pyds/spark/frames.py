"""What is done with DataFrames besides reading: the Python spelling of ``df.write``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from paimon_pyds.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write"]

_NAME_LISTS = frozenset({"partition_by", "primary_key", "operation_keys"})


def write(
    df: DataFrame, path: str, mode: str = "append", options: Mapping[str, Any] | None = None, **settings: Any
) -> None:
    """Write a DataFrame into the table at a path, which is made when it is missing.

    It is ``df.write.format("paimon_pyds").mode(mode).option(…).save(path)`` with Python values: True instead of "true",
    lists of columns, a mapping for ``overwrite_partition``.

    Args:
        df: classic or Connect; the format must be known to its session (see `paimon_pyds.register`).
        path: where the table is.
        mode: ``append`` or ``overwrite``.
        options: options by their own names, such as ``{"file-index.bitmap.columns": "carrier"}``.
        settings: options spelled the Python way: ``partition_by=["month"]`` is ``partition-by``.

    Raises:
        OptionError: another mode, or a value that is no option's value. What the write itself refuses comes from Spark.
    """
    if mode not in ("append", "overwrite"):
        raise OptionError(f"mode is 'append' or 'overwrite', not {mode!r}")
    named = {name.replace("_", "-"): _text(name, value) for name, value in settings.items() if value is not None}
    given = {name: _text(name, value) for name, value in (options or {}).items() if value is not None}
    twice = sorted(named.keys() & given.keys())
    if twice:
        raise OptionError(f"{twice[0]} is given twice")
    writer = df.write.format("paimon_pyds").mode(mode)
    for name, value in {**named, **given}.items():
        writer = writer.option(name, value)
    writer.save(path)


def _text(name: str, value: Any) -> str:
    """An option's value as Spark carries it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Mapping):
        return ",".join(f"{_quoted(str(key))}={_partition_value(part)}" for key, part in value.items())
    if isinstance(value, Iterable):
        parts = [str(part) for part in value]
        if name in _NAME_LISTS:
            parts = [_quoted(part) for part in parts]
        return ",".join(parts)
    raise OptionError(f"{name}: {type(value).__name__} is not a value of an option", hint="give text, numbers or lists")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`" if set(name) & set(",.`=' ") else name


def _partition_value(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + str(value).replace("'", "''") + "'"
