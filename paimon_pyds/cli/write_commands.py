"""The commands that write rows: ``append``, ``overwrite``, ``delete``, ``update``, ``merge``, ``compact``,
``truncate``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paimon_pyds.base.secrets import counted
from paimon_pyds.cli import parameters as p
from paimon_pyds.cli.inputs import InputFormat, format_of, matching_keys, open_inputs
from paimon_pyds.cli.program import program
from paimon_pyds.cli.target import Target, command
from paimon_pyds.errors import OptionError, SchemaError, TableNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.table import Table

_ROWS_HELP = "Spark SQL text: the rows for which it is true; TRUE for every row"
_write = p.together(
    p.argument("inputs", "input files; - is standard input", nargs=-1, required=True, metavar="FILE...", type=p.FILE),
    p.option("--rowkind-column", metavar="COLUMN", help="it has +I, -U, +U or -D for each row; not stored"),
    p.option("--missing-columns", type=click.Choice(("null", "refuse")), help="take columns that the input lacks as "
             "NULL, or refuse all; by default refuse those whose values NULL would replace"),
    p.flag("--create", "create the table when it is missing"),
    p.option("--partition-by", type=p.NAMES, default="", metavar="NAMES", help="partition columns of a created table"),
    p.option("--primary-key", type=p.NAMES, default="", metavar="NAMES", help="columns of a created table's key"),
    p.row_input,
)  # fmt: skip


@command(program, _write, options=True)
def append(at: Target, inputs: tuple[str, ...], **given: Any) -> None:
    """Append rows from Parquet, ORC, Arrow, CSV or JSON-lines files."""
    _Writing(at, inputs, given, appends=True).run()


@command(
    program,
    _write,
    p.pairs("--partition", "overwrite only this partition"),
    p.flag("--dynamic", "overwrite the partitions that the input has rows in"),
    options=True,
)
def overwrite(at: Target, inputs: tuple[str, ...], partition: dict[str, str], dynamic: bool, **given: Any) -> None:
    """Replace the rows of the table, or of partitions, by those of files."""
    _Writing(at, inputs, given, appends=False).run(partition or None, dynamic)


class _Writing:
    """Rows of files on their way into a table, which may be created for them."""

    def __init__(self, at: Target, inputs: tuple[str, ...], given: dict[str, Any], *, appends: bool) -> None:
        from paimon_pyds.base.options.option import with_settings

        self._at, self._inputs, self._appends = at, inputs, appends
        self._how = InputFormat.of(given)
        self._creates: bool = given.pop("create")
        self._partition_by, self._primary_key = given.pop("partition_by"), given.pop("primary_key")
        # The arguments that are left are options of Paimon's.
        self._options = with_settings(at.options, {name.replace("_", "-"): value for name, value in given.items()})

    def run(self, *overwritten: Any) -> None:
        """Write. ``overwritten``: what `Table.overwrite` replaces."""
        made, (table, schema, batches) = False, self._opened()
        if table is None:
            made, table = True, self._created(schema)
        rows = 0

        def counting() -> Iterator[pa.RecordBatch | pa.Table]:
            nonlocal rows
            from paimon_pyds.base.arrays import empty_table

            yield empty_table(schema)  # has the columns where there is no row
            for batch in batches:
                yield batch
                rows += batch.num_rows

        with self._unmade_on_failure(table) if made else nullcontext():
            if self._appends:
                snapshot = table.append(counting(), options=self._options)
            else:
                snapshot = table.overwrite(counting(), *overwritten, options=self._options)
        id_, text = None, "nothing to write: the input has no rows"
        if snapshot is not None:
            id_, text = snapshot.id, f"{counted(rows, 'row')} written, snapshot {snapshot.id}"
        self._at.answer({"rows": rows, "snapshot": id_}, text)

    def _opened(self) -> tuple[Table | None, pa.Schema, Iterator[pa.RecordBatch]]:
        """The table, None where it is to be created, and the rows."""
        from paimon_pyds.engine.write.missing_columns import MISSING_COLUMNS

        try:
            table = self._at.table
        except TableNotFoundError as error:
            if not self._creates:
                raise TableNotFoundError(error.message, path=error.path, hint="add --create to make it") from error
            return None, *open_inputs(self._inputs, self._how)
        notes = bool(table.primary_key) or MISSING_COLUMNS in self._options
        return table, *open_inputs(self._inputs, self._how.of_table(table.arrow_schema, notes_missing=notes))

    def _created(self, schema: pa.Schema) -> Table:
        """A new table. It takes the options as its own, but for those of the write."""
        import pyarrow as pa

        from paimon_pyds.base.options import check_appendable, check_writable
        from paimon_pyds.base.types.arrow import from_arrow_schema
        from paimon_pyds.engine.write.incoming import ROW_KIND_COLUMN
        from paimon_pyds.engine.write.missing_columns import MISSING_COLUMNS
        from paimon_pyds.metadata.schema import TableSchema
        from paimon_pyds.ops.ddl.merge_schema import OPTIONS

        own = {name: text for name, text in self._options.items() if name not in OPTIONS}
        kinds = own.pop(ROW_KIND_COLUMN, None)
        self._options = {MISSING_COLUMNS: own.pop(MISSING_COLUMNS, "null")}
        self._options |= {} if kinds is None else {ROW_KIND_COLUMN: kinds}
        try:
            fields = from_arrow_schema(pa.schema([field for field in schema if field.name != kinds]))
        except SchemaError as error:
            if (self._how.name or format_of(self._inputs[0])) in ("csv", "json"):
                error.hint = "say it with --types"
            raise
        key = tuple(self._primary_key or p.names_in(own.pop("primary-key", "")))
        parts = tuple(self._partition_by)
        check_writable(TableSchema(0, fields, len(fields), parts, key, own))  # else it would stay, empty
        if self._appends:
            check_appendable(own)
        return self._at.create(fields, primary_key=key, partition_by=parts, options=own)

    def _unmade_on_failure(self, table: Table) -> AbstractContextManager[None]:
        """Remove a new table where its first rows fail, as `Table.create` and `Catalog.create_table` do."""
        from paimon_pyds.ops.ddl.create import unmade_on_failure

        assert self._at.path is not None
        catalog = self._at.catalog(self._at.path)
        if catalog is None:
            return unmade_on_failure(table._store)
        from paimon_pyds.catalog.catalog import taking_back

        return unmade_on_failure(table._store, taking_back(catalog, self._at.path))


@command(program, p.where(f"{_ROWS_HELP}; may be left out with --matching"), p.matching, options=True)
def delete(at: Target, where: str | None, matching: str | None) -> None:
    """Delete rows: by deletion vectors where the table has them enabled."""
    if where is None and matching is None:
        raise OptionError("delete: --where or --matching is missing", hint="--where TRUE deletes every row")
    keys = None if matching is None else matching_keys(matching, at.table.schema.fields)
    at.summary(at.table.delete(where, matching=keys, options=at.options))


@command(
    program,
    p.repeated("--set", 'such as "price = price * 1.1" or "color = \'red\'"', "COLUMN=EXPRESSION", required=True),
    p.where(_ROWS_HELP, required=True),
    options=True,
)
def update(at: Target, where: str, **given: Any) -> None:
    """Set columns of rows to new values."""
    at.summary(at.table.update(_assignments(given["set"]), where, options=at.options))


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


_CLAUSES = {
    "matched": 'rows that match: update, delete, or "source.gone THEN DELETE", "UPDATE SET price = source.price"',
    "not-matched": 'rows of the source that match nothing: insert, or "INSERT (id, n) VALUES (source.id, 0)"',
    "not-matched-by-source": "rows of the table that match nothing: delete, or a clause as above",
}


@command(
    program,
    p.repeated("--source", "Parquet, ORC, Arrow, CSV or JSON-lines files (- is standard input), or one Paimon table",
               "FILE|TABLE_PATH", required=True),
    p.option("--on", required=True, metavar="COLUMNS|CONDITION", help="columns equal on both sides, such as \"id\", or "
             'SQL text: "target.id = source.id AND source.n > 1"'),
    *(p.repeated(f"--when-{kind}", f"{text}; of several clauses the first whose condition is true acts", "CLAUSE")
      for kind, text in _CLAUSES.items()),
    p.row_input,
    options=True,
)  # fmt: skip
def merge(at: Target, source: tuple[str, ...], on: str, **given: Any) -> None:
    """Bring rows of a file or of another table into the table."""
    how = InputFormat.of(given)
    clauses = {name: list(texts) for name, texts in given.items()}
    if not any(clauses.values()):
        raise OptionError("a merge needs a clause", hint="such as --when-matched update --when-not-matched insert")
    at.summary(at.table.merge(_source(at, source, how), on, **clauses, options=at.options))  # type: ignore[arg-type]


def _source(at: Target, paths: tuple[str, ...], how: InputFormat) -> Any:
    """The rows of files, or of a Paimon table."""
    if not any("://" in path or Path(path).is_dir() for path in paths):
        import pyarrow as pa

        schema, batches = open_inputs(paths, how.of_table(at.table.arrow_schema))
        return pa.RecordBatchReader.from_batches(schema, batches)
    if len(paths) > 1:
        raise OptionError("a merge takes several files, or one table, as its source")
    from paimon_pyds.table import Table

    return Table.open(paths[0], storage_options=at.storage_options).scan().to_reader()


@command(
    program,
    p.where(p.PARTITIONS_HELP),
    p.option("--order-by", metavar="NAMES", help="columns to order the rows of each partition by"),
    p.option("--order", type=click.Choice(("order", "zorder", "hilbert")), default="order",
             help="column by column, or clustered by all of the columns"),
    p.flag("--full", "drop every deleted row, merge even few small files"),
    p.dry_run("only show what would be rewritten"),
    options=True,
)  # fmt: skip
def compact(at: Target, full: bool, **given: Any) -> None:
    """Merge small files, drop deleted rows, and order rows on request."""
    summary = at.table.compact(full=full, options=at.options, **given)
    at.summary(summary)
    if summary.groups == summary.groups_skipped == 0 and summary.files > 1 and not full:
        print("no compaction is due yet; --full does not wait", file=sys.stderr)


@command(program, p.confirmed_removal, options=True)
def truncate(at: Target, **how: bool) -> None:
    """Delete all rows; older snapshots still have them."""
    at.remove("truncate", partial(at.table.truncate, options=at.options), **how)
