"""Commit messages of a table with one column: what its writers wrote, before and after it is committed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import paimon_pyds as pp
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.metadata.commit_message import CommitMessage

SCHEMA = pa.schema([("id", pa.int64())])


def table_of_one_row(path: Path) -> pp.Table:
    """A new table of the row 0, whose manifests are not merged."""
    made = pp.Table.create(path, SCHEMA, options={"manifest.merge-min-count": "1000"})
    made.append(data(0))
    return made


def data(*ids: int) -> pa.Table:
    """Rows of these ids."""
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def written(table: pp.Table, *ids: int) -> CommitMessage:
    """The message of a writer of these rows."""
    with TableWriter(table.write_context()) as writer:
        writer.write(data(*ids))
        return writer.prepare_commit()


def ids_of(table: pp.Table) -> list[int]:
    """What the table has, in order."""
    return sorted(table.scan().to_arrow()["id"].to_pylist())
