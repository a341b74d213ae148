"""Types of Paimon 2 in data files of each format: read again, in columns that change, and after a compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import SchemaError, UnsupportedError

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
_VARIANTS: Any = pp.variant_array([{"a": 1}, None, [True, "x"]])
VALUES: dict[str, list[Any]] = {
    "VARIANT": _VARIANTS.to_pylist(),
    "ARRAY<VARIANT>": [_VARIANTS.to_pylist()[:2], None, []],
    "ROW<a INT, v VARIANT>": [{"a": 1, "v": _VARIANTS[2].as_py()}, None, {"a": None, "v": None}],
    "VECTOR<FLOAT, 2>": [[0.5, -0.0], None, [1e30, 2.0]],
    "VECTOR<BIGINT, 3>": [[1, 2, 3], None, [-(2**63), 2**63 - 1, 0]],
    "VECTOR<BOOLEAN, 1>": [[True], None, [False]],
    "BLOB": [b"", None, b"blob"],
    "ARRAY<BLOB>": [[b"", None, b"x"], None, []],
    "MAP<INT, BLOB>": [[(1, b"x"), (2, None)], None, []],
    "TIMESTAMP(9)": [-1_500_000_001, None, 10**18 + 123_456_789],
}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro", "row"])
@pytest.mark.parametrize("type_", VALUES)
def test_values_are_read_again(type_: str, file_format: str, tmp_path: Path) -> None:
    columns, options = {"id": "INT", "x": type_, "n": "INT"}, OPTIONS | {"file.format": file_format}
    if ("VARIANT" in type_ and file_format in ("orc", "avro")) or (type_ == "TIMESTAMP(9)" and file_format == "avro"):
        with pytest.raises((SchemaError, UnsupportedError), match="column x: "):
            pp.Table.create(tmp_path / "t", columns, options=options)
        assert not (tmp_path / "t").exists()
        return
    table = pp.Table.create(tmp_path / "t", columns, options=options)
    ids, x = pa.array([1, 2, 3], pa.int32()), pa.array(VALUES[type_], table.arrow_schema.field("x").type)
    rows = pa.table([ids, x, ids], schema=table.arrow_schema)
    table.append(rows)
    model = rows.to_pylist()
    assert table.to_arrow().to_pylist() == model
    assert table.scan("x IS NULL", columns=["id"]).to_arrow()["id"].to_pylist() == [2]
    table.update({"n": "n + 1"}, "id <> 1")
    source = pa.table(
        [pa.array([2], pa.int32()), x.slice(0, 1)], pa.schema([table.arrow_schema.field(i) for i in (0, 1)])
    )
    table.merge(source, on="id", when_matched=[pp.Update({"x": "source.x"})])
    table.update({"x": "NULL", "n": "9"}, "id = 3")
    table.append(rows.slice(2))
    table.delete("id = 1")
    wanted = [model[1] | {"x": model[0]["x"], "n": 3}, model[2] | {"x": None, "n": 9}, model[2]]
    for _ in range(2):
        assert table.to_arrow().to_pylist() == wanted
        assert table.scan("x IS NOT NULL", columns=["x"]).to_arrow()["x"].to_pylist() == [model[i]["x"] for i in (0, 2)]
        table.compact(full=True)
