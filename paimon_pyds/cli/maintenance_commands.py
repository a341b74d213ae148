"""The commands ``maintenance``: damage, orphans, statistics, copies, consumers, manifests, partitions and buckets."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from paimon_pyds.base.secrets import visible
from paimon_pyds.cli import display as show
from paimon_pyds.cli import parameters as p
from paimon_pyds.cli.history_commands import verb
from paimon_pyds.cli.program import maintenance
from paimon_pyds.cli.target import Target, command


@command(maintenance, p.flag("--deep", "read all data, too"))
def maintenance_verify(at: Target, deep: bool) -> int:
    """Look for damage; exit status 1 when there is some.

    All that the snapshots, tags and branches of the table name is looked at.
    """
    result = at.table.maintenance.verify(deep)
    at.answer(result.to_dict(), *map(visible, str(result).splitlines()))
    return int(not result.ok)


@command(maintenance, p.dry_run("only show what would be mended, and what can't be"))
def maintenance_repair(at: Target, dry_run: bool) -> int:
    """Mend what verify finds and needs no guess; exit status 1 when an error is left."""
    result = at.table.maintenance.repair(dry_run=dry_run)
    at.answer(asdict(result), *map(visible, str(result).splitlines()))
    return int(any(finding.severity == "error" for finding in result.left))


@command(
    maintenance,
    p.option("--older-than", type=p.MOMENT, default="1 day", metavar="TIME",
             help=f"only files changed before: an age such as '12 h', {p.MOMENT_HELP}; 1 day by default"),
    p.flag("--external", "also look in data-file.external-paths"),
    p.dry_run("only show them"),
    p.yes,
    rows=True,
)  # fmt: skip
def maintenance_remove_orphan_files(at: Target, older_than: str | int, external: bool, **how: bool) -> None:
    """Remove files that no snapshot, tag or branch names.

    Writers that were killed leave such files.
    """
    remove = partial(at.table.maintenance.remove_orphan_files, older_than, external=external)
    at.remove_listed("remove these files", remove, **how)


@command(maintenance, p.dry_run("only show them"), p.yes, rows=True)
def maintenance_remove_unexisting_files(at: Target, **how: bool) -> None:
    """Give up data files that are gone, with their rows, to read the others."""
    at.remove_listed("give up the rows of these files", at.table.maintenance.remove_unexisting_files, **how)


@command(maintenance, p.flag("--named-states", "also tags and branches, with the files they need"), p.confirmed_removal)
def maintenance_purge(at: Target, named_states: bool, **how: bool) -> None:
    """Remove all rows, snapshots and files for good; columns and options stay."""
    name = at.table.path.rstrip("/").rpartition("/")[2]
    at.remove("purge", partial(at.table.maintenance.purge, name, named_states=named_states), **how)


@command(maintenance, p.columns, p.dry_run("only show what is found"), options=True)
def maintenance_analyze(at: Target, **given: Any) -> None:
    """Compute statistics of the table and its columns for Java's optimizers."""
    _show_statistics(at, at.table.maintenance.analyze(options=at.options, **given))


@command(maintenance)
def maintenance_statistics(at: Target) -> None:
    """Show the statistics that analyze stored."""
    _show_statistics(at, at.table.maintenance.statistics())


def _show_statistics(at: Target, found: Any) -> None:
    if found is None:
        at.answer(None, "there are none" if at.table.snapshots.latest() else "the table has no snapshot")
        return
    at.answer(asdict(found), f"{found.merged_record_count:,} rows")
    for name, column in found.columns.items() if at.output == "text" else ():
        ends = "" if column.min is None else f", {column.min} to {column.max}"
        show.line(f"  {name}: {column.distinct_count:,} distinct, {column.null_count:,} NULL{ends}")


@command(
    maintenance,
    p.argument("target", "where the copy will be: an empty place", metavar="TARGET_PATH", type=p.FILE),
    p.number("--snapshot", "the number of a snapshot; the newest by default"),
    p.option("--tag", metavar="NAME", help="the name of a tag"),
    p.option("--timestamp", type=p.MOMENT, metavar="TIME", help=f"the state at a time: {p.MOMENT_HELP}"),
    p.where(p.PARTITIONS_HELP),
    p.dry_run("only show how much would be copied"),
)
def maintenance_clone(at: Target, **given: Any) -> None:
    """Copy one state of the table, with all its files."""
    at.summary(at.table.maintenance.clone(storage_options=at.storage_options, **given))


@command(maintenance)
def maintenance_consumers(at: Target) -> None:
    """List the streaming readers with stored progress; snapshots that they have yet to read do not expire."""
    found = at.table.maintenance.consumers()
    at.answer(
        [{"consumer": name, "next_snapshot": id_} for name, id_ in found.items()],
        *(f"{visible(name)}  snapshot {id_}" for name, id_ in found.items()),
    )


@command(
    maintenance,
    p.name,
    p.number("--next-snapshot", "the number of a snapshot; without it the reader is forgotten"),
    p.dry_run_check,
)
def maintenance_reset_consumer(at: Target, name: str, next_snapshot: int | None, dry_run: bool) -> None:
    """Set which snapshot a reader reads next, or forget the reader. Stop it before."""
    before = at.table.maintenance.reset_consumer(name, next_snapshot, dry_run=dry_run)
    result = {"consumer": name, "before": before, "next_snapshot": next_snapshot, "dry_run": dry_run}
    what = f"{verb(dry_run)} forgotten" if next_snapshot is None else f"{verb(dry_run)} at snapshot {next_snapshot}"
    at.answer(result, f"the reader {what}" + ("" if before is None else f"; it was at {before}"))


@command(
    maintenance,
    p.option("--including", metavar="REGEX", help="only readers whose whole names match; all by default"),
    p.option("--excluding", metavar="REGEX", help="but not readers whose whole names match this"),
    p.dry_run_removal,
)
def maintenance_clear_consumers(at: Target, **given: Any) -> None:
    """Forget readers, so that what they have not read can expire."""
    at.removal(at.table.maintenance.clear_consumers(**given))


@command(maintenance, p.dry_run("only show how many"), options=True)
def maintenance_compact_manifests(at: Target, dry_run: bool) -> None:
    """Write the manifests anew, fewer and without deleted entries."""
    at.summary(at.table.maintenance.compact_manifests(options=at.options, dry_run=dry_run))


@command(maintenance, p.dry_run_removal, options=True)
def maintenance_expire_partitions(at: Target, dry_run: bool) -> None:
    """Delete the partitions older than the option partition.expiration-time."""
    at.removal(at.table.maintenance.expire_partitions(options=at.options, dry_run=dry_run))


@command(
    maintenance,
    p.where("a condition on partition columns, such as \"day < '2026-01-01'\"", required=True),
    p.confirmed_removal,
    options=True,
)
def maintenance_drop_partitions(at: Target, where: str, **how: bool) -> None:
    """Delete the rows of some partitions; older snapshots still have them."""
    at.remove("drop partitions of", partial(at.table.maintenance.drop_partitions, where, options=at.options), **how)


@command(
    maintenance,
    p.argument("partitions", "a partition, such as day=2026-01-31,hour=7", nargs=-1, required=True,
               metavar="KEY=VALUE..."),
    p.dry_run("only show the directories"),
)  # fmt: skip
def maintenance_mark_partitions_done(at: Target, partitions: tuple[str, ...], dry_run: bool) -> None:
    """Mark partitions as complete, by a file _SUCCESS in their directories."""
    named = [dict(p.PAIR.convert(pair, None, None) for pair in text.split(",")) for text in partitions]
    directories = at.table.maintenance.mark_partitions_done(named, dry_run=dry_run)
    at.answer(directories, *map(visible, directories))


@command(
    maintenance,
    p.argument(
        "bucket_num", "the new number of buckets; by default the table's option bucket", type=p.NUMBER, required=False
    ),
    p.where(p.PARTITIONS_HELP),
    p.dry_run("only show what would be written anew"),
    options=True,
)
def maintenance_rescale(at: Target, **given: Any) -> None:
    """Write partitions anew with another number of buckets."""
    at.summary(at.table.maintenance.rescale(options=at.options, **given))
