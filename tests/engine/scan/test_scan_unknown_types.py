"""Columns of types that this version does not know: they alone can't be read or written, and are refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError, PredicateError, SchemaError, UnsupportedError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.schema import parse_schema, schema_to_json
from paimon_pyds.ops.system.tables import SYSTEM_TABLES

_SCHEMA = pa.schema([
    pa.field("p", pa.int32(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("g", pa.binary()),
    ("s", pa.string()), ("r", pa.struct([("x", pa.int32()), ("y", pa.binary())])),
])  # fmt: skip
_KNOWN = ["p", "id", "s"]
_TYPES: list[Any] = [
    "GEOMETRY", "GEOMETRY(OGC:CRS84)", "GEOMETRY('OGC:CRS84') NOT NULL", {"type": "GEOMETRY NOT NULL", "crs": "x"},
    {"type": "GEOMETRY", "inside": {"type": "INT"}},
]  # fmt: skip


def _table(path: Path, key: list[str] | None, type_: Any = "GEOMETRY(OGC:CRS84)") -> pp.Table:
    """A table whose columns ``g`` and ``r.y`` have such types, with 30 rows in two partitions."""
    options = {"bucket": "1"} if key else {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "s"}
    table = pp.Table.create(path, _SCHEMA, primary_key=key, partition_by=["p"], options=options)
    for number in range(3):
        ids = range(10 * number, 10 * number + 10)
        rows = [{"p": i % 2, "id": i, "g": b"point", "s": f"s{i % 3}", "r": {"x": i, "y": b"line"}} for i in ids]
        table.append(pa.Table.from_pylist(rows, _SCHEMA))
    table.tags.create("x")
    file = path / "schema" / "schema-0"
    schema = json.loads(file.read_text())
    schema["fields"][2]["type"] = type_
    schema["fields"][4]["type"]["fields"][1]["type"] = "GEOGRAPHY"
    file.write_text(json.dumps(schema))
    METADATA_CACHE.clear()  # files never change, but here
    return pp.Table.open(path)


@pytest.fixture(params=[None, ["p", "id"]], ids=["append", "key"])
def key(request: pytest.FixtureRequest) -> list[str] | None:
    found: list[str] | None = request.param
    return found


@pytest.mark.parametrize("type_", _TYPES, ids=str)
def test_the_other_columns_are_read(tmp_path: Path, type_: Any) -> None:
    table = _table(tmp_path / "t", None, type_)
    assert table.scan("id > 5 AND s = 's1'", columns=_KNOWN).to_arrow().num_rows == 8
    file = tmp_path / "t" / "schema" / "schema-0"
    written = json.loads(schema_to_json(parse_schema(file.read_bytes(), str(file))))
    assert written == json.loads(file.read_text())
    assert "GEOMETRY" in str(table.schema.fields[2].type)


def test_the_table_is_answered_and_looked_after(tmp_path: Path, key: list[str] | None) -> None:
    table = _table(tmp_path / "t", key)
    assert "g GEOMETRY(OGC:CRS84)" in repr(table.schema)
    assert (table.count(), table.count("s = 's1' AND id > 5"), table.exists("id = 7")) == (30, 8, True)
    assert (table.min("id"), table.max("s")) == (0, "s2")
    assert table.distinct("p").num_rows == 2
    assert table.top_n("id desc, 2", columns=_KNOWN)["id"].to_pylist() == [29, 28]
    assert table.explain("id > 5", columns=["id"], analyze=True).to_arrow()["rows"][-1].as_py() == 24
    for name in SYSTEM_TABLES:
        assert table.system.read(name).num_columns
    assert not table.maintenance.verify(deep=True).findings
    assert table.maintenance.analyze() is not None
    table.maintenance.compact_manifests()
    table.tags.create("y", 2)
    table.branches.create("b", "x")
    assert pp.Table.open(table.path, branch="b").scan(columns=_KNOWN).to_arrow().num_rows == 30
    table.maintenance.clone(tmp_path / "copy")
    assert pp.Table.open(tmp_path / "copy").count() == 30
    table.maintenance.drop_partitions([{"p": 1}])
    assert table.count() == 15
    table.snapshots.expire(retain_max=1)
    table.maintenance.remove_orphan_files("0 s", dry_run=False)
    table.snapshots.rollback("x")
    assert table.scan(columns=["id"]).to_arrow().num_rows == 30
    table.truncate()
    assert table.count() == 0
    table.maintenance.purge("t", named_states=True)


def test_it_is_altered_beside_such_columns(tmp_path: Path, key: list[str] | None) -> None:
    table = _table(tmp_path / "t", key)
    before = [str(field.type) for field in table.schema.fields if field.name in ("g", "r")]
    table.alter({"snapshot.num-retained.min": "2"}, add_columns={"w": "INT"}, rename_columns={"s": "text"})
    table.alter(rename_columns={"g": "place"}, column_comments={"place": "of the shop"})
    assert [str(field.type) for field in table.schema.fields if field.name in ("place", "r")] == before
    assert table.count("text = 's1' AND w IS NULL") == 10
    with pytest.raises(SchemaError):
        table.alter(change_types={"place": "BYTES"})
    with pytest.raises(SchemaError):
        table.alter(add_columns={"other": "GEOMETRY"})
    table.alter(drop_columns=["place", "r"])
    assert table.scan().to_arrow().num_rows == 30
    table.append([{"p": 0, "id": 100, "text": "x", "w": 1}])
    table.compact(full=True)
    assert table.count() == 31


def test_rows_are_deleted_where_no_file_is_written_again(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", None)
    assert table.delete("s = 's1' AND id > 5").rows_deleted == 8
    assert table.delete("p = 1").rows_deleted == 11
    left = table.scan(columns=_KNOWN).to_arrow()["id"].to_pylist()
    assert sorted(left) == [i for i in range(0, 30, 2) if i % 3 != 1 or i <= 5]
    assert table.delete(matching=[{"id": left[0]}]).rows_deleted == 1
    with pytest.raises(UnsupportedError, match="column g of type GEOMETRY"):  # its file would be written again
        table.delete(f"id = {left[1]}", options={"deletion-vectors.enabled": "false"})
    assert table.delete(f"p = 0 AND id <> {left[1]}", options={"deletion-vectors.enabled": "true"}).rows_deleted
    assert table.count() == 1
    assert not table.maintenance.verify(deep=True).findings


_REFUSED: dict[str, Callable[[pp.Table], Any]] = {
    "read": lambda t: t.scan().to_arrow(), "named": lambda t: t.scan(columns=["g"]).to_arrow(),
    "explain": lambda t: t.explain("id > 3"), "schema": lambda t: t.arrow_schema,
    "sorted": lambda t: t.top_n("g, 3", columns=["id"]), "min": lambda t: t.min("g"),
    "update": lambda t: t.update({"id": "id + 1"}),
    "append": lambda t: t.append([{"p": 1, "id": 1}]), "compact": lambda t: t.compact(full=True),
    "indexes": lambda t: t.index.build(), "filter": lambda t: t.count("g = X'00'"),
    "delete by rewriting": lambda t: t.delete("id = 1", options={"deletion-vectors.enabled": "false"}),
    "merge": lambda t: t.merge([{"id": 1, "s": "x"}], "id", when_matched=pp.Update({"s": "source.s"})),
    "delete by merge": lambda t: t.merge([{"id": 1}], "id", when_matched="delete"),
    "computed": lambda t: t.count("length(g) > 3"),
}  # fmt: skip


@pytest.mark.parametrize("ask", _REFUSED.values(), ids=_REFUSED)
def test_what_needs_its_values_is_refused_by_name(
    tmp_path: Path, key: list[str] | None, ask: Callable[[pp.Table], Any]
) -> None:
    table = _table(tmp_path / "t", key)
    with pytest.raises((UnsupportedError, PredicateError), match=r"GEOMETRY"):
        ask(table)
    for inside in (lambda: table.scan(columns=["r"]).to_arrow(), lambda: table.count("r.x > 3")):
        with pytest.raises((UnsupportedError, PredicateError), match=r"\br\b.*GEOGRAPHY"):
            inside()
    assert table.count() == 30


@pytest.mark.parametrize("type_", ["", "geo metry", "GEO<METRY>", "(", {"type": ["GEOMETRY"]}, 7, "X" * 1_001])
def test_what_is_no_type_is_corrupt(tmp_path: Path, type_: Any) -> None:
    with pytest.raises(CorruptFileError):
        _table(tmp_path / "t", None, type_)
