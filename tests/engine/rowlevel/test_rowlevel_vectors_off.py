"""Deletion vectors of tables that have them switched off: Java passes over them, so operations here drop their rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError
from support.oracle import Oracle, requires_java_oracle

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("s", pa.string())])
ENABLED = {"deletion-vectors.enabled": "true", "deletion-vectors.modifiable": "true"}
OFF = "deletion-vectors.enabled is off"


def _rows(*ids: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "p": i % 2, "s": str(i)} for i in ids], SCHEMA)


def _ids(table: pp.Table) -> list[int]:
    ids: list[int] = table.scan(columns=["id"]).to_arrow().column("id").to_pylist()
    return sorted(ids)


def _switched_off(table: pp.Table) -> None:
    """As Java does it, which lets it happen while there are vectors."""
    schema = table.schema
    path = Path(table._store.paths.schema(schema.id))
    text = path.read_text().replace('"deletion-vectors.enabled" : "true"', '"deletion-vectors.enabled" : "false"')
    Path(table._store.paths.schema(schema.id + 1)).write_text(
        text.replace(f'"id" : {schema.id},\n  "fields"', f'"id" : {schema.id + 1},\n  "fields"')
    )


def _stray(path: Path, **options: str) -> pp.Table:
    """Files 1 to 4 and 5 to 8; rows 2 and 5 are deleted by vectors that are switched off."""
    table = pp.Table.create(path, SCHEMA, partition_by=["p"], options=ENABLED | options)
    table.append(_rows(1, 2, 3, 4))
    table.append(_rows(5, 6, 7, 8))
    table.delete("id IN (2, 5)")
    _switched_off(table)
    return pp.Table.open(path)


def test_reads_keep_the_rows_deleted_and_say_so(tmp_path: Path) -> None:
    table = _stray(tmp_path / "t")
    for read in (_ids, pp.Table.count, lambda t: t.max("id"), lambda t: str(t.explain("id > 1"))):
        with pytest.warns(UserWarning, match=OFF):
            read(table)
    with pytest.warns(UserWarning, match=OFF):
        assert _ids(table) == [1, 3, 4, 6, 7, 8]


OPERATIONS: dict[str, tuple[Callable[[pp.Table], Any], list[int]]] = {
    "append": (lambda t: t.append(_rows(9)), [1, 3, 4, 6, 7, 8, 9]),
    "overwrite": (lambda t: t.overwrite(_rows(10), partition={"p": 0}), [1, 3, 7, 10]),
    "delete": (lambda t: t.delete("id = 7"), [1, 3, 4, 6, 8]),
    "delete_nothing": (lambda t: t.delete("id = 77"), [1, 3, 4, 6, 7, 8]),
    "update": (lambda t: t.update({"id": "id + 100"}, "id = 1"), [3, 4, 6, 7, 8, 101]),
    "merge": (
        lambda t: t.merge(_rows(2, 8), ["id"], when_matched="update", when_not_matched="insert"),
        [1, 2, 3, 4, 6, 7, 8],
    ),
    "compact": (lambda t: t.compact(), [1, 3, 4, 6, 7, 8]),
}


@requires_java_oracle
@pytest.mark.parametrize("tracked", ["false", pytest.param("true", marks=pytest.mark.long)])
def test_after_every_operation_java_reads_the_same_rows(tmp_path: Path, oracle: Oracle, tracked: str) -> None:
    _stray(tmp_path / "first" / "db.db" / "t", **{"row-tracking.enabled": tracked})
    for name in OPERATIONS:
        shutil.copytree(tmp_path / "first", tmp_path / name)
    for name, (operation, ids) in OPERATIONS.items():
        table = pp.Table.open(tmp_path / name / "db.db" / "t")
        with pytest.warns(UserWarning, match=f"{OFF}.* were dropped for good"):
            operation(table)
        assert _ids(table) == ids, name  # and no warning
    with oracle.batch() as batch:
        before = batch.read(tmp_path / "first", "db.t")
        after = {name: batch.read(tmp_path / name, "db.t") for name in OPERATIONS}
        for name in OPERATIONS:
            batch.write(tmp_path / name, "db.t", _rows(50))
        written = {name: batch.read(tmp_path / name, "db.t") for name in OPERATIONS}
    assert sorted(row["id"] for row in before.values) == [1, 2, 3, 4, 5, 6, 7, 8]
    for name, (_, ids) in OPERATIONS.items():
        assert sorted(row["id"] for row in after[name].values) == ids, name
        assert sorted(row["id"] for row in written[name].values) == sorted([*ids, 50]), name


def test_rows_that_are_named_by_their_place(tmp_path: Path) -> None:
    """Their files must not be written anew before they are looked up."""
    from pyroaring import BitMap

    from paimon_pyds.engine.rowlevel.replace_rows import replace_rows
    from paimon_pyds.ops.after_commit import after_commit

    table = _stray(tmp_path / "t")
    with pytest.warns(UserWarning, match=OFF):
        at = table.scan("id = 6", columns=["__paimon_file_path", "__paimon_row_index"]).to_arrow().to_pylist()[0]
    summary = replace_rows(table._store, {at["__paimon_file_path"]: BitMap([at["__paimon_row_index"]])})
    with pytest.warns(UserWarning, match="dropped for good"):
        after_commit(table._store, summary.snapshot_id, {})
    assert _ids(table) == [1, 3, 4, 7, 8]


def test_a_dry_run_of_compact_changes_nothing(tmp_path: Path) -> None:
    table = _stray(tmp_path / "t")
    snapshots = len(table.snapshots.list())
    table.compact(full=True, dry_run=True)
    assert len(table.snapshots.list()) == snapshots


def test_what_can_not_be_dropped_is_told_and_the_operation_stays(tmp_path: Path) -> None:
    table = _stray(tmp_path / "t")
    for path in (tmp_path / "t" / "p=0" / "bucket-0").iterdir():
        path.unlink()
    with pytest.warns(UserWarning, match=f"{OFF}.* could not be dropped"):
        assert table.append(_rows(11)) is not None


def test_vectors_are_switched_off_when_there_are_none(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA, options=ENABLED)
    table.append(_rows(1, 2, 3))
    table.delete("id = 2")
    for change in ({"set_options": {"deletion-vectors.enabled": "false"}}, {"unset_options": list(ENABLED)[:1]}):
        with pytest.raises(OptionError, match="while rows are deleted by vectors"):
            table.alter(**change)
    table.compact(full=True)
    table.alter({"deletion-vectors.enabled": "false"})
    assert _ids(table) == [1, 3]
