"""The program and its groups of commands: what click needs to know of help, of suggestions and of Ctrl-C."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from paimon_pyds import __version__
from paimon_pyds.cli.examples import EXAMPLES, wrapped

if TYPE_CHECKING:
    from paimon_pyds.cli.target import Target

_SECTIONS = ("Arguments", "Options", "Output", "Input", "Shared options")
_OTHER_COMMANDS = {
    "scan": "read select query sql head cat export dump", "append": "write insert load import", "merge": "upsert",
    "overwrite": "replace", "describe": "show schema desc info options", "tables": "ls list databases",
    "migrate": "convert", "explain": "plan", "compact": "optimize", "drop": "remove rm", "rename": "mv",
    "snapshots list": "history log", "snapshots rollback": "restore", "snapshots expire": "vacuum",
    "maintenance verify": "fsck", "maintenance remove-orphan-files": "orphans", "maintenance analyze": "stats",
    "system read": "files partitions manifests", "index build": "rewrite", "create": "new add", "--version": "version",
}  # fmt: skip
"""Our commands, with the names that other tools have for them."""
_OTHER_OPTIONS = {
    "--where": "--partitions -f -w", "--columns": "--select -c", "--top-n": "--order-by --sort --order",
    "--limit": "--head -n", "--input-format": "--format", "--output": "--format --json --csv", "--out": "--file -o",
    "--snapshot": "--snapshot-id --version", "--timestamp": "--as-of", "--primary-key": "--key --pk",
    "--partition-by": "--partition --partitioned-by", "--yes": "-y --force --remove", "--verbose": "-v --debug",
    "--ignore-if-exists": "--if-not-exists --exist-ok --if-missing", "--delimiter": "--sep",
    "--no-progress": "-q --quiet", "--option": "--property", "--source": "--using", "--catalog": "--warehouse",
}  # fmt: skip
"""The same of options."""


class Session:
    """One run of the program.

    Attributes:
        ready: is called when the arguments are read and the imports done, before the command runs.
        verbose: show the trace of an error.
        target: what the command is about, once that is known.
    """

    def __init__(self, ready: Callable[[], object]) -> None:
        self.ready = ready
        self.verbose = False
        self.target: Target | None = None


class Option(click.Option):
    """An option; ``section``: the heading it has in help."""

    def __init__(self, *names: Any, section: str = "Options", **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section = section


class Argument(click.Argument):
    """An argument with a line of help, which click has since 8.5."""

    section = "Arguments"

    def __init__(self, *names: Any, help_: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.help_ = help_

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.human_readable_name, self.help_


class Command(click.Command):
    """A command; its help ends with examples."""

    def get_short_help_str(self, limit: int = 0) -> str:
        return super().get_short_help_str(200)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in _SECTIONS:
            own = [p for p in self.get_params(ctx) if getattr(p, "section", "Shared options") == section]
            if records := [record for p in own if (record := p.get_help_record(ctx)) is not None]:
                with formatter.section(section):
                    formatter.write_dl(records, col_max=24)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = EXAMPLES.get(ctx.command_path.partition(" ")[2], ())
        formatter.write("\nExamples:\n" + "".join(f"{wrapped(line)}\n" for line in lines) if lines else "")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = {name for param in self.params for name in param.opts}
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if ours := _ours(error.option_name, _OTHER_OPTIONS, names):
                text = f"No such option {error.option_name!r}. Did you mean {ours!r}?"
                raise click.NoSuchOption(error.option_name, text, ctx=ctx) from None
            raise
        except click.UsageError as error:
            if "--where" in names and "unexpected extra argument" in error.message and set("=<>") & set(error.message):
                raise click.UsageError(f"{error.message.rstrip('.')}. Did you mean --where?", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        import paimon_pyds.table  # noqa: F401 - what takes long to import

        ctx.ensure_object(Session).ready()
        return super().invoke(ctx)


class Group(click.Group):
    """Commands, listed in the order in which they were added."""

    command_class = Command
    group_class = type

    def __init__(self, *names: Any, **settings: Any) -> None:
        super().__init__(*names, **{**settings, "no_args_is_help": False})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_short_help_str(self, limit: int = 0) -> str:
        return super().get_short_help_str(200)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, kind in (("Commands", Command), ("Groups of commands", Group)):
            if rows := [(n, c.get_short_help_str()) for n, c in self.commands.items() if isinstance(c, kind)]:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.fail("Missing command.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name in self.commands or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        paths = {path: command for path, command in commands(program) if not isinstance(command, Group)}
        meant = [*difflib.get_close_matches(name, self.commands, 2), *(p for p in paths if p.split()[-1] == name)]
        if other := _ours(name, _OTHER_COMMANDS, {*paths, "--version"}):
            meant = [other]
        if not meant:
            meant = [p for near in difflib.get_close_matches(name, [p.split()[-1] for p in paths], 1)
                     for p in paths if p.split()[-1] == near]  # fmt: skip
        hint = f"Did you mean {' or '.join(dict.fromkeys(meant))}?" if meant else "--help lists the commands."
        ctx.fail(f"No such command {name!r}. {hint}")


def _ours(name: str, others: dict[str, str], there: set[str]) -> str | None:
    """Our name for what others call ``name``, where the command has it."""
    return next((ours for ours, theirs in others.items() if name.lower() in theirs.split() and ours in there), None)


def commands(group: Group, above: str = "") -> Iterator[tuple[str, Command | Group]]:
    """All groups and commands with their names, such as ``tags create``."""
    for name, command in group.commands.items():
        assert isinstance(command, Command | Group)
        yield f"{above}{name}", command
        if isinstance(command, Group):
            yield from commands(command, f"{above}{name} ")


program = Group(
    "paimon-pyds",
    help="Apache Paimon tables from the command line.",
    epilog="paimon-pyds COMMAND --help says more, with examples.",
)
click.version_option(__version__, message="paimon-pyds %(version)s")(program)


def group(name: str, help_: str) -> Group:
    """A new group of commands."""
    made = Group(name, help=help_)
    program.add_command(made)
    return made


tags = group("tags", "Names that let a snapshot stay readable after expiry.")
branches = group("branches", "Histories of their own, which share files with the main one.")
snapshots = group("snapshots", "The states of a table: list, compare, roll back, expire.")
index = group("index", "File indexes: build, look into, verify, weigh.")
maintenance = group("maintenance", "What keeps a table healthy.")
system = group("system", "System tables, and tables of changes.")
