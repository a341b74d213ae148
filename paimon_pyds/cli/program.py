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

_ELSEWHERE_CALLED = {
    "read": "scan", "select": "scan", "query": "scan", "show": "scan", "cat": "scan", "head": "scan",
    "write": "append", "insert": "append", "load": "append", "import": "append",
    "schema": "describe", "info": "describe", "desc": "describe", "ls": "tables", "upsert": "merge",
}  # fmt: skip
"""Names that other programs give to commands of the first level."""
_SECTIONS = ("Arguments", "Options", "Output", "Input", "Shared options")


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
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            takes_filter = any("--where" in param.opts for param in self.params)
            if takes_filter and "unexpected extra argument" in error.message and set("=<>") & set(error.message):
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
        paths = [path for path, command in commands(program) if not isinstance(command, Group)]
        usual = [_ELSEWHERE_CALLED[name]] if self is program and name in _ELSEWHERE_CALLED else []
        meant = usual or [path for path in paths if path.split()[-1] == name]
        meant = meant or difflib.get_close_matches(name, self.commands, 2)
        hint = f"Did you mean {' or '.join(meant)}?" if meant else "--help lists the commands."
        ctx.fail(f"No such command {name!r}. {hint}")


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
