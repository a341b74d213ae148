"""Functions of Spark that do what a method of `paimon_pyds.Table` does: their docstrings, and the zone of times."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from paimon_pyds.base.zones import session_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Function = TypeVar("_Function", bound=Callable[..., Any])
_ARGUMENTS = {
    "spark": "a session, classic or Connect; its workers do the work.",
    "path": "the table's path; or a `paimon_pyds.Table`, such as one of a catalog.",
    "branch": "a branch of the table; the main one by default.",
    "storage_options": "credentials and endpoints of the storage.",
    "progress": "as for `paimon_pyds.Table.append`; the driver shows it.",
}
"""What the functions take besides the arguments of the method, and what they say otherwise."""
_SECTIONS = ("Args:", "Returns:", "Raises:")
_WIDTH = 108
"""Characters of a line in the docstrings that are made."""


def does(method: Callable[..., Any], **own: str) -> Callable[[_Function], _Function]:
    """Make a function of Spark out of one that calls a method of a table.

    Texts without a time zone are read in the zone of the session, which is the first argument, as Spark reads them.
    The docstring gets the arguments, the result and the errors of the method, where it has no own ones.

    Args:
        method: of `paimon_pyds.Table` or one of its namespaces.
        **own: docstrings of arguments that differ from those of the method.
    """

    def decorated(function: _Function) -> _Function:
        @wraps(function)
        def wrapped(spark: SparkSession, *args: Any, **named: Any) -> Any:
            with session_zone(spark.conf.get("spark.sql.session.timeZone")):
                return function(spark, *args, **named)

        if function.__doc__ and method.__doc__:  # python -OO has none
            wrapped.__doc__ = _docstring(function, method, own)
        return cast(_Function, wrapped)

    return decorated


class _Sections:
    """The parts of a docstring in Google's form: the text before its sections, and these, by name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        blocks = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        found = {name: block for block in blocks if (name := block.partition("\n")[0]) in _SECTIONS}
        self.about = [block for block in blocks if block.partition("\n")[0] not in _SECTIONS]
        self.arguments, self.errors = (_entries(found.get(name, "")) for name in ("Args:", "Raises:"))
        self.returns = found.get("Returns:")


def _entries(section: str) -> dict[str, str]:
    """The entries of a section, ``name: text``, each in one line."""
    lines: list[str] = []
    for line in textwrap.dedent(section.partition("\n")[2]).splitlines():
        if line.startswith(" "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return {name: text for name, _, text in (line.partition(": ") for line in lines)}


def _docstring(function: Callable[..., Any], method: Callable[..., Any], own_arguments: Mapping[str, str]) -> str:
    own, theirs = _Sections(function), _Sections(method)
    known = {**theirs.arguments, **_ARGUMENTS, **own_arguments}
    arguments = {name: known[name] for name in inspect.signature(function).parameters}
    sections = [_section("Args:", arguments), own.returns or theirs.returns]
    sections.append(_section("Raises:", {**theirs.errors, **own.errors}))
    return "\n\n".join([*own.about, *filter(None, sections)]) + "\n"


def _section(name: str, entries: Mapping[str, str]) -> str:
    first, more = " " * 4, " " * 8
    lines = [textwrap.fill(f"{n}: {text}", _WIDTH, initial_indent=first, subsequent_indent=more)
             for n, text in entries.items()]  # fmt: skip
    return "\n".join([name, *lines]) if lines else ""
