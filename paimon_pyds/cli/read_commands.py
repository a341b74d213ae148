"""The commands that read: ``read``, ``count``, ``exists``, ``distinct``, ``min``, ``max``, ``sum``, ``explain``,
``layout``, ``lookup``, ``describe``, ``snapshots`` and ``system``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.numerals import whole_number
from paimon_pyds.base.progress import shown
from paimon_pyds.base.secrets import redact
from paimon_pyds.cli import display as show
from paimon_pyds.cli.arguments import (
    WHERE_PARTITIONS,
    Commands,
    add_common_arguments,
    add_matching_argument,
    add_query_arguments,
    add_table_command,
    add_travel_arguments,
    add_where,
    command_line,
    names_in,
    number,
    open_table,
    scan_of,
    travel_of,
    warehouse_of,
)
from paimon_pyds.cli.inputs import format_of, open_inputs
from paimon_pyds.cli.output import form_of, show_rows
from paimon_pyds.errors import OptionError, StorageError, UnsupportedError

if TYPE_CHECKING:
    from paimon_pyds.engine.query.answer import Answer
    from paimon_pyds.ops.explain.explain import Explanation
    from paimon_pyds.ops.layout.data import Layout, LayoutComparison

_TEXT_LIMIT = 100
_ANSWERS = {
    "count": "Count rows.",
    "exists": "Say whether there is a row.",
    "distinct": "List the distinct values of a column with the number of rows of each.",
    "min": "Print the smallest value of a column.",
    "max": "Print the largest value of a column.",
    "sum": "Print the sum of a column.",
}


def add_read_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    parser = add_table_command(commands, "read", "Print rows.", _read, rows=True, options=True)
    _add_scan_arguments(parser, "rows at most (text output: 100 unless given)")

    for name, help_ in _ANSWERS.items():
        parser = add_table_command(commands, name, help_, rows=name == "distinct", options=True)
        if name not in ("count", "exists"):
            parser.add_argument("column", metavar="COLUMN")
        add_query_arguments(parser)
        add_matching_argument(parser)
        parser.add_argument(
            "--how", action="store_true", help="also show how each file was answered, and the bytes read"
        )
        parser.set_defaults(run=_answer, question=name, column=None)

    help_ = "Show what partitions, statistics and indexes leave of a scan."
    parser = add_table_command(commands, "explain", help_, _explain, options=True)
    _add_scan_arguments(parser, "rows that the scan returns at most")
    parser.add_argument("--analyze", action="store_true", help="run the scan as well, and show its time and bytes")
    parser.add_argument("--html", metavar="FILE", help="also write it as a page with pictures")

    parser = add_table_command(commands, "layout", "Show how much the data files overlap in each column.", _layout)
    parser.add_argument("--columns", type=names_in, help="columns, separated by commas; all by default")
    add_where(parser, WHERE_PARTITIONS)
    parser.add_argument("--snapshot", type=number, help="of this snapshot")
    parser.add_argument("--before", type=number, metavar="SNAPSHOT", help="compare it with that of this snapshot")
    parser.add_argument("--html", metavar="FILE", help="also write it as a page with pictures")

    help_ = "Print the current rows of some keys."
    parser = add_table_command(commands, "lookup", help_, _lookup, rows=True, options=True)
    parser.add_argument(
        "keys",
        nargs="+",
        metavar="KEY",
        help="a JSON object such as '{\"id\": 7}', just 7 where the key has one column, or a file of keys",
    )
    parser.add_argument("--columns", type=names_in, help="columns to print, separated by commas")
    add_travel_arguments(parser)

    parser = add_table_command(commands, "describe", "Show columns, keys and options.", _describe)
    parser.add_argument("--all-options", action="store_true", help="every option, not only those that are set")

    add_table_command(commands, "snapshots", "List snapshots and tags.", _snapshots)

    help_ = "Print a system table of a table or of a warehouse."
    parser = commands.add_parser("system", help=help_, description=help_)
    parser.add_argument("table", metavar="TABLE_PATH", nargs="?", help="the table's directory or URL")
    names = "files, file_indexes, snapshots, schemas, options, manifests, …; with --warehouse also db.t$files, or "
    parser.add_argument("name", metavar="NAME", help=f"{names}tables, partitions, all_table_options, catalog_options")
    parser.add_argument("--branch", help="a branch of the table")
    parser.add_argument("--warehouse", help="the directory or URL of a warehouse, instead of TABLE_PATH")
    add_query_arguments(parser)
    parser.add_argument("--columns", type=names_in, help="columns to print, separated by commas")
    parser.add_argument("--limit", type=number, help="rows at most")
    add_common_arguments(parser, rows=True)
    parser.set_defaults(run=_system)


def _add_scan_arguments(parser: argparse.ArgumentParser, limit: str) -> None:
    add_query_arguments(parser)
    add_matching_argument(parser)
    parser.add_argument("--columns", type=names_in, help="columns that the scan returns, separated by commas")
    parser.add_argument("--limit", type=number, help=limit)
    parser.add_argument("--topn", metavar="ORDER", help="the first rows in an order: 'amount desc nulls last, 10'")


def _read(arguments: argparse.Namespace) -> None:
    """Print rows; text is for people, who are shown 100 unless they say how many."""
    limit = arguments.limit
    if limit is None and arguments.topn is None and form_of(arguments) == "text":
        limit = _TEXT_LIMIT
    scan = scan_of(arguments, columns=arguments.columns, limit=limit, top_n=arguments.topn)
    if arguments.limit == limit:
        # Rows and a line that moves don't mix.
        to_terminal = arguments.out in (None, "-") and sys.stdout is not None and sys.stdout.isatty()
        with shown("read", False if to_terminal else None):
            show_rows(arguments, scan.arrow_schema, scan.to_batches())
        return
    table = scan.to_arrow()
    show_rows(arguments, table.schema, table.to_batches())
    if table.num_rows == _TEXT_LIMIT and arguments.out in (None, "-"):
        print(f"(the first {_TEXT_LIMIT} rows; --limit N shows more)")


def _lookup(arguments: argparse.Namespace) -> None:
    """Print the rows of keys that are given as values, as JSON, or in files."""
    from paimon_pyds.base.types.kinds import INTEGER_KINDS, STRING_KINDS

    table, rows, files = open_table(arguments), list[Any](), list[str]()
    if not table.primary_key:
        hint = command_line(arguments, "read", "--where", "…")
        raise UnsupportedError("the table has no primary key to look rows up by", path=table.path, hint=f"use {hint}")
    kind = table.schema.field(table.primary_key[0]).type.kind if len(table.primary_key) == 1 else None
    for key in arguments.keys:
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
    keys = itertools.chain([rows] if rows else [], open_inputs(files)[1] if files else [])
    found = table.lookup(keys, arguments.columns, **travel_of(arguments))
    show_rows(arguments, found.schema, found.to_batches())


def _answer(arguments: argparse.Namespace) -> None:
    """Print an answer from metadata and indexes where these are exact, with ``--how`` also what it took."""
    columns = () if arguments.column is None else (arguments.column,)
    answer: Answer[Any] = getattr(scan_of(arguments).answer, arguments.question)(*columns)
    names = ("source", "files_by_metadata", "files_by_index", "files_read", "bytes_read") if arguments.how else ()
    how = {name: getattr(answer, name) for name in names}
    if arguments.question == "distinct":
        plain = form_of(arguments) in ("text", "markdown")  # else the names are the same for every column
        values = answer.value if plain else answer.value.rename_columns(["value", "count"])
        show_rows(arguments, values.schema, values.to_batches())
    elif arguments.output == "json":
        show.json_value({arguments.question: answer.value, **how})
        return
    else:
        show.text_value(answer.value)
    if how and arguments.output == "json":
        show.json_value(how)
    elif how:
        is_for_people = arguments.question != "distinct" or form_of(arguments) == "text"
        print(
            f"(by {answer.source}: {answer.files_by_metadata:,} files by metadata, {answer.files_by_index:,} by index, "
            f"{answer.files_read:,} read; {answer.bytes_read:,} bytes)",
            file=None if is_for_people else sys.stderr,
        )


def _explain(arguments: argparse.Namespace) -> None:
    scan = scan_of(arguments, columns=arguments.columns, limit=arguments.limit, top_n=arguments.topn)
    explanation = scan.explain(analyze=arguments.analyze)
    _show_pictured(arguments, explanation)


def _layout(arguments: argparse.Namespace) -> None:
    table, how = open_table(arguments), {"columns": arguments.columns, "where": arguments.where}
    layout = table.index.layout(snapshot=arguments.snapshot, **how)
    if arguments.before is None:
        _show_pictured(arguments, layout)
    else:
        _show_pictured(arguments, table.index.layout(snapshot=arguments.before, **how).compare(layout))


def _show_pictured(arguments: argparse.Namespace, found: Explanation | Layout | LayoutComparison) -> None:
    """Print what also has a page, and write that where it is asked for."""
    if arguments.html is not None:
        try:
            with open(arguments.html, "w", encoding="utf-8") as file:
                file.write(found.page)
        except OSError as error:
            raise StorageError(f"can't write the page: {error.strerror}", path=arguments.html) from error
    if arguments.output == "json":
        show.json_value(found.as_dict())
    else:
        print(show.drawn(found.text))


def _describe(arguments: argparse.Namespace) -> None:
    from paimon_pyds.base.types import type_to_json

    table = open_table(arguments)
    schema, snapshot = table.schema, table.snapshots.latest()
    options = table.describe_options().to_pylist()
    if not arguments.all_options:
        options = [o for o in options if o["set"]]
    if arguments.output == "json":
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
        return
    show.describe(table, options)


def _snapshots(arguments: argparse.Namespace) -> None:
    table = open_table(arguments)
    rows = [show.snapshot_row(s) for s in table.snapshots.list()]
    tags = [{"tag": name, "snapshot": s.id} for name, s in sorted(table.tags.list().items())]
    if arguments.output == "json":
        show.json_value({"snapshots": rows, "tags": tags})
        return
    if not rows:
        print("no snapshots: nothing was written yet")
    show.text_rows(rows)
    if tags:
        print()
        show.text_rows(tags)


def _system(arguments: argparse.Namespace) -> None:
    from paimon_pyds.engine.scan.travel import scan_options

    catalog = warehouse_of(arguments, arguments.warehouse) if arguments.table is None else None
    if (arguments.table is None) == (catalog is None) or (arguments.table and arguments.warehouse):
        from paimon_pyds.ops.system.tables import NAMES

        names = f"the name of a system table follows: {', '.join(NAMES)}"
        raise OptionError("give a table, --warehouse or --catalog", hint=names)
    options = scan_options(**travel_of(arguments))
    query = {"columns": arguments.columns, "limit": arguments.limit, "options": options}
    if catalog is None:
        found = open_table(arguments).system.scan(arguments.name, arguments.where, **query)
    elif arguments.branch is not None:
        raise OptionError("--branch goes with the path of a table", hint="write db.t$branch_NAME$files")
    else:
        found = catalog.system_scan(arguments.name, arguments.where, **query)
    show_rows(arguments, found.arrow_schema, found.to_batches())
