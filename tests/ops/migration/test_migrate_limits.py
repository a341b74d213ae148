"""A few kilobytes of a Delta log or of Iceberg's metadata that become gigabytes: refused before they do."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.avro.container import encode_records, read_container, write_container
from paimon_pyds.format.avro.schema import put_long
from paimon_pyds.ops.migration import limits
from paimon_pyds.storage.local import LocalFileIO
from support.effort import sampled

_PROTOCOL = '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}'
_SCHEMA = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}


def _metadata(schema: str = json.dumps(_SCHEMA)) -> str:
    return json.dumps({"metaData": {"schemaString": schema, "partitionColumns": [], "configuration": {}}})


def _delta(path: Path, *lines: str) -> Path:
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / f"{0:020}.json").write_text("\n".join(lines))
    return path


def _checkpoint(path: Path, add: pa.Array, **how: Any) -> None:
    """A log whose checkpoint adds these files."""
    _delta(path, _PROTOCOL, _metadata())
    table = pa.table({"add": add})
    pq.write_table(table, path / "_delta_log" / f"{0:020}.checkpoint.parquet", compression="zstd", **how)


def _structs(path: pa.Array, partition_values: pa.Array | None = None) -> pa.Array:
    values = pa.nulls(len(path), pa.map_(pa.string(), pa.string())) if partition_values is None else partition_values
    columns = {"path": path, "size": pa.array(np.ones(len(path), np.int64)), "partitionValues": values}
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _dictionary(count: int, text: str) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def _same_texts(path: Path) -> None:
    _checkpoint(path, _structs(_dictionary(200_000, "x" * 100_000)), store_schema=False)


def _shared_beginnings(path: Path) -> None:
    texts = pa.array(["x" * 5_000_000] * 60)
    encoding = {"add.path": "DELTA_BYTE_ARRAY"}
    _checkpoint(path, _structs(texts), use_dictionary=False, column_encoding=encoding)


def _one_large_page(path: Path) -> None:
    _checkpoint(path, _structs(pa.array(["x" * 300_000_000])), use_dictionary=False)


def _one_large_map(path: Path) -> None:
    keys = _dictionary(6_000_000, "k")
    values = pa.MapArray.from_arrays([0, len(keys)], keys, keys)
    _checkpoint(path, _structs(pa.array(["a"]), values), store_schema=False)


def _many_rows(path: Path) -> None:
    _checkpoint(path, pa.nulls(5_000_000, _structs(pa.array(["a"])).type))


def _a_wide_schema(path: Path) -> None:
    _delta(path, _PROTOCOL, _metadata("[" + "[]," * 5_000_000 + "0]"))


def _a_long_line(path: Path) -> None:
    _delta(path, _PROTOCOL, _metadata(), '{"other": "' + "x" * (limits.MAX_TEXT + limits.MAX_TEXT // 8) + '"}')


def _iceberg(path: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("iceberg.zip")) as packed:
        packed.extractall(path.parent / f"{path.name}-unpacked")
    (path.parent / f"{path.name}-unpacked" / "e").rename(path)
    return path


def _metadata_of(path: Path, text: str) -> None:
    (found,) = (_iceberg(path) / "metadata").glob("*.metadata.json")
    found.unlink()
    (path / "metadata" / "v1.gz.metadata.json").write_bytes(gzip.compress(text.encode(), 1))


def _many_lists(path: Path) -> None:
    _metadata_of(path, '{"location": "/wh/e", "other": [' + "[]," * 30_000_000 + "0]}")


def _long_metadata(path: Path) -> None:
    _metadata_of(path, '{"location": "/wh/e"' + " " * 300_000_000 + "}")


def _a_large_entry(path: Path) -> None:
    """The record of a manifest list has a map of twenty million entries, of three bytes each."""
    for manifest in (_iceberg(path) / "metadata").glob("snap-*.avro"):
        schema = {"type": "record", "name": "r", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]}
        body = bytearray()
        put_long(body, 20_000_000)
        body += b"\2a\2" * 20_000_000 + b"\0"
        manifest.write_bytes(write_container(schema, "deflate", [(1, bytes(body))]))


def _manifests_twice(path: Path) -> None:
    for manifests in (_iceberg(path) / "metadata").glob("snap-*.avro"):
        with manifests.open("rb") as file:
            reader = fastavro.reader(file)
            records, schema = list(reader), reader.writer_schema
        with manifests.open("wb") as file:
            fastavro.writer(file, schema, records * 10_000)


_MAKERS: dict[str, tuple[Callable[[Path], None], str]] = {
    # name: what makes it, what the error says
    "texts that are the same": (_same_texts, "columns of more than 256.0 MiB"),
    "texts that begin alike": (_shared_beginnings, "columns of more than 256.0 MiB"),
    "one large page": (_one_large_page, "a page of more than 256.0 MiB"),
    "one large map": (_one_large_map, "a column of more than 4,000,000 values"),
    "many rows": (_many_rows, "more than 4,000,000 actions"),
    "a wide schema": (_a_wide_schema, "more than 4,000,000 values"),
    "a long line": (_a_long_line, "a JSON document of more than 128.0 MiB"),
    "many lists": (_many_lists, "more than 4,000,000 values"),
    "long metadata": (_long_metadata, "a JSON document of more than 128.0 MiB"),
    "a large entry": (_a_large_entry, "does not decode"),
    "manifests that are listed twice": (_manifests_twice, "listed twice"),
}
_MIGRATING = """
import resource, sys
import pyarrow.parquet, numpy
resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
import paimon_pyds as pp
try:
    pp.migrate(sys.argv[1], sys.argv[1] + "-new", dry_run=True)
except BaseException as error:
    print(type(error).__name__, error, flush=True)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.parametrize("name", sampled(_MAKERS, 2))
@pytest.mark.slow
def test_memory(tmp_path: Path, name: str) -> None:
    make, message = _MAKERS[name]
    make(tmp_path / "s")
    command = [sys.executable, "-c", _MIGRATING, str(tmp_path / "s")]
    error, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert error.startswith(("UnsupportedError", "CorruptFileError")), error
    assert message in error
    assert int(peak) < 1 << 20  # KiB


@pytest.mark.parametrize("name", ["MAX_FILES", "MAX_BYTES"])
def test_live_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Those that are removed again do not count."""
    add = [json.dumps({"add": {"path": f"{n:05}", "size": 1, "partitionValues": {}}}) for n in range(2000)]
    remove = [json.dumps({"remove": {"path": f"{n:05}"}}) for n in range(1000)]
    monkeypatch.setattr(limits, name, 1500 if name == "MAX_FILES" else 1500 * (6 + len(str(tmp_path / "s"))))
    source = _delta(tmp_path / "s", _PROTOCOL, _metadata(), *add[:1000], *remove, *add[1000:])
    with pytest.raises(CorruptFileError, match="is missing"):
        pp.migrate(str(source), str(tmp_path / "t"), dry_run=True)
    source = _delta(tmp_path / "more", _PROTOCOL, _metadata(), *add)
    with pytest.raises(
        UnsupportedError, match="more than 1,500 files" if name == "MAX_FILES" else "paths and partition"
    ):
        pp.migrate(str(source), str(tmp_path / "t"), dry_run=True)


def test_texts_with_commas_are_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_VALUES", 10)
    text = json.dumps({"a": '\\"[[[,,,,,,,,,,,,,' * 10, "b\\": "{,"})
    assert limits.parse_json(text.encode(), "x") == json.loads(text)
    with pytest.raises(UnsupportedError):
        limits.parse_json(json.dumps({"a": list(range(11))}).encode(), "x")


def test_lines_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHUNK_BYTES", 7)
    for text in (b"", b"\n\n", b"a", b"a\n", b"a\nbc\n\n \ndef" * 5, b"x" * 50 + b"\n" + b"y" * 13):
        (tmp_path / "f").write_bytes(text)
        expected = [line for line in text.split(b"\n") if line.strip()]
        assert list(limits.lines(LocalFileIO(), str(tmp_path / "f"))) == expected


def test_records_of_a_block_in_parts() -> None:
    """Each is found wherever its block is cut."""
    from paimon_pyds.format.avro.container import decode_records

    schema = {"type": "record", "name": "r", "fields": [{"name": "t", "type": "string"}]}
    records = [{"t": "x" * (n % 11)} for n in range(200)]
    container = read_container(encode_records(schema, "null", records))
    for most in range(12, 40):
        assert list(decode_records(container, most)) == records
    with pytest.raises(CorruptFileError, match="does not decode"):
        list(decode_records(container, 5))


def test_files_too_large_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BYTES", 100)
    source = _iceberg(tmp_path / "s")
    with pytest.raises(UnsupportedError, match="a file of more than 100 B"):
        pp.migrate(str(source), str(tmp_path / "t"), dry_run=True)


def test_checkpoints_of_many_files(tmp_path: Path) -> None:
    """Of a usual table: texts that differ, in partitions that many files share."""
    values = pa.array([[("day", f"2024-01-{n % 28 + 1:02}")] for n in range(20_000)], pa.map_(pa.string(), pa.string()))
    _checkpoint(tmp_path / "s", _structs(pa.array([f"part-{n}.parquet" for n in range(20_000)]), values))
    path = str(tmp_path / "s" / "_delta_log" / f"{0:020}.checkpoint.parquet")
    names = limits.check_columns(LocalFileIO(), path, lambda column: column[-1] in ("path", "key", "value"))
    assert names == ["add.path", "add.partitionValues.key_value.key", "add.partitionValues.key_value.value"]
