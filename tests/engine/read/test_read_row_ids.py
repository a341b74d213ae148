"""Row ids of tables with row tracking."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA
from paimon_pyds.metadata.snapshot import CommitKind


def test_ids_that_a_file_holds_are_not_taken_for_none(tmp_path: Path) -> None:
    """Java's compaction writes ids into the file, and leaves the first one out of the manifest."""
    schema = pa.schema([("id", pa.int64())])
    table = pp.Table.create(tmp_path / "t", schema, options={"row-tracking.enabled": "true"})
    table.append(pa.table({"id": [7, 8]}, schema))
    assert table.scan(columns=["id", "_ROW_ID"]).to_arrow()["_ROW_ID"].to_pylist() == [0, 1]
    entries = live_of(table._store, table.snapshots.latest())
    compacted = entries
    values = {"first_row_id": None, "write_cols": ["id", "_ROW_ID", "_SEQUENCE_NUMBER"], "level": 1}
    for name, value in values.items():  # another level, or the entry would be deleted with the old one
        at = ENTRY_SCHEMA.get_field_index(name)
        field = ENTRY_SCHEMA.field(at)
        compacted = compacted.set_column(at, field, pa.array([value], field.type))
    changes = Changes([Increment(deleted=entries, replacements=compacted, kind=CommitKind.COMPACT)])
    assert commit(table._store, changes, TableOptions(table.options)) is not None
    assert table.scan().to_arrow()["id"].to_pylist() == [7, 8]
    for name in ("_ROW_ID", "_SEQUENCE_NUMBER"):
        with pytest.raises(CorruptFileError, match=f"no column '{name}'"):  # for here it is not there
            table.scan(columns=["id", name]).to_arrow()
