"""What a location of HDFS names, a name node, a name service or a mount table, and what Hadoop's settings say of it."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from paimon_pyds.errors import OptionError, StorageError
from paimon_pyds.storage import scheme_of

_PORT = 8020
_MOUNTS = "fs.viewfs.mounttable."
_ODD_MOUNTS = ("linkNfly", "linkRegex", "linkMerge")


def complete(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings whose lists of name nodes have no blanks, and whose mounts have ports: hdfs-native adds neither."""
    found = dict(settings)
    for name, value in settings.items():
        if name.startswith("dfs.ha.namenodes."):
            found[name] = ",".join(part.strip() for part in value.split(","))
        elif name.startswith(_MOUNTS) and value.startswith("hdfs://"):
            authority, slash, path = value[len("hdfs://") :].partition("/")
            found[name] = f"hdfs://{_with_port(authority, settings)}{slash}{path}"
    return found


def _with_port(authority: str, settings: Mapping[str, str]) -> str:
    named = ":" in authority or f"dfs.ha.namenodes.{authority}" in settings
    return authority if named else f"{authority}:{_PORT}"


def address_of(root: str, settings: Mapping[str, str]) -> str:
    """What hdfs-native connects to for a location. Raises OptionError: neither it nor the settings name anything."""
    scheme, authority = scheme_of(root), root.partition("://")[2].partition("/")[0]
    if not authority:
        default = settings.get("fs.defaultFS", "").rstrip("/")
        authority = default.partition("://")[2]
        if scheme_of(default) != scheme or not authority:
            raise OptionError(
                f"no name node is named, and fs.defaultFS is {repr(default) if default else 'not set'}",
                path=root,
                hint="write hdfs://HOST:PORT/path, or give hadoop-conf-dir, HADOOP_CONF_DIR or hadoop.fs.defaultFS",
            )
    return f"{scheme}://{_with_port(authority, settings) if scheme == 'hdfs' else authority}"


def is_single(address: str, settings: Mapping[str, str]) -> bool:
    """Whether this is the address of one name node, and not of a name service or mount table."""
    return scheme_of(address) == "hdfs" and f"dfs.ha.namenodes.{address[len('hdfs://') :]}" not in settings


def check_host(address: str, settings: Mapping[str, str], root: str) -> None:
    """Raise StorageError for a name that nothing has: hdfs-native would look for it for minutes."""
    if not is_single(address, settings):
        return
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        known = settings.get("dfs.nameservices", "").strip() or "none"
        raise StorageError(
            f"no host is called {host:.200}, and the name services that Hadoop's settings have are: {known:.200}",
            path=root,
            hint="name services are in hdfs-site.xml: give hadoop-conf-dir, or set HADOOP_CONF_DIR",
        ) from None


def client_settings(address: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings with a place for paths of no mount, which hdfs-native requires; `check_mounted` lets none go there. A
    single name node is waited for about as long as Java does: hdfs-native would, as for one that fails over, for three
    minutes."""
    found = dict(settings)
    if is_single(address, settings):
        found.setdefault("dfs.client.failover.max.attempts", "5")
    for table in {name.split(".")[3] for name in settings if name.startswith(_MOUNTS)}:
        links = [value for name, value in settings.items() if name.startswith(f"{_MOUNTS}{table}.link.")]
        if links:
            found.setdefault(f"{_MOUNTS}{table}.linkFallback", links[0])
    return found


def check_mounted(path: str, inner: str, address: str, settings: Mapping[str, str]) -> None:
    """Raise OptionError for a path that no mount of viewfs holds, or where there are mounts of other kinds.

    ``inner``: the path without its scheme and mount table. ``address``: of the mount table.
    """
    mounts = f"{_MOUNTS}{address.partition('://')[2]}."
    own = [name[len(mounts) :] for name in settings if name.startswith(mounts)]
    odd = next((name for name in own if name.startswith(_ODD_MOUNTS)), None)
    if odd is not None:
        raise OptionError(
            f"mounts of this kind are not supported: {mounts}{odd}", path=path, hint="use fs.viewfs.…link./path"
        )
    links = [name.removeprefix("link.") for name in own if name.startswith("link.")]
    if "linkFallback" not in own and not any(
        inner == link or inner.startswith(f"{link.rstrip('/')}/") for link in links
    ):
        raise OptionError(
            "no mount of viewfs holds this path",
            path=path,
            hint=f"mounted are: {', '.join(sorted(links)) or 'none'}",
        )
