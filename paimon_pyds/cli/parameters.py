"""Arguments and options of commands, each declared once: the types of their values, and decorators that add them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from paimon_pyds.base.text import whole_number
from paimon_pyds.cli.program import Argument, Option

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # no generic type before click 8.5

F = TypeVar("F", bound=Callable[..., Any])
MOMENT_HELP = "milliseconds since the epoch, or 'yyyy-MM-dd HH:mm:ss', local or with a zone"
PARTITIONS_HELP = "a condition on partition columns: only these partitions"
TABLE_HELP = "the table's directory or URL; or DATABASE.TABLE of a catalog"
COLUMNS_HELP = "columns, separated by commas"


class Parsed(_ParamType):
    """A value that is parsed from a text; ``wanted``: what is said of a text for which ``parse`` returns None."""

    def __init__(self, name: str, parse: Callable[[str], Any], wanted: str = "", *, secret: bool = False) -> None:
        self.name, self._parse, self._wanted, self._secret = name, parse, wanted, secret

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        found = self._parse(value)
        if found is None:
            self.fail(self._wanted if self._secret else f"{value!r} is not {self._wanted}.", param, ctx)
        return found


class _File(_ParamType):
    """A path, which a shell completes; or a URL."""

    name = "path"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


def _pair(text: str) -> tuple[str, str] | None:
    key, equals, value = text.partition("=")
    return (key, value) if equals and key else None


def _moment(text: str) -> str | int:
    millis = whole_number(text)
    return text if millis is None else millis


def names_in(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


FILE = _File()
NUMBER = Parsed("number", whole_number, "a whole number")
NAMES = Parsed("names", names_in)
MOMENT = Parsed("time", _moment)
PAIR = Parsed("KEY=VALUE", _pair, "it takes KEY=VALUE.", secret=True)  # the value may be a credential

option: Callable[..., Callable[[F], F]] = partial(click.option, cls=Option)


def argument(name: str, help_: str, **settings: Any) -> Callable[[F], F]:
    """An argument without a name of its own on the command line."""
    shown = name.upper()
    settings.setdefault("metavar", shown if settings.get("required", True) else f"[{shown}]")
    return click.argument(name, cls=Argument, help_=help_, **settings)


def flag(name: str, help_: str, **settings: Any) -> Callable[[F], F]:
    """An option without a value."""
    return option(name, is_flag=True, help=help_, **settings)


def number(name: str, help_: str, **settings: Any) -> Callable[[F], F]:
    """An option that is a whole number."""
    return option(name, type=NUMBER, metavar="N", help=help_, **settings)


def repeated(name: str, help_: str, metavar: str, **settings: Any) -> Callable[[F], F]:
    """An option that can be given again and again."""
    return option(name, multiple=True, metavar=metavar, help=f"{help_}; can be repeated", **settings)


def pairs(name: str, help_: str, metavar: str = "KEY=VALUE", **settings: Any) -> Callable[[F], F]:
    """Options ``KEY=VALUE``, which become a dictionary."""
    return repeated(name, help_, metavar, type=PAIR, callback=lambda ctx, param, found: dict(found), **settings)


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several decorators as one; the first comes first in help."""

    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


def _one_condition(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> str | None:
    if len(given) > 1:
        text = "--where and --filter are two names of one condition, and it is given twice: join them with AND."
        raise click.UsageError(text, ctx)
    return given[0] if given else None


def where(help_: str = "a condition in Spark SQL, such as \"color = 'red'\"", *, required: bool = False) -> Any:
    """A condition, under both of its names."""
    return option(
        "--where", "--filter", "where", multiple=True, callback=_one_condition, metavar="CONDITION", help=help_,
        required=required,
    )  # fmt: skip


def dry_run(help_: str) -> Any:
    """The option to change nothing. ``help_``: what the command does then, such as ``only show what would go``."""
    return flag("--dry-run", f"{help_}, and change nothing")


yes = flag("--yes", "do it without a confirmation; needed where there is no terminal")
dry_run_removal = dry_run("only show what would go")
confirmed_removal = together(dry_run_removal, yes)
dry_run_check = dry_run("only look whether it can be done")
columns = option("--columns", type=NAMES, metavar="NAMES", help=COLUMNS_HELP)
name = argument("name", "its name")
new_name = argument("new_name", "its new name")
html = option("--html", type=FILE, metavar="FILE", help="also write it as a page with pictures")
older_than = option("--older-than", type=MOMENT, metavar="TIME", help=f"only what was made before: {MOMENT_HELP}")
travel = together(
    number("--snapshot", "read this snapshot"),
    option("--tag", metavar="NAME", help="read this tag"),
    option("--timestamp", metavar="TIME", help="read the table as of 'yyyy-MM-dd HH:mm:ss', local or with a zone"),
)
matching = option(
    "--matching",
    type=FILE,
    metavar="FILE",
    help="only rows with one of the keys in this file (Parquet, ORC, Arrow, CSV or JSON lines) in its columns",
)
ignore_if_exists = flag("--ignore-if-exists", "leave one that exists as it is; no error then")
_OUTPUT = {"section": "Output"}
_SHARED = {"section": "Shared options"}


def _csv(section: str) -> Any:
    """The options that CSV has in both directions."""
    return together(
        option("--delimiter", default=",", metavar="CHARACTER", help=r"of CSV: a comma by default; \t is a tab",
               section=section),
        option("--null", default="", metavar="TEXT", help="what NULL is in CSV: nothing at all by default",
               section=section),
        flag("--no-header", "CSV without names of columns in its first line", section=section),
    )  # fmt: skip


def _jsonl_is_json(ctx: click.Context, param: click.Parameter, form: str | None) -> str | None:
    return "json" if form == "jsonl" else form


FORMS = ("text", "json", "jsonl", "csv", "markdown", "parquet", "arrow")
row_output = together(
    option("--output", type=click.Choice(FORMS), callback=_jsonl_is_json, metavar="FORM",
           help="text, json (or jsonl: one object a line), csv, markdown, parquet or arrow; by default what the "
           "suffix of --out says, or text", **_OUTPUT),
    option("--out", type=FILE, metavar="FILE", help="write to a file instead; - is standard output", **_OUTPUT),
    _csv("Output"),
)  # fmt: skip
plain_output = option(
    "--output", type=click.Choice(("text", "json")), default="text", help="form of the result", **_SHARED
)
row_input = together(
    option("--input-format", type=click.Choice(("csv", "json", "jsonl", "parquet", "orc", "arrow")),
           callback=_jsonl_is_json, metavar="FORMAT", section="Input",
           help="csv, json (or jsonl: one object a line), parquet, orc or arrow, where no suffix says it"),
    option("--types", metavar="COLUMNS", section="Input",
           help="types of columns in CSV and JSON, such as 'id BIGINT, price DECIMAL(10, 2)'"),
    _csv("Input"),
)  # fmt: skip
paimon_options = pairs("--option", "an option of Paimon's, for this command only", **_SHARED)
shared = together(
    option("--catalog", metavar="NAME", **_SHARED,
           help="a catalog of ~/.config/paimon-pyds.toml (default: PAIMON_PYDS_CATALOG)"),
    pairs("--storage-option", "a credential or endpoint", **_SHARED),
    option("--progress/--no-progress", default=None, **_SHARED,
           help="show on standard error how far it is; by default where that is a terminal"),
    flag("--verbose", "show the trace of an error", **_SHARED),
)  # fmt: skip
branch = option("--branch", metavar="NAME", help="a branch of the table", **_SHARED)
