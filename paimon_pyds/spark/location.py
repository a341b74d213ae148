"""Which table the options of a read or a write name: by its path, in a warehouse directory, or in a catalog."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_pyds.errors import OptionError, UnsupportedError

OF_CATALOGS = (
    "catalog", "metastore", "uri", "token", "token.provider", "catalog-key", "lock.enabled", "lock-acquire-timeout",
    "lock-check-max-sleep", "prefix", "data-token.enabled", "hive-conf-dir",
    "location-in-properties", "table.type", "sync-all-properties", "format-table.enabled", "metastore.client.class",
    "aws.region", "aws.glue.endpoint",
)  # fmt: skip
CATALOG_PREFIXES = ("dlf.", "header.", "jdbc.", "table-default.", "hive.metastore.")
STORAGE_PREFIXES = (
    "external-paths.", "local-cache.", "s3.", "s3a.", "gs.", "azure.", "hdfs.", "fs.", "hadoop.", "hadoop-",
    "security.kerberos.login.", "storage.",
)  # fmt: skip
SYSTEM_OF_WAREHOUSE = "sys."
"""What names of the system tables of a whole warehouse begin with."""


def table_location(given: Mapping[str, str]) -> tuple[str, str | None, str | None]:
    """Where the table is, its branch, and a system table of it; of a system table of a warehouse where that is."""
    path, warehouse, branch = given.get("path"), given.get("warehouse"), given.get("branch")
    in_catalog = options_of_catalog(given) is not None
    if in_catalog and path is not None and "table" not in given:
        given, path = {**given, "table": path}, None  # load("db.t")
    if path is not None:
        clash = [name for name in ("warehouse", "database", "table") if name in given]
        if clash:
            raise OptionError(f"path and {clash[0]} both name a table", hint="give path, or warehouse and table")
        parent, slash, last = path.rstrip("/").rpartition("/")
        if "$" not in last:
            return path, branch, None
        table, *parts = last.split("$")
        in_name = parts.pop(0).removeprefix("branch_") if parts[0].startswith("branch_") else None
        if len(parts) > 1 or not table or "" in (in_name, *parts):
            raise OptionError(f"{last!r:.200} does not end a path of a table", hint="such as t$files, t$branch_b$files")
        return f"{parent}{slash}{table}", _one_branch(in_name, branch, "path"), _lower(*parts)
    if (warehouse is None and not in_catalog) or "table" not in given:
        raise OptionError(
            "no table is named",
            hint="give .load(path) or .save(path), or the options warehouse and table ('db.t'). In SQL use a view: "
            "CREATE TEMPORARY VIEW v USING paimon OPTIONS (path '…'); Spark forgets the options of CREATE TABLE",
        )
    from paimon_pyds.catalog.identifier import SYSTEM_DATABASE, parse_identifier, quoted_name

    text, database = given["table"], given.get("database")
    if "." not in text and database is None:
        raise OptionError(f"table must be 'database.table', not {text!r}", hint="or give database too")
    name = parse_identifier(text, *([] if database is None else [database]))
    if database not in (None, name.database):
        raise OptionError(f"the option table names the database {name.database!r}, the option database {database!r}")
    if name.database == SYSTEM_DATABASE:
        if in_catalog:
            raise UnsupportedError(
                "system tables of a catalog can't be read in Spark", hint="Catalog.system.read reads them"
            )
        return warehouse or "", branch, SYSTEM_OF_WAREHOUSE + name.object_name
    where = f"{(warehouse or '').rstrip('/')}/{name.database}.db/{name.table}"
    where = quoted_name(name.database, name.table) if in_catalog else where
    return where, _one_branch(name.branch, branch, "table"), _lower(*([] if name.system is None else [name.system]))


def _one_branch(in_name: str | None, given: str | None, option: str) -> str | None:
    if in_name is not None and given not in (None, in_name):
        raise OptionError(f"the option {option} names the branch {in_name!r}, the option branch {given!r}")
    return in_name or given


def _lower(name: str | None = None) -> str | None:
    return None if name is None else name.lower()


def options_of_catalog(given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a catalog, its storage included; None where none is named. Raises OptionError."""
    own = {k: v for k, v in given.items() if k in OF_CATALOGS or k.startswith(CATALOG_PREFIXES)}
    if "catalog" in own or "metastore" in own:
        return {**own, **{k: v for k, v in given.items() if k == "warehouse" or k.startswith(STORAGE_PREFIXES)}}
    if own:
        raise OptionError(f"the option {next(iter(own))} is of a catalog", hint="add metastore=rest, jdbc or hive")
    return None
