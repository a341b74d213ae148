"""Java Paimon and pypaimon-rust on tables whose indexes were rewritten here: the same rows, and Java's own answers."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.execution.live_files import index_source, live_of
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.sql.predicate.bind import bind
from support.effort import sampled
from support.fixtures import requires_shared, table_path
from support.live_files import live_files
from support.oracle import Oracle
from support.oracle_filters import from_oracle
from support.values import lines

SCHEMA = pa.schema([("id", pa.int64()), ("color", pa.string()), ("size", pa.int32()), ("price", pa.decimal128(9, 2))])
INDEXES = {
    "file-index.bitmap.columns": "hue,size",
    "file-index.range-bitmap.columns": "size,price",
    "file-index.bloom-filter.columns": "id",
    "file-index.bloom-filter.id.items": "500",
    "file-index.in-manifest-threshold": "1b",
}
SIDE = {"file-index.in-manifest-threshold": "1b"}


def _wide(number: int) -> int:
    """32 bits far from their neighbours': Java 1.4 misreads packed differences (apache/paimon pull request 9137)."""
    return number * 2_654_435_761 % (1 << 32) - (1 << 31)


def _columns(ids: range) -> list[pa.Array]:
    colors = [None if i % 11 == 0 else ("red", "green", "blue")[i % 3] for i in ids]
    prices = [None if i % 13 == 0 else Decimal(_wide(i) // 4) / 100 for i in ids]
    columns = [[_wide(i) << 31 for i in ids], colors, [_wide(i) for i in ids], prices]
    return [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]


FILTERS: list[dict[str, Any]] = [
    {"op": "eq", "field": "hue", "literals": ["red"]},
    {"op": "isnull", "field": "hue", "literals": []},
    {"op": "in", "field": "hue", "literals": ["red", "none", "blue"]},
    {"op": "between", "field": "size", "literals": [-1_000_000_000, 50_000_000]},
    {"op": "ge", "field": "price", "literals": ["-1200000.50"]},
    {"op": "isnull", "field": "price", "literals": []},
    {"op": "eq", "field": "id", "literals": [_wide(17) << 31]},
    {"op": "eq", "field": "id", "literals": [-5]},
    {"op": "eq", "field": "size", "literals": [_wide(900)]},
    {"op": "and", "args": [
        {"op": "eq", "field": "hue", "literals": ["green"]}, {"op": "lt", "field": "size", "literals": [0]}]},
    {"op": "or", "args": [
        {"op": "eq", "field": "size", "literals": [_wide(7)]},
        {"op": "gt", "field": "price", "literals": ["5300000"]}]},
]  # fmt: skip


def _evolved(path: Path) -> pp.Table:
    """Files of two schemas, indexed in one go."""
    table = pp.Table.create(path, SCHEMA)
    for first in (0, 250):
        table.append(pa.table(_columns(range(first, first + 250)), schema=SCHEMA))
    table.alter(rename_columns={"color": "hue"}, change_types={"size": "BIGINT"})
    table.append(pa.table(_columns(range(900, 901)), names=["id", "hue", "size", "price"]))
    table.alter(INDEXES)
    summary = table.index.build()
    assert (summary.rewritten, summary.built) == (3, 15)
    return table


def test_java_and_rust_read_what_was_rewritten(oracle: Oracle, tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    table = _evolved(warehouse / "db.db" / "t")
    spec, files = live_files(table)
    with oracle.batch() as batch:
        whole = batch.read(warehouse, "db.t")
        pushed = [batch.read(warehouse, "db.t", filter=f) for f in FILTERS]
        plain = [batch.read(warehouse, "db.t", filter=f, pushdown=False) for f in FILTERS]
        # Java evaluates each container under its file's own schema.
        asked = [[_in_file(f, {c.name for c in spec.fields_of(file)}) for f in FILTERS] for file in files]
        answers = [
            batch.index_eval(Path(str(file.index_path)), spec.fields_of(file), filters, file.row_count)
            for file, filters in zip(files, asked, strict=True)
        ]
    rows = table.scan().to_arrow()
    assert whole.lines == lines(rows)
    assert [r.lines for r in pushed] == [r.lines for r in plain]
    for f, reply in zip(FILTERS, plain, strict=True):
        assert lines(table.scan(from_oracle(f, table.schema.fields)).to_arrow()) == reply.lines, f
    compared = 0
    for file, filters, reply in zip(files, asked, answers, strict=True):
        source = index_source(table._store.io, file)
        assert source is not None
        index = FileIndex.open(source)
        for f, java in zip(filters, reply.values, strict=True):
            predicate = bind(from_oracle(f, spec.fields_of(file)), spec.fields_of(file))
            ours = index.evaluate(predicate, file.row_count, extended=False).selection
            positions = "REMAIN" if ours.is_all else ours.to_array(file.row_count).tolist()
            assert positions == ([] if java == "SKIP" else java), (file.name, f)
            compared += 1
    assert compared == len(files) * len(FILTERS)
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="needs pypaimon-rust")
    builder = datafusion.PaimonCatalog({"warehouse": str(warehouse)}).get_table("db.t").new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    assert lines(pa.Table.from_batches(batches).cast(rows.schema)) == lines(rows)


def _in_file(filter_: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """A filter under the file's column names: `hue` was `color` once."""
    if "args" in filter_:
        return {**filter_, "args": [_in_file(child, names) for child in filter_["args"]]}
    return {**filter_, "field": "color"} if filter_["field"] == "hue" and "hue" not in names else filter_


@requires_shared
def test_java_goes_on_with_tables_that_were_rewritten(oracle: Oracle, tmp_path: Path) -> None:
    """Java reads, appends, compacts and expires on top of such a snapshot: nothing is lost, deleted rows stay so."""
    names = ("append_dv32_part", "append_bucketed", "row_tracking", "append_range_side")
    tables = {}
    for name in names:
        shutil.copytree(table_path(name).parents[1], tmp_path / name)
        table = tables[name] = pp.Table.open(tmp_path / name / "db.db" / "t")
        column = table.schema.fields[0].name
        table.alter({"file-index.bitmap.columns": column})
        table.index.build()
        table.alter(unset_options=["file-index.bitmap.columns"])
        table.index.build()
        table.alter({"file-index.bitmap.columns": column})
        assert table.index.build().snapshot_id is not None
    expected = {name: lines(table.scan().to_arrow()) for name, table in tables.items()}
    first = {name: table.scan(limit=1).to_arrow().to_pylist() for name, table in tables.items()}
    with oracle.batch() as batch:
        reads = {name: batch.read(tmp_path / name, "db.t") for name in names}
        for name in names:
            filter_ = {"op": "eq", "field": "id", "literals": [first[name][0]["id"]]}
            reads[f"{name} filtered"] = batch.read(tmp_path / name, "db.t", filter=filter_)
            batch.compact(tmp_path / name, "db.t")
            batch.expire(tmp_path / name, "db.t", 1)
            reads[f"{name} later"] = batch.read(tmp_path / name, "db.t")
    for name, table in tables.items():
        assert reads[name].lines == expected[name] == reads[f"{name} later"].lines, name
        assert set(reads[f"{name} filtered"].lines) <= set(expected[name])
        assert len(reads[f"{name} filtered"].lines) == table.count(f"id = {first[name][0]['id']}") > 0
        assert lines(table.scan().to_arrow()) == expected[name], name


_KEYED = pa.schema([pa.field("id", pa.int32(), False), ("color", pa.string()), ("size", pa.int64())])
_OTHER = {"file-index.bitmap.columns": "color,id", "file-index.range-bitmap.columns": "size"}


def _keyed(ids: range, add: int, kind: str = "+I") -> pa.Table:
    colors = [("red", "green", "blue")[(i + add) % 3] for i in ids]
    table = pa.table([ids, colors, [_wide(i + add) for i in ids]], schema=_KEYED)
    return table.append_column("kind", pa.array([kind] * len(ids)))


@pytest.mark.parametrize(
    "options", sampled([{}, {"deletion-vectors.enabled": "true"}, {"data-file.thin-mode": "true"}], 1)
)
@pytest.mark.parametrize("side", [{}, SIDE])
def test_java_reads_merges_and_compacts_key_tables_whose_indexes_were_rewritten(
    oracle: Oracle, tmp_path: Path, options: dict[str, str], side: dict[str, str]
) -> None:
    warehouse = tmp_path / "w"
    given = {"bucket": "1", "write-only": "true", "file-index.bloom-filter.columns": "color", **options, **side}
    table = pp.Table.create(warehouse / "db.db" / "t", _KEYED, primary_key=["id"], options=given)
    kinds = {"rowkind-column": "kind"}
    table.append(_keyed(range(600), 0), options=kinds)
    table.compact(full=True)
    table.append(_keyed(range(100, 300), 1), options=kinds)
    table.compact(options={"compaction.size-ratio": "0", "compaction.force-up-level-0": "true"})
    table.append(_keyed(range(200, 250), 0, "-D"), options=kinds)
    table.append(_keyed(range(220, 230), 2), options=kinds)
    before = {row["file_name"]: row for row in live_of(table._store, table.snapshots.latest()).to_pylist()}
    assert len({row["level"] for row in before.values()}) == 3
    rows = lines(table.scan().to_arrow())
    table.alter(_OTHER, ["file-index.bloom-filter.columns"])
    summary = table.index.build()
    assert (summary.rewritten, summary.built, summary.dropped) == (4, 12, 4)
    assert table.index.build().snapshot_id is None
    after = {row["file_name"]: row for row in live_of(table._store, table.snapshots.latest()).to_pylist()}
    indexes = {"extra_files": [], "embedded_index": None}
    assert {name: row | indexes for name, row in after.items()} == {n: row | indexes for n, row in before.items()}
    filters = [
        {"op": "eq", "field": "color", "literals": ["red"]},
        {"op": "eq", "field": "id", "literals": [225]},
        {"op": "ge", "field": "size", "literals": [0]},
    ]

    def compare() -> None:
        with oracle.batch() as batch:
            found = [batch.read(warehouse, "db.t", filter=one) for one in filters]
            everything = batch.read(warehouse, "db.t")
        assert sorted(everything.lines) == sorted(lines(table.scan().to_arrow())) == sorted(rows)
        for one, reply in zip(filters, found, strict=True):
            assert sorted(lines(table.scan(from_oracle(one, table.schema.fields)).to_arrow())) == sorted(reply.lines)

    if "deletion-vectors.enabled" in options:
        assert sorted(lines(table.scan().to_arrow())) == sorted(rows)
        table.compact()
        rows = lines(table.scan().to_arrow())
    compare()
    with oracle.batch() as batch:
        batch.add("compact", warehouse, "db.t", "--option", "write-only=false")
    compare()
    assert {row["level"] for row in live_of(table._store, table.snapshots.latest()).to_pylist()} == {5}
