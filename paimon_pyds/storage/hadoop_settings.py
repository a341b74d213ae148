"""Hadoop's settings as Java Paimon finds them, for HDFS: files of the environment and of options, then single options.

(Source: Java Paimon 1.4, HadoopUtils; Hadoop's documentation of Configuration: variables, xi:include.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from paimon_pyds.errors import OptionError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

PREFIX = "hadoop."
"""What names of options begin with that are settings of Hadoop."""
_FILES = ("core-site.xml", "hdfs-site.xml")
_INCLUDE = "{http://www.w3.org/2001/XInclude}include"
_USED = ("dfs.", "fs.defaultFS", "fs.viewfs.", "fs.permissions.umask-mode", "hadoop.security.", "hadoop.rpc.")
"""Beginnings of the settings that a client of HDFS uses; files have hundreds of others, some of them secret."""
_VARIABLE = re.compile(r"\$\{([^${}\s]+)\}")
_DEPTH = 20
"""How often a value is looked at again for variables, and how deep files include one another, as in Hadoop."""


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
    found: dict[str, str] = {}
    for directory in directories:
        for name in _FILES:
            if (file := directory / name).is_file():
                found.update(_properties(file))
    found.update({key[len(PREFIX) :]: str(value) for key, value in options.items() if key.startswith(PREFIX)})
    _give_back_cases(found)
    return {name: _substituted(value, found) for name, value in found.items() if name.startswith(_USED)}


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


def _properties(file: Path, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Names and values of a file and of those that it includes. Raises OptionError."""
    from xml.etree import ElementTree

    try:
        root = ElementTree.fromstring(file.read_bytes())
    except (OSError, ElementTree.ParseError) as error:
        raise OptionError(f"Hadoop's settings can't be read: {error}", path=file) from None
    yield from _of_elements(root, file, depth)


def _of_elements(root: Element, file: Path, depth: int) -> Iterator[tuple[str, str]]:
    for element in root:
        if element.tag == "property":
            name, value = (element.findtext(tag, "").strip() for tag in ("name", "value"))
            if name and value:
                yield name, value
        elif element.tag == "configuration":
            yield from _of_elements(element, file, depth)
        elif element.tag == _INCLUDE and depth < _DEPTH:
            included = file.parent / element.get("href", "").removeprefix("file://")
            if included.is_file():  # Hadoop takes the element's fallback, else fails; a client may not need it
                yield from _properties(included, depth + 1)


def _substituted(value: str, found: Mapping[str, str]) -> str:
    """A value with its variables: ``${name}`` of a setting, ``${env.NAME}`` and ``${env.NAME:-other}``."""

    def of(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("env."):
            variable, dash, other = name[4:].partition(":-" if ":-" in name else "-")
            text = os.environ.get(variable)
            return text if text or (text is not None and not dash) else other if dash else match[0]
        return found.get(name, match[0])

    for _ in range(_DEPTH):
        after = _VARIABLE.sub(of, value)
        if after == value:
            break
        value = after
    return value
