"""Typed access to a table's options, and whether this package can work with them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from paimon_pyds.errors import OptionError, suggest
from paimon_pyds.options.core import CORE_OPTIONS
from paimon_pyds.options.engines import ENGINE_OPTIONS
from paimon_pyds.options.option import Kind, Option, Scope, Status
from paimon_pyds.redaction import RedactedDict

OPTIONS: Mapping[str, Option] = {option.key: option for option in (*CORE_OPTIONS, *ENGINE_OPTIONS)}
"""Every option of Paimon by its key; options with a column in their key come from `dynamic_option`."""

IMMUTABLE_OPTIONS = frozenset(key for key, option in OPTIONS.items() if option.immutable)
"""Options that can't change once the table has a snapshot."""

_FALLBACKS = {old: option.key for option in OPTIONS.values() for old in option.fallbacks}
_FIELD_OPTIONS: dict[str, tuple[Kind, str, Status, bool]] = {
    # suffix: kind, meaning, status, only for primary keys
    "stats-mode": (Kind.STRING, "statistics of one column", Status.HONOURED, False),
    "aggregate-function": (Kind.STRING, "aggregate of one column", Status.HONOURED, True),
    "ignore-retract": (Kind.BOOLEAN, "retractions are dropped", Status.HONOURED, True),
    "sequence-group": (Kind.STRING, "columns ordered by this one", Status.HONOURED, True),
    "distinct": (Kind.BOOLEAN, "distinct values", Status.HONOURED, True),
    "list-agg-delimiter": (Kind.STRING, "delimiter of listagg", Status.HONOURED, True),
    "nested-key": (Kind.STRING, "key of nested rows", Status.HONOURED, True),
    "nested-key-null-strategy": (Kind.STRING, "NULL in that key", Status.HONOURED, True),
    "nested-sequence-field": (Kind.STRING, "order of nested rows", Status.HONOURED, True),
    "count-limit": (Kind.INT, "most nested rows", Status.HONOURED, True),
    "ts-field": (Kind.STRING, "time of a map entry", Status.HONOURED, True),
    "map.storage-layout": (Kind.STRING, "layout of a MAP in files", Status.REFUSED, False),
    "map.shared-shredding.max-columns": (Kind.INT, "limit of shredding", Status.IGNORABLE, False),
    "map.shared-shredding.column-placement-policy": (Kind.STRING, "way of shredding", Status.IGNORABLE, False),
}
INDEX_TYPES = ("bloom-filter", "bitmap", "bsi", "range-bitmap")
_INDEX_COLUMNS = re.compile(r"file-index\.([a-z0-9_-]+)\.columns")
_INDEX_OPTION = re.compile(r"file-index\.([a-z0-9_-]+)\.(.+)\.([a-z0-9_-]+)")
_INDEX_KINDS = {"fpp": Kind.DOUBLE, "items": Kind.LONG, "version": Kind.INT, "index-block-size": Kind.MEMORY,
                "chunk-size": Kind.MEMORY}  # fmt: skip
_PASSED_ON = ("parquet.", "orc.", "avro.", "csv.", "json.", "text.", "format-table.")


def dynamic_option(key: str) -> Option | None:
    """The option behind a key that has a column (``fields.C.…``, ``file-index.TYPE.C.…``) or a format in it."""
    if key.startswith("fields."):
        for suffix, (kind, doc, status, primary_key_only) in _FIELD_OPTIONS.items():
            if key.endswith("." + suffix) and len(key) > len("fields.." + suffix):
                why = "shredded maps can't be read here" if status is Status.REFUSED else ""
                return Option(key=key, kind=kind, default=None, doc=doc, status=status, why=why,
                              accepted=("default",), primary_key_only=primary_key_only)  # fmt: skip
    if match := _INDEX_COLUMNS.fullmatch(key):
        supported = match[1] in INDEX_TYPES
        return Option(
            key=key,
            kind=Kind.LIST,
            default=None,
            doc=f"columns with a {match[1]} index",
            status=Status.HONOURED if supported else Status.REFUSED,
            why="" if supported else f"no index of type {match[1]} can be built",
            scope=Scope.WRITE,
        )
    if match := _INDEX_OPTION.fullmatch(key):
        return Option(key=key, kind=_INDEX_KINDS.get(match[3], Kind.STRING), default=None,
                      doc=f"{match[3]} of the {match[1]} index on {match[2]}", status=Status.HONOURED)  # fmt: skip
    if key.startswith(("commit.callback.", "tag.callback.")):
        return Option(key=key, kind=Kind.STRING, default=None, doc="parameter of a Java class", status=Status.IGNORABLE,
                      why="the class can't be called from here")  # fmt: skip
    if key.startswith(_PASSED_ON):
        return Option(key=key, kind=Kind.STRING, default=None, doc="handed to the file format", status=Status.IGNORABLE,
                      why="tunes the files; what the format does not know is passed over")  # fmt: skip
    return None


def option_of(key: str) -> Option | None:
    """The option of a key, older names and keys with columns included; None for a key that is not Paimon's."""
    found = OPTIONS.get(key) or OPTIONS.get(_FALLBACKS.get(key, ""))
    return found or dynamic_option(key)


@functools.lru_cache(maxsize=512)
def _default_value(key: str) -> Any:
    """The typed default of an option of `OPTIONS` or of a dynamic one."""
    option = option_of(key)
    return None if option is None else option.default_value


class TableOptions(Mapping[str, str]):
    """The options that are set, as a mapping of texts, with typed access through `get`.

    ``options["bucket"]`` is the text that is set (KeyError when not); ``options.get("bucket")`` the typed value, the
    default when it is not set.
    """

    __slots__ = ("_raw", "_typed")

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._raw = {str(k): str(v) for k, v in (options or {}).items()}
        self._typed: dict[str, Any] = {}

    def __getitem__(self, key: str) -> str:
        return self._raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __contains__(self, key: object) -> bool:
        return key in self._raw

    def __repr__(self) -> str:
        return f"TableOptions({RedactedDict(self._raw)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (TableOptions, (self._raw,))

    def get(self, key: str, default: Any = None) -> Any:
        """The typed value (`parse_value` lists the types): what is set, else ``default``, else the option's default.

        Raises:
            OptionError: the text that is set is no value of that option, or Paimon has no such option.
        """
        if key in self._typed:
            return self._typed[key]
        option = option_of(key)
        if option is None:
            if key in self._raw:
                return self._raw[key]
            if default is not None:
                return default
            raise OptionError(f"Paimon has no option {key}", hint=suggest(key, OPTIONS, "options"))
        text = self._text(option, key)
        if text is None:
            return _default_value(option.key) if default is None else default
        value = self._typed[key] = option.parse(text)
        return value

    def is_set(self, key: str) -> bool:
        """Whether the option is set, under this name or an older one."""
        option = option_of(key)
        return key in self._raw or (option is not None and self._text(option, key) is not None)

    def _text(self, option: Option, key: str) -> str | None:
        for name in (key, option.key, *option.fallbacks):
            if name in self._raw:
                return self._raw[name]
        return None
