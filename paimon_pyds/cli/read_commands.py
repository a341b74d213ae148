"""The commands that read: ``scan``, ``count`` and other answers, ``explain``, ``lookup``, ``describe``, and system
tables."""

from __future__ import annotations

import itertools
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from paimon_pyds.base.progress import shown
from paimon_pyds.base.secrets import redact
from paimon_pyds.base.text import whole_number
from paimon_pyds.cli import display as show
from paimon_pyds.cli import parameters as p
from paimon_pyds.cli.inputs import format_of, open_inputs
from paimon_pyds.cli.program import program, system
from paimon_pyds.cli.target import Target, command
from paimon_pyds.errors import OptionError, StorageError, UnsupportedError

if TYPE_CHECKING:
    from paimon_pyds.engine.query.answer import Answer
    from paimon_pyds.ops.explain.explain import Explanation
    from paimon_pyds.ops.layout.data import Layout, LayoutComparison

_TEXT_LIMIT = 100
"""Rows that a terminal shows without ``--limit``: a large table does not flood it."""
_query = p.together(p.where(), p.matching, p.travel)
_scan = p.together(
    _query,
    p.columns,
    p.number("--limit", "rows at most; text output has 100 unless given"),
    p.option("--top-n", metavar="ORDER", help="the first rows in an order: 'amount desc nulls last, 10'"),
)


@command(program, _scan, rows=True, options=True)
def scan(at: Target, limit: int | None, **given: Any) -> None:
    """Print rows."""
    assert at.rows is not None
    # Text is for people, who are shown 100 rows unless they say how many.
    cut = limit is None and given["top_n"] is None and at.rows.form == "text"
    rows = at.scan(limit=_TEXT_LIMIT if cut else limit, **given)
    if not cut:
        # Rows and a line that moves don't mix.
        to_terminal = at.rows.is_standard_output and sys.stdout is not None and sys.stdout.isatty()
        with shown("read", False if to_terminal else None):
            at.show_rows(rows.arrow_schema, rows.to_batches())
        return
    table = rows.to_arrow()
    at.show_rows(table.schema, table.to_batches())
    if table.num_rows == _TEXT_LIMIT and at.rows.is_standard_output:
        print(f"(the first {_TEXT_LIMIT} rows; --limit N shows more)")


_how = p.flag("--how", "also show how each file was answered, and the bytes read")
_column = p.argument("column", "the column")


@command(program, _query, _how, options=True)
def count(at: Target, how: bool, **query: Any) -> None:
    """Count rows."""
    _show_answer(at, "count", at.scan(**query).answer.count(), how=how)


@command(program, _query, _how, options=True)
def exists(at: Target, how: bool, **query: Any) -> None:
    """Say whether there is a row."""
    _show_answer(at, "exists", at.scan(**query).answer.exists(), how=how)


@command(program, _column, _query, _how, rows=True, options=True)
def distinct(at: Target, column: str, how: bool, **query: Any) -> None:
    """List the distinct values of a column with the number of rows of each."""
    assert at.rows is not None
    answer = at.scan(**query).answer.distinct(column)
    form = at.rows.form
    # For programs the names are the same for every column.
    values = answer.value if form in ("text", "markdown") else answer.value.rename_columns(["value", "count"])
    at.show_rows(values.schema, values.to_batches())
    if how and form == "json":
        show.json_value(_facts(answer))
    elif how:
        print(_how_text(answer), file=None if form == "text" else sys.stderr)


@command(program, _column, _query, _how, options=True)
def min_(at: Target, column: str, how: bool, **query: Any) -> None:
    """Print the smallest value of a column."""
    _show_answer(at, "min", at.scan(**query).answer.min(column), how=how)


@command(program, _column, _query, _how, options=True)
def max_(at: Target, column: str, how: bool, **query: Any) -> None:
    """Print the largest value of a column."""
    _show_answer(at, "max", at.scan(**query).answer.max(column), how=how)


@command(program, _column, _query, _how, options=True)
def sum_(at: Target, column: str, how: bool, **query: Any) -> None:
    """Print the sum of a column."""
    _show_answer(at, "sum", at.scan(**query).answer.sum(column), how=how)


@command(
    program,
    _column,
    _query,
    p.columns,
    p.option("--vector", metavar="JSON", help="numbers, to whose rows near ones are found: '[0.5, 1, 2]'"),
    p.option("--text", metavar="WORDS", help="words that rows match best, or a query as JSON"),
    p.option("--metric", metavar="METRIC", help="l2, cosine or inner_product"),
    p.number("-k", "rows at most (10)", default=10),
    p.flag("--exact", "look at all rows, and use no index"),
    rows=True,
    options=True,
)
def search(at: Target, column: str, **given: Any) -> None:
    """Print the rows that are nearest to a vector, or match a text best."""
    assert at.rows is not None
    wanted = {name: given.pop(name) for name in ("vector", "text", "metric", "k", "exact")}
    for name in ("vector", "text"):
        try:
            wanted[name] = wanted[name] if name == "text" and wanted[name][:1] != "{" else json.loads(wanted[name])
        except (TypeError, ValueError):
            if wanted[name] is not None:
                raise OptionError(f"--{name} is no JSON: {wanted[name]!r:.60}") from None
    found = at.scan(**given).search(column=column, **wanted)
    at.show_rows(found.schema, found.to_batches())


def _show_answer(at: Target, name: str, answer: Answer[Any], *, how: bool) -> None:
    """Print an answer from metadata and indexes where these are exact; with ``--how`` also how it was found."""
    if at.output == "json":
        show.json_value({name: answer.value, **(_facts(answer) if how else {})})
        return
    show.text_value(answer.value)
    if how:
        print(_how_text(answer))


def _facts(answer: Answer[Any]) -> dict[str, Any]:
    names = ("source", "files_by_metadata", "files_by_index", "files_read", "bytes_read")
    return {name: getattr(answer, name) for name in names}


def _how_text(answer: Answer[Any]) -> str:
    return (
        f"(by {answer.source}: {answer.files_by_metadata:,} files by metadata, {answer.files_by_index:,} by index, "
        f"{answer.files_read:,} read; {answer.bytes_read:,} bytes)"
    )


@command(
    program,
    _scan,
    p.flag("--analyze", "run the scan as well, and show its time and bytes"),
    p.html,
    options=True,
)
def explain(at: Target, analyze: bool, html: str | None, **given: Any) -> None:
    """Show what partitions, statistics and indexes leave of a scan."""
    show_pictured(at, at.scan(**given).explain(analyze=analyze), html)


def show_pictured(at: Target, found: Explanation | Layout | LayoutComparison, html: str | None) -> None:
    """Print what also has a page, and write that to a file where one is named."""
    if html is not None:
        try:
            with open(html, "w", encoding="utf-8") as file:
                file.write(found.page)
        except OSError as error:
            raise StorageError(f"can't write the page: {error.strerror}", path=html) from error
    at.answer(found.as_dict() if at.output == "json" else None, found.text)


@command(
    program,
    p.argument("keys", "a JSON object such as '{\"id\": 7}', just 7 where the key has one column, or a file of keys",
               nargs=-1, required=True, metavar="KEY..."),
    p.columns,
    p.travel,
    rows=True,
    options=True,
)  # fmt: skip
def lookup(at: Target, keys: tuple[str, ...], columns: list[str] | None, **travel: Any) -> None:
    """Print the current rows of some keys."""
    from paimon_pyds.base.types.kinds import INTEGER_KINDS, STRING_KINDS

    table, rows, files = at.table, list[Any](), list[str]()
    if not table.primary_key:
        hint = at.command_line("scan", "--where", "…")
        raise UnsupportedError("the table has no primary key to look rows up by", path=table.path, hint=f"use {hint}")
    kind = table.schema.field(table.primary_key[0]).type.kind if len(table.primary_key) == 1 else None
    for key in keys:
        if key.lstrip().startswith("{"):
            try:
                rows.append(json.loads(key))
            except ValueError as error:
                raise OptionError(f"a key is no JSON object: {error}", hint="such as '{\"id\": 7}'") from error
        elif kind in INTEGER_KINDS and (number := whole_number(key)) is not None:
            rows.append({table.primary_key[0]: number})
        elif kind in STRING_KINDS and format_of(key) is None:
            rows.append({table.primary_key[0]: key})
        elif "." in key:
            files.append(key)
        else:
            raise OptionError(f"{key!r:.100} is no key, and no file", hint="a key is JSON, such as '{\"id\": 7}'")
    of_all = itertools.chain([rows] if rows else [], open_inputs(files)[1] if files else [])
    found = table.lookup(of_all, columns, options=at.options, **travel)
    at.show_rows(found.schema, found.to_batches())


@command(program, p.flag("--all-options", "every option, not only those that are set"))
def describe(at: Target, all_options: bool) -> None:
    """Show columns, keys and options."""
    from paimon_pyds.base.types import type_to_json

    table = at.table
    schema, snapshot = table.schema, table.snapshots.latest()
    options = [o for o in table.system.describe_options().to_pylist() if all_options or o["set"]]
    if at.output == "text":
        show.describe(table, options)
        return
    show.json_value(
        {
            "path": redact(table.path),
            "schema_id": schema.id,
            "columns": [{"id": f.id, "name": f.name, "type": type_to_json(f.type)} for f in schema.fields],
            "partition_by": list(schema.partition_keys),
            "primary_key": list(schema.primary_keys),
            "comment": schema.comment,
            "options": options,
            "snapshot": None if snapshot is None else snapshot.id,
            "rows": None if snapshot is None else snapshot.row_count,
            "stored_rows": None if snapshot is None else snapshot.total_record_count,
        }
    )


@command(
    system,
    p.argument("names", "a table, and the name of a system table of it: files, file_indexes, snapshots, schemas, "
               "options, manifests, …; with --warehouse or --catalog only the name: db.t$files, tables, partitions, "
               "all_table_options, catalog_options", nargs=-1, required=True, metavar="[TABLE_PATH] NAME"),
    p.option("--warehouse", metavar="PATH", help="the directory or URL of a warehouse, instead of TABLE_PATH"),
    p.where(),
    p.travel,
    p.columns,
    p.number("--limit", "rows at most"),
    table=False,
    rows=True,
)  # fmt: skip
def system_read(at: Target, names: tuple[Any, ...], warehouse: str | None, where: str | None, **query: Any) -> None:
    """Print a system table of a table or of a warehouse."""
    from paimon_pyds.engine.scan.travel import scan_options

    travel = {name: query.pop(name) for name in ("snapshot", "tag", "timestamp")}
    options = scan_options(**travel, options={})
    *paths, name = names
    if len(paths) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({names[2]})")
    at.path = paths[0] if paths else None
    catalog = at.warehouse(warehouse) if at.path is None else None
    if (at.path is None) == (catalog is None) or (at.path and warehouse):
        from paimon_pyds.ops.system.tables import NAMES

        text = f"the name of a system table follows: {', '.join(NAMES)}"
        raise OptionError("give a table, --warehouse or --catalog", hint=text)
    if catalog is None:
        found = at.table.system.scan(name, where, options=options, **query)
    elif at.branch is not None:
        raise OptionError("--branch goes with the path of a table", hint="write db.t$branch_NAME$files")
    else:
        found = catalog.system.scan(name, where, options=options, **query)
    at.show_rows(found.arrow_schema, found.to_batches())


def _show_changes(at: Target, found: Any) -> None:
    at.show_rows(found.arrow_schema, found.to_batches())


@command(system, p.where(), p.columns, p.number("--limit", "rows at most"), rows=True, options=True)
def system_audit_log(at: Target, **query: Any) -> None:
    """Print each row with its kind."""
    _show_changes(at, at.table.system.audit_log(options=at.options, **query))


@command(system, p.columns, rows=True, options=True)
def system_binlog(at: Target, **query: Any) -> None:
    """Print updates as one row, with lists of the old and the new values."""
    _show_changes(at, at.table.system.binlog(options=at.options, **query))
