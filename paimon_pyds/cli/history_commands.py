"""The commands on states with names, and on the history: ``tags``, ``branches`` and ``snapshots``."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from paimon_pyds.base.secrets import visible
from paimon_pyds.base.text import utc_text
from paimon_pyds.cli import display as show
from paimon_pyds.cli import parameters as p
from paimon_pyds.cli.program import branches, snapshots, tags
from paimon_pyds.cli.target import Target, command

_state = p.together(
    p.number("--snapshot", "the number of a snapshot"),
    p.option("--tag", metavar="NAME", help="the name of a tag"),
    p.option("--timestamp", type=p.MOMENT, metavar="TIME", help=f"the state at a time: {p.MOMENT_HELP}"),
)


def verb(dry_run: bool) -> str:
    """Of a sentence about what is done, or would be."""
    return "would be" if dry_run else "is"


@command(tags)
def tags_list(at: Target) -> None:
    """List the tags."""
    found = at.table.tags.list()
    at.answer(
        [{"tag": name, "snapshot": s.id, "time_millis": s.time_millis} for name, s in found.items()],
        *(f"{visible(name)}  snapshot {s.id}  {utc_text(s.time_millis)}" for name, s in found.items()),
    )


@command(
    tags,
    p.name,
    p.number("--snapshot", "the number of a snapshot; the newest by default"),
    p.option("--timestamp", type=p.MOMENT, metavar="TIME", help=f"the state at a time: {p.MOMENT_HELP}"),
    p.option("--retain", metavar="DURATION", help="for how long, such as '7 d'"),
    p.flag("--replace", "replace a tag of this name"),
    p.dry_run_check,
)
def tags_create(at: Target, name: str, dry_run: bool, **given: Any) -> None:
    """Create a tag of the newest snapshot, or of another."""
    made = at.table.tags.create(name, dry_run=dry_run, **given)
    text = f"snapshot {made.id} {verb(dry_run)} tagged"
    at.answer({"tag": name, "snapshot": made.id, "dry_run": dry_run}, text)


@command(tags, p.name, p.new_name, p.dry_run_check)
def tags_rename(at: Target, name: str, new_name: str, dry_run: bool) -> None:
    """Give a tag another name."""
    at.table.tags.rename(name, new_name, dry_run=dry_run)
    at.answer({"tag": new_name, "dry_run": dry_run}, f"the tag {verb(dry_run)} renamed")


@command(tags, p.name, p.confirmed_removal)
def tags_delete(at: Target, name: str, **how: bool) -> None:
    """Delete a tag, and the files that only it needed."""
    at.remove("delete a tag of", partial(at.table.tags.delete, name), **how)


@command(tags, p.older_than, p.dry_run_removal)
def tags_expire(at: Target, **how: Any) -> None:
    """Delete the tags whose retention is over; with --older-than also older ones."""
    at.removal(at.table.tags.expire(**how))


@command(tags, p.dry_run("only show which"), options=True)
def tags_create_due(at: Target, dry_run: bool) -> None:
    """Create the tags that are due by the option tag.automatic-creation."""
    names = at.table.tags.create_due(options=at.options, dry_run=dry_run)
    at.answer(names, *map(visible, names))


@command(branches)
def branches_list(at: Target) -> None:
    """List the branches."""
    names = at.table.branches.list()
    at.answer(names, *map(visible, names))


@command(
    branches,
    p.name,
    p.option("--tag", metavar="NAME", help="begin with the rows of this tag; without it, with none"),
    p.ignore_if_exists,
    p.dry_run_check,
)
def branches_create(at: Target, name: str, tag: str | None, dry_run: bool, **how: bool) -> None:
    """Create a branch."""
    is_there = name in at.table.branches.list()
    at.table.branches.create(name, tag, dry_run=dry_run, **how)
    text = "the branch is there already" if is_there else f"the branch {verb(dry_run)} made"
    at.answer({"branch": name, "dry_run": dry_run}, text)


@command(branches, p.name, p.new_name, p.dry_run_check)
def branches_rename(at: Target, name: str, new_name: str, dry_run: bool) -> None:
    """Give a branch another name."""
    at.table.branches.rename(name, new_name, dry_run=dry_run)
    at.answer({"branch": new_name, "dry_run": dry_run}, f"the branch {verb(dry_run)} renamed")


@command(branches, p.name, p.confirmed_removal)
def branches_delete(at: Target, name: str, **how: bool) -> None:
    """Delete a branch, and the files that only it needed."""
    at.remove("delete a branch of", partial(at.table.branches.delete, name), **how)


@command(branches, p.name, p.confirmed_removal)
def branches_fast_forward(at: Target, name: str, **how: bool) -> None:
    """Replace the main history since the branch was made by the branch's."""
    at.remove("fast-forward", partial(at.table.branches.fast_forward, name), **how)


@command(snapshots)
def snapshots_list(at: Target) -> None:
    """List snapshots and tags."""
    rows = [show.snapshot_row(s) for s in at.table.snapshots.list()]
    named = [{"tag": name, "snapshot": s.id} for name, s in sorted(at.table.tags.list().items())]
    if at.output == "json":
        show.json_value({"snapshots": rows, "tags": named})
        return
    if not rows:
        print("no snapshots: nothing was written yet")
    show.text_rows(rows)
    if named:
        print()
        show.text_rows(named)


@command(snapshots)
def snapshots_latest(at: Target) -> None:
    """Show the newest snapshot."""
    newest = at.table.snapshots.latest()
    row = None if newest is None else show.snapshot_row(newest)
    at.answer(row, *(["nothing was written yet"] if row is None else [f"{name}  {v}" for name, v in row.items()]))


@command(
    snapshots,
    _state,
    p.number("--watermark", "the newest snapshot whose watermark, in milliseconds, is no later"),
    p.confirmed_removal,
)
def snapshots_rollback(at: Target, dry_run: bool, yes: bool, **state: Any) -> None:
    """Make an older state the newest: what came after it goes."""
    at.remove("roll back", partial(at.table.snapshots.rollback, **state), dry_run=dry_run, yes=yes)


def _retention(of: str) -> Any:
    """Limits of an expiry. ``of``: such as ``snapshots``."""
    return p.together(
        p.number("--retain-max", f"{of} that stay at most, however young"),
        p.number("--retain-min", f"{of} that stay at least"),
        p.older_than,
        p.number("--max-deletes", "how many expire at most, the oldest first"),
    )


@command(snapshots, _retention("snapshots"), p.dry_run_removal, options=True)
def snapshots_expire(at: Target, **limits: Any) -> None:
    """Remove old snapshots, and the files that only they need."""
    at.removal(at.table.snapshots.expire(options=at.options, **limits))


@command(
    snapshots,
    _retention("snapshots and changelogs"),
    p.flag("--everything", "all of them, also the last one"),
    p.dry_run_removal,
    options=True,
)
def snapshots_expire_changelogs(at: Target, **limits: Any) -> None:
    """Remove old changelogs of expired snapshots."""
    at.removal(at.table.snapshots.expire_changelogs(options=at.options, **limits))


@command(
    snapshots,
    p.argument("a", "the number of a snapshot, or the name of a tag"),
    p.argument("b", "the same; the newest state by default", required=False),
    p.flag("--summary", "only the numbers, as text or json"),
    p.flag("--exit-code", "end with 1 where columns, options or rows differ"),
    rows=True,
)
def snapshots_diff(at: Target, a: str, b: str | None, summary: bool, exit_code: bool) -> int:
    """Show which rows make one state of another, and what else differs.

    Rows have their kinds. Options and columns that differ are shown on standard error.
    """
    diff = at.table.snapshots.diff(a, b)
    if not summary:
        at.show_rows(diff.arrow_schema, diff.to_batches(), whole=True)
    counted = diff.summary() if summary or exit_code else None
    if summary and counted is not None:
        assert at.rows is not None
        show.answer(at.rows.form, counted.to_dict(), *map(visible, str(counted).splitlines()))
    else:
        for change in (*diff.schema_changes, *diff.option_changes):
            print(change, file=sys.stderr)
    return int(exit_code and counted is not None and counted.differs)
