"""The commands on tables as a whole: ``create``, ``migrate``, ``alter``, ``rename``, ``drop``; and on databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_pyds.base.secrets import counted, redact, visible
from paimon_pyds.cli import display as show
from paimon_pyds.cli import parameters as p
from paimon_pyds.cli.program import program
from paimon_pyds.cli.target import Target, command, confirm
from paimon_pyds.errors import AlreadyExistsError, DatabaseNotFoundError, OptionError, UnsupportedError

if TYPE_CHECKING:
    from paimon_pyds.catalog import Catalog

_COLUMNS = "names and types, such as 'id BIGINT NOT NULL, tags ARRAY<STRING>'"
_about = p.option("--comment", metavar="TEXT", help="about the table")
_database = p.argument("database", "its name; before it the directory or URL of the warehouse, unless there is "
                       "--catalog", nargs=-1, required=True, metavar="[WAREHOUSE] DATABASE")  # fmt: skip


@command(
    program,
    p.argument("warehouse", "the directory or URL that has the databases; or --catalog", required=False),
    p.option("--database", metavar="NAME", help="of this database only"),
    table=False,
    branch=False,
    rows=True,
)
def tables(at: Target, warehouse: str | None, database: str | None) -> None:
    """List the tables of a warehouse."""
    import pyarrow as pa

    from paimon_pyds.base.arrays import array
    from paimon_pyds.catalog.identifier import quoted_name

    catalog = _catalog(at, warehouse)
    if database is None and (hint := catalog.missing_hint()):
        raise DatabaseNotFoundError("no database is here", path=catalog.warehouse, hint=hint)
    rows = [
        (name, table, redact(catalog.path(quoted_name(name, table))))
        for name in (catalog.databases() if database is None else [database])
        for table in catalog.tables(name)
    ]
    schema = pa.schema([("database", pa.string()), ("table", pa.string()), ("path", pa.string())])
    arrays = [array(list(column), pa.string()) for column in zip(*rows, strict=True)] or [[]] * 3
    at.show_rows(schema, pa.table(arrays, schema).to_batches(), whole=True)


def _catalog(at: Target, warehouse: str | None) -> Catalog:
    catalog = at.warehouse(warehouse)
    if catalog is None:
        raise OptionError("give the path of a warehouse, or --catalog")
    return catalog


def _in_warehouse(at: Target, names: tuple[str, ...]) -> tuple[Catalog, str]:
    """The catalog and the database that ``[WAREHOUSE] DATABASE`` name."""
    *warehouse, database = names
    if len(warehouse) > 1:
        raise OptionError(f"{names[2]!r:.200} is one argument too many")
    return _catalog(at, warehouse[0] if warehouse else None), database


@command(program, _database, p.ignore_if_exists, table=False, branch=False)
def create_database(at: Target, database: tuple[str, ...], ignore_if_exists: bool) -> None:
    """Create a database in a warehouse."""
    catalog, name = _in_warehouse(at, database)
    catalog.create_database(name, ignore_if_exists)
    at.done(f"database {name} is there", database=name)


@command(program, _database, p.flag("--cascade", "with its tables and views"), p.yes, table=False, branch=False)
def drop_database(at: Target, database: tuple[str, ...], cascade: bool, yes: bool) -> None:
    """Remove a database from a warehouse."""
    catalog, name = _in_warehouse(at, database)
    tables, views = catalog.tables(name), catalog.views(name)
    if cascade or not (tables or views):
        there = counted(len(tables), "table") + (f" and {counted(len(views), 'view')}" if views else "")
        confirm(f"drop the database {name} with {there}", yes=yes, shows=False)
    catalog.drop_database(name, cascade)
    at.done(f"dropped the database {name}", dropped=name)


@command(
    program,
    p.argument("columns", _COLUMNS),
    p.option("--primary-key", type=p.NAMES, default="", metavar="NAMES", help="columns of the key"),
    p.option("--partition-by", type=p.NAMES, default="", metavar="NAMES", help="partition columns"),
    _about,
    p.ignore_if_exists,
    branch=False,
    options=True,
)
def create(at: Target, columns: str, ignore_if_exists: bool, **given: Any) -> None:
    """Create a table without rows."""
    from paimon_pyds.base.types.sql_columns import parse_columns

    try:
        table = at.create(parse_columns(columns), options=at.options, **given)
    except AlreadyExistsError:
        if not ignore_if_exists:
            raise
        at.done("a table is there already", created=False)
        return
    at.done(f"created {redact(table.path)} with {counted(len(table.schema.fields), 'column')}", created=True)


@command(
    program,
    p.argument("source", "the directory that has the files, flat or in k=v directories", type=p.FILE),
    p.argument("target", "the new table's directory or URL", type=p.FILE),
    p.option("--format", metavar="NAME", help="parquet, orc, avro, delta or iceberg: refuse another source"),
    p.option("--mode", default="copy", metavar="MODE",
             help="copy (the default), link (hard links), or move: remove the files from SOURCE"),
    p.option("--partition-by", type=p.NAMES, metavar="NAMES", help="partition columns, as the k=v directories have "
             "them, in order; or with types: 'day=STRING,hour=INT'"),
    _about,
    p.dry_run("only show what would be made"),
    table=False,
    branch=False,
    options=True,
)  # fmt: skip
def migrate(at: Target, source: str, target: str, partition_by: list[str] | None, **given: Any) -> None:
    """Create a table of Parquet, ORC or Avro files as they are.

    SOURCE may also be a Delta or Iceberg table.
    """
    from paimon_pyds.ops.migration.migrate import migrate

    if at.catalog_name is not None:
        raise UnsupportedError("tables of a catalog can't be made of other files", hint="give the path of TARGET")
    parts: Any = partition_by
    if any("=" in part for part in partition_by or ()):
        parts = {name: p.PAIR.convert(f"{name}{equals}{type_}", None, None)[1]
                 for name, equals, type_ in (part.partition("=") for part in parts)}  # fmt: skip
    done = migrate(source, target, partition_by=parts, options=at.options, storage_options=at.storage_options, **given)
    if at.output == "json":
        show.json_value(done.to_dict())
        return
    print(done)
    for column in done.schema.fields:
        partition = "  (partition)" if column.name in done.schema.partition_keys else ""
        show.line(f"  {visible(column.name)} {column.type}{partition}")


@command(
    program,
    p.pairs("--set", "a new value of an option"),
    p.repeated("--unset", "an option that gets its default again", "KEY"),
    p.option("--add-columns", metavar="COLUMNS", help=f"{_COLUMNS}; old rows hold NULL"),
    p.repeated("--drop-column", "a column to drop", "NAME"),
    p.pairs("--rename-column", "a column's new name", "OLD=NEW"),
    p.pairs("--change-type", "such as id=BIGINT", "NAME=TYPE"),
    p.repeated("--allow-null", "a column that may hold NULL", "NAME"),
    p.repeated("--forbid-null", "a column that may not", "NAME"),
    p.pairs("--column-comment", "no TEXT removes it", "NAME=TEXT"),
    p.pairs("--column-default", "no VALUE removes it", "NAME=VALUE"),
    p.pairs("--move-column", 'first, last, "after c" or "before c"', "NAME=PLACE"),
    p.option("--comment", metavar="TEXT", help="about the table; an empty one removes it"),
)
def alter(at: Target, comment: str | None, add_columns: str | None, **given: Any) -> None:
    """Change options, columns or comments of a table.

    Data files stay as they are.
    """
    from paimon_pyds.base.types.sql_columns import parse_columns

    set_options, unset = given["set"], given["unset"]
    changes: dict[str, Any] = {
        "drop_columns": given["drop_column"],
        "rename_columns": given["rename_column"],
        "add_columns": None if add_columns is None else parse_columns(add_columns),
        "change_types": given["change_type"],
        "change_nullability": dict.fromkeys(given["allow_null"], True) | dict.fromkeys(given["forbid_null"], False),
        "column_comments": {name: text or None for name, text in given["column_comment"].items()},
        "column_defaults": {name: text or None for name, text in given["column_default"].items()},
        "move_columns": given["move_column"],
    }
    if not any((*changes.values(), set_options, unset, comment is not None)):
        raise OptionError("nothing to change is named", hint="such as --set KEY=VALUE or --add-columns 'note STRING'")
    if comment is not None:
        changes["comment"] = comment or None
    before = at.table.schema.id
    after = at.table.alter(set_options, unset, **changes).id
    what = f"schema {after}" if after != before else f"nothing to change: schema {before} says so already"
    at.done(what, schema=after, changed=after != before)


@command(program, p.argument("name", "its new name; or DATABASE.NAME"), branch=False)
def rename(at: Target, name: str) -> None:
    """Give a table another name, or move it to another database."""
    from paimon_pyds.catalog import Catalog
    from paimon_pyds.catalog.identifier import checked_object_name

    if "/" in name:
        *_, database, table = f"/{name.rstrip('/')}".split("/")
        meant = f"{database.removesuffix('.db')}.{table}" if database.endswith(".db") else table
        raise OptionError(f"a table's new name is no path: {name!r}", hint=f"did you mean {meant}?")
    assert at.path is not None
    catalog = at.catalog(at.path)
    if catalog is not None:
        catalog.rename_table(at.path, name)
        at.done(f"renamed to {name}", name=name)
        return
    store = at.table._store
    directory, _, _ = store.root.rpartition("/")
    database, _, table = name.rpartition(".")
    if database:
        warehouse, _, old = directory.rpartition("/")
        if not old.endswith(".db"):
            raise OptionError("the table is in no database", path=store.root, hint="give its new name without a dot")
        directory = f"{warehouse}/{checked_object_name(database, 'database')}.db"
        Catalog(warehouse, at.storage_options).tables(database)  # it is there
    target = f"{directory}/{checked_object_name(table, 'table')}"
    if store.io.exists(target):
        raise AlreadyExistsError("there is something of that name", path=target)
    store.io.rename(store.root, target)
    at.done(f"renamed to {redact(target)}", path=redact(target))


@command(program, branch=False)
def repair_table(at: Target) -> None:
    """Bring the entry of a table in a Hive, Glue or JDBC catalog in line with the table's files."""
    assert at.path is not None
    catalog = at.catalog(at.path)
    if catalog is None:
        raise OptionError("a table at a path is in no catalog: give DATABASE.TABLE, and --catalog")
    catalog.repair_table(at.path)
    at.done(f"the catalog knows {at.path} as its files say it is", table=at.path)


@command(program, p.yes, branch=False)
def drop(at: Target, yes: bool) -> None:
    """Remove a table with its data.

    Data files outside of its directory stay.
    """
    table = at.table
    snapshot, path = table.snapshots.latest(), redact(table.path)
    stored = "row" if snapshot is not None and snapshot.row_count is not None else "stored row"
    rows = "never written" if snapshot is None else counted(snapshot.total_record_count or 0, stored)
    confirm(f"drop {path} ({rows})", yes=yes, shows=False)
    assert at.path is not None
    catalog = at.catalog(at.path)
    if catalog is None:
        from paimon_pyds.ops.ddl.create import remove_table

        remove_table(table._store.io, table._store.root)
    else:
        catalog.drop_table(at.path)
    at.done(f"dropped {path}", dropped=path)


@command(program, branch=False, options=True)
def iceberg(at: Target) -> None:
    """Write Iceberg metadata of the newest snapshot, for Iceberg's readers."""
    number = at.table.maintenance.publish_iceberg(at.options)
    at.done("the table has no snapshot" if number is None else f"snapshot {number} is published", snapshot=number)


@command(
    program,
    p.argument("query", "a query in DuckDB's dialect, over tables named DATABASE.TABLE"),
    p.option("--warehouse", metavar="PATH", help="the directory or URL that has the databases; or --catalog"),
    p.flag("--explain", "run the query, and print DuckDB's plan and what indexes left of each scan instead of rows"),
    table=False,
    branch=False,
    rows=True,
)
def sql(at: Target, query: str, warehouse: str | None, explain: bool) -> None:
    """Print the result of a query of DuckDB over the tables of a warehouse."""
    from paimon_pyds.base.row_stream import library
    from paimon_pyds.catalog.duckdb_query import explained
    from paimon_pyds.catalog.duckdb_query import query as run

    duckdb, catalog = library("duckdb"), _catalog(at, warehouse)
    try:
        if explain:
            plan, scans = explained(catalog, query)
            at.answer(None, plan, *(scan.text for scan in scans))
            return
        reader = run(catalog, query).to_arrow_reader()
        at.show_rows(reader.schema, reader)
    except duckdb.Error as error:
        text = str(error).partition("\n\n")[0].replace("\n", " ")  # then comes the query
        raise OptionError(f"DuckDB: {text}", hint="see DuckDB's documentation of SQL") from error
