"""MAP columns that are stored as a ROW (map.storage-layout=shared-shredding): the file says so, not the options."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import UnsupportedError
from support.data_files import fields_of, read_file
from support.fixtures import DEV, has_shared

_FIELDS = fields_of("INT", {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"})
_ROWS = pa.table({
    "c0": pa.array([1, 2], pa.int32()),
    "c1": pa.array(
        [{"__field_mapping": [0, -1], "__col_0": 5, "__col_1": None, "__overflow": []}, None],
        pa.struct({
            "__field_mapping": pa.list_(pa.int32()), "__col_0": pa.int64(), "__col_1": pa.int64(),
            "__overflow": pa.map_(pa.int32(), pa.int64()),
        }),
    ),
})  # fmt: skip


@pytest.mark.parametrize(("suffix", "write"), [("parquet", pq.write_table), ("orc", orc.write_table)])
def test_the_column_is_refused_by_name(tmp_path: Path, suffix: str, write: Callable[[pa.Table, str], None]) -> None:
    path = tmp_path / f"data.{suffix}"
    write(_ROWS, str(path))
    assert read_file(path, _FIELDS[:1]).to_pydict() == {"c0": [1, 2]}
    with pytest.raises(UnsupportedError, match=r"'c1' is a MAP .*shared-shredding.*columns=…, .*fields\.c1\.map"):
        read_file(path, _FIELDS)


@pytest.mark.skipif(not has_shared(), reason="needs a table with both layouts")
def test_a_table_whose_option_was_changed() -> None:
    assert DEV is not None
    folder = DEV.parent / "v2" / "map_shredded"
    if not folder.is_dir():
        pytest.skip("needs a table with both layouts")
    rows = [json.loads(line) for line in (folder / "expected" / "full.jsonl").read_text().splitlines()]
    table = pp.Table.open(folder / "table" / "db.db" / "t")
    assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == sorted(row["id"] for row in rows)
    assert {finding.kind for finding in table.maintenance.verify(deep=True).findings} == {"unsupported"}
    for read in (lambda: table.scan().to_arrow(), lambda: table.count("m IS NULL"), lambda: table.compact(full=True)):
        with pytest.raises(UnsupportedError, match="'m' is a MAP"):
            read()
