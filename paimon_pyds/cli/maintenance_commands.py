"""The commands that keep a table healthy: ``verify``, ``repair``, ``diff``, ``orphans``, ``expire``, ``tag``,
``branch``, ``consumer``, ``rollback``, and those of partitions, manifests, statistics and copies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from paimon_pyds.base.numerals import whole_number
from paimon_pyds.base.secrets import redact, visible
from paimon_pyds.base.text import utc_text
from paimon_pyds.cli import display as show
from paimon_pyds.cli.arguments import (
    WHERE_PARTITIONS,
    Commands,
    add_if_not_exists,
    add_table_command,
    add_where,
    key_values,
    names_in,
    number,
    open_table,
    storage_options,
    table_options,
)
from paimon_pyds.cli.asking import add_dry_run, add_yes, check_can_ask, confirm
from paimon_pyds.cli.output import show_rows

if TYPE_CHECKING:
    from paimon_pyds.ops.maintenance.orphans import OrphanFiles
    from paimon_pyds.ops.maintenance.removal import RemovalSummary
    from paimon_pyds.ops.maintenance.repair import UnexistingFiles
    from paimon_pyds.table import Table

_TIME = "milliseconds since the epoch, or 'yyyy-MM-dd HH:mm:ss', local or with a zone"


def add_maintenance_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    _add_damage_commands(commands)
    _add_expiry_commands(commands)
    _add_table_commands(commands)
    _add_tag_commands(commands)
    _add_branch_commands(commands)
    _add_consumer_commands(commands)


def _add_damage_commands(commands: Commands) -> None:
    """What finds damage, differences and orphans."""
    help_ = "Look for damage in all that a table's snapshots, tags and branches name. Exit status 1 when there is some."
    parser = add_table_command(commands, "verify", help_, _verify)
    parser.add_argument("--deep", action="store_true", help="read all data, too")

    help_ = "Mend what can be mended without a guess of what verify finds. Exit status 1 when an error is left."
    parser = add_table_command(commands, "repair", help_, _repair)
    add_dry_run(parser, "only show what would be mended, and what can't be")

    help_ = "Take data files that are gone out of the newest state, to read the others; their rows are lost."
    parser = add_table_command(commands, "remove-unexisting-files", help_, _remove_unexisting_files, rows=True)
    add_dry_run(parser, "only show them")
    add_yes(parser)

    help_ = "Show the rows that make one state of a table of another, with their kinds, and in numbers what differs."
    parser = add_table_command(commands, "diff", help_, _diff, rows=True)
    parser.add_argument("before", metavar="A", help="the number of a snapshot, or the name of a tag")
    parser.add_argument("after", metavar="B", nargs="?", help="the same; the newest state by default")
    parser.add_argument("--summary", action="store_true", help="only the numbers, as text or json")
    parser.add_argument("--exit-code", action="store_true", help="end with 1 where columns, options or rows differ")

    help_ = "Remove the files that no snapshot, tag or branch names, such as killed writers leave."
    parser = add_table_command(commands, "orphans", help_, _orphans, rows=True)
    parser.add_argument(
        "--older-than",
        default="1 day",
        help=f"only files changed before: an age such as '12 h', {_TIME}; 1 day by default",
    )
    parser.add_argument("--external", action="store_true", help="also look in data-file.external-paths")
    add_dry_run(parser, "only show them")
    add_yes(parser)


def _add_expiry_commands(commands: Commands) -> None:
    """What removes old states."""
    help_ = "Remove old snapshots, and the files that only they need."
    parser = add_table_command(commands, "expire", help_, options=True)
    parser.add_argument("--retain-max", type=number, help="snapshots that stay at most, however young")
    parser.add_argument("--retain-min", type=number, help="snapshots that stay at least")
    parser.add_argument("--older-than", help=f"only snapshots made before: {_TIME}")
    parser.add_argument("--max-deletes", type=number, help="snapshots that go at most, the oldest first")
    _removes(parser, _expire)

    help_ = "Remove old changelogs, of snapshots that have expired, and the files that only they need."
    parser = add_table_command(commands, "expire-changelogs", help_, options=True)
    parser.add_argument("--retain-max", type=number, help="snapshots and changelogs that stay at most, however young")
    parser.add_argument("--retain-min", type=number, help="snapshots and changelogs that stay at least")
    parser.add_argument("--older-than", help=f"only those made before: {_TIME}")
    parser.add_argument("--max-deletes", type=number, help="changelogs that go at most, the oldest first")
    parser.add_argument("--all", action="store_true", help="all of them, also the last one")
    _removes(parser, _expire_changelogs)

    help_ = "Delete the partitions that are older than the option partition.expiration-time says."
    _removes(
        add_table_command(commands, "expire-partitions", help_, options=True),
        lambda table, given: table.maintenance.expire_partitions(options=table_options(given), dry_run=given.dry_run),
    )


def _add_table_commands(commands: Commands) -> None:
    """What works on the whole table, or on partitions."""
    help_ = "Write the manifests anew, fewer and without deleted entries."
    parser = add_table_command(commands, "compact-manifests", help_, _compact_manifests, options=True)
    add_dry_run(parser, "only show how many")

    help_ = "Make statistics of the table and its columns, which Java's optimizers use."
    parser = add_table_command(commands, "analyze", help_, _analyze, options=True)
    parser.add_argument("--columns", type=names_in, help="separated by commas; all by default")
    add_dry_run(parser, "only show what is found")

    help_ = "Remove all rows, snapshots and files for good; columns and options stay."
    parser = add_table_command(commands, "purge", help_)
    parser.add_argument("--named-states", action="store_true", help="also tags and branches, and what they keep")
    _removes(parser, _purge, asks="purge")

    help_ = "Copy one state of the table, with all its files, to an empty place."
    parser = add_table_command(commands, "clone", help_, _clone)
    parser.add_argument("target", metavar="TARGET_PATH", help="where the copy will be")
    _add_state(parser, "the number of a snapshot; the newest by default")
    add_where(parser, WHERE_PARTITIONS)
    add_dry_run(parser, "only show how much would be copied")

    help_ = "Delete all rows; older snapshots still have them."
    _removes(
        add_table_command(commands, "truncate", help_, options=True),
        lambda table, given: table.truncate(options=table_options(given), dry_run=given.dry_run),
        asks="truncate",
    )

    help_ = "Delete the rows of some partitions; older snapshots still have them."
    parser = add_table_command(commands, "drop-partitions", help_, options=True)
    add_where(parser, "a condition on partition columns, such as \"day < '2026-01-01'\"", required=True)
    _removes(
        parser,
        lambda table, given: table.drop_partitions(given.where, options=table_options(given), dry_run=given.dry_run),
        asks="drop partitions of",
    )

    help_ = "Mark partitions as complete, by a file _SUCCESS in their directories."
    parser = add_table_command(commands, "mark-done", help_, _mark_done)
    parser.add_argument("partitions", metavar="KEY=VALUE", nargs="+", help="a partition, such as day=2026-01-31,hour=7")
    add_dry_run(parser, "only show the directories")

    help_ = "Make an older snapshot, or a tag, the newest state: what came after goes."
    parser = add_table_command(commands, "rollback", help_)
    state = _add_state(parser, "the number of a snapshot", required=True)
    state.add_argument(
        "--watermark", type=number, help="the newest snapshot whose watermark, in milliseconds, is no later"
    )
    _removes(parser, _rollback, asks="roll back")


def _add_state(
    parser: argparse.ArgumentParser, snapshot: str, *, required: bool = False
) -> argparse._MutuallyExclusiveGroup:
    """The options that name one state; ``snapshot`` is the help of the first."""
    state = parser.add_mutually_exclusive_group(required=required)
    state.add_argument("--snapshot", type=number, help=snapshot)
    state.add_argument("--tag", help="the name of a tag")
    state.add_argument("--timestamp", help=f"the state of: {_TIME}")
    return state


def _add_tag_commands(commands: Commands) -> None:
    tag = _group(commands, "tag", "Names that keep a snapshot readable after it has expired.")
    parser = add_table_command(tag, "create", "Make a tag of the newest snapshot, or of another.", _create_tag)
    parser.add_argument("name")
    parser.add_argument("--snapshot", type=number, help="its number")
    parser.add_argument("--timestamp", help=f"the state of: {_TIME}")
    parser.add_argument("--retain", metavar="DURATION", help="for how long, such as '7 d'")
    parser.add_argument("--replace", action="store_true", help="a tag of this name may be there")
    _looks(parser)

    parser = add_table_command(tag, "delete", "Delete a tag, and the files that only it needed.")
    parser.add_argument("name")
    _removes(parser, lambda table, given: table.tags.delete(given.name, dry_run=given.dry_run), asks="delete a tag of")

    parser = add_table_command(tag, "rename", "Give a tag another name.", _rename_tag)
    parser.add_argument("name")
    parser.add_argument("new_name")
    _looks(parser)

    help_ = "Delete the tags that have outlived the time that they were made for."
    parser = add_table_command(tag, "expire", help_)
    parser.add_argument("--older-than", help=f"also those made before: {_TIME}")
    _removes(parser, lambda table, given: table.tags.expire(_moment(given.older_than), dry_run=given.dry_run))

    help_ = "Make the tags that the option tag.automatic-creation asks for and that are due, as commits do."
    parser = add_table_command(tag, "create-due", help_, _create_due_tags, options=True)
    add_dry_run(parser, "only show which")

    add_table_command(tag, "list", "Show the tags.", _list_tags)


def _add_branch_commands(commands: Commands) -> None:
    branch = _group(commands, "branch", "Histories of their own, which share files with the main one.")
    parser = add_table_command(branch, "create", "Make a branch.", _create_branch)
    parser.add_argument("name")
    parser.add_argument("--tag", help="begin with the rows of this tag; without it, with none")
    add_if_not_exists(parser, "leave a branch of this name as it is")
    _looks(parser)

    parser = add_table_command(branch, "delete", "Delete a branch, and the files that only it needed.")
    parser.add_argument("name")
    _removes(
        parser,
        lambda table, given: table.branches.delete(given.name, dry_run=given.dry_run),
        asks="delete a branch of",
    )

    parser = add_table_command(branch, "rename", "Give a branch another name.", _rename_branch)
    parser.add_argument("name")
    parser.add_argument("new_name")
    _looks(parser)

    help_ = "Put a branch's history in the place of the main one's since the branch was made."
    parser = add_table_command(branch, "fast-forward", help_)
    parser.add_argument("name")
    _removes(
        parser, lambda table, given: table.branches.fast_forward(given.name, dry_run=given.dry_run), asks="fast-forward"
    )

    add_table_command(branch, "list", "Show the branches.", _list_branches)


def _add_consumer_commands(commands: Commands) -> None:
    consumer = _group(commands, "consumer", "Streaming readers of other engines, whose next snapshots do not expire.")
    help_ = "Set which snapshot a reader reads next, or forget the reader. Stop it before."
    parser = add_table_command(consumer, "reset", help_, _reset_consumer)
    parser.add_argument("name")
    parser.add_argument("--next-snapshot", type=number, help="its number; without it the reader is forgotten")
    _looks(parser)

    parser = add_table_command(consumer, "clear", "Forget readers, so that what they have not read can expire.")
    parser.add_argument("--including", metavar="REGEX", help="whose whole names match; all by default")
    parser.add_argument("--excluding", metavar="REGEX", help="but not those")
    _removes(parser, _clear_consumers)

    add_table_command(consumer, "list", "Show the readers.", _list_consumers)


def _group(commands: Commands, name: str, help_: str) -> Commands:
    parser = commands.add_parser(name, help=help_, description=help_)
    return parser.add_subparsers(required=True, metavar="COMMAND")


def _looks(parser: argparse.ArgumentParser) -> None:
    add_dry_run(parser, "only look whether it can be done")


def _verb(arguments: argparse.Namespace) -> str:
    return "would be" if arguments.dry_run else "is"


def _removes(
    parser: argparse.ArgumentParser,
    run: Callable[[Table, argparse.Namespace], RemovalSummary],
    *,
    asks: str | None = None,
) -> None:
    """Let a command show what a function removes. ``asks``: what is done to the table, where it asks before that."""
    add_dry_run(parser, "only show what would go")
    if asks is not None:
        add_yes(parser)

    def shown(arguments: argparse.Namespace) -> None:
        table = open_table(arguments)
        if asks is not None and not arguments.dry_run:
            what = f"{asks} {redact(table.path)}"
            check_can_ask(arguments, what)
            if not arguments.yes:
                planned = run(table, argparse.Namespace(**{**vars(arguments), "dry_run": True}))
                confirm(arguments, "\n".join([*_lines(planned), what]))
        summary = run(table, arguments)
        _show(arguments, asdict(summary), *_lines(summary))

    parser.set_defaults(run=shown)


def _lines(summary: RemovalSummary) -> list[str]:
    names = (*summary.tags, *summary.branches, *summary.partitions, *summary.consumers)
    return [repr(summary).partition(": ")[2], *(f"  {visible(name)}" for name in names)]


def _repair(arguments: argparse.Namespace) -> int:
    """Print what was mended, and what is left."""
    result = open_table(arguments).maintenance.repair(dry_run=arguments.dry_run)
    _show(arguments, asdict(result), *map(visible, str(result).splitlines()))
    return int(any(finding.severity == "error" for finding in result.left))


def _remove_unexisting_files(arguments: argparse.Namespace) -> None:
    _remove_listed(
        arguments, open_table(arguments).maintenance.remove_unexisting_files, "give up the rows of these files"
    )


def _remove_listed(
    arguments: argparse.Namespace, remove: Callable[..., OrphanFiles | UnexistingFiles], what: str
) -> None:
    """Print files on standard output, and what becomes of them on standard error. ``remove``: takes ``dry_run``."""
    if not arguments.dry_run:
        check_can_ask(arguments, what)
    found = remove(dry_run=arguments.dry_run or not arguments.yes)
    show_rows(arguments, found.files.schema, found.files.to_batches(), whole=True)
    if found.dry_run and not arguments.dry_run and found.files.num_rows:
        print(found, file=sys.stderr)
        confirm(arguments, what)
        found = remove()
    print(found, file=sys.stderr)


def _diff(arguments: argparse.Namespace) -> int:
    """Print rows on standard output, and what else differs on standard error; with --summary that alone."""
    diff = open_table(arguments).snapshots.diff(arguments.before, arguments.after)
    if not arguments.summary:
        show_rows(arguments, diff.arrow_schema, diff.to_batches(), whole=True)
    summary = diff.summary() if arguments.summary or arguments.exit_code else None
    if arguments.summary and summary is not None:
        _show(arguments, summary.to_dict(), *map(visible, str(summary).splitlines()))
    else:
        for change in (*diff.schema_changes, *diff.option_changes):
            print(change, file=sys.stderr)
    return int(arguments.exit_code and summary is not None and summary.differs)


def _orphans(arguments: argparse.Namespace) -> None:
    older_than, remove = _moment(arguments.older_than) or 0, open_table(arguments).maintenance.remove_orphan_files
    _remove_listed(arguments, partial(remove, older_than, external=arguments.external), "remove these files")


def _verify(arguments: argparse.Namespace) -> int:
    """Print what is wrong; 1 when there are errors."""
    result = open_table(arguments).maintenance.verify(arguments.deep)
    _show(arguments, result.to_dict(), *map(visible, str(result).splitlines()))
    return int(not result.ok)


def _moment(text: str | None) -> str | int | None:
    millis = whole_number(text or "")
    return text if millis is None else millis


def _expire(table: Table, arguments: argparse.Namespace) -> RemovalSummary:
    limits = (arguments.retain_max, arguments.retain_min, _moment(arguments.older_than), arguments.dry_run)
    return table.snapshots.expire(*limits, max_deletes=arguments.max_deletes, options=table_options(arguments))


def _expire_changelogs(table: Table, arguments: argparse.Namespace) -> RemovalSummary:
    limits = (arguments.retain_max, arguments.retain_min, _moment(arguments.older_than), arguments.dry_run)
    how = {"max_deletes": arguments.max_deletes, "everything": arguments.all}
    return table.snapshots.expire_changelogs(*limits, **how, options=table_options(arguments))


def _compact_manifests(arguments: argparse.Namespace) -> None:
    table = open_table(arguments)
    summary = table.maintenance.compact_manifests(options=table_options(arguments), dry_run=arguments.dry_run)
    _show(arguments, asdict(summary), str(summary))


def _analyze(arguments: argparse.Namespace) -> None:
    found = open_table(arguments).maintenance.analyze(
        arguments.columns, options=table_options(arguments), dry_run=arguments.dry_run
    )
    if found is None:
        _show(arguments, None, "the table has no snapshot")
        return
    _show(arguments, asdict(found), f"{found.merged_record_count:,} rows")
    for name, column in found.columns.items() if arguments.output == "text" else ():
        ends = "" if column.min is None else f", {column.min} to {column.max}"
        show.line(f"  {name}: {column.distinct_count:,} distinct, {column.null_count:,} NULL{ends}")


def _clone(arguments: argparse.Namespace) -> None:
    state = (arguments.snapshot, arguments.tag, _moment(arguments.timestamp))
    storage = storage_options(arguments)
    table, how = open_table(arguments), {"where": arguments.where, "dry_run": arguments.dry_run}
    summary = table.maintenance.clone(arguments.target, *state, **how, storage_options=storage)
    _show(arguments, asdict(summary), str(summary))


def _purge(table: Table, arguments: argparse.Namespace) -> RemovalSummary:
    name = table.path.rstrip("/").rpartition("/")[2]
    return table.maintenance.purge(name, named_states=arguments.named_states, dry_run=arguments.dry_run)


def _mark_done(arguments: argparse.Namespace) -> None:
    partitions = [key_values(text.split(","), "a partition") for text in arguments.partitions]
    directories = open_table(arguments).maintenance.mark_partitions_done(partitions, dry_run=arguments.dry_run)
    _show(arguments, directories, *map(visible, directories))


def _rollback(table: Table, arguments: argparse.Namespace) -> RemovalSummary:
    target = (arguments.snapshot, arguments.tag, _moment(arguments.timestamp))
    return table.snapshots.rollback(*target, watermark=arguments.watermark, dry_run=arguments.dry_run)


def _create_tag(arguments: argparse.Namespace) -> None:
    table, moment = open_table(arguments), _moment(arguments.timestamp)
    how = (arguments.snapshot, moment, arguments.retain, arguments.replace)
    snapshot = table.tags.create(arguments.name, *how, dry_run=arguments.dry_run)
    what = f"snapshot {snapshot.id} {_verb(arguments)} tagged"
    _show(arguments, {"tag": arguments.name, "snapshot": snapshot.id, "dry_run": arguments.dry_run}, what)


def _rename_tag(arguments: argparse.Namespace) -> None:
    open_table(arguments).tags.rename(arguments.name, arguments.new_name, dry_run=arguments.dry_run)
    result = {"tag": arguments.new_name, "dry_run": arguments.dry_run}
    _show(arguments, result, f"the tag {_verb(arguments)} renamed")


def _create_due_tags(arguments: argparse.Namespace) -> None:
    names = open_table(arguments).tags.create_due(options=table_options(arguments), dry_run=arguments.dry_run)
    _show(arguments, names, *map(visible, names))


def _list_tags(arguments: argparse.Namespace) -> None:
    tags = open_table(arguments).tags.list()
    _show(
        arguments,
        [{"tag": name, "snapshot": s.id, "time_millis": s.time_millis} for name, s in tags.items()],
        *(f"{visible(name)}  snapshot {s.id}  {utc_text(s.time_millis)}" for name, s in tags.items()),
    )


def _create_branch(arguments: argparse.Namespace) -> None:
    table, how = open_table(arguments), {"ignore_if_exists": arguments.if_not_exists, "dry_run": arguments.dry_run}
    is_there = arguments.name in table.branches.list()
    table.branches.create(arguments.name, arguments.tag, **how)
    result = {"branch": arguments.name, "dry_run": arguments.dry_run}
    _show(arguments, result, "the branch is there already" if is_there else f"the branch {_verb(arguments)} made")


def _rename_branch(arguments: argparse.Namespace) -> None:
    open_table(arguments).branches.rename(arguments.name, arguments.new_name, dry_run=arguments.dry_run)
    result = {"branch": arguments.new_name, "dry_run": arguments.dry_run}
    _show(arguments, result, f"the branch {_verb(arguments)} renamed")


def _list_branches(arguments: argparse.Namespace) -> None:
    branches = open_table(arguments).branches.list()
    _show(arguments, branches, *map(visible, branches))


def _reset_consumer(arguments: argparse.Namespace) -> None:
    table, next_ = open_table(arguments), arguments.next_snapshot
    before = table.maintenance.reset_consumer(arguments.name, next_, dry_run=arguments.dry_run)
    result = {"consumer": arguments.name, "before": before, "next_snapshot": next_, "dry_run": arguments.dry_run}
    what = f"{_verb(arguments)} forgotten" if next_ is None else f"{_verb(arguments)} at snapshot {next_}"
    _show(arguments, result, f"the reader {what}" + ("" if before is None else f"; it was at {before}"))


def _clear_consumers(table: Table, arguments: argparse.Namespace) -> RemovalSummary:
    return table.maintenance.clear_consumers(arguments.including, arguments.excluding, dry_run=arguments.dry_run)


def _list_consumers(arguments: argparse.Namespace) -> None:
    found = open_table(arguments).maintenance.consumers()
    listed = [{"consumer": name, "next_snapshot": id_} for name, id_ in found.items()]
    _show(arguments, listed, *(f"{visible(name)}  snapshot {id_}" for name, id_ in found.items()))


def _show(arguments: argparse.Namespace, value: object, *lines: str) -> None:
    show.answer(arguments.output, value, *lines)
