"""What a command is about, from the shared options: a table or a warehouse, and where its result goes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from paimon_pyds.base.progress import setting, show_progress
from paimon_pyds.base.secrets import redact, visible
from paimon_pyds.cli import display as show
from paimon_pyds.cli import parameters as p
from paimon_pyds.cli.output import RowOutput
from paimon_pyds.cli.program import Command, Group, Session
from paimon_pyds.errors import OptionError, TableNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.base.types import DataField
    from paimon_pyds.catalog import Catalog
    from paimon_pyds.ops.maintenance.removal import RemovalSummary
    from paimon_pyds.scan import Scan
    from paimon_pyds.table import Table


class Target:
    """The table or warehouse of a command.

    Attributes:
        path: of the table, or its name in a catalog; of the warehouse.
        options: Paimon's, for this command only.
        storage_options: credentials and endpoints.
        output: ``text`` or ``json``, of a command that prints no rows.
        rows: how rows are printed.
    """

    def __init__(self, path: str | None, given: dict[str, Any]) -> None:
        """Take the shared options out of what is given to a command."""
        self.path = path
        self.branch: str | None = given.pop("branch", None)
        self.catalog_name: str | None = given.pop("catalog")
        self.storage_options: dict[str, str] = given.pop("storage_option")
        self.options: dict[str, str] = given.pop("option", {})
        self.rows = RowOutput.of(given) if "out" in given else None
        self.output: str = given.pop("output", "text")
        self._table: Table | None = None

    @property
    def table(self) -> Table:
        """The table, which is opened at the first use."""
        if self._table is None:
            self._table = self._opened()
        return self._table

    def _opened(self) -> Table:
        assert self.path is not None
        catalog = self.catalog(self.path)
        if catalog is not None:
            return catalog.table(self.path if self.branch is None else f"{self.path}$branch_{self.branch}")
        from paimon_pyds.table import Table

        try:
            return Table.open(self.path, self.branch, self.storage_options)
        except TableNotFoundError as error:
            if "." in self.path and not {"/", os.sep} & set(self.path):
                error.hint = "give its path; or --catalog, where that is DATABASE.TABLE of one"
            raise

    def create(self, columns: Sequence[DataField], **more: Any) -> Table:
        """Create the table; ``more`` as for `Table.create`."""
        assert self.path is not None
        catalog = self.catalog(self.path)
        if catalog is not None:
            self._table = catalog.create_table(self.path, columns, **more)
        else:
            from paimon_pyds.table import Table

            self._table = Table.create(self.path, columns, storage_options=self.storage_options, **more)
        return self._table

    def catalog(self, where: str | None) -> Catalog | None:
        """The catalog that the option or the environment names; None where ``where``, the table or the warehouse, is a
        path: what has a slash. Raises OptionError."""
        name = self.catalog_name
        if where is not None and "/" in where:
            if name is not None:
                raise OptionError(f"{redact(where)!r:.200} is a path, and --catalog wants names", hint="leave one out")
            return None
        from paimon_pyds.catalog import Catalog
        from paimon_pyds.catalog.config import default_catalog

        name = default_catalog() if name is None else name
        return None if name is None else Catalog.configured(name, self.storage_options)

    def warehouse(self, path: str | None) -> Catalog | None:
        """The catalog of a warehouse that is named by its path, else that of `catalog`. Raises OptionError."""
        if path is None:
            return self.catalog(None)
        if self.catalog_name is not None:
            raise OptionError("a warehouse and --catalog both say where the tables are", hint="leave one out")
        from paimon_pyds.catalog import Catalog

        return Catalog(path, self.storage_options)

    def command_line(self, command: str, *more: str) -> str:
        """A command on the same table, to be pasted into a shell. Credentials are left out."""
        branch = [] if self.branch is None else ["--branch", self.branch]
        catalog = [] if self.catalog_name is None else ["--catalog", self.catalog_name]
        return f"paimon-pyds {command} {shlex.join([redact(self.path or ''), *catalog, *branch, *more])}"

    def scan(self, where: str | None, matching: str | None = None, **more: Any) -> Scan:
        """The scan by the options of a command."""
        from paimon_pyds.cli.inputs import matching_keys

        scan = self.table.scan(where, options=self.options, **more)
        return scan if matching is None else scan.matching(matching_keys(matching, scan.schema.fields))

    # ------------------------------------------------------------------------------------------------------- results

    def answer(self, value: Any, *texts: str) -> None:
        """Print a value as JSON, or texts that say the same to people."""
        show.answer(self.output, value, *texts)

    def done(self, text: str, **facts: Any) -> None:
        """Print what was done: facts as JSON, or a text of which nothing is obeyed by a terminal."""
        self.answer(facts, visible(text))

    def summary(self, found: Any) -> None:
        """Print the summary of an operation, a dataclass."""
        self.answer(asdict(found), str(found))

    def show_rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, whole: bool = False) -> None:
        """Print rows in the requested form; text cuts long values unless ``whole``."""
        assert self.rows is not None
        self.rows.show(schema, batches, whole=whole)

    # --------------------------------------------------------------------------------------------------- confirmation

    def removal(self, found: RemovalSummary) -> None:
        """Print what was or would be removed."""
        self.answer(asdict(found), *_lines(found))

    def remove(self, what: str, remove: Callable[..., RemovalSummary], *, dry_run: bool, yes: bool) -> None:
        """Remove something after a question, which shows what would go. ``what``: is done, such as ``truncate``;
        ``remove``: takes ``dry_run``."""
        question = f"{what} {redact(self.table.path)}"
        if not dry_run:
            check_can_ask(question, yes=yes)
            if not yes:
                confirm("\n".join([*_lines(remove(dry_run=True)), question]), yes=yes)
        self.removal(remove(dry_run=dry_run))

    def remove_listed(self, what: str, remove: Callable[..., Any], *, dry_run: bool, yes: bool) -> None:
        """Print files on standard output, and what becomes of them on standard error. ``remove``: takes ``dry_run``."""
        if not dry_run:
            check_can_ask(what, yes=yes)
        found = remove(dry_run=dry_run or not yes)
        self.show_rows(found.files.schema, found.files.to_batches(), whole=True)
        if found.dry_run and not dry_run and found.files.num_rows:
            print(found, file=sys.stderr)
            confirm(what, yes=yes)
            found = remove()
        print(found, file=sys.stderr)


def _lines(found: RemovalSummary) -> list[str]:
    names = (*found.tags, *found.branches, *found.partitions, *found.consumers)
    return [repr(found).partition(": ")[2], *(f"  {visible(name)}" for name in names)]


def check_can_ask(what: str, *, yes: bool, shows: bool = True) -> None:
    """Raise OptionError where there is no ``--yes``, and no terminal for a question. ``what``: would be done.
    ``shows``: the command has ``--dry-run``."""
    if not yes and (sys.stdin is None or not sys.stdin.isatty()):
        looks = ", or --dry-run, which only shows what would go" if shows else ""
        raise OptionError(f"no terminal to ask for confirmation: {what}?", hint=f"add --yes{looks}")


def confirm(what: str, *, yes: bool, shows: bool = True) -> None:
    """Ask on a terminal, unless there is ``--yes``. Raises OptionError where nobody says yes."""
    check_can_ask(what, yes=yes, shows=shows)
    if yes:
        return
    print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise OptionError("nothing was changed")


# ------------------------------------------------------------------------------------------------------------ commands

Body = Callable[..., "int | None"]


def command(
    group: Group,
    *arguments: Any,
    table: bool = True,
    branch: bool = True,
    rows: bool = False,
    options: bool = False,
) -> Callable[[Body], Command]:
    """Add a function to a group as a command, which is named after it.

    Args:
        group: of commands; its name and an underscore may begin the function's.
        *arguments: decorators of `parameters`: what the function is called with besides its `Target`.
        table: its first argument is TABLE_PATH.
        branch: of the table, may be named.
        rows: it prints rows.
        options: it takes options of Paimon's; what has no use for them must not swallow them.
    """
    common = [p.branch] if branch else []
    common += [p.row_output if rows else p.plain_output, *([p.paimon_options] if options else []), p.shared]
    first = [p.argument("table_path", p.TABLE_HELP, type=p.FILE)] if table else []

    def add(function: Body) -> Command:
        @p.together(*first, *arguments, *common)
        @wraps(function)
        def run(**given: Any) -> int | None:
            session = click.get_current_context().ensure_object(Session)
            session.verbose = given.pop("verbose")
            progress, before = given.pop("progress"), setting()
            session.target = target = Target(given.pop("table_path", None), given)
            show_progress(before if progress is None else progress)
            try:
                return function(target, **given)
            finally:
                show_progress(before)

        name = function.__name__.removeprefix(f"{group.name}_").strip("_").replace("_", "-")
        made = group.command(name)(run)
        assert isinstance(made, Command)
        return made

    return add
