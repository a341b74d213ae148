"""The kinds of catalogs: which options each has, and what answers for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_pyds.base.options.option import Kind, mapping, parse_value
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.storage import OPTIONS_OF_ALL
from paimon_pyds.storage.store_options import check_names

if TYPE_CHECKING:
    from paimon_pyds.catalog.filesystem import CatalogBackend

_OPTIONS: dict[str, tuple[str, ...]] = {
    "filesystem": ("metastore", "warehouse"),
    "jdbc": (
        "metastore", "warehouse", "uri", "jdbc.user", "jdbc.password", "catalog-key", "lock.enabled",
        "lock-acquire-timeout", "lock-check-max-sleep",
    ),
}  # fmt: skip
"""The options of catalogs that have no others than those of the storage. A REST catalog's server may have its own."""


def checked_options(options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The kind of catalog that some options mean, and the other ones.

    Raises:
        OptionError: an option that is missing or that nothing knows.
        UnsupportedError: a lock where the kind of catalog has none.
    """
    given = dict(mapping("options", options))
    for name in ("metastore", "uri"):
        if not isinstance(given.get(name, ""), str):
            raise OptionError(f"the option {name} must be a text, not a value of type {type(given[name]).__name__}")
    kind = given.pop("metastore", "filesystem").strip().lower()
    if kind in _OPTIONS or kind == "hive":
        _check_options(kind, given)
    if kind not in ("jdbc", "hive") and parse_value("lock.enabled", Kind.BOOLEAN, given.pop("lock.enabled", "false")):
        raise UnsupportedError(
            f"lock.enabled has no effect in a catalog of the kind {kind!r:.40}",
            hint="leave it out: commits create snapshots if absent. Catalogs of jdbc and hive have Java's locks",
        )
    if kind == "filesystem" and "warehouse" not in given:
        raise OptionError("a filesystem catalog needs the option warehouse")
    return kind, given


def backend_of(kind: str, options: Mapping[str, str]) -> CatalogBackend:
    """What answers for a catalog of a kind other than ``filesystem``.

    Raises:
        OptionError: an option that is missing or that nothing knows.
        UnsupportedError: a kind of catalog that is not supported.
        PaimonError: the catalog refuses or can't be reached.
    """
    if kind == "rest":
        from paimon_pyds.catalog.rest import RestBackend

        return RestBackend(options)
    if kind == "jdbc":
        from paimon_pyds.catalog.jdbc import JdbcBackend

        return JdbcBackend(options)
    if kind == "hive":
        from paimon_pyds.catalog.hive import HiveBackend

        return HiveBackend(options)
    raise UnsupportedError(
        f"catalogs of the kind {kind!r:.40} are not supported",
        hint="filesystem, jdbc, hive and rest are; AWS Glue is one of hive, by the option metastore.client.class",
        feature="other-catalogs",
    )


def _check_options(kind: str, given: Mapping[str, str]) -> None:
    """Raise OptionError for an option that neither this kind of catalog nor a storage has."""
    own = _OPTIONS.get(kind, ())
    passed: tuple[str, ...] = ("jdbc.", *OPTIONS_OF_ALL) if kind == "jdbc" else OPTIONS_OF_ALL
    if kind == "hive":
        from paimon_pyds.catalog.hive.settings import NAMES, PREFIXES

        own, passed = NAMES, (*PREFIXES, *OPTIONS_OF_ALL)
    left = [key for key in map(str, given) if key not in own and key != "lock.enabled"]
    elsewhere = {*_OPTIONS["jdbc"], "token", "token.provider"}.intersection(left)
    check_names([key for key in left if key not in elsewhere and not key.lower().startswith(passed)], own, "option")
    if elsewhere:
        raise OptionError(
            f"a {kind} catalog has no option {min(elsewhere)}", hint="the option metastore says of what kind it is"
        )
