"""Every manifest, manifest list and index manifest that Java wrote, against fastavro's reading of it."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from paimon_pyds.format.avro.container import read_container
from paimon_pyds.metadata import manifest_codec, manifest_records
from paimon_pyds.metadata.manifest import ENTRY, ENTRY_PATHS, ENTRY_SCHEMA, INDEX_ENTRY, MANIFEST_FILE
from paimon_pyds.metadata.manifest_codec import decode_manifest, encode_manifest, entries_to_batch
from paimon_pyds.metadata.record_codec import (
    decode_index_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest_list,
)
from support.fixtures import DEV, has_shared
from support.manifests import entry_at

pytestmark = pytest.mark.skipif(DEV is None, reason="needs tables written by Java Paimon")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def files(prefix: str) -> list[Path]:
    assert DEV is not None
    return sorted(path for path in DEV.glob("*/table/**/manifest/*") if path.name.startswith(prefix))


def manifests() -> list[Path]:
    return [path for path in files("manifest-") if not path.name.startswith("manifest-list-")]


def generic(data: bytes) -> list[dict[str, Any]]:
    """The records as fastavro reads them. Its snappy needs another package, so those blocks are unpacked here."""
    if b"avro.codec\x0csnappy" not in data[:4000]:
        return list(fastavro.reader(io.BytesIO(data)))  # type: ignore[arg-type]
    container = read_container(data)
    start = data.index(b"avro.schema") + len("avro.schema")
    length = fastavro.schemaless_reader(io.BytesIO(data[start:]), "long", None)
    body = io.BytesIO(data[start:])
    fastavro.schemaless_reader(body, "long", None)
    schema = fastavro.parse_schema(json.loads(body.read(length)))
    records = []
    for count, block in zip(container.counts, container.blocks, strict=True):
        stream = io.BytesIO(block)
        records += [fastavro.schemaless_reader(stream, schema, None) for _ in range(count)]
    return records


def entry_columns(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Columns of ENTRY_SCHEMA from fastavro's records."""
    columns: dict[str, list[Any]] = {}
    for name, place in ENTRY_PATHS.items():
        values: list[Any] = records
        for step in place.split("."):
            values = [value[step] for value in values]
        if name == "creation_time":
            values = [None if v is None else round((v - _EPOCH).total_seconds() * 1000) for v in values]
        columns[name] = values
    columns["unknown"] = [None] * len(records)
    return columns


def java_schemas(paths: list[Path]) -> set[str]:
    return {fastavro.reader(path.open("rb")).metadata["avro.schema"] for path in paths}  # type: ignore[attr-defined]


@pytest.mark.parametrize("one_by_one", [0, 10**9], ids=["at once", "one by one"])
def test_manifests(monkeypatch: pytest.MonkeyPatch, one_by_one: int) -> None:
    monkeypatch.setattr(manifest_codec, "ONE_BY_ONE_RECORDS", one_by_one)
    used = 0
    original = manifest_records.walk_manifest

    def spy(*args: Any) -> Any:
        nonlocal used
        walk = original(*args)
        used += walk is not None
        return walk

    monkeypatch.setattr(manifest_records, "walk_manifest", spy)
    paths = manifests()
    assert len(paths) > (300 if has_shared() else 20)
    for path in paths:
        data = path.read_bytes()
        batch = decode_manifest(data, str(path))
        assert batch.schema.equals(ENTRY_SCHEMA)
        batch.validate(full=True)
        assert batch.to_pydict() == entry_columns(generic(data)), path
    assert used == (len(paths) if one_by_one == 0 else 0)


def test_manifest_lists() -> None:
    paths = files("manifest-list-")
    assert len(paths) > (700 if has_shared() else 20)
    for path in paths:
        data = path.read_bytes()
        found = decode_manifest_list(data, str(path))
        expected = generic(data)
        assert len(found) == len(expected)
        for file, record in zip(found, expected, strict=True):
            stats = record["_PARTITION_STATS"]
            assert file.file_name == record["_FILE_NAME"]
            assert (file.file_size, file.num_added_files, file.num_deleted_files, file.schema_id) == (
                record["_FILE_SIZE"], record["_NUM_ADDED_FILES"], record["_NUM_DELETED_FILES"], record["_SCHEMA_ID"],
            )  # fmt: skip
            assert (file.partition_stats.min_values, file.partition_stats.max_values) == (
                stats["_MIN_VALUES"], stats["_MAX_VALUES"],
            )  # fmt: skip
            assert list(file.partition_stats.null_counts or ()) == stats["_NULL_COUNTS"]
            assert (file.min_bucket, file.max_bucket, file.min_level, file.max_level) == (
                record["_MIN_BUCKET"], record["_MAX_BUCKET"], record["_MIN_LEVEL"], record["_MAX_LEVEL"],
            )  # fmt: skip
            assert (file.min_row_id, file.max_row_id) == (record["_MIN_ROW_ID"], record["_MAX_ROW_ID"])
        again = encode_manifest_list(found, "zstd")
        assert generic(again) == expected
        assert decode_manifest_list(again, "again") == found


def test_index_manifests() -> None:
    paths = files("index-manifest-")
    assert len(paths) > (40 if has_shared() else 0)
    ranges = 0
    for path in paths:
        data = path.read_bytes()
        found = decode_index_manifest(data, str(path))
        expected = generic(data)
        for entry, record in zip(found, expected, strict=True):
            assert (entry.kind, entry.partition, entry.bucket, entry.index_type, entry.file_name) == (
                record["_KIND"], record["_PARTITION"], record["_BUCKET"], record["_INDEX_TYPE"], record["_FILE_NAME"],
            )  # fmt: skip
            assert (entry.file_size, entry.row_count, entry.external_path) == (
                record["_FILE_SIZE"], record["_ROW_COUNT"], record["_EXTERNAL_PATH"],
            )  # fmt: skip
            listed = None if entry.deletion_ranges is None else [
                {"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality}
                for r in entry.deletion_ranges
            ]  # fmt: skip
            assert listed == record["_DELETIONS_VECTORS_RANGES"]
            ranges += len(listed or ())
        again = encode_index_manifest(found, "null")
        assert generic(again) == expected
        assert decode_index_manifest(again, "again") == found
    assert ranges > (20 if has_shared() else 0)


def test_our_schemas_are_javas_to_the_byte() -> None:
    for paths, schema in (
        (manifests(), ENTRY),
        (files("manifest-list-"), MANIFEST_FILE),
        (files("index-manifest-"), INDEX_ENTRY),
    ):
        plain = [p for p in paths if "manifest_snappy" not in str(p)]
        assert java_schemas(plain[::7]) == {json.dumps(schema, separators=(",", ":"))}


def all_entries() -> pa.RecordBatch:
    batches = [decode_manifest(path.read_bytes(), str(path)) for path in manifests()]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


@pytest.mark.parametrize("compression", ["zstd", "snappy", "deflate", "null"])
def test_what_we_write_is_read_as_it_was(compression: str) -> None:
    entries = all_entries()
    data = encode_manifest(entries, compression)
    assert generic(data) == generic_of(entries)
    assert decode_manifest(data, "again").equals(entries)
    assert encode_manifest(pa.Table.from_batches([entries.slice(0, 9), entries.slice(9)]), "null")[:4] == b"Obj\x01"


def generic_of(entries: pa.RecordBatch) -> list[dict[str, Any]]:
    """Entries as fastavro would read them."""
    records: list[dict[str, Any]] = []
    for row in entries.to_pylist():
        record: dict[str, Any] = {"_VERSION": 2}
        for name, place in ENTRY_PATHS.items():
            value = row[name]
            if name == "creation_time" and value is not None:
                value = _EPOCH + datetime.timedelta(milliseconds=value)
            *parents, last = place.split(".")
            inside = record
            for step in parents:
                inside = inside.setdefault(step, {})
            inside[last] = value
        records.append(record)
    return records


def test_entries_as_objects_and_back() -> None:
    entries = all_entries().slice(3, 40)
    objects = [entry_at(entries, i) for i in range(entries.num_rows)]
    assert entries_to_batch(objects).equals(entries)
    assert len(set(objects)) > 30
    assert entries_to_batch([]).equals(entries.slice(0, 0))
