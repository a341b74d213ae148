"""The commands on tables as a whole: ``tables``, ``create``, ``migrate``, ``alter``, ``rename`` and ``drop``; and
databases."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.secrets import counted, redact, visible
from paimon_pyds.cli import display as show
from paimon_pyds.cli.arguments import (
    TABLE_HELP,
    Commands,
    Run,
    add_common_arguments,
    add_if_not_exists,
    add_repeated,
    catalog_of,
    create_table,
    key_values,
    names_in,
    open_table,
    storage_options,
    table_options,
    warehouse_of,
)
from paimon_pyds.cli.asking import add_dry_run, add_yes, confirm
from paimon_pyds.cli.output import show_rows
from paimon_pyds.errors import DatabaseNotFoundError, OptionError, UnsupportedError

if TYPE_CHECKING:
    from paimon_pyds.catalog import Catalog

_COLUMNS = "names and types, such as 'id BIGINT NOT NULL, tags ARRAY<STRING>'"


def add_table_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    _add_warehouse_commands(commands)

    parser = _add(commands, "create", "Make a table without rows.", _create, options=True)
    parser.add_argument("columns", metavar="COLUMNS", help=_COLUMNS)
    parser.add_argument("--primary-key", type=names_in, default=(), help="columns of the key, separated by commas")
    parser.add_argument("--partition-by", type=names_in, default=(), help="partition columns, separated by commas")
    parser.add_argument("--comment", help="about the table")
    add_if_not_exists(parser, "leave a table alone that is there already")

    help_ = "Make a table of a directory's Parquet, ORC or Avro files, or a Delta or Iceberg table's, as they are."
    parser = commands.add_parser("migrate", help=help_, description=help_)
    parser.add_argument("source", metavar="SOURCE", help="the directory that has the files, flat or in k=v directories")
    parser.add_argument("table", metavar="TARGET", help="the new table's directory or URL")
    parser.add_argument("--format", help="parquet, orc, avro, delta or iceberg: refuse another source")
    parser.add_argument(
        "--mode", default="copy", help="copy (the default), link (hard links), or move: remove the files from SOURCE"
    )
    types = "partition columns, as the k=v directories have them, in order; or with types: 'day=STRING,hour=INT'"
    parser.add_argument("--partition-by", type=names_in, help=types)
    parser.add_argument("--comment", help="about the table")
    add_dry_run(parser, "only show what would be made")
    add_common_arguments(parser)
    parser.set_defaults(run=_migrate)

    _add_alter(commands)

    parser = _add(commands, "rename", "Give a table another name, or move it to another database.", _rename)
    parser.add_argument("name", metavar="NAME", help="its new name; or DATABASE.NAME")

    parser = _add(commands, "drop", "Remove a table with its data. Data files outside of its directory stay.", _drop)
    add_yes(parser)


def _add(commands: Commands, name: str, help_: str, run: Run, *, options: bool = False) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help_, description=help_)
    parser.add_argument("table", metavar="TABLE_PATH", help=TABLE_HELP)
    add_common_arguments(parser, options=options)
    parser.set_defaults(branch=None, run=run)
    return parser


def _add_warehouse_commands(commands: Commands) -> None:
    def add(name: str, help_: str, run: Run) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=help_, description=help_)
        where = "the directory or URL that has the databases; or --catalog"
        parser.add_argument("warehouse", metavar="WAREHOUSE", nargs="?", help=where)
        add_common_arguments(parser, rows=name == "tables", options=False)
        parser.set_defaults(run=run)
        return parser

    parser = add("tables", "List the tables of a warehouse.", _tables)
    parser.add_argument("--database", help="of this database only")

    parser = add("create-database", "Make a database in a warehouse.", _create_database)
    parser.add_argument("database", metavar="DATABASE")
    add_if_not_exists(parser, "leave one alone that is there already")

    parser = add("drop-database", "Remove a database from a warehouse.", _drop_database)
    parser.add_argument("database", metavar="DATABASE")
    parser.add_argument("--cascade", action="store_true", help="with its tables and views")
    add_yes(parser)


def _repeated(parser: argparse.ArgumentParser, name: str, metavar: str, help_: str) -> None:
    add_repeated(parser, name, f"{help_}; can be repeated" if help_ else "can be repeated", metavar=metavar)


def _migrate(arguments: argparse.Namespace) -> None:
    from paimon_pyds.ops.migration.migrate import migrate

    if arguments.catalog is not None:
        raise UnsupportedError("tables of a catalog can't be made of other files", hint="give the path of TARGET")
    parts = arguments.partition_by
    if parts is not None and any("=" in part for part in parts):
        parts = key_values(parts, "--partition-by")
    done = migrate(
        arguments.source,
        arguments.table,
        format=arguments.format,
        mode=arguments.mode,
        partition_by=parts,
        options=table_options(arguments),
        comment=arguments.comment,
        storage_options=storage_options(arguments),
        dry_run=arguments.dry_run,
    )
    if arguments.output == "json":
        show.json_value(done.to_dict())
        return
    print(done)
    for column in done.schema.fields:
        partition = "  (partition)" if column.name in done.schema.partition_keys else ""
        show.line(f"  {visible(column.name)} {column.type}{partition}")


def _add_alter(commands: Commands) -> None:
    parser = _add(
        commands, "alter", "Change options, columns or comments of a table. Data files stay as they are.", _alter
    )
    parser.add_argument("--branch", help="a branch of the table")
    _repeated(parser, "--set", "KEY=VALUE", "a new value of an option")
    _repeated(parser, "--unset", "KEY", "an option that gets its default again")
    parser.add_argument("--add-columns", metavar="COLUMNS", help=f"{_COLUMNS}; old rows hold NULL")
    _repeated(parser, "--drop-column", "NAME", "")
    _repeated(parser, "--rename-column", "OLD=NEW", "")
    _repeated(parser, "--change-type", "NAME=TYPE", "such as id=BIGINT")
    _repeated(parser, "--allow-null", "NAME", "")
    _repeated(parser, "--forbid-null", "NAME", "")
    _repeated(parser, "--column-comment", "NAME=TEXT", "no TEXT removes it")
    _repeated(parser, "--column-default", "NAME=VALUE", "no VALUE removes it")
    _repeated(parser, "--move-column", "NAME=PLACE", 'first, last, "after c" or "before c"')
    parser.add_argument("--comment", help="about the table; an empty one removes it")


def _catalog(arguments: argparse.Namespace) -> Catalog:
    catalog = warehouse_of(arguments, arguments.warehouse)
    if catalog is None:
        raise OptionError("give the path of a warehouse, or --catalog")
    return catalog


def _tables(arguments: argparse.Namespace) -> None:
    import pyarrow as pa

    from paimon_pyds.catalog.identifier import quoted_name

    catalog = _catalog(arguments)
    if arguments.database is None and (hint := catalog.missing_hint()):
        raise DatabaseNotFoundError("no database is here", path=catalog.warehouse, hint=hint)
    databases = catalog.databases() if arguments.database is None else [arguments.database]
    rows = [
        (database, table, redact(catalog.path(quoted_name(database, table))))
        for database in databases
        for table in catalog.tables(database)
    ]
    schema = pa.schema([("database", pa.string()), ("table", pa.string()), ("path", pa.string())])
    from paimon_pyds.base.arrays import array

    arrays = [array(list(column), pa.string()) for column in zip(*rows, strict=True)] or [[]] * 3
    show_rows(arguments, schema, pa.table(arrays, schema).to_batches(), whole=True)


def _create_database(arguments: argparse.Namespace) -> None:
    _catalog(arguments).create_database(arguments.database, arguments.if_not_exists)
    _done(arguments, f"database {arguments.database} is there", database=arguments.database)


def _drop_database(arguments: argparse.Namespace) -> None:
    catalog = _catalog(arguments)
    tables, views = catalog.tables(arguments.database), catalog.views(arguments.database)
    if arguments.cascade or not (tables or views):
        there = counted(len(tables), "table") + (f" and {counted(len(views), 'view')}" if views else "")
        confirm(arguments, f"drop the database {arguments.database} with {there}")
    catalog.drop_database(arguments.database, arguments.cascade)
    _done(arguments, f"dropped the database {arguments.database}", dropped=arguments.database)


def _create(arguments: argparse.Namespace) -> None:
    from paimon_pyds.base.types.sql_columns import parse_columns
    from paimon_pyds.errors import AlreadyExistsError

    try:
        table = create_table(
            arguments,
            parse_columns(arguments.columns),
            primary_key=arguments.primary_key,
            partition_by=arguments.partition_by,
            options=table_options(arguments),
            comment=arguments.comment,
        )
    except AlreadyExistsError:
        if not arguments.if_not_exists:
            raise
        _done(arguments, "a table is there already", created=False)
        return
    columns = counted(len(table.schema.fields), "column")
    _done(arguments, f"created {redact(table.path)} with {columns}", created=True)


def _alter(arguments: argparse.Namespace) -> None:
    from paimon_pyds.base.types.sql_columns import parse_columns

    given = arguments
    changes: dict[str, Any] = {
        "drop_columns": given.drop_column,
        "rename_columns": key_values(given.rename_column, "--rename-column"),
        "add_columns": None if given.add_columns is None else parse_columns(given.add_columns),
        "change_types": key_values(given.change_type, "--change-type"),
        "change_nullability": dict.fromkeys(given.allow_null, True) | dict.fromkeys(given.forbid_null, False),
        "column_comments": _texts(given.column_comment, "--column-comment"),
        "column_defaults": _texts(given.column_default, "--column-default"),
        "move_columns": key_values(given.move_column, "--move-column"),
    }
    if given.comment is not None:
        changes["comment"] = given.comment or None
    set_options = key_values(given.set, "--set")
    if not any((*changes.values(), set_options, given.unset, given.comment is not None)):
        raise OptionError("nothing to change is named", hint="such as --set KEY=VALUE or --add-columns 'note STRING'")
    table = open_table(given)
    before = table.schema.id
    after = table.alter(set_options, given.unset, **changes).id
    what = f"schema {after}" if after != before else f"nothing to change: schema {before} says so already"
    _done(given, what, schema=after, changed=after != before)


def _texts(pairs: list[str], what: str) -> dict[str, str | None]:
    return {name: text or None for name, text in key_values(pairs, what).items()}


def _rename(arguments: argparse.Namespace) -> None:
    from paimon_pyds.catalog import Catalog
    from paimon_pyds.catalog.identifier import checked_object_name
    from paimon_pyds.errors import AlreadyExistsError

    if "/" in arguments.name:
        *_, database, name = f"/{arguments.name.rstrip('/')}".split("/")
        meant = f"{database.removesuffix('.db')}.{name}" if database.endswith(".db") else name
        raise OptionError(f"a table's new name is no path: {arguments.name!r}", hint=f"did you mean {meant}?")
    catalog = catalog_of(arguments, arguments.table)
    if catalog is not None:
        catalog.rename_table(arguments.table, arguments.name)
        _done(arguments, f"renamed to {arguments.name}", name=arguments.name)
        return

    store = open_table(arguments)._store
    directory, _, _ = store.root.rpartition("/")
    database, _, name = arguments.name.rpartition(".")
    if database:
        warehouse, _, old = directory.rpartition("/")
        if not old.endswith(".db"):
            raise OptionError("the table is in no database", path=store.root, hint="give its new name without a dot")
        directory = f"{warehouse}/{checked_object_name(database, 'database')}.db"
        Catalog(warehouse, storage_options(arguments)).tables(database)  # it is there
    target = f"{directory}/{checked_object_name(name, 'table')}"
    if store.io.exists(target):
        raise AlreadyExistsError("there is something of that name", path=target)
    store.io.rename(store.root, target)
    _done(arguments, f"renamed to {redact(target)}", path=redact(target))


def _drop(arguments: argparse.Namespace) -> None:
    table = open_table(arguments)
    snapshot, path = table.snapshots.latest(), redact(table.path)
    stored = "row" if snapshot is not None and snapshot.row_count is not None else "stored row"
    rows = "never written" if snapshot is None else counted(snapshot.total_record_count or 0, stored)
    confirm(arguments, f"drop {path} ({rows})")
    catalog = catalog_of(arguments, arguments.table)
    if catalog is None:
        from paimon_pyds.ops.ddl.create import remove_table

        remove_table(table._store.io, table._store.root)
    else:
        catalog.drop_table(arguments.table)
    _done(arguments, f"dropped {path}", dropped=path)


def _done(arguments: argparse.Namespace, text: str, **facts: Any) -> None:
    show.answer(arguments.output, facts, visible(text))
