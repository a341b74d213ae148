"""Tables and scans as notebooks show them, and tables as ``print`` does: HTML in the manner of explanations, and text.

HTML is made of metadata alone: schema, snapshot, manifest lists, and manifests where these name few files; text of
schema and snapshot. Where something can't be read the HTML says what; nothing raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.secrets import counted, human_bytes, redact, visible
from paimon_pyds.base.text import files_text, names_text, utc_text
from paimon_pyds.engine.scan.known_rows import rows_text
from paimon_pyds.errors import NotFoundError, PaimonError
from paimon_pyds.index.build import parse_index_specs
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.ops.explain.html import CELL_LEFT, FAINT, TABLE_STYLE, escape, piece, table_row
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import Const

if TYPE_CHECKING:
    from paimon_pyds.metadata.schema import TableSchema
    from paimon_pyds.metadata.snapshot import Snapshot
    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.scan import Scan

_MOST_COLUMNS = 40
"""Columns that are shown."""
MAX_FILES = 100_000
"""Manifests that name more files are not read: a notebook should not wait."""


class _Size(NamedTuple):
    """Of a snapshot; None where finding out would take long."""

    files: int
    bytes: int | None
    partitions: int | None


def table_html(store: TableStore) -> str:
    """A table: its columns with types and indexes, its latest snapshot and size, and how to go on."""
    branch = "" if store.branch == "main" else f" branch {_code(store.branch)}"
    head = f"<div><b>Paimon table</b> <code>{escape(redact(store.root))}</code>{branch}</div>"
    try:
        schema, snapshot = store.latest_schema(), store.latest_snapshot()
        comment = f"<div>{escape(redact(schema.comment))}</div>" if schema.comment else ""
        return piece(head, comment, _facts(store, schema, snapshot), _columns(schema), _calls(schema))
    except Exception as error:  # noqa: BLE001 - a notebook shows what it can
        return piece(head, _failure(error))


def scan_html(scan: Scan, order: str) -> str:
    """A scan: its filter, columns and snapshot, and how to run it; ``order`` is that of its first rows, if any."""
    limit = scan.request.row_limit
    at = "never written" if scan.snapshot is None else _snapshot_text(scan.snapshot)
    lines = [
        ("where", _code(to_sql(scan.predicate, shorten=True)) if scan.predicate is not Const.TRUE else "none"),
        ("columns", escape(names_text(scan.column_names))),
        ("order", _code(order) if order else ""),
        ("limit", "" if limit is None else counted(limit, "row")),
        ("reads", "changes between snapshots" if scan.between is not None else ""),
        ("snapshot", escape(at)),
        ("to read", _planned(scan)),
    ]
    head = f"<div><b>Scan of</b> <code>{escape(redact(scan.root))}</code></div>"
    return piece(head, _pairs(lines), _go_on("scan.to_arrow()", "scan.explain()"))


def _planned(scan: Scan) -> str:
    """The files that a plan found, where there is one already: making one may take long."""
    plan = vars(scan).get("own_plan")
    if plan is None:
        return f'<span style="{FAINT}">not planned yet</span>'
    found = files_text(len(plan.files), sum(f.row_count for f in plan.files), sum(f.size for f in plan.files))
    return found if scan.predicate is Const.TRUE else f"at most {found}"


def _failure(error: Exception) -> str:
    if isinstance(error, NotFoundError):
        text = "There is no such table any more: it was dropped, moved, or its path is another one."
    else:
        text = f"It can't be shown: {error.message if isinstance(error, PaimonError) else type(error).__name__}"
    return f"<div>{escape(redact(text))}</div>"


def _facts(store: TableStore, schema: TableSchema, snapshot: Snapshot | None) -> str:
    lines = [("snapshot", "never written" if snapshot is None else escape(_snapshot_text(snapshot)))]
    if snapshot is not None:
        size = _size(store, snapshot)
        bytes_ = "" if size.bytes is None else f" ({human_bytes(size.bytes)})"
        lines += [("rows", escape(rows_text(schema, snapshot))), ("files", f"{size.files:,}{bytes_}")]
        if size.partitions is not None and schema.partition_keys:
            lines.append(("partitions", f"{size.partitions:,}"))
    lines.append(("primary key", escape(names_text(schema.primary_keys))))
    lines.append(("partitioned by", escape(names_text(schema.partition_keys))))
    return _pairs(lines)


def _size(store: TableStore, snapshot: Snapshot) -> _Size:
    reader = ManifestReader(store)
    manifests = reader.manifests(snapshot)
    files = sum(m.num_added_files - m.num_deleted_files for m in manifests)
    if sum(m.num_added_files + m.num_deleted_files for m in manifests) > MAX_FILES:
        return _Size(files, None, None)
    entries = reader.live(manifests, ("partition", "file_size"))
    size = pc.sum(entries.column("file_size")).as_py() or 0
    return _Size(entries.num_rows, size, pc.count_distinct(entries.column("partition")).as_py())


def _snapshot_text(snapshot: Snapshot) -> str:
    return f"{snapshot.id} ({snapshot.commit_kind.value}, {utc_text(snapshot.time_millis)})"


def _columns(schema: TableSchema) -> str:
    indexes: dict[str, list[str]] = {}
    try:
        for spec in parse_index_specs(schema.options, schema.fields):
            key = "" if spec.map_key is None else f" of [{spec.map_key}]"
            indexes.setdefault(spec.column, []).append(f"{spec.index_type}{key}")
    except PaimonError as error:
        return _column_table(schema, {}) + _failure(error)
    return _column_table(schema, indexes)


def _column_table(schema: TableSchema, indexes: dict[str, list[str]]) -> str:
    names = ("column", "type", "index") if indexes else ("column", "type")
    cells = []
    for field in schema.fields[:_MOST_COLUMNS]:
        type_ = str(field.type)
        shown = type_ if len(type_) <= 200 else f"{type_[:199]}…"
        cells.append((field.name, shown, ", ".join(indexes.get(field.name, ())))[: len(names)])
    # Letters that stay together where there is little room.
    widths = [min(max(map(len, column)), 13) * 0.62 for column in zip(names, *cells, strict=True)]
    styles = [f"{CELL_LEFT}min-width:{width:.1f}em;" for width in widths]
    rows = [table_row("th", zip(names, styles, strict=True))]
    rows += [table_row("td", zip(map(escape, texts), styles, strict=True)) for texts in cells]
    more = len(schema.fields) - _MOST_COLUMNS
    rest = (
        f'<div style="{FAINT}">and {more:,} more: <code>table.schema.fields</code> has them all</div>'
        if more > 0
        else ""
    )
    return f'<table style="{TABLE_STYLE}margin-top:8px">{"".join(rows)}</table>{rest}'


def _calls(schema: TableSchema) -> str:
    where = next((f'"{f.name} IS NOT NULL"' for f in schema.fields if f.name.isidentifier()), "")
    return _go_on(f"table.scan({where}).to_arrow()", f"table.explain({where})")


def _go_on(read: str, explain: str) -> str:
    return _pairs([("read rows", _code(read)), ("what that takes", _code(explain))])


def _code(text: str) -> str:
    return f'<code style="overflow-wrap:anywhere">{escape(redact(text))}</code>'


def _pairs(lines: Sequence[tuple[str, str]]) -> str:
    """Names and values, which are HTML already; those without a value are left out."""
    rows = "".join(
        table_row(
            "td", [(name, f"{CELL_LEFT}{FAINT}white-space:nowrap;"), (value, f"{CELL_LEFT}overflow-wrap:anywhere;")]
        )
        for name, value in lines
        if value
    )
    return f'<table style="{TABLE_STYLE}margin-top:6px">{rows}</table>'


_SHOWN_CHARACTERS = 200
"""Characters of a value that the text shows."""


def table_text(head: str, store: TableStore) -> str:
    """The lines below ``head``: snapshot, rows, keys and columns; what is wrong where they can't be read."""
    try:
        schema, snapshot = store.latest_schema(), store.latest_snapshot()
        lines = [*_fact_lines(schema, snapshot), "columns:", *_column_lines(schema)]
    except Exception as error:  # noqa: BLE001 - print does not fail
        message = error.message if isinstance(error, PaimonError) else f"{type(error).__name__} while it was read"
        lines = [f"it can't be shown: {message}"]
    return "\n".join([head, *(f"  {_cut(line)}" for line in lines)])


def _fact_lines(schema: TableSchema, snapshot: Snapshot | None) -> Iterator[str]:
    if snapshot is None:
        yield "snapshot: none, the table was never written"
    else:
        yield f"snapshot: {snapshot.id}, {snapshot.commit_kind.value}, {utc_text(snapshot.time_millis)}"
        yield f"rows: {rows_text(schema, snapshot)}"
    for what, value in (
        ("primary key", names_text(schema.primary_keys)),
        ("partitioned by", names_text(schema.partition_keys)),
        ("comment", schema.comment),
    ):
        if value:
            yield f"{what}: {value}"


def _column_lines(schema: TableSchema) -> Iterator[str]:
    shown: Sequence[tuple[str, str]] = [(visible(f.name), str(f.type)) for f in schema.fields[:_MOST_COLUMNS]]
    width = min(max((len(name) for name, _ in shown), default=0), 40)
    yield from (f"  {name.ljust(width)}  {type_}" for name, type_ in shown)
    if len(schema.fields) > _MOST_COLUMNS:
        yield f"  and {len(schema.fields) - _MOST_COLUMNS:,} more: table.schema.fields has them all"


def _cut(line: str) -> str:
    text = visible(redact(line))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
