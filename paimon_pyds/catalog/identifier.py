"""Names of tables: ``db.t``, ``t$branch_b``, ``t$files``, with `back quotes` around parts that hold a dot."""

from __future__ import annotations

import re

from paimon_pyds.base.options.option import text
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import OptionError

DEFAULT_DATABASE = "default"
_BRANCH = "branch_"
_QUOTED = re.compile(r"(?:(?P<database>`(?:[^`]|``)+`|[^`.$]+)\.)?(?P<table>`(?:[^`]|``)+`|[^`$]+)(?P<suffix>\$[^`]*)?")
SYSTEM_DATABASE = "sys"


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table's name, taken apart.

    ``branch`` comes from ``t$branch_b``; ``system`` from ``t$files``, a system table of ``t``.
    """

    database: str
    table: str
    branch: str | None = None
    system: str | None = None

    @property
    def object_name(self) -> str:
        """The name within the database: the table, its branch and its system table."""
        suffix = f"${_BRANCH}{self.branch}" if self.branch else ""
        return f"{self.table}{suffix}" + (f"${self.system}" if self.system else "")

    def __str__(self) -> str:
        return f"{self.database}.{self.object_name}"


def parse_identifier(name: str, default_database: str = DEFAULT_DATABASE) -> Identifier:
    """Take a name apart: ``t``, ``db.t``, ```db`.`t.x```, each with ``$branch_b`` and ``$system`` after the table.

    A name without quotes is cut at its first dot, as in Java Paimon.
    Raises OptionError: not a name of that form.
    """
    parts = _split(name)
    if len(parts) == 1:
        parts = [default_database, parts[0]]
    database, table, *rest = (checked_object_name(parts[0], "database"), *parts[1].split("$"))
    checked_object_name(table, "table")
    branch = system = None
    if rest and rest[0].startswith(_BRANCH):
        branch = rest.pop(0).removeprefix(_BRANCH)
    if rest:
        system = rest.pop(0)
    if rest or branch == "" or system == "":
        raise _bad(name)
    return Identifier(database, table, None if branch == "main" else branch, system)


def quoted_name(database: str, table: str) -> str:
    """The name of a table that `parse_identifier` takes apart, whatever the two are."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in (database, table))


def _split(name: str) -> list[str]:
    stripped = text("the name of a table", name).strip()
    match = _QUOTED.fullmatch(stripped) if "`" in stripped else None
    if not stripped or (match is None and "`" in stripped):
        raise _bad(name)
    if match is None:
        return stripped.split(".", 1)
    table = _unquoted(match["table"]) + (match["suffix"] or "")
    return [table] if match["database"] is None else [_unquoted(match["database"]), table]


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part


def checked_object_name(name: str, what: str) -> str:
    """A name that can be a directory of the warehouse. Raises OptionError."""
    text(f"the name of a {what}", name)
    if not name.strip() or name in (".", "..") or "/" in name or "\0" in name or "$" in name:
        hint = f"a {what} of the same warehouse is meant, by its name and not its path" if "/" in name else None
        raise OptionError(f"{name!r:.100} is not a name of a {what}", hint=hint)
    return name


def _bad(name: str) -> OptionError:
    return OptionError(
        f"{name!r:.200} is not a name of a table", hint="write db.table, or `db`.`table` when a name has a dot"
    )
