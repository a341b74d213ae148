"""One query of DuckDB over a catalog: of the tables and states that it names, no others are opened.

DuckDB parses ``AT (VERSION => …)`` and ``AT (TIMESTAMP => …)``, and refuses both for views. So
``db.t AT (VERSION => 3)`` becomes ``"db$snapshot_3".t``, a view of that state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from paimon_pyds.catalog.duckdb_tables import connect, new_enough, quoted
from paimon_pyds.catalog.identifier import SYSTEM_DATABASE, parse_identifier, quoted_name
from paimon_pyds.errors import OptionError, PaimonError, UnsupportedError

if TYPE_CHECKING:
    import duckdb

    from paimon_pyds.catalog.catalog import Catalog
    from paimon_pyds.ops.explain.explain import Explanation

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<mark>\w*)\$.*?\$(?P=mark)\$)
    |(?P<name>"(?:[^"]|"")*"|[^\W\d]\w*)
    |(?P<number>\d+)
    |(?P<sign>=>|.)""",
    re.DOTALL | re.VERBOSE,
)
_CHANGES = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE", "DROP", "ALTER")
_VERSION = ("number", "text")


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int

    def says(self, word: str) -> bool:
        return self.text.upper() == word

    @property
    def value(self) -> str:
        """The name or the text."""
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote) if quote in "\"'" else self.text


class _State(NamedTuple):
    """A table of the query at a state: ``name`` is that of `connect`."""

    name: str
    schema: str
    table: str
    start: int
    end: int


def query(
    catalog: Catalog, sql: str, seen: Callable[[Any], None] | None = None, prefix: str = ""
) -> duckdb.DuckDBPyRelation:
    """See `Catalog.sql`. ``seen``: as for `connect`. ``prefix``: comes before the query, such as EXPLAIN."""
    library_ = new_enough()
    tokens = [token for token in _tokens(sql) if token.kind != "blank"]
    if tokens and (word := tokens[0].text.upper()) in _CHANGES:
        raise UnsupportedError(
            f"SQL over a catalog only reads: it has no {word}",
            hint="catalog.table(NAME).append(catalog.sql('SELECT …')) writes rows; catalog.create_table makes a table",
        )
    states = list(_states(tokens))
    text = sql
    for state in reversed(states):
        text = f"{text[: state.start]}{quoted(state.schema)}.{quoted(state.table)}{text[state.end :]}"
    try:
        named = {
            spelled for name in library_.connect().get_table_names(text, qualified=True) if (spelled := _name(name))
        }
        made = {quoted_name(state.schema, state.table) for state in states}
        connection = connect(catalog, sorted(n for n in named - made if _exists(catalog, n)), None, seen)
        all_named = True
    except (library_.BinderException, library_.CatalogException):  # it looks for joined tables before it names them
        connection, all_named = connect(catalog, None, None, seen), False
    connect(catalog, sorted({state.name for state in states}), connection, seen)
    for state in states:
        source = parse_identifier(state.name)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(state.schema)}")
        view, of = (
            f"{quoted(a)}.{quoted(b)}" for a, b in ((state.schema, state.table), (source.database, source.object_name))
        )
        connection.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {of}")
    try:
        return connection.sql(prefix + text)
    except (library_.BinderException, library_.CatalogException):
        if not all_named:
            raise
        return connect(catalog, None, connection, seen).sql(prefix + text)


def explained(catalog: Catalog, sql: str) -> tuple[str, list[Explanation]]:
    """DuckDB's plan of a query, and what partitions, statistics and indexes leave of each scan in it. Runs it."""
    scans: list[Any] = []
    rows = query(catalog, sql, scans.append, "EXPLAIN ANALYZE ").fetchall()
    return "\n".join(row[-1] for row in rows), [scan.explain() for scan in scans if hasattr(scan, "explain")]


def _tokens(sql: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(sql):
        kind = "text" if match.lastgroup == "mark" else match.lastgroup
        yield _Token(str(kind), match[0], match.start(), match.end())


def _states(tokens: list[_Token]) -> Iterator[_State]:
    """The tables with ``AT (…)``. Raises OptionError: another state than a constant."""
    for number, token in enumerate(tokens):
        after = tokens[number + 1 : number + 4]
        if token.kind != "name" or not token.says("AT") or [t.text.upper() for t in after[::2]] != ["(", "=>"]:
            continue
        word = after[1].text.upper()
        if word not in ("VERSION", "TIMESTAMP"):
            continue
        value = tokens[number + 4 :]
        if value and value[0].kind == "name":  # TIMESTAMP '…'
            value = value[1:]
        if len(value) < 2 or value[0].kind not in _VERSION or not value[1].says(")") or not number:
            raise OptionError(
                f"AT ({word} => …) takes a constant", hint="such as AT (VERSION => 3), or a tag as a text"
            )
        path = _path(tokens[:number])
        database, table = path[-2].value if len(path) > 1 else "default", path[-1].value
        kind = "timestamp" if word == "TIMESTAMP" else "snapshot" if value[0].kind == "number" else "tag"
        suffix = f"${kind}_{value[0].value}"
        name = quoted_name(database, table) + suffix
        yield _State(name, database + suffix, table, path[0].start, value[1].end)


def _path(tokens: list[_Token]) -> list[_Token]:
    """The parts of the name at the end, without its dots."""
    found = [tokens[-1]]
    rest = tokens[:-1]
    while len(rest) > 1 and rest[-1].says("."):
        found.insert(0, rest[-2])
        rest = rest[:-2]
    return found


def _name(spelled: str) -> str | None:
    """A name of DuckDB, which may have an alias, as `parse_identifier` takes it; None for one that can be no table of a
    catalog, such as a file's."""
    names = takewhile(lambda token: not token.says("AS"), (t for t in _tokens(spelled) if t.kind == "name"))
    parts = [token.value for token in names]
    if not 0 < len(parts) < 3:
        return None
    head, mark, suffix = parts[-1].partition("$")
    name = quoted_name(parts[0] if len(parts) > 1 else "default", head) + mark + suffix
    try:
        parse_identifier(name)
    except PaimonError:
        return None
    return name


def _exists(catalog: Catalog, name: str) -> bool:
    at = parse_identifier(name)
    if at.database == SYSTEM_DATABASE:
        return True
    return catalog.exists(name.removesuffix(f"${at.system}"))
