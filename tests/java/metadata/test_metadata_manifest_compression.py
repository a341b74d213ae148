"""`manifest.compression`: each codec that Java Paimon has is read and written; other tables are still read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError
from support.oracle import Oracle, requires_java_oracle

SCHEMA = pa.schema([("id", pa.int64())])
WRITTEN = ["zstd", "ZSTD", "zstandard", "snappy", "deflate", "bzip2", "xz", "null"]
NOT_WRITTEN = ["none", "lz4", "gzip", "SNAPPY"]


@requires_java_oracle
def test_codecs_of_manifests_are_java_s(tmp_path: Path, oracle: Oracle) -> None:
    names = {f"t{i}": codec for i, codec in enumerate([*WRITTEN, *NOT_WRITTEN])}
    with oracle.batch() as batch:
        replies = {}
        for name, codec in names.items():
            batch.create(tmp_path, f"db.{name}", SCHEMA)
            batch.write(tmp_path, f"db.{name}", [{"id": 1}])
            batch.alter(tmp_path, f"db.{name}", {"op": "set", "key": "manifest.compression", "value": codec})
            replies[name] = batch.write(tmp_path, f"db.{name}", [{"id": 2}], allow_fail=True)
    for name, codec in names.items():
        table = pp.Table.open(tmp_path / "db.db" / name)
        assert replies[name].ok == (codec in WRITTEN), codec
        assert table.scan().count() == 1 + replies[name].ok
        if replies[name].ok:
            table.append(pa.table({"id": [3]}, SCHEMA))
            continue
        with pytest.raises(OptionError, match=r"manifest\.compression='.*' is not known"):
            table.append(pa.table({"id": [3]}, SCHEMA))
        table.alter({"manifest.compression": "null"})
    with oracle.batch() as batch:
        read = {name: batch.read(tmp_path, f"db.{name}") for name in names}
    assert {name: len(reply.lines) for name, reply in read.items()} == {
        name: 3 if codec in WRITTEN else 1 for name, codec in names.items()
    }
