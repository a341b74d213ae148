"""The commands ``index``: build, dump, evaluate, verify, weigh, advise; and how a table is laid out."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from paimon_pyds.base.secrets import counted, human_bytes, visible
from paimon_pyds.base.text import table_lines
from paimon_pyds.cli import display as show
from paimon_pyds.cli import parameters as p
from paimon_pyds.cli.program import index
from paimon_pyds.cli.read_commands import show_pictured
from paimon_pyds.cli.target import Target, command
from paimon_pyds.errors import StorageError

if TYPE_CHECKING:
    from paimon_pyds.ops.index_tools.advise import AdviceReport
    from paimon_pyds.ops.index_tools.cost import CostReport
    from paimon_pyds.ops.index_tools.recorded_filters import RecordedFilter

_partitions = p.option("--where", metavar="CONDITION", help=p.PARTITIONS_HELP)
"""Where ``--filter`` is something else."""
_files = p.number("--files", "how many files to sample (3)", default=3)
_recorded = p.together(
    p.option("--filters", type=p.FILE, metavar="FILE",
             help='recorded filters: one a line, as text or {"filter": …, "count": …}'),
    p.repeated("--filter", "a filter", "CONDITION"),
    _files,
    _partitions,
)  # fmt: skip


@command(index, p.where(p.PARTITIONS_HELP), p.flag("--rebuild", "build every index anew"))
def index_build(at: Target, **given: Any) -> None:
    """Build the configured indexes that files lack; drop the others."""
    summary = at.table.index.build(**given)
    at.answer(asdict(summary), str(summary))
    if summary.skipped and at.output == "text":
        print("other commits removed or changed the skipped files: run it again", file=sys.stderr)


@command(
    index,
    p.argument("column", "the column's name"),
    p.option("--kind", default="btree", metavar="KIND", help="btree, full-text, or of vectors ivf-flat, ivf-pq, …"),
    p.flag("--rebuild", "drop the column's indexes of this kind, and build one for all rows"),
)
def index_build_global(at: Target, column: str, **given: Any) -> None:
    """Build a global index of a column, in a table of data evolution."""
    summary = at.table.index.build_global(column, **given)
    at.answer(asdict(summary), str(summary))


@command(
    index,
    p.argument("column", "the column's name"),
    p.option("--kind", default="btree", metavar="KIND", help="btree, bitmap, full-text, ivf-flat, …"),
)
def index_drop_global(at: Target, column: str, kind: str) -> None:
    """Drop the global indexes of a kind that a column has."""
    summary = at.table.index.drop_global(column, kind=kind)
    at.answer(asdict(summary), str(summary))


@command(index, p.where(p.PARTITIONS_HELP))
def index_dump(at: Target, where: str | None) -> None:
    """Show what is in the indexes of a table, or in an .index file."""
    from paimon_pyds.ops.index_tools.inspect import container_bytes, dump_container

    path = at.path or ""
    if os.path.isfile(path):
        found = dump_container(container_bytes(path), path)
        if at.output == "text":
            show.line(f"{path}: {os.path.getsize(path):,} bytes")
    else:
        found = at.table.index.dump(where)
        if not found and at.output == "text":
            print("no file has an index")
    if at.output == "json":
        for item in found:
            facts = {"column": item.column, "index": item.index_type, "start": item.start, "bytes": item.size}
            show.json_value({"container": item.container, "storage": item.storage, **facts, **item.facts})
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


def _facts(facts: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

    return ", ".join(f"{name.replace('_', ' ')} {text(value)}" for name, value in facts.items())


@command(
    index,
    p.argument("container", "an .index file", type=p.FILE),
    p.where(required=True),
    p.number("--rows", "rows of the data file, if it is not a file of the table"),
)
def index_evaluate(at: Target, container: str, where: str, rows: int | None) -> None:
    """Show what an index container says of a condition, as Java's readers do."""
    answer = at.table.index.evaluate(container, where, rows)
    if at.output == "json" or isinstance(answer, list):
        show.json_value(answer)
    else:
        print(answer)


@command(index, p.where(p.PARTITIONS_HELP))
def index_verify(at: Target, where: str | None) -> int:
    """Compare every index with the data; exit status 1 when something is wrong."""
    report = at.table.index.verify(where)
    faults = sum(f.is_fault for f in report.findings)
    if at.output == "json":
        counts = {"files": report.files, "indexes": report.indexes, "rows": report.rows, "bytes": report.index_bytes}
        show.json_value({**counts, "faults": faults, "findings": report.to_arrow().to_pylist()})
        return int(faults > 0)
    for f in report.findings:
        place = "" if f.column is None else f" {f.column}" + ("" if f.index_type is None else f" {f.index_type}")
        show.line(f"{'FAULT' if f.is_fault else 'note '} {f.kind:<12} {f.path.rpartition('/')[2]}{place}: {f.detail}")
    print(report)
    if faults:
        show.line(f"`{at.command_line('index build', '--rebuild')}` builds them again")
    return int(faults > 0)


@command(index, p.repeated("--filter", "a filter to try", "CONDITION"), _files, _partitions, options=True)
def index_cost(at: Target, filter: tuple[str, ...], **given: Any) -> None:
    """Show what indexes would cost and bring: built in memory for a few files."""
    report = at.table.index.cost(at.options or None, filter, **given)
    if at.output == "json":
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


@command(index, _recorded)
def index_advise(at: Target, filters: str | None, filter: tuple[str, ...], **given: Any) -> None:
    """Show which indexes recorded filters call for, and which waste space."""
    if filters is None and not filter:
        raise click.UsageError("Missing option '--filters' or '--filter'.", click.get_current_context())
    report = at.table.index.advise(_read(filters, filter), **given)
    if at.output == "json":
        show.json_value(report.to_dict())
    else:
        _show_advice(at, report)


@command(index, _recorded)
def index_advise_partition(at: Target, filters: str | None, filter: tuple[str, ...], **given: Any) -> None:
    """Show which column suits as a partition, and what partitions would hold."""
    advice = at.table.index.advise_partition(_read(filters, filter), **given)
    at.answer(advice.as_dict(), advice.text)


def _read(path: str | None, filters: Sequence[str]) -> list[RecordedFilter]:
    """The filters of a file, or those that are given; not both."""
    from paimon_pyds.ops.index_tools.recorded_filters import read_recorded

    if path is None:
        return read_recorded(text.replace("\n", " ") for text in filters)
    if filters:
        raise click.UsageError("--filters and --filter can't be given together.", click.get_current_context())
    try:
        with open(path, encoding="utf-8") as file:
            return read_recorded(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"can't read the recorded filters: {reason}", path=path) from error


def _show_advice(at: Target, report: AdviceReport) -> None:
    print(f"{counted(report.filters, 'recorded filter')}, {report.sampled_files} of {report.files:,} files sampled\n")
    rows = [(a.action, a.column, a.index_type or "", human_bytes(a.bytes) if a.bytes else "", f"{a.uses:,}", a.reason)
            for a in report.advice]  # fmt: skip
    if rows:
        _columns([("advice", "column", "index", "whole table", "filters", "because"), *rows])
    else:
        print("no advice: no recorded filter uses a column that an index can help with")
    if report.notes:
        print()
        for note in report.notes:
            show.line(f"note: {note}")
    if report.set_options or report.unset_options:
        rebuild = ["--rebuild"] if any(a.action == "change" for a in report.advice) else []
        changes = [text for key, value in report.set_options.items() for text in ("--set", f"{key}={value}")]
        changes += [text for key in report.unset_options for text in ("--unset", key)]
        print("\nTo follow it:")
        show.line(f"  {at.command_line('alter', *changes)}")
        show.line(f"  {at.command_line('index build', *rebuild)}")


def _columns(rows: Sequence[Sequence[str]]) -> None:
    for line in table_lines([[visible(cell) for cell in row] for row in rows], words=range(len(rows[0]))):
        print(line)


@command(
    index,
    p.columns,
    p.where(p.PARTITIONS_HELP),
    p.number("--snapshot", "of this snapshot"),
    p.number("--before", "compare it with that of this snapshot"),
    p.html,
)
def index_layout(at: Target, snapshot: int | None, before: int | None, html: str | None, **given: Any) -> None:
    """Show how much the data files overlap in each column."""
    layout = at.table.index.layout(snapshot=snapshot, **given)
    show_pictured(
        at, layout if before is None else at.table.index.layout(snapshot=before, **given).compare(layout), html
    )
