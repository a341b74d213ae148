"""Hadoop's settings as Java Paimon finds them, for HDFS: files of the environment and of options, then single options.

(Source: Java Paimon 1.4, HadoopUtils.)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from paimon_pyds.errors import OptionError
from paimon_pyds.storage.hadoop_files import properties_of, substituted

PREFIX = "hadoop."
"""What names of options begin with that are settings of Hadoop."""
_FILES = ("core-site.xml", "hdfs-site.xml")
_USED = ("dfs.", "fs.defaultFS", "fs.viewfs.", "fs.permissions.umask-mode", "hadoop.security.", "hadoop.rpc.")
"""Beginnings of the settings that a client of HDFS uses; files have hundreds of others, some of them secret."""


def hadoop_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings that concern HDFS, by their names in Hadoop.

    Args:
        options: ``hadoop-conf-dir``, ``hadoop-conf-loader`` (all, env, option), and ``hadoop.NAME``, which win. Others
            are passed over.

    Raises:
        OptionError: a directory or file of options that can't be read, or an unknown loader.
    """
    loader = str(options.get("hadoop-conf-loader", "all")).lower()
    if loader not in ("all", "env", "option"):
        raise OptionError(f"hadoop-conf-loader can't be {loader!r:.80}", hint="all, env or option")
    directories = []
    if loader != "option":
        home = os.environ.get("HADOOP_HOME", "").strip()
        directories += [Path(home, "conf"), Path(home, "etc", "hadoop")] if home else []
        directories += [Path(path)] if (path := os.environ.get("HADOOP_CONF_DIR", "").strip()) else []
    if loader != "env" and (path := str(options.get("hadoop-conf-dir", "")).strip()):
        own = Path(path.removeprefix("file://").removeprefix("file:"))
        if not own.is_dir():
            raise OptionError(f"hadoop-conf-dir is no directory of this machine: {path:.200}")
        directories.append(own)
    found = properties_of(directory / name for directory in directories for name in _FILES)
    found.update({key[len(PREFIX) :]: str(value) for key, value in options.items() if key.startswith(PREFIX)})
    _give_back_cases(found)
    return {name: substituted(value, found) for name, value in found.items() if name.startswith(_USED)}


def _give_back_cases(found: dict[str, str]) -> None:
    """Add names in their own case, where they came in lower case: Spark hands names of options on like that."""
    names = ["fs.defaultFS"]
    for service in _listed(found.get("dfs.nameservices")):
        nodes = f"dfs.ha.namenodes.{service}"
        names += [nodes, f"dfs.client.failover.proxy.provider.{service}"]
        listed = _listed(found.get(nodes, found.get(nodes.lower())))
        names += [f"dfs.namenode.rpc-address.{service}.{node}" for node in listed]
    for name in names:
        if name not in found and name.lower() in found:
            found[name] = found[name.lower()]


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
