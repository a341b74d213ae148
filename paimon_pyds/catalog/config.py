"""Catalogs by name: the file ``~/.config/paimon-pyds.toml`` has a table ``[catalogs.NAME]`` of the options of each.

``XDG_CONFIG_HOME`` names another directory, ``PAIMON_PYDS_CONFIG`` another file. For the catalog that
``PAIMON_PYDS_CATALOG`` names, and for no other (it might be another's token), ``PAIMON_PYDS_METASTORE``,
``PAIMON_PYDS_URI``, ``PAIMON_PYDS_WAREHOUSE`` and ``PAIMON_PYDS_TOKEN`` take precedence over the options in the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paimon_pyds.base.secrets import RedactedDict, holds_secret, names_secret, raise_alone
from paimon_pyds.errors import OptionError, SecurityError, StorageError, suggest

_DEFAULT = "PAIMON_PYDS_CATALOG"
_FILE = "PAIMON_PYDS_CONFIG"
_VARIABLES = ("metastore", "uri", "warehouse", "token")
_LONGEST_FILE = 1 << 20
"""Bytes of a file of options: a larger file is something else."""


def default_catalog() -> str | None:
    """The catalog of commands that name none."""
    return os.environ.get(_DEFAULT) or None


def catalog_options(name: str) -> dict[str, str]:
    """The options of the catalog of this name, for `Catalog.open`.

    Raises:
        OptionError: no such catalog, or the file has something else than options.
        SecurityError: the file has secrets, and others than its owner may read or change it.
        StorageError: it can't be read.
    """
    named = _VARIABLES if name == default_catalog() else ()
    of_environment = {key: value for key in named if (value := os.environ.get(f"PAIMON_PYDS_{key.upper()}"))}
    file = _config_file()
    catalogs = _catalogs(file)
    found = catalogs.get(name)
    if found is None and not of_environment:
        raise OptionError(
            f"there is no catalog {name!r:.100}",
            path=str(file),
            hint=suggest(name, catalogs, "its catalogs") if catalogs else f"write a table [catalogs.{name:.100}] there",
        )
    return RedactedDict({**(found or {}), **of_environment})


def _config_file() -> Path:
    given = os.environ.get(_FILE)
    if given:
        return Path(given)
    directory = os.environ.get("XDG_CONFIG_HOME", "")  # the standard has relative ones ignored
    return (Path(directory) if os.path.isabs(directory) else Path.home() / ".config") / "paimon-pyds.toml"


def _catalogs(file: Path) -> dict[str, dict[str, str]]:
    """The options of all catalogs of a file, by name; none where there is no file."""
    try:
        with open(file, "rb") as opened:
            data, mode = opened.read(_LONGEST_FILE + 1), os.fstat(opened.fileno()).st_mode
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StorageError(f"the config file can't be read ({error.strerror})", path=str(file)) from None
    catalogs = _parsed(data, file).get("catalogs", {})
    if not isinstance(catalogs, dict) or not all(isinstance(options, dict) for options in catalogs.values()):
        raise OptionError("catalogs must be tables such as [catalogs.NAME]", path=str(file))
    found = {name: RedactedDict(_texts(options, name, file)) for name, options in catalogs.items()}
    secret = any(names_secret(key) or holds_secret(text) for options in found.values() for key, text in options.items())
    if secret and stat.S_IMODE(mode) & 0o077:
        raise SecurityError(
            "the config file has secrets, and other users of this machine may read or change it: it is not used",
            path=str(file),
            hint="chmod 600 it, and replace the secrets if others may have seen them",
        )
    return dict(found)


def _parsed(data: bytes, file: Path) -> dict[str, Any]:
    import tomllib

    try:
        if len(data) > _LONGEST_FILE:
            raise ValueError
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        # Its text is not shown, not even the line with the mistake: that may have a secret.
        raise_alone(OptionError("the config file is not TOML", path=str(file)))


def _texts(options: Mapping[str, Any], name: str, file: Path) -> Iterator[tuple[str, str]]:
    """Options as texts. ``s3.endpoint = …`` is a table with an endpoint to TOML, and the option s3.endpoint here."""
    for key, value in options.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", text) for inner, text in _texts(value, name, file))
        elif isinstance(value, bool):
            yield key, str(value).lower()
        elif isinstance(value, str | int | float):
            yield key, str(value)
        else:
            raise OptionError(f"the option {key} of the catalog {name} must be a text or a number", path=str(file))
