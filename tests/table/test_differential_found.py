"""Small cases of what random tables found once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.execution.live_files import live_of

FORMATS = ["parquet", "orc", "avro"]


@pytest.mark.parametrize("options", [{}, {"metadata.stats-dense-store": "false"}], ids=["dense", "all"])
@pytest.mark.parametrize("format_", FORMATS)
def test_nulls_of_nested_columns_are_counted(tmp_path: Path, format_: str, options: dict[str, str]) -> None:
    """Their statistics are rows without bounds: some formats count NULLs, none has a least or greatest value."""
    schema = pa.schema([("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int64())),
                        ("r", pa.struct([("x", pa.int32())]))])  # fmt: skip
    table = pp.Table.create(tmp_path / "t", schema, options={"file.format": format_, **options})
    table.append(pa.table({"a": [[1], None], "m": [[("k", 1)], None], "r": [{"x": 1}, None]}, schema))
    table.append(pa.table({"a": [[2]], "m": [[("k", 2)]], "r": [{"x": 2}]}, schema))
    for name in schema.names:
        assert table.count(f"{name} IS NULL") == 1
        assert table.count(f"{name} IS NOT NULL") == 2
    assert table.count("r.x = 2 OR m['k'] = 1") == 2


def test_orc_columns_with_dots_beside_far_timestamps(tmp_path: Path) -> None:
    """pyarrow reads the one, and must not be asked for the other."""
    rows = pa.table(
        {"d.e": pa.array([1, 2], pa.int32()), "t": pa.array([0, 50_000_000_000_000_000], pa.timestamp("us"))}
    )
    table = pp.Table.create(tmp_path / "t", rows.schema, options={"file.format": "orc"})
    table.append(rows)
    assert table.scan("`d.e` = 2").to_arrow().equals(rows.slice(1))


@pytest.mark.parametrize("options", [{"file-index.bitmap.columns": "c"}, {}], ids=["one", "none"])
def test_rebuilding_embedded_indexes_that_come_out_the_same(tmp_path: Path, options: dict[str, str]) -> None:
    """An entry that replaces its equal would be taken away by the deletion that goes with it."""
    rows = pa.table({"id": [1, 2, 3], "c": ["a", "b", "a"]})
    table = pp.Table.create(tmp_path / "t", rows.schema, options={"file-index.in-manifest-threshold": "1mb", **options})
    table.append(rows)
    for _ in range(2):
        assert table.index.build(rebuild=True).snapshot_id is None
        assert table.scan("c = 'a'").to_arrow()["id"].to_pylist() == [1, 3]
        assert table.count() == 3


def test_no_commit_deletes_what_it_adds(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3]})
    table = pp.Table.create(tmp_path / "t", rows.schema)
    table.append(rows)
    entries = live_of(table._store, table.snapshots.latest())
    changes = Changes([Increment(deleted=entries, replacements=entries)])
    with pytest.raises(ValueError, match="adds and deletes the same entry"):
        commit(table._store, changes, TableOptions(table.options))
    assert table.count() == 3
