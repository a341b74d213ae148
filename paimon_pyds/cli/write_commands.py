"""The commands that write: ``write``, ``delete``, ``update``, ``merge``, ``compact`` and ``rescale``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.secrets import counted
from paimon_pyds.cli import display as show
from paimon_pyds.cli.arguments import (
    WHERE_PARTITIONS,
    Commands,
    add_matching_argument,
    add_repeated,
    add_table_command,
    add_where,
    catalog_of,
    create_table,
    key_values,
    names_in,
    number,
    open_table,
    storage_options,
    table_options,
)
from paimon_pyds.cli.asking import add_dry_run
from paimon_pyds.cli.inputs import InputFormat, add_input_arguments, format_of, matching_keys, open_inputs
from paimon_pyds.errors import OptionError, SchemaError, TableNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.engine.compact.compact import CompactSummary
    from paimon_pyds.engine.rowlevel.changes import RowSummary
    from paimon_pyds.ops.rescale.rescale import RescaleSummary
    from paimon_pyds.table import Table

_WHERE_ROWS = "Spark SQL text: the rows for which it is true; TRUE for every row"


def add_write_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    help_ = "Append or overwrite rows from Parquet, ORC, Arrow, CSV or JSON-lines files."
    parser = add_table_command(commands, "write", help_, _write, options=True)
    parser.add_argument("inputs", nargs="+", metavar="FILE", help="input files; - is standard input")
    add_input_arguments(parser)
    parser.add_argument("--mode", choices=("append", "overwrite"), default="append")
    add_repeated(parser, "--partition", "overwrite only this", metavar="KEY=VALUE")
    parser.add_argument("--dynamic", action="store_true", help="overwrite the partitions that the input has rows in")
    parser.add_argument("--rowkind-column", metavar="COLUMN", help="it has +I, -U, +U or -D for each row; not stored")
    text = "take columns that the input lacks as NULL, or refuse all; else refuse those whose values NULL would replace"
    parser.add_argument("--missing-columns", choices=("null", "refuse"), help=text)
    parser.add_argument("--create", action="store_true", help="create the table when it is missing")
    parser.add_argument("--partition-by", default="", help="partition columns of a created table")
    parser.add_argument("--primary-key", default="", help="columns of a created table's key")

    help_ = "Delete rows: by deletion vectors where the table has them enabled."
    parser = add_table_command(commands, "delete", help_, _delete, options=True)
    add_where(parser, f"{_WHERE_ROWS}; may be left out with --matching")
    add_matching_argument(parser)

    parser = add_table_command(commands, "update", "Set columns of rows to new values.", _update, options=True)
    parser.add_argument(
        "--set",
        action="append",
        required=True,
        metavar="COLUMN=EXPRESSION",
        help='such as "price = price * 1.1" or "color = \'red\'"; can be given again',
    )
    add_where(parser, _WHERE_ROWS, required=True)

    _add_merge(commands)

    help_ = "Merge small files, drop deleted rows, and order rows on request."
    parser = add_table_command(commands, "compact", help_, _compact, options=True)
    add_where(parser, WHERE_PARTITIONS)
    parser.add_argument("--order-by", help="columns to order the rows of each partition by, separated by commas")
    parser.add_argument(
        "--order",
        choices=("order", "zorder", "hilbert"),
        default="order",
        help="how: column by column, or clustered by all of the columns",
    )
    parser.add_argument("--full", action="store_true", help="drop every deleted row, merge even few small files")
    add_dry_run(parser, "only show what would be rewritten")

    help_ = "Write partitions anew with another number of buckets."
    parser = add_table_command(commands, "rescale", help_, _rescale, options=True)
    parser.add_argument(
        "bucket_num", type=number, nargs="?", help="how many; as many as the option bucket says without"
    )
    add_where(parser, WHERE_PARTITIONS)
    add_dry_run(parser, "only show what would be written anew")


def _add_merge(commands: Commands) -> None:
    help_ = "Bring rows of a file or of another table into the table."
    parser = add_table_command(commands, "merge", help_, _merge, options=True)
    parser.add_argument(
        "--source",
        required=True,
        action="append",
        metavar="FILE|TABLE_PATH",
        help="Parquet, ORC, Arrow, CSV or JSON-lines files (can be repeated; - is standard input), or one Paimon table",
    )
    add_input_arguments(parser)
    parser.add_argument(
        "--on",
        required=True,
        metavar="COLUMNS|CONDITION",
        help='columns equal on both sides, such as "id", or SQL text: "target.id = source.id AND source.n > 1"',
    )
    for kind, help_ in (
        ("matched", 'rows that match: update, delete, or "source.gone THEN DELETE", "UPDATE SET price = source.price"'),
        ("not-matched", 'rows of the source that match nothing: insert, or "INSERT (id, n) VALUES (source.id, 0)"'),
        ("not-matched-by-source", "rows of the table that match nothing: delete, or a clause as above"),
    ):
        text = f"{help_}; can be repeated: the first clause whose condition is true acts"
        add_repeated(parser, f"--when-{kind}", text, metavar="CLAUSE")


def _write(arguments: argparse.Namespace) -> None:
    from paimon_pyds.engine.write.missing_columns import MISSING_COLUMNS

    made = False
    try:
        table, options = open_table(arguments), _write_options(arguments)
        how = InputFormat.of(arguments, table.arrow_schema)
        notes = bool(table.primary_key) or MISSING_COLUMNS in options
        schema, batches = open_inputs(arguments.inputs, replace(how, notes_missing=notes))
    except TableNotFoundError as error:
        if not arguments.create:
            raise TableNotFoundError(error.message, path=error.path, hint="add --create to make it") from error
        try:
            schema, batches = open_inputs(arguments.inputs, InputFormat.of(arguments))
        except SchemaError as refused:
            if refused.hint is not None and "change_types" in refused.hint:  # of no table yet
                refused.hint = "correct it, or say another type with --types"
            raise
        made, (table, options) = True, _created(arguments, schema)
    partition = key_values(arguments.partition, "--partition") or None
    if arguments.mode == "append" and (partition or arguments.dynamic):
        raise OptionError("--partition and --dynamic belong to --mode overwrite")
    rows = 0

    def counting() -> Iterator[pa.RecordBatch | pa.Table]:
        nonlocal rows
        from paimon_pyds.base.arrays import empty_table

        yield empty_table(schema)  # tells the columns where there is no row
        for batch in batches:
            yield batch
            rows += batch.num_rows

    with _unmade_on_failure(arguments, table) if made else nullcontext():
        if arguments.mode == "append":
            snapshot = table.append(counting(), options=options)
        else:
            snapshot = table.overwrite(counting(), partition, arguments.dynamic, options=options)
    id_, text = None, "nothing to write: the input has no rows"
    if snapshot is not None:
        id_, text = snapshot.id, f"{counted(rows, 'row')} written, snapshot {snapshot.id}"
    show.answer(arguments.output, {"rows": rows, "snapshot": id_}, text)


def _write_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Options of the write, those that have arguments of their own among them."""
    from paimon_pyds.base.options.option import with_settings

    given = {"rowkind-column": arguments.rowkind_column, "missing-columns": arguments.missing_columns}
    return with_settings(table_options(arguments), given)


def _unmade_on_failure(arguments: argparse.Namespace, table: Table) -> AbstractContextManager[None]:
    """A new table is taken away where its first rows fail, as by `Table.create` and `Catalog.create_table`."""
    from paimon_pyds.ops.ddl.create import unmade_on_failure

    catalog = catalog_of(arguments, arguments.table)
    if catalog is None:
        return unmade_on_failure(table._store)
    from paimon_pyds.catalog.catalog import taking_back

    return unmade_on_failure(table._store, taking_back(catalog, arguments.table))


def _created(arguments: argparse.Namespace, schema: pa.Schema) -> tuple[Table, dict[str, str]]:
    """A new table, and the options that are left for the write: the table takes the others as its own."""
    import pyarrow as pa

    from paimon_pyds.base.options import check_appendable, check_writable
    from paimon_pyds.base.types.arrow import from_arrow_schema
    from paimon_pyds.engine.write.incoming import ROW_KIND_COLUMN
    from paimon_pyds.engine.write.missing_columns import MISSING_COLUMNS
    from paimon_pyds.metadata.schema import TableSchema

    own = _write_options(arguments)
    kinds = own.pop(ROW_KIND_COLUMN, None)
    missing = own.pop(MISSING_COLUMNS, "null")
    try:
        fields = from_arrow_schema(pa.schema([field for field in schema if field.name != kinds]))
    except SchemaError as error:
        if (arguments.input_format or format_of(arguments.inputs[0])) in ("csv", "json"):
            error.hint = "say it with --types"
        raise
    key, parts = (tuple(filter(None, names_in(text))) for text in (arguments.primary_key, arguments.partition_by))
    key = key or tuple(filter(None, names_in(own.pop("primary-key", ""))))
    check_writable(TableSchema(0, fields, len(fields), parts, key, own))  # else it would stay, empty
    if arguments.mode == "append":
        check_appendable(own)
    table = create_table(arguments, fields, primary_key=key, partition_by=parts, options=own)
    return table, {MISSING_COLUMNS: missing, **({} if kinds is None else {ROW_KIND_COLUMN: kinds})}


def _delete(arguments: argparse.Namespace) -> None:
    if arguments.where is None and arguments.matching is None:
        raise OptionError("delete: --where or --matching is missing", hint="--where TRUE deletes every row")
    table = open_table(arguments)
    keys = matching_keys(arguments, table.schema.fields)
    summary = table.delete(arguments.where, matching=keys, options=table_options(arguments))
    _show_summary(arguments, summary)


def _update(arguments: argparse.Namespace) -> None:
    table = open_table(arguments)
    options = table_options(arguments)
    summary = table.update(_assignments(arguments.set), arguments.where, options=options)
    _show_summary(arguments, summary)


def _assignments(texts: Sequence[str]) -> dict[str, str]:
    """``column = expression`` texts; a column's name may stand in backquotes. Raises OptionError."""
    found: dict[str, str] = {}
    for text in texts:
        quoted = text.strip().startswith("`")
        name, equals, expression = text.strip()[1:].partition("`") if quoted else text.partition("=")
        if quoted:
            expression, equals = expression.strip()[1:], expression.strip()[:1]
        name = name if quoted else name.strip()
        if equals != "=" or not name or not expression.strip():
            raise OptionError(f"--set takes COLUMN=EXPRESSION, not {text!r:.200}")
        if name in found:
            raise OptionError(f"--set names column {name!r} twice")
        found[name] = expression.strip()
    return found


def _show_summary(arguments: argparse.Namespace, summary: RowSummary | CompactSummary | RescaleSummary) -> None:
    show.answer(arguments.output, asdict(summary), str(summary))


def _merge(arguments: argparse.Namespace) -> None:
    if not (arguments.when_matched or arguments.when_not_matched or arguments.when_not_matched_by_source):
        raise OptionError("a merge needs a clause", hint="such as --when-matched update --when-not-matched insert")
    table = open_table(arguments)
    source = _source(arguments, table)
    summary = table.merge(
        source,
        arguments.on,
        when_matched=arguments.when_matched,
        when_not_matched=arguments.when_not_matched,
        when_not_matched_by_source=arguments.when_not_matched_by_source,
        options=table_options(arguments),
    )
    _show_summary(arguments, summary)


def _source(arguments: argparse.Namespace, table: Table) -> Any:
    """The rows of files, or of a Paimon table."""
    paths = arguments.source
    local = [path for path in paths if "://" not in path]
    if len(local) == len(paths) and not any(Path(path).is_dir() for path in paths):
        import pyarrow as pa

        schema, batches = open_inputs(paths, InputFormat.of(arguments, table.arrow_schema))
        return pa.RecordBatchReader.from_batches(schema, batches)
    if len(paths) > 1:
        raise OptionError("a merge takes several files, or one table, as its source")
    from paimon_pyds.table import Table

    return Table.open(paths[0], storage_options=storage_options(arguments)).scan().to_reader()


def _compact(arguments: argparse.Namespace) -> None:
    table = open_table(arguments)
    summary = table.compact(
        arguments.where,
        arguments.order_by,
        order=arguments.order,
        full=arguments.full,
        dry_run=arguments.dry_run,
        options=table_options(arguments),
    )
    _show_summary(arguments, summary)
    if summary.groups == summary.groups_skipped == 0 and summary.files > 1 and not arguments.full:
        print("no compaction is due yet; --full does not wait", file=sys.stderr)


def _rescale(arguments: argparse.Namespace) -> None:
    table = open_table(arguments)
    summary = table.maintenance.rescale(
        arguments.bucket_num, arguments.where, dry_run=arguments.dry_run, options=table_options(arguments)
    )
    _show_summary(arguments, summary)
