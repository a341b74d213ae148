"""Verifying indexes against the data: what is right passes, and each way of being wrong has its name."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_type, parse_type
from paimon_pyds.errors import CorruptFileError, OptionError
from paimon_pyds.index.bloom import BloomReader
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec
from paimon_pyds.index.container import parse_head, write_container
from paimon_pyds.index.decode import bloom_difference, codes_in, decode_index
from paimon_pyds.index.dictionary import ColumnDictionary
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import INDEX_TYPES, key_codec, supports
from paimon_pyds.ops.index_tools.inspect import dump_container
from paimon_pyds.ops.index_tools.verify import VerifyReport
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import examples, sampled
from support.fixtures import DEV, requires_shared, table_path
from support.live_files import live_files
from support.progress import Seen
from support.strategies import ATOMS
from support.strategies import column as column_of

SCHEMA = pa.schema(
    [("id", pa.int64()), ("color", pa.string()), ("size", pa.int32()), ("m", pa.map_(pa.string(), pa.int32()))]
)
OPTIONS = {
    "file-index.bitmap.columns": "color,m[a]",
    "file-index.range-bitmap.columns": "id,color",
    "file-index.bsi.columns": "size",
    "file-index.bloom-filter.columns": "id",
    "file-index.bloom-filter.id.items": "600",
    "file-index.in-manifest-threshold": "1b",
}  # fmt: skip


def _rows(count: int = 500) -> pa.Table:
    return pa.table(
        {
            "id": [i * i for i in range(count)],
            "color": [None if i % 9 == 0 else f"c{i % 5}" for i in range(count)],
            "size": [None if i % 7 == 0 else i - 200 for i in range(count)],
            "m": [[("a", i % 3), ("b", i)] if i % 4 else None for i in range(count)],
        },
        schema=SCHEMA,
    )


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    table = pp.Table.create(tmp_path / "t", SCHEMA, options=OPTIONS)
    table.append(_rows())
    return table


def _side(table: pp.Table) -> Path:
    (file,) = live_files(table)[1]
    return Path(str(file.index_path))


pytestmark = pytest.mark.filterwarnings("ignore:the bsi index")


def _found(report: VerifyReport) -> list[tuple[str | None, str | None, str]]:
    return [(f.column, f.index_type, f.kind) for f in report.findings]


def _bodies(container: bytes) -> dict[str, dict[str, bytes | None]]:
    source = BytesSource(container)
    return {
        c: {k: source.read(r.start, r.length) for k, r in kinds.items()}
        for c, kinds in parse_head(source).columns.items()
    }


def _change(table: pp.Table, column: str, kind: str, change: Callable[[bytes], bytes | None]) -> None:
    """Put another body in the place of one index."""
    path = _side(table)
    bodies = _bodies(path.read_bytes())
    bodies[column][kind] = change(bodies[column][kind] or b"")
    path.write_bytes(write_container(bodies))


def _body(values: list[object], field: DataField, kind: str, options: dict[str, str] | None = None) -> bytes:
    builder = FileIndexBuilder([IndexSpec(field.name, None, kind, options or {})], [field])
    builder.update(pa.RecordBatch.from_arrays([pa.array(values, arrow_type(field.type))], names=[field.name]))
    data = builder.finish()
    assert data is not None
    (kinds,) = parse_head(BytesSource(data)).columns.values()
    (where,) = kinds.values()
    return data[where.start : where.start + where.length]


# ------------------------------------------------------------------------------------------------------ all is well


def test_what_was_written_is_what_the_data_says(table: pp.Table) -> None:
    seen = Seen()
    report = table.index.verify(progress=seen)
    assert (report.ok, report.findings) == (True, ())
    assert (report.files, report.indexes, report.rows) == (1, 6, 500)
    assert report.index_bytes > 1000
    assert seen.done("verifying") == 500


def _with_indexes() -> list[str]:
    schemas = [] if DEV is None else sorted(DEV.glob("*/table/db.db/t/schema/schema-0"))
    return [p.parents[4].name for p in schemas if "file-index." in p.read_text(encoding="utf-8")]


@requires_shared
@pytest.mark.parametrize("name", sampled(_with_indexes(), 6))
def test_java_s_indexes_are_what_the_data_says(name: str) -> None:
    """Row by row, of every type, in both versions, primary-key tables included."""
    report = pp.Table.open(table_path(name)).index.verify()
    assert report.ok, report.findings
    assert report.indexes > 0
    assert {f.kind for f in report.findings} <= {"unconfigured"}


@settings(max_examples=examples(12))
@given(st.data())
def test_every_index_of_every_type_reads_back(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(INDEX_TYPES))
    text = data.draw(st.sampled_from([t for t in ATOMS if supports(kind, parse_type(t))]))
    type_ = parse_type(text)
    values = data.draw(column_of(text, size=data.draw(st.integers(0, 50))))
    field = DataField(0, "c", type_)
    spec = IndexSpec("c", None, kind, {"items": "100"} if kind == "bloom-filter" else {})
    builder = FileIndexBuilder([spec], [field])
    builder.update(pa.RecordBatch.from_arrays([values], names=["c"]))
    container = builder.finish()
    assert (container is None) is bool(builder.left_out)
    if container is None:
        assert kind == "bsi" and pa.scalar(-(2**63)) in values  # the smallest BIGINT
        return
    reader = FileIndex.open(BytesSource(container)).reader("c", kind, type_)
    dictionary = ColumnDictionary(key_codec(type_))
    dictionary.update(values)
    column = dictionary.finish()
    if isinstance(reader, BloomReader):
        assert bloom_difference(reader, column) == (0, 0)
        return
    decoded = decode_index(reader, column.codec)  # type: ignore[arg-type]
    assert codes_in(decoded, column).tolist() == column.codes.tolist(), (kind, text)
    assert not len(decoded.doubled)


# ----------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(("column", "kind", "values", "detail"), [
    ("color", "bitmap", ["c1"] * 500, "rows would be lost"),
    ("color", "range-bitmap", [None] * 500, "rows would be lost"),
    ("id", "range-bitmap", list(range(500)), "498 of 500 rows have another value in the index, first row 2"),
    ("size", "bsi", [5] * 500, "rows would be lost"),
    ("m[a]", "bitmap", [1] * 500, "rows would be lost"),
    ("id", "bloom-filter", list(range(500)), "values are denied: rows would be lost"),
])  # fmt: skip
def test_an_index_of_other_values_is_stale(
    table: pp.Table, column: str, kind: str, values: list[object], detail: str
) -> None:
    fields = {f.name: f for f in table.schema.fields}
    field = fields["size"] if column == "m[a]" else fields[column]
    options = {"items": "600"} if kind == "bloom-filter" else {}
    _change(table, column, kind, lambda _: _body(values, field, kind, options))
    report = table.index.verify()
    assert not report.ok
    assert _found(report) == [(column, kind, "stale")]
    assert detail in report.findings[0].detail
    assert report.to_arrow().to_pylist()[0]["fault"] is True
    # and a rebuild puts it right
    assert table.index.build(rebuild=True).built == 6
    assert table.index.verify().ok


def test_a_filter_with_bits_of_other_values_is_stale_but_harmless(table: pp.Table) -> None:
    _change(table, "id", "bloom-filter", lambda body: body[:4] + b"\xff" * (len(body) - 4))
    (finding,) = table.index.verify().findings
    assert (finding.kind, "values that the file does not have" in finding.detail) == ("stale", True)


def test_a_row_under_two_values_is_stale(tmp_path: Path) -> None:
    """Written by hand: version 1, values a and b, rows {0, 1} and {1}."""
    table = pp.Table.create(tmp_path / "t", pa.schema([("c", pa.string())]), options={
        "file-index.bitmap.columns": "c", "file-index.in-manifest-threshold": "1b"})  # fmt: skip
    table.append(pa.table({"c": ["a", "b"]}))
    both = BitMap([0, 1]).serialize()
    entries = struct.pack(">i1si", 1, b"a", 0) + struct.pack(">i1si", 1, b"b", -2)
    _change(table, "c", "bitmap", lambda _: struct.pack(">Bii?", 1, 2, 2, False) + entries + both)
    (finding,) = table.index.verify().findings
    assert (finding.kind, finding.detail) == ("stale", "1 rows have several values in the index")


@pytest.mark.parametrize(("column", "kind"), [("color", "bitmap"), ("id", "range-bitmap"), ("size", "bsi")])
def test_an_index_of_another_number_of_rows(table: pp.Table, column: str, kind: str) -> None:
    field = next(f for f in table.schema.fields if f.name == column)
    values = _rows(400).column(column).to_pylist()
    _change(table, column, kind, lambda _: _body(values, field, kind))
    (finding,) = table.index.verify().findings
    assert (finding.kind, finding.detail) == ("row-count", "the index is of 400 rows, the file has 500")


def test_empty_is_right_for_no_value_only(table: pp.Table) -> None:
    _change(table, "size", "bsi", lambda _: None)
    (finding,) = table.index.verify().findings
    assert (finding.kind, "marked as empty" in finding.detail) == ("stale", True)


def test_bodies_that_cannot_be_read_are_corrupt(table: pp.Table) -> None:
    rng = random.Random(3)
    good = write_container(_bodies(_side(table).read_bytes()))  # as Java writes it, without checksums
    kinds: set[str] = set()
    for _ in range(150):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        _side(table).write_bytes(bytes(data))
        report = table.index.verify()
        assert report.findings, "every bit matters to somebody"
        kinds |= {f.kind for f in report.findings}
    assert {"corrupt", "stale"} <= kinds <= {"corrupt", "stale", "row-count", "missing", "unconfigured", "unknown"}


def test_what_is_not_there(table: pp.Table) -> None:
    table.alter({"file-index.bitmap.columns": "color,m[a],size", "file-index.bloom-filter.columns": "id,color"})
    report = table.index.verify()
    assert not report.ok
    assert sorted(_found(report)) == [("color", "bloom-filter", "missing"), ("size", "bitmap", "missing")]  # type: ignore[type-var]
    table.alter({"file-index.bitmap.columns": "color"}, [k for k in OPTIONS if "bloom" in k])
    report = table.index.verify()
    assert report.ok, "an index too many harms nobody"
    assert sorted(_found(report)) == [("id", "bloom-filter", "unconfigured"), ("m[a]", "bitmap", "unconfigured")]  # type: ignore[type-var]
    _side(table).unlink()
    assert _found(table.index.verify()) == [(None, None, "missing")]


def test_a_file_without_any_index(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA)
    table.append(_rows(10))
    assert table.index.verify().ok
    table.alter({"file-index.bitmap.columns": "color"})
    assert _found(table.index.verify()) == [("color", "bitmap", "missing")]


def test_a_data_file_that_cannot_be_read(table: pp.Table) -> None:
    (path,) = Path(table.path).rglob("*.parquet")
    path.write_bytes(b"\0" * path.stat().st_size)
    report = table.index.verify()
    assert (_found(report), report.ok) == ([(None, None, "data")], False)
    path.unlink()
    assert _found(table.index.verify()) == [(None, None, "data")]


def test_partitions(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA, partition_by=["color"])
    table.append(_rows(20))
    table.alter({"file-index.bitmap.columns": "size"})
    assert table.index.verify("color = 'c1'").files == 1
    with pytest.raises(OptionError, match="index verify takes conditions on partition columns only, not on size"):
        table.index.verify("size = 1")


# ------------------------------------------------------------------------------------------------------------- dump


def test_a_container_is_told_index_by_index(table: pp.Table) -> None:
    found = {(d.column, d.index_type): d for d in table.index.dump()}
    assert set(found) == {
        ("color", "bitmap"), ("m[a]", "bitmap"), ("id", "range-bitmap"), ("color", "range-bitmap"), ("size", "bsi"),
        ("id", "bloom-filter"),
    }  # fmt: skip
    assert found["color", "bitmap"].facts == {"version": 2, "rows": 500, "values": 5, "has_null": True}
    range_bitmap = found["id", "range-bitmap"].facts
    assert (range_bitmap["rows"], range_bitmap["values"]) == (500, 500)
    assert found["size", "bsi"].facts == {"rows": 500, "slices": 17, "highest": 299, "lowest": -199}
    bloom = found["id", "bloom-filter"].facts
    assert bloom["hash_functions"] == 3
    assert 0.2 < bloom["filled"] < 0.6
    assert bloom["false_positives"] == pytest.approx(bloom["filled"] ** 3, abs=1e-3)
    path = _side(table)
    assert dump_container(path.read_bytes(), str(path)) == list(found.values())
    assert sum(d.size for d in found.values()) < path.stat().st_size


def test_a_container_that_cannot_be_read_hides_no_other(table: pp.Table) -> None:
    table.append(_rows(100))
    first, second = sorted(table.system.read("file_indexes").column("index_file_path").unique().to_pylist())
    whole = table.index.dump()
    for spoil, told in (
        (lambda p: p.write_bytes(b"PAR1" * 10), "not a file-index container"),
        (Path.unlink, "is gone"),
    ):
        spoil(Path(first))
        found = table.index.dump()
        assert [d for d in found if d.container == second] == [d for d in whole if d.container == second]
        (spoiled,) = [d for d in found if d.container == first]
        assert (spoiled.column, spoiled.index_type, spoiled.start, spoiled.size) == ("", "", -1, 0)
        assert told in spoiled.facts["error"] and "index build" in spoiled.facts["error"]


def test_damage_stands_with_its_index(table: pp.Table) -> None:
    _change(table, "size", "bsi", lambda _: b"\x01\x00")
    _change(table, "color", "bitmap", lambda _: None)
    found = {(d.column, d.index_type): d for d in table.index.dump()}
    assert "too few" in found["size", "bsi"].facts["error"]
    assert (found["color", "bitmap"].start, found["color", "bitmap"].size, found["color", "bitmap"].facts) == (
        -1,
        0,
        {},
    )
    with pytest.raises(CorruptFileError, match="container"):
        dump_container(b"PAR1" * 10, "x.parquet")


@requires_shared
def test_embedded_containers_are_named_by_their_data_file(tmp_path: Path) -> None:
    shutil.copytree(table_path("append_bitmap_v1_embedded"), tmp_path / "t")
    dumps = pp.Table.open(tmp_path / "t").index.dump()
    assert {d.storage for d in dumps} == {"EMBEDDED"}
    assert all(d.container.endswith(".parquet") for d in dumps)
    assert {d.facts["version"] for d in dumps} == {1}
