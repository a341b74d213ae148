"""What each command does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from paimon_pyds.errors import OptionError, StorageError, TableNotFoundError
from paimon_pyds.redaction import redact

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.table import Table
    from paimon_pyds.table_scan import Scan

__all__ = ["describe", "explain", "open_table", "read", "scan_of", "snapshots", "write"]

_TEXT_LIMIT = 100


def _pairs(pairs: list[str], what: str) -> dict[str, str]:
    from paimon_pyds.cli.arguments import key_values

    return key_values(pairs, what)


def open_table(arguments: argparse.Namespace) -> Table:
    """The table that a command is about."""
    from paimon_pyds.table import Table

    return Table.open(arguments.table, arguments.branch, _pairs(arguments.storage_option, "--storage-option"))


def scan_of(arguments: argparse.Namespace, **more: Any) -> Scan:
    """The scan that the options of a command ask for."""
    return open_table(arguments).scan(
        arguments.filter,
        snapshot=arguments.snapshot,
        tag=arguments.tag,
        timestamp=arguments.timestamp,
        options=_pairs(arguments.option, "--option"),
        **more,
    )


def read(arguments: argparse.Namespace) -> None:
    """Print rows: a table, or one JSON object a line."""
    from paimon_pyds.cli import show

    limit = arguments.limit
    if limit is None and arguments.topn is None and arguments.output == "text":
        limit = _TEXT_LIMIT
    columns = None if arguments.columns is None else [c.strip() for c in arguments.columns.split(",")]
    scan = scan_of(arguments, columns=columns, limit=limit, top_n=arguments.topn)
    if arguments.output == "json":
        for batch in scan.to_batches():
            show.json_rows(batch)
        return
    table = scan.to_arrow()
    show.text_table(table)
    if arguments.limit != limit and table.num_rows == _TEXT_LIMIT:
        print(f"(the first {_TEXT_LIMIT} rows; --limit N shows more)")


def explain(arguments: argparse.Namespace) -> None:
    """Print how a scan narrows down, or write it to a file."""
    from paimon_pyds.cli import show

    columns = None if arguments.columns is None else [c.strip() for c in arguments.columns.split(",")]
    scan = scan_of(arguments, columns=columns, limit=arguments.limit, top_n=arguments.topn)
    explanation = scan.explain(analyze=arguments.analyze)
    if arguments.html is not None:
        try:
            with open(arguments.html, "w", encoding="utf-8") as file:
                file.write(explanation.page)
        except OSError as error:
            raise StorageError(f"can't write the page: {error.strerror}", path=arguments.html) from error
    if arguments.output == "json":
        show.json_value(explanation.as_dict())
    else:
        print(show.drawn(explanation.text))


def describe(arguments: argparse.Namespace) -> None:
    """Print the schema and the options."""
    from paimon_pyds.cli import show
    from paimon_pyds.types import type_to_json

    table = open_table(arguments)
    schema, snapshot = table.schema, table.snapshot()
    options = table.describe_options().to_pylist()
    if not arguments.all_options:
        options = [o for o in options if o["set"]]
    if arguments.output == "json":
        show.json_value(
            {
                "path": redact(table.path),
                "schema_id": schema.id,
                "columns": [{"id": f.id, "name": f.name, "type": type_to_json(f.type)} for f in schema.fields],
                "partition_by": list(schema.partition_keys),
                "primary_key": list(schema.primary_keys),
                "comment": schema.comment,
                "options": options,
                "snapshot": None if snapshot is None else snapshot.id,
                "rows": None if snapshot is None else snapshot.total_record_count,
            }
        )
        return
    show.describe(table, options)


def snapshots(arguments: argparse.Namespace) -> None:
    """Print snapshots and tags."""
    from paimon_pyds.cli import show

    table = open_table(arguments)
    rows = [show.snapshot_row(s) for s in table.snapshots()]
    tags = [{"tag": name, "snapshot": s.id} for name, s in sorted(table.tags().items())]
    if arguments.output == "json":
        show.json_value({"snapshots": rows, "tags": tags})
        return
    if not rows:
        print("no snapshots: nothing was written yet")
    show.text_rows(rows)
    if tags:
        print()
        show.text_rows(tags)


def write(arguments: argparse.Namespace) -> None:
    """Append or overwrite rows from files."""
    from paimon_pyds.cli import show
    from paimon_pyds.cli.inputs import open_inputs
    from paimon_pyds.cli.progress import rows_progress

    schema, batches = open_inputs(arguments.inputs)
    table, options = _opened_or_created(arguments, schema)
    partition = _pairs(arguments.partition, "--partition") or None
    if arguments.mode == "append" and (partition or arguments.dynamic):
        raise OptionError("--partition and --dynamic belong to --mode overwrite")
    with rows_progress("written") as progress:
        if arguments.mode == "append":
            snapshot = table.append(batches, options=options, progress=progress)
        else:
            snapshot = table.overwrite(batches, partition, arguments.dynamic, options=options, progress=progress)
    rows = progress.rows
    if arguments.output == "json":
        show.json_value({"rows": rows, "snapshot": None if snapshot is None else snapshot.id})
    elif snapshot is None:
        print("nothing to write: the input has no rows")
    else:
        from paimon_pyds.explain.data import counted

        print(f"{counted(rows, 'row')} written, snapshot {snapshot.id}")


def _opened_or_created(arguments: argparse.Namespace, schema: pa.Schema) -> tuple[Table, dict[str, str]]:
    """The table, and the options that are left for the write: a new table takes them as its own."""
    from paimon_pyds.table import Table

    options = _pairs(arguments.option, "--option")
    try:
        return open_table(arguments), options
    except TableNotFoundError as error:
        if not arguments.create:
            raise TableNotFoundError(error.message, path=error.path, hint="add --create to make it") from error
    partition_by = [name.strip() for name in arguments.partition_by.split(",") if name.strip()]
    table = Table.create(
        arguments.table,
        schema,
        partition_by=partition_by,
        options=options,
        storage_options=_pairs(arguments.storage_option, "--storage-option"),
    )
    return table, {}
