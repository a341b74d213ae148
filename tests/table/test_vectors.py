"""VECTOR columns in the data file: what peers wrote, every format and kind of table, changes of rows, wrong lengths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types import type_to_json
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.base.types.vectors import as_stored, vectors_of
from paimon_pyds.errors import CorruptFileError, SchemaError
from support.effort import examples, sampled
from support.peers import Pypaimon, Rust
from support.v2_fixtures import Read, read_id, v2_reads, v2_table
from support.values import lines

_COLUMNS = (
    "id INT NOT NULL, v VECTOR<FLOAT, 3>, r ROW<w VECTOR<BIGINT, 2>, x INT>, b VECTOR<BOOLEAN, 2> NOT NULL, "
    "l ARRAY<VECTOR<DOUBLE, 1>>, m MAP<STRING, VECTOR<TINYINT, 2>>"
)
FORMATS = ("parquet", "orc", "avro")
_KEYS: dict[str, Any] = {
    "append": {},
    "key": {"primary_key": ["id"], "options": {"bucket": "2"}},
    "changelog": {"primary_key": ["id"], "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "partial": {"primary_key": ["id"], "options": {"bucket": "1", "merge-engine": "partial-update"}},
}


def _row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "v": None if i % 3 == 0 else [i, -1.5, float("inf")],
        "r": None if i % 4 == 0 else {"w": [i, 2] if i % 5 else None, "x": 1},
        "b": [True, i % 2 == 0],
        "l": [[1.0], None, [i / 2]] if i % 2 else None,
        "m": [("a", [1, 2]), ("b", None)] if i % 3 else None,
    }


def _by_id(table: pp.Table, where: str | None = None) -> list[dict[str, Any]]:
    return sorted(table.scan(where).to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("read", v2_reads("vector_inline"), ids=read_id)
def test_what_pypaimon_wrote(read: Read) -> None:
    table = pp.Table.open(v2_table(read.fixture))
    assert lines(table.scan(read.filter, columns=read.columns).to_arrow()) == read.rows


@pytest.mark.parametrize("kind", _KEYS)
@pytest.mark.parametrize("file_format", sampled(FORMATS, 1))
def test_rows_and_their_changes(tmp_path: Path, file_format: str, kind: str) -> None:
    how = dict(_KEYS[kind])
    options = {"file.format": file_format, **how.pop("options", {})}
    table = pp.Table.create(tmp_path / "t", _COLUMNS, options=options, **how)
    rows = [_row(i) for i in range(20)]
    schema = table.arrow_schema
    assert schema.field("v").type == pa.list_(pa.float32(), 3)
    table.append(pa.Table.from_pylist(rows, schema))
    assert _by_id(table) == rows
    assert _by_id(table, "v IS NULL") == [row for row in rows if row["v"] is None]
    assert _by_id(table, "v[0] = 4 OR size(r.w) = 2 AND id = 6") == [rows[4], rows[6]]
    if kind != "partial":
        table.update({"v": "array(1.0, 2.0, id)", "r": "NULL"}, "id < 2")
        table.delete("id = 5")
        del rows[5]
        rows[0] |= {"v": [1.0, 2.0, 0.0], "r": None}
        rows[1] |= {"v": [1.0, 2.0, 1.0], "r": None}
    new = {**_row(7), "v": [9.0, 9.0, 9.0]}
    table.merge(
        pa.Table.from_pylist([new, _row(100)], schema), on="id", when_matched="update", when_not_matched="insert"
    )
    rows = sorted([row for row in rows if row["id"] != 7] + [new, _row(100)], key=lambda row: row["id"])
    assert _by_id(table) == rows
    table.compact(full=True)
    table.alter(add_columns={"z": "VECTOR<INT, 1>"}, rename_columns={"v": "renamed"})
    rows = [{"renamed" if name == "v" else name: value for name, value in row.items()} | {"z": None} for row in rows]
    assert _by_id(table) == rows


def test_plain_python_data(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "v VECTOR<FLOAT, 2>")
    table.append([{"v": [1, 2]}, {"v": None}])
    table.append(pa.table({"v": pa.array([[3.0, 4.0]], pa.list_(pa.float64(), 2))}))
    assert table.scan().to_arrow()["v"].to_pylist() == [[1.0, 2.0], None, [3.0, 4.0]]
    for bad, why in ([[1.0]], "1 elements"), ([[0.0, 1.0], [1.0, None]], "row 2"), ([["a", "b"]], "v"):
        with pytest.raises(SchemaError, match=why):
            table.append([{"v": value} for value in bad])
    with pytest.raises(SchemaError, match="NULL"):  # of the very type of the column
        table.append(pa.table({"v": pa.array([[None, 4.0]], table.arrow_schema.field("v").type)}))
    torch = pytest.importorskip("torch")
    (tensors,) = table.scan("v IS NOT NULL").to_torch()
    assert tensors["v"].tolist() == [[1.0, 2.0], [3.0, 4.0]] and tensors["v"].dtype == torch.float32


@pytest.mark.parametrize("file_format", FORMATS)
def test_another_length_in_a_file_is_an_error(tmp_path: Path, file_format: str) -> None:
    for values, why in ([[1.0, 2.0], [1.0]], "1 elements"), ([[1.0, 2.0], [1.0, None]], "is NULL"):
        path = tmp_path / why.replace(" ", "")
        table = pp.Table.create(path, "id INT, v ARRAY<FLOAT>", options={"file.format": file_format})
        table.append(pa.table({"id": [1, 2], "v": pa.array(values, pa.list_(pa.float32()))}))
        schema = json.loads((path / "schema" / "schema-0").read_text())
        schema["fields"][1]["type"] = {"type": "VECTOR", "element": "FLOAT", "length": 2}
        (path / "schema" / "schema-0").write_text(json.dumps(schema))
        hostile = pp.Table.open(path)
        assert hostile.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [1, 2]
        with pytest.raises(CorruptFileError, match=f"'v'.*{why}.*bucket-0"):
            hostile.scan().to_arrow()


def test_types_that_there_are_not(tmp_path: Path) -> None:
    for text in ("VECTOR", "VECTOR<FLOAT>", "VECTOR<STRING, 3>", "VECTOR<FLOAT, 0>", "VECTOR<FLOAT, 2147483648>"):
        with pytest.raises(SchemaError):
            parse_columns(f"v {text}")
    (field,) = parse_columns("v VECTOR<FLOAT NOT NULL, 3> NOT NULL")
    wanted = {"type": "VECTOR NOT NULL", "element": "FLOAT NOT NULL", "length": 3}
    assert type_to_json(field.type) == wanted
    table = pp.Table.create(tmp_path / "t", "v VECTOR<FLOAT, 2>")
    for other in ("VECTOR<FLOAT, 3>", "VECTOR<DOUBLE, 2>", "ARRAY<FLOAT>"):
        with pytest.raises(SchemaError, match="cannot be converted"):
            table.alter(change_types={"v": other})
    with pytest.raises(SchemaError):
        pp.Table.create(tmp_path / "k", "v VECTOR<FLOAT, 2>", primary_key=["v"])


def _vectors(size: int) -> st.SearchStrategy[list[list[bool] | None]]:
    return st.lists(st.none() | st.lists(st.booleans(), min_size=size, max_size=size), max_size=12)


@settings(max_examples=examples(9), deadline=None)
@given(st.integers(1, 4).flatmap(_vectors), st.data())
def test_lists_and_vectors(values: list[list[bool] | None], data: st.DataObject) -> None:
    size = next((len(value) for value in values if value is not None), 2)
    (field,) = parse_columns(f"v VECTOR<BOOLEAN, {size}>")
    start = data.draw(st.integers(0, len(values)))
    lists = pa.array(values, pa.list_(pa.bool_())).slice(start)
    vectors = vectors_of(lists, pa.list_(pa.bool_(), size))
    vectors.validate(full=True)
    assert vectors.to_pylist() == values[start:]
    stored = as_stored(vectors, field.type)
    stored.validate(full=True)
    assert stored.to_pylist() == values[start:]
    assert len(stored.values) == size * sum(value is not None for value in values[start:])


@pytest.mark.parametrize("peer", ["pypaimon", "pypaimon-rust"])
def test_peers_read_and_write_on(tmp_path: Path, peer: str) -> None:
    other = Rust(tmp_path) if peer == "pypaimon-rust" else Pypaimon(tmp_path)
    rows = [{"id": 1, "v": [1.0, 2.0, 3.0], "w": [1, 2]}, {"id": 2, "v": None, "w": None}]
    more = [{"id": 3, "v": [5.0, 6.0, 7.0], "w": [3, 4]}]
    for file_format in FORMATS:
        path = tmp_path / "db.db" / file_format
        columns = "id INT, v VECTOR<FLOAT, 3>, w VECTOR<BIGINT, 2>"
        table = pp.Table.create(path, columns, options={"file.format": file_format})
        table.append(pa.Table.from_pylist(rows, table.arrow_schema))
        assert other.read(file_format).to_pylist() == rows
        if peer == "pypaimon-rust" and file_format == "orc":
            continue  # it writes no vectors there
        other.append(file_format, pa.Table.from_pylist(more, table.arrow_schema))
        assert _by_id(pp.Table.open(path)) == rows + more
