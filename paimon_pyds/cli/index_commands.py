"""The commands ``index dump``, ``eval``, ``verify``, ``cost``, ``advise`` and ``rewrite``; and ``advise partition``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.secrets import counted, human_bytes, visible
from paimon_pyds.cli import display as show
from paimon_pyds.cli.arguments import (
    WHERE_PARTITIONS,
    Commands,
    add_common_arguments,
    add_repeated,
    add_table_command,
    add_where,
    command_line,
    number,
    open_table,
    table_options,
)
from paimon_pyds.errors import StorageError

if TYPE_CHECKING:
    from paimon_pyds.ops.index_tools.advise import AdviceReport
    from paimon_pyds.ops.index_tools.cost import CostReport
    from paimon_pyds.ops.index_tools.recorded_filters import RecordedFilter


def add_index_commands(commands: Commands) -> None:
    """Add the command ``index`` and its verbs to a parser."""
    parser = commands.add_parser("index", help="Look into file indexes, verify, weigh and rebuild them.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    parser = add_table_command(
        verbs, "dump", "What lies in an index container, or in all containers of a table.", _dump
    )
    add_where(parser, WHERE_PARTITIONS)

    parser = verbs.add_parser("eval", help="What an index container says of a condition, as Java's readers do.")
    parser.add_argument("container", metavar="CONTAINER", help="an .index file")
    parser.add_argument("--table", required=True, metavar="TABLE_PATH", help="the table whose columns it names")
    parser.add_argument("--branch", help="a branch of the table")
    add_where(parser, required=True)
    parser.add_argument("--rows", type=number, help="rows of the data file, where it is none of the table's")
    add_common_arguments(parser, options=False)
    parser.set_defaults(run=_evaluate)

    parser = add_table_command(
        verbs, "verify", "Compare every index with the data. Exit status 1 when something is wrong.", _verify
    )
    add_where(parser, WHERE_PARTITIONS)

    help_ = "What indexes would cost and bring: built in memory for a few files."
    parser = add_table_command(verbs, "cost", help_, _cost, options=True)
    add_repeated(parser, "--filter", "a filter to ask them; can be repeated")
    parser.add_argument("--files", type=number, default=3, help="how many files to sample (3)")
    parser.add_argument("--where", metavar="CONDITION", help=WHERE_PARTITIONS)

    parser = add_table_command(
        verbs, "advise", "Which indexes recorded filters call for, and which ones waste space.", _advise
    )
    _add_advice_arguments(parser, required=True)

    parser = add_table_command(
        verbs, "rewrite", "Build the indexes that options ask for and files lack, and drop the others.", _rewrite
    )
    add_where(parser, WHERE_PARTITIONS)
    parser.add_argument("--rebuild", action="store_true", help="build every index anew")


def add_advise_commands(commands: Commands) -> None:
    """Add the command ``advise`` and its verbs to a parser."""
    parser = commands.add_parser("advise", help="Say how a table would better be laid out.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    parser = add_table_command(
        verbs, "partition", "Which column suits as a partition, and what partitions would hold.", _advise_partition
    )
    _add_advice_arguments(parser, required=False)


def _add_advice_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    filters = 'recorded filters: one a line, as text or {"filter": …, "count": …}'
    given = parser.add_mutually_exclusive_group(required=required)
    given.add_argument("--filters", metavar="FILE", help=filters)
    add_repeated(given, "--filter", "a filter; can be repeated")
    parser.add_argument("--files", type=number, default=3, help="how many files to sample (3)")
    parser.add_argument("--where", metavar="CONDITION", help=WHERE_PARTITIONS)


def _dump(arguments: argparse.Namespace) -> None:
    from paimon_pyds.ops.index_tools.inspect import dump_container

    path = arguments.table
    if os.path.isfile(path):
        found = dump_container(_bytes(path), path)
        if arguments.output == "text":
            show.line(f"{path}: {os.path.getsize(path):,} bytes")
    else:
        found = open_table(arguments).index.dump(arguments.where)
        if not found and arguments.output == "text":
            print("no file has an index")
    if arguments.output == "json":
        for item in found:
            index = {"column": item.column, "index": item.index_type, "start": item.start, "bytes": item.size}
            show.json_value({"container": item.container, "storage": item.storage, **index, **item.facts})
        return
    for container in dict.fromkeys((d.container, d.storage) for d in found):
        if not os.path.isfile(path):
            show.line(f"{container[0]} ({'in the manifest' if container[1] == 'EMBEDDED' else 'side file'})")
        rows = [d for d in found if (d.container, d.storage) == container]
        if not rows[0].index_type:
            show.line(rows[0].facts["error"])
            show.line()
            continue
        lines = [(d.column, d.index_type, f"{d.start:,}", f"{d.size:,}", _facts(d.facts)) for d in rows]
        _columns([("column", "index", "start", "bytes", "facts"), *lines])
        print()


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise StorageError(f"can't read the container: {error.strerror}", path=path) from error


def _facts(facts: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

    return ", ".join(f"{name.replace('_', ' ')} {text(value)}" for name, value in facts.items())


def _evaluate(arguments: argparse.Namespace) -> None:
    from paimon_pyds.ops.index_tools.inspect import index_eval

    path, store = arguments.container, open_table(arguments)._store
    answer = index_eval(store, path, _bytes(path), arguments.where, arguments.rows)
    if arguments.output == "json" or isinstance(answer, list):
        show.json_value(answer)
    else:
        print(answer)


def _verify(arguments: argparse.Namespace) -> int:
    """Print what is wrong with the indexes; 1 when anything is."""
    table = open_table(arguments)
    report = table.index.verify(arguments.where)
    faults = sum(f.is_fault for f in report.findings)
    if arguments.output == "json":
        counts = {"files": report.files, "indexes": report.indexes, "rows": report.rows, "bytes": report.index_bytes}
        show.json_value({**counts, "faults": faults, "findings": report.to_arrow().to_pylist()})
        return int(faults > 0)
    for f in report.findings:
        place = "" if f.column is None else f" {f.column}" + ("" if f.index_type is None else f" {f.index_type}")
        show.line(f"{'FAULT' if f.is_fault else 'note '} {f.kind:<12} {f.path.rpartition('/')[2]}{place}: {f.detail}")
    print(report)
    if faults:
        show.line(f"`{command_line(arguments, 'index rewrite', '--rebuild')}` builds them again")
    return int(faults > 0)


def _cost(arguments: argparse.Namespace) -> None:
    options = table_options(arguments) or None
    table = open_table(arguments)
    report = table.index.cost(options, arguments.filter, files=arguments.files, where=arguments.where)
    if arguments.output == "json":
        show.json_value(report.to_dict())
    else:
        _show_cost(report)


def _show_cost(report: CostReport) -> None:
    print(f"{report.sampled_files} of {report.files:,} files sampled, {report.sampled_rows:,} of {report.rows:,} rows")
    if not report.sampled_files:
        print("no file to build an index of")
    elif not report.indexes:
        print("no index to build: name columns, as in --option file-index.bitmap.columns=color")
    else:
        share = report.sampled_index_bytes / max(1, report.sampled_data_bytes)
        print(f"the whole table: {human_bytes(report.projected_bytes)} of indexes, {share:.0%} of the data")
        if report.size_advice:
            print(f"the indexes are larger than the data: {report.size_advice}")
        print(f"containers: {report.embedded} in manifests, {report.side} as side files "
              f"(in-manifest-threshold {human_bytes(report.threshold)})")  # fmt: skip
        print()
        show.text_rows([
            {"column": c.column, "index": c.index_type, "bytes a file": human_bytes(c.bytes // max(1, c.files)),
             "whole table": human_bytes(c.projected_bytes), "build seconds": f"{c.projected_seconds:.2f}"}
            for c in report.indexes
        ])  # fmt: skip
    if report.filters:
        print()
        show.text_rows([
            {"filter": f.filter, "files left": f"{f.files_kept} of {f.files}", "rows left": _share(f.rows_kept, f.rows),
             "rows matching": _share(f.rows_matching, f.rows), "exact": "yes" if f.exact else "no",
             "index read": human_bytes(f.index_bytes)}
            for f in report.filters
        ])  # fmt: skip


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / max(1, whole):.2%})"


def _recorded(arguments: argparse.Namespace) -> list[RecordedFilter]:
    """The filters of a file, or those that are given."""
    from paimon_pyds.ops.index_tools.recorded_filters import read_recorded

    path = arguments.filters
    if path is None:
        return read_recorded(text.replace("\n", " ") for text in arguments.filter)
    try:
        with open(path, encoding="utf-8") as file:
            return read_recorded(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"can't read the recorded filters: {reason}", path=path) from error


def _advise_partition(arguments: argparse.Namespace) -> None:
    recorded = _recorded(arguments)
    advice = open_table(arguments).index.advise_partition(recorded, files=arguments.files, where=arguments.where)
    show.answer(arguments.output, advice.as_dict(), advice.text)


def _advise(arguments: argparse.Namespace) -> None:
    table = open_table(arguments)
    report = table.index.advise(_recorded(arguments), files=arguments.files, where=arguments.where)
    if arguments.output == "json":
        show.json_value(report.to_dict())
    else:
        _show_advice(arguments, report)


def _show_advice(arguments: argparse.Namespace, report: AdviceReport) -> None:
    print(f"{counted(report.filters, 'recorded filter')}, {report.sampled_files} of {report.files:,} files sampled\n")
    rows = [(a.action, a.column, a.index_type or "", human_bytes(a.bytes) if a.bytes else "", f"{a.uses:,}", a.reason)
            for a in report.advice]  # fmt: skip
    if rows:
        _columns([("advice", "column", "index", "whole table", "filters", "because"), *rows])
    else:
        print("no advice: no recorded filter asks for a column that an index can help with")
    if report.notes:
        print()
        for note in report.notes:
            show.line(f"note: {note}")
    if report.set_options or report.unset_options:
        rebuild = ["--rebuild"] if any(a.action == "change" for a in report.advice) else []
        changes = [text for key, value in report.set_options.items() for text in ("--set", f"{key}={value}")]
        changes += [text for key in report.unset_options for text in ("--unset", key)]
        print("\nTo follow it:")
        show.line(f"  {command_line(arguments, 'alter', *changes)}")
        show.line(f"  {command_line(arguments, 'index rewrite', *rebuild)}")


def _columns(rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns; the last one as long as it is."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        print("  ".join([*cells, row[-1]]).rstrip())


def _rewrite(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict

    table = open_table(arguments)
    summary = table.index.build(arguments.where, rebuild=arguments.rebuild)
    if arguments.output == "json":
        show.json_value(asdict(summary))
        return
    print(show.drawn(str(summary)))
    if summary.skipped:
        print("other commits removed or changed the skipped files: run it again", file=sys.stderr)
