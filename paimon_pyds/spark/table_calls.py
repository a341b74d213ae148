"""Functions of Spark that do what a method of `paimon_pyds.Table` does: their docstrings, and the zone of times."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
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
_WIDTH = 108


def does(method: Callable[..., Any], **own: str) -> Callable[[_Function], _Function]:
    """Make a function of Spark out of one that calls a method of a table.

    Texts without a time zone are read in the zone of the session, which is the first argument, as Spark reads them.
    The docstring gets the arguments of the method, and its sections Returns and Raises if it has no own ones.

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
            about = {**_sections(method).arguments, **_ARGUMENTS, **own}
            wrapped.__doc__ = _docstring(function, _sections(method), about)
        return cast(_Function, wrapped)

    return decorated


class _Sections:
    """The parts of a docstring in Google's form: before ``Args:``, its arguments, and after them."""

    def __init__(self, text: str) -> None:
        blocks = text.split("\n\n")
        self.about = [block for block in blocks if not block.startswith(("Args:", "Returns:", "Raises:"))]
        self.rest = [block for block in blocks if block.startswith(("Returns:", "Raises:"))]
        given = next((block for block in blocks if block.startswith("Args:")), "Args:").partition("\n")[2]
        entries: list[str] = []
        for line in textwrap.dedent(given).splitlines():
            if line.startswith(" "):
                entries[-1] += f" {line.strip()}"
            else:
                entries.append(line)
        self.arguments = {name: text for name, _, text in (entry.partition(": ") for entry in entries)}


def _sections(function: Callable[..., Any]) -> _Sections:
    return _Sections(inspect.cleandoc(function.__doc__ or ""))


def _docstring(function: Callable[..., Any], of_method: _Sections, about: Mapping[str, str]) -> str:
    own = _sections(function)
    arguments = _wrapped(f"{name}: {about[name]}" for name in inspect.signature(function).parameters)
    return "\n\n".join([*own.about, f"Args:\n{arguments}", *(own.rest or of_method.rest)]) + "\n"


def _wrapped(entries: Iterable[str]) -> str:
    first, more = " " * 4, " " * 8
    return "\n".join(textwrap.fill(e, _WIDTH, initial_indent=first, subsequent_indent=more) for e in entries)
