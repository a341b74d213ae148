"""What commands on a table have in common: their arguments, the table and the scan that these name."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from paimon_pyds.base.numerals import whole_number
from paimon_pyds.base.secrets import redact, visible
from paimon_pyds.cli.examples import EXAMPLES
from paimon_pyds.cli.output import add_output_arguments
from paimon_pyds.errors import OptionError, TableNotFoundError

if TYPE_CHECKING:
    from paimon_pyds.base.types import DataField
    from paimon_pyds.catalog import Catalog
    from paimon_pyds.scan import Scan
    from paimon_pyds.table import Table

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
Run: TypeAlias = Callable[[argparse.Namespace], "int | None"]
TABLE_HELP = "the table's directory or URL; or DATABASE.TABLE of a catalog"
WHERE_PARTITIONS = "only partitions that this condition on partition columns keeps"
_WHERE_ROWS = "a condition in Spark SQL, such as \"color = 'red' AND price * 2 < 10\""


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one line, with the nearest name; help ends with the command's examples."""

    def __init__(self, **settings: Any) -> None:
        examples = EXAMPLES.get(settings.get("prog", "").removeprefix("paimon-pyds "), ())
        if examples:
            settings["epilog"] = "\n  ".join(["examples:", *examples])
        super().__init__(**settings, formatter_class=argparse.RawDescriptionHelpFormatter)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse; what the parser of a command does not know is refused here, where its options are known."""
        self._given = sys.argv[1:] if args is None else list(args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            from paimon_pyds.cli.mistakes import no_option, too_many

            self.error((no_option if unknown[0].startswith("-") else too_many)(unknown[0], self._options))
        return found, unknown

    @property
    def _options(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from paimon_pyds.cli.mistakes import no_choice

            what, option = (action.metavar or action.dest), action.option_strings
            text = no_choice(str(value), map(str, action.choices), str(what).lower(), option[0] if option else None)
            if option == ["--output"] and "." in str(value) and "--out" in self._options:
                text = f"--output takes a form, not a file — did you mean --out {shlex.quote(str(value))}?"
            raise argparse.ArgumentError(None, text)

    def error(self, message: str) -> NoReturn:
        """One line, without what argparse repeats of an option that may be a secret."""
        from paimon_pyds.cli.mistakes import no_option, plain

        if "required" in message:  # it may have been given by another name
            names = (given.partition("=")[0] for given in self._given if given.startswith("--"))
            unknown = [name for name in names if not any(known.startswith(name) for known in self._options)]
            message = no_option(unknown[0], self._options) if unknown else message
        if message.endswith("required: COMMAND"):
            self.print_help()
        self.exit(2, f"{self.prog}: {visible(redact(plain(message)))} ({self.prog} --help)\n")


def add_table_command(
    commands: Commands, name: str, help_: str, run: Run | None = None, *, rows: bool = False, options: bool = False
) -> Parser:
    """The parser of a new command on a table, with the arguments that all of these have. ``run``: what it does, unless
    that is set later. ``rows``: what it prints are rows, which files may hold as well. ``options``: it takes options of
    Paimon's; what has no use for them must not swallow them."""
    parser = commands.add_parser(name, help=help_, description=help_)
    parser.set_defaults(run=run)
    parser.add_argument("table", metavar="TABLE_PATH", help=TABLE_HELP)
    parser.add_argument("--branch", help="a branch of the table")
    add_common_arguments(parser, rows=rows, options=options)
    return parser


def add_repeated(parser: argparse._ActionsContainer, name: str, help_: str, *, metavar: str | None = None) -> None:
    """Add an argument that can be given again and again; without it there is an empty list."""
    parser.add_argument(name, action="append", default=[], metavar=metavar, help=help_)


def add_common_arguments(parser: argparse.ArgumentParser, *, rows: bool = False, options: bool = True) -> None:
    """Add the arguments that all commands have. ``rows``: what it prints are rows. ``options``: it takes options of
    Paimon's."""
    if rows:
        add_output_arguments(parser)
    else:
        parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the result")
    if options:
        text = "an option of Paimon's, for this command only; can be repeated"
        add_repeated(parser, "--option", text, metavar="KEY=VALUE")
    parser.add_argument(
        "--catalog", metavar="NAME", help="a catalog of ~/.config/paimon-pyds.toml (default: PAIMON_PYDS_CATALOG)"
    )
    add_repeated(parser, "--storage-option", "a credential or endpoint", metavar="KEY=VALUE")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show on standard error how far it is; where that is a terminal unless told otherwise",
    )
    parser.add_argument("--verbose", action="store_true", help="show the trace of an error")


class _OneCondition(argparse.Action):
    """A condition that is given once, by either of its names."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            from paimon_pyds.sql.predicate.argument import SAME_CONDITION

            text = re.sub(r"\b(where|filter)\b", r"--\1", SAME_CONDITION)
            raise argparse.ArgumentError(None, f"{text} — leave one out, or join them with AND")
        setattr(namespace, self.dest, values)


def add_where(parser: argparse.ArgumentParser, help_: str = _WHERE_ROWS, *, required: bool = False) -> None:
    """Add the option for a condition, under both of its names."""
    parser.add_argument("--where", "--filter", required=required, metavar="CONDITION", action=_OneCondition, help=help_)


def add_query_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a condition and time travel."""
    add_where(parser)
    add_travel_arguments(parser)


def add_matching_argument(parser: argparse.ArgumentParser) -> None:
    """Add the file of keys that rows have to match."""
    formats = "Parquet, ORC, Arrow, CSV or JSON lines"
    help_ = f"only rows that have the values of one of the keys in this file ({formats}) in its columns"
    parser.add_argument("--matching", metavar="FILE", help=help_)


def add_travel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add time travel."""
    parser.add_argument("--snapshot", type=number, help="read this snapshot")
    parser.add_argument("--tag", help="read this tag")
    parser.add_argument("--timestamp", help="read the table as of 'yyyy-MM-dd HH:mm:ss', local or with a zone")


def number(text: str) -> int:
    """An argument that is a whole number. Raises ValueError."""
    value = whole_number(text)
    if value is None:
        raise ValueError(text)
    return value


def add_if_not_exists(parser: argparse.ArgumentParser, help_: str) -> None:
    """Add the option that makes it no error that there is such a thing already."""
    parser.add_argument("--if-not-exists", "--if-missing", action="store_true", help=help_)


def key_values(pairs: Sequence[str], what: str) -> dict[str, str]:
    """``KEY=VALUE`` arguments as a dictionary. Raises OptionError."""
    result = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            given = "" if what == "--storage-option" else f", not {pair!r}"  # it may be a credential
            raise OptionError(f"{what} takes KEY=VALUE{given}")
        result[key] = value
    return result


def table_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of Paimon's that are given."""
    return key_values(arguments.option, "--option")


def names_in(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",")]


def warehouse_of(arguments: argparse.Namespace, warehouse: str | None) -> Catalog | None:
    """The catalog of a warehouse that is named by its path, else that of `catalog_of`."""
    if warehouse is None:
        return catalog_of(arguments, None)
    if arguments.catalog is not None:
        raise OptionError("a warehouse and --catalog both say where the tables are", hint="leave one out")
    from paimon_pyds.catalog import Catalog

    return Catalog(warehouse, storage_options(arguments))


def open_table(arguments: argparse.Namespace) -> Table:
    """The table that a command is about."""
    catalog = catalog_of(arguments, arguments.table)
    if catalog is not None:
        branch = arguments.branch
        return catalog.table(arguments.table if branch is None else f"{arguments.table}$branch_{branch}")
    from paimon_pyds.table import Table

    try:
        return Table.open(arguments.table, arguments.branch, storage_options(arguments))
    except TableNotFoundError as error:
        if "." in arguments.table and not {"/", os.sep} & set(arguments.table):
            error.hint = "give its path; or --catalog, where that is DATABASE.TABLE of one"
        raise


def create_table(arguments: argparse.Namespace, columns: Sequence[DataField], **more: Any) -> Table:
    """Make the table that a command is about; ``more`` as for `Table.create`."""
    catalog = catalog_of(arguments, arguments.table)
    if catalog is not None:
        return catalog.create_table(arguments.table, columns, **more)
    from paimon_pyds.table import Table

    return Table.create(arguments.table, columns, storage_options=storage_options(arguments), **more)


def storage_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The credentials and endpoints that are given."""
    return key_values(arguments.storage_option, "--storage-option")


def catalog_of(arguments: argparse.Namespace, where: str | None) -> Catalog | None:
    """The catalog that a command's option or the environment names; None where the table or warehouse is a path.
    ``where``: the table or the warehouse; what has a slash is a path."""
    name = catalog_name(arguments, where)
    if name is None:
        return None
    from paimon_pyds.catalog import Catalog

    return Catalog.configured(name, storage_options(arguments))


def catalog_name(arguments: argparse.Namespace, where: str | None) -> str | None:
    """The name of the catalog that `catalog_of` opens."""
    name: str | None = arguments.catalog
    if where is not None and "/" in where:
        if name is not None:
            raise OptionError(f"{redact(where)!r:.200} is a path, and --catalog wants names", hint="leave one out")
        return None
    if name is None:
        from paimon_pyds.catalog.config import default_catalog

        name = default_catalog()
    return name


def command_line(arguments: argparse.Namespace, command: str, *more: str) -> str:
    """A command on the same table, to be pasted into a shell. Credentials are left out."""
    branch = [] if arguments.branch is None else ["--branch", arguments.branch]
    catalog = [] if arguments.catalog is None else ["--catalog", arguments.catalog]
    return f"paimon-pyds {command} {shlex.join([redact(arguments.table), *catalog, *branch, *more])}"


def scan_of(arguments: argparse.Namespace, **more: Any) -> Scan:
    """The scan that the options of a command ask for."""
    from paimon_pyds.cli.inputs import matching_keys

    scan = open_table(arguments).scan(arguments.where, **travel_of(arguments), **more)
    keys = matching_keys(arguments, scan.schema.fields)
    return scan if keys is None else scan.matching(keys)


def travel_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The state of the table that the options of a command name, and other options of Paimon's."""
    names = ("snapshot", "tag", "timestamp")
    return {name: getattr(arguments, name) for name in names} | {"options": table_options(arguments)}
