"""Which files outside of a table's directory its metadata may name (option ``data-file.external-paths``).

A manifest is a file like any other: who can write one could have a reader open whatever the reader may. So the path of
such a file has to lie below a directory that the table's own options name, in any version of its schema, or that the
caller allows by the storage option ``external-paths.allow``. Options lie in the table too: those who open tables of
people they do not trust set ``external-paths.trust-table`` to false, and then only what they allow themselves counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_pyds.errors import OptionError
from paimon_pyds.options.option import Kind, parse_value
from paimon_pyds.storage import normalise_location

if TYPE_CHECKING:
    from paimon_pyds.metadata.paths import TablePaths
    from paimon_pyds.metadata.store import TableStore

__all__ = ["ALLOW", "TRUST", "ExternalPaths", "file_paths", "is_absolute", "lies_below"]

_PREFIX = "external-paths."
_MAIN = "main"
ALLOW = f"{_PREFIX}allow"
"""The storage option with directories, separated by commas, whose files tables may name."""
TRUST = f"{_PREFIX}trust-table"
"""The storage option that says whether the directories that a table's own options name count; true by default."""

_OPTION = "data-file.external-paths"
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, slots=True)
class ExternalPaths:
    """What the caller allows: directories, and whether those of the table's options count too."""

    allowed: tuple[str, ...] = ()
    trust_table: bool = True

    @classmethod
    def of(cls, storage_options: Mapping[str, str] | None) -> ExternalPaths:
        """What storage options say. Raises OptionError for a directory that is none, and for an unknown option."""
        given = {k: str(v) for k, v in (storage_options or {}).items() if k.lower().startswith(_PREFIX)}
        for key in given:
            if key.lower() not in (ALLOW, TRUST):
                raise OptionError(f"unknown storage option {key}", hint=f"known: {ALLOW}, {TRUST}")
        options = {k.lower(): v for k, v in given.items()}
        allowed = []
        for text in _listed(options.get(ALLOW, "")):
            root = _root(text)
            if root is None:
                raise OptionError(
                    f"{ALLOW}: {text!r} is no absolute directory", hint="such as file:/data or s3://b/dir"
                )
            allowed.append(root)
        trust = parse_value(TRUST, Kind.BOOLEAN, options.get(TRUST, "true"))
        return cls(tuple(allowed), bool(trust))

    def roots(self, options: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
        """The directories that files may lie in, given the options of all versions of a table's schema."""
        of_table = [text for o in options for text in _listed(o.get(_OPTION, ""))] if self.trust_table else []
        roots = (*self.allowed, *(root for text in of_table if (root := _root(text)) is not None))
        return tuple(dict.fromkeys(roots))


def file_paths(store: TableStore, options: Mapping[str, str], *, outside: bool) -> TablePaths:
    """Where data and index files lie under the options of a schema.

    Args:
        store: the table.
        options: of the schema.
        outside: whether the metadata gives external paths of some; then all schemas of the table are read.
    """
    paths = store.paths.with_options(options)
    if not outside:
        return paths
    stores = [store] if store.branch == _MAIN else [store, store.for_branch(_MAIN)]
    return paths.with_external(store.external.roots(schema.options for each in stores for schema in each.schemas()))


def is_absolute(location: str) -> bool:
    """Whether a location is a path from the root or has a scheme."""
    return _ABSOLUTE.match(location) is not None


def lies_below(path: str, roots: Iterable[str]) -> bool:
    """Whether a path, as `normalise_location` spells it, lies in one of these directories."""
    return any(path.startswith(f"{root.rstrip('/')}/") for root in roots)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _root(text: str) -> str | None:
    """The one spelling of a directory; None when it is not absolute, or climbs."""
    if not is_absolute(text) or ".." in re.split(r"[/\\]", text):
        return None
    try:
        return normalise_location(text)
    except OptionError:
        return None
