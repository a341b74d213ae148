"""What lies where no table is: the hint of the error that says so."""

from __future__ import annotations

from paimon_pyds.errors import PaimonError, suggest
from paimon_pyds.storage.base import FileIO

__all__ = ["missing_table_hint"]


def missing_table_hint(io: FileIO, root: str) -> str:
    """What lies at a location that is no table, and tables of a similar name nearby."""
    try:
        here = io.list(root)
        if any(entry.name.endswith(".db") and entry.is_dir for entry in here):
            return f"this is a warehouse: name a table in it, such as {root}/DATABASE.db/TABLE"
        parent, _, name = root.rpartition("/")
        table, _, part = name.partition("$")
        if part and io.exists(f"{parent}/{table}/schema"):
            branch = part.removeprefix("branch_")
            asked = f"give branch {branch!r} too" if branch != part else f"ask for its system table {part!r}"
            return f"name the table, {parent}/{table}, and {asked}"
        inside = [e.name for e in here if e.is_dir and io.exists(f"{root}/{e.name}/schema")]
        if inside:
            return suggest(name, inside, "the tables in it") or ""
        beside = [e.name for e in io.list(parent or "/")[:1000] if e.is_dir]
        tables = [n for n in beside if n != name and io.exists(f"{parent}/{n}/schema")]
        found = "there is no such directory" if not here else "the directory holds something else"
        near = suggest(name, tables, "tables beside it")
        return f"{found}; {near}" if near else found
    except PaimonError as error:
        return str(error)
