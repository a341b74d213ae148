"""Index files of tables that Java Paimon wrote: evaluated as Java evaluates them, and rebuilt from the data files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.types import DataField, DataType, MapType, arrow_schema
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec, parse_index_specs
from paimon_pyds.index.container import parse_head
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import sampled
from support.file_indexes import agrees, positions, predicate, same_answers
from support.fixtures import DEV, json_lines, meta, table_fields, table_path
from support.java_quirks import is_coarse, is_java_bug, tells_zeros_apart

pytestmark = pytest.mark.skipif(DEV is None, reason="needs tables written by Java Paimon")


def _with_index_answers() -> list[str]:
    return [] if DEV is None else [p.name for p in sorted(DEV.iterdir()) if p.is_dir() and meta(p.name).get("index")]


def _with_indexes() -> list[str]:
    if DEV is None:
        return []
    schemas = sorted(DEV.glob("*/table/db.db/t/schema/schema-0"))
    return [p.parents[4].name for p in schemas if "file-index." in p.read_text(encoding="utf-8")]


def place_types(fields: tuple[DataField, ...], names: set[str]) -> dict[str, DataType]:
    """Types of columns, and of map keys written as ``m[k]``."""
    types = {f.name: f.type for f in fields}
    for name in names:
        outer, bracket, _ = name.partition("[")
        if bracket:
            map_type = types[outer]
            assert isinstance(map_type, MapType)
            types[name] = map_type.value
    return types


def names_in(json_predicate: dict[str, Any]) -> set[str]:
    if "args" in json_predicate:
        return set().union(*(names_in(child) for child in json_predicate["args"]))
    return {json_predicate["field"]}


def row_counts(name: str) -> dict[str, int]:
    """Rows of each data file, as Java lists them."""
    counts = {}
    for listing in sorted((DEV / name / "expected").glob("files*")):  # type: ignore[operator]
        for file in json_lines(listing):
            if "rowCount" in file:
                counts[file["fileName"]] = file["rowCount"]
    return counts


@pytest.mark.parametrize("name", sampled(_with_index_answers(), 4))
def test_side_files_are_evaluated_as_java_does(name: str) -> None:
    about = meta(name)
    fields = table_fields(table_path(name))
    predicates = about["index_predicates"]
    types = place_types(fields, set().union(*(names_in(p) for p in predicates)))
    counts = row_counts(name)
    asked = 0
    for entry in about["index"]:
        path = DEV / name / entry["file"]  # type: ignore[operator]
        index = FileIndex.open(BytesSource(path.read_bytes(), str(path)))
        rows = counts.get(path.name.removesuffix(".index")) or pq.read_metadata(path.with_suffix("")).num_rows
        for java_predicate, java in zip(predicates, json_lines(DEV / name / entry["expected"]), strict=True):  # type: ignore[operator]
            bound = predicate(java_predicate, types)
            wide = index.evaluate(bound, rows, extended=False).selection
            tight = index.evaluate(bound, rows).selection
            assert positions(tight, rows) <= positions(wide, rows)
            if tells_zeros_apart(java_predicate, types) or is_coarse(java_predicate, types):
                continue
            all_null = wide.is_all or len(positions(wide, rows)) == rows
            if all_null and is_java_bug(java_predicate, java, rows):
                continue
            asked += 1
            assert agrees(wide, java), (path.name, java_predicate)
    assert asked


class TableFile:
    """One data file of a fixture, with its index container."""

    def __init__(self, table: Path, entry: dict[str, Any]) -> None:
        file = entry["_FILE"]
        self.name = file["_FILE_NAME"]
        found = sorted(table.rglob(self.name))
        self.path = found[0] if found else None
        self.rows = file["_ROW_COUNT"]
        self.fields = table_fields(table, file["_SCHEMA_ID"])
        text = (table / "schema" / f"schema-{file['_SCHEMA_ID']}").read_text(encoding="utf-8")
        self.options = json.loads(text)["options"]
        self.container = file["_EMBEDDED_FILE_INDEX"]
        sides = [extra for extra in file["_EXTRA_FILES"] if extra.endswith(".index")]
        if self.path is not None and sides:
            self.container = (self.path.parent / sides[0]).read_bytes()

    def data(self) -> pa.Table:
        """The rows, without timestamps that nanoseconds of 64 bits can't hold."""
        fine = [f.name for f in self.fields if getattr(f.type, "precision", 0) == 9]
        table = pq.read_table(self.path, columns=[f.name for f in self.fields])
        micros = pq.read_table(self.path, columns=fine, coerce_int96_timestamp_unit="us")
        overflown = {name for name in fine if _micros(table[name]) != _micros(micros[name])}
        fields = [f for f in self.fields if f.name not in overflown]
        return table.select([f.name for f in fields]).cast(arrow_schema(fields)).combine_chunks()


def _micros(column: pa.ChunkedArray) -> list[int | None]:
    per_micro = 1000 if column.type.unit == "ns" else 1
    return [None if value is None else value // per_micro for value in column.cast(pa.int64()).to_pylist()]


def data_files(name: str) -> Iterator[TableFile]:
    """Every Parquet file with an index that a manifest of the fixture adds, and that is still there."""
    import fastavro

    table = table_path(name)
    seen = set()
    for manifest in sorted((table / "manifest").glob("manifest-[0-9a-f]*")):
        if "list" in manifest.name:
            continue
        with manifest.open("rb") as stream:
            for entry in fastavro.reader(stream):
                file = TableFile(table, entry)
                usable = file.path is not None and file.name.endswith(".parquet") and file.container is not None
                if entry["_KIND"] == 0 and usable and file.name not in seen:
                    seen.add(file.name)
                    yield file


@pytest.mark.parametrize("name", sampled(_with_indexes(), 6))
def test_containers_rebuilt_from_the_data_files_are_those_of_java(name: str) -> None:
    rebuilt = 0
    for file in data_files(name):
        data = file.data()
        fields = tuple(f for f in file.fields if f.name in data.schema.names)
        specs = [s for s in parse_index_specs(file.options, file.fields) if s.column in data.schema.names]
        builder = FileIndexBuilder(specs, fields)
        for batch in data.to_batches(max_chunksize=13):
            builder.update(batch)
        ours = builder.finish()
        if ours is None:
            continue
        _compare(ours, file.container, specs, fields)
        rebuilt += 1
    if name in ("append_avro", "append_orc") or not list(data_files(name)):
        pytest.skip("no Parquet files with an index")
    assert rebuilt


def _compare(ours: bytes, theirs: bytes, specs: list[IndexSpec], fields: tuple[DataField, ...]) -> None:
    types = place_types(fields, {s.container_name for s in specs})
    heads = [parse_head(BytesSource(data)) for data in (ours, theirs)]
    for spec in specs:
        ranges = [head.columns[spec.container_name][spec.index_type] for head in heads]
        if ranges[1].is_empty:
            continue
        mine, other = (d[r.start : r.start + r.length] for d, r in zip((ours, theirs), ranges, strict=True))
        if spec.index_type == "bitmap":  # Java writes bitmaps in the order of a hash map
            assert len(mine) == len(other)
            assert same_answers(mine, other, types[spec.container_name])
        else:
            assert mine == other, spec


@pytest.mark.parametrize("name", sampled(_with_index_answers(), 4))
def test_what_indexes_keep_holds_what_matches(name: str) -> None:
    about = meta(name)
    asked = 0
    for file in data_files(name):
        data = file.data()
        types = {f.name: f.type for f in file.fields if f.name in data.schema.names}
        index = FileIndex.open(BytesSource(file.container))
        for java_predicate in about["index_predicates"]:
            if not names_in(java_predicate) <= types.keys():
                continue
            bound = predicate(java_predicate, types)
            exact = {i for i, kept in enumerate(matches(bound, data.to_batches()[0]).to_pylist()) if kept}
            found = index.evaluate(bound, file.rows)
            kept = positions(found.selection, file.rows)
            assert exact <= kept, (file.name, java_predicate)
            assert not found.exact or exact == kept, (file.name, java_predicate)
            asked += 1
    if not asked:
        pytest.skip("no Parquet files whose indexed columns Arrow reads")
