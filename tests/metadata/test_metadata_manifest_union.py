"""Manifests whose schema is a union of null and a record, as pypaimon-rust writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.avro.container import read_container, write_container
from paimon_pyds.format.avro.schema import Mapping, Primitive, parse_schema, put_long, reader_of
from paimon_pyds.metadata.manifest_codec import decode_manifest
from paimon_pyds.metadata.record_codec import decode_manifest_list


def _as_union(data: bytes, branch: int = 1) -> bytes:
    """The same records, each behind the number of its branch."""
    schema = json.loads(reader_of(Mapping(Primitive("bytes")))(data, 4)[0]["avro.schema"])
    container = read_container(data)
    read = reader_of(parse_schema(schema))
    blocks = []
    for count, block in zip(container.counts, container.blocks, strict=True):
        out, at = bytearray(), 0
        for _ in range(count):
            stop = read(block, at)[1]
            put_long(out, branch)
            out += block[at:stop]
            at = stop
        blocks.append((count, bytes(out)))
    return write_container(["null", schema], "null", blocks)


@pytest.mark.parametrize("partitions", [1, 90])
def test_the_same_entries(partitions: int, tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("p", pa.int32()), ("a", pa.int64())]), partition_by=["p"])
    rows = pa.table({"p": pa.array(range(partitions), pa.int32()), "a": list(range(partitions))})
    for _ in range(2):
        table.append(rows)
    files = sorted((tmp_path / "t" / "manifest").iterdir())
    for path in files:
        data = path.read_bytes()
        union = _as_union(data)
        if path.name.startswith("manifest-list"):
            assert decode_manifest_list(union, path.name) == decode_manifest_list(data, path.name)
        else:
            assert decode_manifest(union, path.name).equals(decode_manifest(data, path.name))
            with pytest.raises(CorruptFileError, match="null"):
                decode_manifest(_as_union(data, branch=0), path.name)
    assert len(files) >= 4


def test_tables_that_pypaimon_rust_wrote(tmp_path: Path) -> None:
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="pypaimon-rust is not installed")
    rows = pa.table({"id": [1, 2, 3], "color": ["red", None, "blue"]})
    made = pp.Table.create(tmp_path / "d.db" / "t", rows.schema)
    builder = datafusion.PaimonCatalog({"warehouse": str(tmp_path)}).get_table("d.t").new_batch_write_builder()
    writer = builder.new_write()
    for batch in rows.to_batches():
        writer.write_arrow(batch)
    builder.new_commit().commit(writer.prepare_commit())
    assert made.scan().to_arrow().to_pylist() == rows.to_pylist()
    made.append(rows)
    assert made.count("color = 'red'") == 2
