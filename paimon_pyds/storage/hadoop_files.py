"""Files of settings in Hadoop's form: ``core-site.xml``, ``hdfs-site.xml``, ``hive-site.xml``.

(Source: Hadoop's documentation of Configuration: final parameters, variables, xi:include.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from paimon_pyds.errors import OptionError

LARGEST = 8 << 20
"""Bytes of a file: a larger one is something else."""
_INCLUDE = "{http://www.w3.org/2001/XInclude}include"
_VARIABLE = re.compile(r"\$\{([^${}\s]+)\}")
_DEPTH = 20
"""How often a value is looked at again for variables, and how deep files include one another, as in Hadoop."""
_FILES = 100
"""How many files all in all: those that include one another twice are a million at that depth."""


def properties_of(files: Iterable[Path]) -> dict[str, str]:
    """The properties of files, of which later ones win, unless an earlier file called a property final.

    A file that is not there has none. Variables are as they are written: see `substituted`.

    Raises:
        OptionError: a file that can't be read, is no configuration, or passes a bound. It shows nothing of the text,
            which may be secret.
    """
    found: dict[str, str] = {}
    final = set[str]()
    left = [_FILES]
    for file in files:
        for name, value, is_final in _of_file(file, 0, left):
            if name not in final:
                found[name] = value
            if is_final:
                final.add(name)
    return found


def substituted(value: str, found: Mapping[str, str]) -> str:
    """A value with its variables: ``${name}`` of a setting, ``${env.NAME}`` and ``${env.NAME:-other}``. A variable
    that nothing gives stays as it is. Raises OptionError: it grows beyond the size of a file."""
    size = 0

    def of(match: re.Match[str]) -> str:
        nonlocal size
        name = match[1]
        text = found.get(name, match[0])
        if name.startswith("env."):
            variable, dash, other = name[4:].partition(":-" if ":-" in name else "-")
            given = os.environ.get(variable)
            if given is None or (not given and dash == ":-"):
                given = other if dash else match[0]
            text = given
        size += len(text)
        if size > LARGEST:
            raise OptionError(f"a value of Hadoop's settings is longer than {LARGEST >> 20} MiB with its variables")
        return text

    for _ in range(_DEPTH):
        size = 0
        after = _VARIABLE.sub(of, value)
        if after == value:
            break
        value = after
    return value


class _Builder(TreeBuilder):
    """Takes no document type: entities, which may stand for anything of any size, are declared in it."""

    def doctype(self, *_: object) -> None:
        raise ValueError


def _of_file(file: Path, depth: int, left: list[int]) -> Iterator[tuple[str, str, bool]]:
    """Names and values, and which are final, of a file and of those that it includes. ``left``: how many more may be
    read."""
    left[0] -= 1
    if left[0] < 0:
        raise OptionError(f"Hadoop's settings include one another in more than {_FILES} files", path=file)
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return  # Hadoop takes the fallback of an xi:include, else fails; a client may not need it
    except OSError as error:
        raise OptionError(f"Hadoop's settings can't be read ({error.strerror})", path=file) from None
    if len(data) > LARGEST:
        raise OptionError(f"the file is larger than {LARGEST >> 20} MiB, the limit for Hadoop's settings", path=file)
    try:
        parser = XMLParser(target=_Builder())
        parser.feed(data)
        root: Element = parser.close()
    except (ValueError, LookupError, ParseError):
        raise OptionError(
            "the file is not a configuration of Hadoop", path=file, hint="it is XML without a DOCTYPE: check it"
        ) from None
    yield from _of_elements(root, file, depth, left)


def _of_elements(root: Element, file: Path, depth: int, left: list[int]) -> Iterator[tuple[str, str, bool]]:
    for element in root:
        if element.tag == "property":
            name, value, final = (
                (element.get(tag) or element.findtext(tag) or "").strip() for tag in ("name", "value", "final")
            )
            if name and value:
                yield name, value, final == "true"
        elif element.tag == "configuration":
            yield from _of_elements(element, file, depth, left)
        elif element.tag == _INCLUDE and depth < _DEPTH:
            yield from _of_file(file.parent / element.get("href", "").removeprefix("file://"), depth + 1, left)
